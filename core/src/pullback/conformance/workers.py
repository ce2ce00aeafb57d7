"""Measures ops in processes of their own: several at once, and a crash ends one op, not the run."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from typing import IO, Any

from pullback import errors
from pullback.conformance import saved
from pullback.conformance.mode import Clock, Mode
from pullback.conformance.plan import Item
from pullback.conformance.report import Report
from pullback.conformance.runner import measure, new_report
from pullback.conformance.samples import load
from pullback.devices import Device, as_device
from pullback.plugins.public import use_kernel_packs
from pullback.spec import OPS, Op

#: What a worker runs: it finds modules where its parent does.
_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.stdin.readline()); "
    "from pullback.conformance.workers import serve; serve()"
)
#: The end of the stream of results.
_END = object()


class Workers:
    """Measures ops in `jobs` processes, for `runner.conform(by=...)`.

    The backend has to be an installed one: the processes load it by its name.
    """

    def __init__(self, jobs: int) -> None:
        if jobs < 1:
            raise errors.InputValueError(f"--jobs must be at least 1, got {jobs}")
        self.jobs = jobs

    def __call__(self, ops: Sequence[Op], device: Device, report: Report) -> Iterator[Op]:
        """Yields each op when its results are in the report, in the order in which they end."""
        jobs = min(self.jobs, len(ops))
        waiting = iter(ops)
        clock = Clock(report.mode, len(ops), jobs)
        lock = threading.Lock()
        results: queue.Queue[Any] = queue.Queue()
        workers: list[_Worker] = []
        stopped = threading.Event()

        def following() -> tuple[Op, float | None] | None:
            with lock:
                limit = clock.next()
                op = None if limit == 0 or stopped.is_set() else next(waiting, None)
                return None if op is None else (op, limit)

        def work() -> None:
            worker: _Worker | None = None
            try:
                while (job := following()) is not None:
                    if worker is None or not worker.alive:
                        worker = _Worker(report)
                        workers.append(worker)
                        worker.start()
                    op, limit = job
                    results.put((op, worker.measure(op, limit)))
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
                op, found = result
                if isinstance(found, BaseException):
                    raise found
                report.forget(op.name)
                if isinstance(found, str):
                    report.died(op, bool(device.backend.kernels_for(op.name)), found)
                else:
                    saved.restore(report, found, [op.name])
                yield op
        finally:
            stopped.set()
            for worker in workers:
                worker.stop()


class _Worker:
    """A process that measures one op after the other."""

    def __init__(self, report: Report) -> None:
        self._first = {"device": report.name, "mode": report.mode.as_dict(), "packs": report.packs}
        # In a session of its own, Ctrl-C on the terminal ends the parent alone, which ends it.
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            start_new_session=True,
        )

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
            why = self._end() if answer is None else answer["error"]
            raise errors.BackendError(
                f"--jobs: a process for {self._first['device']!r} did not start: {why}; it has to "
                f"be an installed backend, not one of `pb.register_backend`; or leave --jobs out"
            )

    def measure(self, op: Op, limit: float | None) -> dict[str, Any] | str:
        """The report of one op; if the process dies, how."""
        self._send({"op": op.name, "limit": limit})
        place = ""
        while (answer := self._receive()) is not None:
            if "at" not in answer:
                return answer
            place = answer["at"]
        return self._end() + (f" in {place}" if place else "")

    def stop(self) -> None:
        """Ends the process."""
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

    def _end(self) -> str:
        """The way in which the process ended, such as "ended by SIGSEGV"."""
        status = self._process.wait()
        if status >= 0:
            return f"ended with exit status {status}"
        try:
            return f"ended by {signal.Signals(-status).name}"
        except ValueError:
            return f"ended by signal {-status}"


def serve() -> None:
    """Measures the ops that are named on stdin, and writes their reports to stdout: a worker."""
    # What kernels print goes to stderr.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    first = json.loads(sys.stdin.readline())
    try:
        use_kernel_packs(first["packs"])
        device = as_device(first["device"])
        report = new_report(device, first["device"], Mode(**first["mode"]))
        load()
    except errors.PullbackError as error:
        _answer(answers, {"error": str(error)})
        return
    _answer(answers, {})

    def watch(item: Item) -> None:
        where = ", ".join(part for part in (item.sample, item.dtype) if part)
        _answer(answers, {"at": f"{item.check} [{where}]"})

    for line in sys.stdin:
        job = json.loads(line)
        op = OPS[job["op"]]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            measure(op, device, report, limit=job["limit"], watch=watch)
        _answer(answers, report.as_dict())
        report.forget(op.name)
        device.backend.clear_caches()


def _answer(answers: IO[str], value: dict[str, Any]) -> None:
    answers.write(json.dumps(value) + "\n")
    answers.flush()
