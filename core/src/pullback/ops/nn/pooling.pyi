"""Signatures for callers; written by tools/stubs.py."""

from typing import Any

from pullback._once import remembered
from pullback.ops.nn.windows import DataFormat, Padding, Sizes
from pullback.shapes import Pads, Shape, ShapeLike
from pullback.tensor import Tensor, TensorLike

__all__ = ["avg_pool", "max_pool", "max_pool_gather"]

@remembered
def windowed(
    shapes: tuple[Shape, ...],
    *,
    window: object,
    strides: object,
    padding: object,
    data_format: str,
    dilation: object = 1,
    ceil_mode: object = False,
) -> dict[str, Any]: ...
def pooled(
    x: Shape,
    *_: Shape,
    window: Shape,
    strides: Shape,
    padding: Pads,
    dilation: Shape,
    ceil_mode: bool,
    data_format: str,
    **__: object,
) -> Shape: ...
def max_pool(
    x: TensorLike,
    window: Sizes,
    *,
    strides: Sizes | None = None,
    padding: Padding = "valid",
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    data_format: DataFormat = "channels_last",
) -> Tensor: ...
def max_pool_gradient(
    g: TensorLike,
    indices: TensorLike,
    *,
    input_shape: ShapeLike,
    window: Sizes,
    strides: Sizes | None = None,
    padding: Padding = "valid",
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    data_format: DataFormat = "channels_last",
) -> Tensor: ...
def max_pool_gather(
    x: TensorLike,
    indices: TensorLike,
    *,
    window: Sizes,
    strides: Sizes | None = None,
    padding: Padding = "valid",
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    data_format: DataFormat = "channels_last",
) -> Tensor: ...
def avg_pool(
    x: TensorLike,
    window: Sizes,
    *,
    strides: Sizes | None = None,
    padding: Padding = "valid",
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    count_include_pad: bool = False,
    data_format: DataFormat = "channels_last",
) -> Tensor: ...
def avg_pool_gradient(
    g: TensorLike,
    *,
    input_shape: ShapeLike,
    window: Sizes,
    strides: Sizes | None = None,
    padding: Padding = "valid",
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    count_include_pad: bool = False,
    data_format: DataFormat = "channels_last",
) -> Tensor: ...
