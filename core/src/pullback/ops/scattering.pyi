"""Signatures for callers; written by tools/stubs.py."""

from pullback.tensor import Tensor, TensorLike

__all__ = ["scatter_max", "scatter_min", "scatter_multiply"]

def scatter_max(
    x: TensorLike, indices: TensorLike, updates: TensorLike, /, *, axis: int = 0
) -> Tensor: ...
def scatter_min(
    x: TensorLike, indices: TensorLike, updates: TensorLike, /, *, axis: int = 0
) -> Tensor: ...
def scatter_multiply(
    x: TensorLike, indices: TensorLike, updates: TensorLike, /, *, axis: int = 0
) -> Tensor: ...
