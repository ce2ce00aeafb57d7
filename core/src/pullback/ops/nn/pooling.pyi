"""Signatures for callers; written by tools/stubs.py."""

from pullback.ops.nn.windows import DataFormat, Padding, Sizes
from pullback.shapes import ShapeLike
from pullback.tensor import Tensor, TensorLike

__all__ = ["avg_pool", "max_pool", "max_pool_gather"]

def max_pool(
    x: TensorLike,
    window: Sizes,
    *,
    strides: Sizes | None = None,
    padding: Padding = "valid",
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
    data_format: DataFormat = "channels_last",
) -> Tensor: ...
def max_pool_gather(
    x: TensorLike,
    indices: TensorLike,
    *,
    window: Sizes,
    strides: Sizes | None = None,
    padding: Padding = "valid",
    data_format: DataFormat = "channels_last",
) -> Tensor: ...
def avg_pool(
    x: TensorLike,
    window: Sizes,
    *,
    strides: Sizes | None = None,
    padding: Padding = "valid",
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
    count_include_pad: bool = False,
    data_format: DataFormat = "channels_last",
) -> Tensor: ...
