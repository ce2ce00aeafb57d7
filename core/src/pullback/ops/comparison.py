"""Elementwise comparisons, and tests for NaN and infinities."""

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
    primitive="No other comparison takes complex numbers and booleans.",
)
def equal(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Returns True where x1 == x2. NaN is not equal to anything.

    >>> pb.equal([1, 2], [1, 3]).tolist()
    [True, False]
    """


@op(shape=broadcast, dtype=predicate, accuracy=EXACT, differentiable=False)
def not_equal(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Returns True where x1 != x2.

    >>> pb.not_equal([1, 2], [1, 3]).tolist()
    [False, True]
    """
    return ~equal(x1, x2)


@op(
    shape=broadcast,
    dtype=real_predicate,
    accuracy=EXACT,
    differentiable=False,
    primitive="No other op compares numbers by size.",
)
def less(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Returns True where x1 < x2.

    >>> pb.less([1, 2], 2).tolist()
    [True, False]
    """


@op(shape=broadcast, dtype=real_predicate, accuracy=EXACT, differentiable=False)
def less_equal(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Returns True where x1 <= x2.

    >>> pb.less_equal([1, 2, 3], 2).tolist()
    [True, True, False]
    """
    return less(x1, x2) | equal(x1, x2)


@op(shape=broadcast, dtype=real_predicate, accuracy=EXACT, differentiable=False)
def greater(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Returns True where x1 > x2.

    >>> pb.greater([1, 2, 3], 2).tolist()
    [False, False, True]
    """
    return less(x2, x1)


@op(shape=broadcast, dtype=real_predicate, accuracy=EXACT, differentiable=False)
def greater_equal(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Returns True where x1 >= x2.

    >>> pb.greater_equal([1, 2, 3], 2).tolist()
    [False, True, True]
    """
    return less_equal(x2, x1)


@op(shape=broadcast, dtype=numeric_predicate, accuracy=EXACT, differentiable=False)
def isnan(x: Tensor, /) -> Tensor:
    """Returns True where x, or a part of a complex x, is NaN.

    >>> pb.isnan([1.0, float("nan")]).tolist()
    [False, True]
    """
    return not_equal(x, x)


@op(shape=broadcast, dtype=numeric_predicate, accuracy=EXACT, differentiable=False)
def isinf(x: Tensor, /) -> Tensor:
    """Returns True where x, or a part of a complex x, is infinite.

    >>> pb.isinf([1.0, float("-inf")]).tolist()
    [False, True]
    """
    if is_complex(x.dtype):
        return isinf(late.real(x)) | isinf(late.imag(x))
    return late.equal(x, math.inf) | late.equal(x, -math.inf)


@op(shape=broadcast, dtype=numeric_predicate, accuracy=EXACT, differentiable=False)
def isfinite(x: Tensor, /) -> Tensor:
    """Returns True where x is neither infinite nor NaN.

    >>> pb.isfinite([1.0, float("inf"), float("nan")]).tolist()
    [True, False, False]
    """
    return late.equal(x - x, 0)
