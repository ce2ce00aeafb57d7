"""Signatures for callers; written by tools/stubs.py."""

from typing import Literal

from pullback.ops.nn.windows import DataFormat, Sizes
from pullback.shapes import Shape, ShapeLike
from pullback.tensor import Tensor, TensorLike

__all__ = ["resize"]

def resized(x: Shape, *, size: Shape, data_format: str, **_: object) -> Shape: ...
def sizes_of_images(x: Shape, size: object, data_format: object) -> Shape: ...
def resize(
    x: TensorLike,
    size: Sizes,
    *,
    method: Literal["nearest", "bilinear"] = "bilinear",
    data_format: DataFormat = "channels_last",
) -> Tensor: ...
def resize_gradient(
    g: TensorLike,
    size: Sizes,
    *,
    input_shape: ShapeLike,
    method: Literal["nearest", "bilinear"] = "bilinear",
    data_format: DataFormat = "channels_last",
) -> Tensor: ...
