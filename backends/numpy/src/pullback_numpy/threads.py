"""Work split over threads: NumPy releases Python's lock while it computes.

`run(work, pieces)` calls work(piece) for every piece, in the calling thread and in helpers that
wait for it. A thread that is free takes the next piece, so a core that is busy elsewhere slows
nothing down. Sums are made of the same pieces for any number of threads.

Waking a helper takes some 50 us, and every call of NumPy ends with a wait for Python's lock: two
threads that call it every 10 us are slower than one. So only what is large is split, into pieces
whose calls take 30 us or more.

BLAS has threads of its own. They do not need Python's lock, and they spin after a product, ready
for the next. For a single product they are faster. But they spin for some 20 ms, and take that time
from ours: so OpenBLAS is told to let them sleep after 0.1 ms (transformer: 130 ms a step with
products split here, 126 with BLAS's threads as they are, 112 with the short spin). BLAS works with
one thread while pieces run (`run_with_blas`), and always where its spin cannot be set. Other
callers of BLAS keep its threads.
"""

from __future__ import annotations

import _thread
import ctypes
import os
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ContextDecorator, contextmanager
from itertools import count
from queue import SimpleQueue
from typing import Any, TypeVar

import numpy as np

Piece = TypeVar("Piece")

#: Elements of a piece: several float32 arrays of this size stay in a second-level cache, so that
#: all passes over a piece but the first read from there.
PIECE = 1 << 16
#: Work on at least this many elements is worth a second thread.
LARGE = 1 << 19

#: The most threads: a larger number is a mistake, and every thread takes memory.
MOST = 1024

#: The names that functions of OpenBLAS have in its builds.
BUILDS = ("scipy_openblas_{}64_", "scipy_openblas_{}", "openblas_{}64_", "openblas_{}")
#: The logarithm of the processor's cycles that OpenBLAS's threads spin for, and its name there.
_SPIN, _SPIN_NAME = 18, "OPENBLAS_THREAD_TIMEOUT"


def _configured_threads() -> int:
    """The number of threads: PULLBACK_NUM_THREADS, OMP_NUM_THREADS, or one for each core."""
    text = os.environ.get("PULLBACK_NUM_THREADS", "").strip()
    number = _parse_count(text)
    if text and number is None:
        warnings.warn(
            f"PULLBACK_NUM_THREADS must be an integer from 1 to {MOST}, got {text[:40]!r}, which "
            "is not used; set such a number, or unset it for one thread on each core",
            stacklevel=2,
        )
    if not text:
        # OpenMP's may be a list with a number for each level: the first counts here.
        number = _parse_count(os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip())
    if number is not None:
        return number
    if hasattr(os, "sched_getaffinity"):
        return min(MOST, len(os.sched_getaffinity(0)))
    return min(MOST, os.cpu_count() or 1)


def _parse_count(text: str) -> int | None:
    """Parses a number of threads; None if it is not an integer from 1 to MOST."""
    # Not isdigit, which is True for characters that int rejects; int rejects long numbers too.
    fits = text.isdecimal() and len(text) < 20
    return int(text) if fits and 1 <= int(text) <= MOST else None


class _Local(threading.local):
    """The state of a thread: inside a piece, whose calls are not split again, or not."""

    inside = False


class _Job:
    """The pieces of one call."""

    def __init__(self, work: Callable[[Any], Any], pieces: Sequence[Any]) -> None:
        self.work = work
        self.size = len(pieces)
        self.pieces = iter(pieces)  # `next` of it is one step for all threads
        self.finished = count()
        self.error: BaseException | None = None
        self.last: SimpleQueue[None] = SimpleQueue()

    def help(self) -> None:
        """Works until no piece is left, and reports when the last piece is done."""
        _LOCAL.inside = True
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
            _LOCAL.inside = False
        if done == self.size:
            self.last.put(None)


def _done(piece: object) -> None:
    """The work of a job whose pieces are all done."""


class _Pool:
    """Helper threads, started by the first call that is split."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self.started = 0

    def run(self, work: Callable[[Any], Any], pieces: Sequence[Any]) -> None:
        """Calls work(piece) for every piece; raises the first error."""
        helpers = min(self.threads, len(pieces)) - 1
        while self.started < helpers:
            self.started += 1
            try:
                # Not threading.Thread, whose start waits for ever for a thread that has had no
                # memory to begin with.
                _thread.start_new_thread(self._serve, ())
            except (RuntimeError, MemoryError):
                # No thread is to be had, as near a limit of memory: those there are do the work.
                self.started -= 1
                break
        job = _Job(work, pieces)
        for _ in range(helpers):
            self.jobs.put(job)
        job.help()
        job.last.get()
        # A helper refers to its last job until the next one comes.
        job.work, error, job.error = _done, job.error, None
        if error is not None:
            raise error

    def close(self) -> None:
        """Ends the helpers."""
        for _ in range(self.started):
            self.jobs.put(None)

    def _serve(self) -> None:
        while (job := self.jobs.get()) is not None:
            job.help()


def _library() -> Any:
    """NumPy's extension module, which also gives the symbols of the libraries that it links."""
    try:
        return ctypes.CDLL(np._core._multiarray_umath.__file__)  # type: ignore[attr-defined]
    except (AttributeError, OSError):
        return None


def _find_blas(library: Any) -> tuple[Any, Any] | None:
    """Functions that set and get the number of BLAS threads; None where BLAS is not OpenBLAS."""
    for build in BUILDS:
        setter = getattr(library, build.format("set_num_threads"), None)
        getter = getattr(library, build.format("get_num_threads"), None)
        if setter is not None and getter is not None:
            setter.argtypes, setter.restype = [ctypes.c_int], None
            getter.argtypes, getter.restype = [], ctypes.c_int
            return setter, getter
    return None


def _spin_briefly(library: Any) -> bool:
    """Makes OpenBLAS's threads sleep soon after a product; returns False if that cannot be set.

    The time is read from the environment when NumPy is imported. So it is read again, and the
    threads end, as they do at each fork: they start anew at the next product. If other threads run,
    which might be in the middle of a product, nothing is changed.
    """
    if _SPIN_NAME in os.environ:
        return True  # the user's choice
    read = getattr(library, "openblas_read_env", None)
    end = getattr(library, "blas_thread_shutdown_", None)
    if read is None or end is None or threading.active_count() > 1:
        return False
    os.environ[_SPIN_NAME] = str(_SPIN)
    read()
    end()
    del os.environ[_SPIN_NAME]
    return True


class _SingleBlas(ContextDecorator):
    """A context and a decorator: BLAS uses one thread while any thread is inside."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.users = 0
        self.before = 1

    def __enter__(self) -> None:
        if _BLAS is not None:
            with self.lock:
                self.users += 1
                if self.users == 1:
                    self.before = _BLAS[1]()
                    _BLAS[0](1)

    def __exit__(self, *_: object) -> None:
        if _BLAS is not None:
            with self.lock:
                self.users -= 1
                if not self.users:
                    _BLAS[0](self.before)


_LOCAL = _Local()
_POOL = _Pool(_configured_threads())
#: What the functions of NumPy's libraries are found in; None where it cannot be opened.
LIBRARY = _library()
_BLAS = _find_blas(LIBRARY)
_BRIEF = _BLAS is not None and _spin_briefly(LIBRARY)
single_blas = _SingleBlas()


def _reset_after_fork() -> None:
    """Starts anew in a child process, which has none of its parent's threads."""
    global _POOL
    _POOL = _Pool(_POOL.threads)
    if single_blas.users and _BLAS is not None:
        _BLAS[0](single_blas.before)
    single_blas.lock, single_blas.users = threading.Lock(), 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)


def threads() -> int:
    """The number of threads that work is split over; 1 inside a piece."""
    return 1 if _LOCAL.inside else _POOL.threads


def blas_splits() -> bool:
    """Returns whether BLAS should split a product: its threads are as many as ours, and sleep soon.

    Not inside a piece, and not while BLAS works with one thread.
    """
    count = _POOL.threads
    return _BRIEF and count > 1 and not _LOCAL.inside and _BLAS is not None and _BLAS[1]() == count


@contextmanager
def number_of_threads(number: int) -> Iterator[None]:
    """Uses this number of threads inside the block, in this process."""
    global _POOL
    before, _POOL = _POOL, _Pool(number)
    try:
        yield
    finally:
        _POOL.close()
        _POOL = before


def run(work: Callable[[Piece], Any], pieces: Iterable[Piece], elements: int | None = None) -> None:
    """Calls work(piece) for every piece, on all threads, or on one if there are few elements.

    The pieces have no matrix products (see `run_with_blas`).
    """
    pieces = pieces if isinstance(pieces, (list, tuple, range)) else list(pieces)
    few = elements is not None and elements < LARGE
    if len(pieces) < 2 or few or _LOCAL.inside or _POOL.threads < 2:
        for piece in pieces:
            work(piece)
    else:
        _POOL.run(work, pieces)


def over(work: Callable[[slice], Any], size: int, width: int = 1) -> None:
    """Calls work(rows) for slices of `size` rows of `width` elements, on all threads if worth it.

    For work where no element depends on which slice it is in: slices are larger for several
    threads, since each call of NumPy ends with a wait for Python's lock.
    """
    elements = size * width
    if 0 < elements <= PIECE:
        work(slice(0, size))
        return
    split = elements >= LARGE and threads() > 1
    step = max(1, (2 * PIECE if split else PIECE) // max(1, width))
    pieces = [slice(start, min(start + step, size)) for start in range(0, size, step)]
    if split:
        run(work, pieces)
    else:
        for piece in pieces:
            work(piece)


def run_with_blas(work: Callable[[Piece], Any], pieces: Iterable[Piece]) -> None:
    """As `run`, for pieces with matrix products."""
    with single_blas:
        run(work, pieces)
