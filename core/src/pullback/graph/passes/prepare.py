"""Kernels that a backend has made ready for the shapes of a graph: numbers worked out once."""

from __future__ import annotations

from typing import Any

from pullback._tree import each
from pullback.graph.graph import Call, Fused, Graph, Value
from pullback.graph.passes.regions import fuse
from pullback.graph.passes.warned import warn_once
from pullback.plugins.kind import Kind


def ready(graph: Graph) -> Graph:
    """The graph as it runs call by call: with fused kernels, and kernels made ready."""
    return prepare(fuse(graph))


def prepare(graph: Graph) -> Graph:
    """The graph with a kernel that was made ready in place of each kernel that has one."""
    return graph._replace(calls=tuple(_prepared(graph, call) for call in graph.calls))


def _prepared(graph: Graph, call: Call) -> Call:
    op: Any = call.op
    symbolic = any(isinstance(value, Value) for value in call.attributes.values())
    if isinstance(op, Fused) or symbolic or op.index < 0:
        return call
    backend = graph.device.backend
    kinds = [each(_kind, operand) for operand in call.inputs]
    try:
        kernel = backend.prepare(op, call.kernel, kinds, call.attributes)
        if kernel is None:
            return call
        if not callable(kernel):
            raise TypeError(f"it returned {type(kernel).__name__}, not a kernel or None")
    except Exception as error:
        warn_once(
            ("prepare", backend.name, op.name),
            f"the backend {backend.name!r} cannot make a kernel of {op.name} ready: its hook "
            f"`prepare` raised {type(error).__name__}: {error}; the kernel itself is called",
        )
        return call
    return call._replace(kernel=kernel)


def _kind(value: Value) -> Kind:
    return Kind(value.shape, value.dtype)
