"""Activation functions in NumPy: few passes, in place, without `np.where`.

`np.where` and masked copies take a branch per element: 5 to 7 ns on random signs, where a pass of
arithmetic takes 0.3.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.casting import HALF
from pullback.plugins.records import Kernel
from pullback_numpy import threads
from pullback_numpy.half import has_negative_nan, narrowed, positive, widened
from pullback_numpy.kernels.elementwise import maximum, where
from pullback_numpy.pieces import bounded, fresh, in_pieces
from pullback_numpy.typing import Array

_BITS = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}


def masked(g: Array, mask: Array) -> Array:
    """g where mask is True, else 0: g's bits times 0 or 1, so that infinities become 0 as well."""
    bits = _BITS[g.itemsize]
    y: Array = np.multiply(np.ascontiguousarray(g).view(bits), mask)
    return y.view(g.dtype).reshape(g.shape)


def _relu(x: Array) -> Any:
    if x.dtype in HALF and not has_negative_nan(x):
        # As integers, numbers with the sign bit are negative, and the others are in their order.
        return np.maximum(x.view(np.int16), np.int16(0)).view(x.dtype)
    return maximum(x, np.asarray(0, x.dtype))


def _relu_gradient(g: Array, out: Array) -> Array:
    if g.shape != out.shape:
        g, out = np.broadcast_arrays(g, out)
    zero = out.dtype.type(0)
    if g.size < threads.LARGE or not (g.flags.c_contiguous and out.flags.c_contiguous):
        return masked(g, positive(out) if out.dtype in HALF else np.greater(out, zero))
    bits = _BITS[g.itemsize]
    dx = np.empty(g.shape, g.dtype)
    flat_g, flat_out, flat_dx = g.reshape(-1), out.reshape(-1), dx.reshape(-1).view(bits)

    def work(piece: slice) -> None:
        part = flat_out[piece]
        mask = positive(part) if part.dtype in HALF else np.greater(part, zero)
        np.multiply(flat_g[piece].view(bits), mask, out=flat_dx[piece])

    threads.over(work, g.size)
    return dx


def _prelu(x: Array, slope: Array) -> Any:
    return where(x > x.dtype.type(0), x, x * slope)


def _leaky_relu(x: Array, *, negative_slope: float) -> Array:
    w = widened(x)
    scaled = np.multiply(w, w.dtype.type(negative_slope), out=fresh(w))
    if 0 < negative_slope <= 1:  # 0 times infinity is NaN
        return narrowed(np.maximum(w, scaled, out=scaled), x)
    return narrowed(np.where(w > 0, w, scaled), x)


#: Below, a float32 sigmoid is subnormal and has lost digits, which x times it would show.
_SUBNORMAL = -80


def _all_above_subnormal(x: Array) -> bool:
    """False for NaN too, which hides the least number."""
    return not x.size or bool(np.minimum.reduce(x, axis=None) >= _SUBNORMAL)


def _sigmoid(x: Array, y: Array) -> None:
    if not _all_above_subnormal(x):
        # exp(-x) overflows, or loses digits before it does: this takes a second exponential.
        e = np.abs(x, out=fresh(x))
        np.negative(e, out=e)
        np.exp(e, out=e)
        e += 1
        bounded(x, y, most=0)
        np.exp(y, out=y)
        y /= e
        return
    np.negative(x, out=y)
    np.exp(y, out=y)
    y += 1
    np.reciprocal(y, out=y)


def _softplus(x: Array, y: Array) -> None:
    np.abs(x, out=y)
    np.negative(y, out=y)
    np.exp(y, out=y)
    np.log1p(y, out=y)
    y += bounded(x, fresh(x), 0)


def _log_sigmoid(x: Array, y: Array) -> None:
    np.abs(x, out=y)
    np.negative(y, out=y)
    np.exp(y, out=y)
    np.log1p(y, out=y)
    # The sum first: it is -0 where it is too small for the dtype.
    left = np.negative(x, out=fresh(x))
    np.add(bounded(left, left, 0), y, out=y)
    np.negative(y, out=y)


_SELU_ALPHA = 1.6732632423543772
_SELU_SCALE = 1.0507009873554805


def _silu(x: Array, y: Array) -> None:
    _sigmoid(x, y)
    y *= bounded(x, fresh(x), -1000)  # where the sigmoid is 0, and 0 * inf would be NaN
    _far_left(x, y)


def _far_left(x: Array, y: Array) -> None:
    """x * exp(x) below `_SUBNORMAL`, rounded to a subnormal number only once."""
    if not _all_above_subnormal(x):
        far = np.less(x, _SUBNORMAL)
        left = np.maximum(x[far], -1000)
        half = _half_exponential(left)
        y[far] = half * left * half


def _half_exponential(x: Array) -> Array:
    """exp(x / 2) as a factor that comes in twice, and so with half of the error: in float64."""
    half: Array = np.exp(x * x.dtype.type(0.5), dtype=np.float64)
    return half


def _selu(x: Array, y: Array) -> None:
    bounded(x, y, most=0)
    np.expm1(y, out=y)
    y *= y.dtype.type(_SELU_SCALE * _SELU_ALPHA)
    y[...] = where(np.greater(x, x.dtype.type(0)), x * x.dtype.type(_SELU_SCALE), y)


def _mish(x: Array, y: Array) -> None:
    # tanh(log(1 + e)) = n / (n + 2) with e = exp(x) and n = e (e + 2); it is 1 from 40 on.
    e = bounded(x, fresh(x), most=40)
    # In float64: five roundings follow, and NumPy's float32 has an error of 2.5 ulp by itself.
    np.exp(e, out=e, dtype=np.float64, casting="same_kind")
    np.add(e, e.dtype.type(2), out=y)
    y *= e
    np.add(y, y.dtype.type(2), out=e)
    y /= e
    y *= bounded(x, fresh(x), -1000)
    _far_left(x, y)


def _elu(x: Array, *, alpha: float) -> Any:
    def into(x: Array, y: Array) -> None:
        bounded(x, y, most=0)
        np.expm1(y, out=y)
        y *= y.dtype.type(alpha)
        y[...] = where(np.greater(x, x.dtype.type(0)), x, y)

    return in_pieces(into)(x)


#: 1 in each dtype: a ufunc takes half a microsecond to make an array of a Python number.
_ONE = {np.dtype(kind): np.ones((), kind) for kind in ("f4", "f8", "c8", "c16")}


def _tanh_gradient(g: Array, out: Array, y: Array) -> None:
    one = _ONE[out.dtype]
    np.subtract(one, out, y)
    y *= np.add(one, out)
    y *= g


def _sigmoid_gradient(g: Array, out: Array, y: Array) -> None:
    np.subtract(_ONE[out.dtype], out, y)
    y *= out
    y *= g


def _silu_gradient(g: Array, x: Array, y: Array) -> None:
    s = fresh(x)
    _sigmoid(x, s)
    np.subtract(_ONE[x.dtype], s, y)
    y *= bounded(x, fresh(x), -1000, 1000)  # where 1 - s or s is 0, and 0 * inf would be NaN
    y += 1
    y *= s
    y *= g
    far_left_gradient(g, x, y)


def far_left_gradient(g: Array, x: Array, y: Array) -> None:
    """g times the slope of x * exp(x) below `_SUBNORMAL`, as `_far_left`."""
    if not _all_above_subnormal(x):
        far = np.less(x, _SUBNORMAL)
        left = np.maximum(x[far], -2000)  # exp(-1000) is 0 in every dtype
        half = _half_exponential(left)
        y[far] = g[far] * half * (left + 1) * half


KERNELS: dict[str, Kernel] = {
    "elu": _elu,
    "leaky_relu": _leaky_relu,
    "log_sigmoid": in_pieces(_log_sigmoid),
    "mish": in_pieces(_mish),
    "prelu": _prelu,
    "relu": _relu,
    "relu_gradient": _relu_gradient,
    "selu": in_pieces(_selu),
    "sigmoid": in_pieces(_sigmoid),
    "sigmoid_gradient": in_pieces(_sigmoid_gradient),
    "silu": in_pieces(_silu),
    "silu_gradient": in_pieces(_silu_gradient),
    "softplus": in_pieces(_softplus),
    "tanh_gradient": in_pieces(_tanh_gradient),
}
