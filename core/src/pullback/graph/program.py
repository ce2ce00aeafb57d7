"""Programs: a captured function as generated code, for the calls that its guards let in."""

from __future__ import annotations

import itertools
import keyword
import operator
import os
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from pullback import dtypes
from pullback._codegen.source import Source, tuple_of
from pullback._dispatch.convert import from_any
from pullback._dispatch.recording import CONSTANT, LOCAL, RECORDING, SETTINGS, may_record
from pullback._symbols import HostNumber
from pullback.devices import as_device
from pullback.graph.compiled import Compiled, compiled, write_compiled
from pullback.graph.emit import Early, InPlace
from pullback.graph.explain import Explained, emit_explained, write_explained
from pullback.graph.graph import AttributeEntry, Draw, Entry, Graph, Handle, HostArray, State, Value
from pullback.graph.guards import Unset
from pullback.graph.host import Guard, array_of, host_array_of, replace, same
from pullback.graph.joint import Derivative, Joint
from pullback.graph.passes.prepare import prepare
from pullback.graph.passes.regions import fuse
from pullback.graph.passes.simplify import simplify
from pullback.graph.passes.updates import (
    changed,
    early_writes,
    updates_in_place,
    updates_last,
)
from pullback.graph.record import Recorder
from pullback.graph.returned import Returned
from pullback.graph.saved.save import save
from pullback.graph.signature import ArgumentCode, Part, Signature, equal, refilled
from pullback.tensor import Tensor

#: What a program returns for a call that it is not made for.
MISS = object()


class Program:
    """The code for calls of one kind.

    Args:
        signature: the arguments that it is made for.
        guards: what else must be as it was.
        layers: the same of attributes of layers.
        recorder: the trace, which has ended.
        results: what the function returned, and what each list and dict of `changes` holds then.
        changes: the lists and dicts among the arguments that the function has changed.
        arguments: the value in the graph of each tensor, array and promoted float.
        derivative: the backward pass, for a program that a tape outside records.
    """

    def __init__(
        self,
        signature: Signature,
        guards: list[Guard],
        layers: list[Guard],
        recorder: Recorder,
        results: list[object],
        changes: list[str],
        arguments: list[str],
        derivative: Derivative | None = None,
    ) -> None:
        self.name = recorder.function_name
        self.signature = signature.without_values()
        self.arguments = tuple(arguments)
        self.guards, self.layers = guards, Unset(layers)
        #: Why it was made, beside others, and how long that took.
        self.reason = ""
        self.seconds = 0.0
        #: Programs are numbered in the order in which they are made.
        self.number = 0
        self.changes = changes
        returned = Returned(recorder, results)
        self.recorded_calls = len(recorder._calls)
        # Calls that were made unlike by an identity element are found alike the second time.
        self.joint: Joint | None = None
        if derivative is None:
            self.graph: Graph = simplify(simplify(recorder.graph_of(returned.outputs)))
        else:
            self.joint = Joint(recorder, returned.outputs, derivative)
            self.graph = self.joint.graph
        self.result = returned.structure.items[0]
        self.numbers = tuple(recorder.numbers)
        whole = compiled(self.graph, recorder.function_name, emit_explained)
        #: The graph as the backend has compiled it; None where its calls run one by one.
        self.compiled = whole if isinstance(whole, Compiled) else None
        #: Why it has not; empty for a backend that compiles no graphs.
        self.not_compiled = whole if isinstance(whole, str) else ""
        #: What runs: the graph; where its calls run one by one, with calls of fused kernels.
        self.fused = self.graph
        if self.compiled is None:
            self.fused = prepare(updates_last(fuse(self.graph)))
        self.run: FunctionType = _compiled(self, signature, recorder, returned, arguments)
        self.joint = None  # it has the arguments of the traced call

    def fall_back_on(self, eagerly: Callable[[tuple[Any, ...], dict[str, Any]], Any]) -> None:
        """Sets what does a call op by op for whose numbers the program is not."""
        self.run.__globals__["eagerly"] = eagerly

    @property
    def about(self) -> str:
        """Why it was made, and who has compiled it, or why the backend has not."""
        whole = str(self.compiled or self.not_compiled)
        return f"{self.reason}; {whole}" if whole else self.reason

    def unmet(self) -> list[Guard]:
        """The guards that do not hold now."""
        return [guard for guard in (*self.guards, *self.layers.guards) if not guard.holds()]

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Saves the program and the arrays that it reads, for `pb.load_program`.

        A saved program computes results from its arguments: variables are saved with the values
        that they have now. It needs none of the code that it was made of.

        Args:
            folder: where to; an older program there is replaced.

        Raises:
            CaptureError: for a program that writes variables, draws random numbers, or has
                arguments of other kinds than tensors, arrays, numbers and texts.
            CheckpointError: for errors of the file system, and a folder that holds other files.
        """
        save(self, folder)

    def __str__(self) -> str:
        return f"for {self.signature}\n{self.fused}"

    def __repr__(self) -> str:
        return f"<program {self.name}({self.signature}) on {self.graph.device}>"


# ---------------------------------------------------------------------------------------------
# The code.


def _compiled(
    program: Program,
    signature: Signature,
    recorder: Recorder,
    returned: Returned,
    arguments: list[str],
) -> FunctionType:
    device, graph = recorder.real_device, program.fused
    source = Source(
        "program",
        "args, kwargs",
        {
            "MISS": MISS, "Tensor": Tensor, "ndarray": np.ndarray, "equal": equal, "same": same,
            "RECORDING": RECORDING, "SETTINGS": SETTINGS,
            "CONSTANT": CONSTANT, "device": device, "dtypes": dtypes,
            "backend": device.backend, "array_of": array_of, "host_array_of": host_array_of,
            "as_device": as_device, "from_any": from_any, "may_record": may_record, "LOCAL": LOCAL,
            "refilled": refilled, "replace": replace,
        },
    )  # fmt: skip
    code = ArgumentCode(source, signature)
    leaves = code.leaves
    if program.changes:
        identities = ", ".join(f"id({name})" for name in code.containers.values())
        source.line(f"if len({{{identities}}}) != {len(code.containers)}:", "    return MISS")
    source.line(
        f"if backend.changes != {recorder.kernel_changes} or as_device() is not "
        f"{source.constant(as_device())} or dtypes.DEFAULT_FLOAT is not "
        f"{source.constant(dtypes.DEFAULT_FLOAT)} or dtypes.DEFAULT_INT is not "
        f"{source.constant(dtypes.DEFAULT_INT)}:",
        "    return MISS",
    )
    with source.block("try:"):
        source.line("pass")
        for guard in program.guards:
            _write_guard(source, guard)
    # Such as an attribute that has been deleted.
    source.line("except Exception:", "    return MISS")
    if program.layers.guards:
        layers = source.constant(program.layers)
        source.line(
            f"if SETTINGS.count != {layers}.count and not {layers}.hold():", "    return MISS"
        )
    if program.joint is not None:
        _write_tape(source, leaves, program.joint)
    _write_arguments(source, leaves, arguments)
    _write_numbers(
        source, program, [entry for entry in graph.inputs if isinstance(entry, HostArray)]
    )
    for entry in graph.inputs:
        _write_input(source, entry)
    early: dict[Value, list[State]] = {}
    if program.compiled is None:
        early = early_writes(graph)
        written = write_explained(source, graph, _early(source, graph, early))
    else:
        written = write_compiled(source, graph, program.compiled)
    count = len(returned.outputs)
    outputs, saved = written.outputs[:count], written.outputs[count:]
    source.line("node = CONSTANT if RECORDING.count else None")
    for i, text in enumerate(written.after):
        _write_tensor(source, f"u{i}", text)
    for (target, value), text in zip(graph.writes, written.writes, strict=True):
        assert isinstance(target, State)
        if value in early:
            continue
        source.line(f"{source.constant(target.owner)}._array = {text}")
    for i, text in enumerate(outputs):
        _write_tensor(source, f"t{i}", text)
    _write_after(source, graph)
    if program.joint is not None:
        _write_node(source, leaves, program.joint, saved)
    result, *changes = (returned.text(source, each) for each in returned.structure.items)
    for path, text in zip(program.changes, changes, strict=True):
        source.line(f"replace({code.containers[path]}, {text})")
    source.line(f"return {result}")
    source.names["explain"] = Explained(graph, device, written.calls)
    return source.compile(f"captured {recorder.function_name}")


def _early(source: Source, graph: Graph, early: Mapping[Value, list[State]]) -> Early:
    """The writes that the program makes while it runs, as text."""
    targets = {
        value: [f"{source.constant(state.owner)}._array" for state in states]
        for value, states in early.items()
    }
    updates = {}
    for i, update in updates_in_place(graph, early).items():
        call = graph.calls[i]
        owners = [source.constant(early[value][0].owner) for value in call.results]
        updates[i] = InPlace(update, dict(zip(changed(call), owners, strict=True)))
    return Early(targets, updates)


def _is_name(text: Any) -> bool:
    """Returns whether generated code may have an attribute of this name after a dot."""
    return text.isascii() and text.isidentifier() and not keyword.iskeyword(text)


def _write_guard(source: Source, guard: Guard) -> None:
    function, arguments, value, _ = guard
    texts = [source.constant(argument) for argument in arguments]
    if function is getattr and _is_name(arguments[1]):
        now = f"{texts[0]}.{arguments[1]}"
    else:
        now = f"{source.constant(function)}({', '.join(texts)})"
    before = source.constant(value)
    if value is None or type(value) is bool:
        source.line(f"if {now} is not {before}:", "    return MISS")
    else:
        source.line(
            f"if (now := {now}) is not {before} and not same(now, {before}):", "    return MISS"
        )


def _write_arguments(source: Source, leaves: list[tuple[Part, str]], names: list[str]) -> None:
    for (part, name), value in zip(leaves, names, strict=True):
        if part.kind == "array":
            # As the conversion of a NumPy array: the caller may change it later.
            source.line(f"{value} = from_any({name}, None, device)._array")
        else:
            source.line(f"{value} = {name}")


def _write_tape(source: Source, leaves: list[tuple[Part, str]], joint: Joint) -> None:
    """Writes the test that the tape outside sees what it saw when the program was made."""
    accessed = joint.derivative.accessed
    source.line(
        "tape = LOCAL.state.tapes[0]",
        f"if tape.watch_accessed_variables is not {accessed}:",
        "    return MISS",
    )
    # By their paths: one tensor may be given for two parameters.
    tracked = {part.path for part in joint.derivative.arguments}
    for part, name in leaves:
        if part.kind == "tensor":
            node = f"{name.removesuffix('_array')}._node"
            source.line(f"if may_record({node}) is not {part.path in tracked}:", "    return MISS")
    sources = {id(variable) for variable in joint.variables}
    for entry in joint.graph.inputs:
        if isinstance(entry, Handle):
            source.line(f"if may_record({source.constant(entry.tensor)}._node):", "    return MISS")
        elif isinstance(entry, State) and id(entry.owner) not in sources:
            source.line(f"if {id(entry.owner)} in tape._leaves:", "    return MISS")


def _write_node(
    source: Source, leaves: list[tuple[Part, str]], joint: Joint, saved: list[str]
) -> None:
    """Writes the call that gives the results their node."""
    names = {part.path: name.removesuffix("_array") for part, name in leaves}
    nodes = [f"{names[part.path]}._node" for part in joint.derivative.arguments]
    nodes += [f"tape.leaf_of({source.constant(v)}, True)" for v in joint.variables]
    results = [f"t{position}" for position in joint.positions]
    attach = source.constant(joint.op.attach)
    source.line(f"{attach}({tuple_of(nodes)}, {tuple_of(results)}, {tuple_of(saved)})")


def _write_numbers(source: Source, program: Program, hosts: Sequence[HostArray]) -> None:
    """Writes the numbers, and their arrays, which may stay on the host as those of NumPy.

    Where they are of another type than in the trace, or out of the range of a dtype, the call runs
    op by op: it has another result, or the error of an op.
    """
    numbers = [number for number in program.numbers if number.function is not ARGUMENT]
    if not numbers and not hosts:
        return
    with source.block("try:"):
        for number in numbers:
            texts = [
                a.name if type(a) is HostNumber else source.constant(a) for a in number.arguments
            ]
            text = f"{source.constant(number.function)}({', '.join(texts)})"
            if number.function is getattr:
                text = f"{texts[0]}.{number.arguments[1]}"
            source.line(f"{number.result.name} = {text}")
            if number.function is operator.pow:  # 2 ** -1 is a float, (-1) ** 0.5 is complex
                kind = source.constant(type(number.result.value))
                source.line(f"if type({number.result.name}) is not {kind}:", "    raise TypeError")
        for entry in hosts:
            dtype, made = source.constant(entry.dtype), "array_of({}, {}, device)"
            if program.compiled is not None:
                made = "host_array_of({}, {})"
            source.line(f"{entry.value.name} = {made.format(entry.number, dtype)}")
    source.line("except Exception:", "    return eagerly(args, kwargs)")


def ARGUMENT(value: float) -> float:
    """The function of a number that is an argument."""
    return value


def _write_input(source: Source, entry: Entry) -> None:
    """Writes where an input comes from, if it is neither an argument nor a number."""
    name = entry.value.name
    if isinstance(entry, State):
        source.line(f"{name} = {source.constant(entry.owner)}._array")
    elif isinstance(entry, AttributeEntry):
        source.line(f"{name} = {source.constant(entry.owner)}.{entry.name}._array")
    elif isinstance(entry, Handle):
        source.line(f"{name} = {source.constant(entry.tensor)}._array")
    elif isinstance(entry, Draw) and entry.part == "key":
        counter = name.removesuffix("key") + "counter"
        reserve = source.constant(entry.generator.reserve)
        source.line(f"{name}, {counter} = {reserve}({entry.words})")


def _write_tensor(source: Source, name: str, array: str) -> None:
    source.line(
        f"{name} = Tensor()",
        f"{name}._array = {array}",
        f"{name}._device = device",
        f"{name}._base = None",
        f"{name}._node = node",
    )


def _write_after(source: Source, graph: Graph) -> None:
    tensors = itertools.count()
    for function, arguments in graph.after:
        parts = []
        for argument in arguments:
            if isinstance(argument, Value):
                parts.append(f"u{next(tensors)}")
            elif type(argument) is HostNumber:
                parts.append(argument.name)
            else:
                parts.append(source.constant(argument))
        if function is setattr:
            source.line(f"{parts[0]}.{arguments[1]} = {parts[2]}")
        else:
            source.line(f"{source.constant(function)}({', '.join(parts)})")
