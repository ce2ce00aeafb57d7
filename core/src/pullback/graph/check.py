"""The rules of graphs, as a test: what passes and `emit` rely on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Any

from pullback._tree import each
from pullback.devices import Device
from pullback.dtypes import DType
from pullback.graph.graph import Call, Graph, GraphOp, InvalidGraphError, Operand, Value, frozen
from pullback.plugins.records import Native
from pullback.spec import Arity


def check(graph: Graph) -> None:
    """Tests every rule that passes and `emit` rely on; for tests.

    Raises:
        InvalidGraphError: for a value that is made twice or used before it is made, a constant or
            a result of another kind than its value says, a call that does not fit its op.
    """
    known: dict[str, Value | None] = {}
    for source in graph.inputs:
        _make(known, source.value)
    for name, array in graph.constants.items():
        if name in known:
            raise InvalidGraphError(f"{name} is an input and a constant")
        known[name] = None
        if array.dtype not in graph.device.backend.public_dtypes:
            raise InvalidGraphError(f"the constant {name} has a dtype of another backend")
    for call in graph.calls:
        for value in call.values:
            _use(known, value, graph.constants)
        _check_call(graph.device, call)
        for value in call.results:
            _make(known, value)
    for value in graph.ends:
        _use(known, value, graph.constants)
    for target, value in graph.writes:
        if target not in graph.inputs:
            raise InvalidGraphError(f"{target} is written but is not an input of the graph")
        if (target.value.shape, target.value.dtype) != (value.shape, value.dtype):
            raise InvalidGraphError(
                f"{value} is written to {target.value}, which is of another kind"
            )


def _make(known: dict[str, Value | None], value: Value) -> None:
    if value.name in known:
        raise InvalidGraphError(f"{value.name} is made twice")
    if not value.name.isidentifier():
        raise InvalidGraphError(f"{value.name!r} is not a name of Python")
    if re.fullmatch(r"k\d+", value.name):
        raise InvalidGraphError(f"{value.name!r} is a name that `emit` gives to constants")
    known[value.name] = value


def _use(known: dict[str, Value | None], value: Value, constants: Mapping[str, Native]) -> None:
    if value.name not in known:
        raise InvalidGraphError(f"{value.name} is used before it is made")
    before = known[value.name]
    if before is None:
        array = constants[value.name]
        if (tuple(array.shape), array.dtype) != (value.shape, value.dtype):
            raise InvalidGraphError(f"the constant {value} is an array of another kind")
        known[value.name] = value
    elif before is not value:
        raise InvalidGraphError(f"{value.name} names two values")


def _check_call(device: Device, call: Call) -> None:
    op = call.op
    if len(call.inputs) != len(op.inputs):
        raise InvalidGraphError(f"{call} has {len(call.inputs)} inputs, the op {len(op.inputs)}")
    for parameter, operand in zip(op.inputs, call.inputs, strict=True):
        kind = {Arity.ONE: Value, Arity.MANY: tuple}.get(parameter.arity, (Value, type(None)))
        if not isinstance(operand, kind):
            raise InvalidGraphError(f"{call}: the input {parameter.name} is {operand!r}")
    if not {*call.attributes} <= {attribute.name for attribute in op.attributes}:
        raise InvalidGraphError(f"{call} has attributes that the op does not have")
    symbols = [value for value in call.attributes.values() if isinstance(value, Value)]
    for name, value in call.attributes.items():
        if not isinstance(value, Value) and name != "device" and op.in_table:
            frozen(value)
    for graph in call.graphs.values():
        if graph.device is not device or graph.writes or graph.after:
            raise InvalidGraphError(f"{call} has a graph with effects, or on another device")
        check(graph)
    if isinstance(op, GraphOp):
        op.check(call, check)
    if len(call.results) != len(op.outputs) + len(op.residuals) or len(call.foreign) != len(
        call.results
    ):
        raise InvalidGraphError(f"{call} does not have a result for each output and residual")
    if not symbols:
        _check_rules(device, call)


def _check_rules(device: Device, call: Call) -> None:
    """Compares the results with what the op's rules say of them."""
    op, public = call.op, device.backend.public_dtypes
    given = [each(attrgetter("shape"), operand) for operand in call.inputs]
    shapes = op.shape(*given, **call.attributes)
    dtypes = op.dtype(tuple(_dtypes(call.inputs, public)), **call.attributes).outputs
    if len(dtypes) != len(op.outputs):
        raise InvalidGraphError(f"{call}: the op's rule gives {len(dtypes)} results")
    listed = shapes if isinstance(shapes, list) else [shapes] * len(dtypes)
    for value, shape, dtype in zip(call.results, listed, dtypes, strict=False):
        if shape is not None and tuple(shape) != value.shape:
            raise InvalidGraphError(f"{call}: the op's rule gives the shape {tuple(shape)}")
        if public[value.dtype] != dtype:
            raise InvalidGraphError(f"{call}: the op's rule gives the dtype {dtype}")


def _dtypes(operands: Iterable[Operand], public: Mapping[Any, DType]) -> Iterator[DType | None]:
    for operand in operands:
        if isinstance(operand, tuple):
            yield from (public[value.dtype] for value in operand)
        else:
            yield None if operand is None else public[operand.dtype]
