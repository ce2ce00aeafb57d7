"""The node of a captured function that a tape outside records: a graph for its backward pass."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from pullback import errors
from pullback._dispatch.bodies import run_body
from pullback._dispatch.general_vjp import pairs
from pullback._dispatch.recording import (
    HOOKS,
    LOCAL,
    Node,
    Output,
    capturing,
    may_record,
    reachable,
)
from pullback._tree import each
from pullback.devices import Device
from pullback.graph.capture import Trace
from pullback.graph.compiled import function_of
from pullback.graph.graph import Draw, Graph, Value
from pullback.ops.creation import full
from pullback.tensor import Tensor, wrap


class CallGraph:
    """The op of such a node. Nodes save the residuals of their run, then the inputs of its graph.

    Args:
        name: the name of the function.
        forward: the graph of the function.
        backward: the graph of its backward pass: arguments are residuals, then a cotangent for
            each output; outputs are gradients.
        outputs: the outputs of the function that have a gradient, by their position in `forward`.
        gradients: for each source, whether there is a gradient.
        sources: for each source, the position of its input in `forward`.
        residuals: the number of residuals.
    """

    def __init__(
        self,
        name: str,
        forward: Graph,
        backward: Graph,
        outputs: Sequence[int],
        gradients: Sequence[bool],
        sources: Sequence[int],
        residuals: int,
    ) -> None:
        self.name = name
        self.forward = forward
        self.backward = backward
        self.positions = tuple(outputs)
        self.kinds = [forward.outputs[position] for position in outputs]
        self.gradients = tuple(gradients)
        self.sources = tuple(sources)
        self.residuals = residuals
        #: For each source with a gradient, the positions of the cotangents that it depends on.
        self.dependences = _dependences(backward, residuals)
        self._run = function_of(backward, f"the backward pass of {name}")

    def attach(
        self, nodes: Sequence[Node | None], results: Sequence[Tensor], saved: tuple[Any, ...]
    ) -> None:
        """Gives the results the node of a run, if a tape sees any of the nodes of the sources."""
        state = LOCAL.state
        parents = [None if n is None else reachable(n, state.oldest_serial) for n in nodes]
        if not any(parent is not None for parent in parents):
            return
        node = Node()
        node.serial = state.next_serial()
        node.op = self  # type: ignore[assignment]
        node.parents = tuple(parents)
        node.saved = saved
        node.device = self.forward.device
        for position, result in enumerate(results):
            result._node = Output(state.next_serial(), node, position)

    def vjp(
        self, node: Node, g: dict[int, Tensor], needed: Collection[Node] | None
    ) -> list[tuple[Node, Tensor]]:
        """The cotangents of the sources, from those of the results by position."""
        public = self.forward.device.backend.public_dtypes
        cotangents = [
            g[i] if i in g else full(value.shape, 0, dtype=public[value.dtype], device=node.device)
            for i, value in enumerate(self.kinds)
        ]
        tracked = [*node.parents, *(tensor._node for tensor in cotangents)]
        # As op by op: no gradient where no result that has a cotangent depends on the source.
        reached = [
            positions is None or not positions.isdisjoint(g) for positions in self.dependences
        ]
        if any(each is not None and may_record(each) for each in tracked):
            return pairs(node, self._of_sources(self._recorded(node, cotangents), reached))
        arrays = [*node.saved[: self.residuals], *(tensor._array for tensor in cotangents)]
        backend = node.device.backend
        if isinstance(backend, Trace):
            found = backend.inline(self.backward, arrays)
        else:
            found = self._run(*arrays)
        gradients = [wrap(array, node.device) for array in found]
        return pairs(node, self._of_sources(gradients, reached))

    def _of_sources(
        self, gradients: Sequence[Tensor | None], reached: Sequence[bool]
    ) -> list[Tensor | None]:
        """The gradients of all sources, from those that the graph has."""
        rest = iter(zip(gradients, reached, strict=True))
        found: list[Tensor | None] = []
        for is_there in self.gradients:
            gradient, is_reached = next(rest) if is_there else (None, False)
            found.append(gradient if is_reached else None)
        return found

    def _recorded(self, node: Node, cotangents: list[Tensor]) -> Sequence[Tensor | None]:
        """The cotangents, with ops that a tape records: the graph runs again, op by op."""
        arrays = node.saved[self.residuals :]
        inputs: list[Any] = [
            array if isinstance(entry, Draw) else wrap(array, node.device)
            for entry, array in zip(self.forward.inputs, arrays, strict=True)
        ]
        for position, parent in zip(self.sources, node.parents, strict=True):
            inputs[position]._node = parent
        chosen = [i for i, there in zip(self.sources, self.gradients, strict=True) if there]

        def run(*sources: Tensor) -> list[Tensor]:
            values = list(inputs)
            for position, source in zip(chosen, sources, strict=True):
                values[position] = source
            results = run_ops(self.forward, values)
            return [results[position] for position in self.positions]

        return HOOKS.vjp(run, [inputs[i] for i in chosen], cotangents)


def _dependences(backward: Graph, residuals: int) -> list[set[int] | None]:
    """The cotangents on which each output of a backward pass depends, by position; None if none."""
    found: dict[Value, set[int]] = {
        entry.value: {i} for i, entry in enumerate(backward.inputs[residuals:])
    }
    for call in backward.calls:
        positions = set().union(*(found.get(value, ()) for value in call.values))
        found.update(dict.fromkeys(call.results, positions))
    return [found.get(value) or None for value in backward.outputs]


def run_ops(graph: Graph, inputs: Sequence[Any], device: Device | None = None) -> list[Tensor]:
    """The outputs of a graph, whose calls are calls of ops: tapes record them.

    Args:
        graph: the graph.
        inputs: tensors, and ints for what is drawn.
        device: where they are, if it is the device of a trace.

    Raises:
        NotDifferentiableError: for a graph that reads what a primitive returns for its rules alone.
    """
    device = graph.device if device is None else device
    values: dict[str, Any] = {
        entry.value.name: value for entry, value in zip(graph.inputs, inputs, strict=True)
    }
    capture: Any = capturing()
    for name, array in graph.constants.items():
        constant = wrap(array, graph.device)
        if capture is not None:
            constant = capture.constant(constant)
        elif isinstance(device.backend, Trace):
            constant = wrap(device.backend._constant(array), device)
        values[name] = constant

    def value_of(value: Value) -> Any:
        return values[value.name]

    read = {value for call in graph.calls for value in call.values} | set(graph.outputs)
    for call in graph.calls:
        attributes = {
            name: values[value.name] if isinstance(value, Value) else value
            for name, value in call.attributes.items()
        }
        if "device" in attributes:
            attributes["device"] = device
        op, operands = call.op, [each(value_of, operand) for operand in call.inputs]
        if read.isdisjoint(call.results[len(op.outputs) :]):
            results = op.function(*operands, **attributes)
        elif op.primitive:
            raise errors.NotDifferentiableError(
                f"the second derivative through a captured function that computes gradients with "
                f"{op.name} itself is not available; call the function without pb.function"
            )
        else:
            # The body has tensors for what the op returns for its rules alone.
            results = run_body(op, operands, attributes)
        several = (results,) if isinstance(results, Tensor) else results
        for value, result in zip(call.results, several, strict=False):
            values[value.name] = result
    return [values[value.name] for value in graph.outputs]
