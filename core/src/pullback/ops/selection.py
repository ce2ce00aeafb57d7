"""Elementwise selection."""

from __future__ import annotations

from pullback._dispatch import op
from pullback.dtypes import Operands, Resolution, bool_, same
from pullback.ops import late
from pullback.shapes import broadcast
from pullback.spec import EXACT
from pullback.tensor import Tensor

__all__ = ["where"]


def _chosen(operands: Operands, **_: object) -> Resolution:
    """The condition as booleans; both values promoted to one dtype."""
    values = same(operands[1:])
    return Resolution((bool_, *values.inputs), values.outputs)


@op(
    shape=broadcast,
    dtype=_chosen,
    accuracy=EXACT,
    primitive="Products with 0 and 1 turn infinities that are not selected into NaN.",
    missing="for the positions where a condition holds, write pb.nonzero(condition)",
)
def where(condition: Tensor, x1: Tensor, x2: Tensor, /) -> Tensor:
    """x1 where `condition` is true, x2 elsewhere; all three broadcast together.

    Elements that are not selected have gradient 0. The backward pass multiplies it further, so an
    operation with an infinite slope at such an element turns it into NaN. Select the input of
    the operation as well: `where(x > 0, log(where(x > 0, x, 1)), 0)`.

    Args:
        condition: booleans; numbers other than 0 are true.
        x1: values of any dtype.
        x2: values of any dtype; the result has the dtype that x1 and x2 promote to.

    Raises:
        ShapeError: if the shapes do not broadcast.

    >>> pb.where([True, False, True], [1.0, 2.0, 3.0], 0.0).tolist()
    [1.0, 0.0, 3.0]
    """


where.vjp(
    condition=None,
    x1=lambda g, condition: late.where(condition, g, 0),
    x2=lambda g, condition: late.where(condition, 0, g),
)
