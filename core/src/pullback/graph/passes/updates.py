"""Updates of variables: they come last, and each is written as soon as it is computed.

Were they all written at the end, the old and the new arrays of all variables and slots would be in
memory side by side. Only calls that cannot fail for values are updates, so that an exception in a
run still leaves all variables as they were.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pullback.graph.graph import Call, Graph, State, Value
from pullback.plugins.records import Kernel


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
