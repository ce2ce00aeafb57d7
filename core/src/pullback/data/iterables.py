"""Elements of other libraries and generators: torch loaders, Hugging Face datasets, grain, ...

They are known by their methods, not by their types. The position of an iterator with `get_state()`
and `set_state(state)`, such as grain's, is that state. Any other iterator is read again up to its
position. A `state_dict()` of the iterable is not used: those of Hugging Face's streams lose the
contents of a shuffle buffer, and stay set for later passes.
"""

# ruff: noqa: D102  (the methods of a cursor are documented in `Cursor`)

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from pullback import errors
from pullback.data.elements import Element, from_foreign
from pullback.data.source import Cursor, Position


def is_sequence(value: object) -> bool:
    """True if elements can be accessed by number."""
    return (
        hasattr(value, "__getitem__")
        and hasattr(value, "__len__")
        and not isinstance(value, (Mapping, str, bytes))
    )


def check(value: object) -> None:
    """Checks that an object can be iterated over several times.

    Raises:
        InputTypeError: for an object that is not iterable, a dict, or an iterator.
    """
    if isinstance(value, (Mapping, str, bytes)):
        raise errors.InputTypeError(
            f"from_iterable takes a dataset, got {type(value).__name__}; for a dict of datasets, "
            f"pass one of them; for arrays, use from_tensor_slices"
        )
    if isinstance(value, Iterator):
        raise errors.InputTypeError(
            f"{type(value).__name__} can be iterated over only once; pass the object it was made "
            f"from, or use from_generator(function) with a function that makes it"
        )
    if getattr(value, "shape", None) == () or (
        not isinstance(value, Iterable) and not is_sequence(value)
    ):
        raise errors.InputTypeError(
            f"from_iterable takes an iterable, got {type(value).__name__}; for a function that "
            f"makes one, use from_generator"
        )


def itself(iterable: Iterable[object]) -> Iterable[object]:
    """Returns an iterable that can be iterated over several times."""
    return iterable


class IterableCursor(Cursor):
    """One pass over an iterable, which a function makes when the pass begins."""

    def __init__(self, make: Callable[[], Iterable[object]]) -> None:
        self.make = make
        self.given = 0
        self.iterator: Any = None

    def next(self) -> Element:
        element = next(self._begun())
        self.given += 1
        return from_foreign(element)

    def skip(self, count: int) -> int:
        iterator = self._begun()
        for done in range(count):
            try:
                next(iterator)
            except StopIteration:
                return done
            self.given += 1
        return count

    def _begun(self) -> Any:
        if self.iterator is None:
            self.iterator = iter(self.make())
        return self.iterator

    def state(self) -> Position:
        own = self.iterator.get_state() if _has_state(self.iterator) else None
        return {"given": self.given, "own": own if _is_plain(own) else None}

    def restore(self, state: Position) -> None:
        own = state["own"]
        if own is not None:
            self._begun().set_state(own)
            self.given = int(state["given"])
        elif state["given"]:
            self.skip(int(state["given"]))

    def close(self) -> None:
        close = getattr(self.iterator, "close", None)
        if close is not None:
            close()
        self.iterator = None


def _has_state(iterator: object) -> bool:
    return hasattr(iterator, "get_state") and hasattr(iterator, "set_state")


def _is_plain(value: object) -> bool:
    """True if a value is restored from a checkpoint unchanged."""
    if isinstance(value, list):
        return all(_is_plain(item) for item in value)
    if isinstance(value, dict):
        return all(type(key) is str and _is_plain(item) for key, item in value.items())
    return value is None or isinstance(value, (bool, int, float, str, bytes))
