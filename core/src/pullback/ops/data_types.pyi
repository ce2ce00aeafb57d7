"""Signatures for callers; written by tools/stubs.py."""

from typing import NamedTuple

from pullback.devices import DeviceLike
from pullback.dtypes import DType, DTypeLike
from pullback.tensor import Tensor, TensorLike

__all__ = ["astype", "bitcast", "can_cast", "finfo", "iinfo", "isdtype", "result_type"]

def cotangent_of(g: Tensor, dtype: DType) -> Tensor: ...
def astype(
    x: TensorLike, dtype: DTypeLike, /, *, copy: bool = True, device: DeviceLike | None = None
) -> Tensor: ...
def bitcast(x: TensorLike, dtype: DTypeLike, /) -> Tensor: ...
def result_type(*arrays_and_dtypes: TensorLike | DTypeLike) -> DType: ...
def can_cast(from_: DTypeLike | Tensor, to: DTypeLike, /) -> bool: ...
def isdtype(dtype: DTypeLike, kind: DTypeLike | tuple[DTypeLike, ...]) -> bool: ...

class FloatInfo(NamedTuple):
    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType

class IntInfo(NamedTuple):
    bits: int
    max: int
    min: int
    dtype: DType

def finfo(type: DTypeLike | Tensor, /) -> FloatInfo: ...
def iinfo(type: DTypeLike | Tensor, /) -> IntInfo: ...
