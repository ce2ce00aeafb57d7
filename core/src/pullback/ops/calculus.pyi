"""Signatures for callers; written by tools/stubs.py."""

from collections.abc import Callable
from types import EllipsisType
from typing import Any

from pullback._dispatch import OpFunction
from pullback.tensor import Tensor, TensorLike

__all__ = ["NAMESPACE", "calling", "over", "where", "zeros"]

class _Namespace:
    def __getattr__(self, name: str) -> Any: ...

NAMESPACE = _Namespace()

def where(condition: Tensor, x1: TensorLike, x2: TensorLike) -> Tensor: ...
def calling(
    op: OpFunction[..., Tensor], /, *inputs: str | EllipsisType, **attributes: str
) -> Callable[..., Tensor]: ...
def zeros(g: Tensor) -> Tensor: ...
def over(g: Tensor, slope: Tensor) -> Tensor: ...
