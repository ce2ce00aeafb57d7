"""Differences of neighboring elements."""

from __future__ import annotations

import sys

from pullback import dtypes, errors
from pullback._dispatch.convert import from_any
from pullback._dispatch.symbolic import takes_symbols
from pullback._hints import answer_calls
from pullback.ops.arithmetic import subtract
from pullback.ops.joining import concat, part
from pullback.ops.slicing import strided_slice
from pullback.shapes import as_int, canonical_axis
from pullback.tensor import Tensor, TensorLike

__all__ = ["diff"]


@takes_symbols
def diff(
    x: TensorLike,
    /,
    n: int = 1,
    axis: int = -1,
    *,
    prepend: TensorLike | None = None,
    append: TensorLike | None = None,
) -> Tensor:
    """The differences x[i + 1] - x[i] along an axis, taken n times (array API standard).

    Args:
        x: a numeric tensor of at least one axis.
        n: the number of times; each shortens the axis by one.
        axis: the axis.
        prepend: values to put before x along the axis first.
        append: values to put after x along the axis first.

    Raises:
        InputValueError: for a negative n.
        DTypeError: for booleans, which have no difference.
        AxisError: for an axis out of range.

    >>> pb.diff([1, 4, 9, 16]).tolist(), pb.diff([1, 4, 9, 16], n=2).tolist()
    ([3, 5, 7], [2, 2])
    """
    result = from_any(x)
    axis = canonical_axis(axis, result.ndim)
    times = as_int(n, "an integer number of times")
    if times < 0:
        raise errors.InputValueError(f"diff: n must not be negative, got {times}")
    if result.dtype == dtypes.bool_:
        raise errors.DTypeError("diff: booleans have no difference; use x.astype('int32')")
    parts = [value for value in (prepend, result, append) if value is not None]
    if len(parts) > 1:
        result = concat(parts, axis=axis)
    for _ in range(min(times, result.shape[axis])):
        size = result.shape[axis]
        after = strided_slice(result, key=part(axis, min(1, size), size))
        result = subtract(after, strided_slice(result, key=part(axis, 0, max(0, size - 1))))
    return result


answer_calls(sys.modules[__name__])
