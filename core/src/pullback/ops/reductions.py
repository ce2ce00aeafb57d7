"""Sums, extrema and the like over axes."""

from __future__ import annotations

from typing import Any

from pullback import dtypes
from pullback.dispatch import op, primitive
from pullback.dtypes import DType, DTypeLike, Operands, Resolution
from pullback.ops.manipulation import broadcast_to, reshape
from pullback.shapes import Axes, Shape, reduce, reduced
from pullback.spec import ACCUMULATED
from pullback.tensor import Tensor, TensorLike



def _sum_dtype(operands: Operands, dtype: DType | None = None, **_: Any) -> Resolution:
    inputs = dtypes.same(operands).inputs
    assert inputs[0] is not None
    return Resolution(inputs, (dtypes.accumulated(inputs[0]) if dtype is None else dtype,))


_sum_dtype.uniform = True  # type: ignore[attr-defined]


def expand(g: Tensor, shape: Shape, axis: Shape | None, keepdims: bool) -> Tensor:
    """The result of a reduction, or its cotangent, laid out over the reduced axes again."""
    if not keepdims:
        g = reshape(g, reduced(shape, axis, True))
    return broadcast_to(g, shape)


@op(shape=reduce, dtype=_sum_dtype, accuracy=ACCUMULATED)
def sum(
    x: TensorLike, /, *, axis: Axes = None, dtype: DTypeLike | None = None, keepdims: bool = False
) -> Tensor:
    """The sum of x over `axis`; over all axes if None. The sum of nothing is 0.

    Small integers are summed in the default integer dtype.

    >>> pb.sum([[1.0, 2.0], [3.0, 4.0]], axis=0).tolist()
    [4.0, 6.0]
    """
    return primitive()


sum.vjp(x=lambda g, x_shape, axis, keepdims: expand(g, tuple(x_shape), axis, keepdims))
