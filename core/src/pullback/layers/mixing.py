"""Layers that mix the images of a batch, and their targets, in training."""

from __future__ import annotations

import math
from typing import Any, Unpack

from pullback import dtypes, errors
from pullback.devices import Device
from pullback.layers.augmentation import Augmentation, AugmentationOptions, as_pixels
from pullback.layers.regularization import active_generator
from pullback.layers.training_mode import is_training
from pullback.ops.arithmetic import clip
from pullback.ops.creation import arange
from pullback.ops.exponential import log
from pullback.ops.indexing import take, take_along_axis
from pullback.ops.logical import logical_and
from pullback.ops.manipulation import reshape
from pullback.ops.rounding import round
from pullback.ops.searching import argmax
from pullback.ops.selection import where
from pullback.random import Generator
from pullback.shapes import check_number
from pullback.tensor import Tensor

__all__ = ["CutMix", "MixUp"]


class _Mixed(Augmentation):
    """The base of layers that mix the images of a batch, and their targets.

    Args:
        alpha: the parameter of the Beta(alpha, alpha) distribution of weights.
        options: see `Augmentation`.
    """

    def __init__(self, alpha: float, **options: Unpack[AugmentationOptions]) -> None:
        super().__init__(**options)
        check_number(alpha, "alpha")
        if not 0 < alpha < math.inf:
            raise errors.InputValueError(f"alpha must be above 0 and finite, got {alpha}")
        self.alpha = float(alpha)

    def call(  # type: ignore[override]
        self,
        inputs: tuple[Tensor, Tensor],
        training: bool | None = None,
        generator: Generator | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Returns images and targets, each mixed with those of another item in training.

        Args:
            inputs: images (batch, height, width, channels), and floating-point targets with the
                batch first, such as one-hot classes.
            training: whether to mix.
            generator: what to draw from in this call, in place of the layer's generator.

        Raises:
            LayerError: for inputs that are not a pair, or targets that are not floating-point.
        """
        if not isinstance(inputs, (tuple, list)) or len(inputs) != 2:
            raise errors.LayerError("inputs must be a pair: images, targets")
        images, targets = inputs
        if images.ndim != 4 or not targets.shape[:1] == images.shape[:1]:
            raise errors.LayerError(
                f"inputs must be a batch of images and its targets, got the shapes {images.shape} "
                f"and {targets.shape}; mix after batch()"
            )
        if not dtypes.is_floating(targets.dtype):
            raise errors.LayerError(
                f"targets must be floating-point numbers, got {targets.dtype}; write "
                f"pb.one_hot(labels, classes) first"
            )
        if not is_training(training):
            return images, targets
        drawn = generator or active_generator(self.generator)
        count, device = images.shape[0], images.device
        first, second = (_gamma(self.alpha, count, drawn, device) for _ in range(2))
        # Beta, from two gammas; both can be 0 in float32 where alpha is small.
        weight = where(first + second > 0, first / (first + second), 1.0)
        order = drawn.permutation(arange(count, device=device))
        mixed, weight = self.mixed(images, take(images, order, axis=0), weight, drawn)
        weight = reshape(weight, (count, *[1] * (targets.ndim - 1))).astype(targets.dtype)
        return mixed, targets * weight + take(targets, order, axis=0) * (1 - weight)

    def mixed(
        self, images: Tensor, others: Tensor, weight: Tensor, generator: Generator
    ) -> tuple[Tensor, Tensor]:
        """Returns mixtures, and the weights of the first images in them.

        Args:
            images: with the channels last or first, as `data_format` says.
            others: what they are mixed with.
            weight: those wanted, (batch,).
            generator: what to draw from.
        """
        raise NotImplementedError(f"{type(self).__name__}.mixed")


class MixUp(_Mixed):
    """Adds another image of the batch to each, and its target (Zhang et al., 2018).

    Args:
        alpha: the parameter of the Beta(alpha, alpha) distribution of weights.
        options: see `Augmentation`.

    >>> images, targets = pb.ones((2, 4, 4, 3)), pb.eye(2)
    >>> x, y = pb.layers.MixUp(0.2, seed=1)((images, targets), training=True)
    >>> x.shape, pb.sum(y, axis=1).tolist()
    ((2, 4, 4, 3), [1.0, 1.0])

    Raises:
        InputValueError: for an alpha that is not above 0.
    """

    def __init__(self, alpha: float = 0.2, **options: Unpack[AugmentationOptions]) -> None:
        super().__init__(alpha, **options)

    def mixed(
        self, images: Tensor, others: Tensor, weight: Tensor, generator: Generator
    ) -> tuple[Tensor, Tensor]:
        """Returns weighted sums."""
        factor = reshape(weight, (-1, 1, 1, 1))
        first, second = images.astype(dtypes.float32), others.astype(dtypes.float32)
        return as_pixels(first * factor + second * (1 - factor), images), weight


class CutMix(_Mixed):
    """Puts a box of another image of the batch into each (Yun et al., 2019).

    Args:
        alpha: the parameter of the Beta(alpha, alpha) distribution of areas.
        options: see `Augmentation`.

    >>> images, targets = pb.ones((2, 4, 4, 3)), pb.eye(2)
    >>> x, y = pb.layers.CutMix(seed=1)((images, targets), training=True)
    >>> x.shape, pb.sum(y, axis=1).tolist()
    ((2, 4, 4, 3), [1.0, 1.0])

    Raises:
        InputValueError: for an alpha that is not above 0.
    """

    def __init__(self, alpha: float = 1.0, **options: Unpack[AugmentationOptions]) -> None:
        super().__init__(alpha, **options)

    def mixed(
        self, images: Tensor, others: Tensor, weight: Tensor, generator: Generator
    ) -> tuple[Tensor, Tensor]:
        """Returns images with a box of others, and the part of each that is its own."""
        count, device = images.shape[0], images.device
        axes = (1, 2) if self.data_format == "channels_last" else (2, 3)
        part = (1 - weight) ** 0.5
        box, area = None, weight * 0 + 1
        for axis in axes:
            size = images.shape[axis]
            middle = generator.uniform((count,), 0, size, dtype="float32", device=device)
            low = clip(round(middle - part * (size / 2)), 0, size)
            high = clip(round(middle + part * (size / 2)), 0, size)
            shape = [size if i == axis else 1 for i in range(4)]
            place = reshape(arange(size, dtype="float32", device=device), tuple(shape))
            within = logical_and(
                place >= reshape(low, (-1, 1, 1, 1)), place < reshape(high, (-1, 1, 1, 1))
            )
            box = within if box is None else logical_and(box, within)
            area = area * (high - low) / size
        assert box is not None
        return where(box, others, images), 1 - area


def _gamma(alpha: float, count: int, generator: Generator, device: Device) -> Tensor:
    """Gamma-distributed numbers in float32 (Marsaglia and Tsang, 2000), without a loop.

    They are the first of 8 candidates that are accepted. Each is rejected with less than 0.05, so
    that none is in 4 of 10^11 cases, in which the first is taken.
    """
    options: Any = {"dtype": "float32", "device": device}
    d = (alpha if alpha >= 1 else alpha + 1) - 1 / 3
    z = generator.normal((8, count), **options)
    v = clip((z * (1 / math.sqrt(9 * d)) + 1) ** 3, 1e-30)
    u = 1 - generator.uniform((8, count), **options)
    accepted = log(u) < z * z * 0.5 + d * (1 - v + log(v))
    first = argmax(accepted.astype(dtypes.int32), axis=0, keepdims=True)
    drawn = take_along_axis(v, first, axis=0)[0] * d
    if alpha < 1:
        drawn = drawn * (1 - generator.uniform((count,), **options)) ** (1 / alpha)
    return drawn
