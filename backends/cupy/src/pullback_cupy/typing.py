"""Types of the arguments and results of kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, NotRequired, TypeAlias, TypedDict

from pullback.shapes import Pads, Shape

if TYPE_CHECKING:
    import cupy

Array: TypeAlias = "cupy.ndarray"


class ConvOptions(TypedDict):
    """The attributes of a convolution."""

    strides: Shape
    padding: Pads
    dilation: Shape
    groups: int
    data_format: str


class PoolOptions(TypedDict):
    """The attributes of a pooling."""

    window: Shape
    strides: Shape
    padding: Pads
    dilation: NotRequired[Shape]
    ceil_mode: NotRequired[bool]
    data_format: str
