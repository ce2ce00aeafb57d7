"""Prints a graph as Python: one line for each call of a kernel."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import FunctionType
from typing import Any

from pullback._codegen.source import Source, tuple_of
from pullback.graph.graph import Graph, Value

#: Of each call, and of the start: the values that nothing reads later.
LastUse = list[list[Value]]


def release_last_use(graph: Graph, early: Collection[Value] = ()) -> LastUse:
    """The values to release: first the inputs that nothing reads, then a list for each call.

    Args:
        graph: the graph.
        early: results that are written at once.
    """
    alive = set(graph.ends).difference(early)
    released: LastUse = []
    for call in reversed(graph.calls):
        read = [value for value in dict.fromkeys(call.values) if value not in alive]
        unread = [value for value in call.results if value not in alive]
        released.append([value for value in read if value.name not in graph.constants] + unread)
        alive.update(read)
    released.append([source.value for source in graph.inputs if source.value not in alive])
    return released[::-1]


def write_calls(
    source: Source, graph: Graph, early: Mapping[Value, Sequence[str]] | None = None
) -> list[str]:
    """Adds the calls to a function in which the inputs have the names of their values.

    Each array is released after its last use.

    Args:
        source: the function.
        graph: the graph.
        early: for results that are written at once, the text of what they are assigned to.

    Returns:
        The text by which the code finds each output, then each value to write.
    """
    constants = {name: source.constant(array) for name, array in graph.constants.items()}

    def text(operand: Any) -> str:
        if isinstance(operand, Value):
            return constants.get(operand.name, operand.name)
        return "None" if operand is None else f"[{', '.join(map(text, operand))}]"

    native = ""
    early = early or {}
    first, *released = release_last_use(graph, early)
    _release(source, first)
    for call, values in zip(graph.calls, released, strict=True):
        arguments = [text(operand) for operand in call.inputs]
        arguments += [
            f"{name}={value.name if isinstance(value, Value) else _literal(source, value)}"
            for name, value in call.attributes.items()
        ]
        targets = ", ".join(value.name for value in call.results)
        source.line(
            f"{targets} = {source.constant(call.kernel)}({', '.join(arguments)})  # {call.op.name}"
        )
        for value, foreign in zip(call.results, call.foreign, strict=True):
            if foreign:
                native = native or source.constant(graph.device.backend.native)
                source.line(f"{value.name} = {native}({value.name})")
        for value in call.results:
            for target in early.get(value, ()):
                source.line(f"{target} = {value.name}")
        _release(source, values)
    return [text(value) for value in graph.ends]


def emit(graph: Graph, name: str = "run", names: Mapping[str, Any] | None = None) -> FunctionType:
    """A function of the inputs in their order; it returns the outputs, then what is to be written.

    >>> from pullback.graph.capture import Trace
    >>> x = pb.asarray([1.0, 2.0])
    >>> trace = Trace(x.device)
    >>> y = pb.negative(trace.argument(x._array, "x"))
    >>> emit(trace.graph([y._array.value]))(x._array)
    (array([-1., -2.], dtype=float32),)
    """
    parameters = ", ".join(source.value.name for source in graph.inputs)
    source = Source(name, parameters, dict(names or {}))
    source.line(f"return {tuple_of(write_calls(source, graph))}")
    return source.compile()


def _release(source: Source, values: list[Value]) -> None:
    if values:
        source.line(f"del {', '.join(value.name for value in values)}")


def _literal(source: Source, value: Any) -> str:
    if value is None or type(value) in (bool, int, str):
        return repr(value)
    return source.constant(value)
