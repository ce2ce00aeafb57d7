"""Sorting and selection in NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pullback import dtypes
from pullback.plugins.records import Kernel, may_decline
from pullback_numpy.kernels.indexing import along
from pullback_numpy.typing import Array, DType


def _argsort(x: Array, *, axis: int, descending: bool, stable: bool) -> Any:
    if x.ndim == 1 and x.size >= _DIGITS:
        order = by_digits(x[::-1] if descending else x)
        if order is not None:
            return x.size - 1 - order[::-1] if descending else order
    if x.dtype == dtypes.bfloat16:
        x = x.astype(np.float32)
    kind: Any = "stable" if stable else None
    if not descending:
        return np.argsort(x, axis, kind)
    # Backwards, so that equal elements keep their order when the result is reversed again.
    backward = (*[slice(None)] * (axis % x.ndim), slice(None, None, -1))
    order = np.argsort(x[backward], axis, kind)
    return x.shape[axis] - 1 - order[backward]


#: From this many elements on, two passes over digits of 16 bits take less time than comparisons.
_DIGITS = 4096


def by_digits(x: Array) -> Array | None:
    """The stable order of a vector by keys of 16 or 32 bits; None for dtypes that have none.

    NumPy orders numbers of 16 bits by counting, in one pass.
    """
    if x.dtype.kind in "iu":
        whole = x.view(f"u{x.dtype.itemsize}")
        low, high = x.min(), x.max()
        span = int(high) - int(low)
        if span >= 1 << 32:
            return None
        keys = (whole - low.view(whole.dtype)).astype(np.uint16 if span < 1 << 16 else np.uint32)
    elif dtypes.is_floating(x.dtype) and x.dtype.itemsize <= 4 and x.dtype.kind != "c":
        bits = x.view(f"u{x.dtype.itemsize}")
        sign = bits.dtype.type(1 << (8 * x.dtype.itemsize - 1))
        size = bits & ~sign
        keys = np.where(size < bits, ~bits, bits | sign)
        keys[size == 0] = sign  # both zeros
        keys[size > np.array(np.inf, x.dtype).view(bits.dtype)] = ~bits.dtype.type(0)  # NaN
    else:
        return None
    if keys.dtype.itemsize == 2:
        return np.argsort(keys, kind="stable")
    order = np.argsort(keys.astype(np.uint16), kind="stable")
    return order[np.argsort((keys >> np.uint32(16)).astype(np.uint16)[order], kind="stable")]


def groups(x: Array) -> tuple[Array, ...]:
    """The distinct elements in order, where each occurs first, which one each is, and counts."""
    flat = x.reshape(-1)
    order = _argsort(flat, axis=0, descending=False, stable=True)
    ordered = flat[order]
    begins = np.ones(x.size, np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=begins[1:])
    starts = begins.nonzero()[0]
    inverse = np.empty(x.size, np.int64)
    inverse[order] = begins.cumsum() - 1
    counts = np.diff(starts, append=x.size)
    return ordered[starts], order[starts], inverse.reshape(x.shape), counts


def _sort(x: Array, *, axis: int, descending: bool, stable: bool) -> Array:
    # Elements that compare equal are equal: the sort need not be stable.
    wide = x.astype(np.float32) if x.dtype == dtypes.bfloat16 else x
    ordered = np.sort(wide, axis).astype(x.dtype, copy=False)
    return np.flip(ordered, axis) if descending else ordered


#: From this many elements along the axis on, selection takes less time than sorting.
_LONG = 256
#: From this many elements in all on, passes over all rows do.
_MANY = 2048


def _top_k(x: Array, *, k: int, axis: int, largest: bool) -> tuple[Array, ...]:
    rows = (x.astype(np.float32) if x.dtype == dtypes.bfloat16 else x).swapaxes(axis, -1)
    n = rows.shape[-1]
    if not 0 <= k <= n:
        raise ValueError(f"k is {k}, and the axis has {n} elements")
    order = None
    if 0 < k <= n // 8 and rows.size >= _MANY:
        flat = rows.reshape(-1, n)
        order = _outstanding(flat, k, largest)
        if order is None and n >= _LONG:
            order = _selected(flat, k, largest)
    if order is None:
        order = _argsort(rows, axis=-1, descending=largest, stable=True)[..., :k]
    else:
        order = order.reshape(*rows.shape[:-1], k)
    values = rows[along(rows.shape, order, rows.ndim - 1)].astype(x.dtype, copy=False)
    return values.swapaxes(axis, -1), order.swapaxes(axis, -1)


def _outstanding(rows: Array, k: int, largest: bool) -> Array | None:
    """Returns what `_selected` does, if few elements are at least as large as k groups' largest.

    Each row is dealt to groups. The k-th largest of what the groups have as their largest is a
    bound that at least k elements reach, and of elements in no particular order few more do.
    """
    n = rows.shape[-1]
    groups = max(4 * k, math.isqrt(n))
    depth = n // groups
    if depth < 2 or rows.dtype.kind not in "iuf":
        return None
    extreme, reaches = (np.maximum, np.greater_equal) if largest else (np.minimum, np.less_equal)
    dealt = rows[:, : depth * groups].reshape(-1, depth, groups)
    leaders = np.concatenate([extreme.reduce(dealt, 1), rows[:, depth * groups :]], -1)
    if (leaders != leaders).any():
        return None  # NaN is behind all numbers
    at = leaders.shape[-1] - k if largest else k - 1
    bound = np.partition(leaders, at, -1)[:, at : at + 1]
    inside = reaches(rows, bound)
    counts = np.count_nonzero(inside, -1)
    width = int(counts.max())
    if width > 4 * k + 64:
        return None
    # In a row of candidates, what is missing is filled up at the end, behind its equals.
    found = np.zeros((len(rows), width), np.int64)
    filled = np.arange(width) < counts[:, None]
    found[filled] = np.flatnonzero(inside) % n
    candidates = np.take_along_axis(rows, found, -1)
    candidates[~filled] = _worst(rows.dtype, largest)
    order = _argsort(candidates, axis=-1, descending=largest, stable=True)[:, :k]
    chosen: Array = np.take_along_axis(found, order, -1)
    return chosen


def _worst(dtype: DType, largest: bool) -> Any:
    if dtype.kind == "f":
        return -math.inf if largest else math.inf
    return np.iinfo(dtype).min if largest else np.iinfo(dtype).max


def _selected(rows: Array, k: int, largest: bool) -> Array:
    """The indices of the k largest (or smallest) elements of each row, in order; not of no rows."""
    at = rows.shape[-1] - k if largest else k - 1
    last = np.partition(rows, at, -1)[:, at : at + 1]
    before, equal = (rows > last if largest else rows < last), rows == last
    none = rows != rows
    if none.any():
        # NaN is behind all numbers.
        ends = last != last
        before |= none & ~ends if largest else ~none & ends
        equal |= none & ends
    wanted = k - np.count_nonzero(before, axis=-1, keepdims=True)
    if np.count_nonzero(equal) != wanted.sum():
        equal &= np.cumsum(equal, -1) <= wanted
    inside = before | equal
    found = (np.flatnonzero(inside) % rows.shape[-1]).reshape(-1, k)
    order = _argsort(np.take_along_axis(rows, found, -1), axis=-1, descending=largest, stable=True)
    chosen: Array = np.take_along_axis(found, order, -1)
    return chosen


@may_decline
def _quantile(x: Array, *, q: Any, axis: Any, keepdims: bool, method: str) -> Any:
    if method != "linear":
        return NotImplemented
    wide = x if x.dtype.itemsize > 2 else x.astype(np.float32)
    axes = tuple(range(x.ndim)) if axis is None else axis
    kept = [a for a in range(x.ndim) if a not in axes]
    shape = [1 if a in axes else n for a, n in enumerate(x.shape) if keepdims or a not in axes]
    if not x.size:
        if 0 not in shape:
            raise ValueError("there is no quantile of nothing")
        return np.zeros(shape if isinstance(q, float) else (len(q), *shape), x.dtype)
    # C order: of an array in another, NumPy would copy each row on its own.
    rows = wide.transpose(*kept, *axes).reshape(math.prod([x.shape[a] for a in kept]), -1)
    if isinstance(q, float):
        return _at_level(rows, q, partial=True).reshape(shape).astype(x.dtype, copy=False)
    ordered = np.sort(rows, -1)
    found = np.stack([_at_level(ordered, level, partial=False) for level in q])
    return found.reshape((len(q), *shape)).astype(x.dtype, copy=False)


def _at_level(rows: Any, level: float, *, partial: bool) -> Any:
    """The quantile of each row; of rows that are sorted, or `partial`."""
    position = level * (rows.shape[-1] - 1)
    below, number = int(position), rows.dtype.type
    if partial:
        rows = np.partition(rows, below, -1)
    value, rest = rows[:, below], rows[:, below + 1 :]
    if position > below:
        # Interpolated from the nearer end, so that both ends are exact. Two infinities of one sign
        # have no difference, and nothing between them.
        above = np.minimum.reduce(rest, -1) if partial else rest[:, 0]
        step = np.where(above == value, number(0), above - value)
        share, left = number(position - below), number(1 - (position - below))
        between = value + step * share if share < 0.5 else above - step * left
        # A number beside an infinity is lost in it.
        value = np.where(np.isinf(step), value * left + above * share, between)
    # NaN is behind all numbers.
    last = np.maximum.reduce(rows[:, below:], -1) if partial else rows[:, -1]
    return np.where(last != last, number("nan"), value)


def _median(x: Array, *, axis: Any, keepdims: bool) -> Any:
    return _quantile(x, q=0.5, axis=axis, keepdims=keepdims, method="linear")


KERNELS: dict[str, Kernel] = {
    "argsort": _argsort,
    "median": _median,
    "quantile": _quantile,
    "sort": _sort,
    "top_k": _top_k,
}
