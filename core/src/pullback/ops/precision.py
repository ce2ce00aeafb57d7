"""Conversion of 16-bit floats to float32 for intermediate steps, and back."""

from __future__ import annotations

from pullback.dtypes import bfloat16, float16, float32
from pullback.tensor import Tensor

__all__: list[str] = []


def widened(x: Tensor) -> Tensor:
    """x in float32 if it is of a 16-bit floating dtype: for sums, exponentials, differences."""
    return x.astype(float32) if x.dtype in (float16, bfloat16) else x


def narrowed(y: Tensor, like: Tensor) -> Tensor:
    """y rounded to the dtype of `like`."""
    return y if y.dtype == like.dtype else y.astype(like.dtype)
