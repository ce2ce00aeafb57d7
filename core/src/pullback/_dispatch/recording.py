"""Nodes, which dispatch records while a tape is active, and the state of each thread.

A node links an op's result to the nodes of its inputs. The tape keeps no list: a node lives as long
as a result, a later node or a source can reach it. Serial numbers order nodes in time; a tape owns
the intervals of them in which it recorded (see `pullback._autodiff.tape`), so that one graph serves
any number of tapes, and each sees its own part.
"""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from sys import gettrace, settrace
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, Protocol, TypeVar

from pullback._operators import OPERATORS
from pullback._symbols import TRACES, Break, HostNumber, SharedCount

if TYPE_CHECKING:
    from pullback._dispatch.host_state import HostState
    from pullback._dispatch.protocols import (
        BatchShare,
        Capturing,
        RecordingTape,
        RepeatedCall,
        RunningBatch,
    )
    from pullback.devices import Device
    from pullback.tensor import Tensor

P = ParamSpec("P")
R = TypeVar("R")


def capturing() -> Capturing | None:
    """The trace of a captured function that runs in this thread."""
    return LOCAL.state.capture if TRACES.count else None


def reject_making(what: str, *, holds_values: bool = True) -> None:
    """Ends the trace that runs in this thread, if one does: something is made that stays.

    Args:
        what: what is made: "a variable".
        holds_values: whether the values of tensors are in it.

    Raises:
        Break: if there is one.
    """
    capture = capturing()
    if capture is not None:
        capture.reject_making(what, holds_values=holds_values)


def reject_use(reason: str, way_out: str) -> None:
    """Ends the trace that runs in this thread, if one does: the function does what none repeats.

    Args:
        reason: what it does, after its name: "draws from a dataset".
        way_out: what to write instead.

    Raises:
        Break: if there is one.
    """
    if capturing() is not None:
        raise Break(reason, way_out)


def effect(
    function: Callable[..., object], *arguments: object, sets: Sequence[HostState] = ()
) -> bool:
    """Calls a function of values, such as a check; a captured function does it at its end.

    Args:
        function: what to call.
        arguments: what it gets, with the tensors and numbers of each run.
        sets: the host states that it sets.

    Returns:
        Whether it will be called later.
    """
    state = LOCAL.state
    again = state.again
    if again is not None and again.is_repeated:
        return True
    capture = state.capture
    if capture is None:
        function(*arguments)
        return False
    capture.effect(function, *arguments, sets=sets)
    return True


def is_repeated() -> bool:
    """Returns whether a function runs once more in this thread: what it changes, it has changed."""
    again = LOCAL.state.again
    return again is not None and again.is_repeated


def when(condition: Tensor, function: Callable[[], object]) -> None:
    """Calls a function if a condition holds, or has its changes depend on that.

    Args:
        condition: a 0-d tensor of booleans.
        function: what to call. In a captured function it is, and `pb.where` chooses between the
            values of variables that it has assigned and those before.
    """
    capture = capturing()
    if capture is not None:
        capture.when(condition, function)
    elif bool(condition):
        function()


def computed(function: Callable[..., Any], *arguments: object) -> Any:
    """Returns what a function makes of numbers; in a captured function it is called at each run."""
    capture = capturing()
    return function(*arguments) if capture is None else capture.number(function, *arguments)


def decided(function: Callable[[Any], Any], number: object) -> Any:
    """Returns what a function makes of a number on which it depends what is computed.

    A captured function has a program for each of its results.
    """
    if type(number) is not HostNumber:
        return function(number)
    host = number.host
    return function(number.value) if host is None else host.decide(function, number)


def announce(
    owner: object,
    method: Callable[..., object],
    names: Iterable[str] = (),
    settings: Callable[[Any], Iterable[tuple[Any, ...]]] | None = None,
) -> None:
    """Tells the trace that runs in this thread, if one does, of a method that may be the user's.

    Args:
        owner: an optimizer or a metric.
        method: what is about to be called.
        names: the attributes that programs are made for.
        settings: gives more of what they are made for: functions with the arguments that they get.
    """
    capture = capturing()
    if capture is None:
        return
    title = type(owner).__name__
    for name in names:
        capture.guard(getattr, f"{name} of {title}", owner, name)
    for function, *arguments in settings(owner) if settings is not None else ():
        capture.guard(function, f"the settings of {title}", *arguments)
    announce_call(method, f"{title}.{method.__name__}")


def announce_call(function: object, path: str) -> None:
    """Tells the trace that runs in this thread, if one does, of a function that may be the user's.

    Args:
        function: what is about to be called.
        path: what it is, for messages: "a regularizer".
    """
    capture = capturing()
    if capture is not None:
        capture.calls(function, path)


def announce_layer(layer: object) -> None:
    """Tells the trace that runs in this thread, if one does, that a layer is about to be called."""
    capture = capturing()
    if capture is not None:
        capture.reads(layer)


def announce_ambient() -> None:
    """Tells the trace that runs in this thread, if one does, that it reads what `AMBIENT` names."""
    capture = capturing()
    if capture is not None:
        capture.reads_ambient()


def lifted(tensor: Tensor) -> Tensor:
    """A tensor for the trace that runs in this thread; itself where none does."""
    capture = capturing()
    return tensor if capture is None else capture.lift(tensor)


def is_outside(device: Device) -> bool:
    """Returns whether a tensor on a device is from outside the trace that runs in this thread."""
    capture = LOCAL.state.capture
    return capture is not None and device is not capture.device and capture.is_outside(device)


def reject_reading() -> None:
    """Ends the trace that runs in this thread, if one does: the values of a tensor are read.

    Raises:
        Break: if there is one.
    """
    capture = capturing()
    if capture is not None:
        capture.reject_reading()


OPERATORS.reject_reading = reject_reading
OPERATORS.lifted = lifted


class Callee(Protocol):
    """The op of a node, or a function that was called like one."""

    name: str

    def vjp(self, node: object, g: object, needed: Collection[Node] | None, *take: object) -> Any:
        """The cotangents of the inputs, each with its node, from those of the results.

        Other callees than ops get a function, `take(node)`: the cotangent of an input so far, to
        which it adds, so that the parts are added in the order of the ops that it stands for.
        """


class Node:
    """The record of one op: its inputs' nodes and what its gradient rules need."""

    __slots__ = ("__weakref__", "device", "op", "parents", "saved", "serial")
    serial: int
    op: Callee | None
    #: One per input, flattened; None where no gradient flows.
    parents: tuple[Node | None, ...]
    #: What the rules asked for: native arrays, shapes, attributes. None when it has been released.
    saved: Any
    device: Any


class Leaf(Node):
    """The node at which a tape collects a gradient; `tape.watch(x)` makes it the node of x.

    It stands for the identity. Its parents are the nodes that were there before: the tensor's
    node, or the leaves of other tapes. A tape that has not made this leaf goes on to its parents.
    """

    __slots__ = ()

    def __init__(self, serial: int, *behind: Node) -> None:
        self.serial = serial
        self.op = None
        self.parents = behind
        self.saved = None
        self.device = None

    @property
    def origin(self) -> Node | None:
        """The node that the tensor had before it was watched."""
        return self.parents[0] if self.parents else None


class Output(Node):
    """One of several results of an op; `saved` is its position, its parent is the op's node."""

    __slots__ = ()

    def __init__(self, serial: int, node: Node, position: int) -> None:
        self.serial = serial
        self.op = None
        self.parents = (node,)
        self.saved = position
        self.device = node.device


#: The node of results that a tape recorded and that depend on no source. It is below every
#: interval, so it carries no gradient; it only tells "constant" from "computed while no tape was
#: recording".
CONSTANT: Node = Leaf(-1)


class _Hooks:
    """Functions of higher levels that dispatch calls."""

    #: The cotangents of `inputs` through a function, from those of its results: `vjp(function,
    #: inputs, cotangents)`. `_autodiff.functional` sets it.
    vjp: Callable[[Callable[..., list[Tensor]], list[Tensor], list[Tensor]], list[Tensor | None]]


HOOKS = _Hooks()

#: The number of tapes that record, and of traces that run: the only test on the hot path.
RECORDING = SharedCount()

#: Attributes of objects of a thread that higher levels have, such as whether a layer is called for
#: training, each with what it is. A captured function that reads them has a program for each value.
AMBIENT: list[tuple[object, str, str]] = []

_THREADS = itertools.count()


class ThreadState:
    """The tapes that record in one thread, innermost last."""

    __slots__ = (
        "again", "aside", "capture", "follower", "next_serial", "oldest_serial", "paused",
        "recording", "runs", "share", "tapes", "values",
    )  # fmt: skip

    def __init__(self) -> None:
        self.tapes: list[RecordingTape] = []
        #: The trace of a captured function that runs in this thread. It counts as a tape in
        #: `RECORDING`, so that nothing is asked where none runs.
        self.capture: Capturing | None = None
        #: What follows the code of the captured function, by `sys.settrace`, and may be paused.
        self.follower: Any = None
        #: What follows it outside of the block that runs, which is not followed.
        self.aside: Any = None
        #: The calls of functions that `vmap` made, innermost last.
        self.runs: list[RunningBatch] = []
        #: What variables are read as in `functional_call`, by their identity.
        self.values: dict[int, Tensor] = {}
        #: The call of a function that will be called again, or that is now (`remat`).
        self.again: RepeatedCall | None = None
        #: The part of a batch that this rank has, of several in `pullback.distributed`.
        self.share: BatchShare | None = None
        self.paused = 0
        #: tapes and not paused
        self.recording = False
        #: Nodes below this serial number belong to no tape that records here.
        self.oldest_serial = 0
        # Each thread counts in a range of its own: a tape never takes another thread's nodes,
        # made at the same time, for its own.
        self.next_serial: Callable[[], int] = itertools.count(next(_THREADS) << 48).__next__

    def update(self) -> None:
        """Brings `recording` and `oldest_serial` up to date."""
        tapes = self.tapes
        if not tapes:
            self.recording = False
            return
        self.recording = not self.paused
        # Another thread may have stopped a tape since.
        self.oldest_serial = min([tape.start for tape in tapes], default=0)


class _ThreadEnd:
    """Stops the tapes of a thread when the thread ends, even if other threads refer to them."""

    __slots__ = ("_tapes",)

    def __init__(self, state: ThreadState) -> None:
        self._tapes = state.tapes

    def __del__(self) -> None:
        for tape in self._tapes[:]:
            tape.stop()


class _Local(threading.local):
    def __init__(self) -> None:
        self.state = state = ThreadState()
        self._end = _ThreadEnd(state)


LOCAL = _Local()


class Tapes(NamedTuple):
    """The tapes that record in a thread."""

    tapes: list[Any]
    recording: bool
    #: Nodes below this serial number belong to none of them.
    oldest_serial: int


#: No tape.
NO_TAPES = Tapes([], False, 0)


@contextmanager
def tapes(these: Tapes) -> Iterator[None]:
    """Has these tapes record in this thread, in place of its own."""
    state = LOCAL.state
    before = state.tapes, state.recording, state.oldest_serial
    state.tapes, state.recording, state.oldest_serial = [*these.tapes], *these[1:]
    try:
        yield
    finally:
        state.tapes, state.recording, state.oldest_serial = before


class paused:
    """Pauses recording in this thread: `with paused(): ...`."""

    __slots__ = ("_state",)

    def __enter__(self) -> None:
        self._state = state = LOCAL.state
        state.paused += 1
        state.recording = False

    def __exit__(self, *_: object) -> None:
        state = self._state
        state.paused -= 1
        if state.tapes:
            state.update()


class unfollowed:
    """A block in which the framework's code alone runs, which a trace need not follow.

    To be followed takes code several times as long as to run.
    """

    __slots__ = ("_follower", "_state")

    #: What `sys.settrace` gets in place of the follower. Tests set what rejects a user's code.
    instead: Any = None

    def __enter__(self) -> None:
        self._state = state = LOCAL.state
        self._follower = follower = state.follower
        if follower is not None:
            if gettrace() is not follower:
                self._follower = None  # the function has set another one: the trace will see that
                return
            state.follower, state.aside = None, follower
            settrace(self.instead)

    def __exit__(self, *_: object) -> None:
        state = self._state
        if self._follower is not None and state.follower is None:
            state.follower, state.aside = self._follower, None
            settrace(self._follower)


class followed:
    """A block inside of an `unfollowed` one in which anybody's code may run."""

    __slots__ = ("_follower", "_state")

    def __enter__(self) -> None:
        self._state = state = LOCAL.state
        self._follower = follower = state.aside
        if follower is not None:
            state.follower, state.aside = follower, None
            settrace(follower)

    def __exit__(self, *_: object) -> None:
        # Where the block has set another one, that stays: the trace will see it.
        if self._follower is not None and gettrace() is self._follower:
            self._state.follower, self._state.aside = None, self._follower
            settrace(unfollowed.instead)


def unseen(function: Callable[P, R]) -> Callable[P, R]:
    """Has a trace not follow a function of the framework, and what it calls."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        with unfollowed():
            return function(*args, **kwargs)

    return call


class uncaptured(unfollowed):
    """Hides the trace that runs in this thread: what is called computes on real devices.

    The user's code that runs here does not belong to the captured function.
    """

    __slots__ = ("_capture",)

    # Written out: a trace has several for each op, and each function is one more to follow.

    def __enter__(self) -> None:
        self._state = state = LOCAL.state
        self._capture, state.capture = state.capture, None
        self._follower = follower = state.follower
        if follower is not None:
            if gettrace() is not follower:
                self._follower = None
                return
            state.follower = None
            settrace(self.instead)

    def __exit__(self, *_: object) -> None:
        self._state.capture = self._capture
        if self._follower is not None:
            self._state.follower = self._follower
            settrace(self._follower)


def node_of(op: Any, parents: Iterable[Node | None], saved: object, device: object = None) -> Node:
    """The node of a call of something other than an op, with the next serial number."""
    node = Node()
    node.serial = LOCAL.state.next_serial()
    node.op, node.parents, node.saved, node.device = op, tuple(parents), saved, device
    return node


def reachable(node: Node, oldest_serial: int) -> Node | None:
    """`node` if a recording tape may see it, else None: stale nodes are released.

    A leaf made by a tape of another thread hides an older node of this thread.
    """
    behind: Node | None = node
    while behind is not None:
        if behind.serial >= oldest_serial:
            return node
        behind = behind.origin if isinstance(behind, Leaf) else None
    return None


def live(tensor: Tensor | None) -> Node | None:
    """The node of a tensor that a recording tape may see."""
    if tensor is None or tensor._node is None:
        return None
    return reachable(tensor._node, LOCAL.state.oldest_serial)


def may_record(node: Node | None) -> bool:
    """Returns whether an op on a tensor with this node would be recorded now."""
    state = LOCAL.state
    return state.recording and node is not None and reachable(node, state.oldest_serial) is not None


def records_variables() -> bool:
    """Returns whether a tape that watches trainable variables records in this thread."""
    state = LOCAL.state
    return state.recording and any(tape.watch_accessed_variables for tape in state.tapes)
