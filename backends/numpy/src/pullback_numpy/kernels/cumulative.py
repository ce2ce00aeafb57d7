"""Running sums and products in NumPy.

`np.add.accumulate` adds one element after another. Long sums of float32 are taken in double
precision. Others, of numbers and of exponentials, run in two levels, within blocks and over the
blocks' totals, so that an error grows with the root of the length.
"""

from __future__ import annotations

import numpy as np

from pullback.casting import HALF
from pullback.plugins.records import Kernel
from pullback_numpy.half import astype, narrowed, widened
from pullback_numpy.kernels.reductions import accumulation, converted
from pullback_numpy.typing import Array, DType

_BLOCK = 128
_SHORT = 2 * _BLOCK


def _cumulative_sum(x: Array, *, axis: int, dtype: DType, include_initial: bool) -> Array:
    wide, result = accumulation(x, dtype)
    if wide.kind in "iu" or x.shape[axis] <= _SHORT:
        sums = np.add.accumulate(x, axis, wide)
    elif wide.char == "f":
        sums = converted(x, wide).astype(np.float64)
        np.add.accumulate(sums, axis, out=sums)
        if result in HALF:
            # NumPy takes long to convert what is too large for float16.
            sums = astype(sums.astype(np.float32), result)
    else:
        sums = _in_blocks(np.add, converted(x, wide), axis)
    return _with_initial(sums.astype(result, copy=False), axis, 0 if include_initial else None)


def _in_blocks(combine: np.ufunc, x: Array, axis: int) -> Array:
    if x.shape[axis] <= _SHORT:
        return combine.accumulate(x, axis)
    return np.moveaxis(_long(combine, np.moveaxis(x, axis, -1)), -1, axis)


def _long(combine: np.ufunc, x: Array) -> Array:
    n = x.shape[-1]
    if n <= _SHORT:
        return combine.accumulate(x, -1)
    whole = n - n % _BLOCK
    blocks = x[..., :whole].reshape(*x.shape[:-1], whole // _BLOCK, _BLOCK)
    within = combine.accumulate(blocks, -1)
    totals = _long(combine, within[..., -1])
    combine(within[..., 1:, :], totals[..., :-1, None], out=within[..., 1:, :])
    y = np.empty_like(x, shape=x.shape)
    y[..., :whole] = within.reshape(*x.shape[:-1], whole)
    if whole < n:
        y[..., whole:] = combine(combine.accumulate(x[..., whole:], -1), totals[..., -1:])
    return y


def _cumulative_prod(x: Array, *, axis: int, dtype: DType, include_initial: bool) -> Array:
    wide, result = accumulation(x, dtype)
    products = np.multiply.accumulate(x, axis, wide).astype(result, copy=False)
    return _with_initial(products, axis, 1 if include_initial else None)


def _with_initial(x: Array, axis: int, value: int | None) -> Array:
    if value is None:
        return x
    initial = np.full((*x.shape[:axis], 1, *x.shape[axis + 1 :]), value, x.dtype)
    return np.concatenate([initial, x], axis)


#: Of so many vectors side by side one step after the other is taken, without blocks.
_MANY = 512


def _linear_recurrence(a: Array, b: Array, *, axis: int, reverse: bool) -> Array:
    if a.shape != b.shape or a.dtype != b.dtype:
        raise ValueError("factors and terms of two shapes or dtypes")
    if not b.size:
        return b
    wide = np.promote_types(np.float64, widened(b).dtype)
    factors, terms = (np.moveaxis(widened(x), axis, 0).astype(wide) for x in (a, b))
    if reverse:
        factors, terms = np.roll(factors, -1, 0)[::-1], terms[::-1]
    shape = terms.shape
    y = _recurrent(factors.reshape(shape[0], -1), terms.reshape(shape[0], -1)).reshape(shape)
    y = np.moveaxis(y[::-1] if reverse else y, 0, axis)
    return narrowed(y.astype(widened(b).dtype, copy=False), b)


def _recurrent(a: Array, b: Array) -> Array:
    """The recurrence along the first of two axes, by blocks, whose carries are another one."""
    n, many = b.shape
    step = _BLOCK if n > _SHORT and many < _MANY else n
    count = -(-n // step)
    # Elements at one place of all blocks are neighbours.
    factors, y = (_beside(x, step, count) for x in (a, b))
    for i in range(1, step):
        y[i] += factors[i] * y[i - 1]
        if count > 1:
            factors[i] *= factors[i - 1]
    if count > 1:
        if not np.isfinite(factors).all():
            return _one_by_one(a, b)
        carries = _recurrent(factors[-1], y[-1])
        y[:, 1:] += factors[:, 1:] * carries[:-1]
    return y.swapaxes(0, 1).reshape(-1, many)[:n]


def _beside(x: Array, step: int, count: int) -> Array:
    padded = np.zeros((count * step, x.shape[1]), x.dtype)
    padded[: len(x)] = x
    return np.ascontiguousarray(padded.reshape(count, step, -1).swapaxes(0, 1))


def _one_by_one(a: Array, b: Array) -> Array:
    """The same where products of factors leave the range, though what they multiply may be 0."""
    y = b.copy()
    for i in range(1, len(y)):
        y[i] += a[i] * y[i - 1]
    return y


def _cumulative_logsumexp(x: Array, *, axis: int) -> Array:
    wide = widened(x)
    return _in_blocks(np.logaddexp, wide, axis).astype(x.dtype, copy=False)


def _cumulative_max(x: Array, *, axis: int) -> Array:
    return np.maximum.accumulate(x, axis)


def _cumulative_min(x: Array, *, axis: int) -> Array:
    return np.minimum.accumulate(x, axis)


KERNELS: dict[str, Kernel] = {
    "cumulative_logsumexp": _cumulative_logsumexp,
    "cumulative_max": _cumulative_max,
    "cumulative_min": _cumulative_min,
    "cumulative_prod": _cumulative_prod,
    "cumulative_sum": _cumulative_sum,
    "linear_recurrence": _linear_recurrence,
}
