"""`scan`, `fori_loop` and `while_loop` in a captured function, as structures of tensors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from pullback import dtypes, errors
from pullback._dispatch.convert import from_any
from pullback._dispatch.recording import LOCAL, capturing
from pullback._tree import leaves, like
from pullback.graph.control.call import trace_now
from pullback.graph.control.loop_calls import traced_scan, traced_while
from pullback.graph.control.structures import check_alike, predicate, tensors
from pullback.graph.control.subtrace import OnlyOutside
from pullback.graph.eval_shape import TensorSpec, eval_shape
from pullback.ops.creation import arange, full
from pullback.ops.joining import concat
from pullback.ops.manipulation import broadcast_to, reshape
from pullback.tensor import Tensor

#: The largest number of steps that are traced one by one.
LARGEST_UNROLLED = 256
#: What `captured` returns for such a loop.
ONE_BY_ONE = object()
#: What to do about a carry that changes its kind.
ADVICE = "a loop hands on what it began with: convert with x.astype(...) or broadcast before"


def next_carry(name: str, function: str, carry: Any, returned: object) -> Any:
    """The carry that a loop's function returned, which is like the one before."""
    new = tensors(returned)
    check_alike(name, f"{function} returned the carry", new, "and got", carry, ADVICE)
    return new


def pair(returned: object) -> tuple[Any, Any]:
    """The carry and the result that the function of a scan returned.

    Raises:
        InputValueError: if it did not return a pair.
    """
    if isinstance(returned, (tuple, list)) and len(returned) == 2:
        return returned[0], returned[1]
    raise errors.InputValueError(
        f"pb.scan: f must return a pair, the next carry and a result, got "
        f"{type(returned).__name__}; write `return carry, None` where there is no result"
    )


def captured(trace: Callable[[], Any], length: int) -> Any:
    """The result of a loop in a trace; ONE_BY_ONE if its steps are to be traced one by one.

    Such steps draw random numbers, or do something else that only a whole function may do.

    Args:
        trace: records the loop as one call.
        length: the number of steps.

    Raises:
        Break: for a step that cannot be traced, and for too many to be traced one by one.
    """
    try:
        return trace()
    except OnlyOutside:
        recorder = trace_now()
        if recorder is None or not 0 < length <= LARGEST_UNROLLED:
            raise
        recorder.broken = None
        return ONE_BY_ONE


def scan(
    f: Callable[..., Any], carry: Any, xs: Any, length: int, reverse: bool, recompute: bool
) -> tuple[Any, Any]:
    """A scan in a trace."""
    if recompute and LOCAL.state.recording and length > 3:
        return _in_segments(f, carry, xs, length, reverse)
    kept: list[Any] = []

    def step(flat_carry: list[Tensor], flat_x: list[Tensor]) -> tuple[list[Any], list[Any]]:
        before = like(carry, iter(flat_carry))
        new, result = pair(f(before, like(xs, iter(flat_x))))
        new, result = next_carry("pb.scan", "f", before, new), tensors(result)
        kept[:] = [result]
        return leaves(new), leaves(result)

    last, results = traced_scan("f of pb.scan", step, leaves(carry), leaves(xs), length, reverse)
    return like(carry, iter(last)), like(kept[0], iter(results))


def _in_segments(
    f: Callable[..., Any], carry: Any, xs: Any, length: int, reverse: bool
) -> tuple[Any, Any]:
    """A scan over scans of the square root of the length: the gradient keeps the outer carries."""
    size = math.isqrt(length)
    count = length // size
    whole = count * size

    def segment(inner: Any, x: Any) -> tuple[Any, Any]:
        return scan(f, inner, x, size, reverse, False)

    def tail(inner: Any) -> tuple[Any, Any]:
        rest = like(xs, iter([x[whole:] for x in leaves(xs)]))
        return scan(f, inner, rest, length - whole, reverse, False)

    end: Any = None
    if reverse and whole < length:
        carry, end = tail(carry)
    parts = [reshape(x[:whole], (count, size, *x.shape[1:])) for x in leaves(xs)]
    carry, results = scan(segment, carry, like(xs, iter(parts)), count, reverse, False)
    joined = [reshape(y, (whole, *y.shape[2:])) for y in leaves(results)]
    if not reverse and whole < length:
        carry, end = tail(carry)
    if whole < length:
        joined = [concat([y, z]) for y, z in zip(joined, leaves(end), strict=True)]
    return carry, like(results, iter(joined))


def empty_results(f: Callable[..., Any], carry: Any, xs: Any) -> Any:
    """The results of a scan without steps."""
    one = like(xs, iter([TensorSpec(x.shape[1:], x.dtype) for x in leaves(xs)]))
    result = eval_shape(lambda carry, x: tensors(pair(f(carry, x))[1]), carry, one)
    empty = [full((0, *spec.shape), 0, dtype=spec.dtype) for spec in leaves(result)]
    return like(result, iter(empty))


def scan_once(f: Callable[..., Any], carry: Any, xs: Any, length: int) -> tuple[Any, Any]:
    """A scan where nothing is computed: its function is called for one element."""
    first = [x[0] if length else full(x.shape[1:], 0, dtype=x.dtype) for x in leaves(xs)]
    new, result = pair(f(carry, like(xs, iter(first))))
    result = tensors(result)
    rows = [broadcast_to(y, (length, *y.shape)) for y in leaves(result)]
    return next_carry("pb.scan", "f", carry, new), like(result, iter(rows))


def fori_loop(lower: Any, upper: Any, body_fn: Callable[..., Any], carry: Any) -> Any:
    """A loop over a range in a trace: a scan if its length is known."""

    def following(i: Tensor, flat_carry: list[Tensor]) -> list[Any]:
        before = like(carry, iter(flat_carry))
        return leaves(next_carry("pb.fori_loop", "body_fn", before, body_fn(i, before)))

    what = "body_fn of pb.fori_loop"
    capture = capturing()
    if capture is not None and isinstance(lower, int) and isinstance(upper, int):
        numbers = arange(lower, max(lower, upper), dtype=dtypes.DEFAULT_INT, device=capture.device)
        last, _ = traced_scan(
            what,
            lambda flat_carry, x: (following(x[0], flat_carry), []),
            leaves(carry),
            [numbers],
            numbers.shape[0],
            False,
        )
        return like(carry, iter(last))
    first, bound = (from_any(value).astype(dtypes.DEFAULT_INT) for value in (lower, upper))
    results = traced_while(
        ("the bound of pb.fori_loop", what),
        lambda flat_carry: flat_carry[0] < bound,
        lambda flat_carry: [flat_carry[0] + 1, *following(flat_carry[0], flat_carry[1:])],
        [first, *leaves(carry)],
        None,
    )
    return like(carry, iter(results[1:]))


def while_loop(
    cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carry: Any, maximum: int | None
) -> Any:
    """A loop with a condition in a trace."""

    def test(flat_carry: list[Tensor]) -> object:
        result = cond_fn(like(carry, iter(flat_carry)))
        return predicate("pb.while_loop", "the result of cond_fn", result)

    def body(flat_carry: list[Tensor]) -> list[Any]:
        before = like(carry, iter(flat_carry))
        return leaves(next_carry("pb.while_loop", "body_fn", before, body_fn(before)))

    names = "cond_fn of pb.while_loop", "body_fn of pb.while_loop"
    return like(carry, iter(traced_while(names, test, body, leaves(carry), maximum)))
