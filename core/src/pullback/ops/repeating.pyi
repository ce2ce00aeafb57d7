"""Signatures for callers; written by tools/stubs.py."""

from pullback.tensor import Tensor, TensorLike

__all__ = ["repeat", "roll", "tile"]

def roll(
    x: TensorLike, /, shift: int | tuple[int, ...], axis: int | tuple[int, ...] | None = None
) -> Tensor: ...
def tile(x: TensorLike, /, repetitions: tuple[int, ...]) -> Tensor: ...
def repeat(x: TensorLike, repeats: int | TensorLike, /, axis: int | None = None) -> Tensor: ...
