"""The base of layers for images: one to three spatial dimensions, channels last or first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypeAlias, TypeVar, Unpack

from pullback import errors
from pullback.layers.layer import Layer
from pullback.layers.options import LayerOptions
from pullback.ops.manipulation import reshape
from pullback.ops.nn.windows import DataFormat
from pullback.shapes import Shape, as_ints
from pullback.tensor import Tensor
from pullback.variable import Variable

T = TypeVar("T")
V = TypeVar("V")

Sizes: TypeAlias = "int | Sequence[int]"
#: Amounts before and after: one number, or one number or pair for each dimension.
Sides: TypeAlias = "int | Sequence[int | Sequence[int]]"
#: The padding of a convolution: a name, or amounts.
Padding: TypeAlias = "str | Sides"


class Images(Layer):
    """The base of layers for images.

    Inputs are (batch, *spatial, channels), or (batch, channels, *spatial) with
    `data_format="channels_first"`.
    """

    dimensions: ClassVar[int]

    def __init__(
        self, *, data_format: DataFormat = "channels_last", **options: Unpack[LayerOptions]
    ) -> None:
        if not hasattr(self, "dimensions"):
            name = type(self).__name__
            raise errors.InputTypeError(
                f"{name} is the base of several layers; make one of those, such as {name}2D, or "
                f"set `dimensions` in a class of your own"
            )
        super().__init__(**options)
        self.data_format = data_format_of(data_format)

    def check(self, shape: Shape) -> None:
        """Raises LayerError unless inputs of `shape` have the right number of axes."""
        if len(shape) != self.dimensions + 2:
            spatial = ", ".join(["depth", "height", "width"][-self.dimensions :])
            inner = f"{spatial}, channels"
            if self.data_format == "channels_first":
                inner = f"channels, {spatial}"
            raise errors.LayerError(
                f"inputs must have {self.dimensions + 2} axes (batch, {inner}), got shape {shape}"
            )

    def check_fits(self, shape: Shape, result: Shape) -> None:
        """Raises LayerError if no window fits into inputs of `shape`."""
        if 0 in result and 0 not in shape:
            raise errors.LayerError(
                f"the window does not fit into inputs of shape {shape} ({self.data_format}); "
                f'use padding="same", or say where the channels are with data_format'
            )

    def check_channels(self, shape: Shape, channels: int) -> None:
        """Raises LayerError unless inputs of `shape` have that number of channels."""
        if shape[self.channels_axis] != channels:
            raise errors.LayerError(
                f"built for inputs with {channels} channels, got shape {shape} ({self.data_format})"
            )

    def by_channel(self, values: Variable) -> Variable | Tensor:
        """Returns one value per channel, (channels,), in a shape that broadcasts to images."""
        if self.data_format == "channels_last":
            return values
        return reshape(values, (values.shape[0], *[1] * self.dimensions))

    def per_axis(self, values: Sequence[V], others: T) -> list[V | T]:
        """One value for each axis: `values` for the spatial axes, `others` for the other two."""
        result: list[V | T] = [others] * (self.dimensions + 2)
        for axis, value in zip(self.spatial_axes, values, strict=True):
            result[axis] = value
        return result

    @property
    def channels_axis(self) -> int:
        """The axis of the channels."""
        return -1 if self.data_format == "channels_last" else 1

    @property
    def spatial_axes(self) -> tuple[int, ...]:
        """The axes of the spatial dimensions."""
        first = 1 if self.data_format == "channels_last" else 2
        return tuple(range(first, first + self.dimensions))


def data_format_of(name: str) -> DataFormat:
    """Returns a data format in lower case.

    Raises:
        InputValueError: for an unknown one.
    """
    lowered = lower(name) if isinstance(name, str) else None
    if lowered == "channels_last":
        return "channels_last"
    if lowered == "channels_first":
        return "channels_first"
    raise errors.InputValueError(
        f"data_format must be 'channels_last' or 'channels_first', got {name!r}"
    )


def lower(value: T) -> T | str:
    """Returns a name in lower case: "SAME" and "same" are one padding."""
    return value.lower() if isinstance(value, str) else value


def sizes_of(value: Sizes, count: int) -> tuple[int, ...]:
    """Returns one size for each of `count` dimensions, from one number or `count` numbers."""
    sizes = as_ints(value if isinstance(value, Sequence) else (value,) * count, "sizes")
    if len(sizes) != count:
        raise errors.InputValueError(f"expected 1 or {count} sizes, got {value}")
    return sizes


def sides_of(value: Sides, count: int) -> tuple[tuple[int, int], ...]:
    """Returns (before, after) for each dimension, from one number, or a number or pair for each."""
    sides = list(value) if isinstance(value, (list, tuple)) else [value] * count
    if count == 1 and len(sides) == 2:
        sides = [sides]
    pairs = [
        as_ints(side if isinstance(side, (list, tuple)) else (side, side), "the numbers of a side")
        for side in sides
    ]
    if len(pairs) != count or any(len(pair) != 2 or min(pair) < 0 for pair in pairs):
        raise errors.InputValueError(
            f"expected a number, or a number or (before, after) for each of {count} dimensions, "
            f"each 0 or more, got {value}"
        )
    return tuple((before, after) for before, after in pairs)
