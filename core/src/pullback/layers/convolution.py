"""Convolution over one to three spatial dimensions."""

from __future__ import annotations

from typing import Any

from pullback import errors
from pullback.layers.basic import ActivationLike, Regularizer, activation_of
from pullback.layers.images import Images, Sizes, lower, sizes_of
from pullback.layers.initializers import InitializerLike
from pullback.tensor import CALL

__all__ = ["Conv1D", "Conv2D", "Conv3D"]


class _Conv(Images):
    """What the convolutions share: only the number of dimensions differs."""

    def __init__(
        self,
        filters: int,
        kernel_size: Sizes,
        strides: Sizes = 1,
        padding: Any = "valid",
        activation: ActivationLike = None,
        *,
        dilation: Sizes = 1,
        groups: int = 1,
        use_bias: bool = True,
        kernel_initializer: InitializerLike = "glorot_uniform",
        bias_initializer: InitializerLike = "zeros",
        kernel_regularizer: Regularizer = None,
        **rest: Any,
    ) -> None:
        super().__init__(**rest)
        self.filters = int(filters)
        self.kernel_size = sizes_of(kernel_size, self.dimensions)
        self.strides = strides
        self.padding = lower(padding)
        self.activation = activation_of(activation)
        self.dilation = dilation
        self.groups = groups
        self.use_bias = use_bias
        self.kernel_initializer = kernel_initializer
        self.bias_initializer = bias_initializer
        self.kernel_regularizer = kernel_regularizer
        self.kernel: Any = None
        self.bias: Any = None
        self._build_if_sized()

    def build(self, input_shape: Any) -> None:
        """Makes the kernel and the bias."""
        self.check(input_shape)
        channels = input_shape[self.channels_axis]
        if channels % self.groups:
            raise errors.LayerError(f"{self.groups} groups do not divide {channels} channels")
        self.kernel = self.add_variable(
            "kernel",
            (*self.kernel_size, channels // self.groups, self.filters),
            initializer=self.kernel_initializer,
            regularizer=self.kernel_regularizer,
        )
        if self.use_bias:
            self.bias = self.add_variable(
                "bias", (self.filters,), initializer=self.bias_initializer
            )

    def call(self, x: Any) -> Any:
        """The result, with `filters` channels."""
        self.check(x.shape)
        channels = self.kernel.shape[-2] * self.groups
        if x.shape[self.channels_axis] != channels:
            raise errors.LayerError(
                f"needs {channels} channels, since it has been built for that, "
                f"and got shape {x.shape} ({self.data_format})"
            )
        y = CALL["conv"](
            x,
            self.kernel,
            strides=self.strides,
            padding=self.padding,
            dilation=self.dilation,
            groups=self.groups,
            data_format=self.data_format,
        )
        self.check_fits(x.shape, y.shape)
        if self.use_bias:
            bias = self.bias
            if self.data_format == "channels_first":
                bias = CALL["reshape"](bias, (self.filters, *[1] * self.dimensions))
            y = y + bias
        return y if self.activation is None else self.activation(y)


class Conv1D(_Conv):
    """activation(conv(x, kernel) + bias) for x (batch, width, channels).

    Args:
        filters: the number of channels of the result.
        kernel_size: the window, one number or one for each dimension.
        strides: steps from window to window.
        padding: "valid", "same", or what `pb.conv` takes; in any case of letters.
        activation: the name of an op, or a function.
        dilation: steps between the elements of a window.
        groups: splits channels and filters.
        use_bias: whether there is a bias.
        kernel_initializer: of the kernel (*window, channels // groups, filters).
        bias_initializer: of the bias (filters,).
        kernel_regularizer: a function of the kernel, whose value is among the `losses`.
        rest: `data_format` ("channels_last" or "channels_first"), and as of `Layer`.

    >>> pb.layers.Conv1D(8, 3, strides=2, padding="same")(pb.zeros((2, 10, 4))).shape
    (2, 5, 8)

    Raises:
        LayerError: for inputs of another number of axes, or other channels than the first one's.
    """

    dimensions = 1


class Conv2D(_Conv):
    """activation(conv(x, kernel) + bias) for x (batch, height, width, channels).

    Args:
        filters: the number of channels of the result.
        kernel_size: the window, one number or one for each dimension.
        strides: steps from window to window.
        padding: "valid", "same", or what `pb.conv` takes; in any case of letters.
        activation: the name of an op, or a function.
        dilation: steps between the elements of a window.
        groups: splits channels and filters.
        use_bias: whether there is a bias.
        kernel_initializer: of the kernel (*window, channels // groups, filters).
        bias_initializer: of the bias (filters,).
        kernel_regularizer: a function of the kernel, whose value is among the `losses`.
        rest: `data_format` ("channels_last" or "channels_first"), and as of `Layer`.

    >>> pb.layers.Conv2D(64, 3, padding="same")(pb.zeros((2, 32, 32, 3))).shape
    (2, 32, 32, 64)

    Raises:
        LayerError: for inputs of another number of axes, or other channels than the first one's.
    """

    dimensions = 2


class Conv3D(_Conv):
    """activation(conv(x, kernel) + bias) for x (batch, depth, height, width, channels).

    Args:
        filters: the number of channels of the result.
        kernel_size: the window, one number or one for each dimension.
        strides: steps from window to window.
        padding: "valid", "same", or what `pb.conv` takes; in any case of letters.
        activation: the name of an op, or a function.
        dilation: steps between the elements of a window.
        groups: splits channels and filters.
        use_bias: whether there is a bias.
        kernel_initializer: of the kernel (*window, channels // groups, filters).
        bias_initializer: of the bias (filters,).
        kernel_regularizer: a function of the kernel, whose value is among the `losses`.
        rest: `data_format` ("channels_last" or "channels_first"), and as of `Layer`.

    >>> pb.layers.Conv3D(4, 2)(pb.zeros((1, 3, 3, 3, 2))).shape
    (1, 2, 2, 2, 4)

    Raises:
        LayerError: for inputs of another number of axes, or other channels than the first one's.
    """

    dimensions = 3
