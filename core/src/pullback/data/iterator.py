"""One pass over a dataset, whose position can be saved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pullback import errors
from pullback._closing import Closing
from pullback._dispatch.recording import reject_use
from pullback.data.elements import Element, as_tensors
from pullback.data.source import Cursor, ElementSource, Epoch, Position


class Iterator(Closing):
    """The elements of a dataset as tensors, made by `iter(dataset)`.

    A checkpoint of an iterator holds its position. After `restore` it goes on with the same
    elements, whatever seed the program has drawn since. Its threads, processes and files are
    released when it reaches its end, is closed, or is dropped; a `with` block closes it.

    >>> with iter(pb.data.Dataset.range(3).prefetch(2)) as numbers:
    ...     int(next(numbers)), int(numbers.next())
    (0, 1)
    """

    opaque_state = True

    def __init__(self, dataset: ElementSource, epoch: Epoch) -> None:
        if not (hasattr(dataset, "open") and hasattr(dataset, "seeds")):
            raise errors.InputTypeError(
                f"iter(dataset) makes the iterator of a dataset, got {type(dataset).__name__}"
            )
        self._dataset = dataset
        self._epoch = epoch
        self._cursor: Cursor | None = dataset.open(epoch)
        #: The position, once the cursor has been closed.
        self._left_at: Position = {}

    def __iter__(self) -> Iterator:
        return self

    def __next__(self) -> Element:
        reject_use("draws from a dataset", "pass the elements as arguments")
        if self._cursor is None:
            raise StopIteration
        try:
            return as_tensors(self._cursor.next())
        except StopIteration:
            self.close()
            raise

    def next(self) -> Element:
        """Returns the next element.

        Raises:
            StopIteration: after the last.
        """
        return self.__next__()

    def close(self) -> None:
        """Ends the pass, and releases threads, processes and files."""
        if self._cursor is not None:
            self._left_at = self._cursor.state()
            self._cursor.close()
            self._cursor = None

    def checkpoint_state(self) -> Mapping[str, Any]:
        """Returns the pass and the position in it."""
        return {
            "epoch": list(self._epoch),
            "seeds": self._dataset.seeds(),
            "position": dict(self._left_at if self._cursor is None else self._cursor.state()),
        }

    def __getstate__(self) -> Mapping[str, Any]:
        state = self.checkpoint_state()
        return {"dataset": self._dataset, "state": state, "is_closed": self._cursor is None}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self._dataset, self._cursor = state["dataset"], None
        self.restore_state(state["state"])
        if state["is_closed"]:
            self.close()

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Goes to a position from `checkpoint_state`."""
        if self._cursor is not None:
            self._cursor.close()
        self._dataset.set_seeds(state["seeds"])
        self._epoch = tuple(state["epoch"])
        self._cursor = self._dataset.open(self._epoch)
        self._cursor.restore(state["position"])
