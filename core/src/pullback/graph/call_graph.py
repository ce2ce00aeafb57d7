"""The node of a captured function that a tape outside records: a graph for its backward pass."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import FunctionType
from typing import Any

from pullback import errors
from pullback._dispatch.bodies import run_body
from pullback._dispatch.general_vjp import pairs, pull_back
from pullback._dispatch.recording import (
    LOCAL,
    Node,
    Output,
    capturing,
    may_record,
    node_of,
    reachable,
)
from pullback._once import kept_property
from pullback._tree import each
from pullback.devices import Device
from pullback.dtypes import is_complex
from pullback.graph.emit import release_last_use
from pullback.graph.graph import Call, Draw, Graph, Value
from pullback.graph.running import function_of
from pullback.graph.trace import Trace, Traced
from pullback.plugins.records import Native
from pullback.tensor import Tensor, wrap


class Pass:
    """The backward pass of a captured function for cotangents of some of its results.

    Args:
        name: the name of the function.
        graph: arguments are some of what nodes save, then the cotangents; outputs are gradients.
        reads: the positions of the first arguments in what nodes save.
        gradients: for each source, whether there is a gradient.
    """

    def __init__(
        self, name: str, graph: Graph, reads: Sequence[int], gradients: Sequence[bool]
    ) -> None:
        self.graph = graph
        self.reads = tuple(reads)
        self._name = name
        self._gradients = tuple(gradients)

    @kept_property
    def run(self) -> FunctionType:
        """The code of the graph."""
        return function_of(self.graph, f"the backward pass of {self._name}")

    def of_sources(self, found: Iterable[Tensor | None]) -> list[Tensor | None]:
        """The gradients of all sources, from those that the graph has."""
        rest = iter(found)
        return [next(rest) if is_there else None for is_there in self._gradients]


class CallGraph:
    """The op of such a node. Nodes save the residuals of their run, then the inputs of its graph.

    Args:
        name: the name of the function.
        forward: the graph of the function.
        outputs: the outputs of the function that have a gradient, by their position in `forward`.
        sources: for each source, the position of its input in `forward`.
        residuals: the number of residuals.
        derive: makes the backward pass for cotangents of some results, by position, from what a
            node has saved: eager passes do not visit what leads to results without one. Behind the
            results come the sources.
        whole: the backward pass for cotangents of all results.
        custom: the name of a function with a gradient of its own that it calls; "" for none.
    """

    def __init__(
        self,
        name: str,
        forward: Graph,
        outputs: Sequence[int],
        sources: Sequence[int],
        residuals: int,
        derive: Callable[[Mapping[int, Native], Sequence[Any]], Pass],
        whole: Pass,
        custom: str,
    ) -> None:
        self.name = name
        self.forward = forward
        self.positions = tuple(outputs)
        self.sources = tuple(sources)
        self.residuals = residuals
        public = forward.device.backend.public_dtypes
        self._dtypes = [public[forward.inputs[i].value.dtype] for i in sources]
        self._derive = derive
        self._custom = custom
        self._passes = {frozenset(range(len(outputs))): whole}

    def attach(
        self, nodes: Sequence[Node | None], results: Sequence[Tensor], saved: tuple[Any, ...]
    ) -> None:
        """Gives the results the node of a run, if a tape sees any of the nodes of the sources."""
        state = LOCAL.state
        parents = [None if n is None else reachable(n, state.oldest_serial) for n in nodes]
        if not any(parent is not None for parent in parents):
            return
        node = node_of(self, parents, saved, self.forward.device)
        for position, result in enumerate(results):
            result._node = Output(state.next_serial(), node, position)

    def vjp(
        self,
        node: Node,
        g: dict[int, Tensor],
        needed: Collection[Node] | None,
        take: Callable[[Node], Any],
    ) -> list[tuple[Node, Tensor]]:
        """The cotangents of the sources, from those of the results by position.

        What has arrived at sources so far comes behind the results: their parts are added to it in
        the order of the function's ops.
        """
        begun = [
            None if parent is None or is_complex(forward_dtype) else take(parent)
            for parent, forward_dtype in zip(node.parents, self._dtypes, strict=True)
        ]
        first = len(self.positions)
        g = {first + i: part for i, part in enumerate(begun) if part is not None} | {
            i: g[i] for i in sorted(g)
        }
        tracked = [*node.parents, *(tensor._node for tensor in g.values())]
        if any(each is not None and may_record(each) for each in tracked):
            return pairs(node, self._recorded(node, g))
        # In the copy of a graph that is compiled, residuals and cotangents are traced.
        saved = [_plain(array) for array in node.saved]
        cotangents = {i: tensor._array for i, tensor in g.items()}
        plain = {i: _plain(array) for i, array in cotangents.items()}
        key = frozenset(g)
        made = self._passes.get(key)
        if made is None:
            made = self._passes.setdefault(key, self._derive(plain, saved))
        backend = node.device.backend
        if not isinstance(backend, Trace):
            found = made.run(*(saved[i] for i in made.reads), *plain.values())
        elif all(i < self.residuals for i in made.reads):
            arrays = [node.saved[i] for i in made.reads]
            found = backend.inline(made.graph, [*arrays, *cotangents.values()])
        else:
            found = backend.beside(made.run(*(saved[i] for i in made.reads), *plain.values()))
        return pairs(node, made.of_sources(wrap(array, node.device) for array in found))

    def _recorded(self, node: Node, g: Mapping[int, Tensor]) -> Sequence[Tensor | None]:
        """The cotangents, with ops that a tape records: the graph runs again, op by op."""
        if self._custom:
            raise errors.NotDifferentiableError(
                f"the second derivative through a captured function that calls {self._custom}, "
                f"which has a gradient of its own, is not available; call {self.name} without "
                f"pb.function"
            )
        arrays = node.saved[self.residuals :]
        inputs: list[Any] = [
            array if isinstance(entry, Draw) else wrap(array, node.device)
            for entry, array in zip(self.forward.inputs, arrays, strict=True)
        ]
        for position, parent in zip(self.sources, node.parents, strict=True):
            inputs[position]._node = parent

        def run(values: list[Any]) -> list[Tensor]:
            results = run_ops(self.forward, values)
            found = [results[i] for i in self.positions] + [values[i] for i in self.sources]
            return [found[i] for i in g]

        return pull_back(run, inputs, self.sources, [*g.values()])


def _plain(array: Any) -> Any:
    return array.array if type(array) is Traced else array


def run_ops(
    graph: Graph,
    inputs: Sequence[Any],
    device: Device | None = None,
    call_op: Callable[[Call, list[Any], Mapping[str, Any], bool], Any] | None = None,
) -> list[Tensor]:
    """The outputs of a graph, whose calls are calls of ops: tapes record them.

    Args:
        graph: the graph.
        inputs: tensors, and ints for what is drawn.
        device: where they are, if it is the device of a trace.
        call_op: makes the results of a call, from its inputs, its attributes, and whether what the
            op returns for its rules alone is read.

    Raises:
        NotDifferentiableError: for a graph that reads what a primitive returns for its rules alone.
    """
    device = graph.device if device is None else device
    call_op = call_op or _called
    values: dict[str, Any] = {
        entry.value.name: value for entry, value in zip(graph.inputs, inputs, strict=True)
    }
    capture: Any = capturing()
    for name, array in graph.constants.items():
        constant = wrap(array, graph.device)
        if capture is not None:
            constant = capture.trace.constant(constant)
        elif isinstance(device.backend, Trace):
            constant = wrap(device.backend._constant(array), device)
        values[name] = constant

    def value_of(value: Value) -> Any:
        return values[value.name]

    read = {value for call in graph.calls for value in call.values} | set(graph.outputs)
    _, *released = release_last_use(graph)
    for call, last in zip(graph.calls, released, strict=True):
        attributes = {
            name: values[value.name] if isinstance(value, Value) else value
            for name, value in call.attributes.items()
        }
        if "device" in attributes:
            attributes["device"] = device
        operands = [each(value_of, operand) for operand in call.inputs]
        hidden = not read.isdisjoint(call.results[len(call.op.outputs) :])
        results = call_op(call, operands, attributes, hidden)
        several = (results,) if isinstance(results, Tensor) else results
        for value, result in zip(call.results, several, strict=False):
            values[value.name] = result
        for value in last:
            values.pop(value.name, None)
    return [values[value.name] for value in graph.outputs]


def _called(call: Call, inputs: list[Any], attributes: Mapping[str, Any], hidden: bool) -> Any:
    op = call.op
    if not hidden:
        return op.function(*inputs, **attributes)
    if op.primitive:
        raise errors.NotDifferentiableError(
            f"the second derivative through a captured function that computes gradients with "
            f"{op.name} itself is not available; call the function without pb.function"
        )
    # The body has tensors for what the op returns for its rules alone.
    return run_body(op, inputs, attributes)
