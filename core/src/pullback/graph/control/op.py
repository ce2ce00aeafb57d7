"""The ops of control flow: their inputs, and what their graphs say of their results.

They are not in the op table: their attributes are graphs, and the number of their results differs
from call to call. What the field calls a branch or the body of a loop is a graph whose inputs are
all arguments.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pullback.dtypes import DType, DTypeRule, Resolution
from pullback.graph.graph import Argument, Call, Graph, GraphOp, InvalidGraphError, Value
from pullback.shapes import Shape, broadcast
from pullback.spec import Arity, Attribute, Input, Op


class ControlKind(NamedTuple):
    """The ops of one name."""

    inputs: tuple[Input, ...]
    attributes: tuple[Attribute, ...]
    #: The shape and dtype of each result, from the attributes.
    results: Callable[..., list[tuple[Shape, DType]]]
    #: The public function: it takes tensors and attributes, and returns a list of tensors.
    function: Callable[..., Any]
    why: str


KINDS: dict[str, ControlKind] = {}


def define(
    name: str,
    inputs: dict[str, Arity],
    attributes: Sequence[str],
    results: Callable[..., list[tuple[Shape, DType]]],
    function: Callable[..., Any],
    why: str,
) -> None:
    """Defines the ops of a name."""
    KINDS[name] = ControlKind(
        tuple(Input(parameter, arity) for parameter, arity in inputs.items()),
        tuple(Attribute(attribute, "Any", False) for attribute in attributes),
        results,
        function,
        why,
    )


class ControlOp(GraphOp):
    """The op of a call of graphs, such as branches, for a number of results."""

    __slots__ = ()

    def check(self, call: Call, check: Callable[[Graph], None]) -> None:
        """Tests that the graphs fit the call, and each other."""
        if call.graphs:
            check_control(call)


@functools.cache
def control_op(name: str, outputs: int) -> ControlOp:
    """The op of a name with a number of outputs."""
    kind = KINDS[name]
    return ControlOp(
        name, kind.inputs, kind.attributes, kind.results, outputs, kind.why, kind.function
    )


def known_op(name: str, outputs: int) -> Op | None:
    """The op of a name that only graphs call; None for an unknown one."""
    for op in (STOP_GRADIENT, BARRIER):
        if name == op.name:
            return op
    return control_op(name, outputs) if name in KINDS else None


class _StopGradient(GraphOp):
    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(
            "stop_gradient", (Input("x", Arity.ONE),), (), list, 1, "It computes nothing."
        )
        self.shape = broadcast
        self.dtype = DTypeRule(lambda operands, **_: Resolution(operands, operands))


class _Barrier(GraphOp):
    __slots__ = ()

    def __init__(self) -> None:
        inputs = Input("x", Arity.ONE), Input("after", Arity.ONE)
        why = "It is x, for calls that come after another one."
        super().__init__("barrier", inputs, (), list, 1, why, lambda x, after: x)
        self.shape = lambda x, after: x
        self.dtype = DTypeRule(lambda operands, **_: Resolution(operands, operands[:1]))


#: An array that is read again when another one is there: no pass may join the calls on it with
#: those on the array itself, or do them earlier.
BARRIER = _Barrier()
#: Says in a graph that no gradient flows back; `pullback._autodiff.functional` has its function.
STOP_GRADIENT = _StopGradient()


# Rules --------------------------------------------------------------------------------------------


def check_control(call: Call) -> None:
    """Tests a call of graphs; for tests.

    Raises:
        InvalidGraphError: for a graph with other inputs than the call gives it, or other results
            than the call has.
    """
    for name, graph in call.graphs.items():
        for i, entry in enumerate(graph.inputs):
            if type(entry) is not Argument or entry.position != i:
                raise InvalidGraphError(f"{call}: the input {i} of {name} is not an argument")
    _same(call, "its result", _kinds(call.results), _results(call))
    given = _inputs(call)
    for name, graph in call.graphs.items():
        _same(call, f"the input of {name}", _kinds(entry.value for entry in graph.inputs), given)
    if "test" in call.attributes:
        outputs = _kinds(call.attributes["test"].outputs)
        _same(call, "the condition", outputs, [((), np.dtype(bool))])
    if call.op.name in ("scan", "while_loop"):
        carry: Any = call.inputs[1]
        outputs = call.attributes["body"].outputs[: len(carry)]
        _same(call, "the carry", _kinds(outputs), _kinds(carry))


def _inputs(call: Call) -> list[Any]:
    """The kinds of what the graphs of a call get."""
    rows: list[Any] = []
    if call.op.name == "scan":
        *before, xs = call.inputs
        elements: Any = xs
        rows = [(x.shape[1:], x.dtype) for x in elements]
    elif call.op.name == "while_loop":
        before = list(call.inputs)
    else:
        before = list(call.inputs[1:])
    listed: Any = before
    return [kind for operand in listed for kind in _kinds(operand)] + rows


def _results(call: Call) -> list[Any]:
    if call.op.name != "scan":
        first = next(reversed(call.graphs.values()))
        for graph in call.graphs.values():
            if "test" not in call.attributes:
                _same(call, "a branch", _kinds(graph.outputs), _kinds(first.outputs))
        return _kinds(first.outputs)
    carries, length = call.attributes["carries"], call.attributes["length"]
    kinds = _kinds(call.attributes["body"].outputs)
    return [*kinds[:carries], *(((length, *shape), dtype) for shape, dtype in kinds[carries:])]


def _kinds(values: Iterable[Value]) -> list[Any]:
    return [(value.shape, value.dtype) for value in values]


def _same(call: Call, what: str, kinds: list[Any], expected: list[Any]) -> None:
    if kinds != expected:
        raise InvalidGraphError(f"{call}: {what} is {kinds}, and should be {expected}")
