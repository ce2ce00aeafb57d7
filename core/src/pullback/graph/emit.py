"""Prints a graph as Python: one line for each call of a kernel; and the results of a function."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from pullback import errors
from pullback._codegen.source import Source, tuple_of
from pullback._dispatch.arguments import raise_explained
from pullback._dispatch.warned import are_errors, unwarned
from pullback._symbols import Break, HostNumber
from pullback._tree import each
from pullback.devices import Device
from pullback.graph.graph import Call, Graph, GraphOp, State, Value
from pullback.graph.signature import refilled
from pullback.plugins.records import Kernel
from pullback.tensor import Tensor, wrap

if TYPE_CHECKING:
    from pullback.graph.capture import Capture

#: Of each call, and of the start: the values that nothing reads later.
LastUse = list[list[Value]]


class InPlace(NamedTuple):
    """An update that is done to variables."""

    update: Kernel
    #: The text of the variable by the position of the input that the kernel would get.
    owners: Mapping[int, str]


class Early(NamedTuple):
    """The writes that a program makes while it runs."""

    #: The text of what each value is assigned to.
    targets: Mapping[Value, Sequence[str]] = {}
    #: Updates in place, by the position of their call.
    updates: Mapping[int, InPlace] = {}


NOTHING_EARLY = Early()


class Emitted(NamedTuple):
    """Calls of a graph that have been written, and the texts by which the code finds values."""

    outputs: list[str]
    #: What is written to each variable.
    writes: list[str]
    #: The values that functions get afterwards.
    after: list[str]
    #: The calls by the number of the line that makes them.
    calls: Mapping[int, Call]

    @property
    def ends(self) -> list[str]:
        """All values that a run gives."""
        return [*self.outputs, *self.writes, *self.after]


def emitted(graph: Graph, text: Callable[[Value], str], calls: Mapping[int, Call]) -> Emitted:
    """The calls of a graph that have been written, when its values have these texts."""
    texts = [text(value) for value in graph.ends]
    written = len(graph.outputs) + len(graph.writes)
    return Emitted(
        texts[: len(graph.outputs)], texts[len(graph.outputs) : written], texts[written:], calls
    )


def release_last_use(graph: Graph, early: Collection[Value] = ()) -> LastUse:
    """The values to release: first the inputs that nothing reads, then a list for each call.

    Args:
        graph: the graph.
        early: results that are written at once.
    """
    alive = set(graph.ends).difference(early)
    constants = graph.constants
    released: LastUse = []
    for call in reversed(graph.calls):
        unread = [value for value in call.results if value not in alive]
        last: list[Value] = []
        for value in call.values:
            if value not in alive:
                alive.add(value)
                if value.name not in constants:
                    last.append(value)
        released.append(last + unread)
    released.append([source.value for source in graph.inputs if source.value not in alive])
    return released[::-1]


def write_calls(source: Source, graph: Graph, early: Early = NOTHING_EARLY) -> Emitted:
    """Adds the calls to a function in which the inputs have the names of their values.

    Each array is released after its last use.

    Args:
        source: the function.
        graph: the graph.
        early: results that are written at once.
    """
    constants = {name: source.constant(array) for name, array in graph.constants.items()}

    def text(operand: Any) -> str:
        if type(operand) is Value:
            return constants.get(operand.name, operand.name)
        return "None" if operand is None else f"[{', '.join(map(text, operand))}]"

    native, lines, constant = "", {}, source.constant
    first, *released = release_last_use(graph, early.targets)
    _release(source, first)
    for i, (call, values) in enumerate(zip(graph.calls, released, strict=True)):
        in_place = early.updates.get(i)
        if in_place is not None:
            lines[_write_update(source, call, in_place, values, text)] = call
            continue
        arguments = [text(operand) for operand in call.inputs]
        if call.attributes:
            arguments += _attributes(source, call)
        kernel = constant(kernel_of(call))
        made = f"{kernel}({', '.join(arguments)})"
        foreign = [x.name for x, other in zip(call.results, call.foreign, strict=True) if other]
        if foreign:
            native = native or constant(graph.device.backend.native)
            if len(call.results) == 1:
                made, foreign = f"{native}({made})", []
        # What is only written needs no name.
        written = {x: early.targets[x] for x in call.results if x in early.targets}
        if not foreign and all(len(targets) == 1 for targets in written.values()):
            names = [written[x][0] if x in written else x.name for x in call.results]
            values = [value for value in values if value not in written]
            written = {}
        else:
            names = [x.name for x in call.results]
        source.line(f"{', '.join(names)} = {made}  # {call.op.name}")
        lines[source.count] = call
        for name in foreign:
            source.line(f"{name} = {native}({name})")
        for value, targets in written.items():
            source.line(*[f"{target} = {value.name}" for target in targets])
        _release(source, values)
    return emitted(graph, text, lines)


def kernel_of(call: Call) -> Kernel:
    """The function that runs for a call."""
    return unwarned(call.kernel) if are_errors() else call.kernel


def emit(graph: Graph, name: str = "run", names: Mapping[str, Any] | None = None) -> FunctionType:
    """A function of the inputs in their order; it returns the outputs, then what is to be written.

    >>> from pullback.graph.trace import Trace
    >>> x = pb.asarray([1.0, 2.0])
    >>> trace = Trace(x.device)
    >>> y = pb.negative(trace.argument(x._array, "x"))
    >>> emit(trace.graph([y._array.value]))(x._array)
    (array([-1., -2.], dtype=float32),)
    """
    parameters = ", ".join(source.value.name for source in graph.inputs)
    source = Source(name, parameters, dict(names or {}))
    source.line(f"return {tuple_of(write_calls(source, graph).ends)}")
    return source.compile(keep=True)


def _write_update(
    source: Source,
    call: Call,
    in_place: InPlace,
    released: list[Value],
    text: Callable[[Any], str],
) -> int:
    """Writes an update in place: the old values are released before, for it to take them over.

    A value that is an input as itself too, as a gradient that is the parameter, is not taken over.

    Returns:
        The number of the line.
    """
    owners = in_place.owners
    arguments = [owners[i] if i in owners else text(x) for i, x in enumerate(call.inputs)]
    arguments += _attributes(source, call)
    others = call._replace(inputs=tuple(x for i, x in enumerate(call.inputs) if i not in owners))
    rest = others.values
    later = {*rest, *call.results}
    _release(source, [value for value in released if value not in later])
    update = source.constant(unwarned(in_place.update, updates=True))
    source.line(f"{update}({', '.join(arguments)})  # {call.op.name}")
    line = source.count
    _release(source, [value for value in released if value in rest])
    return line


def _attributes(source: Source, call: Call) -> list[str]:
    return [
        f"{name}={value.name if type(value) is Value else _literal(source, value)}"
        for name, value in call.attributes.items()
    ]


def _release(source: Source, values: list[Value]) -> None:
    if values:
        source.line(f"del {', '.join([value.name for value in values])}")


def _literal(source: Source, value: object) -> str:
    if type(value) in (int, str):
        return repr(value)
    return source.constant(value)


# Errors -------------------------------------------------------------------------------------------


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
    if not graph.calls:
        return write_calls(source, graph, early)
    with source.block("try:"):
        written = write_calls(source, graph, early)
    source.line("except Exception as error:", "    explain(error)")
    return written


def emit_explained(graph: Graph, name: str = "line") -> FunctionType:
    """A function of the inputs of a graph, whose errors are those of the ops."""
    source = Source(name, ", ".join(entry.value.name for entry in graph.inputs), {})
    written = write_explained(source, graph)
    source.line(f"return {tuple_of(written.ends)}")
    source.names["explain"] = Explained(graph, graph.device, written.calls)
    return source.compile(keep=True)


# Results ------------------------------------------------------------------------------------------


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
        #: The result with `ResultTensor` and `ResultItems` in it.
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
