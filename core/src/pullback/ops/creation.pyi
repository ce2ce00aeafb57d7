"""Signatures for callers; written by tools/stubs.py."""

from pullback.devices import DeviceLike
from pullback.dtypes import DTypeLike
from pullback.shapes import ShapeLike
from pullback.tensor import Tensor, TensorLike

__all__ = [
    "arange",
    "empty",
    "empty_like",
    "full",
    "full_like",
    "linspace",
    "ones",
    "ones_like",
    "zeros",
    "zeros_like",
]

def full(
    shape: ShapeLike,
    fill_value: bool | int | float | complex,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
) -> Tensor: ...
def zeros(
    shape: ShapeLike, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None
) -> Tensor: ...
def ones(
    shape: ShapeLike, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None
) -> Tensor: ...
def empty(
    shape: ShapeLike, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None
) -> Tensor: ...
def full_like(
    x: TensorLike,
    /,
    fill_value: bool | int | float | complex,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
) -> Tensor: ...
def zeros_like(
    x: TensorLike, /, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None
) -> Tensor: ...
def ones_like(
    x: TensorLike, /, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None
) -> Tensor: ...
def empty_like(
    x: TensorLike, /, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None
) -> Tensor: ...
def arange(
    start: int | float,
    stop: int | float | None = None,
    step: int | float = 1,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
) -> Tensor: ...
def linspace(
    start: int | float | complex,
    stop: int | float | complex,
    /,
    num: int,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    endpoint: bool = True,
) -> Tensor: ...
