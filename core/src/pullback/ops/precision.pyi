"""Signatures for callers; written by tools/stubs.py."""

from pullback.tensor import Tensor

__all__: list[str] = []

def widened(x: Tensor) -> Tensor: ...
def narrowed(y: Tensor, like: Tensor) -> Tensor: ...
