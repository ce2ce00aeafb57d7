"""Elementwise comparisons, and questions about single numbers."""

from __future__ import annotations

import math

from pullback._dispatch import op
from pullback.dtypes import is_complex, numeric_predicate, predicate, real_predicate
from pullback.ops import late
from pullback.shapes import broadcast
from pullback.spec import EXACT
from pullback.tensor import Tensor

__all__ = [
    "equal",
    "greater",
    "greater_equal",
    "isfinite",
    "isinf",
    "isnan",
    "less",
    "less_equal",
    "not_equal",
]


@op(
    shape=broadcast,
    dtype=predicate,
    accuracy=EXACT,
    differentiable=False,
    primitive="It is the one question that complex numbers and truth values answer too.",
)
def equal(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Whether x1 == x2. NaN is equal to nothing.

    >>> pb.equal([1, 2], [1, 3]).tolist()
    [True, False]
    """


@op(shape=broadcast, dtype=predicate, accuracy=EXACT, differentiable=False)
def not_equal(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Whether x1 != x2.

    >>> pb.not_equal([1, 2], [1, 3]).tolist()
    [False, True]
    """
    return ~equal(x1, x2)


@op(
    shape=broadcast,
    dtype=real_predicate,
    accuracy=EXACT,
    differentiable=False,
    primitive="It is what order is: no other op compares sizes.",
)
def less(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Whether x1 < x2.

    >>> pb.less([1, 2], 2).tolist()
    [True, False]
    """


@op(shape=broadcast, dtype=real_predicate, accuracy=EXACT, differentiable=False)
def less_equal(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Whether x1 <= x2.

    >>> pb.less_equal([1, 2, 3], 2).tolist()
    [True, True, False]
    """
    return less(x1, x2) | equal(x1, x2)


@op(shape=broadcast, dtype=real_predicate, accuracy=EXACT, differentiable=False)
def greater(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Whether x1 > x2.

    >>> pb.greater([1, 2, 3], 2).tolist()
    [False, False, True]
    """
    return less(x2, x1)


@op(shape=broadcast, dtype=real_predicate, accuracy=EXACT, differentiable=False)
def greater_equal(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Whether x1 >= x2.

    >>> pb.greater_equal([1, 2, 3], 2).tolist()
    [False, True, True]
    """
    return less_equal(x2, x1)


@op(shape=broadcast, dtype=numeric_predicate, accuracy=EXACT, differentiable=False)
def isnan(x: Tensor, /) -> Tensor:
    """Whether x is NaN; a complex number is where one of its parts is.

    >>> pb.isnan([1.0, float("nan")]).tolist()
    [False, True]
    """
    return not_equal(x, x)


@op(shape=broadcast, dtype=numeric_predicate, accuracy=EXACT, differentiable=False)
def isinf(x: Tensor, /) -> Tensor:
    """Whether x is infinite; a complex number is where one of its parts is.

    >>> pb.isinf([1.0, float("-inf")]).tolist()
    [False, True]
    """
    if is_complex(x.dtype):
        return isinf(late.real(x)) | isinf(late.imag(x))
    return late.equal(x, math.inf) | late.equal(x, -math.inf)


@op(shape=broadcast, dtype=numeric_predicate, accuracy=EXACT, differentiable=False)
def isfinite(x: Tensor, /) -> Tensor:
    """Whether x is neither infinite nor NaN.

    >>> pb.isfinite([1.0, float("inf"), float("nan")]).tolist()
    [True, False, False]
    """
    return late.equal(x - x, 0)
