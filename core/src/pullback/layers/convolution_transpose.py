"""The transposed convolution over one to three spatial dimensions."""

from __future__ import annotations

from typing import Unpack

from pullback import errors
from pullback.layers.activations import ActivationLike
from pullback.layers.convolution import Conv, ConvOptions
from pullback.layers.images import Padding, Sizes, lower
from pullback.ops.nn.convolution_transpose import conv_transpose
from pullback.tensor import Tensor

__all__ = ["Conv1DTranspose", "Conv2DTranspose", "Conv3DTranspose", "ConvTranspose"]


class ConvTranspose(Conv):
    """activation(conv_transpose(x, kernel) + bias) (Zeiler et al., 2010).

    It enlarges images: the result of "same" has size * stride elements, that of "valid"
    size * stride + max(window - stride, 0), that of numbers (size - 1) * stride + window - pads.

    Args:
        filters: the number of channels of the result.
        kernel_size: the window; the kernel is (*window, filters // groups, channels).
        strides: the factor by which the result is larger.
        padding: see `Conv`; the padding of the convolution from the result to x.
        activation: see `Conv`.
        output_padding: elements added at the end of each spatial dimension; not with
            `padding="same"`, which sets the size.
        options: see `Conv`.

    Raises:
        InputValueError: for output_padding with "same".
        LayerError: see `Conv`.
    """

    def __init__(
        self,
        filters: int,
        kernel_size: Sizes,
        strides: Sizes = 1,
        padding: Padding = "valid",
        activation: ActivationLike = None,
        *,
        output_padding: Sizes | None = None,
        **options: Unpack[ConvOptions],
    ) -> None:
        self.output_padding = output_padding
        if output_padding is not None and isinstance(padding, str) and lower(padding) == "same":
            raise errors.InputValueError(
                'output_padding has no effect with padding="same"; use numbers for padding'
            )
        super().__init__(filters, kernel_size, strides, padding, activation, **options)

    def kernel_channels(self, channels: int) -> tuple[int, int]:
        """The last two sizes of the kernel, for a number of channels of the input."""
        return self.filters // self.groups, channels

    def channels_taken(self) -> int:
        """The number of channels of the input."""
        return int(self.kernel.shape[-1])

    def convolved(self, x: Tensor) -> Tensor:
        """Returns the result without bias and activation."""
        return conv_transpose(
            x,
            self.kernel,
            strides=self.strides,
            padding=self.padding,
            output_padding=self.output_padding,
            dilation=self.dilation,
            groups=self.groups,
            data_format=self.data_format,
        )


class Conv1DTranspose(ConvTranspose):
    """`ConvTranspose` for x (batch, width, channels).

    >>> pb.layers.Conv1DTranspose(8, 3, strides=2, padding="same")(pb.zeros((2, 5, 4))).shape
    (2, 10, 8)
    """

    dimensions = 1


class Conv2DTranspose(ConvTranspose):
    """`ConvTranspose` for x (batch, height, width, channels).

    >>> pb.layers.Conv2DTranspose(8, 3, strides=2)(pb.zeros((2, 5, 5, 4))).shape
    (2, 11, 11, 8)
    """

    dimensions = 2


class Conv3DTranspose(ConvTranspose):
    """`ConvTranspose` for x (batch, depth, height, width, channels).

    >>> pb.layers.Conv3DTranspose(2, 2, strides=2)(pb.zeros((1, 3, 3, 3, 4))).shape
    (1, 6, 6, 6, 2)
    """

    dimensions = 3
