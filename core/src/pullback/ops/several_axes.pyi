"""Signatures for callers; written by tools/stubs.py."""

from typing import Literal, TypeAlias

from pullback.tensor import Tensor, TensorLike

__all__ = ["gather_nd", "scatter_nd"]
Mode: TypeAlias = Literal["update", "add", "multiply", "max", "min"]

def gather_nd(x: TensorLike, indices: TensorLike, /) -> Tensor: ...
def scatter_nd(
    x: TensorLike, indices: TensorLike, updates: TensorLike, /, *, mode: Mode = "update"
) -> Tensor: ...
