"""Signatures for callers; written by tools/stubs.py."""

from pullback.tensor import Tensor, TensorLike

__all__ = ["cdist"]

def cdist(x1: TensorLike, x2: TensorLike, /, *, p: int | float = 2) -> Tensor: ...
def cdist_gradient(
    x1: TensorLike, x2: TensorLike, g: TensorLike, *, p: int | float = 2
) -> tuple[Tensor, Tensor]: ...
