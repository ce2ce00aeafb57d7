"""`scan`, `fori_loop` and `while_loop` in a trace: on structures of tensors, and as calls."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from pullback import dtypes, errors
from pullback._dispatch.convert import from_any
from pullback._dispatch.recording import LOCAL, capturing, uncaptured
from pullback._symbols import Break
from pullback._tree import leaves, like, mapped
from pullback.devices import Device
from pullback.dtypes import DType
from pullback.graph.call_graph import run_ops
from pullback.graph.capture import Capture
from pullback.graph.control.branches import CALLS
from pullback.graph.control.call import (
    Contract,
    Kind,
    capture_now,
    code_of,
    define,
    element_kinds,
    is_tracked,
    kinds_in,
    kinds_of_body,
    lifted,
    one_or_all,
    record_call,
    shortened,
    the_capture,
)
from pullback.graph.control.structures import check_alike, predicate, tensors
from pullback.graph.control.subtrace import OnlyOutside, Outside, Section, joined, section
from pullback.graph.eval_shape import TensorSpec, eval_shape
from pullback.graph.graph import Call, Graph, Value, kinds_of
from pullback.ops.creation import arange, full
from pullback.ops.joining import concat, stack, unstack
from pullback.ops.manipulation import broadcast_to, reshape
from pullback.plugins.records import Kernel, Native
from pullback.shapes import Shape
from pullback.spec import Arity
from pullback.tensor import Tensor, wrap

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


def captured(record: Callable[[], Any], length: int) -> Any:
    """The result of a loop in a trace; ONE_BY_ONE if its steps are to be traced one by one.

    Such steps draw random numbers, or do something else that only a whole function may do.

    Args:
        record: records the loop as one call.
        length: the number of steps.

    Raises:
        Break: for a step that cannot be traced, and for too many to be traced one by one.
    """
    try:
        return record()
    except OnlyOutside:
        capture = capture_now()
        if capture is None or not 0 < length <= LARGEST_UNROLLED:
            raise
        capture.trace.broken = None
        return ONE_BY_ONE


def scan(
    f: Callable[..., Any], carry: object, xs: object, length: int, reverse: bool, recompute: bool
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
    f: Callable[..., Any], carry: object, xs: object, length: int, reverse: bool
) -> tuple[Any, Any]:
    """A scan over scans of the square root of the length: the gradient keeps the outer carries."""
    size = math.isqrt(length)
    count = length // size
    whole = count * size

    def segment(inner: object, x: object) -> tuple[Any, Any]:
        return scan(f, inner, x, size, reverse, False)

    def tail(inner: Any) -> tuple[Any, Any]:
        rest = mapped(lambda x: x[whole:], xs)
        return scan(f, inner, rest, length - whole, reverse, False)

    end = None
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


def empty_results(f: Callable[..., Any], carry: object, xs: object) -> Any:
    """The results of a scan without steps."""
    one = mapped(lambda x: TensorSpec(x.shape[1:], x.dtype), xs)
    result = eval_shape(lambda carry, x: tensors(pair(f(carry, x))[1]), carry, one)
    empty = [full((0, *spec.shape), 0, dtype=spec.dtype) for spec in leaves(result)]
    return like(result, iter(empty))


def scan_once(f: Callable[..., Any], carry: object, xs: object, length: int) -> tuple[Any, Any]:
    """A scan where nothing is computed: its function is called for one element."""
    first = [x[0] if length else full(x.shape[1:], 0, dtype=x.dtype) for x in leaves(xs)]
    new, result = pair(f(carry, like(xs, iter(first))))
    result = tensors(result)
    rows = [broadcast_to(y, (length, *y.shape)) for y in leaves(result)]
    return next_carry("pb.scan", "f", carry, new), like(result, iter(rows))


def fori_loop(lower: object, upper: object, body_fn: Callable[..., Any], carry: object) -> Any:
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


# On flat lists of tensors -------------------------------------------------------------------------

#: A step of a scan: of the carry and an element, the next carry and the results.
Step = Callable[[list[Tensor], list[Tensor]], tuple[list[Any], list[Any]]]


def traced_scan(
    what: str,
    step: Step,
    init: Sequence[Tensor],
    xs: Sequence[Tensor],
    length: int,
    reverse: bool,
    states: int = 0,
) -> tuple[list[Tensor], list[Tensor]]:
    """Traces the step of a scan, and records the call.

    Args:
        what: the step, for messages.
        step: a step.
        init: the first carry.
        xs: what it goes through, along the first axes.
        length: the number of steps.
        reverse: whether it begins with the last element.
        states: how many of the carries, the last ones, are values of variables.

    Returns:
        the last carry, and the results.
    """
    capture = the_capture()
    init, xs = lifted(capture, [list(init), list(xs)])
    carries = len(init)

    def run(*values: Tensor) -> list[Any]:
        carry, results = step(list(values[:carries]), list(values[carries:]))
        return [*carry, *results]

    examples = [tensor._array.array for tensor in init]
    with uncaptured():
        examples += [_element(x, length, reverse, capture) for x in xs]
    traced = section(capture, what, run, examples)
    split = _Split([traced], len(examples))
    graph = split.graphs[0]
    arguments = graph.inputs[: len(examples)]
    results = len(traced.result)
    body = graph._replace(
        inputs=_numbered(
            [
                *split.inputs(graph, split.constants),
                *arguments[:carries],
                *split.inputs(graph, split.states),
                *arguments[carries:],
            ]
        ),
        outputs=(
            *graph.outputs[:carries],
            *graph.outputs[results:],
            *graph.outputs[carries:results],
        ),
    )
    body = shortened(capture, body)
    found = _call_scan(
        [entry.tensor for entry in split.constants],
        [*init, *(entry.tensor for entry in split.states)],
        xs,
        body=body,
        carries=carries + len(split.states),
        length=length,
        reverse=reverse,
        states=states + len(split.states),
        saved=0,
    )
    split.write(capture, found[carries:])
    return found[:carries], found[carries + len(split.states) :]


def traced_while(
    what: tuple[str, str],
    test: Callable[[list[Tensor]], object],
    body: Callable[[list[Tensor]], list[Any]],
    init: Sequence[Tensor],
    maximum: int | None,
) -> list[Tensor]:
    """Traces the condition and the step of a loop, and records the call.

    Args:
        what: both, for messages.
        test: the condition, of the carry.
        body: a step, of the carry.
        init: the first carry.
        maximum: the largest number of steps.

    Returns:
        the last carry.
    """
    capture = the_capture()
    (init,) = lifted(capture, [list(init)])
    carries = len(init)
    examples = [tensor._array.array for tensor in init]
    tested = section(capture, what[0], lambda *carry: [test(list(carry))], examples)
    if tested.written:
        raise Break(f"assigns a variable in {what[0]}", "assign it in the body of the loop")
    traced = section(capture, what[1], lambda *carry: body(list(carry)), examples)
    split = _Split([tested, traced], carries)
    graphs = []
    for graph in split.graphs:
        inputs = [
            *split.inputs(graph, split.constants),
            *graph.inputs[:carries],
            *split.inputs(graph, split.states),
        ]
        graphs.append(shortened(capture, graph._replace(inputs=_numbered(inputs))))
    found = _call_while(
        [entry.tensor for entry in split.constants],
        [*init, *(entry.tensor for entry in split.states)],
        test=graphs[0],
        body=graphs[1],
        maximum=maximum,
        states=len(split.states),
    )
    split.write(capture, found[carries:])
    return found[:carries]


class _Split:
    """The reads of sections from outside: variables that the last one writes, and all else."""

    def __init__(self, sections: Sequence[Section], explicit: int) -> None:
        outside, self.graphs = joined(sections, explicit)
        self._explicit = explicit
        self._order = list(outside)
        written = sections[-1].written
        by_variable = {id(e.variable): e for e in outside if e.variable is not None}
        self.states: list[Outside] = [by_variable[id(variable)] for variable in written]
        self.constants = [entry for entry in outside if entry not in self.states]

    def inputs(self, graph: Graph, entries: list[Outside]) -> list[Any]:
        """The inputs of a graph for some of these reads."""
        behind = graph.inputs[self._explicit :]
        return [behind[self._order.index(entry)] for entry in entries]

    def write(self, capture: Capture, values: Sequence[Tensor]) -> None:
        """Has the enclosing trace set the variables to the first values."""
        for entry, value in zip(self.states, values, strict=False):
            capture.write(entry.variable, value)


def _numbered(inputs: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(type(entry)(entry.value, i) for i, entry in enumerate(inputs))


def _element(x: Tensor, length: int, reverse: bool, capture: Capture) -> Native:
    """The first element that a scan gets; zeros if it does not get any."""
    device = capture.real_device
    if not length:
        zeros: Native = full(x.shape[1:], 0, dtype=x.dtype, device=device)._array
        return zeros
    element: Native = wrap(x._array.array, device)[length - 1 if reverse else 0]._array
    return element


# ---------------------------------------------------------------------------------------------
# The steps, of native arrays or of tensors.


def _scanned(
    code: Callable[..., Sequence[Any]],
    consts: Sequence[Any],
    carry: Sequence[Any],
    columns: Sequence[Sequence[Any]],
    carries: int,
    order: range,
) -> tuple[Sequence[Any], list[Sequence[Any]]]:
    """The last carry, and for each result its values in the order of the elements."""
    rows = []
    for i in order:
        returned = code(*consts, *carry, *[column[i] for column in columns])
        carry = returned[:carries]
        rows.append(returned[carries:])
    if order.step < 0:
        rows.reverse()
    return carry, [*zip(*rows, strict=True)]


def _order(length: int, reverse: bool) -> range:
    return range(length - 1, -1, -1) if reverse else range(length)


def _stacked(body: Graph, carries: int, columns: Sequence[Any], device: Device) -> list[Tensor]:
    """The results of a scan from their values; without steps they are empty."""
    if columns:
        return [stack(column) for column in columns]
    kinds = kinds_of(body, body.outputs[carries:])
    return [full((0, *shape), 0, dtype=dtype, device=device) for shape, dtype in kinds]


def _repeated(
    test: Callable[..., Any],
    code: Callable[..., Sequence[Any]],
    consts: Sequence[Any],
    carry: Sequence[Any],
    maximum: int | None,
) -> Sequence[Any]:
    """The last carry of a loop that goes on while a test gives true."""
    steps = -1 if maximum is None else maximum
    while steps and test(*consts, *carry):
        carry = code(*consts, *carry)
        steps -= 1
    return carry


# ---------------------------------------------------------------------------------------------
# The kernels.


def _scan_kernel(body: Graph, carries: int, length: int, reverse: bool) -> Kernel:
    """Runs the graph of a step for each element."""
    code, device, order = code_of(body, "step"), body.device, _order(length, reverse)

    def run(consts: list[Native], init: list[Native], xs: list[Native], **_: object) -> Any:
        elements = [[x._array for x in unstack(wrap(array, device))] for array in xs]
        carry, columns = _scanned(code, consts, init, elements, carries, order)
        tensors = [[wrap(array, device) for array in column] for column in columns]
        results = _stacked(body, carries, tensors, device)
        return one_or_all((*carry, *(result._array for result in results)))

    return run


def _while_kernel(test: Graph, body: Graph, maximum: int | None) -> Kernel:
    """Runs the graph of a step while that of the condition gives true."""
    tested, code = code_of(test, "condition"), code_of(body, "step")
    item = body.device.backend.item

    def goes_on(*arrays: Native) -> object:
        return item(tested(*arrays)[0])

    def run(consts: list[Native], init: list[Native], **_: object) -> Any:
        return one_or_all(tuple(_repeated(goes_on, code, consts, init, maximum)))

    return run


# ---------------------------------------------------------------------------------------------
# The functions of the ops.


def _call_scan(
    consts: Sequence[Tensor],
    init: Sequence[Tensor],
    xs: Sequence[Tensor],
    *,
    body: Graph,
    carries: int,
    length: int,
    reverse: bool,
    states: int,
    saved: int,
) -> list[Tensor]:
    capture = capture_now()
    if capture is None:
        return _scan_by_ops(consts, init, xs, body, carries, length, reverse)
    inputs = lifted(capture, [consts, init, xs])
    outputs = len(body.outputs)
    if not saved and is_tracked(inputs):
        # The backward pass needs the carry before each step.
        before = body.inputs[len(consts) : len(consts) + carries]
        body = body._replace(outputs=(*body.outputs, *(entry.value for entry in before)))
        saved = carries
    attributes = {
        "body": body,
        "carries": carries,
        "length": length,
        "reverse": reverse,
        "states": states,
        "saved": saved,
    }
    kernel = _scan_kernel(body, carries, length, reverse)
    results = record_call(capture, "scan", kernel, inputs, attributes, len(body.outputs))
    return results[:outputs]


def _scan_by_ops(
    consts: Sequence[Tensor],
    init: Sequence[Tensor],
    xs: Sequence[Tensor],
    body: Graph,
    carries: int,
    length: int,
    reverse: bool,
) -> list[Tensor]:
    device = next((x._device for x in (*init, *xs, *consts)), body.device)

    def step(*values: Tensor) -> list[Tensor]:
        return run_ops(body, values, device)

    elements = [unstack(x) for x in xs]
    carry, columns = _scanned(step, consts, init, elements, carries, _order(length, reverse))
    return [*carry, *_stacked(body, carries, columns, device)]


def _call_while(
    consts: Sequence[Tensor],
    init: Sequence[Tensor],
    *,
    test: Graph,
    body: Graph,
    maximum: int | None,
    states: int,
) -> list[Tensor]:
    capture = capture_now()
    if capture is None:
        device = init[0]._device if init else None

        def goes_on(*values: Tensor) -> bool:
            return bool(run_ops(test, values, device)[0])

        def step(*values: Tensor) -> list[Tensor]:
            return run_ops(body, values, device)

        return [*_repeated(goes_on, step, consts, init, maximum)]
    inputs = lifted(capture, [consts, init])
    if is_tracked(inputs):
        if maximum is None:
            raise Break(
                "differentiates a while_loop of any number of steps",
                "write pb.while_loop(..., maximum=n), or pb.scan for a known number of steps",
            )
        return _while_as_scan(inputs[0], inputs[1], test, body, maximum, states)
    attributes = {"test": test, "body": body, "maximum": maximum, "states": states}
    kernel = _while_kernel(test, body, maximum)
    return record_call(capture, "while_loop", kernel, inputs, attributes, len(body.outputs))


def _while_as_scan(
    consts: list[Tensor], init: list[Tensor], test: Graph, body: Graph, maximum: int, states: int
) -> list[Tensor]:
    """A loop of at most so many steps, with each carry kept for the backward pass."""
    same = tuple(entry.value for entry in body.inputs[len(consts) :])
    unchanged = Graph(body.device, body.inputs, (), same)

    def step(carry: list[Tensor], _: list[Tensor]) -> tuple[list[Any], list[Any]]:
        values = [*consts, *carry]
        goes_on = run_ops(test, values)[0]
        return CALLS["cond"](goes_on, values, branches=(body, unchanged)), []

    return traced_scan("body_fn of pb.while_loop", step, init, [], maximum, False, states)[0]


def _scan_kinds(
    *, body: Graph, carries: int, length: int, **_: object
) -> list[tuple[Shape, DType]]:
    kinds = kinds_of(body, body.outputs)
    return [*kinds[:carries], *(((length, *shape), dtype) for shape, dtype in kinds[carries:])]


def _scan_contract(call: Call) -> Contract:
    consts, carry, xs = cast("tuple[tuple[Value, ...], ...]", call.inputs)
    given = [*kinds_in(consts, carry), *element_kinds(xs)]
    rows = call.results[call.attributes["carries"] :]
    return {"body": (given, [*kinds_in(carry), *element_kinds(rows)])}


def _while_contract(call: Call) -> Contract:
    consts, carry = cast("tuple[tuple[Value, ...], ...]", call.inputs)
    truth: list[Kind] = [((), np.dtype(bool))]
    given = kinds_in(consts, carry)
    return {"test": (given, truth), "body": (given, kinds_in(carry))}


define(
    "scan",
    {"consts": Arity.MANY, "init": Arity.MANY, "xs": Arity.MANY},
    ["body", "carries", "length", "reverse", "states", "saved"],
    _scan_kinds,
    _call_scan,
    "A body would be as long as the loop.",
    _scan_contract,
)
define(
    "while_loop",
    {"consts": Arity.MANY, "init": Arity.MANY},
    ["test", "body", "maximum", "states"],
    kinds_of_body,
    _call_while,
    "The number of steps is known at the run alone.",
    _while_contract,
)
