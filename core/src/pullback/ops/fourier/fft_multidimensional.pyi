"""Signatures for callers; written by tools/stubs.py."""

from collections.abc import Sequence

from pullback.devices import DeviceLike
from pullback.dtypes import DTypeLike
from pullback.shapes import Axes
from pullback.tensor import Tensor, TensorLike

__all__ = ["fftfreq", "fftn", "fftshift", "ifftn", "ifftshift", "irfftn", "rfftfreq", "rfftn"]

def fftn(
    x: TensorLike,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
) -> Tensor: ...
def ifftn(
    x: TensorLike,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
) -> Tensor: ...
def rfftn(
    x: TensorLike,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
) -> Tensor: ...
def irfftn(
    x: TensorLike,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
) -> Tensor: ...
def fftfreq(
    n: int, /, *, d: float = 1.0, dtype: DTypeLike | None = None, device: DeviceLike | None = None
) -> Tensor: ...
def rfftfreq(
    n: int, /, *, d: float = 1.0, dtype: DTypeLike | None = None, device: DeviceLike | None = None
) -> Tensor: ...
def fftshift(x: TensorLike, /, *, axes: Axes = None) -> Tensor: ...
def ifftshift(x: TensorLike, /, *, axes: Axes = None) -> Tensor: ...
