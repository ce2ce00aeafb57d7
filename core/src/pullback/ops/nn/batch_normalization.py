"""Batch normalization."""

from __future__ import annotations

from pullback import dtypes
from pullback._dispatch import op
from pullback.dtypes import Operands, Resolution, real_floating
from pullback.ops.exponential import sqrt
from pullback.ops.manipulation import reshape
from pullback.ops.nn.normalization import (
    affine,
    check_parameter,
    gradient_dtypes,
    other_axes,
    parameter_along,
)
from pullback.ops.precision import narrowed, widened
from pullback.ops.reductions import mean as mean_of
from pullback.ops.reductions import sum
from pullback.shapes import Axis, Shape, checked
from pullback.spec import ACCUMULATED
from pullback.tensor import Tensor

__all__ = ["batch_norm", "batch_norm_inference"]


def _batch_shapes(
    x: Shape, scale: Shape | None, offset: Shape | None, *, axis: int, **_: object
) -> list[Shape]:
    """The shape of x; mean and variance are vectors of its channels."""
    channels = (x[axis],)
    check_parameter("scale", scale, channels)
    check_parameter("offset", offset, channels)
    return [x, channels, channels]


def _batch_dtypes(operands: Operands, **_: object) -> Resolution:
    """Real floating inputs; mean and variance of 16-bit floats in float32."""
    inputs, outputs = real_floating(operands)
    statistics = dtypes.float32 if outputs[0].itemsize < 4 else outputs[0]
    return Resolution(inputs, (outputs[0], statistics, statistics))


@op(
    shape=_batch_shapes,
    dtype=_batch_dtypes,
    accuracy=ACCUMULATED,
    outputs=("out", "mean", "variance"),
    normalize=checked(_batch_shapes),
)
def batch_norm(
    x: Tensor,
    scale: Tensor | None = None,
    offset: Tensor | None = None,
    *,
    axis: Axis = -1,
    epsilon: float = 1e-3,
) -> tuple[Tensor, Tensor, Tensor]:
    """x with each channel normalized over all other axes (Ioffe and Szegedy, 2015).

    Args:
        x: values with the channels at `axis`.
        scale: a factor per channel; None for no factor.
        offset: a number per channel that is added; None for no offset.
        axis: the axis of the channels.
        epsilon: added to the variance for numerical stability.

    Returns:
        The normalized values, and the mean and (biased) variance of each channel, in float32 for
        16-bit values.

    Raises:
        ShapeError: if scale or offset do not have one number per channel.

    >>> y, mean, variance = pb.batch_norm([[1.0, 10.0], [3.0, 30.0]], epsilon=0.0)
    >>> y.tolist(), mean.tolist(), variance.tolist()
    ([[-1.0, -1.0], [1.0, 1.0]], [2.0, 20.0], [1.0, 100.0])
    """
    wide = widened(x)
    others = other_axes(wide.shape, (axis,))
    center = mean_of(wide, axis=others, keepdims=True)
    centered = wide - center
    variance = mean_of(centered * centered, axis=others, keepdims=True)
    y = affine(centered * (1 / sqrt(variance + epsilon)), scale, offset, (axis,))
    channels = (x.shape[axis],)
    return narrowed(y, x), reshape(center, channels), reshape(variance, channels)


def _gradient_shapes(
    x: Shape,
    scale: Shape | None,
    mean: Shape,
    variance: Shape,
    g: Shape,
    mean_g: Shape,
    variance_g: Shape,
    *,
    axis: int,
    **_: object,
) -> list[Shape]:
    """The shape of x, and a vector of its channels, twice."""
    channels = (x[axis],)
    check_parameter("scale", scale, channels)
    check_parameter("mean", mean, channels)
    check_parameter("variance", variance, channels)
    check_parameter("g", g, x)
    check_parameter("mean_g", mean_g, channels)
    check_parameter("variance_g", variance_g, channels)
    return [x, channels, channels]


@op(
    shape=_gradient_shapes,
    dtype=gradient_dtypes,
    accuracy=ACCUMULATED,
    outputs=("x_gradient", "scale_gradient", "offset_gradient"),
    normalize=checked(_gradient_shapes),
    public=False,
)
def batch_norm_gradient(
    x: Tensor,
    scale: Tensor | None,
    mean: Tensor,
    variance: Tensor,
    g: Tensor,
    mean_g: Tensor,
    variance_g: Tensor,
    *,
    axis: Axis = -1,
    epsilon: float = 1e-3,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of `batch_norm` with respect to x, scale and offset.

    Args:
        x: the input of the op.
        scale: the input of the op.
        mean: the mean, a result of the op.
        variance: the variance, a result of the op.
        g: the gradient with respect to the normalized values.
        mean_g: the gradient with respect to the mean.
        variance_g: the gradient with respect to the variance.
        axis: the axis of the channels.
        epsilon: as for the op.

    >>> x, mean, variance, none = [[1.0], [3.0]], [2.0], [1.0], [0.0]
    >>> gradients = pb.ops.batch_norm_gradient(
    ...     x, None, mean, variance, [[1.0], [0.0]], none, none, epsilon=0.0
    ... )
    >>> [gradient.tolist() for gradient in gradients]
    [[[0.0], [0.0]], [-1.0], [1.0]]
    """
    shape, channel = x.shape, (axis,)
    others = other_axes(shape, channel)
    count = max(1, x.size // max(1, shape[axis]))
    wide, g = widened(x), widened(g)
    centered = wide - parameter_along(mean, shape, channel)
    spread = 1 / sqrt(widened(variance) + epsilon)
    doffset, dscale = sum(g, axis=others), sum(g * centered, axis=others) * spread
    # dx is linear in g and x: per channel, a factor of each and a constant.
    g_factor = spread if scale is None else spread * scale
    x_factor = (variance_g * 2 - g_factor * spread * dscale) / count
    constant = (mean_g - g_factor * doffset) / count
    dx = g * parameter_along(g_factor, shape, channel)
    dx = dx + centered * parameter_along(x_factor, shape, channel)
    dx = dx + parameter_along(constant, shape, channel)
    return narrowed(dx, x), narrowed(dscale, x), narrowed(doffset, x)


@batch_norm.vjp("x", "scale", "offset")
def _(
    g: tuple[Tensor, Tensor, Tensor], x: Tensor, scale: Tensor | None, mean: Tensor,
    variance: Tensor, axis: int, epsilon: float,
) -> tuple[Tensor, ...]:  # fmt: skip
    return batch_norm_gradient(x, scale, mean, variance, *g, axis=axis, epsilon=epsilon)


def _inference_shape(
    x: Shape,
    mean: Shape,
    variance: Shape,
    scale: Shape | None,
    offset: Shape | None,
    *,
    axis: int,
    **_: object,
) -> Shape:
    """The shape of x; the others are vectors of its channels."""
    channels = (x[axis],)
    for name, shape in (("mean", mean), ("variance", variance), ("scale", scale)):
        check_parameter(name, shape, channels)
    check_parameter("offset", offset, channels)
    return x


def _inference_dtypes(operands: Operands, **_: object) -> Resolution:
    """Each input keeps its real floating dtype; the result has that of x."""
    dtype = real_floating(operands[:1]).outputs[0]
    rest = dtypes.each("real floating")
    kept = [None if o is None else rest((o,)).outputs[0] for o in operands[1:]]
    return Resolution((dtype, *kept), (dtype,))


@op(
    shape=_inference_shape,
    dtype=_inference_dtypes,
    accuracy=ACCUMULATED,
    normalize=checked(_inference_shape),
)
def batch_norm_inference(
    x: Tensor,
    mean: Tensor,
    variance: Tensor,
    scale: Tensor | None = None,
    offset: Tensor | None = None,
    *,
    axis: Axis = -1,
    epsilon: float = 1e-3,
) -> Tensor:
    """Batch normalization with given statistics, such as running averages.

    Args:
        x: values with the channels at `axis`.
        mean: a mean per channel.
        variance: a variance per channel.
        scale: a factor per channel; None for no factor.
        offset: a number per channel that is added; None for no offset.
        axis: the axis of the channels.
        epsilon: added to the variance for numerical stability.

    Raises:
        ShapeError: if a parameter does not have one number per channel.

    >>> pb.batch_norm_inference([[1.0], [3.0]], [2.0], [4.0], epsilon=0.0).tolist()
    [[-0.5], [0.5]]
    """
    wide = widened(x)
    factor = 1 / sqrt(widened(variance) + epsilon)
    if scale is not None:
        factor = factor * scale
    y = (wide - parameter_along(mean, wide.shape, (axis,))) * parameter_along(
        factor, wide.shape, (axis,)
    )
    return narrowed(affine(y, None, offset, (axis,)), x)
