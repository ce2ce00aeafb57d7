"""Stages that work ahead of the consumer: prefetching, and functions of several elements at once.

With each element comes the position behind it: what has been made and not been asked for is no
part of the state.
"""

# ruff: noqa: D102  (what the methods of a cursor do is said where `Cursor` is defined)

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Protocol

from pullback import errors
from pullback.data import background
from pullback.data.background import Feed
from pullback.data.elements import Element, as_tensors
from pullback.data.processes import died
from pullback.data.source import Cursor
from pullback.data.stages import MapCursor, Stage
from pullback.devices import Device


class PrefetchCursor(Stage):
    """Elements made ahead in a thread of their own."""

    def __init__(self, source: Cursor, size: int, device: Device) -> None:
        super().__init__(source)
        self.size = size
        self.device = device
        self.position: Mapping[str, Any] = source.state()
        self.feed: Feed | None = None
        self.done = False

    def next(self) -> Element:
        if self.done:
            raise StopIteration
        if self.feed is None:
            self.feed = Feed(self.size)
            # The thread knows nothing of the cursor: it ends when that is dropped.
            weakref.finalize(self, self.feed.close)
            background.start(
                "prefetch",
                self.feed.close,
                _produce,
                self.source,
                self.feed,
                self.device,
            )
        element, position, error = self.feed.get()
        if error is not None:
            self.done = True
            try:
                raise error
            finally:
                del error  # or it would hold this frame, and the frame it
        self.position = position
        return element

    def state(self) -> Mapping[str, Any]:
        return {"source": self.position}

    def restore(self, state: Mapping[str, Any]) -> None:
        if self.feed is not None:
            raise errors.InputValueError("restore a dataset's position before its first element")
        super().restore(state)
        self.position = self.source.state()

    def skip(self, count: int) -> int:
        if self.feed is not None:
            return super(Stage, self).skip(count)
        done = self.source.skip(count)
        self.position = self.source.state()
        return done

    def close(self) -> None:
        if self.feed is None:
            super().close()
        else:
            self.feed.close()


def _produce(source: Cursor, feed: Feed, device: Device) -> None:
    try:
        with device:
            going = True
            while going:
                element = as_tensors(source.next())
                going = feed.put((element, source.state(), None))
    except BaseException as error:  # whatever it is, it belongs to whoever asks for the element
        feed.put((None, None, error))
    finally:
        source.close()


class Workers(Protocol):
    """Threads or processes that call a function of elements."""

    def submit(self, element: Any, key: int | None, /) -> Future[Any]:
        """What the function gives for an element, later."""

    def release(self) -> None:
        """Lets go of the workers; what they have not begun is not done."""


class ParallelMapCursor(Stage):
    """A function of several elements at once, in their order.

    Args:
        each: the stage that would call the function for one element after another.
        workers: who calls it.
        ahead: how many elements are given to them before the first of these is asked for.
    """

    def __init__(self, each: MapCursor, workers: Workers, ahead: int) -> None:
        super().__init__(each)
        self.each = each
        self.workers = workers
        self.ahead = ahead
        self.position: Mapping[str, Any] = each.state()
        #: What was given to the workers; None for an element that the source failed to give.
        self.waiting: deque[tuple[Future[Any] | None, Mapping[str, Any]]] = deque()
        #: The errors of the source. They hold its callers, so the finalizer must not hold them.
        self.failures: deque[Exception] = deque()
        self.drained = False
        self.let_go = weakref.finalize(self, _let_go, workers, self.waiting)
        # What must end at exit ends by itself: `background` and `concurrent.futures` see to it.
        self.let_go.atexit = False

    def next(self) -> Element:
        while len(self.waiting) < self.ahead and not self.drained:
            self._submit()
        if not self.waiting:
            raise StopIteration
        future, self.position = self.waiting.popleft()
        try:
            if future is None:
                raise self.failures.popleft()
            return future.result()
        except BrokenProcessPool as error:
            raise died(error) from error
        finally:
            # It holds the error, which holds this frame: the iterator would stay with its workers.
            del future

    def _submit(self) -> None:
        future: Future[Any] | None = None
        try:
            element = self.each.source.next()
            future = self.workers.submit(element, self.each.next_key())
        except StopIteration:
            self.drained = True
            return
        except Exception as error:
            # Its turn comes after the elements in front of it.
            self.failures.append(error)
        self.waiting.append((future, self.each.state()))

    def state(self) -> Mapping[str, Any]:
        return {"source": self.position}

    def restore(self, state: Mapping[str, Any]) -> None:
        super().restore(state)
        self.position = self.each.state()

    def skip(self, count: int) -> int:
        if self.waiting or self.drained:
            return super(Stage, self).skip(count)
        done = self.each.skip(count)
        self.position = self.each.state()
        return done

    def close(self) -> None:
        self.let_go()
        super().close()


def _let_go(workers: Workers, waiting: deque[tuple[Future[Any] | None, Any]]) -> None:
    for future, _ in waiting:
        if future is not None:
            future.cancel()
    waiting.clear()
    workers.release()
