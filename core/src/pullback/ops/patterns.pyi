"""Signatures for callers; written by tools/stubs.py."""

from typing import Literal

from pullback.devices import DeviceLike
from pullback.dtypes import DTypeLike
from pullback.tensor import Tensor, TensorLike

__all__ = ["eye", "meshgrid", "one_hot", "tril", "triu"]

def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
) -> Tensor: ...
def tril(x: TensorLike, /, k: int = 0) -> Tensor: ...
def triu(x: TensorLike, /, k: int = 0) -> Tensor: ...
def meshgrid(*arrays: TensorLike, indexing: Literal["xy", "ij"] = "xy") -> tuple[Tensor, ...]: ...
def one_hot(
    indices: TensorLike, num_classes: int, /, *, dtype: DTypeLike | None = None, axis: int = -1
) -> Tensor: ...
