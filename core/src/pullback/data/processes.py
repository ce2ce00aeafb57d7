"""Workers in processes of their own. They exchange host arrays, and use no device."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import pickle
import signal
import threading
import time
import traceback
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, process
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from multiprocessing import connection
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
        _RUNNING.add(self)

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
        self.end()

    def end(self) -> None:
        """Tells the processes to end once they have done what they are at."""
        thread = self._pool._executor_manager_thread
        self._pool.shutdown(wait=False, cancel_futures=True)
        # At exit the standard library wakes each pool that it still lists. This one has been woken,
        # and may just be closing the pipe for that: an OSError would be printed.
        if thread is not None:
            process._threads_wakeups.pop(thread, None)
            _ENDING.add(thread)


#: The number of seconds at exit to wait for processes inside a call of the user's, and after that
#: for those that have been told to stop.
_PATIENCE, _LAST = 10.0, 2.0

#: Workers that may have processes, and the threads that tell processes to end and wait for them.
_RUNNING: weakref.WeakSet[Processes] = weakref.WeakSet()
_ENDING: weakref.WeakSet[Any] = weakref.WeakSet()


def _end_all() -> None:
    """Ends all processes; those that hang, or at Ctrl-C, in the middle of a call.

    They ignore Ctrl-C themselves, so that nothing else would ever end them.
    """
    for running in list(_RUNNING):
        with suppress(KeyboardInterrupt):
            running.end()
    threads = list(_ENDING)
    workers = [worker for thread in threads for worker in list(thread.processes.values())]
    for seconds, stop in ((_PATIENCE, "terminate"), (_LAST, "kill")):
        # At Ctrl-C it goes on to the next way.
        with suppress(KeyboardInterrupt):
            _wait(workers, seconds)
        for worker in workers:
            if worker.is_alive():
                getattr(worker, stop)()
    for thread in threads:
        with suppress(KeyboardInterrupt):
            thread.join(_LAST)


def _wait(workers: list[Any], seconds: float) -> None:
    """Waits until processes have ended, or the time is up."""
    # Not for their thread: a join that Ctrl-C interrupts may take a thread that runs for ended.
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        alive = [worker.sentinel for worker in workers if worker.is_alive()]
        if not alive:
            return
        connection.wait(alive, left)


# Before the standard library waits for all processes without a limit, and before multiprocessing
# closes the queues: a process that is not told to end would wait for work for ever.
threading._register_atexit(_end_all)  # type: ignore[attr-defined]
# Threads that are not waited for, such as that of prefetch, may have released theirs since.
atexit.register(_end_all)


class SharedProcesses:
    """The processes of a stage: started when a pass begins, and shared by passes that overlap."""

    def __init__(self, function: Callable[..., object], count: int) -> None:
        self._function = function
        self._count = count
        self._running: Callable[[], Processes | None] = lambda: None

    def __reduce__(self) -> tuple[Any, ...]:
        return SharedProcesses, (self._function, self._count)

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
