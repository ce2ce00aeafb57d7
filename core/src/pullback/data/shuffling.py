"""Shuffling with a buffer."""

# ruff: noqa: D102  (the methods of a cursor are documented in `Cursor`)

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pullback.data.elements import Element
from pullback.data.source import Cursor, Epoch, Position, bits

T = TypeVar("T")


class BufferCursor(Cursor):
    """Elements of any cursor, each drawn from a buffer of the next elements.

    Its state holds no data: to go to a position it draws the numbers of the elements again, skips
    those that were yielded, and reads those that were in the buffer.
    """

    def __init__(self, source: Cursor, size: int, seed: int, epoch: Epoch) -> None:
        self.source = source
        self.size = size
        self.random = bits(seed, epoch, "buffer").random_raw
        self.buffer: list[Element] = []
        #: The number of elements read from the source, and yielded.
        self.read = 0
        self.yielded = 0
        self.drained = False

    def next(self) -> Element:
        self._fill()
        if not self.buffer:
            raise StopIteration
        self.yielded += 1
        return _draw(self.buffer, self.random)

    def _fill(self) -> None:
        while len(self.buffer) < self.size and not self.drained:
            try:
                element = self.source.next()
            except StopIteration:
                self.drained = True
            else:
                self.buffer.append(element)
                self.read += 1

    def state(self) -> Position:
        return {"given": self.yielded, "read": self.read, "drained": self.drained}

    def restore(self, state: Position) -> None:
        total = int(state["read"])
        numbers: list[int] = []
        read = 0
        for _ in range(int(state["given"])):
            while len(numbers) < self.size and read < total:
                numbers.append(read)
                read += 1
            _draw(numbers, self.random)
        numbers += range(read, total)
        elements = self._elements(sorted(numbers), total)
        self.buffer = [elements[number] for number in numbers]
        self.read = total
        self.yielded = int(state["given"])
        self.drained = bool(state["drained"])

    def _elements(self, numbers: list[int], total: int) -> dict[int, Element]:
        """Reads the elements with these numbers, out of the next `total` of the source."""
        elements = {}
        at = 0
        for number in numbers:
            self.source.skip(number - at)
            elements[number] = self.source.next()
            at = number + 1
        self.source.skip(total - at)
        return elements

    def close(self) -> None:
        self.source.close()


def _draw(buffer: list[T], random: Callable[[], int]) -> T:
    chosen = int(random()) % len(buffer)
    # The last element takes the place of the drawn one: no element is moved twice.
    buffer[chosen], buffer[-1] = buffer[-1], buffer[chosen]
    return buffer.pop()
