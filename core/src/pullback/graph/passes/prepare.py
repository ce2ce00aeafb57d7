"""Kernels that a backend has made ready for a graph: for its shapes, and for its weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pullback._tree import each
from pullback.graph.graph import Call, Graph, State, Value
from pullback.graph.passes.regions import fuse, warn_once
from pullback.plugins.kind import Kind
from pullback.plugins.records import Kernel


def ready(graph: Graph) -> Graph:
    """The graph as it runs call by call: with fused kernels, and kernels made ready."""
    return prepare(fuse(graph))


def prepare(graph: Graph) -> Graph:
    """The graph with a kernel that was made ready in place of each kernel that has one."""
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
