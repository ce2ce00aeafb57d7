"""Signatures for callers; written by tools/stubs.py."""

from pullback.ops.nn.windows import DataFormat, Padding, Sizes
from pullback.tensor import Tensor, TensorLike

__all__ = ["conv_transpose"]

def conv_transpose(
    x: TensorLike,
    kernel: TensorLike,
    *,
    strides: Sizes = 1,
    padding: Padding = "valid",
    output_padding: Sizes | None = None,
    dilation: Sizes = 1,
    groups: int = 1,
    data_format: DataFormat = "channels_last",
) -> Tensor: ...
