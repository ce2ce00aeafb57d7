"""The transposed convolution over one to three spatial dimensions."""

from __future__ import annotations

from typing import Any

from pullback import errors
from pullback.layers.basic import ActivationLike
from pullback.layers.convolution import Conv
from pullback.layers.images import Sizes, lower
from pullback.ops.nn.convolution_transpose import conv_transpose

__all__ = ["Conv1DTranspose", "Conv2DTranspose", "Conv3DTranspose", "ConvTranspose"]


class ConvTranspose(Conv):
    """activation(conv_transpose(x, kernel) + bias) (Zeiler et al., 2010).

    It makes images larger: "same" gives size * stride, "valid" size * stride + max(window - stride,
    0), and numbers (size - 1) * stride + window - pads.

    Args:
        filters: the number of channels of the result.
        kernel_size: the window; the kernel is (*window, filters // groups, channels).
        strides: by how much the result is larger.
        padding: as of `Conv`: what the convolution that takes the result to x would pad.
        activation: as of `Conv`.
        output_padding: more elements at the end of each spatial dimension, where `padding` is not
            "same", which says the size already.
        rest: as of `Conv`.

    Raises:
        InputValueError: for output_padding with "same".
        LayerError: as of `Conv`.
    """

    def __init__(
        self,
        filters: int,
        kernel_size: Sizes,
        strides: Sizes = 1,
        padding: Any = "valid",
        activation: ActivationLike = None,
        *,
        output_padding: Sizes | None = None,
        **rest: Any,
    ) -> None:
        self.output_padding = output_padding
        if output_padding is not None and lower(padding) == "same":
            raise errors.InputValueError(
                'padding="same" says the size already; give numbers for padding with output_padding'
            )
        super().__init__(filters, kernel_size, strides, padding, activation, **rest)

    def kernel_channels(self, channels: int) -> tuple[int, int]:
        """The last two sizes of the kernel, for so many channels of the input."""
        return self.filters // self.groups, channels

    def channels_taken(self) -> int:
        """How many channels inputs have."""
        return int(self.kernel.shape[-1])

    def convolved(self, x: Any) -> Any:
        """The result without bias and activation."""
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
