"""Calls of graphs: their ops; in a trace one call with a node for its gradient, elsewhere op by op.

The ops are not in the op table: their attributes are graphs, and the number of their results
differs from call to call. What the field calls a branch or the body of a loop is a graph whose
inputs are all arguments.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, TypeAlias

from pullback import errors
from pullback._dispatch.general_vjp import pairs
from pullback._dispatch.recording import (
    CONSTANT,
    LOCAL,
    Node,
    Output,
    capturing,
    live,
    node_of,
    paused,
    reject_use,
    uncaptured,
)
from pullback._tree import each, leaves
from pullback.dtypes import DType, is_floating
from pullback.graph.call_graph import run_ops
from pullback.graph.capture import Capture
from pullback.graph.emit import emit_explained
from pullback.graph.graph import (
    BARRIER,
    STOP_GRADIENT,
    Argument,
    Call,
    Graph,
    GraphOp,
    InvalidGraphError,
    Value,
    kinds_of,
)
from pullback.graph.passes.simplify import Body, drop_dead, lowered, renamed, simplify
from pullback.graph.running import ready
from pullback.ops.creation import full
from pullback.shapes import Shape
from pullback.spec import Arity, Attribute, Input, Op
from pullback.tensor import Tensor, wrap

#: An input of such an op: a tensor, or a list of them.
Operand = Any

#: The cotangents of the tensors among the inputs, in order, None where there is none, by the name
#: of the op: `derivative(inputs, attributes, results, cotangents, wanted, begun)`. The cotangents
#: are those of the results by position, `wanted` says of each tensor whether its cotangent is, and
#: `begun(positions)` gives what has arrived there so far, to be added to: parts are added in the
#: order of eager ops.
DERIVATIVES: dict[str, Callable[..., list[Tensor | None]]] = {}


def lifted(capture: Any, inputs: Sequence[Operand]) -> list[Operand]:
    """Inputs on the device of a trace."""
    return [each(capture.lift, operand) for operand in inputs]


def is_tracked(inputs: Sequence[Operand]) -> bool:
    """Returns whether a tape that records now sees any of the inputs."""
    state = LOCAL.state
    return state.recording and any(live(tensor) is not None for tensor in leaves([*inputs]))


def one_or_all(results: Sequence[Any]) -> Any:
    """The results as a kernel returns them: a single one is not in a tuple."""
    return results[0] if len(results) == 1 else results


def capture_now() -> Capture | None:
    """The capture that runs in this thread."""
    found: Any = capturing()
    return found  # type: ignore[no-any-return]


def the_capture() -> Capture:
    """The capture that runs in this thread, where one does."""
    capture = capture_now()
    assert capture is not None
    return capture


def record_call(
    capture: Capture,
    name: str,
    kernel: Callable[..., Any],
    inputs: Sequence[Operand],
    attributes: Mapping[str, Any],
    outputs: int,
) -> list[Tensor]:
    """Records a call, and the node of its results if a tape sees its inputs.

    Args:
        capture: the one that runs now.
        name: the name of the op.
        kernel: what runs, from native arrays.
        inputs: tensors of the trace.
        attributes: the graphs of the call, and numbers.
        outputs: the number of results.
    """
    if not outputs:
        return []
    op = OPS_OF[name](outputs)
    arrays = [each(attrgetter("_array"), operand) for operand in inputs]
    results = capture.trace._run(op, kernel, *arrays, **attributes)
    several = results if isinstance(results, tuple) else (results,)
    tensors = [wrap(array, capture.device, CONSTANT) for array in several]
    if is_tracked(inputs):
        attach(op, inputs, attributes, tensors)
    return tensors


def attach(
    op: Op, inputs: Sequence[Operand], attributes: Mapping[str, Any], results: list[Tensor]
) -> None:
    """Gives the results of a call the node for its gradient."""
    state = LOCAL.state
    parents = [live(x) if is_floating(x.dtype) else None for x in leaves([*inputs])]
    node = node_of(ControlNode(op, attributes), parents, None, results[0]._device)
    for position, result in enumerate(results):
        if is_floating(result.dtype):
            result._node = Output(state.next_serial(), node, position)
    kept = [each(Tensor.__copy__, operand) for operand in inputs]
    node.saved = kept, [tensor.__copy__() for tensor in results]


class ControlNode:
    """The op of such a node. Nodes save the tensors that went in and came out."""

    def __init__(self, op: Op, attributes: Mapping[str, Any]) -> None:
        self.op = op
        self.name = op.name
        self.attributes = attributes

    def vjp(
        self,
        node: Node,
        g: dict[int, Tensor],
        needed: Collection[Node] | None,
        take: Callable[[Node], Any],
    ) -> list[tuple[Node, Tensor]]:
        """The cotangents of the inputs, from those of the results by position."""
        inputs, results = node.saved
        wanted = [parent is not None for parent in node.parents]

        def begun(positions: Sequence[int]) -> dict[int, Tensor]:
            parts = {i: take(parent) for i in positions if (parent := node.parents[i]) is not None}
            return {i: part for i, part in parts.items() if part is not None}

        derivative = DERIVATIVES[self.name]
        return pairs(node, derivative(inputs, self.attributes, results, g, wanted, begun))


def shortened(capture: Capture, graph: Graph) -> Graph:
    """The graph of a branch or step, simplified where no gradient flows through it.

    Where one does, it has the calls of the function: what they share is added up in their order.
    """
    recorded = LOCAL.state.recording or capture.is_differentiated
    with uncaptured():
        return drop_dead(graph) if recorded else simplify(graph)


def code_of(graph: Graph, name: str) -> Callable[..., Any]:
    """The code of a branch or step, from native arrays."""
    return emit_explained(ready(simplify(lowered(graph))), name)


def zeros_like(tensor: Tensor, zero: float = 0.0) -> Tensor:
    """Zeros of the shape and dtype of a tensor."""
    return full(tensor.shape, zero, dtype=tensor.dtype, device=tensor._device)


# Ops ----------------------------------------------------------------------------------------------


#: The shape and dtype of a value.
Kind: TypeAlias = "tuple[Shape, Any]"
#: The kinds of what each graph of a call gets, and of what it has to give.
Contract: TypeAlias = "dict[str, tuple[list[Kind], list[Kind]]]"
#: Makes the op of a name for a number of results.
OPS_OF: dict[str, Callable[[int], ControlOp]] = {}


def define(
    name: str,
    inputs: dict[str, Arity],
    attributes: Sequence[str],
    results: Callable[..., list[tuple[Shape, DType]]],
    function: Callable[..., Any],
    why: str,
    contract: Callable[[Call], Contract] = lambda call: {},
) -> None:
    """Defines the ops of a name.

    Args:
        name: the name.
        inputs: the names of the inputs.
        attributes: the names of the attributes.
        results: the shape and dtype of each result, from the attributes.
        function: the public function: it takes tensors and attributes, and returns a list of
            tensors.
        why: why it has no body.
        contract: what the graphs of a call get and give.
    """
    parameters = tuple(Input(parameter, arity) for parameter, arity in inputs.items())
    named = tuple(Attribute(attribute, "Any", False) for attribute in attributes)

    @functools.cache
    def op(outputs: int) -> ControlOp:
        made = ControlOp(name, parameters, named, results, outputs, why, function)
        made.contract = contract
        return made

    OPS_OF[name] = op


class ControlOp(GraphOp):
    """The op of a call of graphs, such as branches, for a number of results."""

    __slots__ = ("contract",)

    contract: Callable[[Call], Contract]

    def check(self, call: Call, check: Callable[[Graph], None]) -> None:
        """Tests that the graphs take what the call gives them, and give what it needs.

        Raises:
            InvalidGraphError: for one that does not.
        """
        contract = self.contract(call)
        for name, graph in call.graphs.items():
            given, wanted = contract[name]
            for i, entry in enumerate(graph.inputs):
                if type(entry) is not Argument or entry.position != i:
                    raise InvalidGraphError(f"{call}: the input {i} of {name} is not an argument")
            for what, values, kinds in (
                ("gets", [entry.value for entry in graph.inputs], given),
                ("gives", graph.outputs, wanted),
            ):
                if kinds_in(values) != kinds:
                    raise InvalidGraphError(
                        f"{call}: {name} {what} {kinds_in(values)}, and should {what[:-1]} {kinds}"
                    )


def kinds_in(*operands: Iterable[Value]) -> list[Kind]:
    """The shapes and dtypes of the values of operands."""
    return [(value.shape, value.dtype) for operand in operands for value in operand]


def kinds_of_body(*, body: Graph, **_: object) -> list[tuple[Shape, DType]]:
    """The shapes and dtypes of the outputs of the graph that is called."""
    return kinds_of(body, body.outputs)


def element_kinds(operand: Iterable[Value]) -> list[Kind]:
    """Those of the elements along the first axes of values."""
    return [(value.shape[1:], value.dtype) for value in operand]


def known_op(name: str, outputs: int) -> Op | None:
    """The op of a name that only graphs call; None for an unknown one."""
    for op in (STOP_GRADIENT, BARRIER):
        if name == op.name:
            return op
    return OPS_OF[name](outputs) if name in OPS_OF else None


_NAME = "own_gradient"
_ADVICE = "call it without pb.function, or use pb.where for the choice"


def own_gradient(operands: Sequence[Tensor], **attributes: Any) -> list[Tensor]:
    """Calls such a function.

    Args:
        operands: the tensors of its arguments, and what it reads from outside.
        attributes: `body`, the graph of its results; `backward`, that of its gradients, whose
            inputs are the operands, and a cotangent for each floating result, or None where it was
            not traced; `gradients`, the operand of each gradient; `unruled`, the operands for which
            it has none, and `error`, what is wrong with asking for one.
    """
    capture, body = capture_now(), attributes["body"]
    if capture is None:
        with paused():
            results = run_ops(body, operands, operands[0]._device if operands else None)
        if is_tracked([operands]):
            attach(OPS_OF[_NAME](len(results)), [operands], attributes, results)
        return results
    kernel = Body(renamed(body, capture.trace.fresh), range(len(operands)))
    return record_call(
        capture, _NAME, kernel, lifted(capture, [operands]), attributes, len(body.outputs)
    )


def _contract(call: Call) -> Contract:
    operands: Any = call.inputs[0]
    given, results = kinds_in(operands), kinds_in(call.results)
    public = call.graphs["body"].device.backend.public_dtypes
    seeds = [kind for kind in results if is_floating(public[kind[1]])]
    places, backward = call.attributes["gradients"], call.attributes["backward"]
    if backward is None:
        return {"body": (given, results)}
    if not all(type(i) is int and 0 <= i < len(given) for i in places):
        raise InvalidGraphError(f"{call}: gradients has {places}, which are not operands")
    gradients = [given[i] for i in places]
    return {
        "body": (given, results),
        "backward": ([*given, *seeds][: len(backward.inputs)], gradients),
    }


def _derivative(
    inputs: list[Any],
    attributes: Mapping[str, Any],
    results: list[Tensor],
    cotangents: dict[int, Tensor],
    wanted: list[bool],
    _: Callable[[Sequence[int]], dict[int, Tensor]],
) -> list[Tensor | None]:
    (operands,) = inputs
    backward = attributes["backward"]
    if backward is None:
        reject_use(attributes["error"], _ADVICE)
        raise errors.NotDifferentiableError(f"a captured function {attributes['error']}; {_ADVICE}")
    if any(wanted[i] for i in attributes["unruled"]):
        raise errors.TapeError(attributes["error"])
    given = [
        cotangents[i] if i in cotangents else zeros_like(result)
        for i, result in enumerate(results)
        if is_floating(result.dtype)
    ]
    # The values of variables that it assigns come last, and have no gradient.
    parts = run_ops(backward, [*operands, *given][: len(backward.inputs)])
    found = dict(zip(attributes["gradients"], parts, strict=True))
    return [found.get(i) if is_wanted else None for i, is_wanted in enumerate(wanted)]


define(
    _NAME,
    {"operands": Arity.MANY},
    ["body", "backward", "gradients", "unruled", "error"],
    kinds_of_body,
    own_gradient,
    "Its gradient is that of a graph.",
    _contract,
)
DERIVATIVES[_NAME] = _derivative
