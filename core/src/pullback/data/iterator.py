"""One pass over a dataset, whose position can be saved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Protocol, Self

from pullback.data.elements import Element, as_tensors
from pullback.data.source import Cursor, Epoch


class Passes(Protocol):
    """A dataset, as far as its iterators need to know it."""

    def open(self, epoch: Epoch) -> Cursor:
        """A cursor at the beginning of one pass."""

    def seeds(self) -> list[int]:
        """The seeds of all stages."""

    def set_seeds(self, seeds: Sequence[int]) -> None:
        """Sets the seeds of all stages."""


class Iterator:
    """The elements of a dataset, as tensors. Made by `iter(dataset)`.

    Its position is part of a checkpoint that it is given to; after `restore` it goes on with the
    very same elements, whatever seed the program has drawn by now. Threads, processes and files
    that it uses end when it comes to its end, is closed, or is dropped; as a context manager it
    is closed at the end of its block.

    >>> with iter(pb.data.Dataset.range(3).prefetch(2)) as numbers:
    ...     int(next(numbers)), int(numbers.next())
    (0, 1)
    """

    opaque_state = True

    def __init__(self, dataset: Passes, epoch: Epoch) -> None:
        self._dataset = dataset
        self._epoch = epoch
        self._cursor: Cursor | None = dataset.open(epoch)
        #: The position, once the cursor has been closed.
        self._left_at: Mapping[str, Any] = {}

    def __iter__(self) -> Iterator:
        return self

    def __next__(self) -> Element:
        if self._cursor is None:
            raise StopIteration
        try:
            return as_tensors(self._cursor.next())
        except StopIteration:
            self.close()
            raise

    def next(self) -> Element:
        """The next element.

        Raises:
            StopIteration: after the last.
        """
        return self.__next__()

    def close(self) -> None:
        """Ends the pass: there are no more elements, and what gave them is let go."""
        if self._cursor is not None:
            self._left_at = self._cursor.state()
            self._cursor.close()
            self._cursor = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def checkpoint_state(self) -> Mapping[str, Any]:
        """The pass and the position in it."""
        return {
            "epoch": list(self._epoch),
            "seeds": self._dataset.seeds(),
            "position": dict(self._left_at if self._cursor is None else self._cursor.state()),
        }

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Goes to a position that `checkpoint_state` gave."""
        if self._cursor is not None:
            self._cursor.close()
        self._dataset.set_seeds(state["seeds"])
        self._epoch = tuple(state["epoch"])
        self._cursor = self._dataset.open(self._epoch)
        self._cursor.restore(state["position"])
