"""Signatures for callers; written by tools/stubs.py."""

from pullback.shapes import Axes, Axis
from pullback.tensor import Tensor, TensorLike

__all__ = ["argsort", "median", "quantile", "sort", "top_k"]

def argsort(
    x: TensorLike, /, axis: Axis = -1, *, descending: bool = False, stable: bool = True
) -> Tensor: ...
def sort(
    x: TensorLike, /, axis: Axis = -1, *, descending: bool = False, stable: bool = True
) -> Tensor: ...
def top_k(
    x: TensorLike, /, k: int, axis: Axis = -1, *, largest: bool = True
) -> tuple[Tensor, Tensor]: ...
def quantile(
    x: TensorLike, /, q: float | tuple[float, ...], axis: Axes = None, *, keepdims: bool = False
) -> Tensor: ...
def median(x: TensorLike, /, axis: Axes = None, *, keepdims: bool = False) -> Tensor: ...
