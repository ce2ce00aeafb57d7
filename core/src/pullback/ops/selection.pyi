"""Signatures for callers; written by tools/stubs.py."""

from pullback.tensor import Tensor, TensorLike

__all__ = ["where"]

def where(condition: TensorLike, x1: TensorLike, x2: TensorLike, /) -> Tensor: ...
