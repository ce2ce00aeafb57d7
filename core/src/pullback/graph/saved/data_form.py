"""Programs as data: graphs as JSON and arrays, and back.

    folder/
        program.json            arguments, graph and result
        arrays.safetensors      variables, tensors from outside, and constants

Nothing in it is code. Values that JSON lacks are objects with two keys: "$" names the kind, "value"
holds the rest. A graph among the attributes of a call is such a value as well.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import numpy as np

from pullback import dtypes, errors
from pullback._array_files import Array, array_bytes, describe, mapping, sealed, sync, write_file
from pullback._dispatch.arguments import canonicalize
from pullback._dispatch.bodies import run_body
from pullback._dispatch.plan import arrays_of, resolve
from pullback._replacing import as_path, put, settle, temporary, tidy
from pullback._symbols import HostNumber
from pullback._tree import each
from pullback.devices import Device
from pullback.graph.control.call import known_op
from pullback.graph.emit import ResultItems, ResultTensor
from pullback.graph.graph import (
    Argument,
    AttributeEntry,
    Call,
    Draw,
    Graph,
    Handle,
    HostArray,
    InvalidGraphError,
    State,
    Value,
    check,
)
from pullback.graph.signature import Part
from pullback.spec import OPS, Op
from pullback.tensor import Tensor, wrap

if TYPE_CHECKING:
    from pullback.graph.program import Program


JSON: TypeAlias = Any
#: What a value of JSON stands for, by its kind.
Kinds: TypeAlias = "Mapping[str, Callable[[JSON], Any]]"

_DTYPES = {dtype.name: dtype for dtype in (*dtypes.ALL, *dtypes.STORAGE)}
#: What calls functions of a program.
_PYTHON = ("py_function",)
#: How deep graphs may be nested.
_DEPTH = 32


class CannotBeSavedError(ValueError):
    """A value or a graph that has no form as data; says why."""


# ---------------------------------------------------------------------------------------------
# Plain values.


def encode(value: object, leaf: Callable[[object], JSON | None]) -> JSON:
    """Returns a value as JSON.

    Args:
        value: numbers, texts, dtypes, slices, and lists, tuples and dicts of them.
        leaf: what a value of another kind is as JSON; None for values that it does not know.

    Raises:
        CannotBeSavedError: for any other value.
    """
    known = leaf(value)
    if known is not None:
        return known
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return value
    if kind is float:
        assert isinstance(value, float)
        return value if math.isfinite(value) else _tagged("float", repr(value))
    if kind is complex:
        assert isinstance(value, complex)
        return _tagged("complex", [encode(part, leaf) for part in (value.real, value.imag)])
    if isinstance(value, np.dtype) and value in _DTYPES.values():
        return _tagged("dtype", value.name)
    if isinstance(value, list):
        return [encode(item, leaf) for item in value]
    if isinstance(value, tuple):
        return _tagged("tuple", [encode(item, leaf) for item in value])
    if isinstance(value, dict):
        return _dict_data({key: encode(item, leaf) for key, item in value.items()})
    if isinstance(value, slice):
        parts = (value.start, value.stop, value.step)
        return _tagged("slice", [encode(part, leaf) for part in parts])
    if value is ...:
        return _tagged("ellipsis", None)
    raise CannotBeSavedError(f"has {value!r} of type {kind.__name__}, which is not data")


def decode(data: JSON, kinds: Kinds) -> Any:
    """Returns the value of JSON from `encode`.

    Args:
        data: the JSON.
        kinds: for each kind that `leaf` made, what its value stands for.

    Raises:
        ValueError: for anything else; names the fault.
    """
    if isinstance(data, list):
        return [decode(item, kinds) for item in data]
    if not isinstance(data, dict):
        return data
    if data.keys() != {"$", "value"}:
        raise ValueError(f"it holds an object with the keys {sorted(data)}")
    kind, value = data["$"], data["value"]
    if not isinstance(kind, str):
        raise ValueError(f"it holds a value of the kind {kind!r}")
    if kind in kinds:
        return kinds[kind](value)
    if kind == "float" and value in ("nan", "inf", "-inf"):
        return float(value)
    if kind == "dtype" and isinstance(value, str) and value in _DTYPES:
        return _DTYPES[value]
    if kind == "dict" and isinstance(value, dict):
        return {key: decode(item, kinds) for key, item in value.items()}
    if kind == "ellipsis" and value is None:
        return ...
    if kind in ("complex", "slice", "tuple") and isinstance(value, list):
        items = [decode(item, kinds) for item in value]
        if kind == "tuple":
            return tuple(items)
        if kind == "slice" and len(items) == 3:
            return slice(*items)
        if kind == "complex" and len(items) == 2 and {*map(type, items)} <= {int, float}:
            return complex(*items)
    raise ValueError(f"it holds a value of the unknown kind {kind!r}: {str(value)[:80]}")


def _dict_data(items: dict[Any, JSON]) -> JSON:
    if not all(type(key) is str for key in items):
        raise CannotBeSavedError(f"has a dict with keys that are not texts: {[*items]}")
    return _tagged("dict", items)


def _tagged(kind: str, value: JSON) -> JSON:
    return {"$": kind, "value": value}


# ---------------------------------------------------------------------------------------------
# Graphs as data.


def data_of(
    graph: Graph, arrays: dict[str, Array], stored: Mapping[str, tuple[str, Any]] | None = None
) -> JSON:
    """Returns a graph as JSON.

    Args:
        graph: the graph.
        arrays: its constants are put here.
        stored: inputs whose arrays are saved, by the names of their values: each with a name to
            save it under, and the array.

    Raises:
        CannotBeSavedError: for a graph that is more than a function of its inputs.
    """
    if graph.writes or graph.after:
        raise CannotBeSavedError("has effects")
    stored = stored or {}
    public, to_host = graph.device.backend.public_dtypes, graph.device.backend.to_host
    constants = {}
    for name, (wanted, array) in (
        *stored.items(),
        *((name, (name, array)) for name, array in graph.constants.items()),
    ):
        key, count = wanted or name, 1
        while key in arrays:
            count += 1
            key = f"{wanted or name}.{count}"
        arrays[key] = np.asarray(to_host(array))
        constants[name] = key

    def value_data(value: Value) -> JSON:
        return {"name": value.name, "dtype": public[value.dtype].name, "shape": [*value.shape]}

    def leaf(value: object) -> JSON | None:
        if isinstance(value, Graph):
            return _tagged("graph", data_of(value, arrays))
        if isinstance(value, Value):
            raise CannotBeSavedError("draws random numbers")
        return None

    def call_data(call: Call) -> JSON:
        if call.op.name in _PYTHON:
            raise CannotBeSavedError(f"calls Python with pb.{call.op.name}")
        if _op_of(call.op.name, len(call.results)) is not call.op:
            raise CannotBeSavedError(f"calls {call.op.name}, which is not an op of the op table")
        try:
            attributes = {
                name: _tagged("device", None) if name == "device" else encode(value, leaf)
                for name, value in call.attributes.items()
            }
        except CannotBeSavedError as error:
            raise CannotBeSavedError(f"calls {call.op.name}, which {error}") from None
        return {
            "op": call.op.name,
            "inputs": [each(attrgetter("name"), operand) for operand in call.inputs],
            "attributes": attributes,
            "results": [value_data(value) for value in call.results],
            "origin": call.origin,
        }

    return {
        "inputs": [value_data(e.value) for e in graph.inputs if e.value.name not in stored],
        "constants": constants,
        "calls": [call_data(call) for call in graph.calls],
        "outputs": [value.name for value in graph.outputs],
    }


def graph_of(data: JSON, arrays: Mapping[str, Array], device: Device, depth: int = 0) -> Graph:
    """Returns the graph of JSON from `data_of`. Its calls have no kernels yet.

    Args:
        data: the JSON.
        arrays: the arrays that it names.
        device: the device of the graph.
        depth: how many graphs it is in.

    Raises:
        ValueError: for JSON that is not a graph, or one that breaks a rule; names the fault.
    """
    if depth > _DEPTH:
        raise ValueError("its graphs are nested too deeply")
    return _Reader(arrays, device, depth).graph(_keys(data, "a graph", _GRAPH))


_GRAPH = {"inputs": list, "constants": dict, "calls": list, "outputs": list}
_CALL = {"op": str, "inputs": list, "attributes": dict, "results": list, "origin": str}
_VALUE = {"name": str, "dtype": str, "shape": list}


def _keys(data: JSON, what: str, keys: Mapping[str, type]) -> dict[str, Any]:
    found = mapping(data, what)
    for key, kind in keys.items():
        if not isinstance(found.get(key), kind):
            raise ValueError(f"{what} has no {key}")
    if len(found) != len(keys):
        raise ValueError(f"{what} has more keys than {', '.join(keys)}")
    return found


def _op_of(name: str, outputs: int) -> Op | None:
    return OPS.get(name) or known_op(name, outputs)


class _Reader:
    def __init__(self, arrays: Mapping[str, Array], device: Device, depth: int) -> None:
        self._arrays = arrays
        self._device = device
        self._values: dict[str, Value] = {}
        self._kinds: Kinds = {
            "device": lambda value: device,
            "graph": lambda value: graph_of(value, arrays, device, depth + 1),
        }

    def graph(self, data: dict[str, Any]) -> Graph:
        backend, native = self._device.backend, self._device.native
        inputs = [Argument(self._made(entry), i) for i, entry in enumerate(data["inputs"])]
        constants = {}
        for name, key in data["constants"].items():
            if not isinstance(key, str) or key not in self._arrays:
                raise ValueError(f"the array of the constant {name!r} is missing")
            array = self._arrays[key]
            description = {"name": name, "dtype": array.dtype.name, "shape": [*array.shape]}
            self._made(description)
            constants[name] = backend.from_host(array, native, copy=True)
        graph = Graph(
            self._device,
            tuple(inputs),
            tuple(self._call(_keys(call, "a call", _CALL)) for call in data["calls"]),
            tuple(self._value(name) for name in data["outputs"]),
            constants,
        )
        try:
            check(graph)
        except InvalidGraphError:
            raise
        except Exception as error:
            # An op's rule, for attributes that it cannot read.
            raise ValueError(f"a call does not fit its op: {error}") from error
        return graph

    def _made(self, data: JSON) -> Value:
        entry = _keys(data, "a value", _VALUE)
        name, dtype, shape = entry["name"], entry["dtype"], entry["shape"]
        if name in self._values:
            raise ValueError(f"{name!r} is made twice")
        if not all(type(size) is int and size >= 0 for size in shape):
            raise ValueError(f"the shape of {name!r} is {shape}")
        backend = self._device.backend
        supported = {**backend.dtypes, **backend.storage_dtypes}
        if dtype not in _DTYPES:
            raise ValueError(f"the dtype of {name!r} is {dtype!r}")
        if _DTYPES[dtype] not in supported:
            raise ValueError(
                f"{name!r} is {dtype}, which the backend of {self._device} does not support"
            )
        value = self._values[name] = Value(name, tuple(shape), supported[_DTYPES[dtype]])
        return value

    def _value(self, name: JSON) -> Value:
        if not isinstance(name, str) or name not in self._values:
            raise ValueError(f"the value {name!r} is used before it is made")
        return self._values[name]

    def _call(self, data: dict[str, Any]) -> Call:
        op = _op_of(data["op"], len(data["results"]))
        if op is None or op.name in _PYTHON:
            raise ValueError(
                f"it calls the op {data['op']!r}, which is not defined here; import the module "
                f"that defines it before, or upgrade pullback"
            )
        inputs = tuple(
            tuple(map(self._value, operand))
            if isinstance(operand, list)
            else None
            if operand is None
            else self._value(operand)
            for operand in data["inputs"]
        )
        try:
            attributes = {name: decode(v, self._kinds) for name, v in data["attributes"].items()}
            results = tuple(map(self._made, data["results"]))
            call = Call(
                op, _ByOp(op, self._device), inputs, attributes, results, (False,) * len(results)
            )
            self._check_attributes(call)
        except Exception as error:
            raise ValueError(f"a call of {op.name}: {error}") from error
        return call._replace(origin=data["origin"])

    def _check_attributes(self, call: Call) -> None:
        """Raises an error for attributes that the op would not take from a caller."""
        names = {attribute.name for attribute in call.op.attributes}
        if names != call.attributes.keys() or len(call.inputs) != len(call.op.inputs):
            raise ValueError("it has other inputs or attributes than the op")
        # Shapes and dtypes are all that is asked of the tensors.
        tensors = [
            each(lambda value: wrap(value, self._device), operand) for operand in call.inputs
        ]
        canonicalize(call.op, tensors, call.attributes)


class _ByOp:
    """The kernel of a call that has none yet: the call of the op, wherever it finds a kernel."""

    def __init__(self, op: Op, device: Device) -> None:
        self._op = op
        self._device = device

    def __call__(self, *inputs: Any, **attributes: Any) -> Any:
        """The native arrays that the op gives for native arrays."""
        op, device = self._op, self._device
        tensors = [each(lambda array: wrap(array, device), operand) for operand in inputs]
        if "device" in attributes:
            attributes["device"] = device
        results = called(op, tensors, attributes, hidden=bool(op.residuals))
        arrays = tuple(tensor._array for tensor in results)
        return arrays if len(arrays) > 1 else arrays[0]


def called(
    op: Op, inputs: Sequence[Any], attributes: Mapping[str, Any], *, hidden: bool
) -> Sequence[Tensor]:
    """The results of an op for tensors, with those for its rules alone where they are wanted.

    Args:
        op: the op.
        inputs: tensors; None for an input that is absent, a list for a sequence.
        attributes: the attributes.
        hidden: whether the residuals are wanted as well.

    Raises:
        PullbackError: as the op does.
    """
    if not hidden:
        results = op.function(*inputs, **attributes)
        return (results,) if isinstance(results, Tensor) else tuple(results)
    plan = resolve(op, inputs, attributes)
    if plan.kernel is None:
        return tuple(run_body(op, inputs, plan.attributes))
    return [wrap(array, plan.device) for array in plan.run(arrays_of(inputs))]


# ---------------------------------------------------------------------------------------------
# Programs in a folder.


FORMAT = "pullback program"
VERSION = 1
PROGRAM, ARRAYS = "program.json", "arrays.safetensors"


def save(program: Program, folder: str | os.PathLike[str]) -> None:
    """Writes a program to a folder, in place of an older one.

    Raises:
        CaptureError: for a program that does more than compute results from its arguments.
        CheckpointError: for errors of the file system, and a folder that holds other files.
    """
    content, arrays = content_of(program)
    content["arrays"] = {name: describe(array) for name, array in arrays.items()}
    path = as_path(folder, "folder")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        tidy(path)
        if _holds_other_files(path):
            raise errors.CheckpointError(
                f"{str(path)!r} holds other files than a saved program; choose another folder"
            )
        with temporary(path) as new:
            new.mkdir()
            write_file(new / ARRAYS, array_bytes(arrays))
            write_file(new / PROGRAM, sealed(FORMAT, VERSION, content))
            sync(new)
            put(new, path)
        sync(path.parent)
        settle(path)
    except (OSError, ValueError) as error:
        raise errors.CheckpointError(
            f"the program could not be saved to {str(path)!r}: {error}"
        ) from error


def _holds_other_files(path: Path) -> bool:
    try:
        files = os.listdir(path)
    except FileNotFoundError:
        return False
    return any(name not in (PROGRAM, ARRAYS) for name in files if not name.startswith("."))


def content_of(program: Program) -> tuple[dict[str, Any], dict[str, Array]]:
    """Returns a program as JSON, and its arrays by name.

    Raises:
        CaptureError: for a program that does more than compute results from its arguments.
    """
    changed = [guard.what for guard in program.unmet()]
    if changed:
        _reject(program, f"was made for another value of {', '.join(changed)}", "lower it again")
    if program.changes:
        names = ", ".join(program.changes)
        _reject(program, f"changes its argument {names}", "return the new values instead")
    arrays: dict[str, Array] = {}
    numbers = _check_inputs(program)
    stored = {}
    for entry in program.graph.inputs:
        name = entry.value.name
        if isinstance(entry, State):
            stored[name] = getattr(entry.owner, "name", "") or name, entry.owner._array
        elif isinstance(entry, Handle):
            stored[name] = name, entry.tensor._array
    try:
        graph = data_of(program.graph, arrays, stored)
        content = {
            "name": program.name,
            "arguments": _arguments(program, numbers),
            "graph": graph,
            "result": encode(program.result, _result_data),
        }
    except CannotBeSavedError as error:
        _reject(program, str(error), "pass and return tensors, numbers and texts")
    return content, arrays


def _reject(program: Program, reason: str, way_out: str) -> NoReturn:
    raise errors.CaptureError(f"{program.name} cannot be saved, because it {reason}; {way_out}")


def _check_inputs(program: Program) -> dict[str, list[str]]:
    """Returns the inputs of the graph that are an argument's number, by the number's name.

    Raises:
        CaptureError: for a program that is more than a function of arguments and saved arrays.
    """
    graph = program.graph
    inference = "save what only reads, such as a model called with training=False"
    if graph.writes:
        names = [_label(target) for target, _ in graph.writes[:3]]
        _reject(program, f"writes {', '.join(names)}", inference)
    if graph.after:
        _reject(program, "sets what is outside of it when it has run", inference)
    numbers: dict[str, list[str]] = {}
    for entry in graph.inputs:
        if isinstance(entry, Draw):
            _reject(
                program,
                "draws random numbers",
                "draw them outside and pass them as an argument, or call it with training=False",
            )
        if isinstance(entry, AttributeEntry):
            _reject(program, f"reads the state of {type(entry.owner).__name__}", inference)
        if isinstance(entry, HostArray):
            if entry.number not in program.arguments:
                _reject(
                    program,
                    "computes with a number that Python works out at each call",
                    "pass it as a tensor",
                )
            numbers.setdefault(entry.number, []).append(entry.value.name)
    return numbers


def _label(target: Any) -> str:
    return getattr(getattr(target, "owner", None), "name", "") or "a variable"


# ---------------------------------------------------------------------------------------------
# Arguments and results.


def _arguments(program: Program, numbers: dict[str, list[str]]) -> list[JSON]:
    """Returns the parameters with what each of them was, tensors by their names in the graph."""
    names = iter(program.arguments)

    def form(part: Part) -> Any:
        if part.kind in ("list", "tuple"):
            items = [form(item) for item in part.parts]
            return items if part.kind == "list" else _tagged("tuple", items)
        if part.kind == "dict":
            keys = [name for _, name in part.form[1]]
            return _dict_data(dict(zip(keys, map(form, part.parts), strict=True)))
        if part.kind in ("tensor", "array"):
            return _tagged("tensor", next(names))
        if part.kind == "number":
            return _tagged("number", numbers.get(next(names), []))
        if part.kind == "object":
            raise CannotBeSavedError(f"has the argument {part.path}, an object of {part}")
        return encode(part.value, lambda value: None)

    signature = program.signature
    parts = [(p.path, False, p) for p in signature.positional]
    parts += [(name, True, p) for name, p in signature.named.items()]
    return [{"name": name, "keyword": keyword, "of": form(part)} for name, keyword, part in parts]


def _result_data(value: object) -> JSON | None:
    if type(value) is ResultTensor:
        return _tagged("output", value.position)
    if type(value) is ResultItems:
        if isinstance(value.template, dict):
            return encode(dict(zip(value.template, value.items, strict=True)), _result_data)
        items = [encode(item, _result_data) for item in value.items]
        return items if isinstance(value.template, list) else _tagged("tuple", items)
    if type(value) is HostNumber:
        raise CannotBeSavedError("returns a number that Python works out at each call")
    return None
