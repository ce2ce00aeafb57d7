"""Elementwise arithmetic."""

from __future__ import annotations

from pullback.dispatch import op, primitive
from pullback.dtypes import floating, numeric
from pullback.shapes import broadcast
from pullback.spec import EXACT, ROUNDED
from pullback.tensor import Tensor, TensorLike

__all__ = ["add", "divide", "multiply", "negative", "subtract"]


@op(shape=broadcast, dtype=numeric, accuracy=ROUNDED)
def add(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The elementwise sum of x1 and x2.

    >>> pb.add([1, 2], 3).tolist()
    [4, 5]
    """
    return primitive()


add.vjp(x1=lambda g: g, x2=lambda g: g)


@op(shape=broadcast, dtype=numeric, accuracy=ROUNDED)
def subtract(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The elementwise difference x1 - x2.

    >>> pb.subtract([1, 2], 3).tolist()
    [-2, -1]
    """
    return primitive()


subtract.vjp(x1=lambda g: g, x2=lambda g: -g)


@op(shape=broadcast, dtype=numeric, accuracy=ROUNDED)
def multiply(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The elementwise product of x1 and x2.

    >>> pb.multiply([1, 2], 3).tolist()
    [3, 6]
    """
    return primitive()


multiply.vjp(x1=lambda g, x2: g * x2, x2=lambda g, x1: g * x1)


@op(shape=broadcast, dtype=floating, accuracy=ROUNDED)
def divide(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The elementwise quotient x1 / x2; integers give the default floating dtype.

    >>> pb.divide(6, 4)
    Tensor(1.5, shape=(), dtype=float32, device=cpu:0)
    """
    return primitive()


divide.vjp(x1=lambda g, x2: g / x2, x2=lambda g, x2, out: -(g * out) / x2)


@op(shape=broadcast, dtype=numeric, accuracy=EXACT)
def negative(x: TensorLike, /) -> Tensor:
    """The elementwise negation -x.

    >>> pb.negative([1, -2]).tolist()
    [-1, 2]
    """
    return primitive()


negative.vjp(x=lambda g: -g)
