"""The rules of calls of graphs: their inputs and results fit the call, and each other."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from pullback.graph.graph import Argument, Call, InvalidGraphError, Value


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
