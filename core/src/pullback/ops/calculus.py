"""What the gradient rules of several families share. There are no ops here."""

from __future__ import annotations

from typing import Any

from pullback._operators import OPERATORS
from pullback.ops import selection
from pullback.ops.creation import full
from pullback.tensor import Tensor, TensorLike

__all__ = ["NAMESPACE", "over", "where", "zeros"]


class _Namespace:
    """The ops as an array API namespace, for formulas over any."""

    def __getattr__(self, name: str) -> Any:
        try:
            return vars(OPERATORS)[name]
        except KeyError:
            raise AttributeError(name) from None


NAMESPACE = _Namespace()


def where(condition: Tensor, x1: TensorLike, x2: TensorLike) -> Tensor:
    """x1 where `condition` holds, x2 elsewhere: the op, for families above its own."""
    return selection.where(condition, x1, x2)


def zeros(g: Tensor) -> Tensor:
    """The cotangent through a function that is constant almost everywhere."""
    return full(g.shape, 0, dtype=g.dtype, device=g.device)


def over(g: Tensor, slope: Tensor) -> Tensor:
    """g / slope, and 0 where g is 0 and slope 0 or NaN: where nothing comes in, nothing goes out.

    The inverse of a function that is flat at a point is infinitely steep there (sqrt at 0), and it
    has no values beyond. A cotangent of 0 must pass as 0 all the same, or one element that `where`
    did not choose turns a gradient into NaN.
    """
    undefined = (slope == 0) | (slope != slope)
    return g / where(undefined & (g == 0), 1, slope)
