"""Layer, root mean square, group and instance normalization.

Statistics of 16-bit values are computed in float32. The variance is the mean of squared distances
from the mean: E[x^2] - E[x]^2 cancels when the mean is large.
"""

from __future__ import annotations

import math
from typing import Any

from pullback import dtypes, errors
from pullback._dispatch import op
from pullback.dtypes import Operands, Resolution, real_floating
from pullback.ops.exponential import sqrt
from pullback.ops.manipulation import permute_dims, reshape
from pullback.ops.precision import narrowed, widened
from pullback.ops.reductions import mean, sum
from pullback.shapes import Axes, Axis, Shape, checked, reduced
from pullback.spec import ACCUMULATED
from pullback.tensor import Tensor

__all__ = ["group_norm", "instance_norm", "layer_norm", "rms_norm"]


def _parameter_shape(x: Shape, axes: Shape | None) -> Shape:
    """The shape of scale and offset: that of the normalized axes."""
    return x if axes is None else tuple([x[axis] for axis in axes])


def check_parameter(name: str, shape: Shape | None, expected: Shape) -> None:
    if shape is not None and shape != expected:
        raise errors.ShapeError(f"{name} must have shape {expected}, got {shape}")


def parameter_along(parameter: Tensor, x: Shape, axes: Any) -> Tensor:
    """A parameter of the normalized axes, with size 1 at the other axes that broadcasting lacks."""
    if axes is None or len(parameter.shape) == len(x) or axes == (len(x) - 1,):
        return parameter
    return reshape(parameter, tuple(n if i in axes else 1 for i, n in enumerate(x)))


def other_axes(x: Shape, axes: Any) -> tuple[int, ...]:
    """The axes that are not normalized; none if all are."""
    return () if axes is None else tuple(i for i in range(len(x)) if i not in axes)


def _normalized_shape(
    x: Shape, scale: Shape | None, offset: Shape | None = None, *, axis: Shape | None, **_: object
) -> Shape:
    """The shape of x; the parameters have that of the normalized axes."""
    if scale is not None or offset is not None:
        expected = _parameter_shape(x, axis)
        check_parameter("scale", scale, expected)
        check_parameter("offset", offset, expected)
    return x


# Layer normalization --------------------------------------------------------------------------
# ACCUMULATED: the mean is a sum, and x - mean cancels.


@op(
    shape=_normalized_shape,
    dtype=real_floating,
    accuracy=ACCUMULATED,
    residuals=("center", "spread"),
    normalize=checked(_normalized_shape),
)
def layer_norm(
    x: Tensor,
    scale: Tensor | None = None,
    offset: Tensor | None = None,
    *,
    axis: Axes = -1,
    epsilon: float = 1e-5,
) -> Tensor:
    """(x - mean) / sqrt(variance + epsilon) * scale + offset over `axis` (Ba et al., 2016).

    Args:
        x: real floating values.
        scale: factors in the shape of the normalized axes; None for no factors.
        offset: numbers of the same shape that are added; None for no offset.
        axis: the axes of mean and variance; all if None.
        epsilon: added to the variance for numerical stability.

    Raises:
        ShapeError: if scale or offset do not have the shape of the normalized axes.

    >>> pb.layer_norm([[1.0, 3.0], [10.0, 30.0]], epsilon=0.0).tolist()
    [[-1.0, 1.0], [-1.0, 1.0]]
    """
    wide = widened(x)
    center = mean(wide, axis=axis, keepdims=True)
    centered = wide - center
    variance = mean(centered * centered, axis=axis, keepdims=True)
    spread = 1 / sqrt(variance + epsilon)
    y = affine(centered * spread, scale, offset, axis)
    return narrowed(y, x), center, spread  # type: ignore[return-value]


def affine(y: Tensor, scale: Tensor | None, offset: Tensor | None, axis: Axes) -> Tensor:
    """y * scale + offset."""
    if scale is not None:
        y = y * parameter_along(scale, y.shape, axis)
    if offset is not None:
        y = y + parameter_along(offset, y.shape, axis)
    return y


def gradient_dtypes(operands: Operands, **_: object) -> Resolution:
    """Each input keeps its dtype; the results have that of x."""
    inputs = dtypes.each("any")(operands).inputs
    dtype = inputs[0]
    assert dtype is not None
    return Resolution(inputs, (dtype,) * 3)


def _gradient_shapes(
    x: Shape, scale: Shape | None, center: Shape, spread: Shape, g: Shape, *, axis: Shape | None
) -> list[Shape]:
    """The shape of x, and that of the normalized axes, twice."""
    parameter = _parameter_shape(x, axis)
    check_parameter("scale", scale, parameter)
    check_parameter("center", center, reduced(x, axis, True))
    check_parameter("spread", spread, reduced(x, axis, True))
    check_parameter("g", g, x)
    return [x, parameter, parameter]


@op(
    shape=_gradient_shapes,
    dtype=gradient_dtypes,
    accuracy=ACCUMULATED,
    outputs=("x_gradient", "scale_gradient", "offset_gradient"),
    normalize=checked(_gradient_shapes),
    public=False,
)
def layer_norm_gradient(
    x: Tensor, scale: Tensor | None, center: Tensor, spread: Tensor, g: Tensor, *, axis: Axes = -1
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of `layer_norm` with respect to x, scale and offset.

    Args:
        x: the input of the op.
        scale: the input of the op.
        center: the mean of x over axis, with keepdims.
        spread: 1 / sqrt(variance + epsilon) over axis, with keepdims.
        g: the gradient with respect to the result.
        axis: the normalized axes.

    >>> x, center, spread = [[1.0, 3.0]], [[2.0]], [[1.0]]
    >>> gradients = pb.ops.layer_norm_gradient(x, None, center, spread, [[1.0, 0.0]])
    >>> [gradient.tolist() for gradient in gradients]
    [[[0.0, 0.0]], [-1.0, 0.0], [1.0, 0.0]]
    """
    wide, g = widened(x), widened(g)
    normalized = (wide - center) * spread
    dy = g if scale is None else g * parameter_along(scale, wide.shape, axis)
    dy_mean = mean(dy, axis=axis, keepdims=True)
    projection = mean(dy * normalized, axis=axis, keepdims=True)
    dx = (dy - dy_mean - normalized * projection) * spread
    others = other_axes(wide.shape, axis)
    dscale, doffset = sum(g * normalized, axis=others), sum(g, axis=others)
    return narrowed(dx, x), narrowed(dscale, x), narrowed(doffset, x)


@layer_norm.vjp("x", "scale", "offset")
def _(
    g: Tensor, x: Tensor, scale: Tensor | None, center: Tensor, spread: Tensor, axis: Axes
) -> tuple[Tensor, ...]:  # fmt: skip
    return layer_norm_gradient(x, scale, center, spread, g, axis=axis)


# Root mean square -----------------------------------------------------------------------------


@op(
    shape=_normalized_shape,
    dtype=real_floating,
    accuracy=ACCUMULATED,
    residuals=("spread",),
    normalize=checked(_normalized_shape),
)
def rms_norm(
    x: Tensor, scale: Tensor | None = None, *, axis: Axes = -1, epsilon: float = 1e-5
) -> Tensor:
    """x / sqrt(mean(x**2) + epsilon) * scale over `axis` (Zhang and Sennrich, 2019).

    Args:
        x: real floating values.
        scale: factors in the shape of the normalized axes; None for no factors.
        axis: the axes of the mean; all if None.
        epsilon: added to the mean square for numerical stability.

    Raises:
        ShapeError: if scale does not have the shape of the normalized axes.

    >>> pb.rms_norm([[3.0, 3.0], [-5.0, 5.0]], epsilon=0.0).tolist()
    [[1.0, 1.0], [-1.0, 1.0]]
    """
    wide = widened(x)
    spread = 1 / sqrt(mean(wide * wide, axis=axis, keepdims=True) + epsilon)
    return narrowed(affine(wide * spread, scale, None, axis), x), spread  # type: ignore[return-value]


def _rms_gradient_dtypes(operands: Operands, **_: object) -> Resolution:
    """Each input keeps its dtype; the results have that of x."""
    inputs, outputs = gradient_dtypes(operands)
    return Resolution(inputs, outputs[:2])


def _rms_gradient_shapes(
    x: Shape, scale: Shape | None, spread: Shape, g: Shape, *, axis: Shape | None
) -> list[Shape]:
    """The shape of x, and that of the normalized axes."""
    return _gradient_shapes(x, scale, spread, spread, g, axis=axis)[:2]


@op(
    shape=_rms_gradient_shapes,
    dtype=_rms_gradient_dtypes,
    accuracy=ACCUMULATED,
    outputs=("x_gradient", "scale_gradient"),
    normalize=checked(_rms_gradient_shapes),
    public=False,
)
def rms_norm_gradient(
    x: Tensor, scale: Tensor | None, spread: Tensor, g: Tensor, *, axis: Axes = -1
) -> tuple[Tensor, Tensor]:
    """The gradients of `rms_norm` with respect to x and scale.

    Args:
        x: the input of the op.
        scale: the input of the op.
        spread: 1 / sqrt(mean(x**2) + epsilon) over axis, with keepdims.
        g: the gradient with respect to the result.
        axis: the normalized axes.

    >>> gradients = pb.ops.rms_norm_gradient([[1.0, 1.0]], None, [[1.0]], [[1.0, 0.0]])
    >>> [gradient.tolist() for gradient in gradients]
    [[[0.5, -0.5]], [1.0, 0.0]]
    """
    wide, g = widened(x), widened(g)
    normalized = wide * spread
    dy = g if scale is None else g * parameter_along(scale, wide.shape, axis)
    dx = (dy - normalized * mean(dy * normalized, axis=axis, keepdims=True)) * spread
    dscale = sum(g * normalized, axis=other_axes(wide.shape, axis))
    return narrowed(dx, x), narrowed(dscale, x)


@rms_norm.vjp("x", "scale")
def _(
    g: Tensor, x: Tensor, scale: Tensor | None, spread: Tensor, axis: Axes
) -> tuple[Tensor, ...]:  # fmt: skip
    return rms_norm_gradient(x, scale, spread, g, axis=axis)


# Groups of channels ---------------------------------------------------------------------------


def _grouped_shape(
    x: Shape, scale: Shape | None, offset: Shape | None, *, axis: int, groups: int = 1, **_: object
) -> Shape:
    """The shape of x; the parameters are vectors of its channels."""
    if len(x) < 2 or axis == 0:
        raise errors.ShapeError(f"x needs a batch axis before the channels, got shape {x}")
    channels = x[axis]
    if groups < 1 or channels % groups:
        raise errors.ShapeError(f"groups must divide the {channels} channels, got {groups}")
    check_parameter("scale", scale, (channels,))
    check_parameter("offset", offset, (channels,))
    return x


@op(
    shape=_grouped_shape,
    dtype=real_floating,
    accuracy=ACCUMULATED,
    normalize=checked(_grouped_shape),
)
def group_norm(
    x: Tensor,
    scale: Tensor | None = None,
    offset: Tensor | None = None,
    *,
    groups: int,
    axis: Axis = -1,
    epsilon: float = 1e-5,
) -> Tensor:
    """x with each group of channels of each item normalized (Wu and He, 2018).

    Args:
        x: values with a batch axis first, and the channels at `axis`.
        scale: a factor per channel; None for no factor.
        offset: a number per channel that is added; None for no offset.
        groups: the number of groups of neighboring channels.
        axis: the axis of the channels.
        epsilon: added to the variance for numerical stability.

    Raises:
        ShapeError: if groups does not divide the channels, or a parameter does not have one number
            per channel.

    >>> pb.group_norm([[1.0, 3.0, 10.0, 30.0]], groups=2, epsilon=0.0).tolist()
    [[-1.0, 1.0, -1.0, 1.0]]
    """
    if groups == 1:
        y = layer_norm(widened(x), axis=tuple(range(1, x.ndim)), epsilon=epsilon)
        return narrowed(affine(y, scale, offset, (axis,)), x)
    # With the channels first a group is a row.
    order = (0, axis, *(i for i in range(1, x.ndim) if i != axis))
    wide = permute_dims(widened(x), order)
    shape = wide.shape
    rows = reshape(wide, (shape[0], groups, math.prod(shape[1:]) // groups))
    y = reshape(layer_norm(rows, axis=-1, epsilon=epsilon), shape)
    y = permute_dims(y, tuple(map(order.index, range(x.ndim))))
    return narrowed(affine(y, scale, offset, (axis,)), x)


def _group_gradient_shapes(
    x: Shape, scale: Shape | None, g: Shape, *, axis: int, groups: int, **_: object
) -> list[Shape]:
    """The shape of x, and that of its channels, twice."""
    _grouped_shape(x, scale, None, axis=axis, groups=groups)
    check_parameter("g", g, x)
    return [x, (x[axis],), (x[axis],)]


@op(
    shape=_group_gradient_shapes,
    dtype=gradient_dtypes,
    accuracy=ACCUMULATED,
    outputs=("x_gradient", "scale_gradient", "offset_gradient"),
    normalize=checked(_group_gradient_shapes),
    public=False,
)
def group_norm_gradient(
    x: Tensor,
    scale: Tensor | None,
    g: Tensor,
    *,
    groups: int,
    axis: Axis = -1,
    epsilon: float = 1e-5,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of `group_norm` with respect to x, scale and offset.

    Args:
        x: the input of the op.
        scale: the input of the op.
        g: the gradient with respect to the result.
        groups: the number of groups of neighboring channels.
        axis: the axis of the channels.
        epsilon: added to the variance.

    >>> x, g = [[1.0, 3.0, 0.0, 2.0]], [[1.0, 1.0, 0.0, 0.0]]
    >>> gradients = pb.ops.group_norm_gradient(x, None, g, groups=2, epsilon=0.0)
    >>> [gradient.tolist() for gradient in gradients]
    [[[0.0, 0.0, 0.0, 0.0]], [-1.0, 1.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0]]
    """
    order = (0, axis, *(i for i in range(1, x.ndim) if i != axis))
    shape = tuple(x.shape[i] for i in order)
    grouped = (shape[0], groups, math.prod(shape[1:]) // groups)
    wide, h = permute_dims(widened(x), order), permute_dims(widened(g), order)
    rows = reshape(wide, grouped)
    center = mean(rows, axis=-1, keepdims=True)
    centered = rows - center
    spread = 1 / sqrt(mean(centered * centered, axis=-1, keepdims=True) + epsilon)
    others = (0, *range(2, x.ndim))
    dscale = sum(h * reshape(centered * spread, shape), axis=others)
    scaled = h if scale is None else h * parameter_along(scale, shape, (1,))
    dx, _, _ = layer_norm_gradient(rows, None, center, spread, reshape(scaled, grouped))
    dx = permute_dims(reshape(dx, shape), tuple(map(order.index, range(x.ndim))))
    return narrowed(dx, x), narrowed(dscale, x), narrowed(sum(h, axis=others), x)


@group_norm.vjp("x", "scale", "offset")
def _(
    g: Tensor, x: Tensor, scale: Tensor | None, groups: int, axis: int, epsilon: float
) -> tuple[Tensor, ...]:  # fmt: skip
    return group_norm_gradient(x, scale, g, groups=groups, axis=axis, epsilon=epsilon)


@op(
    shape=_grouped_shape,
    dtype=real_floating,
    accuracy=ACCUMULATED,
    normalize=checked(_grouped_shape),
)
def instance_norm(
    x: Tensor,
    scale: Tensor | None = None,
    offset: Tensor | None = None,
    *,
    axis: Axis = -1,
    epsilon: float = 1e-5,
) -> Tensor:
    """x with each channel of each item normalized (Ulyanov et al., 2016).

    Args:
        x: values with a batch axis first, and the channels at `axis`.
        scale: a factor per channel; None for no factor.
        offset: a number per channel that is added; None for no offset.
        axis: the axis of the channels.
        epsilon: added to the variance for numerical stability.

    Raises:
        ShapeError: if scale or offset do not have one number per channel.

    >>> pb.instance_norm([[[1.0, 10.0], [3.0, 30.0]]], epsilon=0.0).tolist()
    [[[-1.0, -1.0], [1.0, 1.0]]]
    """
    return group_norm(x, scale, offset, groups=x.shape[axis], axis=axis, epsilon=epsilon)
