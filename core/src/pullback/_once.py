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
        found = kept.get(id(value))
        if found is None:
            key = id(value)
            found = kept[key] = function(value), ref(value, lambda _: kept.pop(key, None))
        return found[0]

    return of
