"""One pass over a dataset, whose position can be saved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pullback.data.source import Cursor, Element, Epoch
from pullback.data.stages import as_tensors

if TYPE_CHECKING:
    from pullback.data.dataset import Dataset


class Iterator:
    """The elements of a dataset, as tensors. Made by `iter(dataset)`.

    Its position is part of a checkpoint that it is given to; after `restore` it goes on with the
    very same elements, whatever seed the program has drawn by now.
    """

    opaque_state = True

    def __init__(self, dataset: Dataset, epoch: Epoch) -> None:
        self._dataset = dataset
        self._epoch = epoch
        self._cursor: Cursor = dataset.open(epoch)

    def __iter__(self) -> Iterator:
        return self

    def __next__(self) -> Element:
        return as_tensors(self._cursor.next())

    def next(self) -> Element:
        """The next element.

        Raises:
            StopIteration: after the last.
        """
        return self.__next__()

    def checkpoint_state(self) -> Mapping[str, Any]:
        """The pass and the position in it."""
        return {
            "epoch": list(self._epoch),
            "seeds": self._dataset.seeds(),
            "position": dict(self._cursor.state()),
        }

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Goes to a position that `checkpoint_state` gave."""
        self._cursor.close()
        self._dataset.set_seeds(state["seeds"])
        self._epoch = tuple(state["epoch"])
        self._cursor = self._dataset.open(self._epoch)
        self._cursor.restore(state["position"])
