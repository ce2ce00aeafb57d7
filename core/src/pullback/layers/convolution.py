"""Convolution over one to three spatial dimensions: plain, depthwise and separable."""

from __future__ import annotations

from typing import ClassVar, Unpack

from pullback import errors
from pullback._dispatch.arguments import as_bool
from pullback.layers.activations import ActivationLike, activation_of
from pullback.layers.images import Images, Padding, Sizes, lower, sizes_of
from pullback.layers.initializers import InitializerLike
from pullback.layers.options import UNBUILT, ImageOptions
from pullback.layers.regularizers import RegularizerLike
from pullback.layers.training_mode import warn_at_the_caller
from pullback.ops.nn.convolution import conv
from pullback.shapes import Shape, as_count
from pullback.tensor import Tensor
from pullback.variable import Variable

__all__ = [
    "Conv",
    "Conv1D",
    "Conv2D",
    "Conv3D",
    "ConvOptions",
    "DepthwiseConv",
    "DepthwiseConv1D",
    "DepthwiseConv2D",
    "SeparableConv",
    "SeparableConv1D",
    "SeparableConv2D",
]


class ConvOptions(ImageOptions, total=False):
    """The keyword arguments of convolutions; `Conv` describes them."""

    dilation: Sizes
    groups: int
    use_bias: bool
    kernel_initializer: InitializerLike
    bias_initializer: InitializerLike
    kernel_regularizer: RegularizerLike


class Conv(Images):
    """activation(conv(x, kernel) + bias): the base of the convolutions.

    Inputs are (batch, *spatial, channels), and the result has `filters` channels.

    Args:
        filters: the number of channels of the result.
        kernel_size: the size of the window, one number or one for each dimension.
        strides: the steps from window to window.
        padding: "valid", "same", in upper or lower case, or the amounts that `pb.conv` takes.
        activation: the name of an op, or a function.
        dilation: the steps between the elements of a window.
        groups: the number of groups into which channels and filters are split.
        use_bias: whether there is a bias.
        kernel_initializer: the initializer of the kernel (*window, channels // groups, filters).
        bias_initializer: the initializer of the bias (filters,).
        kernel_regularizer: a function of the kernel, whose value is added to the `losses`.
        options: `data_format` ("channels_last" or "channels_first"), and those of `Layer`.

    Raises:
        LayerError: for inputs with another number of axes, or of channels than the first input.
    """

    def __init__(
        self,
        filters: int,
        kernel_size: Sizes,
        strides: Sizes = 1,
        padding: Padding = "valid",
        activation: ActivationLike = None,
        *,
        dilation: Sizes = 1,
        groups: int = 1,
        use_bias: bool = True,
        kernel_initializer: InitializerLike = "glorot_uniform",
        bias_initializer: InitializerLike = "zeros",
        kernel_regularizer: RegularizerLike = None,
        **options: Unpack[ImageOptions],
    ) -> None:
        super().__init__(**options)
        self.filters = as_count(filters, "filters")
        self.kernel_size = sizes_of(kernel_size, self.dimensions)
        self.strides = sizes_of(strides, self.dimensions)
        self.padding = lower(padding)
        self.activation = activation_of(activation)
        self.dilation = sizes_of(dilation, self.dimensions)
        self.groups = as_count(groups, "groups")
        self.use_bias = as_bool(use_bias, "use_bias")
        self.kernel_initializer = kernel_initializer
        self.bias_initializer = bias_initializer
        self.kernel_regularizer = kernel_regularizer
        self.kernel: Variable = UNBUILT
        self.bias: Variable | None = None
        self._build_if_sized()

    def build(self, input_shape: Shape) -> None:
        """Makes the kernel and the bias."""
        self.check(input_shape)
        channels = input_shape[self.channels_axis]
        if self.data_format == "channels_last" and len(input_shape) == 4:
            _, height, width, last = input_shape
            if height == 3 < 8 <= width == last:
                warn_at_the_caller(
                    f"{type(self).__name__} takes images of the shape (batch, height, width, "
                    f"channels), and {input_shape} looks like channels first: write "
                    f"x.transpose(0, 2, 3, 1), or data_format='channels_first'"
                )
        if channels % self.groups or self.filters % self.groups:
            raise errors.LayerError(
                f"groups must divide channels and filters, got {self.groups} groups, {channels} "
                f"channels and {self.filters} filters for shape {input_shape} "
                f"({self.data_format})"
            )
        self.kernel = self.add_variable(
            "kernel",
            (*self.kernel_size, *self.kernel_channels(channels)),
            initializer=self.kernel_initializer,
            regularizer=self.kernel_regularizer,
        )
        if self.use_bias:
            self.bias = self.add_variable(
                "bias", (self.filters,), initializer=self.bias_initializer
            )

    def kernel_channels(self, channels: int) -> tuple[int, int]:
        """The last two sizes of the kernel, for a number of channels of the input."""
        return channels // self.groups, self.filters

    def channels_taken(self) -> int:
        """The number of channels of the input."""
        return int(self.kernel.shape[-2]) * self.groups

    def call(self, x: Tensor) -> Tensor:
        """Returns activation(conv(x, kernel) + bias), with `filters` channels."""
        self.check(x.shape)
        self.check_channels(x.shape, self.channels_taken())
        y = self.convolved(x)
        self.check_fits(x.shape, y.shape)
        if self.bias is not None:
            y = y + self.by_channel(self.bias)
        return y if self.activation is None else self.activation(y)

    def convolved(self, x: Tensor) -> Tensor:
        """Returns the result without bias and activation."""
        return conv(
            x,
            self.kernel,
            strides=self.strides,
            padding=self.padding,
            dilation=self.dilation,
            groups=self.groups,
            data_format=self.data_format,
        )


class Conv1D(Conv):
    """`Conv` for x (batch, width, channels).

    >>> pb.layers.Conv1D(8, 3, strides=2, padding="same")(pb.zeros((2, 10, 4))).shape
    (2, 5, 8)
    """

    dimensions = 1


class Conv2D(Conv):
    """`Conv` for x (batch, height, width, channels).

    >>> pb.layers.Conv2D(64, 3, padding="same")(pb.zeros((2, 32, 32, 3))).shape
    (2, 32, 32, 64)
    """

    dimensions = 2


class Conv3D(Conv):
    """`Conv` for x (batch, depth, height, width, channels).

    >>> pb.layers.Conv3D(4, 2)(pb.zeros((1, 3, 3, 3, 2))).shape
    (1, 2, 2, 2, 4)
    """

    dimensions = 3


# Depthwise and separable ----------------------------------------------------------------------


class DepthwiseConv(Conv):
    """A convolution of each channel on its own (Sifre and Mallat, 2014).

    Channel i becomes the channels i * depth_multiplier to (i + 1) * depth_multiplier - 1.

    Args:
        kernel_size: see `Conv`; the kernel is (*window, 1, channels * depth_multiplier).
        strides: see `Conv`.
        padding: see `Conv`.
        activation: see `Conv`.
        depth_multiplier: the number of channels of the result for each channel of the input.
        options: see `Conv`, without groups.

    Raises:
        LayerError: see `Conv`.
    """

    def __init__(
        self,
        kernel_size: Sizes,
        strides: Sizes = 1,
        padding: Padding = "valid",
        activation: ActivationLike = None,
        *,
        depth_multiplier: int = 1,
        **options: Unpack[ConvOptions],
    ) -> None:
        self.depth_multiplier = as_count(depth_multiplier, "depth_multiplier")
        # The numbers of groups and filters are known with the first input.
        super().__init__(1, kernel_size, strides, padding, activation, **options)

    def build(self, input_shape: Shape) -> None:
        """Makes the kernel and the bias."""
        self.check(input_shape)
        self.groups = input_shape[self.channels_axis]
        self.filters = self.groups * self.depth_multiplier
        super().build(input_shape)


class DepthwiseConv1D(DepthwiseConv):
    """`DepthwiseConv` for x (batch, width, channels).

    >>> pb.layers.DepthwiseConv1D(3, depth_multiplier=2)(pb.zeros((2, 10, 4))).shape
    (2, 8, 8)
    """

    dimensions = 1


class DepthwiseConv2D(DepthwiseConv):
    """`DepthwiseConv` for x (batch, height, width, channels).

    >>> pb.layers.DepthwiseConv2D(3, padding="same")(pb.zeros((2, 8, 8, 3))).shape
    (2, 8, 8, 3)
    """

    dimensions = 2


class SeparableConv(Images):
    """A depthwise convolution, then a pointwise one across channels (Chollet, 2017).

    They are its attributes `depthwise`, without bias, and `pointwise`.

    Args:
        filters: the number of channels of the result.
        kernel_size: the window of `depthwise`.
        strides: the strides of `depthwise`.
        padding: the padding of `depthwise`.
        activation: the activation of `pointwise`.
        dilation: the dilation of `depthwise`.
        depth_multiplier: the depth multiplier of `depthwise`.
        use_bias: whether `pointwise` has a bias.
        depthwise_initializer: the initializer of the kernel of `depthwise`.
        pointwise_initializer: the initializer of the kernel of `pointwise`.
        bias_initializer: the initializer of the bias of `pointwise`.
        options: `data_format`, and those of `Layer`.

    Raises:
        LayerError: see `Conv`.
    """

    parts: ClassVar[tuple[type[DepthwiseConv], type[Conv]]]

    def __init__(
        self,
        filters: int,
        kernel_size: Sizes,
        strides: Sizes = 1,
        padding: Padding = "valid",
        activation: ActivationLike = None,
        *,
        dilation: Sizes = 1,
        depth_multiplier: int = 1,
        use_bias: bool = True,
        depthwise_initializer: InitializerLike = "glorot_uniform",
        pointwise_initializer: InitializerLike = "glorot_uniform",
        bias_initializer: InitializerLike = "zeros",
        **options: Unpack[ImageOptions],
    ) -> None:
        super().__init__(**options)
        depthwise, pointwise = self.parts
        shared: ImageOptions = {"data_format": self.data_format, "dtype": self._policy}
        self.depthwise = depthwise(
            kernel_size, strides, padding, dilation=dilation, depth_multiplier=depth_multiplier,
            use_bias=False, kernel_initializer=depthwise_initializer, **shared,
        )  # fmt: skip
        self.pointwise = pointwise(
            filters, 1, activation=activation, use_bias=use_bias,
            kernel_initializer=pointwise_initializer, bias_initializer=bias_initializer, **shared,
        )  # fmt: skip
        self._build_if_sized()

    def build(self, input_shape: Shape) -> None:
        """Builds both parts."""
        self.depthwise.build_for(input_shape)
        between = list(input_shape)
        between[self.channels_axis] = self.depthwise.filters
        self.pointwise.build_for(tuple(between))

    def call(self, x: Tensor) -> Tensor:
        """Returns pointwise(depthwise(x)), with `filters` channels."""
        return self.pointwise(self.depthwise(x))


class SeparableConv1D(SeparableConv):
    """`SeparableConv` for x (batch, width, channels).

    >>> pb.layers.SeparableConv1D(8, 3)(pb.zeros((2, 10, 4))).shape
    (2, 8, 8)
    """

    dimensions = 1
    parts = (DepthwiseConv1D, Conv1D)


class SeparableConv2D(SeparableConv):
    """`SeparableConv` for x (batch, height, width, channels).

    >>> layer = pb.layers.SeparableConv2D(8, 3, padding="same")
    >>> layer(pb.zeros((2, 8, 8, 3))).shape
    (2, 8, 8, 8)
    >>> list(layer.named_variables)
    ['depthwise/kernel', 'pointwise/kernel', 'pointwise/bias']
    """

    dimensions = 2
    parts = (DepthwiseConv2D, Conv2D)
