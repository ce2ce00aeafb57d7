"""What layers for images share: one to three spatial dimensions, channels last or first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, TypeAlias

from pullback import errors
from pullback.layers.layer import Layer
from pullback.ops.manipulation import reshape

Sizes: TypeAlias = "int | Sequence[int]"


class Images(Layer):
    """What takes (batch, *spatial, channels), or (batch, channels, *spatial) if channels_first."""

    dimensions: ClassVar[int]

    def __init__(self, *, data_format: str = "channels_last", **rest: Any) -> None:
        super().__init__(**rest)
        self.data_format = lower(data_format)
        if self.data_format not in ("channels_last", "channels_first"):
            raise errors.InputValueError(
                f"data_format is 'channels_last' or 'channels_first', got {data_format!r}"
            )

    def check(self, shape: Any) -> None:
        """Raises LayerError unless inputs of `shape` have the right number of axes."""
        if len(shape) != self.dimensions + 2:
            spatial = ", ".join(["depth", "height", "width"][-self.dimensions :])
            inner = f"{spatial}, channels"
            if self.data_format == "channels_first":
                inner = f"channels, {spatial}"
            raise errors.LayerError(
                f"needs inputs of {self.dimensions + 2} axes (batch, {inner}), got shape {shape}"
            )

    def check_fits(self, shape: Any, result: Any) -> None:
        """Raises LayerError where not one window has fitted into inputs of `shape`."""
        if 0 in result and 0 not in shape:
            raise errors.LayerError(
                f"the window does not fit into inputs of shape {shape} ({self.data_format}); "
                f'use padding="same", or say where the channels are with data_format'
            )

    def check_channels(self, shape: Any, channels: int) -> None:
        """Raises LayerError unless inputs of `shape` have so many channels."""
        if shape[self.channels_axis] != channels:
            raise errors.LayerError(
                f"needs {channels} channels, since it has been built for that, "
                f"and got shape {shape} ({self.data_format})"
            )

    def by_channel(self, values: Any) -> Any:
        """One value a channel (channels,), so that it broadcasts to images."""
        if self.data_format == "channels_last":
            return values
        return reshape(values, (values.shape[0], *[1] * self.dimensions))

    def per_axis(self, values: Sequence[Any], others: Any) -> list[Any]:
        """One value for each axis: those given for the spatial ones, `others` for the other two."""
        found = [others] * (self.dimensions + 2)
        for axis, value in zip(self.spatial_axes, values, strict=True):
            found[axis] = value
        return found

    @property
    def channels_axis(self) -> int:
        """Where the channels are."""
        return -1 if self.data_format == "channels_last" else 1

    @property
    def spatial_axes(self) -> tuple[int, ...]:
        """Where the spatial dimensions are."""
        first = 1 if self.data_format == "channels_last" else 2
        return tuple(range(first, first + self.dimensions))


def lower(value: Any) -> Any:
    """A name in small letters: "SAME" and "same" are one padding."""
    return value.lower() if isinstance(value, str) else value


def sizes_of(value: Any, count: int) -> tuple[int, ...]:
    """One size for each dimension, from one number or as many as there are dimensions."""
    sizes = tuple(value) if isinstance(value, (list, tuple)) else (value,) * count
    if len(sizes) != count:
        raise errors.InputValueError(f"{value} has not one size for each of {count} dimensions")
    return tuple(int(size) for size in sizes)


def sides_of(value: Any, count: int) -> tuple[tuple[int, int], ...]:
    """(before, after) for each dimension, from one number, or one number or pair for each."""
    given = list(value) if isinstance(value, (list, tuple)) else [value] * count
    if count == 1 and len(given) == 2:
        given = [given]
    pairs = [tuple(one) if isinstance(one, (list, tuple)) else (one, one) for one in given]
    if len(pairs) != count or any(len(pair) != 2 or min(pair) < 0 for pair in pairs):
        raise errors.InputValueError(
            f"{value} has not one number, or (before, after), for each of {count} dimensions"
        )
    return tuple((int(before), int(after)) for before, after in pairs)
