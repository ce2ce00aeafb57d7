"""Dropout and noise layers, active in training only."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Unpack

from pullback import errors
from pullback._masked import Masked
from pullback.layers.images import Images
from pullback.layers.layer import Layer
from pullback.layers.masks import keep_mask
from pullback.layers.options import ImageOptions, LayerOptions
from pullback.layers.regularizers import l1_l2
from pullback.layers.training_mode import is_training
from pullback.ops.manipulation import reshape
from pullback.ops.selection import where
from pullback.random import Generator, default_generator
from pullback.shapes import check_number
from pullback.tensor import Tensor

__all__ = [
    "ActivityRegularization",
    "AlphaDropout",
    "Dropout",
    "GaussianDropout",
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
        """Returns x, with zeros or noise in training."""
        if not self.rate or not is_training(training):
            return x
        return self.dropped(x, active_generator(self.generator))

    def dropped(self, x: Tensor, generator: Generator) -> Tensor:
        """Returns x as in training."""
        return generator.dropout(x, self.rate)


class GaussianDropout(Dropout):
    """Multiplies values by normal noise in training (Srivastava et al., 2014, section 10).

    The noise has mean 1 and the variance of dropout, rate / (1 - rate). Arguments are those of
    `Dropout`.

    >>> layer = pb.layers.GaussianDropout(0.5, seed=1)
    >>> layer([1.0, 2.0]).tolist(), abs(layer(pb.ones(9999), training=True).mean().item() - 1) < 0.1
    ([1.0, 2.0], True)
    """

    def dropped(self, x: Tensor, generator: Generator) -> Tensor:
        """Returns x times noise."""
        deviation = math.sqrt(self.rate / (1 - self.rate))
        return x * _noise(x, generator, 1.0, deviation)


#: The value that `selu` approaches for small inputs.
_SELU_LEAST = -1.7580993408473766


class AlphaDropout(Dropout):
    """Sets random values to the least one of `selu` in training (Klambauer et al., 2017).

    All values are scaled and shifted then, so that those of mean 0 and variance 1 keep both.
    Arguments are those of `Dropout`.

    >>> layer = pb.layers.AlphaDropout(0.5, seed=1)
    >>> layer([1.0, 2.0]).tolist(), len({*layer(pb.ones(100), training=True).tolist()})
    ([1.0, 2.0], 2)
    """

    def dropped(self, x: Tensor, generator: Generator) -> Tensor:
        """Returns a * (x or the least value) + b."""
        kept = generator.bernoulli(x.shape, 1 - self.rate, device=x.device)
        a = ((1 - self.rate) * (1 + self.rate * _SELU_LEAST**2)) ** -0.5
        b = -a * _SELU_LEAST * self.rate
        y: Tensor = where(kept, x, _SELU_LEAST) * a + b
        return y


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
        return x + _noise(x, active_generator(self.generator), 0.0, self.stddev)


def _noise(x: Tensor, generator: Generator, mean: float, deviation: float) -> Tensor:
    """Normal noise in the shape and dtype of x."""
    noise = generator.normal(x.shape, mean, deviation, dtype="float32", device=x.device)
    return noise.astype(x.dtype)


class ActivityRegularization(Layer):
    """Hands its inputs on, and adds a penalty of their values to the `losses`.

    The penalty is l1 * the sum of |x| + l2 * the sum of x**2, over the batch as well. Steps of
    padding in `Masked` inputs do not count.

    Args:
        l1: the weight of the absolute values.
        l2: the weight of the squares.
        options: see `Layer`.

    >>> layer = pb.layers.ActivityRegularization(l2=0.5)
    >>> layer([[1.0, -2.0]]).tolist(), [loss.item() for loss in layer.losses]
    ([[1.0, -2.0]], [2.5])
    """

    def __init__(self, l1: float = 0.0, l2: float = 0.0, **options: Unpack[LayerOptions]) -> None:
        super().__init__(**options)
        check_number(l1, "l1")
        check_number(l2, "l2")
        self.penalty: Callable[[Any], Tensor] = l1_l2(l1, l2)

    def call_masked(self, x: Masked, *args: Any, **kwargs: Any) -> Masked:
        """Returns x, whose values count where they exist."""
        shape = (*x.mask.shape, *[1] * (x.values.ndim - x.mask.ndim))
        self(where(reshape(x.mask, shape), x.values, 0), *args, **kwargs)
        return x

    def call(self, x: Tensor) -> Tensor:
        """Returns x."""
        self.add_loss(self.penalty(x))
        return x
