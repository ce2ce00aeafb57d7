"""Signatures for callers; written by tools/stubs.py."""

from pullback.tensor import Tensor, TensorLike

__all__ = ["gcd", "lcm"]

def gcd(x1: TensorLike, x2: TensorLike, /) -> Tensor: ...
def lcm(x1: TensorLike, x2: TensorLike, /) -> Tensor: ...
