"""`map` and `associative_scan`: functions of elements along an axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pullback import errors
from pullback._batching.vmap import vmap
from pullback._tree import leaves, like
from pullback.graph.control.functions import scan, step_count
from pullback.graph.control.structures import check_alike, checked_function, tensors
from pullback.ops.joining import concat, stack
from pullback.ops.manipulation import flip, reshape
from pullback.shapes import as_count, canonical_axis
from pullback.tensor import Tensor

__all__ = ["associative_scan", "map"]

T = TypeVar("T")


def map(f: Callable[[Any], Any], xs: Any, *, batch_size: int | None = None) -> Any:
    """Calls a function with each element along the first axis, one after the other.

    As `pb.vmap(f)(xs)`, with the memory of one element, or of some.

    Args:
        f: takes an element, and returns a structure of tensors.
        xs: a structure of tensors with one size along their first axis.
        batch_size: the number of elements that are computed at once, by `pb.vmap`.

    Returns:
        The results, stacked along a new first axis.

    >>> pb.map(lambda x: x * x, pb.asarray([1.0, 2.0, 3.0])).tolist()
    [1.0, 4.0, 9.0]

    Raises:
        ShapeError: for elements of other sizes; for results of other shapes.
        InputValueError: without a tensor in `xs`; for results of other structures.
        InputTypeError: for a function that does not take an element.
    """
    f = checked_function("pb.map", "f", f, "an element of xs")
    xs = tensors(xs)
    length = step_count("pb.map", xs)
    if batch_size is None:
        return scan(lambda _, x: (None, f(x)), None, xs)[1]
    size = as_count(batch_size, "batch_size")
    whole = length - length % size

    def part(count: int, begin: int, shape: tuple[int, ...]) -> Any:
        rows = [reshape(x[begin : begin + count], (*shape, *x.shape[1:])) for x in leaves(xs)]
        return like(xs, iter(rows))

    batched = vmap(f)
    if not whole:
        return batched(xs)
    found = scan(lambda _, x: (None, batched(x)), None, part(whole, 0, (whole // size, size)))[1]
    joined = [reshape(y, (whole, *y.shape[2:])) for y in leaves(found)]
    if whole < length:
        rest = batched(part(length - whole, whole, (length - whole,)))
        joined = [concat([y, z]) for y, z in zip(joined, leaves(rest), strict=True)]
    return like(found, iter(joined))


def associative_scan(f: Callable[[T, T], T], xs: T, axis: int = 0, *, reverse: bool = False) -> T:
    """All partial results of an associative operation along an axis (Blelloch, 1990).

    The result at i is that of the elements up to i. For n elements `f` is called some 2 log2(n)
    times, for some 2 n elements in all; `pb.scan` calls a function n times, one after the other.

    Args:
        f: takes two structures like `xs`, of any size along the axis, and combines them element by
            element. It is associative: f(f(a, b), c) = f(a, f(b, c)).
        xs: a structure of tensors with one size along the axis.
        axis: the axis.
        reverse: whether to begin with the last element: the result at i is that of those from i on,
            f(last, ...).

    Returns:
        A structure like `xs`.

    >>> pb.associative_scan(pb.multiply, pb.asarray([1.0, 2.0, 3.0, 4.0])).tolist()
    [1.0, 2.0, 6.0, 24.0]
    >>> decay, b = pb.asarray([0.5, 0.5, 0.5]), pb.asarray([1.0, 1.0, 1.0])
    >>> step = lambda x, y: (x[0] * y[0], x[1] * y[0] + y[1])
    >>> pb.associative_scan(step, (decay, b))[1].tolist()  # h = 0.5 h + b
    [1.0, 1.5, 1.75]

    Raises:
        AxisError: for an axis that a tensor does not have.
        ShapeError: for tensors of other sizes along it; if `f` changes shapes.
        InputValueError: without a tensor; if `f` returns another structure.
        InputTypeError: for a function that does not take two structures.
    """
    f = checked_function("pb.associative_scan", "f", f, "two structures like xs")
    elements = tensors(xs)
    flat: list[Tensor] = leaves(elements)
    if not flat:
        raise errors.InputValueError("pb.associative_scan: xs has no tensor")
    axes = [canonical_axis(axis, x.ndim) for x in flat]
    sizes = {x.shape[at] for x, at in zip(flat, axes, strict=True)}
    if len(sizes) > 1:
        raise errors.ShapeError(
            f"pb.associative_scan: the tensors have the sizes {sorted(sizes)} along axis {axis}; "
            f"all must be equal"
        )

    def combined(x: list[Tensor], y: list[Tensor]) -> list[Tensor]:
        given = like(elements, iter(x))
        found = tensors(f(given, like(elements, iter(y))))
        advice = "f combines element by element: shapes and dtypes stay"
        check_alike("pb.associative_scan", "f returned", found, "and got", given, advice)
        return leaves(found)

    def part(rows: list[Tensor], begin: int, end: int | None, step: int) -> list[Tensor]:
        taken = slice(begin, end, step)
        return [x[(slice(None),) * at + (taken,)] for x, at in zip(rows, axes, strict=True)]

    def scanned(rows: list[Tensor], size: int) -> list[Tensor]:
        if size < 2:
            return rows
        # The results at odd places are those of pairs; one more step gives those between.
        pairs = size // 2
        odd = scanned(combined(part(rows, 0, 2 * pairs, 2), part(rows, 1, 2 * pairs, 2)), pairs)
        behind = (size - 1) // 2
        even = part(rows, 0, 1, 1)
        if behind:
            later = combined(part(odd, 0, behind, 1), part(rows, 2, None, 2))
            even = [concat([x, y], axis=at) for x, y, at in zip(even, later, axes, strict=True)]
        return [_woven(x, y, at) for x, y, at in zip(even, odd, axes, strict=True)]

    if reverse:
        flat = [flip(x, axis=at) for x, at in zip(flat, axes, strict=True)]
    found = scanned(flat, sizes.pop())
    if reverse:
        found = [flip(x, axis=at) for x, at in zip(found, axes, strict=True)]
    result: T = like(elements, iter(found))
    return result


def _woven(even: Tensor, odd: Tensor, axis: int) -> Tensor:
    """The elements of two tensors in turns; the first one may have one more."""
    count = odd.shape[axis]
    first = even[(slice(None),) * axis + (slice(0, count),)]
    shape = (*odd.shape[:axis], 2 * count, *odd.shape[axis + 1 :])
    both = reshape(stack([first, odd], axis=axis + 1), shape)
    if even.shape[axis] == count:
        return both
    return concat([both, even[(slice(None),) * axis + (slice(count, None),)]], axis=axis)
