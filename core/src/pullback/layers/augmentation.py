"""Layers that change images at random in training: places and colours.

Each image of a batch gets numbers of its own. They come from the layer's generator, or from the one
that `Dataset.map(..., seed=...)` hands on, so a run that is resumed goes on with the same images.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal, TypeAlias, Unpack

from pullback import dtypes, errors
from pullback.layers.images import data_format_of
from pullback.layers.layer import Layer
from pullback.layers.options import LayerOptions
from pullback.layers.regularization import active_generator, own_generator
from pullback.layers.training_mode import is_training
from pullback.ops.arithmetic import clip, remainder
from pullback.ops.creation import arange, full
from pullback.ops.indexing import take
from pullback.ops.logical import logical_and
from pullback.ops.manipulation import expand_dims, flip, permute_dims, reshape, squeeze
from pullback.ops.nn.windows import DataFormat
from pullback.ops.padding import pad
from pullback.ops.reductions import mean
from pullback.ops.rounding import floor, round
from pullback.ops.selection import where
from pullback.ops.trigonometric import cos, sin
from pullback.random import Generator
from pullback.shapes import as_int, check_choice, check_number
from pullback.tensor import Tensor

__all__ = [
    "Augmentation",
    "RandomBrightness",
    "RandomContrast",
    "RandomCrop",
    "RandomFlip",
    "RandomRotation",
    "RandomTranslation",
    "RandomZoom",
]

#: The ends of an interval to draw from; f stands for -f to f.
Interval: TypeAlias = "float | Sequence[float]"
#: Draws a number for each image from an interval.
IntervalDraw: TypeAlias = Callable[[tuple[float, float]], Tensor]


class AugmentationOptions(LayerOptions, total=False):
    """The keyword arguments of layers that change images."""

    generator: Generator | None
    seed: int | None
    data_format: DataFormat


class Augmentation(Layer):
    """The base of layers that change images at random in training.

    Inputs are images (batch, height, width, channels), or one image without the batch axis. In a
    class of your own, `augment` gets images with the channels last and a generator to draw from.

    Args:
        generator: the generator to draw from; the default one if None.
        seed: the seed of a generator of its own.
        data_format: "channels_last" or "channels_first".
        options: see `Layer`.

    >>> class Noise(pb.layers.Augmentation):
    ...     def augment(self, images, generator):
    ...         return images + 0.1 * generator.normal(images.shape)
    >>> image = pb.zeros((2, 2, 3))
    >>> Noise()(image, training=True).shape, bool(pb.all(Noise()(image) == image))
    ((2, 2, 3), True)

    The generator that `map` hands on makes the images of a pipeline the same in any order of work:

    >>> flip = pb.layers.RandomFlip("horizontal")
    >>> data = pb.data.Dataset.from_tensor_slices(pb.zeros((4, 2, 2, 3)))
    >>> data = data.map(lambda x, generator: flip(x, training=True, generator=generator), seed=1)

    Raises:
        LayerError: for inputs with another number of axes.
    """

    def __init__(
        self,
        *,
        generator: Generator | None = None,
        seed: int | None = None,
        data_format: DataFormat = "channels_last",
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**options)
        self.generator = own_generator(generator, seed)
        self.data_format = data_format_of(data_format)

    def call(
        self, x: Tensor, training: bool | None = None, generator: Generator | None = None
    ) -> Tensor:
        """Returns images that are changed in training.

        Args:
            x: images.
            training: whether to change them.
            generator: what to draw from in this call, in place of the layer's generator.
        """
        if not is_training(training):
            return self._on_batch(x, self.infer)
        drawn = generator or active_generator(self.generator)
        return self._on_batch(x, lambda images: self.augment(images, drawn))

    def augment(self, images: Tensor, generator: Generator) -> Tensor:
        """Returns changed images.

        Args:
            images: (batch, height, width, channels).
            generator: what to draw from.
        """
        raise NotImplementedError(f"{type(self).__name__}.augment")

    def infer(self, images: Tensor) -> Tensor:
        """Returns the images as a model gets them that is not trained: as they are."""
        return images

    def _on_batch(self, x: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
        if x.ndim not in (3, 4):
            inner = "height, width, channels"
            if self.data_format == "channels_first":
                inner = "channels, height, width"
            raise errors.LayerError(
                f"inputs must be images (batch, {inner}) or one image ({inner}), got shape "
                f"{x.shape}"
            )
        first = self.data_format == "channels_first"
        images = expand_dims(x, axis=0) if x.ndim == 3 else x
        images = function(permute_dims(images, (0, 2, 3, 1)) if first else images)
        images = permute_dims(images, (0, 3, 1, 2)) if first else images
        return squeeze(images, axis=0) if x.ndim == 3 else images


# Places -------------------------------------------------------------------------------------------


class RandomFlip(Augmentation):
    """Flips images, each with a probability of one half.

    Args:
        mode: "horizontal", "vertical", or "horizontal_and_vertical", which draws for both.
        options: see `Augmentation`.

    >>> image = pb.reshape(pb.arange(4), (1, 1, 4, 1))
    >>> y = pb.layers.RandomFlip("horizontal", seed=1)(image, training=True)
    >>> sorted(pb.reshape(y, (4,)).tolist())
    [0, 1, 2, 3]

    Raises:
        InputValueError: for another mode.
    """

    _AXES: ClassVar = {"horizontal": (2,), "vertical": (1,), "horizontal_and_vertical": (2, 1)}

    def __init__(
        self,
        mode: Literal[
            "horizontal", "vertical", "horizontal_and_vertical"
        ] = "horizontal_and_vertical",
        **options: Unpack[AugmentationOptions],
    ) -> None:
        super().__init__(**options)
        check_choice(mode, "mode", self._AXES)
        self.mode = mode

    def augment(self, images: Tensor, generator: Generator) -> Tensor:
        """Returns images, some of them flipped."""
        for axis in self._AXES[self.mode]:
            flipped = generator.bernoulli((images.shape[0], 1, 1, 1), device=images.device)
            images = where(flipped, flip(images, axis=axis), images)
        return images


class RandomCrop(Augmentation):
    """Cuts a part out of each image, at a random place; without training, at the centre.

    Args:
        height: the height of the part.
        width: its width.
        padding: rows and columns of zeros that are added at all sides before it is cut out.
        options: see `Augmentation`.

    >>> pb.layers.RandomCrop(2, 3)(pb.ones((1, 8, 8, 1)), training=True).shape
    (1, 2, 3, 1)

    Raises:
        InputValueError: for a negative size.
        LayerError: for images that are smaller.
    """

    def __init__(
        self, height: int, width: int, *, padding: int = 0, **options: Unpack[AugmentationOptions]
    ) -> None:
        super().__init__(**options)
        self.height = _count(height, "height")
        self.width = _count(width, "width")
        self.padding = _count(padding, "padding")

    def augment(self, images: Tensor, generator: Generator) -> Tensor:
        """Returns a part of each image."""
        images = self._padded(images)
        count, height, width, _ = images.shape
        places = []
        for size, wanted in ((height, self.height), (width, self.width)):
            first = generator.integers((count, 1), 0, size - wanted + 1, device=images.device)
            places.append(first + arange(wanted, dtype=first.dtype, device=images.device))
        return _pixels(images, expand_dims(places[0], axis=2), expand_dims(places[1], axis=1))

    def infer(self, images: Tensor) -> Tensor:
        """Returns the centre of the images."""
        images = self._padded(images)
        _, height, width, _ = images.shape
        top, left = (height - self.height) // 2, (width - self.width) // 2
        return images[:, top : top + self.height, left : left + self.width]

    def _padded(self, images: Tensor) -> Tensor:
        if self.padding:
            sides = (self.padding, self.padding)
            images = pad(images, ((0, 0), sides, sides, (0, 0)))
        if images.shape[1] < self.height or images.shape[2] < self.width:
            raise errors.LayerError(
                f"images of shape {images.shape} are smaller than the part of "
                f"({self.height}, {self.width}); resize them, or give padding="
            )
        return images


class MovedOptions(AugmentationOptions, total=False):
    """The keyword arguments of layers that take each pixel from another place."""

    fill_mode: Literal["reflect", "wrap", "nearest", "constant"]
    interpolation: Literal["bilinear", "nearest"]
    fill_value: float


class _Moved(Augmentation):
    """The base of layers that take each pixel from another place.

    Args:
        fill_mode: what is outside of an image: "reflect" (dcba|abcd|dcba), "wrap" (abcd|abcd|abcd),
            "nearest" (aaaa|abcd|dddd) or "constant", `fill_value`.
        interpolation: "bilinear" or "nearest".
        fill_value: the number outside of an image, for "constant".
        options: see `Augmentation`.
    """

    def __init__(
        self,
        *,
        fill_mode: Literal["reflect", "wrap", "nearest", "constant"] = "reflect",
        interpolation: Literal["bilinear", "nearest"] = "bilinear",
        fill_value: float = 0.0,
        **options: Unpack[AugmentationOptions],
    ) -> None:
        super().__init__(**options)
        check_choice(fill_mode, "fill_mode", ("reflect", "wrap", "nearest", "constant"))
        check_choice(interpolation, "interpolation", ("bilinear", "nearest"))
        check_number(fill_value, "fill_value")
        self.fill_mode = fill_mode
        self.interpolation = interpolation
        self.fill_value = float(fill_value)

    def places(self, y: Tensor, x: Tensor, draw: IntervalDraw) -> tuple[Tensor, Tensor]:
        """Returns where each pixel comes from.

        Args:
            y: the rows of the result, from the centre, in pixels, (1, height, 1).
            x: its columns, (1, 1, width).
            draw: draws a number for each image from an interval, (batch, 1, 1).
        """
        raise NotImplementedError(f"{type(self).__name__}.places")

    def augment(self, images: Tensor, generator: Generator) -> Tensor:
        """Returns images with their pixels at other places."""
        count, height, width, _ = images.shape
        device = images.device

        def draw(interval: tuple[float, float]) -> Tensor:
            return generator.uniform((count, 1, 1), *interval, dtype="float32", device=device)

        middle_y, middle_x = (height - 1) / 2, (width - 1) / 2
        y = reshape(arange(height, dtype="float32", device=device), (1, height, 1)) - middle_y
        x = reshape(arange(width, dtype="float32", device=device), (1, 1, width)) - middle_x
        y, x = self.places(y, x, draw)
        y, x = y + middle_y, x + middle_x
        if self.interpolation == "nearest":
            return self._at(images, round(y), round(x))
        top, left = floor(y), floor(x)
        down, right = expand_dims(y - top, axis=3), expand_dims(x - left, axis=3)
        wide = images.astype(dtypes.float32)
        upper = self._at(wide, top, left) * (1 - right) + self._at(wide, top, left + 1) * right
        lower = (
            self._at(wide, top + 1, left) * (1 - right) + self._at(wide, top + 1, left + 1) * right
        )
        return as_pixels(upper * (1 - down) + lower * down, images)

    def _at(self, images: Tensor, y: Tensor, x: Tensor) -> Tensor:
        """The pixels at whole rows and columns, which may be outside."""
        _, height, width, _ = images.shape
        rows, columns = self._inside(y, height), self._inside(x, width)
        pixels = _pixels(images, rows.astype(dtypes.int64), columns.astype(dtypes.int64))
        if self.fill_mode != "constant":
            return pixels
        within = logical_and(logical_and(y >= 0, y < height), logical_and(x >= 0, x < width))
        fill = full((), self.fill_value, dtype=images.dtype, device=images.device)
        return where(expand_dims(within, axis=3), pixels, fill)

    def _inside(self, place: Tensor, size: int) -> Tensor:
        """The places of an axis that those outside stand for."""
        if self.fill_mode == "wrap":
            return remainder(place, size)
        if self.fill_mode == "reflect":
            place = remainder(place, 2 * size)
            return where(place < size, place, 2 * size - 1 - place)
        return clip(place, 0, size - 1)


class RandomTranslation(_Moved):
    """Moves images down and to the right by random parts of their size.

    Args:
        height_factor: the interval of parts of the height; a number f stands for -f to f.
        width_factor: the same of the width.
        options: those of `Augmentation`, and `fill_mode` ("reflect", "wrap", "nearest",
            "constant"), `fill_value` and `interpolation` ("bilinear", "nearest").

    >>> layer = pb.layers.RandomTranslation((0.5, 0.5), 0.0, fill_mode="constant")
    >>> layer(pb.ones((1, 2, 1, 1)), training=True).flatten().tolist()
    [0.0, 1.0]

    Raises:
        InputValueError: for an interval that is not one.
    """

    def __init__(
        self, height_factor: Interval, width_factor: Interval, **options: Unpack[MovedOptions]
    ) -> None:
        super().__init__(**options)
        self.height_factor = _interval(height_factor, "height_factor")
        self.width_factor = _interval(width_factor, "width_factor")

    def places(self, y: Tensor, x: Tensor, draw: IntervalDraw) -> tuple[Tensor, Tensor]:
        """Returns places that are moved."""
        down = draw(self.height_factor) * y.shape[1]
        return y - down, x - draw(self.width_factor) * x.shape[2]


class RandomRotation(_Moved):
    """Turns images counterclockwise by random parts of a full turn.

    Args:
        factor: the interval of parts of 2 pi; a number f stands for -f to f.
        options: see `RandomTranslation`.

    >>> turn = pb.layers.RandomRotation((0.25, 0.25))
    >>> y = turn(pb.asarray([[[0.0], [1.0]], [[2.0], [3.0]]]), training=True)
    >>> pb.round(y[..., 0]).tolist()
    [[1.0, 3.0], [0.0, 2.0]]

    Raises:
        InputValueError: for an interval that is not one.
    """

    def __init__(self, factor: Interval, **options: Unpack[MovedOptions]) -> None:
        super().__init__(**options)
        self.factor = _interval(factor, "factor")

    def places(self, y: Tensor, x: Tensor, draw: IntervalDraw) -> tuple[Tensor, Tensor]:
        """Returns places that are turned back."""
        angle = draw(self.factor) * (2 * math.pi)
        c, s = cos(angle), sin(angle)
        return c * y + s * x, c * x - s * y


class RandomZoom(_Moved):
    """Shows images smaller or larger.

    Args:
        height_factor: the interval of changes: 0.2 shows 20 % more rows than there are, -0.2 20 %
            less; a number f stands for -f to f.
        width_factor: the same of columns; None takes the number drawn for rows.
        options: see `RandomTranslation`.

    >>> pb.layers.RandomZoom(0.2)(pb.ones((1, 4, 4, 3)), training=True).shape
    (1, 4, 4, 3)

    Raises:
        InputValueError: for an interval that is not one, or reaches below -1.
    """

    def __init__(
        self,
        height_factor: Interval,
        width_factor: Interval | None = None,
        **options: Unpack[MovedOptions],
    ) -> None:
        super().__init__(**options)
        self.height_factor = _interval(height_factor, "height_factor", -1)
        self.width_factor = (
            None if width_factor is None else _interval(width_factor, "width_factor", -1)
        )

    def places(self, y: Tensor, x: Tensor, draw: IntervalDraw) -> tuple[Tensor, Tensor]:
        """Returns places that are nearer to the centre, or farther."""
        rows = draw(self.height_factor) + 1
        columns = rows if self.width_factor is None else draw(self.width_factor) + 1
        return y * rows, x * columns


# Colours ------------------------------------------------------------------------------------------


class _Coloured(Augmentation):
    """The base of layers that change the values of pixels.

    Args:
        factor: the interval to draw from.
        value_range: the least and the largest value of a pixel; None stands for 0 to 255 for
            integers, and 0 to 1 for floating-point numbers.
        options: see `Augmentation`.
    """

    def __init__(
        self,
        factor: Interval,
        *,
        value_range: Sequence[float] | None = None,
        **options: Unpack[AugmentationOptions],
    ) -> None:
        super().__init__(**options)
        self.factor = _interval(factor, "factor", -1)
        self.value_range = None if value_range is None else _interval(value_range, "value_range")

    def augment(self, images: Tensor, generator: Generator) -> Tensor:
        """Returns images with other values."""
        low, high = self.value_range or ((0, 1) if dtypes.is_floating(images.dtype) else (0, 255))
        shape = (images.shape[0], 1, 1, 1)
        change = generator.uniform(shape, *self.factor, dtype="float32", device=images.device)
        changed = self.changed(images.astype(dtypes.float32), change, high - low)
        return as_pixels(clip(changed, low, high), images)

    def changed(self, images: Tensor, change: Tensor, span: float) -> Tensor:
        """Returns other values.

        Args:
            images: in float32.
            change: what was drawn for each, (batch, 1, 1, 1).
            span: the largest value less the least.
        """
        raise NotImplementedError(f"{type(self).__name__}.changed")


class RandomBrightness(_Coloured):
    """Adds a random number to all values of an image.

    Args:
        factor: the interval of parts of the largest value; a number f stands for -f to f.
        options: those of `Augmentation`, and `value_range`: the least and the largest value, where
            results are clipped; None stands for 0 to 255 for integers, 0 to 1 for other images.

    >>> pb.layers.RandomBrightness((0.25, 0.25))(pb.zeros((1, 1, 1)), training=True).tolist()
    [[[0.25]]]

    Raises:
        InputValueError: for an interval that is not one, or reaches below -1.
    """

    def changed(self, images: Tensor, change: Tensor, span: float) -> Tensor:
        """Returns lighter and darker images."""
        return images + change * span


class RandomContrast(_Coloured):
    """Brings the values of an image nearer to their mean by channel, or farther from it.

    Args:
        factor: the interval of changes: -1 leaves the mean only, 1 doubles distances; a number f
            stands for -f to f.
        options: see `RandomBrightness`.

    >>> image = pb.asarray([[[0.25], [0.75]]])
    >>> pb.layers.RandomContrast((-0.5, -0.5))(image, training=True).tolist()
    [[[0.375], [0.625]]]

    Raises:
        InputValueError: for an interval that is not one, or reaches below -1.
    """

    def changed(self, images: Tensor, change: Tensor, span: float) -> Tensor:
        """Returns images of more and less contrast."""
        middle = mean(images, axis=(1, 2), keepdims=True)
        return middle + (images - middle) * (1 + change)


# ---------------------------------------------------------------------------------------------


def _pixels(images: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """The pixels of images at rows and columns, which broadcast to (batch, height, width)."""
    count, height, width, channels = images.shape
    begin = arange(count, dtype=rows.dtype, device=images.device) * (height * width)
    places = reshape(begin, (count, 1, 1)) + rows * width + columns
    return take(reshape(images, (count * height * width, channels)), places, axis=0)


def as_pixels(values: Tensor, images: Tensor) -> Tensor:
    """Values in float32 in the dtype of images: whole numbers for integers."""
    if not dtypes.is_floating(images.dtype):
        values = round(values)
    return values.astype(images.dtype)


def _count(value: int, name: str) -> int:
    count = as_int(value, f"{name}: a number of pixels")
    if count < 0:
        raise errors.InputValueError(f"{name} must be 0 or more, got {count}")
    return count


def _interval(value: Any, name: str, least: float = -math.inf) -> tuple[float, float]:
    """The two ends of an interval; of one number, those at its distance from 0."""
    ends = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    for end in ends:
        check_number(end, name)
    low, high = (-ends[0], ends[0]) if len(ends) == 1 else (*ends, math.nan, math.nan)[:2]
    if len(ends) > 2 or not least <= low <= high < math.inf:
        reach = "" if least == -math.inf else f", from {least} on"
        raise errors.InputValueError(
            f"{name} is a number of 0 or more, or the two ends of an interval{reach}, got {value!r}"
        )
    return float(low), float(high)
