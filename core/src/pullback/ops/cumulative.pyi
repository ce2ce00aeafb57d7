"""Signatures for callers; written by tools/stubs.py."""

from pullback.dtypes import DTypeLike
from pullback.shapes import Axis
from pullback.tensor import Tensor, TensorLike

__all__ = [
    "cumulative_logsumexp",
    "cumulative_max",
    "cumulative_min",
    "cumulative_prod",
    "cumulative_sum",
]

def cumulative_sum(
    x: TensorLike,
    /,
    axis: Axis | None = None,
    *,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
) -> Tensor: ...
def cumulative_prod(
    x: TensorLike,
    /,
    axis: Axis | None = None,
    *,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
) -> Tensor: ...
def linear_recurrence(
    a: TensorLike, b: TensorLike, /, *, axis: Axis, reverse: bool = False
) -> Tensor: ...
def cumulative_logsumexp(x: TensorLike, /, axis: Axis | None = None) -> Tensor: ...
def cumulative_max(x: TensorLike, /, axis: Axis | None = None) -> Tensor: ...
def cumulative_min(x: TensorLike, /, axis: Axis | None = None) -> Tensor: ...
