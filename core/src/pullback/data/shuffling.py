"""Elements drawn from a buffer of those that come next."""

# ruff: noqa: D102  (what the methods of a cursor do is said where `Cursor` is defined)

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pullback.data.elements import Element
from pullback.data.source import Cursor, Epoch, bits


class BufferCursor(Cursor):
    """Elements of any cursor, each drawn from a buffer of those that come next.

    Nothing of the data is in its state: to go to a position it draws the numbers of the elements
    again, passes over those that have been given, and reads those that were in the buffer.
    """

    def __init__(self, source: Cursor, size: int, seed: int, epoch: Epoch) -> None:
        self.source = source
        self.size = size
        self.random = bits(seed, epoch, "buffer").random_raw
        self.buffer: list[Element] = []
        #: How many elements have been read from the source, and given.
        self.read = 0
        self.given = 0
        self.drained = False

    def next(self) -> Element:
        self._fill()
        if not self.buffer:
            raise StopIteration
        self.given += 1
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

    def state(self) -> Mapping[str, Any]:
        return {"given": self.given, "read": self.read, "drained": self.drained}

    def restore(self, state: Mapping[str, Any]) -> None:
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
        self.given = int(state["given"])
        self.drained = bool(state["drained"])

    def _elements(self, numbers: list[int], total: int) -> dict[int, Element]:
        """The elements with these numbers, out of the next `total` of the source."""
        found = {}
        at = 0
        for number in numbers:
            self.source.skip(number - at)
            found[number] = self.source.next()
            at = number + 1
        self.source.skip(total - at)
        return found

    def close(self) -> None:
        self.source.close()


def _draw(buffer: list[Any], random: Callable[[], int]) -> Any:
    chosen = int(random()) % len(buffer)
    # The last one takes the place of the one drawn: no element is moved twice.
    buffer[chosen], buffer[-1] = buffer[-1], buffer[chosen]
    return buffer.pop()
