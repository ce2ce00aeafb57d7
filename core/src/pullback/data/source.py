"""`Cursor`: a position in one pass over a dataset, and the base of every stage.

Elements are pulled: the consumer asks the last cursor for an element, which asks the one before
it. A new source or stage is a `Dataset` with an `open` method and a `Cursor`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from inspect import isgenerator
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np

from pullback import errors
from pullback.data.elements import Element, stacked
from pullback.shapes import as_int

T = TypeVar("T")

#: The pass over the data: the number of the iteration, and the numbers of repeats within it.
Epoch: TypeAlias = "tuple[int, ...]"
#: A position, as numbers, strings, and lists and dicts of them.
Position: TypeAlias = Mapping[str, Any]


class ElementSource(Protocol):
    """A dataset, as its iterators and the stages behind it know it."""

    def open(self, epoch: Epoch) -> Cursor:
        """Opens a cursor at the beginning of one pass."""

    def seeds(self) -> list[int]:
        """Returns the seeds of all stages."""

    def set_seeds(self, seeds: Sequence[int]) -> None:
        """Sets the seeds of all stages."""


class Cursor:
    """A position in one pass over a dataset.

    The state is the position, not what was read: a cursor that is opened for the same pass and
    restored to that state goes on with the same elements.
    """

    def next(self) -> Element:
        """Returns the next element.

        Raises:
            StopIteration: after the last.
        """
        raise NotImplementedError(f"{type(self).__name__}.next")

    def state(self) -> Position:
        """Returns the position."""
        raise NotImplementedError(f"{type(self).__name__}.state")

    def restore(self, state: Position) -> None:
        """Goes to a position; called before the first `next`."""
        raise NotImplementedError(f"{type(self).__name__}.restore")

    def next_batch(self, count: int) -> tuple[Element, int]:
        """Returns up to `count` elements, stacked, and their number.

        Raises:
            StopIteration: if there are none.
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
        """Skips up to `count` elements, and returns how many there were.

        Cursors that can skip elements without making them do so. With 0 nothing happens.
        """
        for done in range(count):
            try:
                self.next()
            except StopIteration:
                return done
        return count

    def close(self) -> None:
        """Releases threads and files; called when no more elements are needed."""


def key_of(seed: int, epoch: Epoch, purpose: str) -> int:
    """Returns a key of 128 bits for random numbers, from these arguments alone."""
    text = f"{purpose}:{seed}:{','.join(map(str, epoch))}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=16).digest(), "little")


def bits(seed: int, epoch: Epoch, purpose: str) -> np.random.Philox:
    """Returns random bits from these arguments alone, the same with every version of NumPy."""
    return np.random.Philox(key=key_of(seed, epoch, purpose))


def permutation(seed: int, epoch: Epoch, size: int) -> np.ndarray[Any, Any]:
    """Returns all integers below `size`, in random order."""
    words: np.ndarray[Any, Any] = bits(seed, epoch, "permutation").random_raw(size)
    return np.argsort(words, kind="stable")


# Checks of arguments ------------------------------------------------------------------------------


def checked_sources(sources: Sequence[T]) -> tuple[T, ...]:
    """Returns the datasets that another draws from.

    Raises:
        InputTypeError: for anything but a sequence.
    """
    if not isinstance(sources, Sequence):
        raise errors.InputTypeError(
            f"the sources of a dataset are a list of datasets, got {type(sources).__name__}"
        )
    return tuple(sources)


def at_least(method: str, value: int | None, least: int) -> None:
    """Checks that a number is an integer, and at least `least`; None is allowed.

    Raises:
        InputTypeError: for what is not an integer.
        InputValueError: for a smaller number.
    """
    if value is not None and as_int(value, f"{method}: an integer") < least:
        raise errors.InputValueError(
            f"{method} takes a number that is at least {least}, got {value}"
        )


def check_function(method: str, function: object, takes: str) -> None:
    """Checks that a function can be called; `takes` says what it is for.

    Raises:
        InputTypeError: for anything else, such as the generator that it would make.
    """
    if callable(function):
        return
    called = "; pass the function itself, without ()" if isgenerator(function) else ""
    raise errors.InputTypeError(
        f"{method} takes a function {takes}, got {type(function).__name__}{called}"
    )
