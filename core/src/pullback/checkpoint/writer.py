"""A thread that runs tasks in order, while its program goes on."""

from __future__ import annotations

import atexit
import threading
import warnings
import weakref
from collections import deque
from collections.abc import Callable

Task = Callable[[], None]


class CheckpointWriter:
    """Runs tasks in a thread of its own.

    The error of a task is raised by the next `put`, `wait` or `close`; if several tasks have failed
    by then, notes on the first error tell of the others. When the interpreter ends,
    or the writer is dropped, all tasks are finished first; an error that can no longer be raised
    is a warning.

    Args:
        room: the number of tasks that may wait, besides the current one.
    """

    def __init__(self, room: int) -> None:
        self._work = _Work(room)
        self._thread: threading.Thread | None = None
        weakref.finalize(self, self._work.end).atexit = False

    def put(self, task: Task) -> None:
        """Adds a task once there is room.

        Raises:
            Exception: the error of an earlier task; the new task is dropped then.
        """
        # A forked process has no thread, even if its parent had.
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(
                target=self._work.run, name="pullback-checkpoints", daemon=True
            )
            _RUNNING[self._thread] = self._work
            self._thread.start()
        self._work.put(task)

    def wait(self) -> None:
        """Returns once every task is done.

        Raises:
            Exception: the error of a task.
        """
        self._work.wait()

    def close(self) -> None:
        """Waits, and ends the thread; a later task starts another.

        Raises:
            Exception: the error of a task.
        """
        try:
            self._work.wait()
        finally:
            self._work.end()
            self._work = _Work(self._work.room)
            self._thread = None


class _Work:
    """The tasks that a writer and its thread share."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.waiting: deque[Task] = deque()
        #: A second Ctrl-C may be raised anywhere in the program's thread. The lock is entered
        #: without Python code, after which it would stay locked, and nothing is counted twice.
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.busy = False
        self.errors: list[BaseException] = []
        self.ended = False

    def put(self, task: Task) -> None:
        with self.lock:
            while len(self.waiting) >= self.room and not self.errors:
                self.changed.wait()
            self._raise()
            self.waiting.append(task)
            self.changed.notify_all()

    def wait(self) -> None:
        with self.lock:
            # An interrupt may have come between adding the last task and the notification.
            self.changed.notify_all()
            while self.waiting or self.busy:
                self.changed.wait()
            self._raise()

    def end(self) -> None:
        with self.lock:
            self.ended = True
            self.changed.notify_all()

    def run(self) -> None:
        while (task := self._next()) is not None:
            errors: list[BaseException] = []
            try:
                task()
            except BaseException as raised:  # raised to whoever saves next
                errors.append(raised)
            # Its references are released before it counts as done.
            del task
            with self.lock:
                self.errors += errors
                self.busy = False
                self.changed.notify_all()
        for error in self.errors:
            warnings.warn(f"in the background: {error}", RuntimeWarning, stacklevel=1)

    def _next(self) -> Task | None:
        with self.lock:
            while not self.waiting and not self.ended:
                self.changed.wait()
            if not self.waiting:
                return None
            task = self.waiting.popleft()
            self.busy = True
            self.changed.notify_all()
            return task

    def _raise(self) -> None:
        errors, self.errors = self.errors, []
        for error in errors[1:]:
            errors[0].add_note(f"a later task failed too: {type(error).__name__}: {error}")
        if errors:
            raise errors[0]


_RUNNING: weakref.WeakKeyDictionary[threading.Thread, _Work] = weakref.WeakKeyDictionary()


@atexit.register
def _finish() -> None:
    for thread, work in list(_RUNNING.items()):
        work.end()
        thread.join()
