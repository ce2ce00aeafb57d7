"""Work split over threads: NumPy lets go of Python's lock while it computes.

`run(work, pieces)` calls work(piece) for every piece, in the calling thread and in helpers that
wait for it. Whoever is free takes the next piece, so a core that is busy elsewhere slows nothing
down; where the pieces begin and end never depends on the number of threads. Waking a helper takes
some 20 to 50 us: pieces worth less than that in sum are not worth splitting.

BLAS has threads of its own. Two threads that call it at once wait for each other, or take each
other's cores; so while pieces with matrix products run, BLAS is told to use one thread.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from queue import SimpleQueue
from typing import Any, TypeVar

import numpy as np

Piece = TypeVar("Piece")

#: Setters of the number of BLAS threads, by the names they have in the builds of OpenBLAS.
_SETTERS = (
    "scipy_openblas_set_num_threads64_",
    "scipy_openblas_set_num_threads",
    "openblas_set_num_threads64_",
    "openblas_set_num_threads",
)


def _given() -> int:
    """How many threads to use: PULLBACK_NUM_THREADS, OMP_NUM_THREADS, or one for each core."""
    for name in ("PULLBACK_NUM_THREADS", "OMP_NUM_THREADS"):
        text = os.environ.get(name, "")
        if text.isdigit() and int(text):
            return int(text)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class _Here(threading.local):
    """Whether this thread is at work on a piece: what it calls then is not split again."""

    inside = False


class _Job:
    """The pieces of one call."""

    def __init__(self, work: Callable[[Any], Any], pieces: Sequence[Any]) -> None:
        self.work = work
        self.size = len(pieces)
        self.pieces = iter(pieces)  # `next` of a list's iterator is one step for all threads
        self.finished = count()
        self.error: BaseException | None = None
        self.last: SimpleQueue[None] = SimpleQueue()

    def help(self) -> None:
        """Works until no piece is left; says so when the last one is done."""
        _HERE.inside = True
        done = 0
        try:
            for piece in self.pieces:
                try:
                    if self.error is None:
                        self.work(piece)
                except BaseException as error:
                    self.error = error
                done = next(self.finished) + 1
        finally:
            _HERE.inside = False
        if done == self.size:
            self.last.put(None)


class _Pool:
    """Helpers, started when there is something to split for the first time."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.jobs: SimpleQueue[_Job] = SimpleQueue()
        self.started = 0

    def run(self, work: Callable[[Any], Any], pieces: Sequence[Any]) -> None:
        """Calls work(piece) for every piece; raises the first error."""
        helpers = min(self.threads, len(pieces)) - 1
        while self.started < self.threads - 1:
            self.started += 1
            threading.Thread(target=self._serve, name="pullback", daemon=True).start()
        job = _Job(work, pieces)
        for _ in range(helpers):
            self.jobs.put(job)
        job.help()
        job.last.get()
        if job.error is not None:
            raise job.error

    def _serve(self) -> None:
        while True:
            self.jobs.get().help()


def _find_setter() -> Any:
    """A function that sets the number of BLAS threads; None where BLAS is not one we know."""
    try:
        # A look-up in NumPy's own module goes on in the libraries that it was linked with.
        library = ctypes.CDLL(np._core._multiarray_umath.__file__)  # type: ignore[attr-defined]
    except (AttributeError, OSError):
        return None
    for name in _SETTERS:
        setter = getattr(library, name, None)
        if setter is not None:
            setter.argtypes, setter.restype = [ctypes.c_int], None
            return setter
    return None


_HERE = _Here()
_POOL = _Pool(_given())
_SET_BLAS = _find_setter()
_BLAS_LOCK = threading.Lock()
_BLAS_USERS = 0


def _forget() -> None:
    """A child process has none of its parent's threads."""
    global _POOL, _BLAS_LOCK, _BLAS_USERS
    _POOL = _Pool(_POOL.threads)
    _BLAS_LOCK, _BLAS_USERS = threading.Lock(), 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def threads() -> int:
    """How many threads a piece of work here is split over; 1 inside a piece."""
    return 1 if _HERE.inside else _POOL.threads


@contextmanager
def number_of_threads(number: int) -> Iterator[None]:
    """Uses so many threads inside the block, in this process."""
    global _POOL
    before, _POOL = _POOL, _Pool(number)
    try:
        yield
    finally:
        _POOL = before


def run(work: Callable[[Piece], Any], pieces: Iterable[Piece]) -> None:
    """Calls work(piece) for every piece, on all threads. The pieces use no BLAS."""
    pieces = pieces if isinstance(pieces, list) else list(pieces)
    if len(pieces) < 2 or _HERE.inside or _POOL.threads < 2:
        for piece in pieces:
            work(piece)
    else:
        _POOL.run(work, pieces)


def run_with_blas(work: Callable[[Piece], Any], pieces: Iterable[Piece]) -> None:
    """As `run`, for pieces with matrix products; one after the other where BLAS is not ours."""
    pieces = pieces if isinstance(pieces, list) else list(pieces)
    if len(pieces) < 2 or _HERE.inside or _POOL.threads < 2 or _SET_BLAS is None:
        for piece in pieces:
            work(piece)
        return
    with _single_blas():
        _POOL.run(work, pieces)


@contextmanager
def _single_blas() -> Iterator[None]:
    global _BLAS_USERS
    with _BLAS_LOCK:
        _BLAS_USERS += 1
        if _BLAS_USERS == 1:
            _SET_BLAS(1)
    try:
        yield
    finally:
        with _BLAS_LOCK:
            _BLAS_USERS -= 1
            if not _BLAS_USERS:
                _SET_BLAS(_POOL.threads)
