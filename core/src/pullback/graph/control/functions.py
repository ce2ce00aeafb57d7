"""Control flow: branches and loops that a captured function may take by the values of tensors.

Called op by op these are Python's `if` and `for`, so tapes record what they call as always. In a
captured function each is one call of the graph, whose attributes are the graphs of its functions.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from pullback import dtypes, errors
from pullback._batching.vmap import vmap
from pullback._dispatch.arguments import as_list
from pullback._dispatch.convert import from_any
from pullback._dispatch.recording import LOCAL, capturing, reject_use
from pullback._tree import leaves, like
from pullback.graph.control import loops, vjp
from pullback.graph.control.branches import choose, chosen
from pullback.graph.control.structures import (
    check_alike,
    checked_function,
    integer,
    operands,
    predicate,
    tensors,
)
from pullback.graph.eval_shape import has_shapes_alone
from pullback.ops.joining import concat, stack, unstack
from pullback.ops.manipulation import flip, reshape
from pullback.shapes import as_count, canonical_axis
from pullback.tensor import Tensor

__all__ = ["associative_scan", "cond", "fori_loop", "map", "scan", "switch", "while_loop"]

assert vjp  # it says how branches and loops are differentiated

R = TypeVar("R")
T = TypeVar("T")
C = TypeVar("C")


def cond(pred: object, true_fn: Callable[..., R], false_fn: Callable[..., R], *operands_: Any) -> R:
    """Calls one of two functions, by the value of a boolean.

    In a captured function both are traced, and the program chooses each time it runs.

    Args:
        pred: a boolean tensor of shape (), or a Python bool or int, by which the choice is made at
            once.
        true_fn: is called with the operands if `pred` is true.
        false_fn: is called otherwise. Both return the same structure, shapes and dtypes.
        operands_: structures of tensors. The functions may also use tensors and variables from
            outside.

    Returns:
        What the function returns, with tensors in place of numbers and arrays.

    >>> x = pb.asarray([1.0, -3.0])
    >>> pb.cond(pb.sum(x) > 0, lambda x: x, lambda x: -x, x).tolist()
    [-1.0, 3.0]

    Raises:
        DTypeError: for a `pred` that is not boolean, such as a float, whose NaN is neither.
        ShapeError: for a `pred` of several elements.
        InputValueError: in a captured function, for functions that return other structures.
        InputTypeError: for functions that do not take these arguments.
    """
    choice = predicate("pb.cond", "pred", pred)
    functions = {
        argument: checked_function("pb.cond", argument, f, "the operands")
        for argument, f in (("true_fn", true_fn), ("false_fn", false_fn))
    }
    result: R = choose("cond", choice, functions, [operands(x) for x in operands_])
    return result


def switch(index: object, branches: Sequence[Callable[..., R]], *operands_: Any) -> R:
    """Calls one of several functions, by its number.

    Args:
        index: an integer tensor of shape (), or an int, by which the choice is made at once. Below
            0 it is the first function, beyond the last one the last.
        branches: the functions, of the operands. All return the same structure, shapes and dtypes.
        operands_: structures of tensors.

    Returns:
        What the function returns, with tensors in place of numbers and arrays.

    >>> pb.switch(1, [lambda x: x + 1, lambda x: x * 10], pb.asarray(3.0)).item()
    30.0

    Raises:
        InputValueError: without branches; in a captured function, for branches that return other
            structures.
        DTypeError: for an index that is not an integer.
        ShapeError: for an index of several elements.
        InputTypeError: for functions that do not take these arguments.
    """
    functions = {
        f"branches[{i}]": checked_function("pb.switch", f"branches[{i}]", f, "the operands")
        for i, f in enumerate(as_list(branches, "pb.switch: branches", "functions"))
    }
    if not functions:
        raise errors.InputValueError("pb.switch: branches is empty; give one function or more")
    choice = integer("pb.switch", "index", index)
    result: R = choose("switch", choice, functions, [operands(x) for x in operands_])
    return result


def scan(
    f: Callable[[C, Any], tuple[C, Any]],
    init: C,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    recompute: bool = False,
) -> tuple[C, Any]:
    """Calls a function with each element of `xs` and what it returned for the one before.

    As `carry, y = f(carry, x)` in a loop over the first axis of `xs`.

    Args:
        f: takes the carry and an element; returns the next carry, of the same structure, shapes and
            dtypes, and a result.
        init: the first carry: a structure of tensors.
        xs: a structure of tensors with one size along their first axis. None: `f` gets None.
        length: the number of calls; needed only without `xs`.
        reverse: whether to begin with the last element; the results are in the order of `xs`.
        recompute: whether a captured function keeps some of the carries for its gradient, and
            computes the others once more: memory for the square root of the number of steps.

    Returns:
        The last carry, and the results stacked along a new first axis.

    >>> pb.scan(lambda total, x: (total + x, total), 0.0, pb.asarray([1.0, 2.0, 4.0]))[0].item()
    7.0
    >>> pb.scan(lambda total, x: (total + x, total), 0.0, pb.asarray([1.0, 2.0, 4.0]))[1].tolist()
    [0.0, 1.0, 3.0]

    Raises:
        InputValueError: if `f` does not return a pair, or another structure; without `xs` and
            `length`; for a `length` that is not the size of `xs`.
        ShapeError: for a carry of another shape, or elements of `xs` of other sizes.
        DTypeError: for a carry of another dtype.
        InputTypeError: for functions that do not take these arguments.
    """
    f = checked_function("pb.scan", "f", f, "the carry and an element of xs")
    carry, elements = tensors(init), tensors(xs)
    count = step_count("pb.scan", elements, length)
    if has_shapes_alone():
        return loops.scan_once(f, carry, elements, count)
    if _is_captured():
        settings = count, bool(reverse), bool(recompute)
        found = loops.captured(lambda: loops.scan(f, carry, elements, *settings), count)
        if found is not loops.ONE_BY_ONE:
            return found  # type: ignore[no-any-return]
    elif count == 0:
        return carry, loops.empty_results(f, carry, elements)
    columns = [unstack(x) for x in leaves(elements)]
    results: list[Any] = []
    for i in reversed(range(count)) if reverse else range(count):
        x = like(elements, iter([column[i] for column in columns]))
        pair = loops.pair(f(carry, x))
        carry, result = loops.next_carry("pb.scan", "f", carry, pair[0]), tensors(pair[1])
        if results:
            before = "before it returned"
            advice = "all results have one structure, shape and dtype"
            check_alike("pb.scan", "f returned the result", result, before, results[0], advice)
        results.append(result)
    if reverse:
        results.reverse()
    rows = [leaves(result) for result in results]
    return carry, like(results[0], iter([stack(column) for column in zip(*rows, strict=True)]))


def fori_loop(lower: object, upper: object, body_fn: Callable[[Tensor, C], C], init: C) -> C:
    """Calls a function for each number of a range, as `carry = body_fn(i, carry)` in a loop.

    Args:
        lower: the first number: an int, or an integer tensor of shape ().
        upper: the number behind the last one. With `lower` at or above it `init` is the result.
        body_fn: takes the number, an integer tensor, and the carry; returns the next carry, of the
            same structure, shapes and dtypes.
        init: the first carry: a structure of tensors.

    Returns:
        The last carry.

    >>> pb.fori_loop(0, 4, lambda i, x: x + i, 10).item()
    16

    Raises:
        InputValueError, ShapeError, DTypeError: for a carry of another structure, shape or dtype;
            for bounds that are not integers.
        InputTypeError: for functions that do not take these arguments.
    """
    body_fn = checked_function("pb.fori_loop", "body_fn", body_fn, "a number and the carry")
    first, last = integer("pb.fori_loop", "lower", lower), integer("pb.fori_loop", "upper", upper)
    carry = tensors(init)
    if has_shapes_alone():
        number = from_any(np.asarray(0, dtypes.DEFAULT_INT))
        once: C = loops.next_carry("pb.fori_loop", "body_fn", carry, body_fn(number, carry))
        return once
    if _is_captured():
        known = isinstance(first, int) and isinstance(last, int)
        length: Any = last - first if known else 0
        found = loops.captured(lambda: loops.fori_loop(first, last, body_fn, carry), length)
        if found is not loops.ONE_BY_ONE:
            return found  # type: ignore[no-any-return]
    if not isinstance(first, int) or not isinstance(last, int):
        raise errors.InputValueError(
            "pb.fori_loop inside pb.vmap: lower and upper are the same for every item; pass ints, "
            "and use pb.where in body_fn for items that end before"
        )
    device = next((x._device for x in leaves(carry)), None)
    for i in range(first, last):
        number = from_any(np.asarray(i, dtypes.DEFAULT_INT), None, device)
        carry = loops.next_carry("pb.fori_loop", "body_fn", carry, body_fn(number, carry))
    result: C = carry
    return result


def while_loop(
    cond_fn: Callable[[C], object],
    body_fn: Callable[[C], C],
    init: C,
    maximum: int | None = None,
) -> C:
    """Calls a function while a condition holds, as `while cond_fn(carry): carry = body_fn(carry)`.

    Args:
        cond_fn: takes the carry, and returns a boolean tensor of shape ().
        body_fn: takes the carry, and returns the next one, of the same structure, shapes and
            dtypes.
        init: the first carry: a structure of tensors.
        maximum: the largest number of calls, after which the loop ends. In a captured function a
            loop that is differentiated needs it, and so does one inside of `pb.vmap`, which makes
            all of these calls.

    Returns:
        The last carry.

    >>> pb.while_loop(lambda x: x < 100, lambda x: x * 3, 1).item()
    243
    >>> pb.while_loop(lambda x: x < 100, lambda x: x * 3, 1, maximum=2).item()
    9

    Raises:
        DTypeError: for a condition that is not boolean; for a carry of another dtype.
        ShapeError: for a condition of several elements; for a carry of another shape.
        InputValueError: for a carry of another structure, or a negative `maximum`.
        InputTypeError: for functions that do not take these arguments.
    """
    cond_fn = checked_function("pb.while_loop", "cond_fn", cond_fn, "the carry")
    body_fn = checked_function("pb.while_loop", "body_fn", body_fn, "the carry")
    limit = None if maximum is None else _index("pb.while_loop", "maximum", maximum)
    carry = tensors(init)
    if has_shapes_alone():
        predicate("pb.while_loop", "the result of cond_fn", cond_fn(carry))
        once: C = loops.next_carry("pb.while_loop", "body_fn", carry, body_fn(carry))
        return once
    if _is_captured():
        return loops.while_loop(cond_fn, body_fn, carry, limit)  # type: ignore[no-any-return]
    steps = 0
    while limit is None or steps < limit:
        goes_on = predicate("pb.while_loop", "the result of cond_fn", cond_fn(carry))
        if not (goes_on if isinstance(goes_on, bool) else _any_goes_on(goes_on, limit)):
            break
        after = loops.next_carry("pb.while_loop", "body_fn", carry, body_fn(carry))
        carry = after if isinstance(goes_on, bool) else chosen(goes_on, after, carry)
        steps += 1
    result: C = carry
    return result


def _is_captured() -> bool:
    """Returns whether a loop is a call of a graph: inside of a batch its steps are, one by one."""
    return capturing() is not None and not LOCAL.state.runs


def step_count(name: str, elements: object, length: object = None) -> int:
    """The number of elements that a scan goes through.

    Raises:
        ShapeError: for a tensor of shape (), or elements of other sizes.
        InputValueError: without a tensor and a length; for another length.
    """
    sizes = []
    for x in leaves(elements):
        if not x.ndim:
            raise errors.ShapeError(
                f"{name}: xs holds a tensor of shape (), which does not have elements to go "
                "through; use it in f as a tensor from outside"
            )
        sizes.append(x.shape[0])
    if length is not None:
        sizes.append(_index(name, "length", length))
    if not sizes:
        raise errors.InputValueError(
            f"{name}: xs has no tensor; to call f without elements, write length= in pb.scan, the "
            f"number of calls"
        )
    if len(set(sizes)) > 1:
        kind = errors.InputValueError if length is not None else errors.ShapeError
        raise kind(
            f"{name}: the first axes of xs (and length) have the sizes "
            f"{', '.join([str(size) for size in sizes])}; all must be equal"
        )
    return int(sizes[0])


def _index(name: str, argument: str, value: Any) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise errors.InputTypeError(
            f"{name}: {argument} must be an int, got {type(value).__name__}"
        ) from None
    if number < 0:
        raise errors.InputValueError(f"{name}: {argument} must not be negative, got {number}")
    return number


def _any_goes_on(goes_on: Tensor, limit: int | None) -> bool:
    """Returns whether a loop may have to go on for any item.

    A trace, where no values are known, has all steps of a loop with a limit, and ends at another.
    """
    if limit is not None and capturing() is not None:
        return True
    reject_use(
        "calls pb.while_loop inside of pb.vmap, which ends by values",
        "give maximum=, of which the program has all steps; or write pb.fori_loop with pb.where",
    )
    return goes_on.device.holds_anywhere(goes_on)


# Of elements --------------------------------------------------------------------------------------


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
