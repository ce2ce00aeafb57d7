"""Records the trace of a captured function: its calls, and what it reads and writes outside.

Variables, generators, optimizers and metrics announce themselves to the trace that runs in their
thread (`pullback._dispatch.recording.capturing`). What they write is held back until the function
has returned, so that a trace which ends early has changed nothing.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from types import BuiltinFunctionType
from typing import Any, NamedTuple, NoReturn

import numpy as np

from pullback import errors
from pullback._dispatch.bodies import run_body
from pullback._dispatch.host_state import HostState
from pullback._dispatch.recording import (
    AMBIENT,
    CONSTANT,
    LOCAL,
    NO_TAPES,
    RECORDING,
    paused,
    reachable,
    tapes,
    uncaptured,
    unseen,
)
from pullback._symbols import TRACES, Apart, Break, DrawnInt, HostNumber
from pullback._tree import each
from pullback.devices import Device, as_device
from pullback.dtypes import DType
from pullback.graph.capture import Trace, Traced, TracedDevice, operand_of
from pullback.graph.changes import Changes, Held
from pullback.graph.composites import body_of
from pullback.graph.graph import (
    BARRIER,
    STOP_GRADIENT,
    Call,
    Draw,
    Graph,
    Handle,
    HostArray,
    State,
    Value,
)
from pullback.graph.host import Guard, Number, array_of, line_of_program
from pullback.graph.reads import Reads
from pullback.plugins.records import Kernel, Native
from pullback.spec import OPS, Op
from pullback.tensor import Tensor, wrap


class Recorder(Trace):
    """The trace of one call of a captured function.

    Args:
        device: the device on which the function runs.
        name: the function's name, for messages.
    """

    def __init__(self, device: Device, name: str) -> None:
        super().__init__(device)
        self.function_name = name
        self.real_device = device
        #: The trace in which this one is, as that of a branch.
        self.parent: Recorder | None = None
        self.kernel_changes = device.backend.changes
        self.numbers: list[Number] = []
        self.guards: dict[Any, Guard] = {}
        #: What the function reads outside.
        self.places = Reads()
        self.effects = Changes(self)
        self._ambient = [(owner, name, getattr(owner, name), what) for owner, name, what in AMBIENT]
        self._handles: dict[int, tuple[Tensor, Traced]] = {}
        self._host_arrays: dict[tuple[str, DType], Traced] = {}
        self._generators: dict[int, tuple[Any, tuple[int, int]]] = {}
        self._ended = False
        #: Nodes from this serial number on belong to a tape outside; None if none records.
        self.oldest_outside: int | None = None
        #: The name of a function with a gradient of its own that was called; "" for none.
        self.custom = ""
        #: What was traced, if arrays are to be taken out of it after the trace.
        self.traced: list[weakref.ref[Traced]] | None = None
        #: In a function that is called again: what it reads in place of what was there before, by
        #: the values in the graph, and the array that has to be there first.
        self._renewed: dict[Value, Traced] | None = None
        self._after: Traced | None = None
        #: What ended the trace early, also if the function has caught it.
        self.broken: Break | None = None

    def _new_device(self, real: Device) -> Device:
        device = TracedDevice()
        device.real = real
        return device

    # What is announced -------------------------------------------------------------------------

    def building(self, device: Device) -> Device:
        """The device that a layer makes its variables on, which ends the trace."""
        return device

    def reject_making(self, what: str, *, holds_values: bool) -> NoReturn:
        """Ends the trace, because something is made that stays."""
        raise Break(
            f"makes {what}",
            "make it before; layers and optimizers make theirs when they are first called",
            made=True,
        )

    def is_outside(self, device: Device) -> bool:
        """Returns whether a tensor on a device has to be lifted: it is none of a trace."""
        return not device.stands_on(self.device) and not isinstance(device.backend, Trace)

    def reject_reading(self) -> NoReturn:
        """Ends the trace, because values are read."""
        self._break("looks at the values of a tensor", "")

    def lift(self, tensor: Tensor) -> Tensor:
        """A tensor from outside, on the trace's device."""
        if tensor._device.stands_on(self.device):
            return tensor
        self.traced_device(tensor._device)
        if self.oldest_outside is not None:
            self._reject_recorded(tensor, self.oldest_outside)
        entry = self._handles.get(id(tensor))
        if entry is None:
            if not tensor._array.shape and self._is_number(tensor):
                traced = self._constant(tensor._array)
            else:
                traced = self._input(Handle, "h", tensor._array, tensor)
            entry = self._handles[id(tensor)] = (tensor, traced)
        # The node is that of now: a tape in the function may have begun to watch the tensor.
        return wrap(entry[1], self.device, tensor._node)

    def _is_number(self, tensor: Tensor) -> bool:
        """Returns whether dispatch keeps a tensor for a Python number: it is a constant."""
        tables = [self.real_device.constants, *(op.scalars for op in OPS.values())]
        return any(tensor is kept for table in tables for kept in list(table.values()))

    def stop_gradient(self, tensor: Tensor) -> Tensor:
        """The tensor as a constant for all tapes.

        Where the graph may be differentiated later, a call says so.
        """
        array = self.lift(tensor)._array
        if self.is_differentiated:
            array = self._run(STOP_GRADIENT, _unchanged, array)
        return wrap(array, self.device, CONSTANT)

    @contextmanager
    def renewing(self, after: Tensor) -> Iterator[None]:
        """Has the calls of a block be others than those before, when a tensor is there."""
        before = self._renewed, self._after
        self._renewed, self._after = {}, self.lift(after)._array
        try:
            yield
        finally:
            self._renewed, self._after = before

    def _renew(self, traced: Traced) -> Traced:
        """The array that is read in place of one from before the block."""
        renewed, after = self._renewed, self._after
        if renewed is None or traced is after or traced.value.name in self._constants:
            return traced
        if traced.value not in renewed:
            self._renewed = None
            array: Any = self._run(BARRIER, _first, traced, after)
            self._renewed = renewed
            renewed[traced.value] = renewed[array.value] = array
        return renewed[traced.value]

    def custom_gradient(self, name: str) -> None:
        """Allows a function with a gradient of its own: the tapes of the trace record that."""
        self.custom = name

    @property
    def is_differentiated(self) -> bool:
        """True if a tape outside records the function."""
        return self.oldest_outside is not None

    def constant(self, tensor: Tensor) -> Tensor:
        """A constant of the trace with the value of a tensor of the real device."""
        return wrap(self._constant(tensor._array), self.device)

    def _reject_recorded(self, tensor: Tensor, oldest: int) -> None:
        if tensor._node is not None and reachable(tensor._node, oldest) is not None:
            raise Apart("reads a tensor from outside that a tape has recorded")

    def traced_device(self, device: Device) -> Device:
        """The trace's device for the real one."""
        if device is self.device or device is self.real_device:
            return self.device
        if device.stands_on(self.device):
            return device
        leaked = device.backend.unusable() if isinstance(device.backend, Recorder) else None
        if leaked is not None:
            raise errors.CaptureError(leaked)
        self._break(
            f"uses {device} beside {self.real_device}",
            "a captured function runs on one device; move tensors before the call",
        )

    @unseen
    def read(self, variable: object) -> Tensor:
        """The value of a variable at this point of the function."""
        if LOCAL.state.recording:
            self.guard(getattr, f"whether {_label(variable)} is trained", variable, "_watched")
        return wrap(self._hold(variable).now, self.device)

    def write(self, variable: object, value: Tensor) -> None:
        """Has the program set a variable when all has gone well."""
        held = self._hold(variable)
        held.now = self.lift(value)._array
        held.written = True

    def number(self, function: Callable[..., Any], *arguments: object) -> HostNumber:
        """The number that a function of other numbers gives at each run."""
        values = [a.value if type(a) is HostNumber else a for a in arguments]
        with uncaptured(), self.real_device:  # such as a schedule
            value = function(*values)
        result = HostNumber(self, f"n{len(self.numbers)}", value)
        self.numbers.append(Number(result, function, arguments))
        return result

    def decide(self, function: Callable[[Any], Any], number: HostNumber) -> Any:
        """Returns what a function makes of a number; other programs are for other results."""
        formula = self._formula(number)
        self.guard(_decided, "a number that it looks at", function, formula)
        return function(number.value)

    def _formula(self, value: object) -> Any:
        """A number as functions of what is outside, to be computed before a run."""
        if type(value) is not HostNumber:
            return value
        entry = next(entry for entry in self.numbers if entry.result is value)
        if not isinstance(entry.function, BuiltinFunctionType):
            bool(value)  # which ends the trace
        return _Formula(entry.function, tuple(map(self._formula, entry.arguments)))

    @unseen
    def get(self, state: HostState) -> Any:
        """The value of a host state at this point of the function."""
        return self.effects.get(state)

    def set(self, state: HostState, value: object) -> None:
        """Has the program set a host state when all has gone well."""
        self.effects.set(state, value)

    def effect(
        self,
        function: Callable[..., Any],
        *arguments: object,
        sets: Sequence[HostState] = (),
    ) -> None:
        """Has the program call a function when all has gone well, with tensors of the run."""
        self.effects.call(function, arguments, sets)

    def when(self, condition: Tensor, function: Callable[[], object]) -> None:
        """Calls a function whose changes count only in runs where a condition holds."""
        self.effects.when(condition, function)

    def guard(self, function: Callable[..., Any], what: str, *arguments: object) -> None:
        """Has the program run only while a function returns what it returns now."""
        key = (function, *map(id, arguments))
        if key not in self.guards:
            with uncaptured(), self.real_device:
                value = function(*arguments)
            self.guards[key] = Guard(function, arguments, value, what)

    @unseen
    def reads(self, layer: object) -> None:
        """Guards the attributes that a layer reads when it is called."""
        self.reads_ambient()
        self.places.register(layer, type(layer).__name__)
        own = self.places.register(vars(layer), type(layer).__name__)
        self.places.item(own, "call")
        self.places.attribute(layer, "call")

    def reads_ambient(self) -> None:
        """Guards what the thread had when the trace began."""
        for owner, name, value, what in self._ambient:
            self.guards[getattr, id(owner), name] = Guard(getattr, (owner, name), value, what)

    @unseen
    def calls(self, function: object, path: str) -> None:
        """Guards what a function or method of the user's reads that the framework calls."""
        self.places.given(self.places.register(function, path))

    @unseen
    def reserve(self, generator: Any, words: int) -> tuple[int, int]:
        """The key and counter of random numbers, which are others at each run."""
        if id(generator) not in self._generators:
            self._generators[id(generator)] = generator, (generator._key, generator._counter)
        number = len(self._inputs)
        drawn = []
        for part, value in zip(("key", "counter"), generator._reserve(words), strict=True):
            symbol = Value(f"d{number}_{part}", (), int)
            self._inputs.append(Draw(symbol, generator, words, part))
            integer = DrawnInt(value)
            integer.symbol = symbol
            drawn.append(integer)
        return drawn[0], drawn[1]

    @unseen
    def number_as_tensor(self, number: HostNumber, dtype: DType) -> Tensor:
        """A 0-d tensor with the number of each run."""
        key = number.name, dtype
        traced = self._host_arrays.get(key)
        if traced is None:
            array = array_of(number.value, dtype, self.real_device)
            traced = self._host_arrays[key] = self._input(HostArray, "e", array, number.name, dtype)
        tensor = wrap(traced, self.device)
        capture = LOCAL.state.capture
        return tensor if capture is None else capture.lift(tensor)

    # The trace ---------------------------------------------------------------------------------

    @contextmanager
    def running(self) -> Iterator[None]:
        """Records what this thread calls in the `with` block."""
        state, parent = LOCAL.state, self.parent
        # Where tensors are made elsewhere, the trace must see that they are.
        made_here = as_device(None) is (self.real_device if parent is None else parent.device)
        self.oldest_outside = state.oldest_serial if state.recording else None
        RECORDING.count += 1
        TRACES.count += 1
        state.capture = self
        try:
            with tapes(NO_TAPES), self.device if made_here else nullcontext():
                yield
        except Break as error:
            self.broken = error
            raise
        finally:
            state.capture = parent
            if parent is not None:
                parent.broken = parent.broken or self.broken
            RECORDING.count -= 1
            TRACES.count -= 1
            self._ended = True
            self.close()

    def graph_of(self, outputs: list[Value]) -> Graph:
        """The graph, with what it writes; `after` has values in place of tensors."""
        graph = self.graph(outputs)
        writes = tuple((held.source, held.now.value) for held in self.effects.written)
        after = tuple(
            (function, tuple(a._array.value if type(a) is Tensor else a for a in arguments))
            for function, arguments in self.effects.in_order
        )
        return graph._replace(writes=writes, after=after)

    def commit(self) -> None:
        """Writes what the function has written: the traced call is one like any other."""
        self.effects.commit()

    def outside(self, value: object) -> Any:
        """The tensor or number of this call for one of the trace."""
        if type(value) is Tensor and value._device is self.device:
            return wrap(value._array.array, self.real_device)
        return value.value if type(value) is HostNumber else value

    @property
    def drawn_from(self) -> list[tuple[Any, tuple[int, int]]]:
        """The generators that the function has drawn from, with their states of before."""
        return [*self._generators.values()]

    def undo(self) -> None:
        """Takes back what a trace that ended early has changed."""
        for generator, state in self._generators.values():
            generator.state = state

    def forget(self) -> None:
        """Releases the arrays of the trace."""
        for number in self.numbers:
            number.result.host = None
        self._constants, self._handles = {}, {}
        self._host_arrays, self.effects = {}, Changes(self)
        self._inputs, self._calls, self.numbers = [], [], []
        self.device.constants = {}
        self.guards, self.places = {}, Reads()

    def resume(self, graph: Graph, arrays: Mapping[str, Native]) -> None:
        """Goes on behind the calls of a graph that it has recorded.

        Args:
            graph: the graph.
            arrays: those of the inputs, by the names of their values.
        """
        self._inputs, self._calls = list(graph.inputs), list(graph.calls)
        self._constants = dict(graph.constants)
        for entry in graph.inputs:
            if isinstance(entry, (Handle, State)):
                traced = Traced(arrays[entry.value.name], entry.value)
                if isinstance(entry, Handle):
                    self._handles[id(entry.tensor)] = entry.tensor, traced
                else:
                    self.effects.variables[id(entry.owner)] = Held(entry.owner, entry, traced)
        self._ended, self.broken = False, None

    def _new(self, array: Native, value: Value) -> Traced:
        traced = Traced(array, value)
        if self._renewed is not None:
            self._renewed[value] = traced
        if self.traced is not None:
            self.traced.append(weakref.ref(traced))
        return traced

    def _hold(self, variable: Any) -> Held:
        held = self.effects.variables.get(id(variable))
        if held is None:
            self.traced_device(variable._device)
            traced = self._input(State, "s", variable._array, variable)
            source: Any = self._inputs[-1]
            held = self.effects.variables[id(variable)] = Held(variable, source, traced)
        return held

    def _input(self, kind: Callable[..., Any], letter: str, array: Native, *more: object) -> Traced:
        value = Value(f"{letter}{len(self._inputs)}", tuple(array.shape), array.dtype)
        self._inputs.append(kind(value, *more))
        return self._new(array, value)

    # As a backend ------------------------------------------------------------------------------

    def unusable(self) -> str | None:
        """Says of a tensor that outlived its trace what it is."""
        if not self._ended:
            return None
        return (
            f"this tensor belongs to the trace of the captured function {self.function_name!r} and "
            f"has no values outside of it; return it from the function instead of keeping it in a "
            f"list, an attribute or a global"
        )

    def kernel(self, op_name: str, dtype: DType | None) -> Kernel | None:
        """The kernel of the real device; for a composite with a rule its body is one."""
        kernel = super().kernel(op_name, dtype)
        op = OPS[op_name]
        places = any(attribute.form == "DeviceLike" for attribute in op.attributes)
        if kernel is None and op.rules and not op.primitive and not places:
            return partial(unseen(self._run_body) if op.own else self._run_body, op)
        return kernel

    def _run_body(self, op: Op, /, *inputs: Any, **attributes: Any) -> Any:
        """Records a composite as one call with the calls of its body inside."""
        inputs = tuple(each(self._renew, x) for x in inputs)
        begin = len(self._calls)
        tensors = [each(lambda traced: wrap(traced, self.device), x) for x in inputs]
        state = LOCAL.state
        # Of a branch that has only tensors of this trace, which the call lifts afterwards.
        inner, state.capture = state.capture, self
        try:
            with paused():
                result = run_body(op, tensors, attributes)
        finally:
            state.capture = inner
        several = not isinstance(result, Tensor)
        results = [self.lift(tensor)._array for tensor in (result if several else [result])]
        operands = tuple(map(operand_of, inputs))
        values = [traced.value for traced in results]
        whole = Graph(self.real_device, (), (), (), self._constants)
        body = body_of(whole, self._calls[begin:], operands, values)
        if body is not None:
            arrays = [traced.array for traced in results]
            made = self._values(arrays, several=several)
            plain = (False,) * len(made)
            call = Call(op, body, operands, attributes, made, plain, self._origin())
            self._calls[begin:] = [call]
            results = list(map(self._new, arrays, made))
        return tuple(results) if several else results[0]

    def _run(
        self, op: Op, kernel: Kernel, /, *inputs: Any, **attributes: Any
    ) -> Traced | tuple[Traced, ...]:
        if self._ended:
            self._check_running()
        if self._renewed is not None:
            inputs = tuple(each(self._renew, x) for x in inputs)
        if not op.own:  # its rules are followed
            return super()._run(op, kernel, *inputs, **attributes)
        with uncaptured():
            return super()._run(op, kernel, *inputs, **attributes)

    def _call(self, kernel: Kernel, inputs: list[Any], attributes: Mapping[str, Any]) -> Any:
        if LOCAL.state.capture is None:
            return kernel(*inputs, **attributes)
        # Kernels may go through the host.
        with uncaptured():
            return kernel(*inputs, **attributes)

    def _attributes(
        self, attributes: dict[str, Any]
    ) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        drawn = {name: v for name, v in attributes.items() if type(v) is DrawnInt}
        if not drawn:
            return attributes, attributes
        plain = {name: int(value) for name, value in drawn.items()}
        symbols = {name: value.symbol for name, value in drawn.items()}
        return {**attributes, **plain}, {**attributes, **symbols}

    def _origin(self) -> str:
        return line_of_program()

    def _looked_at(self, reason: str) -> None:
        self._check_running()
        self._break(reason, "")

    def from_host(self, array: np.ndarray[Any, Any], device: object, *, copy: bool) -> Traced:
        """A constant of the graph."""
        self._check_running()
        return super().from_host(array, device, copy=copy)

    def to_dlpack(self, array: object, **kwargs: object) -> Any:
        """Ends the trace."""
        self._looked_at("hands a tensor to another library")

    def from_dlpack(self, value: object, device: object, *, copy: bool | None) -> Traced:
        """A constant of the graph."""
        return self._constant(self._real.from_dlpack(value, device, copy=copy))

    def _check_running(self) -> None:
        leaked = self.unusable()
        if leaked is not None:
            raise errors.CaptureError(leaked)

    def _break(self, reason: str, way_out: str) -> NoReturn:
        self.broken = error = Break(reason, way_out)
        raise error


class _Formula(NamedTuple):
    """A function of numbers, and what it is called with."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]

    def value(self) -> Any:
        """The number that it gives now."""
        return self.function(*(a.value() if type(a) is _Formula else a for a in self.arguments))


def _decided(function: Callable[[Any], Any], formula: _Formula) -> Any:
    return function(formula.value())


def _unchanged(x: Native) -> Native:
    return x


def _first(x: Native, _: Native) -> Native:
    return x


def _label(variable: Any) -> str:
    return f"the variable {variable.name!r}" if variable.name else "a variable"
