"""Errors of the calls in generated code: as the ops raise them, with the line of the program."""

from __future__ import annotations

from collections.abc import Mapping
from types import FunctionType
from typing import Any, NoReturn

from pullback import errors
from pullback._codegen.source import Source, tuple_of
from pullback._dispatch.arguments import raise_explained
from pullback._tree import each
from pullback.devices import Device
from pullback.graph.emit import NOTHING_EARLY, Early, Emitted, write_calls
from pullback.graph.graph import Call, Graph, GraphOp, State, Value
from pullback.tensor import Tensor, wrap


class Explained:
    """Raises the error that the op of a failed call raises when it is called op by op.

    Args:
        graph: the graph.
        device: its device.
        calls: the calls by the number of the line that makes them.
    """

    def __init__(self, graph: Graph, device: Device, calls: Mapping[int, Call]) -> None:
        self._calls = calls
        self._constants = graph.constants
        self._states = [entry for entry in graph.inputs if isinstance(entry, State)]
        self._device = device

    def __call__(self, error: Exception) -> NoReturn:
        """Raises the error for what a call in the code raised."""
        call = self._call_of(error)
        if call is None:
            raise error
        if isinstance(call.op, GraphOp):
            failure = call.op.failure(error)
            raise failure from (None if failure is error else error)
        arrays = self._arrays(error)

        def tensor(value: Value) -> Tensor:
            return wrap(arrays[value.name], self._device)

        inputs = tuple(each(tensor, operand) for operand in call.inputs)
        attributes: dict[str, Any] = {
            name: arrays.get(value.name) if isinstance(value, Value) else value
            for name, value in call.attributes.items()
        }
        if "device" in attributes:
            attributes["device"] = self._device
        try:
            raise_explained(call.op, error, inputs, attributes)
        except errors.PullbackError as explained:
            if call.origin:
                explained.add_note(f"in a captured function: called at {call.origin}")
            raise

    def _call_of(self, error: Exception) -> Call | None:
        at = error.__traceback__
        assert at is not None
        # Behind a call may be lines that make arrays of its results, and that write them.
        before = [line for line in self._calls if line <= at.tb_lineno]
        return self._calls[before[-1]] if before else None

    def _arrays(self, error: Exception) -> dict[str, Any]:
        at = error.__traceback__
        assert at is not None
        # An update in place has released what it takes over.
        states = {entry.value.name: entry.owner._array for entry in self._states}
        return {**self._constants, **states, **at.tb_frame.f_locals}


def write_explained(source: Source, graph: Graph, early: Early = NOTHING_EARLY) -> Emitted:
    """Writes the calls one by one, with the errors that they raise outside of a program.

    The name `explain` of the code is to be an `Explained` of it; `early` as in `write_calls`.
    """
    with source.block("try:"):
        source.line("pass")
        written = write_calls(source, graph, early)
    with source.block("except Exception as error:"):
        source.line("explain(error)")
    return written


def emit_explained(graph: Graph, name: str = "line") -> FunctionType:
    """A function of the inputs of a graph, whose errors are those of the ops."""
    source = Source(name, ", ".join(entry.value.name for entry in graph.inputs), {})
    written = write_explained(source, graph)
    source.line(f"return {tuple_of(written.ends)}")
    source.names["explain"] = Explained(graph, graph.device, written.calls)
    return source.compile()
