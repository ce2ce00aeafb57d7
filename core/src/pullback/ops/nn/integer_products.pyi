"""Signatures for callers; written by tools/stubs.py."""

from pullback.ops.nn.windows import DataFormat, Padding, Sizes
from pullback.tensor import Tensor, TensorLike

__all__ = ["integer_conv", "integer_matmul"]

def integer_matmul(x1: TensorLike, x2: TensorLike, /) -> Tensor: ...
def integer_conv(
    x: TensorLike,
    kernel: TensorLike,
    *,
    strides: Sizes = 1,
    padding: Padding = "valid",
    dilation: Sizes = 1,
    groups: int = 1,
    data_format: DataFormat = "channels_last",
) -> Tensor: ...
