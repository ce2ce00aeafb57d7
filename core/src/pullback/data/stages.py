"""The stages of a pipeline: cursors that pull from the cursor before them."""

# ruff: noqa: D102  (what the methods of a cursor do is said where `Cursor` is defined)

from __future__ import annotations

import queue
import threading
import weakref
from collections.abc import Callable, Mapping
from operator import methodcaller
from typing import Any

import numpy as np

from pullback import errors
from pullback.data.source import Cursor, Element, Epoch, joined
from pullback.devices import Device
from pullback.dispatch.convert import from_any
from pullback.dispatch.recording import paused
from pullback.strings import StringTensor
from pullback.structure import leaves, like
from pullback.tensor import Tensor


def as_tensors(element: Element) -> Element:
    """The element with tensors for its arrays; strings stay on the host."""
    return like(element, iter([_tensor(leaf) for leaf in leaves(element)]))


def _tensor(leaf: Any) -> Any:
    if isinstance(leaf, (str, bytes)):
        return leaf.item() if isinstance(leaf, np.generic) else leaf
    if isinstance(leaf, StringTensor):
        return leaf
    if isinstance(leaf, np.ndarray) and leaf.dtype.kind in "USO":
        return StringTensor(leaf)
    return from_any(leaf)


class Stage(Cursor):
    """A stage with one source, and no state of its own."""

    def __init__(self, source: Cursor) -> None:
        self.source = source

    def state(self) -> Mapping[str, Any]:
        return {"source": self.source.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.source.restore(state["source"])

    def close(self) -> None:
        self.source.close()


class MapCursor(Stage):
    """A function of each element."""

    def __init__(self, source: Cursor, function: Callable[..., Any]) -> None:
        super().__init__(source)
        self.function = function

    def next(self) -> Element:
        element = as_tensors(self.source.next())
        with paused():
            if isinstance(element, tuple):
                return self.function(*element)
            return self.function(element)


class FilterCursor(Stage):
    """The elements for which a function is true."""

    def __init__(self, source: Cursor, function: Callable[..., Any]) -> None:
        super().__init__(source)
        self.function = function

    def next(self) -> Element:
        while True:
            element = self.source.next()
            tensors = as_tensors(element)
            with paused():
                if isinstance(tensors, tuple):
                    keep = self.function(*tensors)
                else:
                    keep = self.function(tensors)
            if keep:
                return element


class BatchCursor(Stage):
    """Several elements stacked."""

    def __init__(self, source: Cursor, size: int, drop_remainder: bool) -> None:
        super().__init__(source)
        self.size = size
        self.drop_remainder = drop_remainder

    def next(self) -> Element:
        batch, count = self.source.next_batch(self.size)
        if self.drop_remainder and count < self.size:
            raise StopIteration
        return batch


class CountingStage(Stage):
    """A stage that knows how many elements have passed."""

    def __init__(self, source: Cursor) -> None:
        super().__init__(source)
        self.count = 0

    def state(self) -> Mapping[str, Any]:
        return {"count": self.count, "source": self.source.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.count = int(state["count"])
        self.source.restore(state["source"])


class TakeCursor(CountingStage):
    """The first elements."""

    def __init__(self, source: Cursor, limit: int) -> None:
        super().__init__(source)
        self.limit = limit

    def next(self) -> Element:
        if self.count >= self.limit:
            raise StopIteration
        element = self.source.next()
        self.count += 1
        return element

    def next_batch(self, count: int) -> tuple[Element, int]:
        batch, got = self.source.next_batch(min(count, self.limit - self.count))
        self.count += got
        return batch, got


class SkipCursor(CountingStage):
    """All but the first elements."""

    def __init__(self, source: Cursor, skipped: int) -> None:
        super().__init__(source)
        self.skipped = skipped

    def next(self) -> Element:
        while self.count < self.skipped:
            self.source.next()
            self.count += 1
        return self.source.next()


class EnumerateCursor(CountingStage):
    """Elements with their numbers."""

    def __init__(self, source: Cursor, start: int) -> None:
        super().__init__(source)
        self.start = start

    def next(self) -> Element:
        element = self.source.next()
        self.count += 1
        return np.asarray(self.start + self.count - 1), element


class RepeatCursor(Cursor):
    """One pass after another; None as their number repeats until a pass is empty."""

    def __init__(self, open_: Callable[[Epoch], Cursor], epoch: Epoch, times: int | None) -> None:
        self.open = open_
        self.epoch = epoch
        self.times = times
        self.round = 0
        #: The pass that is under way, and whether it has given anything.
        self.source: Cursor | None = None
        self.any = False

    def next(self) -> Element:
        return self._pull(methodcaller("next"))

    def next_batch(self, count: int) -> tuple[Element, int]:
        batches = []
        left = count
        while left:
            try:
                batch, got = self._pull(methodcaller("next_batch", left))
            except StopIteration:
                break
            batches.append(batch)
            left -= got
        if not batches:
            raise StopIteration
        return joined(batches), count - left

    def _pull(self, pull: Callable[[Cursor], Any]) -> Any:
        while self.times is None or self.round < self.times:
            if self.source is None:
                self.source = self.open((*self.epoch, self.round))
                self.any = False
            try:
                pulled = pull(self.source)
            except StopIteration:
                if not self.any:
                    raise
                self.source.close()
                self.source = None
                self.round += 1
                continue
            self.any = True
            return pulled
        raise StopIteration

    def state(self) -> Mapping[str, Any]:
        source = None if self.source is None else self.source.state()
        return {"round": self.round, "any": self.any, "source": source}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.round = int(state["round"])
        self.any = bool(state["any"])
        if state["source"] is not None:
            self.source = self.open((*self.epoch, self.round))
            self.source.restore(state["source"])

    def close(self) -> None:
        if self.source is not None:
            self.source.close()


class PrefetchCursor(Cursor):
    """Elements made ahead in a thread of their own.

    With each element comes the position behind it, so that what has been made and not been asked
    for is no part of the state.
    """

    def __init__(self, source: Cursor, size: int, device: Device) -> None:
        self.source = source
        self.size = size
        self.device = device
        self.position: Mapping[str, Any] = source.state()
        self.queue: queue.Queue[Any] | None = None
        self.stop = threading.Event()
        self.done = False

    def next(self) -> Element:
        if self.done:
            raise StopIteration
        if self.queue is None:
            self._begin()
        assert self.queue is not None
        element, position, error = self.queue.get()
        if error is not None:
            self.done = True
            raise error
        self.position = position
        return element

    def _begin(self) -> None:
        made: queue.Queue[Any] = queue.Queue(self.size)
        self.queue = made
        # The thread knows nothing of the cursor: it ends when that is dropped.
        weakref.finalize(self, self.stop.set)
        threading.Thread(
            target=_produce,
            args=(self.source, made, self.stop, self.device),
            name="pullback-prefetch",
            daemon=True,
        ).start()

    def state(self) -> Mapping[str, Any]:
        return {"source": self.position}

    def restore(self, state: Mapping[str, Any]) -> None:
        if self.queue is not None:
            raise errors.InputValueError("restore a dataset's position before its first element")
        self.source.restore(state["source"])
        self.position = self.source.state()

    def close(self) -> None:
        self.stop.set()
        if self.queue is None:
            self.source.close()


def _produce(source: Cursor, made: queue.Queue[Any], stop: threading.Event, device: Device) -> None:
    def put(item: Any) -> bool:
        while not stop.is_set():
            try:
                made.put(item, timeout=0.1)
            except queue.Full:
                continue
            return True
        return False

    try:
        with device:
            while True:
                element = source.next()
                if type(element) is not Tensor:
                    element = as_tensors(element)
                if not put((element, source.state(), None)):
                    break
    except BaseException as error:  # whatever it is, it belongs to whoever asks for the element
        put((None, None, error))
    finally:
        source.close()
