"""Signatures for callers; written by tools/stubs.py."""

from pullback.ops.nn.windows import DataFormat, Padding, Sizes
from pullback.tensor import Tensor, TensorLike

__all__ = ["max_pool_with_indices", "max_unpool"]

def max_pool_with_indices(
    x: TensorLike,
    window: Sizes,
    *,
    strides: Sizes | None = None,
    padding: Padding = "valid",
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    data_format: DataFormat = "channels_last",
) -> tuple[Tensor, Tensor]: ...
def max_unpool(
    x: TensorLike, indices: TensorLike, size: Sizes, *, data_format: DataFormat = "channels_last"
) -> Tensor: ...
