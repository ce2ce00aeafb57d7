"""Signatures for callers; written by tools/stubs.py."""

from pullback.tensor import Tensor, TensorLike

__all__ = ["expm"]

def expm(x: TensorLike, /) -> Tensor: ...
