"""Results of captured functions: tensors, which are outputs, in a structure of constants."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from pullback._codegen.source import Source, tuple_of
from pullback._symbols import Break, HostNumber
from pullback.graph.capture import Capture
from pullback.graph.graph import Value
from pullback.graph.signature import refilled
from pullback.tensor import Tensor


class ResultTensor:
    """An output of the graph in a result, by its position."""

    __slots__ = ("position",)

    def __init__(self, position: int) -> None:
        self.position = position


class ResultItems:
    """A list, a tuple or a dict in a result."""

    __slots__ = ("items", "template")

    def __init__(self, container: object, items: list[Any]) -> None:
        #: A container of that kind with the keys, and without values.
        self.template = refilled(container, [None] * len(items))
        self.items = items


class Returned:
    """The result of a function that was traced.

    Args:
        capture: the capture.
        result: what the function returned.
    """

    def __init__(self, capture: Capture, result: object) -> None:
        self._capture = capture
        self.outputs: list[Value] = []
        #: The result with `Output` and `Items` in it.
        self.structure = self._parsed(result)

    def _parsed(self, value: object) -> Any:
        if type(value) is Tensor:
            self.outputs.append(self._capture.lift(value)._array.value)
            return ResultTensor(len(self.outputs) - 1)
        if isinstance(value, dict):
            return ResultItems(value, [self._parsed(item) for item in value.values()])
        if isinstance(value, (list, tuple)):
            return ResultItems(value, [self._parsed(item) for item in value])
        if hasattr(value, "__next__") or hasattr(value, "__await__"):
            raise Break(
                f"returns a {type(value).__name__}, which gives its values once", "return a list"
            )
        for place, part in _parts(value):
            if self._is_of_trace(part):
                raise Break(
                    f"returns a {type(value).__name__} with a tensor in {place}",
                    "return the tensors in a tuple, list or dict",
                )
        return value

    def _is_of_trace(self, value: object) -> bool:
        """Returns whether a value is a tensor of the trace, or a container of some."""
        if type(value) is Tensor:
            return value._device is self._capture.device
        if isinstance(value, dict):
            return any(map(self._is_of_trace, value.values()))
        return isinstance(value, _CONTAINERS) and any(map(self._is_of_trace, value))

    def text(self, source: Source, value: object) -> str:
        """The expression that makes the result."""
        if type(value) is ResultTensor:
            return f"t{value.position}"
        if type(value) is HostNumber:
            return value.name
        if type(value) is not ResultItems:
            return source.constant(value)
        items = [self.text(source, item) for item in value.items]
        kind = type(value.template)
        if kind is list:
            return f"[{', '.join(items)}]"
        if kind is tuple:
            return tuple_of(items)
        if kind is dict:
            keys = map(source.constant, value.template)
            return f"{{{', '.join(map('{}: {}'.format, keys, items))}}}"
        if hasattr(kind, "_fields"):
            return f"{source.constant(kind)}({', '.join(items)})"
        return f"refilled({source.constant(value.template)}, {tuple_of(items)})"


_CONTAINERS = (list, tuple, set, frozenset, deque)


def _parts(value: object) -> Iterator[tuple[str, object]]:
    """The parts of an object: items of a set or deque, and attributes."""
    if isinstance(value, _CONTAINERS):
        yield "it", value
    names = [*getattr(value, "__dict__", ()), *getattr(type(value), "__slots__", ())]
    for name in names:
        yield f"its attribute {name!r}", getattr(value, name, None)
