"""Signatures for callers; written by tools/stubs.py."""

from typing import Any

from pullback.devices import DeviceLike
from pullback.dtypes import DTypeLike, Operands, Resolution, uniform
from pullback.tensor import Tensor, TensorLike

__all__ = ["asarray", "from_dlpack", "to_device"]

def asarray(
    obj: TensorLike,
    /,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    copy: bool | None = None,
) -> Tensor: ...
def from_dlpack(
    x: Any, /, *, device: DeviceLike | None = None, copy: bool | None = None
) -> Tensor: ...
@uniform
def any_dtype(operands: Operands, **_: object) -> Resolution: ...
def to_device(x: TensorLike, device: DeviceLike, /) -> Tensor: ...
