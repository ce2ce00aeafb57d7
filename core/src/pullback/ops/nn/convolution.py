"""Convolution and its two gradients.

Images are (batch, *spatial, channels) with one to three spatial dimensions, or (batch, channels,
*spatial) with data_format="channels_first"; kernels are (*window, channels // groups, filters) in
either. As usual in deep learning, it is cross-correlation: the kernel is not flipped.

The three ops are bilinear, and the gradients of each are the other two, at every order.
"""

from __future__ import annotations

from typing import Any

from pullback import errors
from pullback._dispatch import op
from pullback._once import remembered
from pullback.dtypes import real_floating
from pullback.ops.calculus import calling
from pullback.ops.creation import zeros
from pullback.ops.joining import stack
from pullback.ops.linalg.linear_algebra import matmul
from pullback.ops.manipulation import flip, moveaxis, reshape
from pullback.ops.nn.windows import (
    DataFormat,
    Padding,
    Sizes,
    canonical_windows,
    channels_back,
    channels_last,
    check_format,
    spread,
    taps,
)
from pullback.ops.precision import narrowed, widened
from pullback.shapes import (
    Pads,
    Shape,
    ShapeLike,
    as_shape,
    channels_last_shape,
    channels_of,
    image_shape,
    output_sizes,
    size_of,
    spatial_of,
)
from pullback.spec import ACCUMULATED
from pullback.tensor import Tensor

__all__ = ["conv"]


@remembered
def canonical_convolution(
    shapes: tuple[Shape, Shape],
    *,
    strides: object,
    padding: object,
    dilation: object,
    groups: object,
    data_format: Any,
) -> dict[str, Any]:
    """The canonical attributes of a convolution, for the shapes of images and kernel."""
    shape, kernel = shapes
    check_format(data_format)
    if len(shape) < 3 or len(kernel) != len(shape):
        raise errors.ShapeError(
            f"images need a batch, one or more spatial dimensions and channels, and a kernel as "
            f"many dimensions; got shapes {shape} and {kernel}"
        )
    channels = channels_of(shape, data_format)
    if not isinstance(groups, int) or groups < 1 or kernel[-1] % groups:
        raise errors.ShapeError(
            f"groups must divide the {kernel[-1]} filters of the kernel {kernel}, got {groups!r}"
        )
    if channels != kernel[-2] * groups:
        raise errors.ShapeError(
            f"the images {shape} ({data_format}) have {channels} channels, and the kernel {kernel} "
            f"takes {kernel[-2]} for each of {groups} groups"
        )
    _, strides, padding, dilation = canonical_windows(
        spatial_of(shape, data_format), kernel[:-2], strides, padding, dilation
    )
    return {
        "strides": strides, "padding": padding, "dilation": dilation, "groups": groups,
        "data_format": data_format,
    }  # fmt: skip


def conv_shape(
    x: Shape,
    kernel: Shape,
    *,
    strides: Shape,
    padding: Pads,
    dilation: Shape,
    data_format: str,
    **_: object,
) -> Shape:
    """Images with one channel per filter; sizes follow from stride, padding and dilation."""
    spatial = spatial_of(x, data_format)
    out = output_sizes(spatial, kernel[:-2], strides, padding, dilation)
    return image_shape(x[0], out, kernel[-1], data_format)


@op(shape=conv_shape, dtype=real_floating, accuracy=ACCUMULATED, normalize=canonical_convolution)
def conv(
    x: Tensor,
    kernel: Tensor,
    *,
    strides: Sizes = 1,
    padding: Padding = "valid",
    dilation: Sizes = 1,
    groups: int = 1,
    data_format: DataFormat = "channels_last",
) -> Tensor:
    """The convolution of images with a kernel (LeCun et al., 1989), without flipping the kernel.

    Args:
        x: images (batch, *spatial, channels).
        kernel: (*window, channels // groups, filters).
        strides: the steps between windows, one number or one per spatial dimension.
        padding: "valid", "same", "causal", a number, or (before, after) per spatial dimension.
        dilation: the steps between elements of a window.
        groups: the number of groups of channels and filters; the number of channels makes a
            depthwise convolution.
        data_format: "channels_last" or "channels_first", of x and of the result.

    Returns:
        (batch, *out, filters), out = (size + pads - dilation * (window - 1) - 1) // stride + 1.

    Raises:
        ShapeError: if channels, groups and filters do not fit.
        InputValueError: for an unknown padding or data format.

    >>> x = pb.ones((1, 4, 4, 1))
    >>> pb.conv(x, pb.ones((3, 3, 1, 8)), padding="same").shape
    (1, 4, 4, 8)
    """
    how: Any = {"strides": strides, "padding": padding, "dilation": dilation, "groups": groups}
    y = by_taps(widened(channels_last(x, data_format)), widened(kernel), **how)
    return narrowed(channels_back(y, data_format), kernel)


def by_taps(
    x: Tensor, kernel: Tensor, *, strides: Shape, padding: Pads, dilation: Shape, groups: int
) -> Tensor:
    """The convolution of channels-last images: a product of matrices for each tap."""
    window, filters = kernel.shape[:-2], kernel.shape[-1]
    out = output_sizes(x.shape[1:-1], window, strides, padding, dilation)
    y = zeros((x.shape[0], *out, filters), dtype=x.dtype, device=x.device)
    if y.size:
        matrices = reshape(kernel, (size_of(window), kernel.shape[-2], filters))
        for i, tap in enumerate(taps(x, window, strides, padding, dilation)):
            y = y + _matmul_groups(tap, matrices[i], groups)
    return y


def _matmul_groups(x: Tensor, matrix: Tensor, groups: int) -> Tensor:
    """x (..., channels) times a matrix (channels // groups, filters), group by group."""
    if groups == 1:
        return matmul(x, matrix)
    width, filters = matrix.shape
    grouped_x = reshape(x, (size_of(x.shape[:-1]), groups, width))
    grouped_matrix = reshape(matrix, (width, groups, filters // groups))
    y = matmul(moveaxis(grouped_x, 1, 0), moveaxis(grouped_matrix, 1, 0))
    return reshape(moveaxis(y, 0, 1), (*x.shape[:-1], filters))


# The gradient with respect to the images -------------------------------------------------------


@remembered
def _normalize_input_gradient(
    shapes: tuple[Shape, ...], *, input_shape: Shape, **attributes: Any
) -> dict[str, Any]:
    g, kernel = shapes
    attributes = canonical_convolution((input_shape, kernel), **attributes)
    expected = conv_shape(input_shape, kernel, **attributes)
    if g != expected:
        raise errors.ShapeError(
            f"images {input_shape} and the kernel {kernel} give {expected}, so g cannot be {g}"
        )
    return {"input_shape": input_shape, **attributes}


def _input_shape(*_: Shape, input_shape: Shape, **__: object) -> Shape:
    """The shape of the images, an attribute."""
    return input_shape


@op(
    shape=_input_shape,
    dtype=real_floating,
    accuracy=ACCUMULATED,
    normalize=_normalize_input_gradient,
    public=False,
)
def conv_input_gradient(
    g: Tensor,
    kernel: Tensor,
    *,
    input_shape: ShapeLike,
    strides: Sizes = 1,
    padding: Padding = "valid",
    dilation: Sizes = 1,
    groups: int = 1,
    data_format: DataFormat = "channels_last",
) -> Tensor:
    """The gradient of `conv` with respect to its images, from the gradient g of its result.

    Args:
        g: the gradient with respect to the result (batch, *out, filters).
        kernel: (*window, channels // groups, filters).
        input_shape: the shape of the images.
        strides: as for `conv`.
        padding: as for `conv`.
        dilation: as for `conv`.
        groups: as for `conv`.
        data_format: as for `conv`.

    Raises:
        ShapeError: if g does not have the shape of the result of `conv`.

    >>> g = pb.ones((1, 2, 1))
    >>> pb.ops.conv_input_gradient(g, pb.ones((2, 1, 1)), input_shape=(1, 3, 1)).tolist()
    [[[1.0], [2.0], [1.0]]]
    """
    # A convolution of g, dilated by the strides, at stride 1, with the kernel reversed.
    g = channels_last(g, data_format)
    shape = channels_last_shape(input_shape, data_format)
    window = kernel.shape[:-2]
    if not g.size:
        return zeros(input_shape, dtype=g.dtype, device=g.device)
    g_padding, crop = [], []
    for size, (low, _), width, stride, step, count in zip(
        shape[1:-1], padding, window, strides, dilation, g.shape[1:-1], strict=True
    ):  # fmt: skip
        reach = step * (width - 1)
        before, after = reach - low, size + low - 1 - (count - 1) * stride
        g_padding.append((max(before, 0), max(after, 0)))
        start = max(-before, 0)
        crop.append(slice(start, start + size))
    reversed_kernel = flip(_exchange_channels(kernel, groups), axis=tuple(range(len(window))))
    dilated_g = spread(g, strides)
    dx = conv(dilated_g, reversed_kernel, padding=g_padding, dilation=dilation, groups=groups)
    return channels_back(dx[(slice(None), *crop, slice(None))], data_format)


def _exchange_channels(kernel: Tensor, groups: int) -> Tensor:
    """(*window, C // groups, O) to (*window, O // groups, C), group by group."""
    *window, width, filters = kernel.shape
    grouped = reshape(kernel, (*window, width, groups, filters // groups))
    return reshape(moveaxis(grouped, -1, -3).mT, (*window, filters // groups, groups * width))


# The gradient with respect to the kernel -------------------------------------------------------


@remembered
def _normalize_kernel_gradient(
    shapes: tuple[Shape, ...], *, kernel_shape: Shape, **attributes: Any
) -> dict[str, Any]:
    x, g = shapes
    attributes = canonical_convolution((x, kernel_shape), **attributes)
    expected = conv_shape(x, kernel_shape, **attributes)
    if g != expected:
        raise errors.ShapeError(
            f"images {x} and a kernel {kernel_shape} give {expected}, so g cannot be {g}"
        )
    return {"kernel_shape": kernel_shape, **attributes}


def _kernel_shape(*_: Shape, kernel_shape: Shape, **__: object) -> Shape:
    """The shape of the kernel, an attribute."""
    return kernel_shape


@op(
    shape=_kernel_shape,
    dtype=real_floating,
    accuracy=ACCUMULATED,
    normalize=_normalize_kernel_gradient,
    public=False,
)
def conv_kernel_gradient(
    x: Tensor,
    g: Tensor,
    *,
    kernel_shape: ShapeLike,
    strides: Sizes = 1,
    padding: Padding = "valid",
    dilation: Sizes = 1,
    groups: int = 1,
    data_format: DataFormat = "channels_last",
) -> Tensor:
    """The gradient of `conv` with respect to its kernel, from the gradient g of its result.

    Args:
        x: images (batch, *spatial, channels).
        g: the gradient with respect to the result (batch, *out, filters).
        kernel_shape: (*window, channels // groups, filters).
        strides: as for `conv`.
        padding: as for `conv`.
        dilation: as for `conv`.
        groups: as for `conv`.
        data_format: as for `conv`.

    Raises:
        ShapeError: if g does not have the shape of the result of `conv`.

    >>> x = pb.reshape([1.0, 2.0, 3.0], (1, 3, 1))
    >>> pb.ops.conv_kernel_gradient(x, pb.ones((1, 2, 1)), kernel_shape=(2, 1, 1)).tolist()
    [[[3.0]], [[5.0]]]
    """
    x, like = widened(channels_last(x, data_format)), x
    g = widened(channels_last(g, data_format))
    kernel_shape = as_shape(kernel_shape)
    *window, width, filters = kernel_shape
    if not g.size or not size_of(kernel_shape):
        return zeros(kernel_shape, dtype=like.dtype, device=like.device)
    grouped_g = moveaxis(reshape(g, (-1, groups, filters // groups)), 1, 0)
    matrices = []
    for tap in taps(x, tuple(window), strides, padding, dilation):
        grouped_tap = moveaxis(reshape(tap, (-1, groups, width)), 1, 0)
        products = matmul(grouped_tap.mT, grouped_g)  # (groups, width, filters // groups)
        matrices.append(reshape(moveaxis(products, 0, 1), (width, filters)))
    return narrowed(reshape(stack(matrices), kernel_shape), like)


# The gradients of all three --------------------------------------------------------------------

# sum(g * conv(x, kernel)) is linear in each of g, x and kernel, and `conv`, `conv_input_gradient`
# and `conv_kernel_gradient` are its gradients with respect to them. So are their own: the cotangent
# takes the place of what the op gives.
conv.vjp(
    x=calling(conv_input_gradient, ..., "kernel", input_shape="x_shape"),
    kernel=calling(conv_kernel_gradient, "x", ...),
)
conv_input_gradient.vjp(
    g=calling(conv, ..., "kernel"), kernel=calling(conv_kernel_gradient, ..., "g")
)
conv_kernel_gradient.vjp(
    x=calling(conv_input_gradient, "g", ..., input_shape="x_shape"), g=calling(conv, "x", ...)
)
