"""Signatures for callers; written by tools/stubs.py."""

from typing import Any

from pullback.dtypes import Operands, Resolution
from pullback.shapes import Shape, ShapeLike
from pullback.tensor import Tensor, TensorLike

__all__ = ["strided_place", "strided_slice", "strided_update"]
Entry = Any
Key = tuple[Entry, ...]

def sliced_shape(shape: Shape, key: Key) -> Shape: ...
def into_first(operands: Operands, **_: object) -> Resolution: ...
def strided_slice(x: TensorLike, /, *, key: Key) -> Tensor: ...
def strided_update(x: TensorLike, value: TensorLike, /, *, key: Key) -> Tensor: ...
def strided_place(value: TensorLike, /, *, shape: ShapeLike, key: Key) -> Tensor: ...
