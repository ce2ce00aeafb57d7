"""What other libraries and generators give: torch loaders, Hugging Face datasets, grain, ...

They are known by what they can do, not by what they are. The position in an iterator that gives
and takes one itself, by `get_state()` and `set_state(state)` as grain's, is saved as that. Anything
else is gone through again up to there. A `state_dict()` of the iterable is not used: those of
Hugging Face's streams lose what was in a shuffle buffer, and what they are set to stays for later
passes.
"""

# ruff: noqa: D102  (what the methods of a cursor do is said where `Cursor` is defined)

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from pullback import errors
from pullback.data.elements import Element, from_foreign
from pullback.data.source import Cursor


def is_sequence(value: Any) -> bool:
    """Whether elements can be had by number."""
    return (
        hasattr(value, "__getitem__")
        and hasattr(value, "__len__")
        and not isinstance(value, (Mapping, str, bytes))
    )


def check(value: Any) -> None:
    """Refuses what cannot be gone through pass after pass.

    Raises:
        InputTypeError: for what is no iterable, a dict, or an iterator.
    """
    if isinstance(value, (Mapping, str, bytes)):
        raise errors.InputTypeError(
            f"from_iterable takes the data themselves, got {type(value).__name__}; for one of "
            f"several datasets in a dict, give that one; for arrays, from_tensor_slices"
        )
    if isinstance(value, Iterator):
        raise errors.InputTypeError(
            f"{type(value).__name__} can be gone through once only; give what it was made from, "
            f"or from_generator(function) with a function that makes it"
        )
    if not isinstance(value, Iterable) and not is_sequence(value):
        raise errors.InputTypeError(
            f"from_iterable takes what can be iterated over, got {type(value).__name__}"
        )


class IterableCursor(Cursor):
    """One pass over what a function gives, which is called when the pass begins."""

    def __init__(self, make: Callable[[], Iterable[Any]]) -> None:
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

    def state(self) -> Mapping[str, Any]:
        own = self.iterator.get_state() if _has_state(self.iterator) else None
        return {"given": self.given, "own": own if _is_plain(own) else None}

    def restore(self, state: Mapping[str, Any]) -> None:
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


def _has_state(iterator: Any) -> bool:
    return hasattr(iterator, "get_state") and hasattr(iterator, "set_state")


def _is_plain(value: Any) -> bool:
    """Whether a value comes back from a checkpoint as it is."""
    if isinstance(value, list):
        return all(_is_plain(item) for item in value)
    if isinstance(value, dict):
        return all(type(key) is str and _is_plain(item) for key, item in value.items())
    return value is None or isinstance(value, (bool, int, float, str, bytes))
