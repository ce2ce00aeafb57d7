"""The transposed convolution."""

from __future__ import annotations

from typing import Any

from pullback import errors
from pullback._dispatch import op
from pullback._once import remembered
from pullback.dtypes import real_floating
from pullback.ops.nn.convolution import canonical_convolution, conv_input_gradient
from pullback.ops.nn.windows import (
    DataFormat,
    Padding,
    Sizes,
    canonical_windows,
    check_format,
    sizes,
)
from pullback.shapes import Shape, channels_of, image_shape, output_sizes, spatial_of
from pullback.spec import ACCUMULATED
from pullback.tensor import Tensor

__all__ = ["conv_transpose"]


@remembered
def _transposed_image(
    shapes: tuple[Shape, Shape], *, strides: Sizes, padding: Padding, output_padding: Sizes | None,
    dilation: Sizes, groups: int, data_format: DataFormat,
) -> tuple[Shape, dict[str, Any]]:  # fmt: skip
    """The shape of the result, and the attributes of the convolution whose gradient it is."""
    x, kernel = shapes
    check_format(data_format)
    if len(x) < 3 or len(kernel) != len(x) or channels_of(x, data_format) != kernel[-1]:
        raise errors.ShapeError(
            f"images {x} ({data_format}) need a kernel (*window, filters // groups, channels) of "
            f"as many dimensions, got {kernel}"
        )
    spatial, window = spatial_of(x, data_format), kernel[:-2]
    count = len(spatial)
    strides = sizes(strides, count, "strides")
    dilation = sizes(dilation, count, "dilation")
    span = [step * (width - 1) + 1 for width, step in zip(window, dilation, strict=True)]
    extra = (0,) * count
    if output_padding is not None:
        listed = output_padding if isinstance(output_padding, (list, tuple)) else [output_padding]
        extra = tuple(listed) if len(listed) == count else tuple(listed) * count
    if isinstance(padding, str):
        # The size for which `conv` with this padding gives the size of x, as in TensorFlow.
        least = span if padding.lower() == "valid" else [0] * count
        result = tuple(
            size * stride + max(width - stride, 0) + more
            for size, stride, width, more in zip(spatial, strides, least, extra, strict=True)
        )
    else:
        _, _, padding, _ = canonical_windows(spatial, window, strides, padding, dilation)
        result = tuple(
            (size - 1) * stride + width - low - high + more
            for size, stride, width, (low, high), more in zip(
                spatial, strides, span, padding, extra, strict=True
            )
        )
    shape = image_shape(x[0], result, kernel[-2] * groups, data_format)
    attributes = canonical_convolution(
        (shape, kernel), strides=strides, padding=padding, dilation=dilation, groups=groups,
        data_format=data_format,
    )  # fmt: skip
    if any(extra):
        back = output_sizes(result, window, strides, attributes["padding"], dilation)
        if back != tuple(spatial):
            raise errors.ShapeError(
                f"output_padding must be smaller than the strides {strides}, and 0 with "
                f"padding='same', got {extra}: a convolution of {result} would have the size "
                f"{back}, not {tuple(spatial)}"
            )
    return shape, attributes


def _transposed_shape(x: Shape, kernel: Shape, **attributes: Any) -> Shape:
    """Images with the sizes from which a convolution would make those of x."""
    return _transposed_image((x, kernel), **attributes)[0]


@op(shape=_transposed_shape, dtype=real_floating, accuracy=ACCUMULATED)
def conv_transpose(
    x: Tensor,
    kernel: Tensor,
    *,
    strides: Sizes = 1,
    padding: Padding = "valid",
    output_padding: Sizes | None = None,
    dilation: Sizes = 1,
    groups: int = 1,
    data_format: DataFormat = "channels_last",
) -> Tensor:
    """The transposed convolution: the gradient of `conv` as an op (Zeiler et al., 2010).

    Args:
        x: images (batch, *spatial, channels).
        kernel: (*window, filters // groups, channels): the kernel of the convolution that takes the
            result to x.
        strides: the factors by which the result is larger than x.
        padding: the padding of that convolution: "valid" gives size * stride + max(window - stride,
            0), "same" size * stride, numbers (size - 1) * stride + window - pads.
        output_padding: additional elements at the end of each spatial dimension.
        dilation: the steps between elements of a window.
        groups: the number of groups of channels and filters.
        data_format: "channels_last" or "channels_first", of x and of the result.

    Raises:
        ShapeError: if channels, groups and filters do not fit.

    >>> pb.conv_transpose(pb.ones((1, 2, 1)), pb.ones((2, 1, 1)), strides=2).tolist()
    [[[1.0], [1.0], [1.0], [1.0]]]
    """
    shape, attributes = _transposed_image(
        (x.shape, kernel.shape), strides=strides, padding=padding, output_padding=output_padding,
        dilation=dilation, groups=groups, data_format=data_format,
    )  # fmt: skip
    return conv_input_gradient(x, kernel, input_shape=shape, **attributes)
