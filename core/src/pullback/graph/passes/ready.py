"""Graphs as they run call by call: with fused calls, updates last, and kernels made ready.

Were updates of variables all written at the end, the old and the new arrays of all variables and
slots would be in memory side by side. So they come last, and each is written as soon as it is
computed. Only calls that cannot fail for values are updates, so that an exception in a run still
leaves all variables as they were.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pullback._tree import each
from pullback.graph.graph import Call, Graph, State, Value
from pullback.graph.passes.regions import fuse, warn_once
from pullback.plugins.kind import Kind
from pullback.plugins.records import Kernel


def ready(graph: Graph) -> Graph:
    """The graph as it runs call by call."""
    return prepare(updates_last(fuse(graph)))


# Kernels ------------------------------------------------------------------------------------------


def prepare(graph: Graph) -> Graph:
    """The graph with kernels made ready, for its shapes or its weights, where there are any."""
    weights = _weights(graph)
    return graph._replace(calls=tuple(_prepared(graph, call, weights) for call in graph.calls))


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
    backend = graph.device.backend
    kinds = [each(_kind, operand) for operand in call.inputs]
    about = kinds, call.attributes
    kernel = call.kernel
    assert kernel is not None
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
    cannot_fail = call.op.update or call.ignores_layout
    return cannot_fail and only_written.issuperset(call.results)
