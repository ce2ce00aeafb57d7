"""Running sums and products in NumPy.

`np.add.accumulate` adds one element after another. Long sums run in two levels, within blocks and
over the blocks' totals, so that an error grows with the root of the length.
"""

from __future__ import annotations

import numpy as np

from pullback.plugins.backend import Kernel
from pullback_numpy.kernels.reductions import accumulation
from pullback_numpy.typing import Array, DType

_BLOCK = 256
_SHORT = 2 * _BLOCK


def _cumulative_sum(x: Array, *, axis: int, dtype: DType, include_initial: bool) -> Array:
    wide, result = accumulation(x, dtype)
    if wide.kind in "iu" or x.shape[axis] <= _SHORT:
        sums = np.add.accumulate(x, axis, wide)
    else:
        line = np.moveaxis(x.astype(wide, copy=False), axis, -1)
        sums = np.moveaxis(_long_sum(line), -1, axis)
    return _with_initial(sums.astype(result, copy=False), axis, 0 if include_initial else None)


def _long_sum(x: Array) -> Array:
    n = x.shape[-1]
    if n <= _SHORT:
        return np.add.accumulate(x, -1)
    whole = n - n % _BLOCK
    blocks = x[..., :whole].reshape(*x.shape[:-1], whole // _BLOCK, _BLOCK)
    sums = np.add.accumulate(blocks, -1)
    totals = _long_sum(sums[..., -1])
    sums[..., 1:, :] += totals[..., :-1, None]
    y = np.empty_like(x, shape=x.shape)
    y[..., :whole] = sums.reshape(*x.shape[:-1], whole)
    if whole < n:
        y[..., whole:] = np.add.accumulate(x[..., whole:], -1) + totals[..., -1:]
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


def _cumulative_logsumexp(x: Array, *, axis: int) -> Array:
    wide = x.astype(np.float32) if x.dtype.itemsize == 2 else x
    return np.logaddexp.accumulate(wide, axis).astype(x.dtype, copy=False)


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
}
