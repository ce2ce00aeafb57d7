"""The convolutional LSTM: a recurrent layer whose state is an image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Unpack

from pullback import errors
from pullback.layers.images import Padding, Sizes, data_format_of, lower, sizes_of
from pullback.layers.recurrent import LSTM, RecurrentOptions
from pullback.ops.creation import zeros
from pullback.ops.joining import split, stack, unstack
from pullback.ops.manipulation import reshape
from pullback.ops.nn.activations import sigmoid
from pullback.ops.nn.convolution import conv
from pullback.ops.nn.recurrent import at, select, step_order
from pullback.ops.nn.windows import DataFormat
from pullback.ops.trigonometric import tanh
from pullback.shapes import Shape
from pullback.tensor import Tensor, TensorLike
from pullback.variable import Variable

__all__ = ["ConvLSTM", "ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D"]


class ConvLSTMOptions(RecurrentOptions, total=False):
    """The keyword arguments of `ConvLSTM`; `Recurrent` describes most of them."""

    forget_bias: float


class ConvLSTM(LSTM):
    """The LSTM with convolutions in place of products (Shi et al., 2015), without peepholes.

    Inputs are (batch, time, *spatial, channels). Output h and cell c are images of `filters`
    channels, of the size that the convolution of an input has.

    Args:
        filters: the number of channels of h and of c.
        kernel_size: the size of both windows, one number or one for each dimension.
        strides: the steps from window to window, for the inputs.
        padding: see `Conv`, for the inputs; the state is padded as "same".
        data_format: "channels_last" or "channels_first".
        dilation: the steps between the elements of a window of the inputs.
        options: `forget_bias`, see `LSTM`, and those of `Recurrent`, whose masks, states and
            directions it has.

    Raises:
        LayerError: for inputs with another number of axes; and see `Recurrent`.
    """

    dimensions: ClassVar[int]

    def __init__(
        self,
        filters: int,
        kernel_size: Sizes,
        strides: Sizes = 1,
        padding: Padding = "valid",
        *,
        data_format: DataFormat = "channels_last",
        dilation: Sizes = 1,
        **options: Unpack[ConvLSTMOptions],
    ) -> None:
        if not hasattr(self, "dimensions"):
            raise errors.InputTypeError(
                "ConvLSTM is the base of several layers; make one of those, such as ConvLSTM2D"
            )
        self.kernel_size = sizes_of(kernel_size, self.dimensions)
        self.strides = sizes_of(strides, self.dimensions)
        self.padding = lower(padding)
        self.data_format = data_format_of(data_format)
        self.dilation = sizes_of(dilation, self.dimensions)
        super().__init__(filters, **options)

    def kernel_shapes(self, input_shape: Shape) -> tuple[Shape, Shape]:
        """The shapes of the kernel and of the recurrent kernel, (*window, channels, filters)."""
        channels = input_shape[-1 if self.data_format == "channels_last" else 2]
        gates = 4 * self.units
        return (*self.kernel_size, channels, gates), (*self.kernel_size, self.units, gates)

    def state_shape(self, x: Tensor) -> Shape:
        """The shape of h and of c, from the convolved inputs."""
        shape = [x.shape[0], *x.shape[2:]]
        shape[self._channels] = self.units
        return tuple(shape)

    @property
    def _channels(self) -> int:
        """The axis of the channels in the state."""
        return self.dimensions + 1 if self.data_format == "channels_last" else 1

    def call(
        self,
        x: Tensor,
        mask: TensorLike | None = None,
        initial_state: TensorLike | None = None,
        *,
        lengths: TensorLike | None = None,
    ) -> Tensor | tuple[Tensor, ...]:
        """Returns the last h or, with `return_sequences`, all; with `return_state`, a tuple."""
        self._check(x.shape)
        batch, time = x.shape[:2]
        # One convolution for all inputs, and one more per step for the state.
        steps = reshape(x, (batch * time, *x.shape[2:]))
        z = self._convolved(
            steps, self.kernel, self.padding, strides=self.strides, dilation=self.dilation
        )
        if self.bias is not None:
            others = 0 if self.data_format == "channels_last" else self.dimensions
            z = z + reshape(self.bias, (self.bias.shape[0], *[1] * others))
        z = reshape(z, (batch, time, *z.shape[1:]))
        return super().call(z, mask, initial_state, lengths=lengths)

    def run(
        self, x: Tensor, before: Sequence[Tensor | Variable], mask: Tensor | None
    ) -> tuple[Tensor, ...]:
        """Returns all outputs and the last h and c, from the convolved inputs."""
        h, c = (part[...] for part in before)
        outputs, inputs = {}, unstack(x, axis=1)
        for step in step_order(x.shape[1], self.reverse):
            z = inputs[step] + self._convolved(h, self.recurrent_kernel, "same")
            i, f, g, o = split(z, 4, axis=self._channels)
            c_new = sigmoid(f) * c + sigmoid(i) * tanh(g)
            h_new = sigmoid(o) * tanh(c_new)
            present = None
            if mask is not None:
                present = reshape(at(mask, step), (mask.shape[0], *[1] * (h.ndim - 1)))
            h, c = select(present, h_new, h), select(present, c_new, c)
            outputs[step] = h
        if not outputs:
            return zeros((h.shape[0], 0, *h.shape[1:]), dtype=h.dtype, device=h.device), h, c
        return stack([outputs[step] for step in range(len(outputs))], axis=1), h, c

    def _convolved(self, x: Tensor, kernel: Variable, padding: Padding, **how: Any) -> Tensor:
        return conv(x, kernel, padding=padding, data_format=self.data_format, **how)

    def _check(self, shape: Shape) -> None:
        if len(shape) != self.dimensions + 3:
            spatial = ", ".join(["depth", "height", "width"][-self.dimensions :])
            last = self.data_format == "channels_last"
            inner = f"{spatial}, channels" if last else f"channels, {spatial}"
            raise errors.LayerError(
                f"inputs must be sequences of images (batch, time, {inner}), got shape "
                f"{tuple(shape)}"
            )


class ConvLSTM1D(ConvLSTM):
    """`ConvLSTM` for x (batch, time, width, channels).

    >>> pb.layers.ConvLSTM1D(4, 3, padding="same")(pb.zeros((2, 5, 8, 3))).shape
    (2, 8, 4)
    """

    dimensions = 1


class ConvLSTM2D(ConvLSTM):
    """`ConvLSTM` for x (batch, time, height, width, channels).

    >>> layer = pb.layers.ConvLSTM2D(4, 3, return_sequences=True)
    >>> layer(pb.zeros((2, 5, 8, 8, 3))).shape
    (2, 5, 6, 6, 4)
    """

    dimensions = 2


class ConvLSTM3D(ConvLSTM):
    """`ConvLSTM` for x (batch, time, depth, height, width, channels).

    >>> pb.layers.ConvLSTM3D(2, 2)(pb.zeros((1, 2, 3, 3, 3, 1))).shape
    (1, 2, 2, 2, 2)
    """

    dimensions = 3
