"""Pooling over one to three spatial dimensions: by windows, adaptive, and global."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Unpack

from pullback._dispatch.arguments import as_bool
from pullback._masked import Masked
from pullback.layers.images import Images, Sizes, lower, sizes_of
from pullback.layers.masks import reject_mask
from pullback.layers.options import ImageOptions
from pullback.ops.arithmetic import maximum
from pullback.ops.data_types import astype
from pullback.ops.manipulation import expand_dims
from pullback.ops.nn.adaptive_pooling import adaptive_avg_pool, adaptive_max_pool
from pullback.ops.nn.pooling import avg_pool, max_pool
from pullback.ops.reductions import max as reduce_max
from pullback.ops.reductions import mean
from pullback.ops.reductions import sum as reduce_sum
from pullback.ops.selection import where
from pullback.tensor import Tensor

__all__ = [
    "AdaptiveAveragePool1D",
    "AdaptiveAveragePool2D",
    "AdaptiveAveragePool3D",
    "AdaptiveMaxPool1D",
    "AdaptiveMaxPool2D",
    "AdaptiveMaxPool3D",
    "AdaptivePool",
    "AveragePool1D",
    "AveragePool2D",
    "AveragePool3D",
    "GlobalAveragePool1D",
    "GlobalAveragePool2D",
    "GlobalAveragePool3D",
    "GlobalMaxPool1D",
    "GlobalMaxPool2D",
    "GlobalMaxPool3D",
    "GlobalPool",
    "MaxPool1D",
    "MaxPool2D",
    "MaxPool3D",
    "Pool",
]


class Pool(Images):
    """The base of pooling by windows. Inputs are (batch, *spatial, channels).

    Args:
        pool_size: the size of the window, one number or one for each dimension.
        strides: the steps from window to window; `pool_size` if None.
        padding: "valid" or "same", in upper or lower case.
        dilation: the steps between elements of a window.
        ceil_mode: True for one more window where elements are left over at an end.
        options: `data_format`, and those of `Layer`.

    Raises:
        LayerError: for inputs with another number of axes, or too small for a window.
    """

    #: The op that pools.
    op: ClassVar[Callable[..., Tensor]]

    def __init__(
        self,
        pool_size: Sizes = 2,
        strides: Sizes | None = None,
        padding: str = "valid",
        *,
        dilation: Sizes = 1,
        ceil_mode: bool = False,
        **options: Unpack[ImageOptions],
    ) -> None:
        super().__init__(**options)
        self.pool_size = sizes_of(pool_size, self.dimensions)
        self.strides = None if strides is None else sizes_of(strides, self.dimensions)
        self.padding = lower(padding)
        self.dilation = sizes_of(dilation, self.dimensions)
        self.ceil_mode = as_bool(ceil_mode, "ceil_mode")

    def call(self, x: Tensor) -> Tensor:
        """Returns the pooled input."""
        shape = x.shape
        self.check(shape)
        y = self.op(
            x,
            window=self.pool_size,
            strides=self.strides,
            padding=self.padding,
            dilation=self.dilation,
            ceil_mode=self.ceil_mode,
            data_format=self.data_format,
        )
        self.check_fits(shape, y.shape)
        return y


class AdaptivePool(Images):
    """The base of pooling to a fixed output size (He et al., 2014).

    Args:
        output_size: the spatial sizes of the result, one number or one for each dimension.
        options: `data_format`, and those of `Layer`.

    Raises:
        LayerError: for inputs with another number of axes.
    """

    #: The op that pools.
    op: ClassVar[Callable[..., Tensor]]

    def __init__(self, output_size: Sizes, **options: Unpack[ImageOptions]) -> None:
        super().__init__(**options)
        self.output_size = sizes_of(output_size, self.dimensions)

    def call(self, x: Tensor) -> Tensor:
        """Returns the pooled input, (batch, *output_size, channels)."""
        self.check(x.shape)
        return self.op(x, output_size=self.output_size, data_format=self.data_format)


class GlobalPool(Images):
    """The base of pooling each channel to one value.

    Args:
        keepdims: whether the spatial axes are kept, with size 1.
        options: `data_format`, and those of `Layer`.

    Raises:
        LayerError: for inputs with another number of axes.
    """

    #: The op that pools.
    op: ClassVar[Callable[..., Tensor]]

    def __init__(self, *, keepdims: bool = False, **options: Unpack[ImageOptions]) -> None:
        super().__init__(**options)
        self.keepdims = as_bool(keepdims, "keepdims")

    def call_masked(self, x: Masked, *args: Any, **kwargs: Any) -> Tensor:
        """Returns the same of the steps that exist, for `Masked` sequences."""
        values, mask = x
        if self.dimensions != 1 or self.data_format != "channels_last" or mask.ndim != 2:
            reject_mask(self)
        exists = expand_dims(mask, axis=-1)
        if self.op is reduce_max:
            return self(where(exists, values, float("-inf")), *args, **kwargs)
        share = mask.shape[1] / maximum(reduce_sum(astype(exists, values.dtype), axis=1), 1)
        pooled = self(where(exists, values, 0), *args, **kwargs)
        return pooled * (expand_dims(share, axis=1) if self.keepdims else share)

    def call(self, x: Tensor) -> Tensor:
        """Returns the pooled input, (batch, channels)."""
        self.check(x.shape)
        return self.op(x, axis=self.spatial_axes, keepdims=self.keepdims)


class MaxPool1D(Pool):
    """The largest value of every window of x (batch, width, channels).

    Arguments are those of `Pool`.

    >>> pb.layers.MaxPool1D(2)(pb.zeros((2, 6, 5))).shape
    (2, 3, 5)
    """

    dimensions, op = 1, staticmethod(max_pool)


class MaxPool2D(Pool):
    """The largest value of every window of x (batch, height, width, channels).

    Arguments are those of `Pool`.

    >>> pb.layers.MaxPool2D(2)(pb.zeros((2, 6, 6, 5))).shape
    (2, 3, 3, 5)
    """

    dimensions, op = 2, staticmethod(max_pool)


class MaxPool3D(Pool):
    """The largest value of every window of x (batch, depth, height, width, channels).

    Arguments are those of `Pool`.

    >>> pb.layers.MaxPool3D(2)(pb.zeros((2, 6, 6, 6, 5))).shape
    (2, 3, 3, 3, 5)
    """

    dimensions, op = 3, staticmethod(max_pool)


class AveragePool1D(Pool):
    """The mean of every window of x (batch, width, channels).

    Arguments are those of `Pool`.

    >>> pb.layers.AveragePool1D(2)(pb.zeros((2, 6, 5))).shape
    (2, 3, 5)
    """

    dimensions, op = 1, staticmethod(avg_pool)


class AveragePool2D(Pool):
    """The mean of every window of x (batch, height, width, channels).

    Arguments are those of `Pool`.

    >>> pb.layers.AveragePool2D(2)(pb.zeros((2, 6, 6, 5))).shape
    (2, 3, 3, 5)
    """

    dimensions, op = 2, staticmethod(avg_pool)


class AveragePool3D(Pool):
    """The mean of every window of x (batch, depth, height, width, channels).

    Arguments are those of `Pool`.

    >>> pb.layers.AveragePool3D(2)(pb.zeros((2, 6, 6, 6, 5))).shape
    (2, 3, 3, 3, 5)
    """

    dimensions, op = 3, staticmethod(avg_pool)


class AdaptiveMaxPool1D(AdaptivePool):
    """The largest values of `output_size` windows of x (batch, width, channels).

    Arguments are those of `AdaptivePool`.

    >>> pb.layers.AdaptiveMaxPool1D(4)(pb.zeros((2, 6, 5))).shape
    (2, 4, 5)
    """

    dimensions, op = 1, staticmethod(adaptive_max_pool)


class AdaptiveMaxPool2D(AdaptivePool):
    """The largest values of `output_size` windows of x (batch, height, width, channels).

    Arguments are those of `AdaptivePool`.

    >>> pb.layers.AdaptiveMaxPool2D(4)(pb.zeros((2, 6, 6, 5))).shape
    (2, 4, 4, 5)
    """

    dimensions, op = 2, staticmethod(adaptive_max_pool)


class AdaptiveMaxPool3D(AdaptivePool):
    """The largest values of `output_size` windows of x (batch, depth, height, width, channels).

    Arguments are those of `AdaptivePool`.

    >>> pb.layers.AdaptiveMaxPool3D(4)(pb.zeros((2, 6, 6, 6, 5))).shape
    (2, 4, 4, 4, 5)
    """

    dimensions, op = 3, staticmethod(adaptive_max_pool)


class AdaptiveAveragePool1D(AdaptivePool):
    """The means of `output_size` windows of x (batch, width, channels).

    Arguments are those of `AdaptivePool`.

    >>> pb.layers.AdaptiveAveragePool1D(4)(pb.zeros((2, 6, 5))).shape
    (2, 4, 5)
    """

    dimensions, op = 1, staticmethod(adaptive_avg_pool)


class AdaptiveAveragePool2D(AdaptivePool):
    """The means of `output_size` windows of x (batch, height, width, channels).

    Arguments are those of `AdaptivePool`.

    >>> pb.layers.AdaptiveAveragePool2D(4)(pb.zeros((2, 6, 6, 5))).shape
    (2, 4, 4, 5)
    """

    dimensions, op = 2, staticmethod(adaptive_avg_pool)


class AdaptiveAveragePool3D(AdaptivePool):
    """The means of `output_size` windows of x (batch, depth, height, width, channels).

    Arguments are those of `AdaptivePool`.

    >>> pb.layers.AdaptiveAveragePool3D(4)(pb.zeros((2, 6, 6, 6, 5))).shape
    (2, 4, 4, 4, 5)
    """

    dimensions, op = 3, staticmethod(adaptive_avg_pool)


class GlobalMaxPool1D(GlobalPool):
    """The largest value of each channel of x (batch, width, channels).

    Arguments are those of `GlobalPool`.

    >>> pb.layers.GlobalMaxPool1D()(pb.zeros((2, 6, 5))).shape
    (2, 5)
    """

    dimensions, op = 1, staticmethod(reduce_max)


class GlobalMaxPool2D(GlobalPool):
    """The largest value of each channel of x (batch, height, width, channels).

    Arguments are those of `GlobalPool`.

    >>> pb.layers.GlobalMaxPool2D()(pb.zeros((2, 6, 6, 5))).shape
    (2, 5)
    """

    dimensions, op = 2, staticmethod(reduce_max)


class GlobalMaxPool3D(GlobalPool):
    """The largest value of each channel of x (batch, depth, height, width, channels).

    Arguments are those of `GlobalPool`.

    >>> pb.layers.GlobalMaxPool3D()(pb.zeros((2, 6, 6, 6, 5))).shape
    (2, 5)
    """

    dimensions, op = 3, staticmethod(reduce_max)


class GlobalAveragePool1D(GlobalPool):
    """The mean of each channel of x (batch, width, channels).

    Arguments are those of `GlobalPool`.

    >>> pb.layers.GlobalAveragePool1D()(pb.zeros((2, 6, 5))).shape
    (2, 5)
    """

    dimensions, op = 1, staticmethod(mean)


class GlobalAveragePool2D(GlobalPool):
    """The mean of each channel of x (batch, height, width, channels).

    Arguments are those of `GlobalPool`.

    >>> pb.layers.GlobalAveragePool2D()(pb.zeros((2, 6, 6, 5))).shape
    (2, 5)
    """

    dimensions, op = 2, staticmethod(mean)


class GlobalAveragePool3D(GlobalPool):
    """The mean of each channel of x (batch, depth, height, width, channels).

    Arguments are those of `GlobalPool`.

    >>> pb.layers.GlobalAveragePool3D()(pb.zeros((2, 6, 6, 6, 5))).shape
    (2, 5)
    """

    dimensions, op = 3, staticmethod(mean)
