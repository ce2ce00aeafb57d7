"""Signatures for callers; written by tools/stubs.py."""

from pullback.tensor import Tensor, TensorLike

__all__ = ["istft", "stft"]

def stft(
    x: TensorLike,
    window: TensorLike | None = None,
    *,
    size: int,
    step: int | None = None,
    center: bool = True,
) -> Tensor: ...
def istft(
    x: TensorLike,
    window: TensorLike | None = None,
    *,
    size: int,
    step: int | None = None,
    center: bool = True,
    length: int | None = None,
) -> Tensor: ...
