"""One of two values, element by element."""

from __future__ import annotations

from pullback._dispatch import op
from pullback.dtypes import Operands, Resolution, bool_, same
from pullback.ops import late
from pullback.shapes import broadcast
from pullback.spec import EXACT
from pullback.tensor import Tensor

__all__ = ["where"]


def _chosen(operands: Operands, **_: object) -> Resolution:
    """The condition as truth values; both values promoted to one dtype."""
    values = same(operands[1:])
    return Resolution((bool_, *values.inputs), values.outputs)


@op(
    shape=broadcast,
    dtype=_chosen,
    accuracy=EXACT,
    primitive="Products with 0 and 1 would make NaN of infinities that were not chosen.",
)
def where(condition: Tensor, x1: Tensor, x2: Tensor, /) -> Tensor:
    """x1 where `condition` is true, x2 elsewhere; all three broadcast together.

    The gradient of what was not chosen is 0. It is multiplied on its way further back, so an
    operation that is infinitely steep at a value not chosen still makes NaN of it: choose the
    operation's input as well, `where(x > 0, log(where(x > 0, x, 1)), 0)`.

    Args:
        condition: truth values; numbers are true where they are not 0.
        x1: values of any dtype.
        x2: values of any dtype; the result has the dtype that x1 and x2 promote to.

    Raises:
        ShapeError: when the shapes do not broadcast.

    >>> pb.where([True, False, True], [1.0, 2.0, 3.0], 0.0).tolist()
    [1.0, 0.0, 3.0]
    """


where.vjp(
    condition=None,
    x1=lambda g, condition: late.where(condition, g, 0),
    x2=lambda g, condition: late.where(condition, 0, g),
)
