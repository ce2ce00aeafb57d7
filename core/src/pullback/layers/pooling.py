"""Pooling over one to three spatial dimensions: by windows, adaptive, and global."""

from __future__ import annotations

from typing import Any, ClassVar

from pullback.layers.images import Images, Sizes, lower, sizes_of
from pullback.spec import OPS

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
    """One value for every window: what the pools share. Inputs are (batch, *spatial, channels).

    Args:
        pool_size: the window, one number or one for each dimension.
        strides: steps from window to window; the window's sizes if None.
        padding: "valid" or "same", in any case of letters.
        rest: `data_format`, and as of `Layer`.

    Raises:
        LayerError: for inputs of another number of axes, or that no window fits into.
    """

    op: ClassVar[str]

    def __init__(
        self,
        pool_size: Sizes = 2,
        strides: Sizes | None = None,
        padding: Any = "valid",
        **rest: Any,
    ) -> None:
        super().__init__(**rest)
        self.pool_size = sizes_of(pool_size, self.dimensions)
        self.strides = None if strides is None else sizes_of(strides, self.dimensions)
        self.padding = lower(padding)

    def call(self, x: Any) -> Any:
        """The pooled input."""
        self.check(x.shape)
        y = OPS[self.op].function(
            x,
            window=self.pool_size,
            strides=self.strides,
            padding=self.padding,
            data_format=self.data_format,
        )
        self.check_fits(x.shape, y.shape)
        return y


class AdaptivePool(Images):
    """Windows chosen so that the result has a given size (He et al., 2014).

    Args:
        output_size: the spatial sizes of the result, one number or one for each dimension.
        rest: `data_format`, and as of `Layer`.

    Raises:
        LayerError: for inputs of another number of axes.
    """

    op: ClassVar[str]

    def __init__(self, output_size: Sizes, **rest: Any) -> None:
        super().__init__(**rest)
        self.output_size = sizes_of(output_size, self.dimensions)

    def call(self, x: Any) -> Any:
        """The pooled input, (batch, *output_size, channels)."""
        self.check(x.shape)
        return OPS[self.op].function(x, output_size=self.output_size, data_format=self.data_format)


class GlobalPool(Images):
    """One value for each channel: what the global pools share.

    Args:
        keepdims: whether the spatial axes stay, with size 1.
        rest: `data_format`, and as of `Layer`.

    Raises:
        LayerError: for inputs of another number of axes.
    """

    op: ClassVar[str]

    def __init__(self, *, keepdims: bool = False, **rest: Any) -> None:
        super().__init__(**rest)
        self.keepdims = keepdims

    def call(self, x: Any) -> Any:
        """The pooled input, (batch, channels)."""
        self.check(x.shape)
        return OPS[self.op].function(x, axis=self.spatial_axes, keepdims=self.keepdims)


class MaxPool1D(Pool):
    """The largest value of every window of x (batch, width, channels).

    Arguments are those of `Pool`.

    >>> pb.layers.MaxPool1D(2)(pb.zeros((2, 6, 5))).shape
    (2, 3, 5)
    """

    dimensions, op = 1, "max_pool"


class MaxPool2D(Pool):
    """The largest value of every window of x (batch, height, width, channels).

    Arguments are those of `Pool`.

    >>> pb.layers.MaxPool2D(2)(pb.zeros((2, 6, 6, 5))).shape
    (2, 3, 3, 5)
    """

    dimensions, op = 2, "max_pool"


class MaxPool3D(Pool):
    """The largest value of every window of x (batch, depth, height, width, channels).

    Arguments are those of `Pool`.

    >>> pb.layers.MaxPool3D(2)(pb.zeros((2, 6, 6, 6, 5))).shape
    (2, 3, 3, 3, 5)
    """

    dimensions, op = 3, "max_pool"


class AveragePool1D(Pool):
    """The mean of every window of x (batch, width, channels).

    Arguments are those of `Pool`.

    >>> pb.layers.AveragePool1D(2)(pb.zeros((2, 6, 5))).shape
    (2, 3, 5)
    """

    dimensions, op = 1, "avg_pool"


class AveragePool2D(Pool):
    """The mean of every window of x (batch, height, width, channels).

    Arguments are those of `Pool`.

    >>> pb.layers.AveragePool2D(2)(pb.zeros((2, 6, 6, 5))).shape
    (2, 3, 3, 5)
    """

    dimensions, op = 2, "avg_pool"


class AveragePool3D(Pool):
    """The mean of every window of x (batch, depth, height, width, channels).

    Arguments are those of `Pool`.

    >>> pb.layers.AveragePool3D(2)(pb.zeros((2, 6, 6, 6, 5))).shape
    (2, 3, 3, 3, 5)
    """

    dimensions, op = 3, "avg_pool"


class AdaptiveMaxPool1D(AdaptivePool):
    """The largest values of so many windows of x (batch, width, channels).

    Arguments are those of `AdaptivePool`.

    >>> pb.layers.AdaptiveMaxPool1D(4)(pb.zeros((2, 6, 5))).shape
    (2, 4, 5)
    """

    dimensions, op = 1, "adaptive_max_pool"


class AdaptiveMaxPool2D(AdaptivePool):
    """The largest values of so many windows of x (batch, height, width, channels).

    Arguments are those of `AdaptivePool`.

    >>> pb.layers.AdaptiveMaxPool2D(4)(pb.zeros((2, 6, 6, 5))).shape
    (2, 4, 4, 5)
    """

    dimensions, op = 2, "adaptive_max_pool"


class AdaptiveMaxPool3D(AdaptivePool):
    """The largest values of so many windows of x (batch, depth, height, width, channels).

    Arguments are those of `AdaptivePool`.

    >>> pb.layers.AdaptiveMaxPool3D(4)(pb.zeros((2, 6, 6, 6, 5))).shape
    (2, 4, 4, 4, 5)
    """

    dimensions, op = 3, "adaptive_max_pool"


class AdaptiveAveragePool1D(AdaptivePool):
    """The means of so many windows of x (batch, width, channels).

    Arguments are those of `AdaptivePool`.

    >>> pb.layers.AdaptiveAveragePool1D(4)(pb.zeros((2, 6, 5))).shape
    (2, 4, 5)
    """

    dimensions, op = 1, "adaptive_avg_pool"


class AdaptiveAveragePool2D(AdaptivePool):
    """The means of so many windows of x (batch, height, width, channels).

    Arguments are those of `AdaptivePool`.

    >>> pb.layers.AdaptiveAveragePool2D(4)(pb.zeros((2, 6, 6, 5))).shape
    (2, 4, 4, 5)
    """

    dimensions, op = 2, "adaptive_avg_pool"


class AdaptiveAveragePool3D(AdaptivePool):
    """The means of so many windows of x (batch, depth, height, width, channels).

    Arguments are those of `AdaptivePool`.

    >>> pb.layers.AdaptiveAveragePool3D(4)(pb.zeros((2, 6, 6, 6, 5))).shape
    (2, 4, 4, 4, 5)
    """

    dimensions, op = 3, "adaptive_avg_pool"


class GlobalMaxPool1D(GlobalPool):
    """The largest value of each channel of x (batch, width, channels).

    Arguments are those of `GlobalPool`.

    >>> pb.layers.GlobalMaxPool1D()(pb.zeros((2, 6, 5))).shape
    (2, 5)
    """

    dimensions, op = 1, "max"


class GlobalMaxPool2D(GlobalPool):
    """The largest value of each channel of x (batch, height, width, channels).

    Arguments are those of `GlobalPool`.

    >>> pb.layers.GlobalMaxPool2D()(pb.zeros((2, 6, 6, 5))).shape
    (2, 5)
    """

    dimensions, op = 2, "max"


class GlobalMaxPool3D(GlobalPool):
    """The largest value of each channel of x (batch, depth, height, width, channels).

    Arguments are those of `GlobalPool`.

    >>> pb.layers.GlobalMaxPool3D()(pb.zeros((2, 6, 6, 6, 5))).shape
    (2, 5)
    """

    dimensions, op = 3, "max"


class GlobalAveragePool1D(GlobalPool):
    """The mean of each channel of x (batch, width, channels).

    Arguments are those of `GlobalPool`.

    >>> pb.layers.GlobalAveragePool1D()(pb.zeros((2, 6, 5))).shape
    (2, 5)
    """

    dimensions, op = 1, "mean"


class GlobalAveragePool2D(GlobalPool):
    """The mean of each channel of x (batch, height, width, channels).

    Arguments are those of `GlobalPool`.

    >>> pb.layers.GlobalAveragePool2D()(pb.zeros((2, 6, 6, 5))).shape
    (2, 5)
    """

    dimensions, op = 2, "mean"


class GlobalAveragePool3D(GlobalPool):
    """The mean of each channel of x (batch, depth, height, width, channels).

    Arguments are those of `GlobalPool`.

    >>> pb.layers.GlobalAveragePool3D()(pb.zeros((2, 6, 6, 6, 5))).shape
    (2, 5)
    """

    dimensions, op = 3, "mean"
