"""Common divisors and multiples of integers."""

from __future__ import annotations

from pullback._dispatch import op
from pullback.dtypes import integer
from pullback.ops.arithmetic import abs
from pullback.ops.selection import where
from pullback.shapes import broadcast
from pullback.spec import EXACT
from pullback.tensor import Tensor

__all__ = ["gcd", "lcm"]


@op(shape=broadcast, dtype=integer, accuracy=EXACT, differentiable=False)
def gcd(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The greatest common divisor of |x1| and |x2|, by Euclid's algorithm; that of 0 and 0 is 0.

    >>> pb.gcd([12, -8, 0], [18, 12, 5]).tolist()
    [6, 4, 5]
    """
    # The most steps are for neighbors in Fibonacci's sequence, which grows by 2**0.694 in each.
    for _ in range(int(8 * x1.dtype.itemsize / 0.694) + 3):
        is_done = x2 == 0
        x1, x2 = where(is_done, x1, x2), where(is_done, 0, x1 % x2)
    return abs(x1)


@op(shape=broadcast, dtype=integer, accuracy=EXACT, differentiable=False)
def lcm(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The least common multiple of |x1| and |x2|; 0 if one of them is 0.

    >>> pb.lcm([4, -6, 0], [6, 8, 5]).tolist()
    [12, 24, 0]
    """
    return abs(x1) // gcd(x1, x2) * abs(x2)
