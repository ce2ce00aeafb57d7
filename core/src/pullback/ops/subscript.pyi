"""Signatures for callers; written by tools/stubs.py."""

from typing import Any, NamedTuple

from pullback.tensor import Tensor

__all__: list[str] = []

class SubscriptPlan(NamedTuple):
    basic: tuple[Any, ...] | None
    tensors: list[tuple[int, Tensor]]
    in_front: bool
