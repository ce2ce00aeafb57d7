"""Functions that find something out once: about each class or function, or for each shape."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import wraps
from types import NoneType
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import ref

__all__ = ["KEYS", "kept_property", "key_of", "once_for_each", "remembered"]

#: The number of calls that `remembered` keeps of a function.
_MANY = 1024
#: The types of attributes that are keys as they are.
KEYS = frozenset({int, str, NoneType})

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


if TYPE_CHECKING:
    from functools import cached_property as kept_property
else:

    class kept_property:
        """As `functools.cached_property`, without the lock that that takes before Python 3.12."""

        def __init__(self, function: Callable[[Any], Any]) -> None:
            self._function = function
            self._name = function.__name__
            self.__doc__ = function.__doc__

        def __get__(self, owner: Any, _: type | None = None) -> Any:
            """Returns what the function does; the object itself has it from then on."""
            if owner is None:
                return self
            value = owner.__dict__[self._name] = self._function(owner)
            return value


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


def key_of(value: object) -> object:
    """Returns an attribute as it is in keys of `remembered`; an error, which no key has, if none.

    A float may be equal to an integer, so none is in a key.
    """
    if type(value) is tuple:
        for item in value:
            if type(item) is not int:
                break
        else:
            return value  # sizes, in most calls
    try:
        return _key(value)
    except _NoKeyError:
        return _NoKeyError


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
            if type(value) not in KEYS:
                value = key_of(value)
                if value is _NoKeyError:
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
    # Specialized code looks here before it calls.
    of.kept = kept  # type: ignore[attr-defined]
    return of
