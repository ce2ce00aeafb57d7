"""The kernels: those of `pullback.array_api` over MLX, and its own where MLX differs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mlx.core as mx
import numpy as np

from pullback import array_api
from pullback.casting import cast, number
from pullback.dtypes import DType, name_of
from pullback.plugins.compiling import require
from pullback.plugins.records import Kernel, may_decline
from pullback_mlx.namespace import Array, Namespace, host, native

GENERIC = array_api.kernels(Namespace(), widen=True)
_HALF = (mx.float16, mx.bfloat16)


def on_host(function: Callable[..., Any]) -> Kernel:
    """A kernel of NumPy's: for what MLX lacks, or computes less exactly than the op has to be."""

    def kernel(*inputs: Any, **attributes: Any) -> Array:
        arrays = [None if x is None else host(x) for x in inputs]
        with np.errstate(all="ignore"):
            return native(function(*arrays, **attributes))

    return kernel


def _floats(x: Array) -> bool:
    return bool(mx.issubdtype(x.dtype, mx.floating))


def _matmul(x1: Array, x2: Array) -> Array:
    """Products of floats in float32; MLX has none of integers, which are sums of products here."""
    if not _floats(x1) and x1.dtype != mx.complex64:
        return _integer_matmul(x1, x2)
    wide = x1.dtype in _HALF
    a, b = (x.astype(mx.float32) if wide else x for x in (x1, x2))
    y = mx.matmul(a, b) if x1.size and x2.size else GENERIC["matmul"](a, b)
    return y.astype(x1.dtype) if wide else y


def _integer_matmul(x1: Array, x2: Array) -> Array:
    a = x1[None] if x1.ndim == 1 else x1
    b = x2[:, None] if x2.ndim == 1 else x2
    y = mx.sum(a[..., :, :, None] * b[..., None, :, :], -2).astype(x1.dtype)
    if x2.ndim == 1:
        y = y[..., 0]
    return y[..., 0, :] if x1.ndim == 1 and x2.ndim > 1 else y[0] if x1.ndim == 1 else y


def _places(x: Array, indices: Array, axis: int) -> tuple[Any, ...]:
    require(
        mx.all((indices >= -x.shape[axis]) & (indices < x.shape[axis])),
        IndexError(f"a position is out of range for axis {axis} of size {x.shape[axis]}"),
    )
    return (slice(None),) * axis + (indices.flatten(),)


def _shape(x: Array, indices: Array, axis: int) -> tuple[int, ...]:
    return (*x.shape[:axis], indices.size, *x.shape[axis + 1 :])


def _scatter_add(x: Array, indices: Array, updates: Array, *, axis: int) -> Array:
    if not indices.size:
        return x
    key = _places(x, indices, axis)
    if not x.size or not updates.size:
        return x
    wide = x.dtype in _HALF
    y, added = (a.astype(mx.float32) if wide else a for a in (x, updates))
    return y.at[key].add(added.reshape(_shape(x, indices, axis))).astype(x.dtype)


def _scatter_update(x: Array, indices: Array, updates: Array, *, axis: int) -> Array:
    if not indices.size:
        return x
    key = _places(x, indices, axis)
    if not x.size or not updates.size:
        return x
    y = mx.array(x)
    y[key] = updates.reshape(_shape(x, indices, axis))
    return y


def _take(x: Array, indices: Array, *, axis: int) -> Array:
    if not indices.size:
        return mx.zeros((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]), x.dtype)
    _places(x, indices, axis)
    return mx.take(x, indices, axis)


def _sign(x: Array) -> Array:
    if not _floats(x):
        return GENERIC["sign"](x)
    y = mx.sign(x)
    return mx.where(x == 0, mx.zeros_like(x), mx.where(mx.isnan(x), x, y))


def _bitcast(x: Array, *, dtype: DType, parts: int, whole: int) -> Array:
    kind = getattr(mx, name_of(dtype))
    if not x.ndim and parts == 1:
        return x.reshape(1).view(kind).reshape(())
    y = (x[..., None] if parts > 1 else x).view(kind)
    return y[..., 0] if whole > 1 else y


def _signbit(x: Array) -> Array:
    """The bit itself: comparisons do not see the sign of NaN."""
    if not _floats(x):
        return x < 0
    bits = {2: mx.int16, 4: mx.int32}[x.itemsize]
    return x.view(bits) < 0 if x.ndim else x.reshape(1).view(bits).reshape(()) < 0


def _copysign(x1: Array, x2: Array) -> Array:
    size = mx.abs(x1)
    # The largest negative integers have no sign to lose: these are floats.
    return mx.where(_signbit(x2), -size, size)


def _quotient(x1: Array, x2: Array) -> Array:
    """x1 // x2 of integers, 0 where x2 is; the smallest number by -1 ends a process in MLX."""
    if mx.issubdtype(x1.dtype, mx.unsignedinteger):
        return mx.where(x2 == 0, mx.zeros_like(x1), x1 // mx.where(x2 == 0, mx.ones_like(x2), x2))
    apart = (x2 == 0) | (x2 == -1)
    safe = mx.where(apart, mx.ones_like(x2), x2)
    towards_zero = x1 // safe
    # MLX may round towards zero: the remainder tells.
    rest = x1 - towards_zero * safe
    down = (rest != 0) & ((rest < 0) != (safe < 0))
    found = towards_zero - down.astype(x1.dtype)
    return mx.where(x2 == 0, mx.zeros_like(x1), mx.where(x2 == -1, -x1, found)).astype(x1.dtype)


def _remainder(x1: Array, x2: Array) -> Array:
    if not _floats(x1):
        return mx.where(x2 == 0, mx.zeros_like(x1), x1 - _quotient(x1, x2) * x2).astype(x1.dtype)
    wide = x1.dtype in _HALF
    a, b = (x.astype(mx.float32) if wide else x for x in (x1, x2))
    y = mx.remainder(a, b)
    # A remainder of zero has the sign of the divisor.
    return mx.where(y == 0, _copysign(y, b), y).astype(x1.dtype)


def _floor_divide(x1: Array, x2: Array) -> Array:
    return GENERIC["floor_divide"](x1, x2) if _floats(x1) else _quotient(x1, x2)


def _shift(left: bool) -> Kernel:
    def kernel(x1: Array, x2: Array) -> Array:
        bits = 8 * x1.itemsize
        beyond = (x2 >= bits) | (x2 < 0)
        by = mx.where(beyond, mx.zeros_like(x2), x2)
        if left:
            return mx.where(beyond, mx.zeros_like(x1), x1 << by)
        filled = mx.where(x1 < 0, -mx.ones_like(x1), mx.zeros_like(x1))
        return mx.where(beyond, filled, x1 >> by)

    return kernel


def _full(*, shape: Any, fill_value: Any, dtype: Any, device: Any) -> Array:
    return native(np.full(shape, number(fill_value, dtype), dtype))


def _arange(*, start: Any, stop: Any, step: Any, dtype: Any, device: Any) -> Array:
    integers = all(isinstance(x, int) for x in (start, stop, step))
    if np.dtype(dtype).kind in "iu" and integers:
        return native(np.arange(start, stop, step, dtype=dtype))
    length = max(0, math.ceil((stop - start) / step))
    return native(cast(start + step * np.arange(length, dtype=np.float64), dtype))


def _odd(name: str) -> Kernel:
    """A function whose value at -0.0 is -0.0."""
    function = GENERIC[name]
    return lambda x: mx.where(x == 0, x, function(x))


def _nextafter(x1: Array, x2: Array) -> Array:
    """One step among the numbers in their order, which that of their bits is."""
    kind, bits = {2: (mx.int16, 15), 4: (mx.int32, 31)}[x1.itemsize]
    sign = mx.array(-(1 << bits), kind)
    x1, x2 = mx.broadcast_arrays(x1, x2)
    a, b = (x.reshape(x.shape or (1,)).view(kind) for x in (x1, x2))
    place, goal = (mx.where(x < 0, -(x & ~sign), x) for x in (a, b))
    place = place + (goal > place).astype(kind) - (goal < place).astype(kind)
    # A zero that is stepped on has the sign of where the step began.
    stepped = mx.where(place < 0, -place | sign, mx.where(place == 0, a & sign, place))
    y = mx.where(stepped == a, b, stepped).view(x1.dtype).reshape(x1.shape)
    return mx.where(mx.isnan(x1) | mx.isnan(x2), x1 + x2, y)


def _argwhere(x: Array) -> Array:
    return on_host(np.argwhere)(x)


@may_decline
def _attention(
    query: Array,
    key: Array,
    value: Array,
    mask: Array | None,
    *,
    is_causal: bool,
    scale: float,
    softcap: float | None = None,
    window: Any = None,
    residuals: bool = True,
) -> Array:
    """MLX's fused attention, which has no residuals to give."""
    served = query.ndim == 4 and mask is None and query.size and key.size
    changed = softcap is not None or window is not None
    if residuals or not served or changed or query.dtype not in (mx.float32, *_HALF):
        return NotImplemented
    if is_causal and query.shape[-2] != key.shape[-2]:
        return NotImplemented
    kind = "causal" if is_causal else None
    q, k, v = (x.astype(mx.float32) for x in (query, key, value))
    y = mx.fast.scaled_dot_product_attention(q, k, v, scale=scale, mask=kind)
    return y.astype(query.dtype)


KERNELS: dict[str, Kernel] = {
    **GENERIC,
    "arange": _arange,
    "argwhere": _argwhere,
    "bitcast": _bitcast,
    "bitwise_left_shift": _shift(left=True),
    "bitwise_right_shift": _shift(left=False),
    "copysign": _copysign,
    "floor_divide": _floor_divide,
    "full": _full,
    "integer_floor_divide": _quotient,
    "remainder": _remainder,
    "sin": _odd("sin"),
    "matmul": _matmul,
    "nextafter": _nextafter,
    "scaled_dot_product_attention": _attention,
    "scatter_add": _scatter_add,
    "scatter_update": _scatter_update,
    "sign": _sign,
    "signbit": _signbit,
    "take": _take,
}
