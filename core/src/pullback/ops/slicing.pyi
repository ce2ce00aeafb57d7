"""Signatures for callers; written by tools/stubs.py."""

from typing import Any

from pullback.dtypes import Operands, Resolution, uniform
from pullback.shapes import Shape, ShapeLike
from pullback.tensor import Tensor, TensorLike

__all__: list[str] = []
Entry = Any
Key = tuple[Entry, ...]

def sliced_shape(shape: Shape, key: Key) -> Shape: ...
@uniform
def into_first(operands: Operands, **_: object) -> Resolution: ...
def strided_slice(x: TensorLike, /, *, key: Key) -> Tensor: ...
def strided_update(x: TensorLike, value: TensorLike, /, *, key: Key) -> Tensor: ...
def strided_place(value: TensorLike, /, *, shape: ShapeLike, key: Key) -> Tensor: ...
