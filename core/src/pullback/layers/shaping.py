"""Layers that change shapes: flatten, reshape, permute; enlarge, pad and crop images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Unpack

from pullback import errors
from pullback.layers.images import Images, Sides, Sizes, sides_of, sizes_of
from pullback.layers.layer import Layer
from pullback.layers.options import ImageOptions, LayerOptions
from pullback.ops.manipulation import broadcast_to, expand_dims, permute_dims, reshape
from pullback.ops.nn.resize import resize
from pullback.ops.padding import pad
from pullback.shapes import as_int, as_ints, size_of
from pullback.tensor import Tensor

__all__ = [
    "Cropping",
    "Cropping1D",
    "Cropping2D",
    "Cropping3D",
    "Flatten",
    "Permute",
    "RepeatVector",
    "Reshape",
    "UpSampling",
    "UpSampling1D",
    "UpSampling2D",
    "UpSampling3D",
    "ZeroPadding",
    "ZeroPadding1D",
    "ZeroPadding2D",
    "ZeroPadding3D",
]


def _check_batch(x: Tensor) -> None:
    if not x.ndim:
        raise errors.LayerError("inputs must have a batch axis, got shape ()")


class Flatten(Layer):
    """All axes but the first merged into one.

    >>> pb.layers.Flatten()(pb.zeros((2, 3, 4))).shape
    (2, 12)

    Raises:
        LayerError: for inputs without an axis.
    """

    def call(self, x: Tensor) -> Tensor:
        """Returns x in shape (batch, size)."""
        _check_batch(x)
        return reshape(x, (x.shape[0], size_of(x.shape[1:])))


class Reshape(Layer):
    """A new shape for each item of a batch; one size may be -1.

    Args:
        target_shape: the shape of an item.
        options: see `Layer`.

    >>> pb.layers.Reshape((2, -1))(pb.zeros((5, 6))).shape
    (5, 2, 3)

    Raises:
        LayerError: for items whose size is not that of the shape.
    """

    def __init__(self, target_shape: Sequence[int], **options: Unpack[LayerOptions]) -> None:
        super().__init__(**options)
        self.target_shape = as_ints(target_shape, "target_shape")

    def call(self, x: Tensor) -> Tensor:
        """Returns x in shape (batch, *target_shape)."""
        _check_batch(x)
        target = list(self.target_shape)
        if -1 in target:
            known = -size_of(target)
            target[target.index(-1)] = size_of(x.shape[1:]) // known if known > 0 else 0
        if size_of(target) != size_of(x.shape[1:]) or min(target, default=0) < 0:
            raise errors.LayerError(
                f"cannot reshape items of shape {x.shape[1:]} to {self.target_shape}, "
                f"got shape {x.shape}"
            )
        return reshape(x, (x.shape[0], *target))


class Permute(Layer):
    """The axes of each item of a batch in another order.

    Args:
        axes: the axes of the input in their new order, counted from 1 after the batch axis.
        options: see `Layer`.

    >>> pb.layers.Permute((2, 1))(pb.zeros((5, 3, 4))).shape
    (5, 4, 3)

    Raises:
        InputValueError: for axes other than 1 to n, each once.
        LayerError: for inputs with another number of axes.
    """

    def __init__(self, axes: Sequence[int], **options: Unpack[LayerOptions]) -> None:
        super().__init__(**options)
        self.axes = as_ints(axes, "axes")
        if sorted(self.axes) != list(range(1, len(self.axes) + 1)):
            raise errors.InputValueError(
                f"axes must be 1 to n, each once, after the batch axis, got {self.axes}"
            )

    def call(self, x: Tensor) -> Tensor:
        """Returns x with its axes in that order."""
        if x.ndim != len(self.axes) + 1:
            raise errors.LayerError(
                f"inputs must have {len(self.axes) + 1} axes, the batch and those of "
                f"{self.axes}, got shape {x.shape}"
            )
        return permute_dims(x, (0, *self.axes))


class RepeatVector(Layer):
    """Each item of a batch repeated n times, along a new axis after the batch axis.

    Args:
        n: the number of repetitions.
        options: see `Layer`.

    >>> pb.layers.RepeatVector(3)(pb.zeros((5, 4))).shape
    (5, 3, 4)

    Raises:
        LayerError: for inputs without an axis.
    """

    def __init__(self, n: int, **options: Unpack[LayerOptions]) -> None:
        super().__init__(**options)
        self.n = as_int(n, "n: an integer")

    def call(self, x: Tensor) -> Tensor:
        """Returns x in shape (batch, n, ...)."""
        _check_batch(x)
        shape = (x.shape[0], self.n, *x.shape[1:])
        return broadcast_to(expand_dims(x, axis=1), shape)


# Images ---------------------------------------------------------------------------------------


class UpSampling(Images):
    """Images enlarged by whole factors. Inputs are (batch, *spatial, channels).

    Args:
        size: the factor, one number or one for each dimension.
        interpolation: "nearest", which repeats pixels, or "bilinear".
        options: `data_format`, and those of `Layer`.

    Raises:
        LayerError: for inputs with another number of axes.
        InputValueError: at the first call, for another interpolation.
    """

    def __init__(
        self,
        size: Sizes = 2,
        interpolation: Literal["nearest", "bilinear"] = "nearest",
        **options: Unpack[ImageOptions],
    ) -> None:
        super().__init__(**options)
        self.size = sizes_of(size, self.dimensions)
        self.interpolation = interpolation

    def call(self, x: Tensor) -> Tensor:
        """Returns x enlarged."""
        self.check(x.shape)
        sizes = [x.shape[a] * n for a, n in zip(self.spatial_axes, self.size, strict=True)]
        return resize(x, size=tuple(sizes), method=self.interpolation, data_format=self.data_format)


class ZeroPadding(Images):
    """Zeros around images. Inputs are (batch, *spatial, channels).

    Args:
        padding: the zeros on each side: a number, or a number or (before, after) per dimension.
        options: `data_format`, and those of `Layer`.

    Raises:
        InputValueError: for another number of values, or a negative one.
        LayerError: for inputs with another number of axes.
    """

    def __init__(self, padding: Sides = 1, **options: Unpack[ImageOptions]) -> None:
        super().__init__(**options)
        self.padding = sides_of(padding, self.dimensions)

    def call(self, x: Tensor) -> Tensor:
        """Returns x with zeros around."""
        self.check(x.shape)
        return pad(x, self.per_axis(self.padding, (0, 0)))


class Cropping(Images):
    """Images without their margins. Inputs are (batch, *spatial, channels).

    Args:
        cropping: the margins: a number, or a number or (before, after) per dimension.
        options: `data_format`, and those of `Layer`.

    Raises:
        InputValueError: for another number of values, or a negative one.
        LayerError: for inputs with another number of axes, or smaller than the margins.
    """

    def __init__(self, cropping: Sides = 1, **options: Unpack[ImageOptions]) -> None:
        super().__init__(**options)
        self.cropping = sides_of(cropping, self.dimensions)

    def call(self, x: Tensor) -> Tensor:
        """Returns x without the margins."""
        self.check(x.shape)
        cuts = []
        for axis, (before, after) in zip(self.spatial_axes, self.cropping, strict=True):
            size = x.shape[axis]
            if before + after > size:
                raise errors.LayerError(
                    f"margins of {before} and {after} exceed axis {axis} of shape {x.shape}"
                )
            cuts.append(slice(before, size - after))
        return x[tuple(self.per_axis(cuts, slice(None)))]


class UpSampling1D(UpSampling):
    """`UpSampling` for x (batch, width, channels).

    >>> pb.layers.UpSampling1D(2)(pb.zeros((2, 4, 5))).shape
    (2, 8, 5)
    """

    dimensions = 1


class UpSampling2D(UpSampling):
    """`UpSampling` for x (batch, height, width, channels).

    >>> pb.layers.UpSampling2D(2)(pb.zeros((2, 4, 4, 5))).shape
    (2, 8, 8, 5)
    """

    dimensions = 2


class UpSampling3D(UpSampling):
    """`UpSampling` for x (batch, depth, height, width, channels).

    >>> pb.layers.UpSampling3D(2)(pb.zeros((2, 4, 4, 4, 5))).shape
    (2, 8, 8, 8, 5)
    """

    dimensions = 3


class ZeroPadding1D(ZeroPadding):
    """`ZeroPadding` for x (batch, width, channels).

    >>> pb.layers.ZeroPadding1D(1)(pb.zeros((2, 4, 5))).shape
    (2, 6, 5)
    """

    dimensions = 1


class ZeroPadding2D(ZeroPadding):
    """`ZeroPadding` for x (batch, height, width, channels).

    >>> pb.layers.ZeroPadding2D(1)(pb.zeros((2, 4, 4, 5))).shape
    (2, 6, 6, 5)
    """

    dimensions = 2


class ZeroPadding3D(ZeroPadding):
    """`ZeroPadding` for x (batch, depth, height, width, channels).

    >>> pb.layers.ZeroPadding3D(1)(pb.zeros((2, 4, 4, 4, 5))).shape
    (2, 6, 6, 6, 5)
    """

    dimensions = 3


class Cropping1D(Cropping):
    """`Cropping` for x (batch, width, channels).

    >>> pb.layers.Cropping1D(1)(pb.zeros((2, 4, 5))).shape
    (2, 2, 5)
    """

    dimensions = 1


class Cropping2D(Cropping):
    """`Cropping` for x (batch, height, width, channels).

    >>> pb.layers.Cropping2D(1)(pb.zeros((2, 4, 4, 5))).shape
    (2, 2, 2, 5)
    """

    dimensions = 2


class Cropping3D(Cropping):
    """`Cropping` for x (batch, depth, height, width, channels).

    >>> pb.layers.Cropping3D(1)(pb.zeros((2, 4, 4, 4, 5))).shape
    (2, 2, 2, 2, 5)
    """

    dimensions = 3
