"""Signatures for callers; written by tools/stubs.py."""

from typing import TypeAlias

from pullback.tensor import Tensor, TensorLike

__all__ = ["einsum"]
Labels: TypeAlias = "tuple[str | int, ...]"

def einsum(equation: str, /, *operands: TensorLike) -> Tensor: ...
