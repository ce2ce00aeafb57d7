"""Workers in processes of their own. They exchange host arrays, and use no device."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import pickle
import signal
import threading
import traceback
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, process
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any

from pullback import errors
from pullback.data.calls import call
from pullback.data.elements import Element, as_arrays


class Processes:
    """Workers that call a function in processes, which end when they have no holder any more.

    They are started by `spawn`: a copy of this process would have its locks without its threads,
    and no device.
    """

    def __init__(self, function: Callable[..., object], count: int) -> None:
        self._pool = ProcessPoolExecutor(
            count, multiprocessing.get_context("spawn"), _begin, (function,)
        )
        self._lock = threading.Lock()
        self._holders = 0

    def hold(self) -> bool:
        """Counts one more holder; returns False if the processes have ended."""
        with self._lock:
            if self._holders < 0:
                return False
            self._holders += 1
            return True

    def submit(self, element: Element, key: int | None) -> Future[Any]:
        """Returns the future result of the function for an element.

        Raises:
            DataError: if a process has died.
        """
        arrays = as_arrays(element)
        try:
            with _held_back():
                return self._pool.submit(_call, arrays, key)
        except BrokenProcessPool as error:
            raise died(error) from error

    def release(self) -> None:
        """Counts one holder less; the last one ends the processes."""
        with self._lock:
            self._holders -= 1
            if self._holders:
                return
            self._holders = -1
        thread = self._pool._executor_manager_thread
        self._pool.shutdown(wait=False, cancel_futures=True)
        # At exit the standard library wakes each pool that it still lists. This one has been woken,
        # and may just be closing the pipe for that: an OSError would be printed.
        if thread is not None:
            process._threads_wakeups.pop(thread, None)
            _ENDING.add(thread)


#: The threads that tell processes to end, and wait for them.
_ENDING: weakref.WeakSet[Any] = weakref.WeakSet()


@atexit.register
def _join_ending() -> None:
    # Before multiprocessing, registered earlier, closes the queues: a process that is not told to
    # end would wait for work for ever, and this one for it.
    for thread in list(_ENDING):
        thread.join()


class SharedProcesses:
    """The processes of a stage: started when a pass begins, and shared by passes that overlap."""

    def __init__(self, function: Callable[..., object], count: int) -> None:
        self._function = function
        self._count = count
        self._running: Callable[[], Processes | None] = lambda: None

    def hold(self) -> Processes:
        """Returns the processes, for one more holder that will release them."""
        processes = self._running()
        if processes is None or not processes.hold():
            processes = Processes(self._function, self._count)
            processes.hold()
            self._running = weakref.ref(processes)
        return processes


@contextmanager
def _held_back() -> Iterator[None]:
    """Blocks Ctrl-C in this thread, and in the processes that it starts.

    A terminal sends it to all processes. Those that are still importing would end by it, and the
    data with them, before they can ignore it.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def broke(error: BaseException) -> bool:
    """True if an error is that of a worker process that died."""
    return isinstance(error.__cause__, BrokenProcessPool)


def died(error: BrokenProcessPool) -> errors.DataError:
    """Returns the error for a worker process that died, or never started."""
    return errors.DataError(
        f"a process of map ended by itself ({error}). Either it was killed, perhaps by the system "
        f"for its memory, or it could not start: with processes, a script has its statements "
        f'under `if __name__ == "__main__":`, and the function at the top of a module'
    )


def check(function: Callable[..., object]) -> None:
    """Checks that a function can be sent to other processes.

    Raises:
        InputTypeError: for a function that cannot be pickled.
    """
    try:
        pickle.dumps(function)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise errors.InputTypeError(
            f"map cannot send {getattr(function, '__name__', function)} to other processes: "
            f"{error}; define it at the top of a module, or leave out processes=True for threads"
        ) from error


# ---------------------------------------------------------------------------------------------
# In the other process.

_function: Callable[..., object]


def _begin(function: Callable[..., object]) -> None:
    global _function
    _function = function
    # Ctrl-C is for the program, which ends its workers. A blocked one is discarded as well.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    parent = multiprocessing.parent_process()
    assert parent is not None

    def end_with_parent() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()


def _call(element: Element, key: int | None) -> Element:
    try:
        return as_arrays(call(_function, element, key))
    except BaseException as error:
        _check_error(error)
        raise


def _check_error(error: BaseException) -> None:
    """Checks that an error can be sent: otherwise it would end all workers on the other side.

    Raises:
        DataError: if it cannot; names the error.
    """
    try:
        pickle.loads(pickle.dumps(error))
    except Exception as why:
        raise errors.DataError(
            f"{getattr(_function, '__name__', _function)} raised "
            f"{''.join(traceback.format_exception_only(error)).strip()}; it cannot be sent from "
            f"its process ({why}): raise an exception that can be pickled"
        ) from error
