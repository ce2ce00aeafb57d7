"""Stages that work ahead of the consumer: prefetching, and parallel functions.

Each element comes with the position behind it: elements that were made but not asked for are not
part of the state.
"""

# ruff: noqa: D102  (the methods of a cursor are documented in `Cursor`)

from __future__ import annotations

import weakref
from collections import deque
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from typing import Protocol, TypeAlias

from pullback import errors
from pullback.data import background
from pullback.data.background import Feed
from pullback.data.elements import Element, as_tensors
from pullback.data.processes import died
from pullback.data.source import Cursor, Position
from pullback.data.stages import MapCursor, Stage
from pullback.devices import Device, as_device

#: An element and the position behind it, or the error in its place.
Made: TypeAlias = "tuple[Element, Position, BaseException | None]"


class PrefetchCursor(Stage):
    """Elements made ahead in a thread of their own."""

    def __init__(self, source: Cursor, size: int) -> None:
        super().__init__(source)
        self.size = size
        self.device = as_device(None)
        self.position: Position = source.state()
        self.feed: Feed[Made] | None = None
        self.done = False

    def next(self) -> Element:
        if self.done:
            raise StopIteration
        if self.feed is None:
            self.feed = Feed(self.size)
            # The thread has no reference to the cursor: it ends when that is dropped.
            weakref.finalize(self, self.feed.close)
            background.start(
                "prefetch", self.feed.close, _produce, self.source, self.feed, self.device
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

    def state(self) -> Position:
        return {"source": self.position}

    def restore(self, state: Position) -> None:
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


def _produce(source: Cursor, feed: Feed[Made], device: Device) -> None:
    try:
        with device:
            going = True
            while going:
                element = as_tensors(source.next())
                going = feed.put((element, source.state(), None))
    except BaseException as error:  # raised to whoever asks for the element
        feed.put((None, {}, error))
    finally:
        source.close()


class WorkerPool(Protocol):
    """Threads or processes that call a function of elements."""

    def submit(self, element: Element, key: int | None, /) -> Future[Element]:
        """Returns the future result of the function for an element."""

    def release(self) -> None:
        """Releases the workers; calls that have not begun are cancelled."""


class ParallelMapCursor(Stage):
    """Applies a function to several elements at once, and keeps their order.

    Args:
        each: the stage that would apply the function to one element after another.
        workers: call the function.
        ahead: the number of elements that they may work on ahead of the consumer.
    """

    def __init__(self, each: MapCursor, workers: WorkerPool, ahead: int) -> None:
        super().__init__(each)
        self.each = each
        self.workers = workers
        self.ahead = ahead
        self.position: Position = each.state()
        #: The submitted elements; None for an element that the source failed to make.
        self.waiting: deque[tuple[Future[Element] | None, Position]] = deque()
        #: The errors of the source. They refer to its callers, so the finalizer must not hold them.
        self.failures: deque[Exception] = deque()
        self.drained = False
        self.release = weakref.finalize(self, _release, workers, self.waiting)
        # `background` and `concurrent.futures` end the workers at exit.
        self.release.atexit = False

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
            # The future refers to the error, and the error to this frame: a cycle with the workers.
            del future

    def _submit(self) -> None:
        future: Future[Element] | None = None
        try:
            element = self.each.source.next()
            future = self.workers.submit(element, self.each.next_key())
        except StopIteration:
            self.drained = True
            return
        except Exception as error:
            # Raised after the elements in front of it.
            self.failures.append(error)
        self.waiting.append((future, self.each.state()))

    def state(self) -> Position:
        return {"source": self.position}

    def restore(self, state: Position) -> None:
        super().restore(state)
        self.position = self.each.state()

    def skip(self, count: int) -> int:
        if self.waiting or self.drained:
            return super(Stage, self).skip(count)
        done = self.each.skip(count)
        self.position = self.each.state()
        return done

    def close(self) -> None:
        self.release()
        super().close()


def _release(workers: WorkerPool, waiting: deque[tuple[Future[Element] | None, Position]]) -> None:
    for future, _ in waiting:
        if future is not None:
            future.cancel()
    waiting.clear()
    workers.release()
