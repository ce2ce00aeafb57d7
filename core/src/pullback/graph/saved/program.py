"""Loads programs that `Program.save` wrote, and runs them without the code they were made of."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from pullback import errors
from pullback._array_files import (
    Array,
    LaterVersion,
    check_description,
    mapping,
    opened,
    read_arrays,
    unsealed,
)
from pullback._dispatch.convert import from_any
from pullback._dispatch.recording import CONSTANT, LOCAL, RECORDING
from pullback._replacing import actual, as_path
from pullback._symbols import HostNumber
from pullback._tree import leaves
from pullback.devices import Device, as_device
from pullback.graph import joint
from pullback.graph.call_graph import run_ops
from pullback.graph.control import vjp
from pullback.graph.graph import Call, Graph
from pullback.graph.host import array_of
from pullback.graph.passes.simplify import simplify
from pullback.graph.running import function_of
from pullback.graph.saved.data_form import (
    ARRAYS,
    FORMAT,
    JSON,
    PROGRAM,
    VERSION,
    called,
    decode,
    graph_of,
)
from pullback.graph.signature import equal
from pullback.graph.trace import Trace
from pullback.tensor import Tensor, wrap

# They define what graphs call beside the ops of the table.
assert vjp
assert joint

__all__ = ["LoadedProgram", "load_program"]

#: The number of attempts to read a folder that changes.
_PATIENCE = 100


class LoadedProgram:
    """A program from a folder. Made by `pullback.load_program`; call it like the function."""

    #: Its arrays are those of the folder.
    opaque_state = True

    def __init__(
        self, name: str, parameters: list[Parameter], graph: Graph, result: Callable[..., Any]
    ) -> None:
        self.name = name
        #: The saved graph. Its kernels are found at the first call.
        self.graph = graph
        self.device = graph.device
        self._inputs = {entry.value.name: entry.value for entry in graph.inputs}
        self._binding = Binding(name, parameters, self._describe)
        self._result = result
        self._lock = threading.Lock()
        #: The program for the device, and `changes` of its backend when it was made.
        self._run: Callable[..., Sequence[Any]] | None = None
        self._changes = -1

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Runs the program.

        Raises:
            InputTypeError: for other arguments than those it was saved for.
            InputValueError: for another value in place of a number or a text.
            ShapeError: for a tensor of another shape.
            DTypeError: for a tensor of another dtype.
            DeviceError: for a tensor on another device.
        """
        found: dict[str, Tensor] = {}
        for path, leaf, value in self._binding(args, kwargs):
            for name in leaf.names:
                found[name] = self._tensor(path, leaf, name, value)
        inputs = [found[name] for name in self._inputs]
        outputs: Sequence[Tensor]
        state = LOCAL.state
        if RECORDING.count and (state.recording or state.capture is not None):
            outputs = self._call_by_call(inputs)
        else:
            outputs = self._compiled(inputs)
        return self._result(outputs)

    def __repr__(self) -> str:
        return f"<saved program {self.name}({self._binding}) on {self.device}>"

    def _describe(self, name: str) -> str:
        return repr(self._inputs[name]).partition(": ")[2]

    def _tensor(self, path: str, leaf: ParameterLeaf, name: str, value: Any) -> Tensor:
        expected = self._inputs[name]
        dtype = self.device.backend.public_dtypes[expected.dtype]
        if leaf.kind == "number":
            if type(value) is HostNumber and value.host is not None:
                number: Tensor = value.host.number_as_tensor(value, dtype)
                return number
            if not isinstance(value, (int, float)) or isinstance(value, bool):
                raise errors.InputTypeError(
                    f"{path} of the saved program {self.name} must be a float, got {value!r}"
                )
            return wrap(array_of(float(value), dtype, self.device), self.device)
        tensor = from_any(value, None, None if hasattr(value, "_device") else self.device)
        of = f"{path} of the saved program {self.name} must be {self._describe(name)}"
        if tensor.shape != expected.shape:
            raise errors.ShapeError(
                f"{of}, got the shape {list(tensor.shape)}; a program is for the shapes that it "
                f"was saved with: save one for each, with f.lower(...).save(folder)"
            )
        if tensor.dtype != dtype:
            raise errors.DTypeError(f"{of}, got {tensor.dtype}; write x.astype({str(dtype)!r})")
        if tensor._device is not self.device and LOCAL.state.capture is None:
            raise errors.DeviceError(
                f"{path} is on {tensor.device}, and the saved program {self.name} on "
                f"{self.device}; write x.to({str(self.device)!r}), or load the program with "
                f"pb.load_program(folder, device={str(tensor.device)!r})"
            )
        return tensor

    def _compiled(self, inputs: list[Tensor]) -> list[Tensor]:
        if self._changes != self.device.backend.changes:
            with self._lock:
                # Another thread may have made it meanwhile.
                if self._changes != self.device.backend.changes:
                    return self._trace(inputs)
        run = self._run
        if run is None:
            return self._call_by_call(inputs)
        try:
            arrays = run(*[tensor._array for tensor in inputs])
        except Exception:
            # Op by op the error is the one that the op explains.
            return self._call_by_call(inputs)
        node = CONSTANT if RECORDING.count else None
        return [wrap(array, self.device, node) for array in arrays]

    def _trace(self, inputs: list[Tensor]) -> list[Tensor]:
        """Runs the calls one by one, and makes a program of the kernels that they come to."""
        changes = self.device.backend.changes
        trace = Trace(self.device)
        arguments = [trace.argument(t._array, f"x{i}") for i, t in enumerate(inputs)]
        try:
            outputs = self._call_by_call(arguments, trace.device)
        finally:
            trace.close()
        self._run = None
        if trace.sound:
            graph = trace.graph([tensor._array.value for tensor in outputs])
            self._run = function_of(simplify(graph), self.name)
        self._changes = changes
        return [wrap(tensor._array.array, self.device) for tensor in outputs]

    def _call_by_call(self, inputs: Sequence[Tensor], device: Device | None = None) -> list[Tensor]:
        """The outputs, by calls of ops: tapes and traces record them."""
        return run_ops(self.graph, inputs, device, self._called)

    def _called(
        self, call: Call, inputs: list[Any], attributes: Mapping[str, Any], hidden: bool
    ) -> Sequence[Tensor]:
        op = call.op
        if hidden and LOCAL.state.recording:
            raise errors.NotDifferentiableError(
                f"the saved program {self.name} computes gradients with {op.name} itself, so a "
                f"tape cannot record it; call it while no tape records"
            )
        try:
            results = called(op, inputs, attributes, hidden=hidden)
        except errors.PullbackError as error:
            if call.origin:
                error.add_note(f"in the saved program {self.name}: called at {call.origin}")
            raise
        except Exception as error:
            raise self._damaged(call, str(error)) from error
        for value, result in zip(call.results, results, strict=False):
            if not isinstance(result, Tensor):
                raise self._damaged(call, f"the result is {type(result).__name__}")
            array = result._array
            if tuple(array.shape) != value.shape or array.dtype != value.dtype:
                raise self._damaged(call, f"the result is {result.dtype}{list(result.shape)}")
        return results

    def _damaged(self, call: Call, reason: str) -> errors.CheckpointError:
        return errors.CheckpointError(
            f"the saved program {self.name} cannot call {call}: {reason}; save it again"
        )


def load_program(
    folder: str | os.PathLike[str], *, device: str | Device | None = None
) -> LoadedProgram:
    """Loads a program that was saved with `pb.function(f).lower(...).save(folder)`.

    It needs none of the code that it was made of, and runs on any backend: kernels are found at the
    first call, and an op that a backend has no kernel for runs as the ops of its body. It is for
    arguments of the shapes and dtypes that it was saved for; tapes record it. Nothing in the folder
    is run as code.

    Args:
        folder: the folder.
        device: the device to run on; by default the active one.

    Returns:
        The program, to be called like the function. Arguments that were numbers or texts may be
        left out.

    Raises:
        CheckpointError: if it is missing, damaged, of a later version, or needs an op or a dtype
            that is not here.

    >>> import tempfile
    >>> kernel = pb.Variable([[1.0], [2.0]])
    >>> folder = tempfile.mkdtemp()
    >>> pb.function(lambda x: x @ kernel).lower(pb.ones((1, 2))).save(folder)
    >>> program = pb.load_program(folder)
    >>> program
    <saved program <lambda>(x: float32[1, 2]) on cpu:0>
    >>> program(pb.asarray([[3.0, 4.0]])).tolist()
    [[11.0]]
    """
    path = as_path(folder, "folder")
    target = as_device(device)
    try:
        content, arrays = _read(path)
        return program_of(content, arrays, target)
    except OSError as error:
        raise errors.CheckpointError(
            f"there is no saved program {str(path)!r}: {error}; write one with "
            f"pb.function(f).lower(...).save(folder)"
        ) from None
    except LaterVersion as error:
        raise errors.CheckpointError(
            f"the saved program {str(path)!r} has version {error}, and this pullback reads up to "
            f"{VERSION}; upgrade it: pip install --upgrade pullback"
        ) from None
    except (ValueError, TypeError, OverflowError, RecursionError, MemoryError) as error:
        raise errors.CheckpointError(
            f"the saved program {str(path)!r} cannot be loaded: {error}; if it is damaged, save it "
            f"again"
        ) from error


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Array]]:
    """Reads the JSON and the arrays of a folder, which others may replace meanwhile.

    Raises:
        OSError: if there is no program.
        ValueError: for files that are damaged.
    """
    for left in reversed(range(_PATIENCE)):
        at, moment = _seen(path)
        try:
            with opened(at / PROGRAM) as file:
                data = file.read()
            content = unsealed(data, FORMAT, VERSION)
            descriptions = mapping(content.get("arrays"), "arrays")
            for name, description in descriptions.items():
                check_description(name, description)
            return content, read_arrays([at / ARRAYS], descriptions)
        except (OSError, ValueError):
            is_missing = moment is None and not os.path.isdir(at)
            if not left or (_seen(path) == (at, moment) and (moment or is_missing)):
                raise
    raise AssertionError("unreachable")


def _seen(path: Path) -> tuple[Path, tuple[int, ...] | None]:
    """Returns where a program is, and what differs if another takes its place; None for none."""
    at = actual(path)
    try:
        status = os.stat(at / PROGRAM)
    except (OSError, ValueError):
        return at, None
    return at, (status.st_ino, status.st_mtime_ns, status.st_ctime_ns)


def program_of(
    content: Mapping[str, Any], arrays: Mapping[str, Array], device: Device
) -> LoadedProgram:
    """Returns the program of JSON and arrays.

    Raises:
        ValueError: for JSON of another form; names the fault.
    """
    name = content.get("name")
    if type(name) is not str or content.keys() - {"arrays"} != {
        "name", "arguments", "graph", "result",
    }:  # fmt: skip
        raise ValueError("it lacks its name, its arguments, its graph or its result")
    graph = graph_of(content["graph"], arrays, device)
    parameters = parameters_of(content["arguments"])
    of_arguments = [n for p in parameters for leaf in p.leaves for n in leaf.names]
    if sorted(of_arguments) != sorted(entry.value.name for entry in graph.inputs):
        raise ValueError("its arguments are not the inputs of its graph")
    return LoadedProgram(name, parameters, graph, _result_of(content["result"], graph))


def _result_of(data: JSON, graph: Graph) -> Callable[[Sequence[Tensor]], Any]:
    """Returns what makes the result of the outputs of a run."""
    count = len(graph.outputs)

    def checked(position: JSON) -> None:
        if type(position) is not int or not 0 <= position < count:
            raise ValueError(f"its result has the output {position!r}, and there are {count}")

    decode(data, {"output": checked})

    def result(outputs: Sequence[Tensor]) -> Any:
        return decode(data, {"output": outputs.__getitem__})

    return result


# Arguments ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ParameterLeaf:
    """An argument that differs from call to call: a tensor, or a float.

    `names` are the inputs of the graph that it is: one for a tensor, one for each dtype in which a
    float is used.
    """

    kind: str
    names: tuple[str, ...]


class Parameter(NamedTuple):
    """A parameter, and what was passed for it: leaves in a structure of constants."""

    name: str
    keyword: bool
    form: Any

    @property
    def leaves(self) -> list[ParameterLeaf]:
        """The parts that differ from call to call; a parameter without any may be left out."""
        return [leaf for leaf in leaves(self.form) if type(leaf) is ParameterLeaf]


def parameters_of(data: JSON) -> list[Parameter]:
    """Returns the parameters of a saved program from JSON.

    Raises:
        ValueError: for JSON of another form; names the fault.
    """
    if not isinstance(data, list):
        raise ValueError("its arguments are not a list")
    found: list[Parameter] = []
    for entry in data:
        entry = mapping(entry, "an argument")
        if entry.keys() != {"name", "keyword", "of"} or type(entry["keyword"]) is not bool:
            raise ValueError("an argument lacks its name, its form or its value")
        if type(entry["name"]) is not str or entry["name"] in [each.name for each in found]:
            raise ValueError(f"the name of an argument is {entry['name']!r}")
        form = decode(entry["of"], {"tensor": _tensor, "number": _number})
        found.append(Parameter(entry["name"], entry["keyword"], form))
    return found


def _tensor(value: JSON) -> ParameterLeaf:
    if type(value) is not str:
        raise ValueError(f"an argument is the input {value!r}")
    return ParameterLeaf("tensor", (value,))


def _number(value: JSON) -> ParameterLeaf:
    if not isinstance(value, list) or not all(type(name) is str for name in value):
        raise ValueError(f"an argument is the inputs {value!r}")
    return ParameterLeaf("number", tuple(value))


class Binding:
    """Finds the tensors and floats among the arguments of a call.

    Args:
        name: the name of the program, for messages.
        parameters: the parameters.
        describe: the shape and dtype of an input by its name, as a text.
    """

    def __init__(
        self, name: str, parameters: list[Parameter], describe: Callable[[str], str]
    ) -> None:
        self._name = name
        self._parameters = parameters
        self._describe = describe

    def __str__(self) -> str:
        return ", ".join(f"{p.name}: {self._text(p.form)}" for p in self._parameters)

    def _text(self, form: object) -> str:
        if type(form) is ParameterLeaf:
            return "float" if form.kind == "number" else self._describe(form.names[0])
        if isinstance(form, (list, tuple)):
            text = ", ".join(map(self._text, form))
            return f"[{text}]" if isinstance(form, list) else f"({text})"
        if isinstance(form, dict):
            return "{" + ", ".join(f"{k!r}: {self._text(v)}" for k, v in form.items()) + "}"
        return repr(form)

    def __call__(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> list[tuple[str, ParameterLeaf, Any]]:
        """The path, the leaf and the value of each tensor and float.

        Raises:
            InputTypeError: for other arguments than those of the program.
            InputValueError: for another value in place of a constant.
        """
        given = dict(kwargs)
        positional = [p.name for p in self._parameters if not p.keyword]
        for name, value in zip(positional, args, strict=False):
            if name in given:
                self._reject(f"got {name} twice")
            given[name] = value
        if len(args) > len(positional):
            self._reject(f"got {len(args)} positional arguments")
        found: list[tuple[str, ParameterLeaf, Any]] = []
        for parameter in self._parameters:
            if parameter.name in given:
                self._match(parameter.form, given.pop(parameter.name), parameter.name, found)
            elif parameter.leaves:
                self._reject(f"{parameter.name} is missing")
        if given:
            self._reject(f"got {', '.join(given)} as well")
        return found

    def _reject(self, problem: str) -> NoReturn:
        raise errors.InputTypeError(f"the saved program {self._name} takes ({self}); {problem}")

    def _match(
        self, form: object, value: object, path: str, found: list[tuple[str, ParameterLeaf, Any]]
    ) -> None:
        if type(form) is ParameterLeaf:
            found.append((path, form, value))
        elif isinstance(form, (list, tuple)):
            kind = list if isinstance(form, list) else tuple
            if not isinstance(value, kind) or len(value) != len(form):
                self._reject(f"{path} must be a {kind.__name__} of {len(form)}")
            for i, (item, part) in enumerate(zip(form, value, strict=True)):
                self._match(item, part, f"{path}[{i}]", found)
        elif isinstance(form, dict):
            if not isinstance(value, dict) or value.keys() != form.keys():
                self._reject(f"{path} must be a dict with the keys {[*form]}")
            for key, item in form.items():
                self._match(item, value[key], f"{path}[{key!r}]", found)
        elif not equal(value, form):
            raise errors.InputValueError(
                f"{path} of the saved program {self._name} must be {form!r}, got {value!r}; the "
                f"value is a part of the program, so save one for each value"
            )
