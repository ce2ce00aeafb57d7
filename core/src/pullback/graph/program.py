"""Programs: a captured function as generated code, for the calls that its guards let in."""

from __future__ import annotations

import itertools
import keyword
import operator
import os
from collections.abc import Callable
from types import BuiltinMethodType, FunctionType
from typing import Any, TypeGuard, cast

import numpy as np

from pullback import dtypes
from pullback._codegen.source import Source, tuple_of
from pullback._dispatch.convert import from_any
from pullback._dispatch.recording import CONSTANT, LOCAL, RECORDING, may_record
from pullback._settings import SETTINGS
from pullback._symbols import HostNumber, SharedCount
from pullback.devices import as_device
from pullback.graph.capture import Capture
from pullback.graph.direct import direct_program
from pullback.graph.emit import (
    Early,
    Emitted,
    Explained,
    InPlace,
    Returned,
    emit_explained,
    write_explained,
)
from pullback.graph.graph import AttributeEntry, Draw, Graph, Handle, HostArray, State, Value
from pullback.graph.host import (
    Guard,
    array_of,
    contents,
    host_array_of,
    is_by_identity,
    kind_of_value,
    replace,
    same,
)
from pullback.graph.joint import Derivative, Joint
from pullback.graph.parameters import ABSENT
from pullback.graph.passes.simplify import lowered, simplify
from pullback.graph.running import (
    Compiled,
    changed,
    compiled,
    early_writes,
    ready,
    updates_in_place,
    write_compiled,
)
from pullback.graph.saved.data_form import save
from pullback.graph.signature import (
    ArgumentCode,
    Signature,
    equal,
    parameters_of,
    refilled,
)
from pullback.tensor import Tensor, new_tensor

#: The number of items of a list, or keys and values of a dict, that code compares one by one.
UNROLLED = 8
#: What a program returns for a call that it is not made for.
MISS = object()


def no_other(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Returns MISS: what generated code does with a call that it is not made for."""
    return MISS


class Program:
    """The code for calls of one kind.

    Args:
        signature: the arguments that it is made for.
        guards: what else must be as it was.
        capture: the capture, which has ended.
        results: what the function returned, and what each list and dict of `changes` holds then.
        changes: the lists and dicts among the arguments that the function has changed.
        arguments: the value in the graph of each tensor, array and promoted float.
        derivative: the backward pass, for a program that a tape outside records.
    """

    def __init__(
        self,
        signature: Signature,
        guards: list[Guard],
        capture: Capture,
        results: list[object],
        changes: list[str],
        arguments: list[str],
        derivative: Derivative | None = None,
    ) -> None:
        self.name = capture.function_name
        self.signature = signature.without_values()
        self.arguments = tuple(arguments)
        self.guards = guards
        #: Why it was made, beside others, and how long that took.
        self.reason = ""
        self.seconds = 0.0
        #: What the function changes that it reads: a run would not.
        self.overwrites: list[str] = []
        #: What the traced call has asked the outer world, such as the clock.
        self.outer: list[str] = []
        #: Programs are numbered in the order in which they are made.
        self.number = 0
        self.changes = changes
        returned = Returned(capture, results)
        self.joint: Joint | None = None
        if derivative is None:
            self.graph: Graph = simplify(capture.graph_of(returned.outputs))
        else:
            self.joint = Joint(capture, returned.outputs, derivative)
            self.graph = self.joint.graph
        self.result = returned.structure.items[0]
        self.numbers = tuple(capture.numbers)
        low = lowered(self.graph)
        whole = compiled(low, capture.function_name, emit_explained)
        #: The graph as the backend has compiled it; None where its calls run one by one.
        self.compiled = whole if isinstance(whole, Compiled) else None
        #: Why it has not; empty for a backend that compiles no graphs.
        self.not_compiled = whole if isinstance(whole, str) else ""
        #: What runs: the graph; where its calls run one by one, with calls of fused kernels.
        self.fused = low if self.compiled is not None else ready(low)
        writer = ProgramWriter(self, signature, capture, returned, arguments)
        self.run: FunctionType = writer.written()
        #: Makes what a call runs in place of the code; None where nobody does.
        self.direct = writer.direct()
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
        return [guard for guard in self.guards if not guard.holds()]

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


class KnownSettings:
    """The settings that a program is made for: the device, default dtypes, the backend's kernels.

    Args:
        capture: the capture, which has ended.
    """

    __slots__ = ("_backend", "_changes", "_device", "_float", "now")

    def __init__(self, capture: Capture) -> None:
        #: The mark of the time for which they are known not to differ.
        self.now = object()
        self._backend = capture.real_device.backend
        self._changes = capture.kernel_changes
        self._device = as_device()
        self._float = dtypes.DEFAULT_FLOAT  # the others follow it

    def differ(self) -> bool:
        """Returns whether any of them is another one now, in this thread."""
        now = SETTINGS.now
        if (
            self._backend.changes != self._changes
            or as_device() is not self._device
            or dtypes.DEFAULT_FLOAT is not self._float
        ):
            return True
        if now is not None:
            self.now = now
        return False


def ARGUMENT(value: float) -> float:
    """The function of a number that is an argument."""
    return value


class ProgramWriter:
    """Writes the code of a program: a method for each of its sections, in their order.

    Args:
        program: the program, with all but its code.
        signature: the arguments of the traced call.
        capture: the capture.
        returned: what the function returned.
        names: the value in the graph of each tensor, array and number among the arguments.
    """

    def __init__(
        self,
        program: Program,
        signature: Signature,
        capture: Capture,
        returned: Returned,
        names: list[str],
    ) -> None:
        device = capture.real_device
        self._source = Source(
            "program",
            parameters_of(signature),
            {
                "ABSENT": ABSENT, "recorded": SharedCount(), "missed": no_other,
                "Tensor": Tensor, "ndarray": np.ndarray, "equal": equal, "same": same,
                "new_tensor": new_tensor,
                "RECORDING": RECORDING, "CONSTANT": CONSTANT, "SETTINGS": SETTINGS,
                "device": device, "LOCAL": LOCAL,
                "array_of": array_of, "host_array_of": host_array_of,
                "from_any": from_any, "may_record": may_record, "refilled": refilled,
                "replace": replace,
            },
        )  # fmt: skip
        self._program, self._capture, self._returned = program, capture, returned
        self._graph, self._names = program.fused, names
        self._early: dict[Value, list[State]] = {}
        self._same = signature.parameters
        self._known = KnownSettings(capture)
        self._signature = signature
        self._code = ArgumentCode(self._source, signature)
        self._miss_if = self._code.unless_not

    def written(self) -> FunctionType:
        """The code: what must be as it was, what it reads, the calls, what it changes."""
        joint = self._program.joint
        self._check_changed()
        self._check_settings()
        self._check_guards()
        if joint is not None:
            self._check_tape(joint)
        self._take_arguments()
        self._compute_numbers()
        self._read_inputs()
        emitted = self._call()
        count = len(self._returned.outputs)
        self._write_variables(emitted)
        for i, text in enumerate(emitted.outputs[:count]):
            self._make_tensor(f"t{i}", text)
        self._call_after()
        if joint is not None:
            self._attach_node(joint, emitted.outputs[count:])
        self._return()
        explain = Explained(self._graph, self._capture.real_device, emitted.calls)
        self._source.names["explain"] = explain
        run = self._source.compile(f"captured {self._capture.function_name}", keep=True)
        return run if self._same is None else self._same.named(run)

    def direct(self) -> Callable[[Callable[..., Any]], Callable[..., Any]] | None:
        """The maker of direct calls, for a program that changes nothing, if the backend has one."""
        program, graph = self._program, self._graph
        if (
            program.compiled is not None
            or program.numbers
            or program.changes
            or program.joint is not None
            or graph.writes
            or graph.after
        ):
            return None
        return direct_program(
            graph, self._signature, self._names, program.guards, self._known, self._returned
        )

    # What must be as it was ----------------------------------------------------------------------

    def _check_changed(self) -> None:
        """Checks that what the function changes is given once."""
        containers = self._code.containers.values()
        if self._program.changes:
            identities = ", ".join(f"id({name})" for name in containers)
            self._miss_if(f"len({{{identities}}}) != {len(containers)}")

    def _check_settings(self) -> None:
        settings = self._source.constant(self._known)
        self._miss_if(
            f"recorded.count or SETTINGS.now is not {settings}.now and {settings}.differ()"
        )

    def _check_guards(self) -> None:
        """One test of all guards: to compile many takes twice as long."""
        source, tests = self._source, [*map(self._guard_test, self._program.guards)]
        if not tests:
            return
        with source.block("try:"):
            source.line(f"if ({tests[0]}", *[f" or {test}" for test in tests[1:]])
            source.line("):", f"    {self._code.miss}")
        # Such as an attribute that has been deleted.
        source.line("except Exception:", f"    {self._code.miss}")

    def _guard_test(self, guard: Guard) -> str:
        """The test that a guard does not hold."""
        constant = self._source.constant
        function, arguments, value, _ = guard
        if function is contents and type(arguments[0]) in (list, dict):
            items = cast("tuple[Any, ...]", value)
            if len(items) <= UNROLLED:
                return self._items_test(arguments[0], items)
        if function is getattr and _is_name(arguments[1]):
            now = f"{constant(arguments[0])}.{arguments[1]}"
        elif function is operator.contains:
            now = f"({constant(arguments[1])} in {constant(arguments[0])})"
        elif function is kind_of_value and type(value) is type:
            now = f"type({constant(arguments[0])}.value)"
        elif value is not None and _is_get_of_dict(function) and len(arguments) == 1:
            # What is missing raises, and another program is looked for.
            now = f"{constant(function.__self__)}[{constant(arguments[0])}]"
        else:
            now = f"{constant(function)}({', '.join(map(constant, arguments))})"
        return self._other_test(now, value)

    def _other_test(self, now: str, value: object) -> str:
        """The test that an expression has another value than this one."""
        before = self._source.constant(value)
        if is_by_identity(value):
            return f"{now} is not {before}"
        return f"(now := {now}) is not {before} and not same(now, {before})"

    def _items_test(self, container: list[Any] | dict[Any, Any], items: tuple[Any, ...]) -> str:
        """The test of what is in a list or dict, faster one by one than as a tuple of it."""
        held = text = self._source.constant(container)
        if isinstance(container, dict):
            items = (*items[::2], *items[1::2])
            held, text = "held", f"held := (*{text}, *{text}.values())"
        test = [f"len({text}) != {len(items)}"]
        test += [self._other_test(f"{held}[{i}]", before) for i, before in enumerate(items)]
        return " or ".join(test)

    def _check_tape(self, joint: Joint) -> None:
        """Checks that the tape outside sees what it saw when the program was made."""
        constant = self._source.constant
        self._source.line("tape = LOCAL.state.tapes[0]")
        self._miss_if(f"tape.watch_accessed_variables is not {joint.derivative.accessed}")
        # By their paths: one tensor may be given for two parameters.
        tracked = {part.path for part in joint.derivative.arguments}
        for part, name in self._code.leaves:
            if part.kind == "tensor":
                node = f"{name.removesuffix('_array')}._node"
                self._miss_if(f"may_record({node}) is not {part.path in tracked}")
        sources = {id(variable) for variable in joint.variables}
        for entry in joint.graph.inputs:
            if isinstance(entry, Handle):
                self._miss_if(f"may_record({constant(entry.tensor)}._node)")
            elif isinstance(entry, State) and id(entry.owner) not in sources:
                self._miss_if(f"{id(entry.owner)} in tape._leaves")

    # What it reads -------------------------------------------------------------------------------

    def _take_arguments(self) -> None:
        for (part, name), value in zip(self._code.leaves, self._names, strict=True):
            if part.kind == "array":
                # As the conversion of a NumPy array: the caller may change it later.
                self._source.line(f"{value} = from_any({name}, None, device)._array")
            else:
                self._source.line(f"{value} = {name}")

    def _compute_numbers(self) -> None:
        """Numbers, and their arrays, which may stay on the host as those of NumPy.

        Where they are of another type than in the trace, or out of the range of a dtype, the call
        runs op by op: it has another result, or the error of an op.
        """
        source, program = self._source, self._program
        numbers = [number for number in program.numbers if number.function is not ARGUMENT]
        arrays = [entry for entry in self._graph.inputs if isinstance(entry, HostArray)]
        if not numbers and not arrays:
            return
        with source.block("try:"):
            for number in numbers:
                texts = list(map(self._argument, number.arguments))
                text = f"{source.constant(number.function)}({', '.join(texts)})"
                if number.function is getattr:
                    text = f"{texts[0]}.{number.arguments[1]}"
                name = number.result.name
                source.line(f"{name} = {text}")
                if number.function is operator.pow:  # 2 ** -1 is a float, (-1) ** 0.5 is complex
                    kind = source.constant(type(number.result.value))
                    source.line(f"if type({name}) is not {kind}:", "    raise TypeError")
            for entry in arrays:
                dtype, made = source.constant(entry.dtype), "array_of({}, {}, device)"
                if program.compiled is not None:
                    made = "host_array_of({}, {})"
                source.line(f"{entry.value.name} = {made.format(entry.number, dtype)}")
        source.line(
            "except Exception:", f"    return eagerly({self._code.args}, {self._code.kwargs})"
        )

    def _argument(self, value: object) -> str:
        return value.name if type(value) is HostNumber else self._source.constant(value)

    def _read_inputs(self) -> None:
        """Inputs that are neither arguments nor numbers."""
        constant, line = self._source.constant, self._source.line
        for entry in self._graph.inputs:
            name = entry.value.name
            if isinstance(entry, State):
                line(f"{name} = {constant(entry.owner)}._array")
            elif isinstance(entry, AttributeEntry):
                line(f"{name} = {constant(entry.owner)}.{entry.name}._array")
            elif isinstance(entry, Handle):
                line(f"{name} = {constant(entry.tensor)}._array")
            elif isinstance(entry, Draw) and entry.part == "key":
                counter = name.removesuffix("key") + "counter"
                line(f"{name}, {counter} = {constant(entry.generator.reserve)}({entry.words})")

    # The calls -----------------------------------------------------------------------------------

    def _call(self) -> Emitted:
        whole = self._program.compiled
        if whole is not None:
            return write_compiled(self._source, self._graph, whole)
        self._early = early_writes(self._graph)
        return write_explained(self._source, self._graph, self._early_texts())

    def _early_texts(self) -> Early:
        """The writes that the program makes while it runs, as text."""
        graph, constant = self._graph, self._source.constant
        targets = {
            value: [f"{constant(state.owner)}._array" for state in states]
            for value, states in self._early.items()
        }
        updates = {}
        for i, update in updates_in_place(graph, self._early).items():
            call = graph.calls[i]
            owners = [constant(self._early[value][0].owner) for value in call.results]
            updates[i] = InPlace(update, dict(zip(changed(call), owners, strict=True)))
        return Early(targets, updates)

    # What it changes, and returns ----------------------------------------------------------------

    def _write_variables(self, emitted: Emitted) -> None:
        source = self._source
        source.line("node = CONSTANT if RECORDING.count else None")
        for i, text in enumerate(emitted.after):
            self._make_tensor(f"u{i}", text)
        for (target, value), text in zip(self._graph.writes, emitted.writes, strict=True):
            assert isinstance(target, State)
            if value not in self._early:
                source.line(f"{source.constant(target.owner)}._array = {text}")

    def _make_tensor(self, name: str, array: str) -> None:
        self._source.line(
            f"{name} = new_tensor()",
            f"{name}._array = {array}",
            f"{name}._device = device",
            f"{name}._base = None",
            f"{name}._node = node",
        )

    def _call_after(self) -> None:
        """Functions that are called when the writes are done, and attributes that are set."""
        tensors = itertools.count()
        for function, arguments in self._graph.after:
            parts = [
                f"u{next(tensors)}" if isinstance(argument, Value) else self._argument(argument)
                for argument in arguments
            ]
            if function is setattr:
                self._source.line(f"{parts[0]}.{arguments[1]} = {parts[2]}")
            else:
                self._source.line(f"{self._source.constant(function)}({', '.join(parts)})")

    def _attach_node(self, joint: Joint, saved: list[str]) -> None:
        """The call that gives the results their node."""
        constant = self._source.constant
        names = {part.path: name.removesuffix("_array") for part, name in self._code.leaves}
        nodes = [f"{names[part.path]}._node" for part in joint.derivative.arguments]
        nodes += [f"tape.leaf_of({constant(v)}, True)" for v in joint.variables]
        results = [f"t{position}" for position in joint.positions]
        attach = constant(joint.op.attach)
        self._source.line(f"{attach}({tuple_of(nodes)}, {tuple_of(results)}, {tuple_of(saved)})")

    def _return(self) -> None:
        source, returned = self._source, self._returned
        result, *changes = (returned.text(source, each) for each in returned.structure.items)
        for path, text in zip(self._program.changes, changes, strict=True):
            source.line(f"replace({self._code.containers[path]}, {text})")
        source.line(f"return {result}")


def _is_get_of_dict(function: Any) -> TypeGuard[BuiltinMethodType]:
    owner = getattr(function, "__self__", None)
    return type(owner) is dict and function.__name__ == "get"


def _is_name(text: Any) -> bool:
    """Returns whether generated code may have an attribute of this name after a dot."""
    return text.isascii() and text.isidentifier() and not keyword.iskeyword(text)
