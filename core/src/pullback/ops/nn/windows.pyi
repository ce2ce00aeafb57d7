"""Signatures for callers; written by tools/stubs.py."""

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, TypeVar

from pullback.shapes import Pads, Shape
from pullback.tensor import Tensor

__all__: list[str] = []
Sizes: TypeAlias = Any
Padding: TypeAlias = Any
DataFormat: TypeAlias = Literal["channels_last", "channels_first"]
R = TypeVar("R")

def sizes(value: object, count: int, name: str) -> Shape: ...
def pads(
    padding: object, spatial: Shape, window: Shape, strides: Shape, dilation: Shape
) -> Pads: ...
def check_format(data_format: object) -> None: ...
def channels_last(x: Tensor, data_format: str) -> Tensor: ...
def channels_back(x: Tensor, data_format: str) -> Tensor: ...
def canonical_windows(
    spatial: Shape, window: object, strides: object, padding: object, dilation: object
) -> tuple[Shape, Shape, Pads, Shape]: ...
def taps(
    x: Tensor, window: Shape, strides: Shape, padding: Pads, dilation: Shape, fill: float = 0
) -> list[Tensor]: ...
def untap(
    parts: Sequence[Tensor], shape: Shape, window: Shape, strides: Any, padding: Any, dilation: Any
) -> Any: ...
def spread(g: Tensor, strides: Shape) -> Tensor: ...
