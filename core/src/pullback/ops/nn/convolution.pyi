"""Signatures for callers; written by tools/stubs.py."""

from typing import Any

from pullback._once import remembered
from pullback.ops.nn.windows import DataFormat, Padding, Sizes
from pullback.shapes import Pads, Shape, ShapeLike
from pullback.tensor import Tensor, TensorLike

__all__ = ["conv"]

@remembered
def canonical_convolution(
    shapes: tuple[Shape, Shape],
    *,
    strides: object,
    padding: object,
    dilation: object,
    groups: object,
    data_format: Any,
) -> dict[str, Any]: ...
def conv_shape(
    x: Shape,
    kernel: Shape,
    *,
    strides: Shape,
    padding: Pads,
    dilation: Shape,
    data_format: str,
    **_: object,
) -> Shape: ...
def conv(
    x: TensorLike,
    kernel: TensorLike,
    *,
    strides: Sizes = 1,
    padding: Padding = "valid",
    dilation: Sizes = 1,
    groups: int = 1,
    data_format: DataFormat = "channels_last",
) -> Tensor: ...
def by_taps(
    x: Tensor, kernel: Tensor, *, strides: Shape, padding: Pads, dilation: Shape, groups: int
) -> Tensor: ...
def conv_input_gradient(
    g: TensorLike,
    kernel: TensorLike,
    *,
    input_shape: ShapeLike,
    strides: Sizes = 1,
    padding: Padding = "valid",
    dilation: Sizes = 1,
    groups: int = 1,
    data_format: DataFormat = "channels_last",
) -> Tensor: ...
def conv_kernel_gradient(
    x: TensorLike,
    g: TensorLike,
    *,
    kernel_shape: ShapeLike,
    strides: Sizes = 1,
    padding: Padding = "valid",
    dilation: Sizes = 1,
    groups: int = 1,
    data_format: DataFormat = "channels_last",
) -> Tensor: ...
