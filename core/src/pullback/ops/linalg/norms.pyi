"""Signatures for callers; written by tools/stubs.py."""

from pullback.shapes import Axes, Shape
from pullback.tensor import Tensor, TensorLike

__all__ = ["matrix_norm", "vector_norm"]

def vector_norm(
    x: TensorLike, /, axis: Axes = None, *, keepdims: bool = False, ord: int | float = 2
) -> Tensor: ...
def norm_gradient(
    g: Tensor, x: Tensor, out: Tensor, axis: Shape | None, keepdims: bool, ord: float
) -> Tensor: ...
def matrix_norm(
    x: TensorLike, /, *, keepdims: bool = False, ord: int | float | str = "fro"
) -> Tensor: ...
