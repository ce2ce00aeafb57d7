"""Measures in processes of their own: several at once, and what crashes or hangs ends one check.

A check that ends its process, or that is ended because it takes too long, fails by its name. The op
is measured again in a new process, without this check. No process outlives its parent: on Linux the
system ends it, whatever a kernel does; elsewhere a thread, when no kernel holds Python's lock.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from typing import IO, Any

from pullback import errors
from pullback.devices import Device, as_device
from pullback.plugins.public import use_kernel_packs
from pullback_conformance import saved
from pullback_conformance.mode import Clock, Mode
from pullback_conformance.report import Report
from pullback_conformance.runner import InTurn, measure, new_report
from pullback_conformance.samples import load

#: What a worker runs: it finds modules where its parent does.
_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.stdin.readline()); "
    "from pullback_conformance.workers import serve; serve()"
)
#: The end of the stream of results.
_END = object()
#: The seconds that a check may take if nothing else is said.
TIMEOUT = 60.0
#: The seconds between two looks at the time of a check.
PAUSE = 0.1
#: The checks of one op that may end a process before the rest of the op is left out.
MOST = 3


class Workers:
    """Measures in `jobs` processes, for `runner.conform(by=...)`.

    The backend has to be an installed one: the processes load it by its name.

    Args:
        jobs: the number of processes.
        timeout: the seconds that one check may take on a machine that does nothing else; 0 for
            any time.

    Raises:
        InputValueError: for numbers that cannot be.
    """

    def __init__(self, jobs: int, timeout: float = TIMEOUT) -> None:
        if jobs < 1:
            raise errors.InputValueError(f"--jobs must be at least 1, got {jobs}")
        if not 0 <= timeout < float("inf"):
            raise errors.InputValueError(
                f"--timeout must be a number of seconds, or 0 for any time, got {timeout}"
            )
        self.jobs = jobs
        self.timeout = timeout
        self._idle: list[_Worker] = []

    def basics(self, device: Device, report: Report) -> str:
        """Says what is wrong with the prerequisites of all checks; empty if nothing is."""
        worker = _Worker(report, self.timeout)
        try:
            worker.start()
            answer = worker.ask({"basics": True})
        except BaseException:
            worker.stop()
            raise
        if answer is None:
            name = type(device.backend).__name__
            return f"{name}, in a transfer or in add: {worker.end()}"
        self._idle.append(worker)
        return str(answer["stopped"])

    def __call__(self, rows: Sequence[str], device: Device, report: Report) -> Iterator[str]:
        """Yields each row when its results are in the report, in the order in which they end."""
        jobs = min(self.jobs, len(rows))
        waiting = iter(rows)
        clock = Clock(report.mode, len(rows), jobs)
        lock = threading.Lock()
        results: queue.Queue[Any] = queue.Queue()
        workers = self._idle
        self._idle = []
        idle = list(workers)
        stopped = threading.Event()

        def following() -> tuple[str, float | None] | None:
            with lock:
                limit = clock.next()
                row = None if limit == 0 or stopped.is_set() else next(waiting, None)
                return None if row is None else (row, limit)

        def begin() -> _Worker:
            with lock:
                if idle:
                    return idle.pop()
                worker = _Worker(report, self.timeout)
                workers.append(worker)
            worker.start()
            return worker

        def measured(row: str, limit: float | None, worker: _Worker) -> tuple[Any, _Worker]:
            ended: list[tuple[int, str]] = []
            while True:
                until = ended[-1][0] if len(ended) == MOST else None
                job = {"row": row, "limit": limit, "ended": ended, "until": until}
                if (answer := worker.ask(job)) is not None:
                    return answer, worker
                how = worker.end()
                if worker.place is None or len(ended) == MOST:
                    return how, worker
                if len(ended) == MOST - 1:
                    how += f"; the checks of {row} after it are not made"
                ended.append((worker.place, how))
                worker = begin()

        def work() -> None:
            worker: _Worker | None = None
            try:
                while (job := following()) is not None:
                    row, limit = job
                    if worker is None or not worker.alive:
                        worker = begin()
                    found, worker = measured(row, limit, worker)
                    results.put((row, found))
            except BaseException as error:
                results.put((None, error))
            finally:
                if worker is not None:
                    worker.stop()
                results.put(_END)

        for _ in range(jobs):
            threading.Thread(target=work, daemon=True).start()
        try:
            running = jobs
            while running:
                result = results.get()
                if result is _END:
                    running -= 1
                    continue
                row, found = result
                if isinstance(found, BaseException):
                    raise found
                report.forget(row)
                if isinstance(found, str):
                    report.died(row, bool(device.backend.kernels_for(row)), found)
                else:
                    saved.restore(report, found, [row])
                yield row
        finally:
            stopped.set()
            with lock:
                for worker in workers:
                    worker.stop()


class _Worker:
    """A process that measures one row after the other, and is ended if a check takes too long."""

    def __init__(self, report: Report, timeout: float) -> None:
        self._first = {"device": report.name, "mode": report.mode.as_dict(), "packs": report.packs}
        self._timeout = timeout
        #: The number of the check that runs; None outside of checks.
        self.place: int | None = None
        self._began = float("inf")
        self._late = False
        self._ended = threading.Event()
        # In a session of its own, Ctrl-C on the terminal ends the parent alone, which ends it.
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            start_new_session=True,
        )
        if timeout:
            threading.Thread(target=self._look, daemon=True).start()

    def _look(self) -> None:
        """Ends the process when a check has taken too long."""
        while not self._ended.wait(PAUSE):
            if time.monotonic() - self._began > self._timeout * _crowd():
                self._late = True
                self._process.kill()
                return

    @property
    def alive(self) -> bool:
        """True until the process ends."""
        return self._process.poll() is None

    def start(self) -> None:
        """Waits until the process has loaded the backend.

        Raises:
            BackendError: if it cannot.
        """
        self._send(sys.path)
        self._send(self._first)
        answer = self._receive()
        if answer is None or "error" in answer:
            why = self.end() if answer is None else answer["error"]
            raise errors.BackendError(
                f"--jobs: a process for {self._first['device']!r} did not start: {why}; it has to "
                f"be an installed backend, not one of `pb.register_backend`; or leave --jobs out"
            )

    def ask(self, job: dict[str, Any]) -> dict[str, Any] | None:
        """Returns the answer to a job; None if the process ends. `place` is then the last check."""
        self.place = None
        self._send(job)
        while (answer := self._receive()) is not None and "at" in answer:
            self.place = answer["at"]
            self._began = time.monotonic()
        self._began = float("inf")
        return answer

    def stop(self) -> None:
        """Ends the process."""
        self._ended.set()
        with contextlib.suppress(OSError):
            self._process.kill()
        self._process.wait()

    def _send(self, value: object) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # it has died, which `_receive` sees
            self._process.stdin.write(json.dumps(value) + "\n")
            self._process.stdin.flush()

    def _receive(self) -> dict[str, Any] | None:
        assert self._process.stdout is not None
        try:
            line = self._process.stdout.readline()
            answer: dict[str, Any] | None = json.loads(line) if line else None
        except ValueError:
            return None  # the pipe is closed, or the process died while it wrote
        return answer

    def end(self) -> str:
        """The way in which the process ended, such as "the process ended by SIGSEGV"."""
        self._ended.set()
        status = self._process.wait()
        if self._late:
            return f"took longer than {self._timeout:g} s; --timeout SECONDS gives it more"
        if status >= 0:
            return f"the process ended with exit status {status}"
        try:
            return f"the process ended by {signal.Signals(-status).name}"
        except ValueError:
            return f"the process ended by signal {-status}"


def _crowd() -> float:
    """The processes that want each processor: a check takes as many times longer; 1 or more."""
    try:
        load = os.getloadavg()[0]
    except (AttributeError, OSError):  # not on Windows
        return 1.0
    return max(1.0, load / (os.cpu_count() or 1))


def serve() -> None:
    """Measures the rows that are named on stdin, and writes their reports to stdout: a worker."""
    _end_with_parent()
    # What kernels print goes to stderr.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    jobs: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(jobs,), daemon=True).start()
    first = jobs.get()
    try:
        use_kernel_packs(first["packs"])
        device = as_device(first["device"])
        report = new_report(device, first["device"], Mode(**first["mode"]))
        load()
    except errors.PullbackError as error:
        _answer(answers, {"error": str(error)})
        return
    _answer(answers, {})

    def watch(number: int | None) -> None:
        _answer(answers, {"at": number})

    while True:
        job = jobs.get()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if "basics" in job:
                watch(None)
                _answer(answers, {"stopped": InTurn().basics(device, report)})
                continue
            row = job.pop("row")
            measure(row, device, report, watch=watch, **job)
        watch(None)
        device.backend.clear_caches()
        _answer(answers, report.as_dict())
        report.forget(row)


def _end_with_parent() -> None:
    """Has Linux end this process when the parent ends, also while a kernel holds Python's lock."""
    if sys.platform == "linux":
        set_signal_at_death_of_parent = 1
        ctypes.CDLL(None).prctl(set_signal_at_death_of_parent, signal.SIGKILL)


def _read(jobs: queue.SimpleQueue[dict[str, Any]]) -> None:
    """Reads jobs until the pipe ends, as it does with the parent, and then ends this process."""
    for line in sys.stdin:
        jobs.put(json.loads(line))
    os._exit(1)


def _answer(answers: IO[str], value: dict[str, Any]) -> None:
    answers.write(json.dumps(value) + "\n")
    answers.flush()
