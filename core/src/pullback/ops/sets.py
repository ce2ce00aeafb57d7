"""Distinct elements of a tensor, in ascending order. Every NaN is distinct.

The values are elements that are taken from x, each where it occurs first, so the gradient goes
there, as that of `sort` goes where its values are from. The bodies take them with `take`, which a
tape records.
"""

from __future__ import annotations

from typing import Any

from pullback import dtypes
from pullback._dispatch import op
from pullback.dtypes import DType, DTypeRule, Operands, Resolution, predicate, same, uniform
from pullback.ops.arithmetic import minimum
from pullback.ops.creation import full
from pullback.ops.cumulative import cumulative_sum
from pullback.ops.indexing import take
from pullback.ops.joining import concat
from pullback.ops.logical import logical_not
from pullback.ops.precision import places_on
from pullback.ops.reductions import any
from pullback.ops.searching import argwhere, searchsorted
from pullback.ops.sorting import argsort, sort
from pullback.shapes import Shape
from pullback.spec import EXACT
from pullback.tensor import Tensor

__all__ = ["isin", "unique_all", "unique_counts", "unique_inverse", "unique_values"]


def _outputs(*kinds: DType | None) -> DTypeRule:
    """A dtype rule: None for the dtype of the input."""

    @uniform
    def rule(operands: Operands, **_: object) -> Resolution:
        """The values in the dtype of x, indices and counts in int64."""
        inputs, (dtype,) = same(operands)
        return Resolution(inputs, tuple(dtype if kind is None else kind for kind in kinds))

    return rule


_INDEX = dtypes.int64


def _of_data(*unknown: str) -> Any:
    def rule(x: Shape, **_: object) -> list[Shape | None]:
        """Vectors whose lengths depend on the values; the inverse has the shape of x."""
        return [x if name == "inverse" else None for name in unknown]

    return rule


@op(
    shape=_of_data("values", "indices", "inverse", "counts"),
    dtype=_outputs(None, _INDEX, _INDEX, _INDEX),
    accuracy=EXACT,
    outputs=("values", "indices", "inverse_indices", "counts"),
)
def unique_all(x: Tensor, /) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The distinct elements of x, with indices, inverse indices and counts.

    `x.reshape((-1,))[indices]` gives values, and `values[inverse_indices]` gives x. Each index is
    that of the first occurrence, to which the gradient of the value goes.

    >>> values, indices, inverse, counts = pb.unique_all([3, 1, 3])
    >>> values.tolist(), indices.tolist(), inverse.tolist(), counts.tolist()
    ([1, 3], [1, 0], [1, 0, 1], [1, 2])
    """
    flat = x.reshape((x.size,))
    order = _order(flat)
    ordered = take(flat, order, axis=0)
    first = full((x.size and 1,), True, device=x.device)
    is_first = concat([first, ordered[1:] != ordered[:-1]])
    starts = argwhere(is_first)[:, 0]
    whole = places_on(x.device)
    ends = concat([starts[1:], full((x.size and 1,), x.size, dtype=whole, device=x.device)])
    group = cumulative_sum(is_first, axis=0, dtype=whole) - 1
    inverse = take(group, argsort(order), axis=0).reshape(x.shape)
    indices = take(order, starts, axis=0)
    return take(flat, indices, axis=0), indices, inverse, ends - starts


def _order(x: Tensor) -> Tensor:
    """The stable sorting order of a vector; complex numbers by real, then imaginary part."""
    if dtypes.is_complex(x.dtype):
        by_imag = argsort(x.imag)
        return take(by_imag, argsort(take(x.real, by_imag, axis=0)), axis=0)
    return argsort(x.astype(dtypes.int32) if x.dtype == dtypes.bool_ else x)


@op(
    shape=_of_data("values", "counts"),
    dtype=_outputs(None, _INDEX),
    accuracy=EXACT,
    outputs=("values", "counts"),
)
def unique_counts(x: Tensor, /) -> tuple[Tensor, Tensor]:
    """The distinct elements of x, with the number of times that each occurs.

    The gradient of a value goes to its first occurrence.

    >>> values, counts = pb.unique_counts([3, 1, 3])
    >>> values.tolist(), counts.tolist()
    ([1, 3], [1, 2])
    """
    values, _, _, counts = unique_all(x)
    return values, counts


@op(
    shape=_of_data("values", "inverse"),
    dtype=_outputs(None, _INDEX),
    accuracy=EXACT,
    outputs=("values", "inverse_indices"),
)
def unique_inverse(x: Tensor, /) -> tuple[Tensor, Tensor]:
    """The distinct elements of x, with the index of each element of x among them.

    The gradient of a value goes to its first occurrence.

    >>> values, inverse = pb.unique_inverse([3, 1, 3])
    >>> values.tolist(), inverse.tolist()
    ([1, 3], [1, 0, 1])
    """
    values, _, inverse, _ = unique_all(x)
    return values, inverse


@op(shape=_of_data("values"), dtype=same, accuracy=EXACT)
def unique_values(x: Tensor, /) -> Tensor:
    """The distinct elements of x; the gradient of a value goes to its first occurrence.

    >>> pb.unique_values([3, 1, 3]).tolist()
    [1, 3]
    """
    return unique_all(x)[0]


def _like_first(x1: Shape, x2: Shape, **_: object) -> Shape:
    """The shape of x1."""
    return x1


@op(shape=_like_first, dtype=predicate, accuracy=EXACT, differentiable=False)
def isin(x1: Tensor, x2: Tensor, /, *, invert: bool = False) -> Tensor:
    """Returns True where an element of x1 is among those of x2; NaN never is.

    Args:
        x1: the elements to test.
        x2: the elements to compare with, of any shape.
        invert: True to return True for elements that are not in x2.

    >>> pb.isin([1, 2, 3], [3, 1]).tolist()
    [True, False, True]
    """
    if not x2.size:
        return full(x1.shape, invert, device=x1.device)
    if x1.dtype == dtypes.bool_:
        x1, x2 = x1.astype(dtypes.int32), x2.astype(dtypes.int32)
    values = x2.reshape((x2.size,))
    if dtypes.is_complex(x1.dtype):
        is_member = any(x1.reshape((*x1.shape, 1)) == values, axis=-1)
    else:
        values = sort(values)
        index = minimum(searchsorted(values, x1), x2.size - 1)
        is_member = take(values, index.reshape((x1.size,)), axis=0).reshape(x1.shape) == x1
    return logical_not(is_member) if invert else is_member
