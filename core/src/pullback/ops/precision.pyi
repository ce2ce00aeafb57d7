"""Signatures for callers; written by tools/stubs.py."""

from collections.abc import Callable

from pullback.devices import Device
from pullback.dtypes import DType
from pullback.tensor import Tensor

__all__: list[str] = []
widened: Callable[[Tensor], Tensor]
narrowed: Callable[[Tensor, Tensor], Tensor]

def widest(device: Device) -> DType: ...
def places_on(device: Device) -> DType: ...
def counting(labels: Tensor) -> Tensor: ...
