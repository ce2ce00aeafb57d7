"""Samples of normalization over the features of an item."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np

from pullback import errors
from pullback_conformance.draws import integers, normal
from pullback_conformance.sample import call, rough, suite, wrong

Array: TypeAlias = Any


def axes_of(axis: Any, ndim: int) -> tuple[int, ...]:
    """Axes as a sorted tuple of numbers from 0."""
    if axis is None:
        return tuple(range(ndim))
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    return tuple(sorted(a % ndim for a in axes))


def lay(parameter: Array, x: Array, axes: Any) -> Array:
    """A parameter of the normalized axes beside x; 1 stands for none."""
    if parameter is None:
        return None
    return parameter.reshape([n if i in axes else 1 for i, n in enumerate(x.shape)])


def mean_over(x: Array, axes: tuple[int, ...], *, keepdims: bool = True) -> Array:
    """The mean; NaN for that of nothing, of which NumPy's own warns."""
    return np.sum(x, axis=axes, keepdims=keepdims) / np.prod([x.shape[axis] for axis in axes])


def affine(y: Array, scale: Array, offset: Array, axes: Any) -> Array:
    """y * scale + offset."""
    y = y if scale is None else y * lay(scale, y, axes)
    return y if offset is None else y + lay(offset, y, axes)


def _layer_norm(
    x: Array, scale: Array = None, offset: Array = None, *, axis: Any = -1, epsilon: float = 1e-5
) -> Array:
    axes = axes_of(axis, x.ndim)
    center = mean_over(x, axes)
    variance = mean_over((x - center) ** 2, axes)
    return affine((x - center) / np.sqrt(variance + epsilon), scale, offset, axes)


def _layer_size(x: Array, scale: Array = None, offset: Array = None, **how: Any) -> Array:
    """What the terms that cancel are: (|x| + |mean|) / deviation, scaled."""
    axes = axes_of(how.get("axis", -1), x.ndim)
    center = mean_over(x, axes)
    variance = mean_over((x - center) ** 2, axes) + how.get("epsilon", 1e-5)
    size = 2 * (np.abs(x) + mean_over(np.abs(x), axes)) / np.sqrt(variance) + 1
    size = size * (1 + mean_over(np.abs(x), axes) / np.sqrt(variance))
    found = affine(
        size,
        None if scale is None else np.abs(scale),
        None if offset is None else np.abs(offset),
        axes,
    )
    return found


def _rms_norm(x: Array, scale: Array = None, *, axis: Any = -1, epsilon: float = 1e-5) -> Array:
    axes = axes_of(axis, x.ndim)
    square = mean_over(x**2, axes)
    return affine(x / np.sqrt(square + epsilon), scale, None, axes)


def _apart(last: Array, groups: int) -> Array:
    """Items, positions, groups and the channels of a group, as axes of their own."""
    items, *inner, channels = last.shape
    return last.reshape(items, math.prod(inner), groups, channels // groups)


def _of_groups(parts: Array, epsilon: float) -> tuple[Array, Array]:
    """The mean of each group of each item, and one over its standard deviation."""
    center = mean_over(parts, (1, 3))
    return center, 1 / np.sqrt(mean_over((parts - center) ** 2, (1, 3)) + epsilon)


def _group_norm(
    x: Array, scale: Array = None, offset: Array = None, *, groups: int, axis: int = -1,
    epsilon: float = 1e-5,
) -> Array:  # fmt: skip
    last = np.moveaxis(x, axis, -1)
    parts = _apart(last, groups)
    center, spread = _of_groups(parts, epsilon)
    y = ((parts - center) * spread).reshape(last.shape)
    return affine(np.moveaxis(y, -1, axis), scale, offset, (axis % x.ndim,))


def _instance_norm(x: Array, *rest: Array, axis: int = -1, epsilon: float = 1e-5) -> Array:
    return _group_norm(x, *rest, groups=x.shape[axis], axis=axis, epsilon=epsilon)


def layer_gradient(
    x: Array, scale: Array, center: Array, spread: Array, g: Array, *, axis: Any = -1,
    shared: tuple[int, ...] | None = None,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """By the chain rule through y = (x - center) * spread, both of them functions of x.

    Along the axes `shared` the parameters are the same; by default those that are not normalized.
    """
    axes = axes_of(axis, x.ndim)
    others = tuple(i for i in range(x.ndim) if i not in axes) if shared is None else shared
    y = (x - center) * spread
    h = g if scale is None else g * lay(scale, x, axes)
    level = mean_over(h, axes)
    slope = mean_over(h * y, axes)
    return (h - level - y * slope) * spread, np.sum(g * y, axis=others), np.sum(g, axis=others)


def _gradient_size(
    x: Array, scale: Array, center: Array, spread: Array, g: Array, *, axis: Any = -1,
    shared: tuple[int, ...] | None = None,
) -> tuple[Array, Array, Array]:  # fmt: skip
    axes = axes_of(axis, x.ndim)
    others = tuple(i for i in range(x.ndim) if i not in axes) if shared is None else shared
    y = (np.abs(x) + np.abs(center)) * np.abs(spread)
    h = np.abs(g if scale is None else g * lay(scale, x, axes))
    level = mean_over(h, axes)
    slope = mean_over(h * y, axes)
    total = np.sum(np.abs(g), axis=others)
    return (h + level + y * slope) * np.abs(spread), np.sum(np.abs(g) * y, axis=others), total


_LAYER = (
    call(normal(3, 5), normal(5, seed=1), normal(5, seed=2)),
    call(normal(3, 5), None, normal(5, seed=2)),
    call(normal(3, 5), normal(5, seed=1), None),
    rough(normal(2, 3, 4) + 100, None, None, note="far from 0"),
    call(normal(2, 3, 4), normal(3, 4), normal(3, 4, seed=1), axis=(1, 2)),
    call(normal(2, 3, 4), normal(2, 4), None, axis=(0, -1), epsilon=0.1),
    call(normal(2, 3), normal(2, 3), normal(2, 3, seed=1), axis=None),
    call(normal(6, 4), normal(6), normal(6, seed=1), axis=0),
    call(normal(0, 3), normal(3), normal(3), note="no items"),
    rough(np.full((2, 3), 2.0), None, None, note="all the same"),
)
_SHAPES = [
    wrong(errors.ShapeError, normal(2, 3), normal(2), None),
    wrong(errors.ShapeError, normal(2, 3), normal(1), None),
    wrong(errors.AxisError, normal(2, 3), None, None, axis=2),
]
suite("layer_norm", _layer_norm, scale=_layer_size)(*_LAYER, *_SHAPES)


def _residuals(x: Array, axis: Any) -> tuple[Array, Array]:
    axes = axes_of(axis, x.ndim)
    spread = 1 / np.sqrt(np.var(x, axis=axes, keepdims=True) + 0.1)
    return mean_over(x, axes), spread


suite("layer_norm_gradient", layer_gradient, scale=_gradient_size)(
    *(
        call(
            normal(*shape),
            scale,
            *_residuals(normal(*shape), axis),
            normal(*shape, seed=3),
            axis=axis,
        )
        for shape, scale, axis in (
            ((3, 5), normal(5, seed=1), -1),
            ((3, 5), None, -1),
            ((2, 3, 4), normal(3, 4), (1, 2)),
            ((2, 3, 4), normal(2, 4), (0, 2)),
            ((2, 3), normal(2, 3), None),
        )
    ),
    wrong(errors.ShapeError, normal(3, 5), normal(1), normal(3, 1), normal(3, 1), normal(3, 5)),
)
suite("rms_norm", _rms_norm)(
    call(normal(3, 5), normal(5, seed=1)),
    call(normal(3, 5), None),
    call(normal(2, 3, 4), normal(3, 4), axis=(1, 2), epsilon=0.1),
    call(normal(2, 3), normal(2, 3), axis=None),
    call(normal(0, 3), normal(3), note="no items"),
    call(normal(3, 0), normal(0), note="nothing to normalize"),
    call(integers(-5, 5, 2, 3), None, note="integers"),
    wrong(errors.ShapeError, normal(2, 3), normal(2)),
)
suite(
    "rms_norm_gradient",
    lambda x, scale, spread, g, *, axis=-1: _rms_gradient(x, scale, spread, g, axis),
    scale=lambda x, scale, spread, g, *, axis=-1: _rms_gradient(
        np.abs(x), None if scale is None else np.abs(scale), spread, np.abs(g), axis, 1
    ),
)(
    call(normal(3, 5), normal(5, seed=1), normal(3, 1) ** 2 + 1, normal(3, 5, seed=3)),
    call(normal(3, 5), None, normal(3, 1) ** 2 + 1, normal(3, 5, seed=3)),
    call(
        normal(2, 3, 4),
        normal(3, 4),
        normal(2, 1, 1) ** 2 + 1,
        normal(2, 3, 4, seed=3),
        axis=(1, 2),
    ),
)


def _rms_gradient(
    x: Array, scale: Array, spread: Array, g: Array, axis: Any, sign: int = -1
) -> tuple[Array, Array]:
    axes = axes_of(axis, x.ndim)
    others = tuple(i for i in range(x.ndim) if i not in axes)
    y = x * spread
    h = g if scale is None else g * lay(scale, x, axes)
    slope = mean_over(h * y, axes)
    return (h + sign * y * slope) * spread, np.sum(g * y, axis=others)


def _grouped_size(x: Array, *rest: Array, **how: Any) -> Array:
    """The terms of a group are at most its largest distances over its deviation."""
    del how["groups"]
    sizes = [np.ones(()) if p is None else 1 + np.max(np.abs(p), initial=0) for p in rest]
    return np.full(x.shape, 16 * sizes[0] * (sizes[1] if len(sizes) > 1 else 1))


def _instance_size(x: Array, *rest: Array, **how: Any) -> Array:
    return _grouped_size(x, *rest, groups=1)


suite("group_norm", _group_norm, scale=_grouped_size)(
    call(normal(2, 3, 6), normal(6, seed=1), normal(6, seed=2), groups=2),
    call(normal(2, 4, 3, 3), normal(4), None, groups=2, axis=1),
    call(normal(3, 4), None, None, groups=1, epsilon=0.1),
    call(normal(0, 4), None, None, groups=2, note="no items"),
    call(normal(2, 0, 4), normal(4), None, groups=2, note="nothing to normalize"),
    wrong(errors.ShapeError, normal(2, 3, 5), None, None, groups=2),
    wrong(errors.ShapeError, normal(5), None, None, groups=1),
    wrong(errors.ShapeError, normal(2, 4), normal(3), None, groups=2),
)


def group_gradient(
    x: Array, scale: Array, g: Array, *, groups: int, axis: int = -1, epsilon: float = 1e-5,
    size: bool = False,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """That of layer normalization, of each group of each item."""
    last, g = np.moveaxis(x, axis, -1), np.moveaxis(g, axis, -1)
    h = g if scale is None else g * scale
    parts, apart_g, apart_h = (_apart(one, groups) for one in (last, g, h))
    given = (parts, None, *_of_groups(parts, epsilon))
    rule = _gradient_size if size else layer_gradient
    dx, *_ = rule(*given, apart_h, axis=(1, 3))
    _, *of_parameters = rule(*given, apart_g, axis=(1, 3), shared=(0, 1))
    dscale, doffset = (one.reshape(-1) for one in of_parameters)
    return np.moveaxis(dx.reshape(last.shape), -1, axis), dscale, doffset


def _group_gradient_size(*x: Array, **how: Any) -> tuple[Array, Array, Array]:
    return group_gradient(*x, **how, size=True)


suite("group_norm_gradient", group_gradient, scale=_group_gradient_size)(
    call(normal(2, 3, 6), normal(6, seed=1), normal(2, 3, 6, seed=2), groups=2),
    call(normal(2, 4, 3, 3), normal(4), normal(2, 4, 3, 3, seed=2), groups=2, axis=1),
    call(normal(2, 3, 4), None, normal(2, 3, 4, seed=2), groups=1, epsilon=0.1),
    call(normal(0, 4), None, normal(0, 4), groups=2, note="no items"),
    call(normal(2, 0, 4), normal(4), normal(2, 0, 4), groups=2, note="nothing to normalize"),
    wrong(errors.ShapeError, normal(2, 3, 5), None, normal(2, 3, 5), groups=2),
    wrong(errors.ShapeError, normal(2, 4), normal(3), normal(2, 4), groups=2),
    wrong(errors.ShapeError, normal(2, 4), None, normal(4), groups=2),
)
suite("instance_norm", _instance_norm, scale=_instance_size)(
    call(normal(2, 5, 3), normal(3, seed=1), normal(3, seed=2)),
    call(normal(2, 3, 4, 2), None, normal(3), axis=1, epsilon=0.1),
    call(normal(2, 0, 3), normal(3), None, note="nothing to normalize"),
    wrong(errors.ShapeError, normal(2, 4, 3), normal(4), None),
)
