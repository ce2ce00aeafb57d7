"""Ranks as threads of one process, for tests of programs that many processes will run."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from pullback import dtypes, errors
from pullback._dispatch.recording import paused, uncaptured
from pullback.devices import Device
from pullback.distributed.communicator import Communicator
from pullback.distributed.world import World, entering
from pullback.graph import function as tracing
from pullback.ops.arithmetic import add, maximum, minimum
from pullback.ops.joining import concat
from pullback.plugins.records import Native
from pullback.shapes import as_count
from pullback.tensor import Tensor, wrap

__all__ = ["run_threads"]

R = TypeVar("R")
#: How long a rank waits for the others, in seconds.
PATIENCE = 60.0
_STEPS = {"sum": add, "mean": add, "max": maximum, "min": minimum}


def run_threads(function: Callable[[], R], ranks: int) -> list[R]:
    """Calls a function in as many threads as there are ranks, and returns their results.

    It stands in for many processes in tests. The threads share the program's globals, its default
    generator among them, so a function makes its model, its data and what it captures itself.

    Args:
        function: what each rank runs.
        ranks: the number of ranks.

    Raises:
        BaseException: what the first rank that failed has raised; the others end too.

    >>> pb.distributed.run_threads(lambda: (pb.distributed.rank(), pb.distributed.size()), 2)
    [(0, 2), (1, 2)]
    """
    meeting = _Meeting(as_count(ranks, "ranks"))
    results: list[Any] = [None] * ranks
    failures: list[tuple[int, BaseException]] = []

    def run(rank: int, communicator: Communicator) -> None:
        try:
            with entering(World(communicator)):
                results[rank] = function()
                communicator.exchange(b"")
        except BaseException as error:
            failures.append((rank, error))
            meeting.fail()

    threads = []
    for rank in range(ranks):
        arguments = rank, _ThreadCommunicator(rank, ranks, meeting)
        threads.append(threading.Thread(target=run, args=arguments, name=f"rank {rank}"))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        # What the others raise is that this one is not there.
        rank, error = next((f for f in failures if not isinstance(f[1], _Broken)), failures[0])
        error.add_note(f"in rank {rank} of {ranks}")
        raise error
    return results


class _Broken(errors.CommunicationError):
    """A rank that waits for one that has failed, or is late."""


class _Meeting:
    """The place to which all threads come with what they have."""

    def __init__(self, size: int) -> None:
        self._size = size
        # Who waits in a trace lets others trace meanwhile, as they do in processes of their own.
        self._condition = threading.Condition(tracing.TRACING)
        self._given: list[Any] = [None] * size
        self._count = 0
        self._failed = False

    def exchange(self, rank: int, data: object) -> list[Any]:
        """Returns what all ranks have given, when they have."""
        with self._condition:
            given = self._given
            given[rank] = data
            self._count += 1
            if self._count == self._size and not self._failed:
                self._given, self._count = [None] * self._size, 0
                self._condition.notify_all()
            else:
                self._condition.wait_for(
                    lambda: self._failed or self._given is not given, timeout=PATIENCE
                )
            if self._given is given:
                self._failed = True
                raise _Broken(
                    f"rank {rank} waits for a rank that has failed, has ended, or has not come for "
                    f"{PATIENCE:g} s"
                )
        return given

    def fail(self) -> None:
        """Has nobody wait any more."""
        with self._condition:
            self._failed = True
            self._condition.notify_all()


class _ThreadCommunicator(Communicator):
    """The communicator of one thread."""

    name = "threads"

    def __init__(self, rank: int, size: int, meeting: _Meeting) -> None:
        self.rank, self.size = rank, size
        self._meeting = meeting

    def takes(self, device: Device) -> bool:
        self._device = device
        return True

    def exchange(self, data: object) -> list[Any]:
        return self._meeting.exchange(self.rank, data)

    def _all(self, array: Native) -> list[Tensor]:
        return [wrap(other, self._device) for other in self.exchange(array)]

    def all_reduce(self, array: Native, op: str) -> Native:
        parts = self._all(array)
        with uncaptured(), paused():
            return _native(self._reduced(parts, op))

    def _reduced(self, parts: list[Tensor], op: str) -> Tensor:
        own = parts[0].dtype
        narrow = dtypes.is_floating(own) and own.itemsize < 4
        total = parts[0].astype("float32") if narrow else parts[0]
        for part in parts[1:]:
            total = _STEPS[op](total, part)
        return (total / self.size if op == "mean" else total).astype(own)

    def _part(self, x: Tensor) -> Tensor:
        length = x.shape[0] // self.size
        return x[self.rank * length : (self.rank + 1) * length]

    def all_gather(self, array: Native) -> Native:
        parts = self._all(array)
        with uncaptured(), paused():
            return _native(concat(parts))

    def reduce_scatter(self, array: Native) -> Native:
        parts = self._all(array)
        with uncaptured(), paused():
            return _native(self._reduced([self._part(part) for part in parts], "sum"))

    def broadcast(self, array: Native, root: int) -> Native:
        found: Native = self.exchange(array)[root]
        return found

    def all_to_all(self, array: Native) -> Native:
        parts = self._all(array)
        with uncaptured(), paused():
            return _native(concat([self._part(part) for part in parts]))


def _native(tensor: Tensor) -> Native:
    array: Native = tensor._array
    return array
