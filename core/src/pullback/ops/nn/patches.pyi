"""Signatures for callers; written by tools/stubs.py."""

from pullback.ops.nn.windows import DataFormat, Padding, Sizes
from pullback.tensor import Tensor, TensorLike

__all__ = ["fold", "unfold"]

def unfold(
    x: TensorLike,
    window: Sizes,
    *,
    strides: Sizes = 1,
    padding: Padding = "valid",
    dilation: Sizes = 1,
    data_format: DataFormat = "channels_last",
) -> Tensor: ...
def fold(
    patches: TensorLike,
    size: Sizes,
    *,
    strides: Sizes = 1,
    padding: Padding = "valid",
    dilation: Sizes = 1,
    data_format: DataFormat = "channels_last",
) -> Tensor: ...
