"""16-bit floats are too coarse for intermediate steps: bodies of ops compute in wider dtypes."""

from __future__ import annotations

from collections.abc import Callable

from pullback import casting
from pullback.devices import Device
from pullback.dtypes import DType, float32, float64, int32, int64, uint64
from pullback.tensor import Tensor

__all__: list[str] = []

#: x, as float32 if it holds 16-bit floats.
widened: Callable[[Tensor], Tensor] = casting.widened
#: y in the dtype of the second argument, with one rounding.
narrowed: Callable[[Tensor, Tensor], Tensor] = casting.narrowed


def widest(device: Device) -> DType:
    """The widest real floating dtype of a device: float64, or float32 where that is all."""
    return float64 if float64 in device.backend.dtypes else float32


def places_on(device: Device) -> DType:
    """The dtype of positions on a device: int64, or int32 where that is all."""
    return int64 if int64 in device.backend.dtypes else int32


def counting(labels: Tensor) -> Tensor:
    """Labels in a dtype of indices that has the number of classes, and any label to ignore, too."""
    if labels.dtype == uint64:
        return labels.astype(int64)
    return labels.astype(int32) if labels.dtype.itemsize < 4 else labels
