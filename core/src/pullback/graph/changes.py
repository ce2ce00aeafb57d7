"""Changes that a traced function makes outside, which are held back until it has returned.

A program does it in one order: variables first, all of them, with the steps of their optimizers,
and then other host states and calls such as `metric._append`, in the order in which the function
came to them. So an error that comes late, such as that of a wrong label, leaves what came before it
done and what comes after it undone, as without capture; but variables and optimizers have changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pullback._dispatch.host_state import HostState
from pullback._symbols import Apart
from pullback.graph.graph import AttributeEntry, Effect
from pullback.graph.host import kind_of_value
from pullback.ops.selection import where
from pullback.tensor import Tensor, wrap

if TYPE_CHECKING:
    from pullback.graph.record import Recorder

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


class Changes:
    """The variables, host states and calls of one trace."""

    def __init__(self, trace: Recorder) -> None:
        self._trace = trace
        self.variables: dict[int, Held] = {}
        self._states: dict[int, Held] = {}
        #: A host state that is set has its identity for a key: the last time counts.
        self._effects: dict[object, Effect] = {}

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

    def commit(self) -> None:
        """Does it all: the traced call is one like any other."""
        for held in self.written:
            held.place._array = held.now.array
        for function, arguments in self.in_order:
            function(*map(self._trace.outside, arguments))

    # Host states -------------------------------------------------------------------------------

    def get(self, state: HostState) -> Any:
        """The value of a host state at this point of the function."""
        held = self._states.get(id(state))
        if held is None:
            held = self._states[id(state)] = Held(state, None, self._read(state))
        if held.now is _LATE:
            self._trace._break(
                f"uses {state.name} after a step that may be skipped",
                "let a captured function take one such step in a call",
            )
        return held.now

    def _read(self, state: HostState) -> Any:
        trace, value = self._trace, state.value
        if isinstance(value, list):
            trace._break(f"reads {state.name} of an earlier call", "return them from that call")
        trace.guard(kind_of_value, state.name, state)
        if type(value) is Tensor:
            trace.traced_device(value._device)
            return wrap(
                trace._input(AttributeEntry, "m", value._array, state, "value"), trace.device
            )
        if type(value) in (int, float):
            return trace.number(getattr, state, "value")
        return value

    def set(self, state: HostState, value: object) -> None:
        """Has the program set a host state."""
        held = self._states.setdefault(id(state), Held(state, None, _LATE))
        held.now = value if isinstance(value, list) else self._lifted(value)
        # The last place counts.
        self._effects.pop(id(state), None)
        if isinstance(value, list):
            if self._trace.is_differentiated:
                # Their gradients flow through what the tape records op by op.
                raise Apart(f"sets {state.name}")
            self._effects[id(state)] = _set_list, (state, type(value), *map(self._lifted, value))
        else:
            self._effects[id(state)] = setattr, (state, "value", held.now)

    def _lifted(self, value: object) -> Any:
        # One of the trace keeps its node: the function may differentiate what it reads again.
        return self._trace.lift(value) if type(value) is Tensor else value

    # Calls ---------------------------------------------------------------------------------------

    def call(
        self,
        function: Callable[..., object],
        arguments: Sequence[Any],
        sets: Sequence[HostState] = (),
    ) -> None:
        """Has the program call a function, with the tensors and numbers of the run."""
        self._effects[object()] = function, tuple(map(self._lifted, arguments))
        for state in sets:
            self._states.setdefault(id(state), Held(state, None, _LATE)).now = _LATE

    def when(self, condition: Tensor, function: Callable[[], object]) -> None:
        """Calls a function whose changes count only in runs where a condition holds."""
        condition = self._trace.lift(condition)
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
                new = (wrap(array, self._trace.device) for array in (held.now, old))
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


def _set_list(state: HostState, kind: type[list[Tensor]], *tensors: Tensor) -> None:
    state.value = kind(tensors)


def _comes_later(effect: Effect) -> bool:
    """Returns whether a call is not one that belongs to the variables."""
    first = effect[1][0] if effect[1] else None
    return not (effect[0] is setattr and type(first) is HostState and first.beside_variables)


def _call_if(condition: Tensor, function: Callable[..., object], *arguments: object) -> None:
    if bool(condition):
        function(*arguments)
