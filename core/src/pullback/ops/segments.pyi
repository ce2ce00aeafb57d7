"""Signatures for callers; written by tools/stubs.py."""

from pullback import dtypes
from pullback.tensor import Tensor, TensorLike

__all__ = ["segment_max", "segment_mean", "segment_min", "segment_prod", "segment_softmax"]

def segment_max(
    data: TensorLike, segment_ids: TensorLike, /, num_segments: int, *, axis: int = 0
) -> Tensor: ...
def segment_min(
    data: TensorLike, segment_ids: TensorLike, /, num_segments: int, *, axis: int = 0
) -> Tensor: ...
def identities(dtype: dtypes.DType) -> tuple[float, float]: ...
def segment_prod(
    data: TensorLike, segment_ids: TensorLike, /, num_segments: int, *, axis: int = 0
) -> Tensor: ...
def segment_mean(
    data: TensorLike, segment_ids: TensorLike, /, num_segments: int, *, axis: int = 0
) -> Tensor: ...
def segment_softmax(
    data: TensorLike, segment_ids: TensorLike, /, num_segments: int, *, axis: int = 0
) -> Tensor: ...
