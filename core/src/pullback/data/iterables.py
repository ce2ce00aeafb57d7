"""What other libraries and generators give: torch loaders, Hugging Face datasets, grain, ...

They are known by what they can do, not by what they are. A position is saved with what they have
for it: `get_state()` and `set_state(state)` of the iterator, as grain's, or `state_dict()` and
`load_state_dict(state)`, as torchdata's and Hugging Face's. Where there is none, or it is no plain
data, the elements in front of it are passed over again.
"""

# ruff: noqa: D102  (what the methods of a cursor do is said where `Cursor` is defined)

from __future__ import annotations

import copy
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
        self.iterable: Any = None
        self.iterator: Iterator[Any] | None = None

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

    def _begun(self) -> Iterator[Any]:
        if self.iterator is None:
            self.iterable = self.make()
            self.iterator = iter(self.iterable)
        return self.iterator

    def state(self) -> Mapping[str, Any]:
        own = None
        if self.iterator is not None:
            for holder, get, _ in self._protocols():
                own = getattr(holder, get)()
                break
        return {"given": self.given, "own": own if _is_plain(own) else None}

    def restore(self, state: Mapping[str, Any]) -> None:
        if state["own"] is None:
            if state["given"]:
                self.skip(int(state["given"]))
            return
        self.iterator = None
        self.iterable = self.make()
        if _has(self.iterable, "state_dict", "load_state_dict"):
            # It begins there when it is iterated over next, and some do so for good: the state is
            # that of a copy, and other passes begin at the beginning.
            self.iterable = copy.copy(self.iterable)
        else:
            self.iterator = iter(self.iterable)
        for holder, _, set_ in self._protocols():
            getattr(holder, set_)(state["own"])
            break
        if self.iterator is None:
            self.iterator = iter(self.iterable)
        self.given = int(state["given"])

    def _protocols(self) -> list[tuple[Any, str, str]]:
        """What holds a state of its own, and the names of its methods to get and set it."""
        found = []
        for holder in (self.iterable, self.iterator):
            for get, set_ in (
                ("state_dict", "load_state_dict"),
                ("get_state", "set_state"),
            ):
                if _has(holder, get, set_):
                    found.append((holder, get, set_))
        return found

    def close(self) -> None:
        close = getattr(self.iterator, "close", None)
        if close is not None:
            close()
        self.iterator = self.iterable = None


def _has(holder: Any, *names: str) -> bool:
    return all(callable(getattr(holder, name, None)) for name in names)


def _is_plain(value: Any) -> bool:
    """Whether a value comes back from a checkpoint as it is."""
    if isinstance(value, list):
        return all(_is_plain(item) for item in value)
    if isinstance(value, dict):
        return all(type(key) is str and _is_plain(item) for key, item in value.items())
    return value is None or isinstance(value, (bool, int, float, str, bytes))
