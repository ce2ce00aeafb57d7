"""Where things are."""

from __future__ import annotations

from typing import Any

from pullback import dtypes, errors
from pullback.dispatch import op, primitive
from pullback.dtypes import promoting
from pullback.ops.reductions import reduce_some
from pullback.shapes import Axis
from pullback.spec import EXACT
from pullback.tensor import Tensor, TensorLike

__all__ = ["argmax", "argmin"]

_index_of_real = promoting("real", to=dtypes.int64)


@op(shape=reduce_some, dtype=_index_of_real, accuracy=EXACT, differentiable=False)
def argmax(x: TensorLike, /, *, axis: Axis | None = None, keepdims: bool = False) -> Tensor:
    """The index of the largest value along `axis`, as int64; in C order over all axes if None.

    The first one where several are equal; that of the first NaN where there is one.

    Raises:
        InputValueError: for the maximum of nothing.

    >>> pb.argmax([[1.0, 5.0, 2.0], [7.0, 0.0, 7.0]], axis=1).tolist()
    [1, 0]
    """
    return primitive()


@op(shape=reduce_some, dtype=_index_of_real, accuracy=EXACT, differentiable=False)
def argmin(x: TensorLike, /, *, axis: Axis | None = None, keepdims: bool = False) -> Tensor:
    """The index of the smallest value along `axis`, as int64; in C order over all axes if None.

    The first one where several are equal; that of the first NaN where there is one.

    Raises:
        InputValueError: for the minimum of nothing.

    >>> pb.argmin([[1.0, 5.0, 2.0], [7.0, 0.0, 7.0]], axis=1).tolist()
    [0, 1]
    """
    return primitive()
