"""`pullback.profile`: where the time of a program goes, op by op."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod
from pathlib import Path
from time import perf_counter_ns
from typing import Any, NamedTuple, Self

from pullback import errors
from pullback.plugins import observation
from pullback.plugins.backend import Backend
from pullback.plugins.late_errors import LATE_ERRORS, raise_late

__all__ = ["OpProfile", "Profile", "profile"]

#: The calls that are kept one by one, for the trace; the table counts all of them.
_EVENTS = 1_000_000
#: The calls whose time on the device may wait to be read.
_WAITING = 8192


class OpProfile(NamedTuple):
    """The calls of an op's kernels on one backend; `bytes` is the size of all their results.

    `device_seconds` is the time on the device, where the backend measures it; None elsewhere.
    """

    op: str
    backend: str
    calls: int
    seconds: float
    bytes: int
    device_seconds: float | None = None

    @property
    def mean(self) -> float:
        """The seconds of a call."""
        return self.seconds / self.calls


class _Event(NamedTuple):
    """A call, or a section: the times are in ns."""

    name: str
    kind: str
    thread: int
    start: int
    end: int
    details: dict[str, Any]


class _Timed(NamedTuple):
    """A call whose time on the device is read later, when the device is done."""

    key: tuple[str, str]
    backend: Backend
    events: Sequence[tuple[Any, Any]]
    details: dict[str, Any]


class Profile:
    """A context manager that collects the calls of kernels; made by `pullback.profile`.

    Args:
        synchronize: whether each call waits until its device is done.
    """

    def __init__(self, *, synchronize: bool = False) -> None:
        self.synchronize = synchronize
        self._lock = threading.Lock()
        self._events: list[_Event] = []
        self._totals: dict[tuple[str, str], tuple[int, int, int]] = {}
        self._waiting: list[_Timed] = []
        self._device_seconds: dict[tuple[str, str], float] = {}
        self._threads: dict[int, str] = {}
        self._started: int | None = None
        self._wall = 0

    def __enter__(self) -> Self:
        with self._lock:
            if self._started is not None:
                raise errors.InputValueError(
                    "this profile is running already; make another one with pb.profile() to nest "
                    "them"
                )
            self._started = perf_counter_ns()
        observation.start(self)
        return self

    def __exit__(self, *_: object) -> None:
        observation.stop(self)
        with self._lock:
            if self._started is not None:
                self._wall += perf_counter_ns() - self._started
                self._started = None

    @contextmanager
    def section(self, name: str) -> Iterator[None]:
        """Shows a part of the program in the trace, above the ops that it calls."""
        start = perf_counter_ns()
        try:
            yield
        finally:
            with self._lock:
                self._keep(name, "section", start, perf_counter_ns(), {})

    def record(
        self,
        op_name: str,
        backend: Backend,
        start: int,
        end: int,
        result: Any,
        events: Sequence[tuple[Any, Any]],
    ) -> None:
        """Gets one call of a kernel."""
        size = _bytes(backend, result)
        details: dict[str, Any] = {"backend": backend.name, "bytes": size}
        if result is None:
            details["raised"] = True
        key = (op_name, backend.name)
        with self._lock:
            self._keep(op_name, "op", start, end, details)
            calls, total, sizes = self._totals.get(key, (0, 0, 0))
            self._totals[key] = (calls + 1, total + end - start, sizes + size)
            if events:
                self._waiting.append(_Timed(key, backend, events, details))
            full = len(self._waiting) >= _WAITING
        if full:
            # Those of the older half are over, so that nothing waits.
            self._resolve(_WAITING // 2)

    def _keep(self, name: str, kind: str, start: int, end: int, details: dict[str, Any]) -> None:
        """Keeps an event for the trace; the lock is held."""
        thread = threading.current_thread()
        number = thread.ident or 0
        self._threads[number] = thread.name
        if len(self._events) < _EVENTS:
            self._events.append(_Event(name, kind, number, start, end, details))

    def _resolve(self, count: int | None = None) -> None:
        """Reads the times of the device of the first `count` calls; of all if None."""
        with self._lock:
            ready, self._waiting = self._waiting[:count], self._waiting[count:] if count else []
        for call in ready:
            # A kernel runs on one device: on the others nothing lies between the events.
            try:
                seconds = max(call.backend.elapsed(start, end) for start, end in call.events)
            except LATE_ERRORS as error:
                raise_late(error, call.backend.name)
            call.details["device_us"] = round(seconds * 1e6, 3)
            with self._lock:
                before = self._device_seconds.get(call.key, 0.0)
                self._device_seconds[call.key] = before + seconds

    @property
    def seconds(self) -> float:
        """The time between the begin and the end of the profile, up to now if it is running."""
        running = 0 if self._started is None else perf_counter_ns() - self._started
        return (self._wall + running) / 1e9

    @property
    def ops(self) -> list[OpProfile]:
        """The ops that were called, those with the most time first.

        Waits for the device where its backend measures times there.
        """
        self._resolve()
        with self._lock:
            totals, device = dict(self._totals), dict(self._device_seconds)
        rows = [
            OpProfile(*key, calls, total / 1e9, size, device.get(key))
            for key, (calls, total, size) in totals.items()
        ]
        return sorted(rows, key=lambda row: (-_time(row), row.op, row.backend))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a file in Chrome's trace format, for Perfetto or `chrome://tracing`.

        Raises:
            OSError: if the file cannot be written.
        """
        self._resolve()
        with self._lock:
            calls, threads = list(self._events), dict(self._threads)
        process = os.getpid()
        events: list[dict[str, Any]] = [
            {
                "name": "thread_name",
                "ph": "M",
                "pid": process,
                "tid": number,
                "args": {"name": name},
            }
            for number, name in threads.items()
        ]
        # A section first: of two events that begin together, viewers draw the longer one outside.
        for event in sorted(calls, key=lambda call: (call.start, -call.end)):
            events.append(
                {
                    "name": event.name,
                    "cat": event.kind,
                    "ph": "X",
                    "ts": event.start / 1e3,
                    "dur": (event.end - event.start) / 1e3,
                    "pid": process,
                    "tid": event.thread,
                    "args": event.details,
                }
            )
        text = json.dumps({"traceEvents": events, "displayTimeUnit": "ms"})
        Path(path).write_text(text, encoding="utf-8")

    def __str__(self) -> str:
        rows = self.ops
        total = sum(map(_time, rows))
        cells = [["op", "backend", "calls", "total ms", "mean us", "share", "MB"]]
        cells += [
            [
                row.op,
                row.backend,
                str(row.calls),
                f"{row.seconds * 1e3:.3f}",
                f"{row.mean * 1e6:.1f}",
                f"{_time(row) / total if total else 0:.1%}",
                f"{row.bytes / 1e6:.2f}",
            ]
            for row in rows
        ]
        if any(row.device_seconds is not None for row in rows):
            times = (
                "-" if s is None else f"{s * 1e3:.3f}" for s in (r.device_seconds for r in rows)
            )
            for cell, time in zip(cells, ["device ms", *times], strict=True):
                cell.insert(3, time)
        calls = sum(row.calls for row in rows)
        lines = _aligned(cells)
        lines.append(
            f"{calls} calls of kernels, {total * 1e3:.3f} ms; {self.seconds * 1e3:.3f} ms in all"
        )
        return "\n".join(lines)

    def __repr__(self) -> str:
        state = "running" if self._started is not None else f"{self.seconds:.3g} s"
        return f"<Profile, {sum(row.calls for row in self.ops)} calls, {state}>"


def profile(*, synchronize: bool = False) -> Profile:
    """Measures each op within a `with` statement, in all threads.

    A row of the table is an op with a kernel: the calls, their time in all and on average, and the
    size of their results. A composite op without a kernel shows as the ops that its body calls.
    Measuring adds about 2 us to each call. Outside the statement nothing is slower.

    Args:
        synchronize: True to have each call wait until its device is done. On a GPU, where kernels
            run later than they are called, the times are otherwise those of the calls, and beside
            them those on the device where the backend measures them (`Backend.event`).

    Returns:
        The profile, which is printed as a table; `save` writes a trace for Perfetto.

    >>> import tempfile
    >>> with pb.profile() as profile:
    ...     x = pb.ones((100, 100))
    ...     y = pb.sum(x @ x)
    >>> sorted(row.op for row in profile.ops)
    ['full', 'matmul', 'sum']
    >>> profile.save(tempfile.mkdtemp() + "/trace.json")
    """
    return Profile(synchronize=synchronize)


def _time(row: OpProfile) -> float:
    """The seconds of the device, or of the calls where it is not measured."""
    return row.seconds if row.device_seconds is None else row.device_seconds


def _bytes(backend: Backend, result: Any) -> int:
    """The size of what a kernel returned."""
    arrays: Sequence[Any] = result if isinstance(result, (tuple, list)) else (result,)
    size = 0
    for array in arrays:
        try:
            dtype = backend.public_dtypes.get(getattr(array, "dtype", None))
        except TypeError:  # a dtype that has no hash
            dtype = None
        if dtype is not None:
            size += dtype.itemsize * prod(array.shape)
    return size


def _aligned(cells: list[list[str]]) -> list[str]:
    """The lines of a table: two columns of words, and numbers after them."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if i < 2 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]
