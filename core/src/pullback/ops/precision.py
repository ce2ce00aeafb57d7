"""Where 16-bit floats are too coarse for the steps in between, bodies compute in float32."""

from __future__ import annotations

from pullback.dtypes import bfloat16, float16, float32
from pullback.tensor import Tensor

__all__: list[str] = []


def widened(x: Tensor) -> Tensor:
    """x, in float32 where it holds 16-bit floats: for sums, exponentials and differences."""
    return x.astype(float32) if x.dtype in (float16, bfloat16) else x


def narrowed(y: Tensor, like: Tensor) -> Tensor:
    """y in the dtype of `like`: what was computed in float32, rounded once."""
    return y if y.dtype == like.dtype else y.astype(like.dtype)
