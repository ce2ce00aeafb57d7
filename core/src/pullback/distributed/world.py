"""The ranks of a program: who they are, that they agree, and how they end together."""

from __future__ import annotations

import atexit
import hashlib
import os
import secrets
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from queue import SimpleQueue
from types import TracebackType
from typing import Any

from pullback import _rank_process, errors
from pullback._dispatch.recording import paused, uncaptured, unseen
from pullback.devices import Device
from pullback.distributed.communicator import Communicator, launched_as
from pullback.ops.creation import zeros_like
from pullback.plugins import entry_points
from pullback.plugins.records import Native
from pullback.random import default_generator
from pullback.tensor import wrap

__all__ = ["World", "current", "entering", "init", "is_initialized", "rank", "size"]

#: The environment variable with the name of the communicator that `init` takes.
VARIABLE = "PULLBACK_COMMUNICATOR"
_GROUP = "pullback.communicators"
#: Seconds in which a launcher forwards the last lines: what it has not when ranks abort is lost.
_FORWARDED = 0.25
#: The bytes that a rank's call takes in an error.
_TEXT = 160


class World:
    """The ranks that a communicator connects, as this rank sees them.

    Args:
        communicator: the communicator.
    """

    def __init__(self, communicator: Communicator) -> None:
        self.communicator = communicator
        #: The number of calls that all ranks have made.
        self._calls = 0
        #: True when a rank has failed: nobody waits for the others any more.
        self.failed = False
        #: The process that watches this one, if there is one.
        self.parent: Parent | None = None
        #: Calls that have begun, oldest first, and the thread that makes them beside others.
        self._begun: deque[_Begun] = deque()
        self._helper: _Helper | None = None
        #: The thread that makes one of them now.
        self._maker = 0

    def begin(self, array: Native, call: Callable[[], Native], beside: bool) -> None:
        """Begins a call that communicates; `finish` returns its result, in the order of calls.

        Args:
            array: what `finish` will be called with.
            call: the call.
            beside: True to make it on a helper thread, if the communicator has that; else the
                thread that asks for the result makes it, which costs no change of threads.
        """
        begun = _Begun(array, call)
        self._begun.append(begun)
        if not self.communicator.concurrent:
            self._make(begun)
        elif beside:
            self._helper = self._helper or _Helper(self._make)
            begun.is_handed = True
            self._helper.calls.put(begun)

    def finish(self, array: Native) -> Native:
        """The result of the call that has begun with an array.

        What began before it belongs to a step that an exception has ended.
        """
        begun = self._begun.popleft()
        self._await(begun)
        while begun.array is not array:
            begun = self._begun.popleft()
            self._await(begun)
        if begun.error is not None:
            self._begun.clear()
            raise begun.error
        return begun.result

    def _end_begun(self) -> None:
        """Waits for calls that have begun: a communicator takes one at a time."""
        if self._maker != threading.get_ident():
            for begun in self._begun:
                self._await(begun)

    def _await(self, begun: _Begun) -> None:
        if not begun.is_handed and not begun.done.is_set():
            self._make(begun)
        begun.done.wait()

    def _make(self, begun: _Begun) -> None:
        before, self._maker = self._maker, threading.get_ident()
        begun()
        self._maker = before

    def own_sum(self, device: Device, array: Native, items: int) -> Native:
        """The sum of an array that nobody else reads, whose weights are those of so many items."""
        self.agree(f"{self._called('all_reduce', device, array)}, op='sum', over {items} items")
        communicator = self.communicator
        if communicator.takes(device):
            return communicator.all_reduce_own(array)
        backend = device.backend
        sum_of: Callable[..., Any] = communicator.all_reduce_own
        return backend.from_host(sum_of(backend.to_host(array)), device.native, copy=False)

    def agree(self, what: str) -> None:
        """Checks that all ranks do the same thing now.

        Raises:
            CommunicationError: if they do not; it names what each of them does.
        """
        self._calls += 1
        given = f"{self._calls} {what}".encode()
        digest = hashlib.blake2b(given, digest_size=8).digest()
        exchange = self.communicator.exchange
        if len(set(exchange(digest))) == 1:
            return
        self.failed = True
        text = what.encode()[:_TEXT].ljust(_TEXT)
        ranks: dict[str, list[int]] = {}
        for number, other in enumerate(exchange(text)):
            ranks.setdefault(other.decode(errors="replace").strip(), []).append(number)
        raise errors.CommunicationError(
            f"call {self._calls} of the ranks is not the same: "
            + ", but ".join(f"{_ranks(numbers)} {does}" for does, numbers in ranks.items())
            + "; every rank must make the same collective calls, in the same order, with the same "
            "shapes and dtypes"
        )

    def gather(self, does: str, data: bytes) -> list[bytes]:
        """The bytes that each rank gave, by rank; they give as many as they like.

        Raises:
            CommunicationError: if the ranks do not all do this now.
        """
        self._end_begun()
        self.agree(does)
        exchange = self.communicator.exchange
        sizes = [int.from_bytes(size) for size in exchange(len(data).to_bytes(8))]
        # Of few lengths: some communicators compile a program for each.
        found = exchange(data.ljust(1 << max(sizes).bit_length(), b"\0"))
        return [given[:size] for given, size in zip(found, sizes, strict=True)]

    @unseen  # a communicator's code is no user's
    def run(
        self, name: str, device: Device, array: Native, attributes: Mapping[str, object]
    ) -> Native:
        """The result of a collective for the native array of this rank."""
        communicator = self.communicator
        if communicator.size == 1:
            return array
        self._end_begun()
        backend = device.backend
        more = "".join(f", {key}={value!r}" for key, value in attributes.items())
        self.agree(f"{self._called(name, device, array)}{more}")
        if name == "barrier":
            communicator.barrier()
            return array
        root = attributes.get("root", 0)
        called = {"reduce_to": "all_reduce", "all_reduce_extremum": "all_reduce"}.get(name, name)
        keywords = {"op": "sum"} if name == "reduce_to" else dict(attributes)
        method = getattr(communicator, called)
        found: Native
        if communicator.takes(device):
            found = method(array, **keywords)
        else:
            host = method(backend.to_host(array), **keywords)
            found = backend.from_host(host, device.native, copy=False)
        if name == "reduce_to" and communicator.rank != root:
            with uncaptured(), paused():
                found = zeros_like(wrap(found, device))._array
        return found

    @staticmethod
    def _called(name: str, device: Device, array: Native) -> str:
        dtype = device.backend.public_dtypes[array.dtype]
        return f"calls {name} of {dtype}{list(array.shape)}"

    def fail(self, cause: str, code: int) -> None:
        """Ends all ranks with one last line that says which of them failed, where and why."""
        self.failed = True
        communicator = self.communicator
        sys.stdout.flush()
        line = f"pullback: rank {communicator.rank} on {communicator.host()}: {cause}"
        line = f"{line}; all ranks end"
        if not _rank_process.report(line):
            # In one piece: all ranks write to one stream.
            sys.stderr.write(f"{line}\n")
            sys.stderr.flush()
            time.sleep(_FORWARDED)
        if self.parent is not None:
            self.parent.tell("ends")
        communicator.abort(code)


class _Begun:
    """A call that is made once, by a helper or by who awaits it, with what comes of it."""

    def __init__(self, array: Native, run: Callable[[], Native]) -> None:
        self.array = array
        self._run: Callable[[], Native] | None = run
        #: True if a helper makes it.
        self.is_handed = False
        self.done = threading.Event()
        self.result: Native
        self.error: BaseException | None = None

    def __call__(self) -> None:
        assert self._run is not None
        try:
            self.result = self._run()
        except BaseException as error:
            self.error = error
        self._run = None
        self.done.set()


class _Helper:
    """A thread that makes calls, one after the other."""

    def __init__(self, make: Callable[[_Begun], None]) -> None:
        self._make = make
        self.calls: SimpleQueue[_Begun] = SimpleQueue()
        threading.Thread(target=self._work, name="pullback sums", daemon=True).start()

    def _work(self) -> None:
        while True:
            self._make(self.calls.get())


class Parent:
    """The process that has started this rank, if `pullback launch` has, as the rank sees it."""

    def __init__(self, alive: int, heard: int) -> None:
        self._alive, self._heard = alive, heard
        threading.Thread(target=self._end_with, name="pullback parent", daemon=True).start()

    @classmethod
    def find(cls) -> Parent | None:
        """The parent that the environment names, to this process alone."""
        named = os.environ.pop(_rank_process.VARIABLE, None)
        if named is None:
            return None
        descriptors = [int(number) for number in named.split(",")]
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
        return cls(*descriptors)

    def tell(self, words: str) -> None:
        """Says "comes" before a communicator connects, then "joins RANK" or "alone", and "ends"."""
        os.write(self._heard, f"{words}\n".encode())

    def _end_with(self) -> None:
        """Ends this process when the parent is no more: the launcher knows of no other."""
        if not os.read(self._alive, 1):
            os.kill(os.getpid(), signal.SIGKILL)


def _ranks(numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:8])) + (", ..." if len(numbers) > 8 else "")
    return f"rank {shown}" if len(numbers) == 1 else f"each of the ranks {shown}"


class _RankOfThread(threading.local):
    """The world of a thread that is a rank."""

    world: World | None = None


_THREAD = _RankOfThread()
#: The world of this process, by `init`.
_PROCESS: list[World] = []
_ALONE = World(Communicator())


def current() -> World:
    """The world of this thread, or of this process; one rank before `init`."""
    world = _THREAD.world
    if world is not None:
        return world
    return _PROCESS[0] if _PROCESS else _ALONE


class entering:
    """Has this thread be a rank of another world: `with entering(world): ...`."""

    def __init__(self, world: World) -> None:
        self._world = world

    def __enter__(self) -> None:
        self._before, _THREAD.world = _THREAD.world, self._world

    def __exit__(self, *_: object) -> None:
        _THREAD.world = self._before


def rank() -> int:
    """The number of this process, counted from 0.

    >>> pb.distributed.rank(), pb.distributed.size()
    (0, 1)
    """
    return current().communicator.rank


def size() -> int:
    """The number of processes; 1 without `init`."""
    return current().communicator.size


def is_initialized() -> bool:
    """Returns whether `init` has connected this process."""
    return current() is not _ALONE


def init(name: str | None = None) -> None:
    """Connects this process to the others of its program, by an installed communicator.

    From then on an exception that nobody catches ends all of them, with one last line that says
    which rank failed, on which machine and why.

    Args:
        name: the name of the communicator, such as "mpi"; None for what the environment variable
            `PULLBACK_COMMUNICATOR` names, or else the only one that is installed. Without any, or
            with several and no launcher, the world has one rank.

    >>> pb.distributed.init()
    >>> pb.distributed.size()
    1

    Raises:
        PluginError: if the communicator is not installed, or cannot be used, or if a launcher has
            started several processes and several communicators are installed.
        CommunicationError: if this process is connected by another one already, or if the
            communicator does not know the processes that the launcher has started.
    """
    if _THREAD.world is not None:
        return
    named = name or os.environ.get(VARIABLE) or None
    if _PROCESS:
        before = _PROCESS[0].communicator.name
        if named not in (None, before):
            raise errors.CommunicationError(
                f"init({name!r}): this process is connected by {before!r} already; call init once"
            )
        return
    parent = Parent.find()
    if parent is not None:
        parent.tell("comes")
    communicator = _load(named)
    if communicator is None:
        if parent is not None:
            parent.tell("alone")
        return
    _, launched = launched_as()
    if communicator.size == 1 < launched:
        raise errors.CommunicationError(
            f"{communicator.name!r} connects one process, and the launcher has started {launched}; "
            f"name the communicator that belongs to the launcher, in init or in {VARIABLE}"
        )
    world = World(communicator)
    _PROCESS.append(world)
    world.parent = parent
    if parent is not None:
        parent.tell("alone" if communicator.size == 1 else f"joins {communicator.rank}")
    if communicator.size > 1:
        _end_together(world)
        # Models that the same program builds then begin alike.
        seed = communicator.exchange(secrets.token_bytes(16))[0]
        default_generator.seed(int.from_bytes(seed, "little"))


def _load(name: str | None) -> Communicator | None:
    entries = [entry for entry in entry_points.entry_points() if entry.group == _GROUP]
    names = sorted({entry.name for entry in entries})
    shown = ", ".join(map(repr, names)) or "none"
    if name is None:
        if len(names) > 1 and launched_as()[1] == 1:
            return None
        if len(names) > 1:
            raise errors.PluginError(
                f"several communicators are installed: {shown}; name one, as in "
                f"pb.distributed.init({names[0]!r}), or in {VARIABLE}"
            )
        if not names:
            return None
        (name,) = names
    chosen = [entry for entry in entries if entry.name == name]
    if not chosen:
        raise errors.PluginError(
            f"no communicator is named {name!r}; installed are: {shown}; "
            f'pip install "pullback[mpi]" brings one'
        )
    plugin = entry_points.plugin_label("communicator", name, chosen)
    found: list[Communicator] = []

    def register(communicator: object) -> None:
        if not isinstance(communicator, Communicator) or communicator.name != name:
            raise errors.PluginError(
                f"{plugin}: register() takes one instance of "
                f"pullback.distributed.communicator.Communicator with the name {name!r}, got "
                f"{communicator!r}"
            )
        found.append(communicator)

    with entry_points.blame_plugin(plugin, chosen):
        loaded = entry_points.load(chosen, plugin)
        entry_points.call(loaded, "pullback_register_communicator", register, plugin, chosen)
    if len(found) != 1:
        raise errors.PluginError(
            f"{plugin}: pullback_register_communicator must call register(communicator) once"
        )
    return found[0]


# The end -----------------------------------------------------------------------------------------


def _end_together(world: World) -> None:
    """Has an uncaught exception end all ranks, and the end of the program wait for them."""
    before = sys.excepthook

    def hook(
        kind: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        stopped = issubclass(kind, KeyboardInterrupt)
        if not stopped or world.communicator.rank == 0:  # of all ranks at once
            before(kind, error, traceback)
        cause = entry_points.one_line(error)
        world.fail(cause, 130 if stopped else 1)

    def leave() -> None:
        if not world.failed:
            try:
                world.agree("has ended")
            except BaseException as error:
                world.fail(entry_points.one_line(error), 1)
                return
        if world.parent is not None:
            world.parent.tell("ends")
        if not world.failed:
            world.communicator.close()

    sys.excepthook = hook
    atexit.register(leave)
