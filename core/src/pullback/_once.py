"""Functions that find something out once about each class or function, without keeping it alive."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar
from weakref import ref

__all__ = ["once_for_each"]

_Object = TypeVar("_Object")
_Found = TypeVar("_Found")


def once_for_each(function: Callable[[_Object], _Found]) -> Callable[[_Object], _Found]:
    """Has a function look once at each object, which is found again by its id.

    Unlike `functools.lru_cache`, this runs no code of a metaclass, and what is local to a function
    that has ended is freed, with all that it closes over.
    """
    kept: dict[int, tuple[_Found, ref[_Object]]] = {}

    def of(value: _Object) -> _Found:
        key = id(value)
        try:
            return kept[key][0]
        except KeyError:
            found = function(value)
            kept[key] = found, ref(value, lambda _: kept.pop(key, None))
            return found

    return of
