"""Tapes and traces, as dispatch knows them. For type checkers alone: protocols cost import time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NoReturn, Protocol

from pullback._dispatch.host_state import HostState
from pullback._dispatch.recording import Leaf
from pullback._symbols import HostNumber
from pullback.devices import Device
from pullback.tensor import Tensor


class RecordingTape(Protocol):
    """A tape, as this module knows it."""

    #: The serial number at which the tape first recorded.
    start: int
    #: Whether the tape watches every trainable variable that is read.
    watch_accessed_variables: bool

    def stop(self) -> None:
        """Ends recording; any thread may call this."""

    def leaf_of(self, variable: Any, wanted: bool) -> Leaf | None:
        """The leaf of a variable that is being read; None if the tape does not watch it."""

    def note_assigned(self, variable: Any) -> None:
        """Notes that a variable gets a value that a tape has recorded."""


class RunningBatch(Protocol):
    """A call of a function that `vmap` made."""

    #: The number of items.
    size: int
    #: Whether all items get the same random numbers.
    draws_alike: bool

    @property
    def device(self) -> Device:
        """The device that its tensors are on."""


class RepeatedCall(Protocol):
    """A call of a function that is called once more for its gradient."""

    #: False in the first call, which notes what the second one needs.
    is_repeated: bool
    #: A serial number from before the first call.
    begin: int

    def note(self, variable: Any, read: Callable[[Any], Tensor]) -> None:
        """Keeps the value of a variable that is about to be read or written, by a function."""

    def draw(self, generator: Any, words: int) -> tuple[int, int]:
        """The key and counter of random numbers: the same in both calls."""


class Capturing(Protocol):
    """The trace of a captured function, as what it has to know of announces it."""

    #: The device that stands for the real one in the trace.
    device: Device

    def building(self, device: Device) -> AbstractContextManager[object]:
        """Enters what a layer makes its variables in, for inputs on a device."""

    def reject_making(self, what: str, *, holds_values: bool) -> None:
        """Ends the trace, because something is made that stays."""

    def is_outside(self, device: Device) -> bool:
        """Returns whether a tensor on a device has to be lifted."""

    def reject_reading(self) -> NoReturn:
        """Ends the trace, because values are read."""

    def lift(self, tensor: Tensor) -> Tensor:
        """A tensor from outside, on the trace's device."""

    def renewing(self, after: Tensor) -> AbstractContextManager[None]:
        """Has the calls of a block be others than those before, when a tensor is there."""

    def stop_gradient(self, tensor: Tensor) -> Tensor:
        """The tensor as a constant for all tapes."""

    def custom_gradient(
        self, name: str
    ) -> Callable[[Callable[..., Any], list[Tensor]], Any] | None:
        """Returns what calls a function with its own gradient where ops lose that, or None."""

    def traced_device(self, device: Device) -> Device:
        """The trace's device for the real one; ends the trace for another one."""

    def read(self, variable: object) -> Tensor:
        """The value of a variable at this point of the function."""

    def write(self, variable: object, value: Tensor) -> None:
        """Has the program set a variable when all has gone well."""

    def number(self, function: Callable[..., Any], *arguments: object) -> HostNumber:
        """The number that a function of other numbers gives at each run."""

    def decide(self, function: Callable[[Any], Any], number: HostNumber) -> Any:
        """Returns what a function makes of a number; other programs are for other results."""

    def get(self, state: HostState) -> Any:
        """The value of a host state at this point of the function."""

    def set(self, state: HostState, value: object) -> None:
        """Has the program set a host state when all has gone well."""

    def effect(
        self,
        function: Callable[..., Any],
        *arguments: object,
        sets: Sequence[HostState] = (),
    ) -> None:
        """Has the program call a function when all has gone well, with tensors of the run."""

    def when(self, condition: Tensor, function: Callable[[], object]) -> None:
        """Calls a function whose changes count only in runs where a condition holds."""

    def guard(self, function: Callable[..., Any], what: str, *arguments: object) -> None:
        """Has the program run only while a function returns what it returns now."""

    def reads(self, layer: object) -> None:
        """Guards the attributes that a layer reads when it is called."""

    def traversed(
        self, objects: Iterable[object], parts: Callable[[object], tuple[object, ...]]
    ) -> None:
        """Guards the parts of objects, in which variables have been looked for."""

    def reads_ambient(self) -> None:
        """Guards what the thread had when the trace began."""

    def calls(self, function: object, path: str) -> None:
        """Guards what a function or method of the user's reads that the framework calls."""

    def reserve(self, generator: object, words: int) -> tuple[int, int]:
        """The key and counter of random numbers, which are others at each run."""


class BatchShare(Protocol):
    """The items of a batch that this rank has, as layers know it."""

    def batch_norm(
        self, x: Tensor, scale: Any, offset: Any, *, axis: int, epsilon: float
    ) -> tuple[Tensor, Tensor, Tensor, int]:
        """`batch_norm` over all ranks, and the number of values of a channel."""

    def draw_alike(self, x: Tensor, draw: Callable[[Tensor], Tensor]) -> Tensor:
        """The result of a function that draws, with the numbers that the whole batch has there."""
