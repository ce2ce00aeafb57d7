"""Signatures for callers; written by tools/stubs.py."""

from pullback.ops.nn.windows import DataFormat, Sizes
from pullback.tensor import Tensor, TensorLike

__all__ = ["adaptive_avg_pool", "adaptive_max_pool", "global_avg_pool", "global_max_pool"]

def adaptive_avg_pool(
    x: TensorLike, output_size: Sizes, *, data_format: DataFormat = "channels_last"
) -> Tensor: ...
def adaptive_max_pool(
    x: TensorLike, output_size: Sizes, *, data_format: DataFormat = "channels_last"
) -> Tensor: ...
def global_avg_pool(
    x: TensorLike, *, keepdims: bool = False, data_format: DataFormat = "channels_last"
) -> Tensor: ...
def global_max_pool(
    x: TensorLike, *, keepdims: bool = False, data_format: DataFormat = "channels_last"
) -> Tensor: ...
