"""Noise while training that keeps a model from learning its data by heart."""

from __future__ import annotations

from typing import Any

from pullback import errors
from pullback.layers.images import Images
from pullback.layers.layer import Layer
from pullback.random import Generator, default_generator

__all__ = [
    "Dropout",
    "GaussianNoise",
    "SpatialDropout",
    "SpatialDropout1D",
    "SpatialDropout2D",
    "SpatialDropout3D",
]


class _Random(Layer):
    """A layer that draws numbers while training, from a generator of its own or the default one."""

    def __init__(
        self, *, generator: Generator | None = None, seed: int | None = None, **rest: Any
    ) -> None:
        super().__init__(**rest)
        self.generator = Generator(seed) if generator is None and seed is not None else generator

    @property
    def random(self) -> Generator:
        """What it draws from."""
        return default_generator if self.generator is None else self.generator


def _rate(value: float) -> float:
    if not 0 <= value < 1:
        raise errors.InputValueError(f"a dropout rate is in [0, 1), got {value}")
    return value


class Dropout(_Random):
    """Values set to 0 at random while training, the others scaled up (Srivastava et al., 2014).

    Args:
        rate: the probability of 0.
        generator: what it draws from; the default generator if there is neither it nor a seed.
        seed: makes a generator of its own.
        rest: as of `Layer`.

    >>> layer = pb.layers.Dropout(0.5, seed=1)
    >>> layer([1.0, 2.0]).tolist(), sorted(set(layer(pb.ones(100), training=True).tolist()))
    ([1.0, 2.0], [0.0, 2.0])

    Raises:
        InputValueError: for a rate outside [0, 1).
    """

    def __init__(self, rate: float, **rest: Any) -> None:
        super().__init__(**rest)
        self.rate = _rate(rate)

    def call(self, x: Any, training: bool = False) -> Any:
        """X, with zeros while training."""
        return self.random.dropout(x, self.rate) if training and self.rate else x


class SpatialDropout(Images, _Random):
    """Whole channels set to 0 at random while training (Tompson et al., 2015).

    Args:
        rate: the probability that a channel of an item is 0.
        rest: `data_format`, and as of `Dropout`.

    Raises:
        InputValueError: for a rate outside [0, 1).
        LayerError: for inputs of another number of axes.
    """

    def __init__(self, rate: float, **rest: Any) -> None:
        super().__init__(**rest)
        self.rate = _rate(rate)

    def call(self, x: Any, training: bool = False) -> Any:
        """X, with channels of zeros while training."""
        self.check(x.shape)
        if not training or not self.rate:
            return x
        shared = tuple(self.per_axis([1] * self.dimensions, None))
        return self.random.dropout(x, self.rate, noise_shape=shared)


class SpatialDropout1D(SpatialDropout):
    """`SpatialDropout` for x (batch, width, channels).

    >>> y = pb.layers.SpatialDropout1D(0.5, seed=3)(pb.ones((1, 2, 4)), training=True)
    >>> bool(pb.all(y[:, 0] == y[:, 1]))
    True
    """

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


class GaussianNoise(_Random):
    """Normal noise added while training (Bishop, 1995).

    Args:
        stddev: its standard deviation.
        rest: `generator` and `seed` as of `Dropout`, and as of `Layer`.

    >>> pb.layers.GaussianNoise(0.1)([1.0, 2.0]).tolist()
    [1.0, 2.0]

    Raises:
        InputValueError: for a negative deviation.
    """

    def __init__(self, stddev: float, **rest: Any) -> None:
        super().__init__(**rest)
        if not stddev >= 0:
            raise errors.InputValueError(f"a standard deviation is 0 or more, got {stddev}")
        self.stddev = stddev

    def call(self, x: Any, training: bool = False) -> Any:
        """X, with noise while training."""
        if not training or not self.stddev:
            return x
        noise = self.random.normal(x.shape, 0.0, self.stddev, dtype="float32", device=x.device)
        return x + noise.astype(x.dtype)
