"""Nested lists, tuples and dicts of values: flattened, and put together again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any


def each(function: Callable[[Any], Any], operand: Any) -> Any:
    """Returns what a function returns for an operand of a call.

    Args:
        function: takes one value.
        operand: a value; several of them in a list or tuple, which gives a list; or None, which
            stands for no value and gives None.

    >>> each(str, 1), each(str, (1, 2)), each(str, None)
    ('1', ['1', '2'], None)
    """
    if operand is None:
        return None
    return [*map(function, operand)] if isinstance(operand, (list, tuple)) else function(operand)


def leaves(structure: Any) -> list[Any]:
    """The values in order; None stands for no value.

    >>> leaves({"a": [1, 2], "b": (3, None)})
    [1, 2, 3]
    """
    if not isinstance(structure, (dict, list, tuple)):
        return [] if structure is None else [structure]
    flat: list[Any] = []
    values: Iterable[Any] = structure.values() if isinstance(structure, dict) else structure
    for value in values:
        if isinstance(value, (dict, list, tuple)):
            flat += leaves(value)
        elif value is not None:
            flat.append(value)
    return flat


def like(structure: Any, values: Iterator[Any]) -> Any:
    """The same structure with the next of `values` in place of each leaf.

    >>> like({"a": [1, 2], "b": (3, None)}, iter("xyz"))
    {'a': ['x', 'y'], 'b': ('z', None)}
    """
    if isinstance(structure, dict):
        return {key: like(value, values) for key, value in structure.items()}
    if isinstance(structure, (list, tuple)):
        items = [like(value, values) for value in structure]
        if isinstance(structure, tuple):
            return type(structure)(*items) if hasattr(structure, "_fields") else tuple(items)
        return items
    return None if structure is None else next(values)


def mapped(function: Callable[[Any], Any], structure: Any) -> Any:
    """The same structure with what a function returns in place of each leaf.

    >>> mapped(str, {"a": [1, 2], "b": (3, None)})
    {'a': ['1', '2'], 'b': ('3', None)}
    """
    return like(structure, map(function, leaves(structure)))
