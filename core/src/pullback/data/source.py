"""What a stage of a pipeline is: something that opens a cursor for each pass over the data.

Everything is pulled: the consumer asks the last cursor for an element, which asks the one before
it. A new source or stage is a `Dataset` with an `open` method and a `Cursor`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from pullback.structure import leaves, like
from pullback.tensor import CALL, Tensor

#: Which pass over the data this is: the number of the iteration, and those of repeats within it.
Epoch: TypeAlias = "tuple[int, ...]"

#: One element: arrays, tensors and strings, in tuples, lists and dicts.
Element: TypeAlias = Any


class Cursor:
    """A position in one pass over a dataset.

    The state says where it is, not what it has read: a cursor opened for the same pass that gets
    the state goes on with the very same elements.
    """

    def next(self) -> Element:
        """The next element.

        Raises:
            StopIteration: after the last.
        """
        raise NotImplementedError(f"{type(self).__name__}.next")

    def state(self) -> Mapping[str, Any]:
        """The position, as numbers, strings, and lists and dicts of them."""
        raise NotImplementedError(f"{type(self).__name__}.state")

    def restore(self, state: Mapping[str, Any]) -> None:
        """Goes to a position; called before the first `next`."""
        raise NotImplementedError(f"{type(self).__name__}.restore")

    def next_batch(self, count: int) -> tuple[Element, int]:
        """Up to `count` elements, stacked, and how many they are.

        Raises:
            StopIteration: when there are none.
        """
        items = []
        for _ in range(count):
            try:
                items.append(self.next())
            except StopIteration:
                break
        if not items:
            raise StopIteration
        return stacked(items), len(items)

    def close(self) -> None:
        """Lets go of threads and files; called when nobody will ask for more."""


def stacked(items: list[Element]) -> Element:
    """Elements of one structure as one, with an axis in front of each leaf."""
    columns = zip(*[leaves(item) for item in items], strict=True)
    return like(items[0], iter([_stack(column) for column in columns]))


def _stack(column: tuple[Any, ...]) -> Any:
    if type(column[0]) is Tensor:
        return CALL["stack"](list(column))
    return np.stack([np.asarray(leaf) for leaf in column])


def joined(batches: list[Element]) -> Element:
    """Stacked elements one after another."""
    if len(batches) == 1:
        return batches[0]
    columns = zip(*[leaves(batch) for batch in batches], strict=True)
    return like(batches[0], iter([_join(column) for column in columns]))


def _join(column: tuple[Any, ...]) -> Any:
    if type(column[0]) is Tensor:
        return CALL["concat"](list(column))
    return np.concatenate(column)


def bits(seed: int, epoch: Epoch, purpose: str) -> np.random.Philox:
    """Random bits that depend on nothing else; the same with every version of NumPy."""
    text = f"{purpose}:{seed}:{','.join(map(str, epoch))}".encode()
    digest = hashlib.blake2b(text, digest_size=16).digest()
    return np.random.Philox(key=int.from_bytes(digest, "little"))


def permutation(seed: int, epoch: Epoch, size: int) -> np.ndarray[Any, Any]:
    """All integers below `size`, in random order."""
    words: np.ndarray[Any, Any] = bits(seed, epoch, "permutation").random_raw(size)
    return np.argsort(words, kind="stable")
