"""Layer, RMS and batch normalization with their gradients."""

from __future__ import annotations

import math
from typing import Any

import cupy

from pullback.casting import compute_dtype
from pullback.dtypes import DType
from pullback.plugins.records import Kernel
from pullback.shapes import Shape
from pullback_cupy.compile import contiguous, elementwise, over_rows, reduction
from pullback_cupy.typing import Array


class _Rows:
    """The layout of x with the normalized axes as rows of a matrix, and its inverse."""

    def __init__(self, x: Array, axes: Shape | None) -> None:
        self.axes = tuple(range(x.ndim)) if axes is None else axes
        self.last = tuple(range(x.ndim - len(self.axes), x.ndim))
        self.moved = [n for i, n in enumerate(x.shape) if i not in self.axes]
        self.shape = (*self.moved, *(x.shape[i] for i in self.axes))
        self.kept = [1 if i in self.axes else n for i, n in enumerate(x.shape)]
        self.rows, self.columns = math.prod(self.moved), math.prod(self.shape[len(self.moved) :])

    def of(self, x: Array) -> Array:
        """x as (rows, columns), contiguous."""
        moved = x if self.axes == self.last else cupy.moveaxis(x, self.axes, self.last)
        return contiguous(moved).reshape(self.rows, self.columns)

    def back(self, y: Array) -> Array:
        """The inverse of `of`: y in the shape of x."""
        y = y.reshape(self.shape)
        return y if self.axes == self.last else cupy.moveaxis(y, self.last, self.axes)

    def parameter(self, p: Array | None) -> Array | None:
        """A scale or offset along the columns; None stays None."""
        return None if p is None else contiguous(p)

    def statistic(self, p: Array, x: Array) -> Array:
        """A number for each row, in the dtype of the computation."""
        return contiguous(p).astype(compute_dtype(x.dtype), copy=False).reshape(self.rows, 1)


def _type(parameter: Array | None, x: Array) -> DType:
    dtype: DType = x.dtype if parameter is None else parameter.dtype
    return dtype


def _norms(name: str, rows: _Rows, x: Array, arguments: Any, **dtypes: Any) -> None:
    types = {"T": x.dtype, "S": x.dtype, "O": x.dtype, "G": x.dtype, **dtypes}
    over_rows("norms", name, rows.rows, rows.columns, arguments, **types)


def _layer_norm(
    x: Array, scale: Array | None, offset: Array | None, *, axis: Shape | None, epsilon: float
) -> tuple[Array, ...]:
    layout = _Rows(x, axis)
    w, s, o = layout.of(x), layout.parameter(scale), layout.parameter(offset)
    y, center, spread = (
        cupy.empty_like(w),
        *(cupy.empty(layout.kept, compute_dtype(x.dtype)) for _ in "cs"),
    )
    _norms(
        "layer_norm",
        layout,
        x,
        (w, s, o, y, center, spread, layout.rows, layout.columns, epsilon),
        S=_type(scale, x),
        O=_type(offset, x),
    )
    return layout.back(y), center, spread


_scale_sum = reduction(
    "scale_gradient", "T x, G g, W center, W spread", "W out",
    "W(g) * ((W(x) - center) * spread)",
)  # fmt: skip
_rms_scale_sum = reduction(
    "rms_scale_gradient", "T x, G g, W spread", "W out", "W(g) * (W(x) * spread)"
)


def _layer_norm_gradient(
    x: Array, scale: Array | None, center: Array, spread: Array, g: Array, *, axis: Shape | None
) -> tuple[Array, ...]:
    layout = _Rows(x, axis)
    w, h, s = layout.of(x), layout.of(g), layout.parameter(scale)
    middle, width = layout.statistic(center, x), layout.statistic(spread, x)
    dx, shape = cupy.empty_like(w), layout.shape[len(layout.moved) :]
    _norms(
        "layer_norm_gradient",
        layout,
        x,
        (w, s, middle, width, h, dx, layout.rows, layout.columns),
        S=_type(scale, x),
        G=g.dtype,
    )
    dscale = _scale_sum(w, h, middle, width, axis=0)
    doffset = h.sum(axis=0, dtype=compute_dtype(x.dtype))
    dtype = x.dtype
    return (
        layout.back(dx),
        dscale.astype(dtype).reshape(shape),
        doffset.astype(dtype).reshape(shape),
    )


def _rms_norm(
    x: Array, scale: Array | None, *, axis: Shape | None, epsilon: float
) -> tuple[Array, ...]:
    layout = _Rows(x, axis)
    w, s = layout.of(x), layout.parameter(scale)
    y, spread = cupy.empty_like(w), cupy.empty(layout.kept, compute_dtype(x.dtype))
    _norms(
        "rms_norm",
        layout,
        x,
        (w, s, y, spread, layout.rows, layout.columns, epsilon),
        S=_type(scale, x),
    )
    return layout.back(y), spread


def _rms_norm_gradient(
    x: Array, scale: Array | None, spread: Array, g: Array, *, axis: Shape | None
) -> tuple[Array, ...]:
    layout = _Rows(x, axis)
    w, h, s = layout.of(x), layout.of(g), layout.parameter(scale)
    width = layout.statistic(spread, x)
    dx = cupy.empty_like(w)
    _norms(
        "rms_norm_gradient",
        layout,
        x,
        (w, s, width, h, dx, layout.rows, layout.columns),
        S=_type(scale, x),
        G=g.dtype,
    )
    dscale = _rms_scale_sum(w, h, width, axis=0)
    return layout.back(dx), dscale.astype(x.dtype).reshape(layout.shape[len(layout.moved) :])


# Batch normalization: over all axes but that of the channels ----------------------------------

_square_sum = reduction("square_sum", "T x, W center", "W out", "(W(x) - center) * (W(x) - center)")
_product_sum = reduction("product_sum", "T x, G g, W center", "W out", "W(g) * (W(x) - center)")
_normalized = elementwise(
    "batch_norm", "T x, W center, W variance, W scale, W offset, float64 epsilon", "T y",
    "y = T((W(x) - center) * (scale / sqrt(variance + W(epsilon))) + offset);",
)  # fmt: skip
_combined = elementwise(
    "batch_norm_gradient", "T x, G g, W center, W factor, W by_x, W constant", "T dx",
    "dx = T(W(g) * factor + (W(x) - center) * by_x + constant);",
)  # fmt: skip


def _channels(p: Array, x: Array, axis: int) -> Array:
    """A number for each channel, in the wide dtype and a shape that broadcasts with x."""
    shape = [n if i == axis else 1 for i, n in enumerate(x.shape)]
    return p.astype(compute_dtype(x.dtype), copy=False).reshape(shape)


def _numbers(p: Array | None, default: int, x: Array, axis: int) -> Array:
    if p is None:
        return cupy.full([1] * x.ndim, default, compute_dtype(x.dtype))
    return _channels(p, x, axis)


def _others(x: Array, axis: int) -> tuple[int, ...]:
    return tuple(i for i in range(x.ndim) if i != axis)


def _count(x: Array, axis: int) -> int:
    return int(x.size // max(1, x.shape[axis]))


def _batch_norm(
    x: Array, scale: Array | None, offset: Array | None, *, axis: int, epsilon: float
) -> tuple[Array, ...]:
    if x.ndim == 1:  # no axes to reduce over
        y, mean, variance = _batch_norm(x[None], scale, offset, axis=1, epsilon=epsilon)
        return y[0], mean, variance
    others, W = _others(x, axis), compute_dtype(x.dtype)
    count = _count(x, axis) or math.nan
    center = x.sum(axis=others, dtype=W, keepdims=True) / W.type(count)
    variance = _square_sum(x, center, axis=others, keepdims=True) / W.type(count)
    parameters = _numbers(scale, 1, x, axis), _numbers(offset, 0, x, axis)
    y = _normalized(x, center, variance, *parameters, epsilon)
    return y, center.reshape(-1), variance.reshape(-1)


def _batch_norm_gradient(
    x: Array, scale: Array | None, mean: Array, variance: Array, g: Array, mean_g: Array,
    variance_g: Array, *, axis: int, epsilon: float,
) -> tuple[Array, ...]:  # fmt: skip
    if x.ndim == 1:
        dx, slope, level = _batch_norm_gradient(
            x[None], scale, mean, variance, g[None], mean_g, variance_g, axis=1, epsilon=epsilon
        )
        return dx[0], slope, level
    others, W = _others(x, axis), compute_dtype(x.dtype)
    number, count = W.type, max(1, _count(x, axis))
    center = _channels(mean, x, axis)
    spread = 1 / cupy.sqrt(variance.astype(W, copy=False) + number(epsilon))
    level = g.sum(axis=others, dtype=W)
    slope = _product_sum(x, g, center, axis=others) * spread
    factor = spread if scale is None else spread * scale.astype(W, copy=False)
    by_x = (variance_g.astype(W, copy=False) * number(2) - factor * spread * slope) / number(count)
    constant = (mean_g.astype(W, copy=False) - factor * level) / number(count)
    dx = _combined(x, g, center, *[_channels(p, x, axis) for p in (factor, by_x, constant)])
    return dx, slope.astype(x.dtype), level.astype(x.dtype)


def _batch_norm_inference(
    x: Array,
    mean: Array,
    variance: Array,
    scale: Array | None,
    offset: Array | None,
    *,
    axis: int,
    epsilon: float,
) -> Array:
    parameters = [_channels(p, x, axis) for p in (mean, variance)]
    parameters += [_numbers(scale, 1, x, axis), _numbers(offset, 0, x, axis)]
    return _normalized(x, *parameters, epsilon)


KERNELS: dict[str, Kernel] = {
    "batch_norm": _batch_norm,
    "batch_norm_gradient": _batch_norm_gradient,
    "batch_norm_inference": _batch_norm_inference,
    "layer_norm": _layer_norm,
    "layer_norm_gradient": _layer_norm_gradient,
    "rms_norm": _rms_norm,
    "rms_norm_gradient": _rms_norm_gradient,
}
