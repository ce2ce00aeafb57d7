"""Signatures for callers; written by tools/stubs.py."""

from typing import Any, Literal

from pullback.tensor import Tensor, TensorLike

__all__ = ["pad"]

def pad(
    x: TensorLike,
    /,
    pad_width: Any,
    *,
    mode: Literal["constant", "edge", "reflect", "symmetric", "wrap"] = "constant",
    constant_values: bool | int | float | complex = 0,
) -> Tensor: ...
