"""Composites without a kernel in a graph: one call with the calls of its body inside.

Where gradients flow through a graph later, as through the body of a loop, a composite has its rule,
as op by op, and not the derivative of its body. A program runs the calls of the body.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from types import FunctionType
from typing import Any

from pullback._tree import leaves
from pullback.graph.emit import emit
from pullback.graph.graph import Argument, Call, Graph, Value
from pullback.graph.passes.simplify import simplify, with_ends, with_inputs


class Body:
    """The kernel of such a call.

    Args:
        graph: the graph of the body.
        positions: for each input of the graph, its position among those of the call.
    """

    def __init__(self, graph: Graph, positions: Sequence[int]) -> None:
        self.graph = graph
        self._positions = positions

    @cached_property
    def _run(self) -> FunctionType:
        return emit(self.graph)

    def __call__(self, *inputs: Any, **_: object) -> Any:
        """Returns the native arrays of the results."""
        results = self._run(*self.given(inputs))
        return results[0] if len(results) == 1 else results

    def given(self, inputs: Sequence[Any]) -> list[Any]:
        """Returns what the graph gets of the inputs of a call."""
        flat = leaves([*inputs])
        return [flat[i] for i in self._positions]


def body_of(
    whole: Graph, calls: Sequence[Call], inputs: Sequence[Any], outputs: Sequence[Value]
) -> Body | None:
    """The kernel of a composite; None where its body reads more than its inputs and constants.

    Args:
        whole: a graph with the constants that the body may read.
        calls: those of the body.
        inputs: the operands of the composite.
        outputs: its results.
    """
    flat = leaves([*inputs])
    made = {*flat, *(value for call in calls for value in call.results)}
    read = {value for call in calls for value in call.values}.union(outputs) - made
    if any(value.name not in whole.constants for value in read):
        return None
    entries = tuple(Argument(value, i) for i, value in enumerate(dict.fromkeys(flat)))
    constants = {value.name: whole.constants[value.name] for value in read}
    graph = Graph(whole.device, entries, tuple(calls), tuple(outputs), constants)
    return Body(graph, [flat.index(entry.value) for entry in entries])


def lowered(graph: Graph) -> Graph:
    """The graph with the calls of bodies in place of composites, simplified."""
    if not any(type(call.kernel) is Body for call in graph.calls):
        return graph
    calls: list[Call] = []
    constants = dict(graph.constants)
    same: dict[Value, Value] = {}

    def add(call: Call) -> None:
        call = with_inputs(call, same)
        if type(call.kernel) is not Body:
            calls.append(call)
            return
        body = call.kernel.graph
        constants.update(body.constants)
        given = call.kernel.given(call.inputs)
        same.update(zip((entry.value for entry in body.inputs), given, strict=True))
        for inner in body.calls:
            add(inner)
        results = [same.get(value, value) for value in body.outputs]
        same.update(zip(call.results, results, strict=True))

    for call in graph.calls:
        add(call)
    graph = graph._replace(calls=tuple(calls), constants=constants)
    return simplify(with_ends(graph, same))
