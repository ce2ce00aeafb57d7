"""The stages of a pipeline: cursors that pull from another cursor."""

# ruff: noqa: D102  (the methods of a cursor are documented in `Cursor`)

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from pullback.data.calls import call, call_on_tensors
from pullback.data.elements import Element, as_tensors, joined, padded, parts, stacked
from pullback.data.source import Cursor, Epoch, Position, key_of

R = TypeVar("R")


class Stage(Cursor):
    """A stage with one source, and no state of its own."""

    def __init__(self, source: Cursor) -> None:
        self.source = source

    def state(self) -> Position:
        return {"source": self.source.state()}

    def restore(self, state: Position) -> None:
        self.source.restore(state["source"])

    def close(self) -> None:
        self.source.close()


class CountingStage(Stage):
    """A stage that counts its elements."""

    def __init__(self, source: Cursor) -> None:
        super().__init__(source)
        self.count = 0

    def state(self) -> Position:
        return {"count": self.count, "source": self.source.state()}

    def restore(self, state: Position) -> None:
        self.count = int(state["count"])
        self.source.restore(state["source"])

    def skip(self, count: int) -> int:
        done = self.source.skip(count)
        self.count += done
        return done


# ---------------------------------------------------------------------------------------------
# Functions of elements.


class MapCursor(CountingStage):
    """Applies a function to each element.

    Args:
        source: the cursor before it.
        function: the function.
        seed: the seed of the generators that the function gets; None for no generators.
        epoch: the pass.
    """

    def __init__(
        self, source: Cursor, function: Callable[..., object], seed: int | None, epoch: Epoch
    ) -> None:
        super().__init__(source)
        self.function = function
        self.seed = seed
        self.epoch = epoch

    def next(self) -> Element:
        element = self.source.next()
        return call_on_tensors(self.function, element, self.next_key())

    def next_key(self) -> int | None:
        """Returns the key of the generator for the last element read."""
        self.count += 1
        if self.seed is None:
            return None
        return key_of(self.seed, (*self.epoch, self.count - 1), "map")


class FilterCursor(Stage):
    """The elements for which a function returns true."""

    def __init__(self, source: Cursor, function: Callable[..., object]) -> None:
        super().__init__(source)
        self.function = function

    def next(self) -> Element:
        while True:
            element = self.source.next()
            if call(self.function, as_tensors(element)):
                return element


# ---------------------------------------------------------------------------------------------
# Batches and windows.


class BatchCursor(Stage):
    """Several elements stacked."""

    def __init__(self, source: Cursor, size: int, drop_remainder: bool) -> None:
        super().__init__(source)
        self.size = size
        self.drop_remainder = drop_remainder

    def next(self) -> Element:
        batch, count = self.next_elements()
        if self.drop_remainder and count < self.size:
            raise StopIteration
        return batch

    def next_elements(self) -> tuple[Element, int]:
        """Returns the next elements as one, and their number."""
        return self.source.next_batch(self.size)

    def skip(self, count: int) -> int:
        whole, rest = divmod(self.source.skip(count * self.size), self.size)
        return whole + bool(rest and not self.drop_remainder)


class PaddedBatchCursor(BatchCursor):
    """Several elements of different sizes, padded and stacked."""

    def __init__(
        self,
        source: Cursor,
        size: int,
        drop_remainder: bool,
        shapes: Sequence[Sequence[int | None]] | None,
        values: object,
    ) -> None:
        super().__init__(source, size, drop_remainder)
        self.shapes = shapes
        self.values = values

    def next_elements(self) -> tuple[Element, int]:
        items: list[Element] = []
        try:
            while len(items) < self.size:
                items.append(self.source.next())
        except StopIteration:
            if not items:
                raise
        return padded(items, self.shapes, self.values), len(items)


class UnbatchCursor(Stage):
    """The elements of batches. Its state holds the position of the current batch."""

    def __init__(self, source: Cursor) -> None:
        super().__init__(source)
        #: The position in front of the current batch.
        self.before: Position = source.state()
        self.items: list[Element] = []
        self.at = 0

    def next(self) -> Element:
        while self.at >= len(self.items):
            before = self.source.state()
            self.items = parts(self.source.next())
            self.before, self.at = before, 0
        self.at += 1
        return self.items[self.at - 1]

    def state(self) -> Position:
        return {"source": self.before, "at": self.at}

    def restore(self, state: Position) -> None:
        self.source.restore(state["source"])
        self.before, self.at = state["source"], int(state["at"])
        self.items = parts(self.source.next()) if self.at else []


class WindowCursor(Stage):
    """Consecutive elements, stacked."""

    def __init__(self, source: Cursor, size: int, shift: int, drop_remainder: bool) -> None:
        super().__init__(source)
        self.size = size
        self.shift = shift
        self.drop_remainder = drop_remainder
        #: The elements of the window, each with the position in front of it.
        self.window: deque[tuple[Position, Element]] = deque()
        #: The number of elements to skip before the next window.
        self.to_skip = 0

    def next(self) -> Element:
        while self.to_skip and self.window:
            self.window.popleft()
            self.to_skip -= 1
        self.to_skip -= self.source.skip(self.to_skip)
        while len(self.window) < self.size:
            before = self.source.state()
            try:
                self.window.append((before, self.source.next()))
            except StopIteration:
                if self.drop_remainder or not self.window:
                    raise
                break
        self.to_skip = self.shift
        return stacked([element for _, element in self.window])

    def state(self) -> Position:
        source = self.window[0][0] if self.window else self.source.state()
        return {"source": source, "passed over": self.to_skip}

    def restore(self, state: Position) -> None:
        self.source.restore(state["source"])
        self.to_skip = int(state["passed over"])


# ---------------------------------------------------------------------------------------------
# Fewer elements, and more.


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
        if self.count >= self.limit:
            raise StopIteration
        batch, got = self.source.next_batch(min(count, self.limit - self.count))
        self.count += got
        return batch, got

    def skip(self, count: int) -> int:
        return super().skip(min(count, self.limit - self.count))


class SkipCursor(CountingStage):
    """All but the first elements."""

    def __init__(self, source: Cursor, skipped: int) -> None:
        super().__init__(source)
        self.skipped = skipped

    def next(self) -> Element:
        self._begin()
        return self.source.next()

    def next_batch(self, count: int) -> tuple[Element, int]:
        self._begin()
        return self.source.next_batch(count)

    def skip(self, count: int) -> int:
        if not count:
            return 0
        self._begin()
        return self.source.skip(count)

    def _begin(self) -> None:
        if self.count < self.skipped:
            self.source.skip(self.skipped - self.count)
            self.count = self.skipped


class ShardCursor(CountingStage):
    """Every element whose number is that of the shard, modulo the number of shards."""

    def __init__(self, source: Cursor, shards: int, shard: int) -> None:
        super().__init__(source)
        self.shards = shards
        self.shard = shard

    def next(self) -> Element:
        super().skip((self.shard - self.count) % self.shards)
        element = self.source.next()
        self.count += 1
        return element

    def skip(self, count: int) -> int:
        if not count:
            return 0
        begin = self.count
        end = begin + super().skip(
            (self.shard - begin) % self.shards + 1 + (count - 1) * self.shards
        )
        return self._last_before(end) - self._last_before(begin)

    def _last_before(self, count: int) -> int:
        """Returns which element of the shard is the last of the first `count`; -1 for none."""
        return (count - self.shard - 1) // self.shards


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
    """Several passes; with None as their number, until a pass is empty."""

    def __init__(self, open_: Callable[[Epoch], Cursor], times: int | None, epoch: Epoch) -> None:
        self.open = open_
        self.epoch = epoch
        self.times = times
        self.round = 0
        #: The current pass, and whether it has yielded anything.
        self.source: Cursor | None = None
        self.any = False

    def next(self) -> Element:
        while (source := self._current()) is not None:
            try:
                element = source.next()
            except StopIteration:
                self._end()
                continue
            self.any = True
            return element
        raise StopIteration

    def next_batch(self, count: int) -> tuple[Element, int]:
        batches = []
        left = count
        while left and (source := self._current()) is not None:
            try:
                batch, got = source.next_batch(left)
            except StopIteration:
                self._end()
                continue
            self.any = True
            batches.append(batch)
            left -= got
        if not batches:
            raise StopIteration
        return joined(batches), count - left

    def skip(self, count: int) -> int:
        left = count
        while left and (source := self._current()) is not None:
            got = source.skip(left)
            self.any = self.any or got > 0
            left -= got
            if left:
                self._end()
        return count - left

    def _current(self) -> Cursor | None:
        """Returns the cursor of the current pass; None after the last."""
        if self.times is not None and self.round >= self.times:
            return None
        if self.source is None:
            self.source = self.open((*self.epoch, self.round))
            self.any = False
        return self.source

    def _end(self) -> None:
        """Goes on to the next pass; an empty pass is the last."""
        assert self.source is not None
        old, self.source = self.source, None
        self.round += 1
        if not self.any:
            self.times = self.round
        # The next pass is opened first, so that it can take over the workers of this one.
        self._current()
        old.close()

    def state(self) -> Position:
        source = None if self.source is None else self.source.state()
        return {"round": self.round, "any": self.any, "source": source}

    def restore(self, state: Position) -> None:
        self.round = int(state["round"])
        if state["source"] is not None:
            self.source = self.open((*self.epoch, self.round))
            self.source.restore(state["source"])
        self.any = bool(state["any"])
        if state["source"] is None and self.round and not self.any:
            self.times = self.round  # the pass before was empty

    def close(self) -> None:
        if self.source is not None:
            self.source.close()
