"""Threads that work ahead: a bounded queue, and workers. None outlives its cursor.

The threads are daemons without references to the cursor that they work for, so they end when it is
closed or dropped. When the interpreter exits they are told to end, and joined.
"""

from __future__ import annotations

import atexit
import queue
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

from pullback.devices import Device

T = TypeVar("T")
R = TypeVar("R")

#: The number of seconds at exit to wait for threads inside a call of the user's.
_PATIENCE = 10.0

_RUNNING: weakref.WeakKeyDictionary[threading.Thread, Callable[[], None]]
_RUNNING = weakref.WeakKeyDictionary()


def start(name: str, stop: Callable[[], None], target: Callable[..., None], *args: object) -> None:
    """Starts a thread. At exit `stop` is called, and the thread joined."""
    thread = threading.Thread(target=target, args=args, name=f"pullback-{name}", daemon=True)
    _RUNNING[thread] = stop
    thread.start()


@atexit.register
def _end() -> None:
    running = list(_RUNNING.items())
    for _, stop in running:
        stop()
    patience = time.monotonic() + _PATIENCE
    for thread, _ in running:
        thread.join(max(patience - time.monotonic(), 0))


class Feed(Generic[T]):
    """A bounded queue from one thread to another; closing it wakes both."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._items: deque[T] = deque()
        self._changed = threading.Condition()
        self._closed = False

    def put(self, item: T) -> bool:
        """Adds an item once there is room; returns False if the feed is closed."""
        with self._changed:
            while len(self._items) >= self._size and not self._closed:
                self._changed.wait()
            if not self._closed:
                self._items.append(item)
                self._changed.notify_all()
            return not self._closed

    def get(self) -> T:
        """Returns the next item once there is one.

        Raises:
            StopIteration: if the feed has been closed.
        """
        with self._changed:
            while not self._items and not self._closed:
                self._changed.wait()
            if self._closed:
                raise StopIteration
            item = self._items.popleft()
            self._changed.notify_all()
            return item

    def close(self) -> None:
        """Drops its items; `put` and `get` give up from now on."""
        with self._changed:
            self._closed = True
            self._items.clear()
            self._changed.notify_all()


class Threads(Generic[R]):
    """Workers that call a function in threads of this process."""

    def __init__(self, call: Callable[..., R], count: int, device: Device) -> None:
        self._call = call
        self._tasks: queue.SimpleQueue[tuple[Future[R], tuple[object, ...]] | None]
        self._tasks = queue.SimpleQueue()
        self._count = count
        self._closed = threading.Event()
        for _ in range(count):
            start("map", self.release, _work, call, self._tasks, self._closed, device)

    def submit(self, *args: object) -> Future[R]:
        """Returns the future result of the function for these arguments."""
        future: Future[R] = Future()
        self._tasks.put((future, args))
        return future

    def release(self) -> None:
        """Ends the threads; calls that have not begun are cancelled."""
        self._closed.set()
        for _ in range(self._count):
            self._tasks.put(None)


def _work(
    call: Callable[..., R],
    tasks: queue.SimpleQueue[tuple[Future[R], tuple[object, ...]] | None],
    closed: threading.Event,
    device: Device,
) -> None:
    with device:
        while (task := tasks.get()) is not None:
            future, args = task
            if closed.is_set():
                future.cancel()
            elif future.set_running_or_notify_cancel():
                try:
                    future.set_result(call(*args))
                except BaseException as error:  # raised to whoever asks for the element
                    future.set_exception(error)
            # Nothing is kept alive while waiting for more.
            del task, future, args
