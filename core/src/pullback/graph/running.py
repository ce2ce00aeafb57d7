"""Graphs as they run: call by call, or as the backend of their device has compiled them.

Call by call, fused calls and kernels that were made ready take the place of others, and updates of
variables come last. Were these all written at the end, the old and the new arrays of all variables
and slots would be in memory side by side; so each is written as soon as it is computed. Only calls
that cannot fail for values are updates, so that an exception in a run still leaves all variables as
they were.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from pullback._codegen.source import Source, tuple_of
from pullback._dispatch.choice import sparing
from pullback._numerics.philox import WORD
from pullback._tree import each
from pullback.dtypes import uint64
from pullback.graph.emit import Emitted, emit, emitted
from pullback.graph.graph import (
    Argument,
    Call,
    Draw,
    Fused,
    Graph,
    HostArray,
    State,
    Value,
    dtype_name,
)
from pullback.graph.host import array_type
from pullback.graph.passes.regions import fuse, warn_once
from pullback.graph.passes.simplify import drop_dead, with_inputs
from pullback.plugins.backend import Backend
from pullback.plugins.kind import Kind
from pullback.plugins.late_errors import LATE_ERRORS, raise_late
from pullback.plugins.records import Kernel, Native, takes

#: What converts an input. Those of calls that begin early come with them.
_CONVERSIONS = frozenset({"astype"})


def ready(graph: Graph) -> Graph:
    """The graph as it runs call by call."""
    return prepare(updates_last(begin_early(_unconverted(fuse(graph)))))


def _unconverted(graph: Graph) -> Graph:
    """The graph without conversions for kernels that take inputs as they are, as op by op."""
    if not any(hasattr(call.kernel, "converts") for call in graph.calls):
        return graph
    given = {
        call.results[0]: call.values[0] for call in graph.calls if call.op.name in _CONVERSIONS
    }
    calls = [with_inputs(call, _taken(call, given)) for call in graph.calls]
    return drop_dead(graph._replace(calls=tuple(calls)))


def _taken(call: Call, given: Mapping[Value, Value]) -> Mapping[Value, Value]:
    """The converted inputs of a call whose kernel takes what was given."""
    return {
        value: given[value]
        for value in call.values
        if value in given
        and takes(call.kernel, dtype_name(given[value].dtype), dtype_name(value.dtype))
    }


def begin_early(graph: Graph) -> Graph:
    """The graph with each call whose op `begins` something right behind what it reads.

    Calls of ops with an order stay in it.
    """
    beginning = [i for i, call in enumerate(graph.calls) if call.op.begins]
    if not beginning:
        return graph
    makers = {value: i for i, call in enumerate(graph.calls) for value in call.results}
    moved = set(beginning)
    waiting = list(beginning)
    while waiting:
        for value in graph.calls[waiting.pop()].values:
            maker = makers.get(value)
            if maker is None or maker in moved or graph.calls[maker].op.name not in _CONVERSIONS:
                continue
            moved.add(maker)
            waiting.append(maker)
    # A call comes at its own place, or at that of the last one that it needs.
    places: list[int] = []
    at: dict[Value, int] = {}
    last = -1
    for i, call in enumerate(graph.calls):
        place = max((at.get(value, -1) for value in call.values), default=-1) if i in moved else i
        if call.op.is_ordered:
            last = place = max(place, last)
        places.append(place)
        at.update(dict.fromkeys(call.results, place))
    order = sorted(range(len(places)), key=lambda i: (places[i], i))
    calls: tuple[Call, ...] = tuple(graph.calls[i] for i in order)
    return graph._replace(calls=calls)


# Kernels ------------------------------------------------------------------------------------------


def prepare(graph: Graph) -> Graph:
    """The graph with kernels made ready, for its shapes or its weights, where there are any."""
    weights, graph = _weights(graph), without_residuals(graph)
    return graph._replace(calls=tuple(_prepared(graph, call, weights) for call in graph.calls))


def without_residuals(graph: Graph) -> Graph:
    """The graph with kernels that leave out residuals which no call reads, where they can."""
    if not any(call.op.residuals for call in graph.calls):
        return graph
    read = set(graph.ends)
    for call in graph.calls:
        read.update(call.values)
    return graph._replace(calls=tuple(_sparing(call, read) for call in graph.calls))


def _sparing(call: Call, read: set[Value]) -> Call:
    op = call.op
    if not op.in_table or not op.residuals or call.kernel is None:
        return call
    count = len(op.outputs)
    if not read.isdisjoint(call.results[count:]):
        return call
    spare = sparing(op, call.kernel)
    if spare is None:
        return call
    foreign = (*call.foreign[:count], *(False for _ in op.residuals))
    return call._replace(kernel=spare, foreign=foreign)


def _weights(graph: Graph) -> dict[Value, Any]:
    """The variables that the graph reads and does not write, by their values."""
    written = {id(target.owner) for target, _ in graph.writes if isinstance(target, State)}
    return {
        entry.value: entry.owner
        for entry in graph.inputs
        if isinstance(entry, State) and id(entry.owner) not in written
    }


def _prepared(graph: Graph, call: Call, weights: Mapping[Value, Any]) -> Call:
    op = call.op
    symbolic = any(isinstance(value, Value) for value in call.attributes.values())
    if symbolic or not op.in_table:
        return call
    backend, kernel = graph.device.backend, call.kernel
    assert kernel is not None
    has_hook = type(backend).prepare is not Backend.prepare or hasattr(kernel, "prepare")
    if not weights and not has_hook:
        return call
    kinds = [each(_kind, operand) for operand in call.inputs]
    about = kinds, call.attributes
    made = _made(graph, op.name, "prepare", lambda: backend.prepare(op, kernel, *about))
    owners = {
        i: weights[value]
        for i, value in enumerate(call.inputs)
        if isinstance(value, Value) and value in weights
    }
    keep = backend.keeper(op.name, kernel) if owners else None
    if keep is not None:
        now = made or kernel
        made = _made(graph, op.name, "keep", lambda: keep(now, *about, owners)) or made
    return call if made is None else call._replace(kernel=made)


def _made(graph: Graph, name: str, hook: str, make: Callable[[], Kernel | None]) -> Kernel | None:
    """The kernel that a hook makes for an op; None, and a warning, where it fails."""
    backend = graph.device.backend
    try:
        kernel = make()
        if kernel is not None and not callable(kernel):
            raise TypeError(f"it returned {type(kernel).__name__}, not a kernel or None")
    except Exception as error:
        warn_once(
            (hook, backend.name, name),
            f"the backend {backend.name!r} cannot make a kernel of {name} ready: its hook "
            f"`{hook}` raised {type(error).__name__}: {error}; the kernel itself is called",
        )
        return None
    return kernel


def _kind(value: Value) -> Kind:
    return Kind(value.shape, value.dtype)


# Updates ------------------------------------------------------------------------------------------


def updates_last(graph: Graph) -> Graph:
    """The graph with the calls at its end whose results are only written."""
    if not graph.writes:
        return graph
    only_written = _only_written(graph)
    updates = [call for call in graph.calls if _is_update(call, only_written)]
    if not updates:
        return graph
    moved = set(map(id, updates))
    others = [call for call in graph.calls if id(call) not in moved]
    return graph._replace(calls=(*others, *updates))


def early_writes(graph: Graph) -> dict[Value, list[State]]:
    """Finds what is written while a program runs: results of the updates at its end.

    Returns:
        the states by the value that is written to them.
    """
    only_written = _only_written(graph)
    early: dict[Value, list[State]] = {}
    for call in reversed(graph.calls):
        if not _is_update(call, only_written):
            break
        early.update((value, []) for value in call.results)
    for target, value in graph.writes:
        if value in early:
            assert isinstance(target, State)
            early[value].append(target)
    return early


def updates_in_place(graph: Graph, early: Mapping[Value, Sequence[State]]) -> dict[int, Kernel]:
    """Finds the updates that the backend does to variables, in their arrays where it can.

    Args:
        graph: the graph.
        early: what `early_writes` has found.

    Returns:
        the functions by the positions of the calls.
    """
    states = {entry.value: entry for entry in graph.inputs if isinstance(entry, State)}
    found = {}
    for i, call in enumerate(graph.calls):
        if not call.op.in_table or not early.keys() >= set(call.results):
            continue
        update = graph.device.backend.in_place(call.op.name, call.kernel)
        old: list[Any] = [states.get(call.inputs[k]) for k in changed(call)]  # type: ignore[arg-type]
        if update is not None and [early[value] for value in call.results] == [[x] for x in old]:
            found[i] = update
    return found


def changed(call: Call) -> tuple[int, ...]:
    """The inputs of an update that have new values afterwards: the parameter and the slots."""
    return 0, *range(2, 1 + len(call.results))


def _only_written(graph: Graph) -> set[Value]:
    """The values that are written, and nothing else."""
    written = {value for _, value in graph.writes}.difference(graph.outputs)
    written.difference_update(
        v for _, arguments in graph.after for v in arguments if isinstance(v, Value)
    )
    return written.difference(value for call in graph.calls for value in call.values)


def _is_update(call: Call, only_written: set[Value]) -> bool:
    return only_written.issuperset(call.results) and (call.op.update or call.ignores_layout)


# Compiled by a backend ----------------------------------------------------------------------------

#: A function of the inputs of a graph.
Run = Callable[..., Sequence[Native]]


class Compiled:
    """The function that a backend has made of a graph; the calls one by one where that fails.

    A failure is announced once, and is the backend's only if the calls then succeed. Else they
    raise what is wrong with the values.

    Args:
        graph: the graph, whose outputs are results of its calls.
        name: the name of the captured function.
        run: what the backend has made.
        line: the graph's calls one by one.
    """

    def __init__(self, graph: Graph, name: str, run: Run, line: Run) -> None:
        self.graph = graph
        self._name = name
        self._run: Run | None = run
        self._line = line
        self._count = len(graph.outputs)
        self._measured = False
        self._hosts = [i for i, source in enumerate(graph.inputs) if type(source) is HostArray]
        self._draws = [
            (i, 2 if source.part == "key" else 4)
            for i, source in enumerate(graph.inputs)
            if type(source) is Draw
        ]
        #: Why the backend's function is not called any more.
        self.failure = ""

    def __call__(self, *inputs: object) -> Sequence[Native]:
        """The outputs of a run. Numbers of the host are NumPy arrays, draws are ints."""
        run = self._run
        if run is None:
            return self._one_by_one(inputs)
        try:
            results = run(*(self._with_words(inputs) if self._draws else inputs))
            if self._measured and len(results) == self._count:
                return results
            holds = self._held(results)
        except Exception as error:
            results = self._one_by_one(inputs)
            self._wait(results)
            self._fail(f"raised {type(error).__name__}: {error} (in {_names(self.graph.calls)})")
            return results
        return results[: self._count] if holds else self._one_by_one(inputs)

    def _held(self, results: Sequence[Any]) -> bool:
        """Returns whether the values are what kernels require.

        Raises:
            TypeError: for results of another number or kind than the outputs.
        """
        if not isinstance(results, (tuple, list)) or not 0 <= len(results) - self._count <= 1:
            kind = len(results) if isinstance(results, (tuple, list)) else type(results).__name__
            raise TypeError(f"the function returned {kind} results for {self._count} outputs")
        if len(results) > self._count and not bool(results[-1]):
            return False
        if not self._measured:
            native = array_type(self.graph.device)
            for value, array in zip(self.graph.outputs, results, strict=False):
                self._check(value, array, native)
            self._measured = True
        return True

    def _check(self, value: Value, array: Any, native: type[Any]) -> None:
        if type(array) is not native or (tuple(array.shape), array.dtype) != (
            value.shape,
            value.dtype,
        ):
            found = f"{getattr(array, 'dtype', '')}{list(getattr(array, 'shape', ()))}"
            raise TypeError(
                f"the function returned {type(array).__name__} of {found} for the output {value}"
            )

    def _with_words(self, inputs: Sequence[Any]) -> list[Any]:
        """The inputs with the keys and counters of random numbers as arrays of words."""
        arrays = list(inputs)
        for i, count in self._draws:
            words = [arrays[i] >> 64 * word & WORD for word in range(count)]
            arrays[i] = np.array(words, uint64)
        return arrays

    def _one_by_one(self, inputs: Sequence[Any]) -> Sequence[Native]:
        arrays, device = list(inputs), self.graph.device
        for i in self._hosts:
            arrays[i] = device.backend.from_host(arrays[i], device.native, copy=False)
        return self._line(*arrays)

    def _wait(self, results: Sequence[Native]) -> None:
        """Waits for arrays, so that calls which fail late do so before variables are written.

        For these only: what the compiled run left behind has failed.
        """
        device = self.graph.device
        try:
            for array in results:
                device.backend.to_host(array)
        except LATE_ERRORS as error:
            raise_late(error, device, device.backend)

    def _fail(self, reason: str) -> None:
        self._run, self.failure = None, reason
        warnings.warn(_message(self.graph, self._name, reason), RuntimeWarning, stacklevel=4)

    def __str__(self) -> str:
        name = self.graph.device.backend.name
        if self.failure:
            return f"not compiled by the backend {name!r}, which {self.failure}"
        return f"compiled by the backend {name!r}"


def _message(graph: Graph, name: str, reason: str) -> str:
    return (
        f"the backend {graph.device.backend.name!r} cannot compile {name}: its hook `compile` "
        f"{reason}; the calls of {name} run one by one"
    )


def compiled(graph: Graph, name: str, line: Callable[[Graph], Run]) -> Compiled | str:
    """The graph as its backend has compiled it, or why it has not.

    Args:
        graph: the graph.
        name: the name of the captured function.
        line: makes a function of a graph, which runs the calls one by one.

    Returns:
        What it has compiled. Else the reason, which is empty for a backend without the hook.
    """
    backend = graph.device.backend
    if type(backend).compile is Backend.compile:
        return ""
    refused = f"not compiled by the backend {backend.name!r}"
    # A profiler sees calls of kernels, so they are made one by one while it runs.
    if backend.changes < 0:
        return f"{refused} while a profile runs"
    others = list(dict.fromkeys(_not_taken(backend, graph)))
    if "py_function" in others:
        return f"{refused}, because it calls py_function"
    if others:
        return f"{refused}, whose control_flow lacks {', '.join(others)}"
    made = {value for call in graph.calls for value in call.results}
    outputs = tuple(value for value in dict.fromkeys(graph.ends) if value in made)
    if not outputs:
        return f"{refused}, because it has no calls"
    pure = graph._replace(outputs=outputs, writes=(), after=())
    given = pure._replace(writes=tuple(write for write in graph.writes if write[1] in made))
    try:
        run = backend.compile(ready(given) if backend.compiles_kernels() else given)
    except Exception as error:
        reason = f"raised {type(error).__name__}: {error} (in {_names(given.calls)}"
        alone = [call for call in given.calls if _raises(backend, given, call)]
        reason += f"; also for {_names(alone)} alone)" if alone else ")"
        warnings.warn(_message(graph, name, reason), RuntimeWarning, stacklevel=7)
        return f"{refused}, which {reason}"
    if run is None:
        return f"{refused}, which leaves it to its calls"
    return Compiled(pure, name, run, line(pure))


def _names(calls: Iterable[Call]) -> str:
    """The ops of calls, such as "exp, fused(add, multiply)"."""
    names = (
        f"fused({_names(call.op.graph.calls)})" if isinstance(call.op, Fused) else call.op.name
        for call in calls
    )
    return ", ".join(dict.fromkeys(names))


def _raises(backend: Backend, graph: Graph, call: Call) -> bool:
    """Returns whether the hook raises for one call of a graph by itself."""
    inputs = {entry.value: entry for entry in graph.inputs}
    constants = {v.name: graph.constants[v.name] for v in call.values if v.name in graph.constants}
    given = [value for value in dict.fromkeys(call.values) if value.name not in constants]
    entries = tuple(inputs.get(value, Argument(value, i)) for i, value in enumerate(given))
    try:
        backend.compile(Graph(graph.device, entries, (call,), call.results, constants))
    except Exception:
        return True
    return False


def _not_taken(backend: Backend, graph: Graph) -> Iterator[str]:
    """The names of calls that a backend does not compile: branches, loops, Python, collectives."""
    for call in graph.calls:
        if call.op.in_table and not call.op.is_ordered:
            continue
        if call.op.name not in backend.control_flow:
            yield call.op.name
        for nested in call.graphs.values():
            yield from _not_taken(backend, nested)


def write_compiled(source: Source, graph: Graph, whole: Compiled) -> Emitted:
    """Adds the call of a compiled graph to a function, in place of `write_calls`.

    The numbers of the host are NumPy arrays there.
    """
    constants = {name: source.constant(array) for name, array in graph.constants.items()}
    results = ", ".join(value.name for value in whole.graph.outputs)
    arguments = ", ".join(entry.value.name for entry in graph.inputs)
    source.line(f"{results}, = {source.constant(whole)}({arguments})")
    ends = {value.name for value in graph.ends}
    for entry in graph.inputs:
        name = entry.value.name
        if type(entry) is HostArray and name in ends:
            backend, native = graph.device.backend, graph.device.native
            make = source.constant(backend.from_host)
            source.line(f"{name} = {make}({name}, {source.constant(native)}, copy=False)")
    return emitted(graph, lambda value: constants.get(value.name, value.name), {})


def function_of(graph: Graph, name: str) -> FunctionType:
    """A function of the inputs: what the backend compiled, or the calls one by one.

    The graph has neither writes nor numbers of the host.
    """
    whole = compiled(graph, name, emit)
    if isinstance(whole, str):
        return emit(ready(graph))
    source = Source("run", ", ".join(entry.value.name for entry in graph.inputs))
    source.line(f"return {tuple_of(write_compiled(source, graph, whole).ends)}")
    return source.compile(keep=True)
