"""Signatures for callers; written by tools/stubs.py."""

from pullback.tensor import Tensor, TensorLike

__all__ = ["rotary"]

def rotary(
    x: TensorLike,
    /,
    positions: TensorLike | None = None,
    *,
    offset: TensorLike = 0,
    base: float = 10000.0,
    interleaved: bool = False,
    rotated: int | None = None,
) -> Tensor: ...
