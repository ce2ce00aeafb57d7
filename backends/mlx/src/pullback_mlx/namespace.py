"""MLX as the array API standard has it: its functions with the keywords of the standard."""

from __future__ import annotations

import math
from typing import Any

import mlx.core as mx
import numpy as np

from pullback.dtypes import bfloat16

Array = Any
#: Positions are int64, and MLX's own uint32.
_POSITIONS = mx.int64


#: log(2) in two parts: the first has few bits, so that its multiples are exact.
_LOG2 = 0.693359375, -2.12194440e-4
#: exp(r) = 1 + r + r^2 p(r), for |r| <= log(2) / 2 (Cephes' expf).
_EXP = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 0.5)


def exp(x: Array) -> Array:
    """MLX's exp is off by 30 ulp, and 0 where the result is subnormal."""
    wide = x.astype(mx.float32)
    bounded = mx.clip(wide, -104.0, 89.0)
    k = mx.round(bounded * 1.44269504)
    r = (bounded - k * _LOG2[0]) - k * _LOG2[1]
    p = mx.full(r.shape, _EXP[0], mx.float32)
    for c in _EXP[1:]:
        p = p * r + c
    y = r * r * p + r + 1
    half = mx.floor(k / 2)
    y = y * _power_of_two(half) * _power_of_two(k - half)
    y = mx.where(wide > 88.73, mx.full(y.shape, math.inf, mx.float32), y)
    y = mx.where(wide < -103.98, mx.zeros_like(y), y)
    return mx.where(mx.isnan(wide), wide, y).astype(x.dtype)


def _power_of_two(k: Array) -> Array:
    bits = (k.astype(mx.int32) + 127) << 23
    return bits.view(mx.float32) if k.ndim else bits.reshape(1).view(mx.float32).reshape(())


class Namespace:
    """MLX with the keywords of the standard."""

    def __getattr__(self, name: str) -> Any:
        if name in ("float64", "complex128"):  # MLX computes its functions in float32
            raise AttributeError(name)
        return getattr(mx, name)

    @staticmethod
    def asarray(value: Any, *, dtype: Any = None, copy: bool = False) -> Array:
        """An array of an array, of a NumPy array or of numbers."""
        if type(value) is int and value >= 2**63:  # which mx.array does not take
            value = np.asarray(value, np.uint64)
        array = value if isinstance(value, mx.array) and not copy else mx.array(value)
        return array if dtype is None else array.astype(dtype)

    exp = staticmethod(exp)

    @staticmethod
    def astype(x: Array, dtype: Any, *, copy: bool = True) -> Array:
        """A conversion."""
        return x.astype(dtype)

    @staticmethod
    def sum(x: Array, *, axis: Any, dtype: Any = None, keepdims: bool = False) -> Array:
        """A sum; MLX's of nothing is at times any number."""
        x = x if dtype is None else x.astype(dtype)
        if not x.size:
            return _of_nothing(x, axis, keepdims, 0)
        if x.dtype == mx.float32 and not mx.is_available(mx.gpu):
            # On a CPU MLX adds one number after the other.
            return mx.sum(x.astype(mx.float64), axis, keepdims).astype(mx.float32)
        return mx.sum(x, axis, keepdims)

    @staticmethod
    def prod(x: Array, *, axis: Any, dtype: Any = None, keepdims: bool = False) -> Array:
        """A product; MLX's of nothing is 0."""
        x = x if dtype is None else x.astype(dtype)
        return mx.prod(x, axis, keepdims) if x.size else _of_nothing(x, axis, keepdims, 1)

    @staticmethod
    def cumulative_sum(
        x: Array, *, axis: int, dtype: Any = None, include_initial: bool = False
    ) -> Array:
        """A running sum."""
        x = x if dtype is None else x.astype(dtype)
        return _running(mx.cumsum, x, axis, 0 if include_initial else None)

    @staticmethod
    def cumulative_prod(
        x: Array, *, axis: int, dtype: Any = None, include_initial: bool = False
    ) -> Array:
        """A running product."""
        x = x if dtype is None else x.astype(dtype)
        return _running(mx.cumprod, x, axis, 1 if include_initial else None)

    @staticmethod
    def argsort(
        x: Array, *, axis: int = -1, descending: bool = False, stable: bool = True
    ) -> Array:
        """The order of the elements, the same among equal ones."""
        if not x.size:
            return mx.zeros(x.shape, _POSITIONS)
        return mx.argsort(x, axis).astype(_POSITIONS)

    @staticmethod
    def argmax(x: Array, *, axis: int | None, keepdims: bool = False) -> Array:
        """The position of the largest element, NaN being larger than all."""
        return _extremum(mx.argmax, x, axis, keepdims)

    @staticmethod
    def argmin(x: Array, *, axis: int | None, keepdims: bool = False) -> Array:
        """The position of the smallest element, NaN being smaller than all."""
        return _extremum(mx.argmin, x, axis, keepdims)

    @staticmethod
    def searchsorted(x1: Array, x2: Array, *, side: str = "left", sorter: Any = None) -> Array:
        """The positions at which elements are to be inserted."""
        ordered = x1 if sorter is None else mx.take(x1, sorter)
        if not x1.size or not x2.size:
            return mx.zeros(x2.shape, _POSITIONS)
        return mx.searchsorted(ordered, x2, side).astype(_POSITIONS)

    @staticmethod
    def all(x: Array, *, axis: Any = None, keepdims: bool = False) -> Array:
        """True where all elements are; of complex numbers both parts count."""
        return mx.all(x != 0, axis, keepdims) if x.size else _of_nothing(x, axis, keepdims, True)

    @staticmethod
    def any(x: Array, *, axis: Any = None, keepdims: bool = False) -> Array:
        """True where any element is."""
        return mx.any(x != 0, axis, keepdims) if x.size else _of_nothing(x, axis, keepdims, False)


def _extremum(function: Any, x: Array, axis: int | None, keepdims: bool) -> Array:
    if not x.size:
        if (x.size if axis is None else x.shape[axis]) == 0:
            raise ValueError("there are no elements along the axis")
        return _of_nothing(x, axis, keepdims, 0).astype(_POSITIONS)
    if mx.issubdtype(x.dtype, mx.floating):
        missing = mx.isnan(x)
        first = mx.argmax(missing, axis, keepdims)
        found = mx.where(mx.any(missing, axis, keepdims), first, function(x, axis, keepdims))
        return found.astype(_POSITIONS)
    return function(x, axis, keepdims).astype(_POSITIONS)


def _running(function: Any, x: Array, axis: int, first: int | None) -> Array:
    y = function(x, axis).astype(x.dtype) if x.size else x
    if first is None:
        return y
    start = mx.full((*x.shape[:axis], 1, *x.shape[axis + 1 :]), first, x.dtype)
    return mx.concatenate([start, y], axis)


def _of_nothing(x: Array, axis: Any, keepdims: bool, value: Any) -> Array:
    axes = range(x.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
    gone = {a % x.ndim for a in axes} if x.ndim else set()
    shape = [1 if a in gone else n for a, n in enumerate(x.shape) if keepdims or a not in gone]
    return mx.full(shape, value, mx.bool_ if isinstance(value, bool) else x.dtype)


def host(x: Array) -> np.ndarray[Any, Any]:
    """The values in NumPy."""
    if x.dtype == mx.bfloat16:
        return np.array(x.view(mx.uint16)).view(bfloat16)
    return np.array(x)


def native(x: Any) -> Array:
    """An array with the values of NumPy's."""
    x = np.asarray(x)
    # A copy: of one element, NumPy keeps negative steps of what it takes for contiguous.
    laid = np.array(x, order="C").reshape(x.shape)
    if laid.dtype == bfloat16:  # which mx.array does not know
        return mx.array(laid.view(np.uint16)).view(mx.bfloat16)
    return mx.array(laid)
