"""Results of captured functions: tensors, which are outputs, in a structure of constants."""

from __future__ import annotations

from typing import Any

from pullback._codegen.source import Source, tuple_of
from pullback._symbols import Break, HostNumber
from pullback.graph.graph import Value
from pullback.graph.record import Recorder
from pullback.tensor import Tensor


class Output:
    """An output of the graph in a result, by its position."""

    __slots__ = ("position",)

    def __init__(self, position: int) -> None:
        self.position = position


class Items:
    """A list or a tuple in a result."""

    __slots__ = ("items", "kind")

    def __init__(self, kind: type[Any], items: list[Any]) -> None:
        self.kind = kind
        self.items = items


class Returned:
    """The result of a function that was traced.

    Args:
        recorder: the trace.
        result: what the function returned.
    """

    def __init__(self, recorder: Recorder, result: object) -> None:
        self._recorder = recorder
        self.outputs: list[Value] = []
        #: The result with `Output` and `Items` in it.
        self.structure = self._parsed(result)

    def _parsed(self, value: object) -> Any:
        if type(value) is Tensor:
            self.outputs.append(self._recorder.lift(value)._array.value)
            return Output(len(self.outputs) - 1)
        if isinstance(value, dict):
            return {key: self._parsed(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return Items(type(value), [self._parsed(item) for item in value])
        if hasattr(value, "__next__") or hasattr(value, "__await__"):
            raise Break(
                f"returns a {type(value).__name__}, which gives its values once",
                "return a list",
            )
        for name, part in getattr(value, "__dict__", {}).items():
            if type(part) is Tensor and part._device is self._recorder.device:
                raise Break(
                    f"returns a {type(value).__name__} with a tensor in its attribute {name!r}",
                    "return the tensors in a tuple, list or dict",
                )
        return value

    def text(self, source: Source, value: object) -> str:
        """The expression that makes the result."""
        if type(value) is Output:
            return f"t{value.position}"
        if type(value) is HostNumber:
            return value.name
        if type(value) is dict:
            items = [f"{source.constant(k)}: {self.text(source, v)}" for k, v in value.items()]
            return f"{{{', '.join(items)}}}"
        if type(value) is Items:
            items = [self.text(source, item) for item in value.items]
            if issubclass(value.kind, list):
                return f"[{', '.join(items)}]"
            if hasattr(value.kind, "_fields"):
                return f"{source.constant(value.kind)}({', '.join(items)})"
            return tuple_of(items)
        return source.constant(value)
