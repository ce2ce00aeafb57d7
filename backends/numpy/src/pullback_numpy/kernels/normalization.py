"""Normalization in NumPy: few passes, in place."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pullback.backend import Kernel
from pullback_numpy.kernels.precision import like, wide
from pullback_numpy.kernels.reductions import tree_sum


def _laid_out(parameter: Any, shape: Any, axes: Any) -> Any:
    if axes is None or parameter.ndim == len(shape):
        return parameter
    return parameter.reshape([n if i in axes else 1 for i, n in enumerate(shape)])


def _size(shape: Any, axes: Any) -> int:
    return math.prod(shape if axes is None else [shape[a] for a in axes])


def _mean(x: Any, axes: Any) -> Any:
    """The mean over axes, which are kept; an array of x's dtype even where x is 0-d."""
    rows = axes == (x.ndim - 1,) and x.flags.c_contiguous
    if rows and x.shape[-1] <= 4096:
        # BLAS adds in several lanes, and starts no loop for each row.
        flat = x.reshape(-1, x.shape[-1])
        total = np.dot(flat, np.ones(x.shape[-1], x.dtype)).reshape((*x.shape[:-1], 1))
    else:
        total = np.asarray(tree_sum(x, axes, True))
    return total / x.dtype.type(_size(x.shape, axes) or math.nan)


def _mean_product(a: Any, b: Any, axes: Any) -> Any:
    """The mean of a * b over axes, which are kept."""
    if axes == (a.ndim - 1,) and a.flags.c_contiguous and b.flags.c_contiguous and a.size:
        shape = (-1, 1, a.shape[-1])
        total = np.matmul(a.reshape(shape), b.reshape(shape).transpose(0, 2, 1))
        return total.reshape((*a.shape[:-1], 1)) / a.dtype.type(a.shape[-1])
    return _mean(a * b, axes)


def _affine(y: Any, scale: Any, offset: Any, axes: Any) -> Any:
    if scale is not None:
        y *= _laid_out(scale, y.shape, axes)
    if offset is not None:
        y += _laid_out(offset, y.shape, axes)
    return y


def _layer_norm(x: Any, scale: Any, offset: Any, *, axis: Any, epsilon: float) -> Any:
    w = wide(x)
    center = np.asarray(_mean(w, axis))
    y = np.subtract(w, center, out=np.empty(w.shape, w.dtype))
    spread = np.asarray(_mean_product(y, y, axis) + w.dtype.type(epsilon))
    np.sqrt(spread, out=spread)
    np.reciprocal(spread, out=spread)
    y *= spread
    return like(_affine(y, scale, offset, axis), x), center, spread


def _others(x: Any, axes: Any) -> Any:
    return () if axes is None else tuple(i for i in range(x.ndim) if i not in axes)


def _over_rows(x: Any, axes: Any) -> Any:
    """The sum over axes; over no axes x itself."""
    return tree_sum(x, axes, False) if axes else x


def _layer_norm_gradient(x: Any, scale: Any, center: Any, spread: Any, g: Any, *, axis: Any) -> Any:
    w, h = wide(x), wide(g)
    y = np.subtract(w, center, out=np.empty(w.shape, w.dtype))
    y *= spread
    others = _others(w, axis)
    dscale, doffset = _over_rows(h * y, others), _over_rows(h, others)
    dx = np.multiply(h, 1 if scale is None else _laid_out(scale, w.shape, axis),
                     out=np.empty(w.shape, w.dtype))  # fmt: skip
    slope = _mean_product(dx, y, axis)
    dx -= _mean(dx, axis)
    y *= slope
    dx -= y
    dx *= spread
    return like(dx, x), like(np.asarray(dscale), x), like(np.asarray(doffset), x)


def _rms_norm(x: Any, scale: Any, *, axis: Any, epsilon: float) -> Any:
    w = wide(x)
    spread = np.asarray(_mean_product(w, w, axis) + w.dtype.type(epsilon))
    np.sqrt(spread, out=spread)
    np.reciprocal(spread, out=spread)
    y = np.multiply(w, spread, out=np.empty(w.shape, w.dtype))
    return like(_affine(y, scale, None, axis), x), spread


def _rms_norm_gradient(x: Any, scale: Any, spread: Any, g: Any, *, axis: Any) -> Any:
    w, h = wide(x), wide(g)
    y = np.multiply(w, spread, out=np.empty(w.shape, w.dtype))
    dscale = _over_rows(h * y, _others(w, axis))
    dx = np.multiply(h, 1 if scale is None else _laid_out(scale, w.shape, axis),
                     out=np.empty(w.shape, w.dtype))  # fmt: skip
    y *= _mean_product(dx, y, axis)
    dx -= y
    dx *= spread
    return like(dx, x), like(np.asarray(dscale), x)


def _batch_norm(x: Any, scale: Any, offset: Any, *, axis: int, epsilon: float) -> Any:
    w = wide(x)
    others = _others(w, (axis,))
    center = np.asarray(_mean(w, others))
    y = np.subtract(w, center, out=np.empty(w.shape, w.dtype))
    variance = np.asarray(_mean(y * y, others))
    factor = 1 / np.sqrt(variance + w.dtype.type(epsilon))
    if scale is not None:
        factor = factor * _laid_out(scale, w.shape, (axis,))
    y *= factor
    y = _affine(y, None, offset, (axis,))
    return like(y, x), center.reshape(-1), variance.reshape(-1)


def _batch_norm_gradient(
    x: Any, scale: Any, mean: Any, variance: Any, g: Any, mean_g: Any, variance_g: Any,
    *, axis: int, epsilon: float,
) -> Any:  # fmt: skip
    w, h = wide(x), wide(g)
    shape, channel, others = w.shape, (axis,), _others(w, (axis,))
    count = w.dtype.type(max(1, w.size // max(1, shape[axis])))
    away = np.subtract(w, _laid_out(mean, shape, channel), out=np.empty(shape, w.dtype))
    spread = 1 / np.sqrt(variance + w.dtype.type(epsilon))
    level = np.asarray(tree_sum(h, others, False)) if others else h
    slope = (np.asarray(tree_sum(h * away, others, False)) if others else h * away) * spread
    factor = spread if scale is None else spread * scale
    by_x = (variance_g * 2 - factor * spread * slope) / count
    away *= _laid_out(by_x, shape, channel)
    away += _laid_out((mean_g - factor * level) / count, shape, channel)
    away += h * _laid_out(factor, shape, channel)
    return like(away, x), like(slope, x), like(level, x)


def _batch_norm_inference(
    x: Any, mean: Any, variance: Any, scale: Any, offset: Any, *, axis: int, epsilon: float
) -> Any:
    w = wide(x)
    factor = 1 / np.sqrt(wide(variance).astype(w.dtype, copy=False) + w.dtype.type(epsilon))
    if scale is not None:
        factor = factor * scale
    factor = factor.astype(w.dtype, copy=False)
    y = np.subtract(w, _laid_out(mean, w.shape, (axis,)), out=np.empty(w.shape, w.dtype))
    y *= _laid_out(factor, w.shape, (axis,))
    return like(_affine(y, None, offset, (axis,)), x)


KERNELS: dict[str, Kernel] = {
    "batch_norm": _batch_norm,
    "batch_norm_gradient": _batch_norm_gradient,
    "batch_norm_inference": _batch_norm_inference,
    "layer_norm": _layer_norm,
    "layer_norm_gradient": _layer_norm_gradient,
    "rms_norm": _rms_norm,
    "rms_norm_gradient": _rms_norm_gradient,
}
