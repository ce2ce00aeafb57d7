"""What a stage of a pipeline is: something that opens a cursor for each pass over the data.

Everything is pulled: the consumer asks the last cursor for an element, which asks the one before
it. A new source or stage is a `Dataset` with an `open` method and a `Cursor`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from pullback.data.elements import Element, stacked

#: Which pass over the data this is: the number of the iteration, and those of repeats within it.
Epoch: TypeAlias = "tuple[int, ...]"


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

    def skip(self, count: int) -> int:
        """Passes over up to `count` elements, and says how many there were.

        Cursors that can go on without making the elements do so.
        """
        for done in range(count):
            try:
                self.next()
            except StopIteration:
                return done
        return count

    def close(self) -> None:
        """Lets go of threads and files; called when nobody will ask for more."""


def key_of(seed: int, epoch: Epoch, purpose: str) -> int:
    """A key of 128 bits for random numbers, which depends on nothing else."""
    text = f"{purpose}:{seed}:{','.join(map(str, epoch))}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=16).digest(), "little")


def bits(seed: int, epoch: Epoch, purpose: str) -> np.random.Philox:
    """Random bits that depend on nothing else; the same with every version of NumPy."""
    return np.random.Philox(key=key_of(seed, epoch, purpose))


def permutation(seed: int, epoch: Epoch, size: int) -> np.ndarray[Any, Any]:
    """All integers below `size`, in random order."""
    words: np.ndarray[Any, Any] = bits(seed, epoch, "permutation").random_raw(size)
    return np.argsort(words, kind="stable")
