"""Logic of booleans, and operations on the bits of integers."""

from __future__ import annotations

from pullback._dispatch import op
from pullback.dtypes import Operands, Resolution, bool_, integer, integer_or_boolean, uniform
from pullback.ops.arithmetic import minimum
from pullback.ops.comparison import not_equal
from pullback.shapes import broadcast
from pullback.spec import EXACT
from pullback.tensor import Tensor

__all__ = [
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
]


@uniform
def _truth(operands: Operands, **_: object) -> Resolution:
    """Inputs are converted to booleans; the result is boolean."""
    return Resolution((bool_,) * len(operands), (bool_,))


@op(shape=broadcast, dtype=_truth, accuracy=EXACT, differentiable=False)
def logical_and(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Returns True where x1 and x2 are both true; numbers other than 0 are true.

    >>> pb.logical_and([True, True], [True, False]).tolist()
    [True, False]
    """
    return bitwise_and(x1, x2)


@op(shape=broadcast, dtype=_truth, accuracy=EXACT, differentiable=False)
def logical_or(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Returns True where x1 or x2 is true; numbers other than 0 are true.

    >>> pb.logical_or([True, False], [False, False]).tolist()
    [True, False]
    """
    return bitwise_or(x1, x2)


@op(shape=broadcast, dtype=_truth, accuracy=EXACT, differentiable=False)
def logical_xor(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Returns True where exactly one of x1 and x2 is true; numbers other than 0 are true.

    >>> pb.logical_xor([True, True], [True, False]).tolist()
    [False, True]
    """
    return not_equal(x1, x2)


@op(shape=broadcast, dtype=_truth, accuracy=EXACT, differentiable=False)
def logical_not(x: Tensor, /) -> Tensor:
    """Returns True where x is false; numbers other than 0 are true.

    >>> pb.logical_not([True, False]).tolist()
    [False, True]
    """
    return bitwise_invert(x)


@op(
    shape=broadcast,
    dtype=integer_or_boolean,
    accuracy=EXACT,
    differentiable=False,
    primitive="No other op reads the bits of two numbers.",
)
def bitwise_and(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The bitwise AND: the bits set in both x1 and x2.

    >>> pb.bitwise_and(6, 3)
    Tensor(2, shape=(), dtype=int32, device=cpu:0)
    """


@op(shape=broadcast, dtype=integer_or_boolean, accuracy=EXACT, differentiable=False)
def bitwise_or(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The bitwise OR: the bits set in x1 or x2.

    >>> pb.bitwise_or(6, 3)
    Tensor(7, shape=(), dtype=int32, device=cpu:0)
    """
    # De Morgan's law.
    return ~(~x1 & ~x2)


@op(shape=broadcast, dtype=integer_or_boolean, accuracy=EXACT, differentiable=False)
def bitwise_xor(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The bitwise XOR: the bits set in exactly one of x1 and x2.

    >>> pb.bitwise_xor(6, 3)
    Tensor(5, shape=(), dtype=int32, device=cpu:0)
    """
    return bitwise_or(x1, x2) & ~bitwise_and(x1, x2)


@op(shape=broadcast, dtype=integer_or_boolean, accuracy=EXACT, differentiable=False)
def bitwise_invert(x: Tensor, /) -> Tensor:
    """The bitwise NOT; booleans are negated.

    >>> pb.bitwise_invert([0, 5]).tolist()
    [-1, -6]
    """
    # In two's complement -x is ~x + 1.
    return x == False if x.dtype == bool_ else -x - 1  # noqa: E712


@op(shape=broadcast, dtype=integer, accuracy=EXACT, differentiable=False)
def bitwise_left_shift(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The bits of x1 shifted left by x2 places. Bits beyond the dtype are lost.

    x2 must not be negative.

    >>> pb.bitwise_left_shift(3, 2)
    Tensor(12, shape=(), dtype=int32, device=cpu:0)
    """
    return x1 * 2**x2


@op(shape=broadcast, dtype=integer, accuracy=EXACT, differentiable=False)
def bitwise_right_shift(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The bits of x1 shifted right by x2 places with sign extension: floor(x1 / 2**x2).

    x2 must not be negative.

    >>> pb.bitwise_right_shift([12, -12], 2).tolist()
    [3, -3]
    """
    # In two steps: 2**places itself may overflow the dtype.
    places = minimum(x2, 8 * x2.dtype.itemsize)
    half = places // 2
    return x1 // 2**half // 2 ** (places - half)
