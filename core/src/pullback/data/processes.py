"""Workers in processes of their own. They get and give host arrays, and touch no device."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any

from pullback import errors
from pullback.data.elements import as_arrays
from pullback.data.stages import call


class Processes:
    """Workers that call a function in processes, which end when nobody holds them any more.

    They are started afresh (`spawn`), for a copy of this process would have its locks without its
    threads, and no device.
    """

    def __init__(self, function: Callable[..., Any], count: int) -> None:
        self._pool = ProcessPoolExecutor(
            count, multiprocessing.get_context("spawn"), _begin, (function,)
        )
        self._lock = threading.Lock()
        self._holders = 0

    def hold(self) -> bool:
        """Counts one more that needs the processes; False when they have ended."""
        with self._lock:
            if self._holders < 0:
                return False
            self._holders += 1
            return True

    def submit(self, element: Any, key: int | None) -> Future[Any]:
        """What the function gives for an element, later.

        Raises:
            DataError: when a process has died.
        """
        arrays = as_arrays(element)
        try:
            with _held_back():
                return self._pool.submit(_call, arrays, key)
        except BrokenProcessPool as error:
            raise died(error) from error

    def release(self) -> None:
        """Counts one less; the last one ends the processes."""
        with self._lock:
            self._holders -= 1
            if self._holders:
                return
            self._holders = -1
        self._pool.shutdown(wait=False, cancel_futures=True)


@contextmanager
def _held_back() -> Iterator[None]:
    """Ctrl-C waits, in this thread and in the processes that it starts.

    A terminal sends it to all processes. Those that are still importing would end by it, and the
    data with them, before they can say that it is not for them.
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
    """Whether an error is that of a worker that has ended by itself."""
    return isinstance(error.__cause__, BrokenProcessPool)


def died(error: BrokenProcessPool) -> errors.DataError:
    """The error for a worker that has ended by itself, or never begun."""
    return errors.DataError(
        f"a process of map ended by itself ({error}). Either it was killed, by the system for its "
        f"memory perhaps, or it could not begin: with processes, a script has its statements "
        f'under `if __name__ == "__main__":`, and the function at the top of a module'
    )


def check(function: Callable[..., Any]) -> None:
    """Refuses functions that other processes cannot get.

    Raises:
        InputTypeError: for what cannot be pickled.
    """
    try:
        pickle.dumps(function)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise errors.InputTypeError(
            f"map cannot give {getattr(function, '__name__', function)} to other processes: "
            f"{error}; define it at the top of a module, or leave out processes=True for threads"
        ) from error


# ---------------------------------------------------------------------------------------------
# In the other process.

_function: Callable[..., Any]


def _begin(function: Callable[..., Any]) -> None:
    global _function
    _function = function
    # Ctrl-C is for the program, which ends its workers. One that has been held back goes too.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    parent = multiprocessing.parent_process()
    assert parent is not None

    def end_with_parent() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()


def _call(element: Any, key: int | None) -> Any:
    try:
        return as_arrays(call(_function, element, key))
    except BaseException as error:
        _check_error(error)
        raise


def _check_error(error: BaseException) -> None:
    """Refuses errors that cannot be sent: on the other side they would end all workers.

    Raises:
        DataError: names what was raised; where it was is told with it.
    """
    try:
        pickle.loads(pickle.dumps(error))
    except Exception as why:
        raise errors.DataError(
            f"{getattr(_function, '__name__', _function)} raised "
            f"{''.join(traceback.format_exception_only(error)).strip()}; it cannot be sent from "
            f"its process ({why}): raise an exception that can be pickled"
        ) from error
