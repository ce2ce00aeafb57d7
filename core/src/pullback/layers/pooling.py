"""Pooling over one to three spatial dimensions."""

from __future__ import annotations

from typing import Any, ClassVar

from pullback.layers.images import Images, Sizes, lower, sizes_of
from pullback.tensor import CALL

__all__ = [
    "AveragePool1D",
    "AveragePool2D",
    "AveragePool3D",
    "GlobalAveragePool1D",
    "GlobalAveragePool2D",
    "GlobalAveragePool3D",
    "GlobalMaxPool1D",
    "GlobalMaxPool2D",
    "GlobalMaxPool3D",
    "MaxPool1D",
    "MaxPool2D",
    "MaxPool3D",
]


class _Pool(Images):
    """What the pools share."""

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
        self.strides = strides
        self.padding = lower(padding)

    def call(self, x: Any) -> Any:
        """The pooled input."""
        self.check(x.shape)
        y = CALL[self.op](
            x,
            window=self.pool_size,
            strides=self.strides,
            padding=self.padding,
            data_format=self.data_format,
        )
        self.check_fits(x.shape, y.shape)
        return y


class _GlobalPool(Images):
    """What the global pools share."""

    op: ClassVar[str]

    def call(self, x: Any) -> Any:
        """The pooled input, shape (batch, channels)."""
        self.check(x.shape)
        return CALL[self.op](x, axis=self.spatial_axes)


class MaxPool1D(_Pool):
    """The largest value of every window of x (batch, width, channels).

    Args:
        pool_size: the window, one number or one for each dimension.
        strides: steps from window to window; the window's sizes if None.
        padding: "valid" or "same", in any case of letters.
        rest: `data_format`, and as of `Layer`.

    >>> pb.layers.MaxPool1D(2)(pb.zeros((2, 6, 5))).shape
    (2, 3, 5)

    Raises:
        LayerError: for inputs of another number of axes.
    """

    dimensions, op = 1, "max_pool"


class MaxPool2D(_Pool):
    """The largest value of every window of x (batch, height, width, channels).

    Args:
        pool_size: the window, one number or one for each dimension.
        strides: steps from window to window; the window's sizes if None.
        padding: "valid" or "same", in any case of letters.
        rest: `data_format`, and as of `Layer`.

    >>> pb.layers.MaxPool2D(2)(pb.zeros((2, 6, 6, 5))).shape
    (2, 3, 3, 5)

    Raises:
        LayerError: for inputs of another number of axes.
    """

    dimensions, op = 2, "max_pool"


class MaxPool3D(_Pool):
    """The largest value of every window of x (batch, depth, height, width, channels).

    Args:
        pool_size: the window, one number or one for each dimension.
        strides: steps from window to window; the window's sizes if None.
        padding: "valid" or "same", in any case of letters.
        rest: `data_format`, and as of `Layer`.

    >>> pb.layers.MaxPool3D(2)(pb.zeros((2, 6, 6, 6, 5))).shape
    (2, 3, 3, 3, 5)

    Raises:
        LayerError: for inputs of another number of axes.
    """

    dimensions, op = 3, "max_pool"


class AveragePool1D(_Pool):
    """The mean of every window of x (batch, width, channels).

    Args:
        pool_size: the window, one number or one for each dimension.
        strides: steps from window to window; the window's sizes if None.
        padding: "valid" or "same", in any case of letters.
        rest: `data_format`, and as of `Layer`.

    >>> pb.layers.AveragePool1D(2)(pb.zeros((2, 6, 5))).shape
    (2, 3, 5)

    Raises:
        LayerError: for inputs of another number of axes.
    """

    dimensions, op = 1, "avg_pool"


class AveragePool2D(_Pool):
    """The mean of every window of x (batch, height, width, channels).

    Args:
        pool_size: the window, one number or one for each dimension.
        strides: steps from window to window; the window's sizes if None.
        padding: "valid" or "same", in any case of letters.
        rest: `data_format`, and as of `Layer`.

    >>> pb.layers.AveragePool2D(2)(pb.zeros((2, 6, 6, 5))).shape
    (2, 3, 3, 5)

    Raises:
        LayerError: for inputs of another number of axes.
    """

    dimensions, op = 2, "avg_pool"


class AveragePool3D(_Pool):
    """The mean of every window of x (batch, depth, height, width, channels).

    Args:
        pool_size: the window, one number or one for each dimension.
        strides: steps from window to window; the window's sizes if None.
        padding: "valid" or "same", in any case of letters.
        rest: `data_format`, and as of `Layer`.

    >>> pb.layers.AveragePool3D(2)(pb.zeros((2, 6, 6, 6, 5))).shape
    (2, 3, 3, 3, 5)

    Raises:
        LayerError: for inputs of another number of axes.
    """

    dimensions, op = 3, "avg_pool"


class GlobalMaxPool1D(_GlobalPool):
    """The largest value of each channel of x (batch, width, channels).

    >>> pb.layers.GlobalMaxPool1D()(pb.zeros((2, 6, 5))).shape
    (2, 5)

    Raises:
        LayerError: for inputs of another number of axes.
    """

    dimensions, op = 1, "max"


class GlobalMaxPool2D(_GlobalPool):
    """The largest value of each channel of x (batch, height, width, channels).

    >>> pb.layers.GlobalMaxPool2D()(pb.zeros((2, 6, 6, 5))).shape
    (2, 5)

    Raises:
        LayerError: for inputs of another number of axes.
    """

    dimensions, op = 2, "max"


class GlobalMaxPool3D(_GlobalPool):
    """The largest value of each channel of x (batch, depth, height, width, channels).

    >>> pb.layers.GlobalMaxPool3D()(pb.zeros((2, 6, 6, 6, 5))).shape
    (2, 5)

    Raises:
        LayerError: for inputs of another number of axes.
    """

    dimensions, op = 3, "max"


class GlobalAveragePool1D(_GlobalPool):
    """The mean of each channel of x (batch, width, channels).

    >>> pb.layers.GlobalAveragePool1D()(pb.zeros((2, 6, 5))).shape
    (2, 5)

    Raises:
        LayerError: for inputs of another number of axes.
    """

    dimensions, op = 1, "mean"


class GlobalAveragePool2D(_GlobalPool):
    """The mean of each channel of x (batch, height, width, channels).

    >>> pb.layers.GlobalAveragePool2D()(pb.zeros((2, 6, 6, 5))).shape
    (2, 5)

    Raises:
        LayerError: for inputs of another number of axes.
    """

    dimensions, op = 2, "mean"


class GlobalAveragePool3D(_GlobalPool):
    """The mean of each channel of x (batch, depth, height, width, channels).

    >>> pb.layers.GlobalAveragePool3D()(pb.zeros((2, 6, 6, 6, 5))).shape
    (2, 5)

    Raises:
        LayerError: for inputs of another number of axes.
    """

    dimensions, op = 3, "mean"
