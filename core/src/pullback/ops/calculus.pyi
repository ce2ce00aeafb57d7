"""Signatures for callers; written by tools/stubs.py."""

from typing import Any

from pullback.tensor import Tensor, TensorLike

__all__ = ["NAMESPACE", "over", "where", "zeros"]

class _Namespace:
    def __getattr__(self, name: str) -> Any: ...

NAMESPACE = _Namespace()

def where(condition: Tensor, x1: TensorLike, x2: TensorLike) -> Tensor: ...
def zeros(g: Tensor) -> Tensor: ...
def over(g: Tensor, slope: Tensor) -> Tensor: ...
