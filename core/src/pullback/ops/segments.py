"""Extrema, product, mean and softmax of the slices of segments, such as the edges of a node.

As in `segment_sum`, ids need no order, negative ones count from the end, and segments may be empty.
"""

from __future__ import annotations

from pullback import dtypes
from pullback._dispatch import op
from pullback.dtypes import DTypeRule, Operands, Resolution
from pullback.ops.arithmetic import maximum
from pullback.ops.creation import full
from pullback.ops.exponential import exp
from pullback.ops.indexing import index_dtype, segment_shape, segment_sum, segments, take
from pullback.ops.manipulation import reshape
from pullback.ops.precision import narrowed, widened
from pullback.ops.scattering import scatter_max, scatter_min, scatter_multiply
from pullback.ops.selection import where
from pullback.shapes import first
from pullback.spec import ACCUMULATED, EXACT
from pullback.tensor import Tensor

__all__ = ["segment_max", "segment_mean", "segment_min", "segment_prod", "segment_softmax"]


def _of(rule: DTypeRule) -> DTypeRule:
    """The dtypes of a rule for the data; ids keep an integer dtype."""

    @DTypeRule
    def indexed(operands: Operands, **_: object) -> Resolution:
        """Data as `max`, `mean` or `softmax` takes them; ids in an integer dtype."""
        data, ids = operands
        assert ids is not None
        found = rule((data,))
        return Resolution((*found.inputs, index_dtype(ids)), found.outputs)

    return indexed


@op(shape=segment_shape, dtype=_of(dtypes.real), accuracy=EXACT, normalize=segments)
def segment_max(
    data: Tensor, segment_ids: Tensor, /, num_segments: int, *, axis: int = 0
) -> Tensor:
    """The maximum over the slices of each segment; NaN if there is one. Ties share the gradient.

    Args:
        data: real numbers, a tensor that has the axes of `segment_ids` from `axis` on.
        segment_ids: the segment of each slice, integers in [-num_segments, num_segments).
        num_segments: the number of segments: the size of the axis that replaces those of the ids.
        axis: the first axis of the ids in data.

    Returns:
        The maxima; -inf, or the least integer of the dtype, for a segment without slices.

    Raises:
        IndexingError: for an id outside the segments.
        ShapeError: if the data does not have the axes of the ids.

    >>> pb.segment_max([1.0, 2.0, 3.0], [0, 2, 0], 3).tolist()
    [3.0, -inf, 2.0]
    """
    shape = segment_shape(data.shape, segment_ids.shape, num_segments=num_segments, axis=axis)
    least = full(shape, identities(data.dtype)[0], dtype=data.dtype, device=data.device)
    return scatter_max(least, segment_ids, data, axis=axis)


@op(shape=segment_shape, dtype=_of(dtypes.real), accuracy=EXACT, normalize=segments)
def segment_min(
    data: Tensor, segment_ids: Tensor, /, num_segments: int, *, axis: int = 0
) -> Tensor:
    """The minimum over the slices of each segment; NaN if there is one. Ties share the gradient.

    Args:
        data: real numbers, a tensor that has the axes of `segment_ids` from `axis` on.
        segment_ids: the segment of each slice, integers in [-num_segments, num_segments).
        num_segments: the number of segments: the size of the axis that replaces those of the ids.
        axis: the first axis of the ids in data.

    Returns:
        The minima; inf, or the largest integer of the dtype, for a segment without slices.

    Raises:
        IndexingError: for an id outside the segments.
        ShapeError: if the data does not have the axes of the ids.

    >>> pb.segment_min([1.0, 2.0, 3.0], [0, 2, 0], 3).tolist()
    [1.0, inf, 2.0]
    """
    shape = segment_shape(data.shape, segment_ids.shape, num_segments=num_segments, axis=axis)
    largest = full(shape, identities(data.dtype)[1], dtype=data.dtype, device=data.device)
    return scatter_min(largest, segment_ids, data, axis=axis)


def identities(dtype: dtypes.DType) -> tuple[float, float]:
    """The maximum and the minimum of no elements: all others are above the one, below the other."""
    if dtypes.is_floating(dtype):
        return float("-inf"), float("inf")
    bits = 8 * dtype.itemsize
    if dtype in dtypes.UNSIGNED:
        return 0, (1 << bits) - 1
    return -(1 << (bits - 1)), (1 << (bits - 1)) - 1


def _share_among_ties(
    g: Tensor, data: Tensor, segment_ids: Tensor, out: Tensor, num_segments: int, axis: int
) -> Tensor:
    won: Tensor = (data == take(out, segment_ids, axis=axis)).astype(g.dtype)
    ties = segment_sum(won, segment_ids, num_segments, axis=axis)
    # Empty segments have no ties, and those with NaN.
    share = g / where(ties == 0, 1, ties)
    shared: Tensor = take(share, segment_ids, axis=axis) * won
    return shared


for _op in (segment_max, segment_min):
    _op.vjp(data=_share_among_ties, segment_ids=None)


@op(shape=segment_shape, dtype=_of(dtypes.numeric), accuracy=ACCUMULATED, normalize=segments)
def segment_prod(
    data: Tensor, segment_ids: Tensor, /, num_segments: int, *, axis: int = 0
) -> Tensor:
    """The product over the slices of each segment.

    Args:
        data: a tensor that has the axes of `segment_ids` from `axis` on.
        segment_ids: the segment of each slice, integers in [-num_segments, num_segments).
        num_segments: the number of segments: the size of the axis that replaces those of the ids.
        axis: the first axis of the ids in data.

    Returns:
        The products; 1 for a segment without slices.

    Raises:
        IndexingError: for an id outside the segments.
        ShapeError: if the data does not have the axes of the ids.

    >>> pb.segment_prod([4.0, 2.0, 3.0], [0, 2, 0], 3).tolist()
    [12.0, 1.0, 2.0]
    """
    shape = segment_shape(data.shape, segment_ids.shape, num_segments=num_segments, axis=axis)
    ones = full(shape, 1, dtype=data.dtype, device=data.device)
    return scatter_multiply(ones, segment_ids, data, axis=axis)


@op(shape=segment_shape, dtype=_of(dtypes.floating), accuracy=ACCUMULATED, normalize=segments)
def segment_mean(
    data: Tensor, segment_ids: Tensor, /, num_segments: int, *, axis: int = 0
) -> Tensor:
    """The arithmetic mean over the slices of each segment.

    Args:
        data: a tensor that has the axes of `segment_ids` from `axis` on; integers give the default
            floating dtype.
        segment_ids: the segment of each slice, integers in [-num_segments, num_segments).
        num_segments: the number of segments: the size of the axis that replaces those of the ids.
        axis: the first axis of the ids in data.

    Returns:
        The means; 0 for a segment without slices.

    Raises:
        IndexingError: for an id outside the segments.
        ShapeError: if the data does not have the axes of the ids.

    >>> pb.segment_mean([1.0, 2.0, 3.0], [0, 2, 0], 3).tolist()
    [2.0, 0.0, 2.0]
    """
    wide = widened(data)
    total = segment_sum(wide, segment_ids, num_segments, axis=axis)
    return narrowed(total / _counts(total, segment_ids, num_segments, axis), data)


@segment_mean.vjp("data")
def _(g: Tensor, segment_ids: Tensor, num_segments: int, axis: int) -> Tensor:
    wide = widened(g)
    each = wide / _counts(wide, segment_ids, num_segments, axis)
    return narrowed(take(each, segment_ids, axis=axis), g)


segment_mean.vjp(segment_ids=None)


def _counts(result: Tensor, segment_ids: Tensor, num_segments: int, axis: int) -> Tensor:
    """The number of slices of each segment, at least 1; broadcasts to the result."""
    ones = full(segment_ids.shape, 1, dtype=dtypes.real_of(result.dtype), device=result.device)
    counts = maximum(segment_sum(ones, segment_ids, num_segments), 1)
    return reshape(counts, (num_segments, *[1] * (result.ndim - 1 - axis)))


@op(shape=first, dtype=_of(dtypes.real_floating), accuracy=ACCUMULATED, normalize=segments)
def segment_softmax(
    data: Tensor, segment_ids: Tensor, /, num_segments: int, *, axis: int = 0
) -> Tensor:
    """exp(x) / sum(exp(x)) over the slices of each segment, without overflow; -inf gives 0.

    It makes weights of the scores of edges, which sum to 1 for each node (Velickovic et al., 2018).
    A segment of -inf only gives NaN.

    Args:
        data: scores, a tensor that has the axes of `segment_ids` from `axis` on.
        segment_ids: the segment of each slice, integers in [-num_segments, num_segments).
        num_segments: the number of segments.
        axis: the first axis of the ids in data.

    Returns:
        A tensor in the shape of data.

    Raises:
        IndexingError: for an id outside the segments.
        ShapeError: if the data does not have the axes of the ids.

    >>> pb.segment_softmax([1e4, 3.0, 1e4], [0, 2, 0], 3).tolist()
    [0.5, 1.0, 0.5]
    """
    wide = widened(data)
    tops = segment_max(wide, segment_ids, num_segments, axis=axis)
    powers = exp(wide - take(tops, segment_ids, axis=axis))
    totals = segment_sum(powers, segment_ids, num_segments, axis=axis)
    return narrowed(powers / take(totals, segment_ids, axis=axis), data)


@segment_softmax.vjp("data")
def _(g: Tensor, segment_ids: Tensor, out: Tensor, num_segments: int, axis: int) -> Tensor:
    wide, y = widened(g), widened(out)
    means = segment_sum(wide * y, segment_ids, num_segments, axis=axis)
    return narrowed(y * (wide - take(means, segment_ids, axis=axis)), out)


segment_softmax.vjp(segment_ids=None)
