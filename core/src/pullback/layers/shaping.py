"""Layers that change shapes: flatten, reshape, permute; enlarge, pad and crop images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pullback import errors
from pullback.layers.images import Images, Sizes, sides_of, sizes_of
from pullback.layers.layer import Layer
from pullback.ops.manipulation import broadcast_to, expand_dims, permute_dims, reshape
from pullback.ops.nn.resize import resize
from pullback.ops.padding import pad
from pullback.shapes import size_of

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


def _check_batch(x: Any) -> None:
    if not x.ndim:
        raise errors.LayerError("needs inputs with a batch axis, got shape ()")


class Flatten(Layer):
    """All axes but the first as one.

    >>> pb.layers.Flatten()(pb.zeros((2, 3, 4))).shape
    (2, 12)

    Raises:
        LayerError: for inputs without an axis.
    """

    def call(self, x: Any) -> Any:
        """X, shape (batch, size)."""
        _check_batch(x)
        return reshape(x, (x.shape[0], size_of(x.shape[1:])))


class Reshape(Layer):
    """Another shape for each item of a batch; one size may be -1.

    Args:
        target_shape: the shape of an item.
        rest: as of `Layer`.

    >>> pb.layers.Reshape((2, -1))(pb.zeros((5, 6))).shape
    (5, 2, 3)

    Raises:
        LayerError: for items that do not fill the shape.
    """

    def __init__(self, target_shape: Sequence[int], **rest: Any) -> None:
        super().__init__(**rest)
        self.target_shape = tuple(int(size) for size in target_shape)

    def call(self, x: Any) -> Any:
        """X, shape (batch, *target_shape)."""
        _check_batch(x)
        target = list(self.target_shape)
        if -1 in target:
            known = -size_of(target)
            target[target.index(-1)] = size_of(x.shape[1:]) // known if known > 0 else 0
        if size_of(target) != size_of(x.shape[1:]) or min(target, default=0) < 0:
            raise errors.LayerError(
                f"items of shape {x.shape[1:]} do not fill the shape {self.target_shape}, "
                f"got shape {x.shape}"
            )
        return reshape(x, (x.shape[0], *target))


class Permute(Layer):
    """The axes of each item of a batch in another order.

    Args:
        axes: which axis of the input, counted from 1 behind the batch, comes first, second, ...
        rest: as of `Layer`.

    >>> pb.layers.Permute((2, 1))(pb.zeros((5, 3, 4))).shape
    (5, 4, 3)

    Raises:
        InputValueError: for axes that are not 1 to n, each once.
        LayerError: for inputs of another number of axes.
    """

    def __init__(self, axes: Sequence[int], **rest: Any) -> None:
        super().__init__(**rest)
        self.axes = tuple(int(axis) for axis in axes)
        if sorted(self.axes) != list(range(1, len(self.axes) + 1)):
            raise errors.InputValueError(
                f"axes are 1 to n, each once, behind the batch axis, got {self.axes}"
            )

    def call(self, x: Any) -> Any:
        """X, with its axes in that order."""
        if x.ndim != len(self.axes) + 1:
            raise errors.LayerError(
                f"needs inputs of {len(self.axes) + 1} axes, the batch and those of "
                f"{self.axes}, got shape {x.shape}"
            )
        return permute_dims(x, (0, *self.axes))


class RepeatVector(Layer):
    """Each item of a batch n times, along a new axis behind the batch.

    Args:
        n: how often.
        rest: as of `Layer`.

    >>> pb.layers.RepeatVector(3)(pb.zeros((5, 4))).shape
    (5, 3, 4)

    Raises:
        LayerError: for inputs without an axis.
    """

    def __init__(self, n: int, **rest: Any) -> None:
        super().__init__(**rest)
        self.n = int(n)

    def call(self, x: Any) -> Any:
        """X, shape (batch, n, ...)."""
        _check_batch(x)
        shape = (x.shape[0], self.n, *x.shape[1:])
        return broadcast_to(expand_dims(x, axis=1), shape)


# Images ---------------------------------------------------------------------------------------


class UpSampling(Images):
    """Images made larger by whole factors. Inputs are (batch, *spatial, channels).

    Args:
        size: the factor, one number or one for each dimension.
        interpolation: "nearest", which repeats pixels, or "bilinear".
        rest: `data_format`, and as of `Layer`.

    Raises:
        LayerError: for inputs of another number of axes.
        InputValueError: at the first call, for another interpolation.
    """

    def __init__(
        self,
        size: Sizes = 2,
        interpolation: Literal["nearest", "bilinear"] = "nearest",
        **rest: Any,
    ) -> None:
        super().__init__(**rest)
        self.size = sizes_of(size, self.dimensions)
        self.interpolation = interpolation

    def call(self, x: Any) -> Any:
        """X, larger."""
        self.check(x.shape)
        sizes = [x.shape[a] * n for a, n in zip(self.spatial_axes, self.size, strict=True)]
        return resize(x, size=tuple(sizes), method=self.interpolation, data_format=self.data_format)


class ZeroPadding(Images):
    """Zeros around images. Inputs are (batch, *spatial, channels).

    Args:
        padding: how many on each side: one number, or one, or (before, after), for each dimension.
        rest: `data_format`, and as of `Layer`.

    Raises:
        InputValueError: for another number of them, or negative ones.
        LayerError: for inputs of another number of axes.
    """

    def __init__(self, padding: Any = 1, **rest: Any) -> None:
        super().__init__(**rest)
        self.padding = sides_of(padding, self.dimensions)

    def call(self, x: Any) -> Any:
        """X, with zeros around."""
        self.check(x.shape)
        return pad(x, self.per_axis(self.padding, (0, 0)))


class Cropping(Images):
    """Images without their margins. Inputs are (batch, *spatial, channels).

    Args:
        cropping: how much on each side: one number, or one, or (before, after), for each dimension.
        rest: `data_format`, and as of `Layer`.

    Raises:
        InputValueError: for another number of them, or negative ones.
        LayerError: for inputs of another number of axes, or smaller than the margins.
    """

    def __init__(self, cropping: Any = 1, **rest: Any) -> None:
        super().__init__(**rest)
        self.cropping = sides_of(cropping, self.dimensions)

    def call(self, x: Any) -> Any:
        """X, without the margins."""
        self.check(x.shape)
        cuts = []
        for axis, (before, after) in zip(self.spatial_axes, self.cropping, strict=True):
            size = x.shape[axis]
            if before + after > size:
                raise errors.LayerError(
                    f"margins of {before} and {after} are more than axis {axis} of {x.shape} has"
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
