"""Samples of batch normalization."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from pullback import errors
from pullback_conformance.draws import normal
from pullback_conformance.sample import call, rough, suite, wrong
from pullback_conformance.samples.normalization import affine, mean_over

Array: TypeAlias = Any


def _others(x: Array, axis: int) -> tuple[int, ...]:
    return tuple(i for i in range(x.ndim) if i != axis % x.ndim)


def _lay(p: Array, x: Array, axis: int) -> Array:
    return p.reshape([n if i == axis % x.ndim else 1 for i, n in enumerate(x.shape)])


def _batch_norm(
    x: Array, scale: Array = None, offset: Array = None, *, axis: int = -1, epsilon: float = 1e-3
) -> tuple[Array, Array, Array]:
    center = mean_over(x, _others(x, axis), keepdims=False)
    away = x - _lay(center, x, axis)
    variance = mean_over(away**2, _others(x, axis), keepdims=False)
    y = away / np.sqrt(_lay(variance, x, axis) + epsilon)
    return affine(y, scale, offset, (axis % x.ndim,)), center, variance


def _sizes(
    x: Array, scale: Array = None, offset: Array = None, *, axis: int = -1, epsilon: float = 1e-3
) -> tuple[Array, Array, Array]:
    center = mean_over(np.abs(x), _others(x, axis), keepdims=False)
    _, _, variance = _batch_norm(x, axis=axis, epsilon=epsilon)
    size = np.abs(x) + _lay(center, x, axis)
    deviation = np.sqrt(_lay(variance, x, axis) + epsilon)
    terms = 4 * size / deviation * (1 + _lay(center, x, axis) / deviation) + 2
    sizes = [None if p is None else np.abs(p) for p in (scale, offset)]
    y = affine(terms, sizes[0], sizes[1], (axis % x.ndim,))
    return y, center, mean_over(size**2, _others(x, axis), keepdims=False)


_PARAMETERS = (normal(3, seed=1), normal(3, seed=2))
suite("batch_norm", _batch_norm, scale=_sizes)(
    call(normal(5, 3), *_PARAMETERS),
    call(normal(2, 4, 4, 3), None, None),
    call(normal(2, 3, 4, 4), *_PARAMETERS, axis=1, epsilon=0.1),
    rough(normal(4, 2, 3) + 50, _PARAMETERS[0], None, note="far from 0"),
    call(normal(3, 4), None, _PARAMETERS[1], axis=0),
    wrong(errors.ShapeError, normal(5, 3), normal(2), None),
    wrong(errors.ShapeError, normal(5, 3), normal(1), None),
    wrong(errors.ShapeError, normal(5, 3), None, normal(5)),
    wrong(errors.AxisError, normal(5, 3), None, None, axis=2),
)


def _gradient(
    x: Array, scale: Array, mean: Array, variance: Array, g: Array, mean_g: Array,
    variance_g: Array, *, axis: int = -1, epsilon: float = 1e-3, sign: int = -1,
) -> tuple[Array, Array, Array]:  # fmt: skip
    others = _others(x, axis)
    count = x.size // x.shape[axis]
    deviation = np.sqrt(variance + epsilon)
    y = (x + sign * _lay(mean, x, axis)) / _lay(deviation, x, axis)
    level, slope = np.sum(g, axis=others), np.sum(g * y, axis=others)
    factor = (1 if scale is None else scale) / deviation
    dx = (
        _lay(factor, x, axis)
        * (g + sign * (_lay(level, x, axis) + y * _lay(slope, x, axis)) / count)
        + _lay(mean_g, x, axis) / count
        + _lay(2 * variance_g * deviation, x, axis) / count * y
    )
    return dx, slope, level


def _gradient_size(*inputs: Array, **how: Any) -> tuple[Array, Array, Array]:
    sizes = [None if value is None else np.abs(value) for value in inputs]
    return _gradient(*sizes, **how, sign=1)


suite("batch_norm_gradient", _gradient, scale=_gradient_size)(
    call(
        normal(5, 3),
        normal(3),
        normal(3) / 9,
        normal(3) ** 2 + 1,
        normal(5, 3, seed=2),
        normal(3, seed=3),
        normal(3, seed=4),
    ),
    call(
        normal(2, 3, 4),
        None,
        normal(3) / 9,
        normal(3) ** 2 + 1,
        normal(2, 3, 4, seed=2),
        normal(3, seed=3),
        normal(3, seed=4),
        axis=1,
        epsilon=0.1,
    ),
)


def _inference(
    x: Array, mean: Array, variance: Array, scale: Array = None, offset: Array = None, *,
    axis: int = -1, epsilon: float = 1e-3,
) -> Array:  # fmt: skip
    y = (x - _lay(mean, x, axis)) / np.sqrt(_lay(variance, x, axis) + epsilon)
    return affine(y, scale, offset, (axis % x.ndim,))


def _inference_size(x: Array, mean: Array, variance: Array, *rest: Array, **how: Any) -> Array:
    sizes = [None if value is None else np.abs(value) for value in rest]
    return _inference(np.abs(x), -np.abs(mean), variance, *sizes, **how)


_MOMENTS = (normal(3, seed=3), normal(3, seed=4) ** 2 + 0.5)
suite("batch_norm_inference", _inference, scale=_inference_size)(
    call(normal(5, 3), *_MOMENTS, *_PARAMETERS),
    call(normal(2, 3, 4), *_MOMENTS, None, None, axis=1, epsilon=0.1),
    call(normal(2, 4, 3), *_MOMENTS, None, _PARAMETERS[1]),
    call(normal(0, 3), *_MOMENTS, *_PARAMETERS, note="empty"),
    wrong(errors.ShapeError, normal(5, 3), normal(2), normal(3), None, None),
)
