"""Signatures for callers; written by tools/stubs.py."""

from collections.abc import Callable

from pullback.tensor import Tensor

__all__: list[str] = []
widened: Callable[[Tensor], Tensor]
narrowed: Callable[[Tensor, Tensor], Tensor]

def counting(labels: Tensor) -> Tensor: ...
