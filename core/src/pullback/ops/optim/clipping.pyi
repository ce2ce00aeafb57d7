"""Signatures for callers; written by tools/stubs.py."""

from collections.abc import Sequence

from pullback.shapes import Axes
from pullback.tensor import Tensor, TensorLike

__all__ = ["clip_by_global_norm", "clip_by_norm", "global_norm"]

def clip_by_norm(x: TensorLike, /, max_norm: float, *, axis: Axes = None) -> Tensor: ...
def global_norm(tensors: Sequence[TensorLike | None]) -> Tensor: ...
def clip_by_global_norm(
    tensors: Sequence[TensorLike | None], max_norm: float, *, norm: TensorLike | None = None
) -> tuple[list[Tensor | None], Tensor]: ...
