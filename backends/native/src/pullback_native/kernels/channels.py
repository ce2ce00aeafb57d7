"""Batch normalization of few elements whose channels do not come last: they are moved there."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.plugins.records import Kernel
from pullback_native import _native
from pullback_native.loops import FLOAT32, FLOAT64, Array
from pullback_numpy.kernels import KERNELS as NUMPY_KERNELS

#: Up to so many elements two copies take less time than NumPy's calls.
_FEW = 16384


def _inferred(
    x: Array, mean: Array, variance: Array, scale: Any, offset: Any, *, epsilon: float
) -> Any:
    """(x - mean) * factor + offset of channels that come last, in NumPy's order."""
    factor = 1 / np.sqrt(variance.astype(x.dtype, copy=False) + epsilon)
    if scale is not None:
        factor = factor * scale
    y = _native.subtract(x, mean.astype(x.dtype, copy=False))
    y = _native.multiply(y, factor.astype(x.dtype, copy=False))
    return y if offset is None else _native.add(y, offset.astype(x.dtype, copy=False))


def _moved(name: str) -> Kernel:
    """NumPy's kernel, for calls that the compiled one hands over; it gets some of them back."""
    compiled, numpy = getattr(_native, name), NUMPY_KERNELS[name]

    def kernel(*inputs: Any, axis: int, **attributes: Any) -> Any:
        x: Array = inputs[0]
        rank = x.ndim
        if name == "batch_norm_inference" and axis == rank - 1 and x.dtype == FLOAT64:
            return _inferred(*inputs, **attributes)
        if axis == rank - 1 or x.size > _FEW or x.dtype != FLOAT32:
            return numpy(*inputs, axis=axis, **attributes)
        last = (*range(axis), *range(axis + 1, rank), axis)
        back = (*range(axis), rank - 1, *range(axis, rank - 1))

        def laid(one: Any, axes: tuple[int, ...]) -> Any:
            if one is None or one.ndim != rank:
                return one
            return np.ascontiguousarray(one.transpose(axes))

        found = compiled(*[laid(one, last) for one in inputs], axis=rank - 1, **attributes)
        if isinstance(found, tuple):
            return tuple([laid(one, back) for one in found])
        return laid(found, back)

    return kernel


#: What the compiled kernels hand calls over to, in place of NumPy's kernels.
FALLBACKS: dict[str, Kernel] = {
    name: _moved(name) for name in ("batch_norm", "batch_norm_gradient", "batch_norm_inference")
}
