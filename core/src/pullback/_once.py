"""Functions that find something out once: about each class or function, or for each shape."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar
from weakref import ref

__all__ = ["once_for_each", "remembered"]

#: The number of calls that `remembered` keeps of a function.
_MANY = 1024

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


class _NoKeyError(Exception):
    """Raised for a value that cannot be a key: a float may be equal to an integer."""


def _key(value: Any) -> Any:
    """Integers, strings and None in nested tuples, for which equal means identical."""
    kind = type(value)
    if kind is tuple or kind is list:
        return tuple([item if type(item) is int else _key(item) for item in value])
    if kind is int or kind is str or value is None:
        return value
    try:
        # True is 1, and so is NumPy's 1; 1.0 is not.
        return int(operator.index(value))
    except TypeError:
        raise _NoKeyError from None


def remembered(function: Callable[..., _Found]) -> Callable[..., _Found]:
    """Has a function of shapes, and of attributes as callers pass them, look once at each call.

    Lists are read as tuples, and all integers as Python's. Other values are never looked up, so 2.0
    raises after 2 as it does before it. What the function returns is not to be changed.
    """
    kept: dict[tuple[Any, ...], _Found] = {}

    @wraps(function)
    def of(shapes: Any, /, **attributes: object) -> _Found:
        values = []
        for value in attributes.values():
            kind = type(value)
            if kind is not int and kind is not str and value is not None:
                try:
                    value = _key(value)
                except _NoKeyError:
                    return function(shapes, **attributes)
            values.append(value)
        key = (*shapes, *attributes, *values)
        found = kept.get(key)
        if found is None:
            if len(kept) >= _MANY:
                kept.clear()
            found = kept[key] = function(shapes, **dict(zip(attributes, values, strict=True)))
        return found

    of.cache_clear = kept.clear  # type: ignore[attr-defined]
    return of
