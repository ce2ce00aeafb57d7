"""The capture of one call of a function: what it reads and writes outside, beside its trace.

Variables, generators, optimizers and metrics announce themselves to the capture that runs in their
thread (`pullback._dispatch.recording.capturing`). What they write is held back until the function
has returned, so that one which ends early has changed nothing.

A program makes the changes in one order: variables first, all of them, with the steps of their
optimizers, and then other host states and calls such as `metric._append`, in the order in which the
function came to them. So an error that comes late, such as that of a wrong label, leaves what came
before it done and what comes after it undone, as without capture; but variables and optimizers have
changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import BuiltinFunctionType
from typing import Any, NamedTuple, NoReturn

from pullback import errors
from pullback._batching.arrays import Batched
from pullback._dispatch.host_state import HostState
from pullback._dispatch.recording import (
    AMBIENT,
    CONSTANT,
    LOCAL,
    NO_TAPES,
    RECORDING,
    reachable,
    tapes,
    uncaptured,
    unseen,
)
from pullback._symbols import TRACES, Apart, Break, DrawnInt, HostNumber
from pullback.devices import Device, as_device
from pullback.dtypes import DType
from pullback.graph.graph import (
    AttributeEntry,
    Draw,
    Effect,
    Graph,
    Handle,
    HostArray,
    State,
    Value,
)
from pullback.graph.host import Guard, Number, array_of, is_framework, kind_of_value
from pullback.graph.reads import Reads
from pullback.graph.trace import FunctionTrace, Trace, Traced
from pullback.ops.selection import where
from pullback.plugins.records import Native
from pullback.spec import OPS
from pullback.tensor import Tensor, wrap

#: The value of a host state that is known only when the program has run.
_LATE: Any = object()


class Held:
    """A variable or host state that the function reads or writes: its value at this point of it."""

    __slots__ = ("first", "now", "place", "source", "written")

    def __init__(self, place: Any, source: Any, now: Any) -> None:
        self.place = place
        self.source = source
        self.first = self.now = now
        self.written = False


class Capture:
    """One call of a captured function: what it reads and writes outside.

    Args:
        device: the device on which the function runs.
        name: the function's name, for messages.
    """

    def __init__(self, device: Device, name: str) -> None:
        #: What records the kernel calls.
        self.trace = FunctionTrace(device, name, self)
        self.device: Device = self.trace.device
        self.real_device = device
        self.function_name = name
        #: The capture in which this one is, as that of a branch.
        self.parent: Capture | None = None
        self.kernel_changes = device.backend.changes
        self.numbers: list[Number] = []
        self.guards: dict[Any, Guard] = {}
        #: What the function reads outside.
        self.places = Reads()
        self.variables: dict[int, Held] = {}
        self._states: dict[int, Held] = {}
        #: The layers of the framework that are called.
        self._called: set[int] = set()
        #: A host state that is set has its identity for a key: the last time counts.
        self._effects: dict[object, Effect] = {}
        self._ambient = [(owner, name, getattr(owner, name), what) for owner, name, what in AMBIENT]
        self._handles: dict[int, tuple[Tensor, Traced]] = {}
        self._host_arrays: dict[tuple[str, DType], Traced] = {}
        self._generators: dict[int, tuple[Any, tuple[int, int]]] = {}
        #: Nodes from this serial number on belong to a tape outside; None if none records.
        self.oldest_outside: int | None = None
        #: The name of a function with a gradient of its own that was called; "" for none.
        self.custom = ""

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
        self.trace.stop("looks at the values of a tensor", "")

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
                traced = self.trace._constant(tensor._array)
            else:
                traced = self.trace.enter(Handle, "h", tensor._array, tensor)
            entry = self._handles[id(tensor)] = (tensor, traced)
        # The node is that of now: a tape in the function may have begun to watch the tensor.
        return wrap(entry[1], self.device, tensor._node)

    def _is_number(self, tensor: Tensor) -> bool:
        """Returns whether dispatch keeps a tensor for a Python number: it is a constant."""
        tables = [self.real_device.constants, *(op.scalars for op in OPS.values() if op.scalars)]
        return any(tensor is kept for table in tables for kept in list(table.values()))

    def stop_gradient(self, tensor: Tensor) -> Tensor:
        """The tensor as a constant for all tapes.

        Where the graph may be differentiated later, a call says so.
        """
        array = self.lift(tensor)._array
        if self.is_differentiated:
            array = self.trace.mark_constant(array)
        return wrap(array, self.device, CONSTANT)

    def custom_gradient(
        self, name: str
    ) -> Callable[[Callable[..., Any], list[Tensor]], Any] | None:
        """Allows a function with a gradient of its own: the tapes of the trace record that."""
        self.custom = name
        return None

    def renewing(self, after: Tensor) -> AbstractContextManager[None]:
        """Has the calls of a block be others than those before, when a tensor is there."""
        after = self.lift(after)
        while isinstance(after._array, Batched):
            after = self.lift(after._array.tensor)
        return self.trace.renewing(after._array)

    @property
    def is_differentiated(self) -> bool:
        """True if a tape outside records the function."""
        return self.oldest_outside is not None

    def _reject_recorded(self, tensor: Tensor, oldest: int) -> None:
        if tensor._node is not None and reachable(tensor._node, oldest) is not None:
            raise Apart("reads a tensor from outside that a tape has recorded")

    def traced_device(self, device: Device) -> Device:
        """The trace's device for the real one."""
        if device is self.device or device is self.real_device:
            return self.device
        if device.stands_on(self.device):
            return device
        leaked = device.backend.unusable() if isinstance(device.backend, FunctionTrace) else None
        if leaked is not None:
            raise errors.CaptureError(leaked)
        self.trace.stop(
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
        held = self._states.get(id(state))
        if held is None:
            held = self._states[id(state)] = Held(state, None, self._read(state))
        if held.now is _LATE:
            self.trace.stop(
                f"uses {state.name} after a step that may be skipped",
                "let a captured function take one such step in a call",
            )
        return held.now

    def _read(self, state: HostState) -> Any:
        value = state.value
        if isinstance(value, list):
            self.trace.stop(f"reads {state.name} of an earlier call", "return them from that call")
        self.guard(kind_of_value, state.name, state)
        if type(value) is Tensor:
            self.traced_device(value._device)
            traced = self.trace.enter(AttributeEntry, "m", value._array, state, "value")
            return wrap(traced, self.device)
        if type(value) in (int, float):
            return self.number(getattr, state, "value")
        return value

    def set(self, state: HostState, value: object) -> None:
        """Has the program set a host state."""
        held = self._states.setdefault(id(state), Held(state, None, _LATE))
        held.now = value if isinstance(value, list) else self._lifted(value)
        # The last place counts.
        self._effects.pop(id(state), None)
        if isinstance(value, list):
            if self.is_differentiated:
                # Their gradients flow through what the tape records op by op.
                raise Apart(f"sets {state.name}")
            self._effects[id(state)] = _set_list, (state, type(value), *map(self._lifted, value))
        else:
            self._effects[id(state)] = setattr, (state, "value", held.now)

    def _lifted(self, value: object) -> Any:
        # One of the trace keeps its node: the function may differentiate what it reads again.
        return self.lift(value) if type(value) is Tensor else value

    def effect(
        self,
        function: Callable[..., Any],
        *arguments: object,
        sets: Sequence[HostState] = (),
    ) -> None:
        """Has the program call a function when all has gone well, with tensors of the run."""
        self._effects[object()] = function, tuple(map(self._lifted, arguments))
        for state in sets:
            self._states.setdefault(id(state), Held(state, None, _LATE)).now = _LATE

    def when(self, condition: Tensor, function: Callable[[], object]) -> None:
        """Calls a function whose changes count only in runs where a condition holds."""
        condition = self.lift(condition)
        variables = {key: held.now for key, held in self.variables.items()}
        states = {key: held.now for key, held in self._states.items()}
        before, self._effects = self._effects, {}
        try:
            function()
        finally:
            effects, self._effects = self._effects, before
        for key, held in self.variables.items():
            old = variables.get(key, held.first)
            if held.now is not old:
                new = (wrap(array, self.device) for array in (held.now, old))
                held.now = where(condition, *new)._array
        for place, (call, arguments) in effects.items():
            held_state = self._states.get(place) if isinstance(place, int) else None
            if held_state is not None:
                old, now = states.get(id(held_state.place), held_state.first), held_state.now
                if type(old) is type(now) is Tensor:
                    self.set(held_state.place, where(condition, now, old))
                    continue
                held_state.now = _LATE
            self._effects[object()] = _call_if, (condition, call, *arguments)

    def guard(self, function: Callable[..., Any], what: str, *arguments: object) -> None:
        """Has the program run only while a function returns what it returns now."""
        key = (function, *map(id, arguments))
        if key in self.guards:
            return
        if function is kind_of_value or (function is getattr and is_framework(type(arguments[0]))):
            value = function(*arguments)
        else:
            with uncaptured(), self.real_device:
                value = function(*arguments)
        self.guards[key] = Guard(function, arguments, value, what)

    @unseen
    def reads(self, layer: object) -> None:
        """Guards the attributes that a layer reads when it is called."""
        self.reads_ambient()
        self.places.register(layer, type(layer).__name__)
        if is_framework(type(layer)):
            self._called.add(id(layer))
        own = self.places.register(vars(layer), type(layer).__name__)
        self.places.item(own, "call")
        self.places.attribute(layer, "call")

    @unseen
    def traversed(
        self, objects: Iterable[object], parts: Callable[[object], tuple[object, ...]]
    ) -> None:
        """Guards the parts of objects, in which variables have been looked for."""
        for each in objects:
            # What a layer of the framework reads when it is called is all that it has, and what is
            # no layer is not changed.
            if hasattr(type(each), "call"):
                is_known = id(each) in self._called
            else:
                is_known = is_framework(type(each))
            if not is_known:
                self.guard(parts, f"the objects in {type(each).__name__}", each)

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
        number = len(self.trace._inputs)
        drawn = []
        for part, value in zip(("key", "counter"), generator._reserve(words), strict=True):
            symbol = Value(f"d{number}_{part}", (), int)
            self.trace._inputs.append(Draw(symbol, generator, words, part))
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
            traced = self.trace.enter(HostArray, "e", array, number.name, dtype)
            self._host_arrays[key] = traced
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
            self.trace.broken = error
            raise
        finally:
            state.capture = parent
            if parent is not None:
                parent.trace.broken = parent.trace.broken or self.trace.broken
            RECORDING.count -= 1
            TRACES.count -= 1
            self.trace.ended = True
            self.trace.close()

    @property
    def written(self) -> list[Held]:
        """The variables that are written."""
        return [held for held in self.variables.values() if held.written]

    @property
    def in_order(self) -> list[Effect]:
        """The calls that come after the variables, in order."""
        return sorted(self._effects.values(), key=_comes_later)

    @property
    def states(self) -> list[HostState]:
        """The host states that are read or set."""
        return [held.place for held in self._states.values()]

    def graph_of(self, outputs: list[Value]) -> Graph:
        """The graph, with what it writes; `after` has values in place of tensors."""
        graph = self.trace.graph(outputs)
        writes = tuple((held.source, held.now.value) for held in self.written)
        after = tuple(
            (function, tuple(a._array.value if type(a) is Tensor else a for a in arguments))
            for function, arguments in self.in_order
        )
        return graph._replace(writes=writes, after=after)

    def commit(self) -> None:
        """Writes what the function has written: the traced call is one like any other."""
        for held in self.written:
            held.place._array = held.now.array
        for function, arguments in self.in_order:
            function(*map(self.outside, arguments))

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
        self.numbers, self.guards, self.places = [], {}, Reads()
        self.variables, self._states, self._effects = {}, {}, {}
        self._handles, self._host_arrays = {}, {}
        self.trace.forget()

    def resume(self, graph: Graph, arrays: Mapping[str, Native]) -> None:
        """Goes on behind the calls of a graph that it has recorded.

        Args:
            graph: the graph.
            arrays: those of the inputs, by the names of their values.
        """
        self.trace.resume(graph)
        for entry in graph.inputs:
            if isinstance(entry, (Handle, State)):
                traced = Traced(arrays[entry.value.name], entry.value)
                if isinstance(entry, Handle):
                    self._handles[id(entry.tensor)] = entry.tensor, traced
                else:
                    self.variables[id(entry.owner)] = Held(entry.owner, entry, traced)

    def _hold(self, variable: Any) -> Held:
        held = self.variables.get(id(variable))
        if held is None:
            self.traced_device(variable._device)
            traced = self.trace.enter(State, "s", variable._array, variable)
            source = self.trace._inputs[-1]
            held = self.variables[id(variable)] = Held(variable, source, traced)
        return held


class _Formula(NamedTuple):
    """A function of numbers, and what it is called with."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]

    def value(self) -> Any:
        """The number that it gives now."""
        return self.function(*(a.value() if type(a) is _Formula else a for a in self.arguments))


def _decided(function: Callable[[Any], Any], formula: _Formula) -> Any:
    return function(formula.value())


def _label(variable: Any) -> str:
    return f"the variable {variable.name!r}" if variable.name else "a variable"


def _set_list(state: HostState, kind: type[list[Tensor]], *tensors: Tensor) -> None:
    state.value = kind(tensors)


def _comes_later(effect: Effect) -> bool:
    """Returns whether a call is not one that belongs to the variables."""
    first = effect[1][0] if effect[1] else None
    return not (effect[0] is setattr and type(first) is HostState and first.beside_variables)


def _call_if(condition: Tensor, function: Callable[..., object], *arguments: object) -> None:
    if bool(condition):
        function(*arguments)
