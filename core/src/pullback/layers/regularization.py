"""Dropout and noise layers, active in training only."""

from __future__ import annotations

from typing import Unpack

from pullback import errors
from pullback.layers.images import Images
from pullback.layers.layer import Layer
from pullback.layers.masks import keep_mask
from pullback.layers.options import ImageOptions, LayerOptions
from pullback.layers.training_mode import is_training
from pullback.random import Generator, default_generator
from pullback.shapes import check_number
from pullback.tensor import Tensor

__all__ = [
    "Dropout",
    "GaussianNoise",
    "SpatialDropout",
    "SpatialDropout1D",
    "SpatialDropout2D",
    "SpatialDropout3D",
]


def own_generator(generator: Generator | None, seed: int | None) -> Generator | None:
    """Returns a layer's own generator: `generator`, one made from the seed, or None for neither."""
    return Generator(seed) if generator is None and seed is not None else generator


def active_generator(own: Generator | None) -> Generator:
    """Returns the generator that a layer draws from: its own or the default one."""
    return default_generator if own is None else own


def checked_rate(rate: float) -> float:
    """Returns a dropout rate that is in [0, 1).

    Raises:
        InputValueError: for a rate outside [0, 1).
    """
    check_number(rate, "a dropout rate")
    if not 0 <= rate < 1:
        raise errors.InputValueError(f"a dropout rate must be in [0, 1), got {rate}")
    return rate


class Dropout(Layer):
    """Sets random values to 0 in training and scales up the others (Srivastava et al., 2014).

    Args:
        rate: the probability of 0.
        generator: the generator that it draws from; the default one if None.
        seed: the seed of a generator of its own.
        options: see `Layer`.

    >>> layer = pb.layers.Dropout(0.5, seed=1)
    >>> layer([1.0, 2.0]).tolist(), sorted(set(layer(pb.ones(100), training=True).tolist()))
    ([1.0, 2.0], [0.0, 2.0])

    Raises:
        InputValueError: for a rate outside [0, 1).
    """

    call_masked = keep_mask

    def __init__(
        self,
        rate: float,
        *,
        generator: Generator | None = None,
        seed: int | None = None,
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**options)
        self.rate = checked_rate(rate)
        self.generator = own_generator(generator, seed)

    def call(self, x: Tensor, training: bool | None = None) -> Tensor:
        """Returns x, with zeros in training."""
        if not self.rate or not is_training(training):
            return x
        return active_generator(self.generator).dropout(x, self.rate)


class SpatialDropout(Images):
    """Sets random channels to 0 in training (Tompson et al., 2015).

    Args:
        rate: the probability that a channel of an item is 0.
        generator: see `Dropout`.
        seed: see `Dropout`.
        options: `data_format`, and those of `Layer`.

    Raises:
        InputValueError: for a rate outside [0, 1).
        LayerError: for inputs with another number of axes.
    """

    def __init__(
        self,
        rate: float,
        *,
        generator: Generator | None = None,
        seed: int | None = None,
        **options: Unpack[ImageOptions],
    ) -> None:
        super().__init__(**options)
        self.rate = checked_rate(rate)
        self.generator = own_generator(generator, seed)

    def call(self, x: Tensor, training: bool | None = None) -> Tensor:
        """Returns x, with channels of zeros in training."""
        self.check(x.shape)
        if not self.rate or not is_training(training):
            return x
        shared = tuple(self.per_axis([1] * self.dimensions, None))
        return active_generator(self.generator).dropout(x, self.rate, noise_shape=shared)


class SpatialDropout1D(SpatialDropout):
    """`SpatialDropout` for x (batch, width, channels).

    >>> y = pb.layers.SpatialDropout1D(0.5, seed=3)(pb.ones((1, 2, 4)), training=True)
    >>> bool(pb.all(y[:, 0] == y[:, 1]))
    True
    """

    call_masked = keep_mask

    dimensions = 1


class SpatialDropout2D(SpatialDropout):
    """`SpatialDropout` for x (batch, height, width, channels).

    >>> pb.layers.SpatialDropout2D(0.5)(pb.ones((1, 2, 2, 4)), training=True).shape
    (1, 2, 2, 4)
    """

    dimensions = 2


class SpatialDropout3D(SpatialDropout):
    """`SpatialDropout` for x (batch, depth, height, width, channels).

    >>> pb.layers.SpatialDropout3D(0.5)(pb.ones((1, 2, 2, 2, 4)), training=True).shape
    (1, 2, 2, 2, 4)
    """

    dimensions = 3


class GaussianNoise(Layer):
    """Adds normal noise in training (Bishop, 1995).

    Args:
        stddev: the standard deviation of the noise.
        generator: see `Dropout`.
        seed: see `Dropout`.
        options: see `Layer`.

    >>> pb.layers.GaussianNoise(0.1)([1.0, 2.0]).tolist()
    [1.0, 2.0]

    Raises:
        InputValueError: for a negative deviation.
    """

    call_masked = keep_mask

    def __init__(
        self,
        stddev: float,
        *,
        generator: Generator | None = None,
        seed: int | None = None,
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**options)
        self.generator = own_generator(generator, seed)
        check_number(stddev, "stddev")
        if not stddev >= 0:
            raise errors.InputValueError(f"stddev must be 0 or more, got {stddev}")
        self.stddev = stddev

    def call(self, x: Tensor, training: bool | None = None) -> Tensor:
        """Returns x, with noise in training."""
        if not self.stddev or not is_training(training):
            return x
        noise = active_generator(self.generator).normal(
            x.shape, 0.0, self.stddev, dtype="float32", device=x.device
        )
        return x + noise.astype(x.dtype)
