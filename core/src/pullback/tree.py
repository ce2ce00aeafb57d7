"""Nested structures of values: lists, tuples, named tuples and dicts, in one another.

The functions of `pullback` take and return such structures. A leaf is any other object; None stands
for no leaf. A dict has its leaves in its own order, and two dicts with the same keys are alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any

from pullback import errors
from pullback._tree import leaves as _leaves
from pullback._tree import like

__all__ = ["leaves", "map", "structure", "unflatten"]


class _Place:
    """The place of a leaf in a structure."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "*"

    def __reduce__(self) -> str:
        return "_PLACE"  # the one of the process that unpickles it


_PLACE = _Place()


def leaves(tree: Any) -> list[Any]:
    """The leaves of a structure, in order.

    >>> pb.tree.leaves({"a": [1, 2], "b": (3, None)})
    [1, 2, 3]
    """
    return _leaves(tree)


def structure(tree: Any) -> Any:
    """The structure without its leaves; equal for structures that are alike.

    >>> pb.tree.structure({"a": [1, 2], "b": (3, None)})
    {'a': [*, *], 'b': (*, None)}
    """
    return like(tree, repeat(_PLACE))


def unflatten(structure: Any, leaves: Iterable[Any]) -> Any:
    """Puts leaves into a structure.

    Args:
        structure: any structure; its own leaves do not matter.
        leaves: the new ones, in order.

    >>> pb.tree.unflatten(pb.tree.structure({"a": 0, "b": [0]}), [1, 2])
    {'a': 1, 'b': [2]}

    Raises:
        InputValueError: for more or fewer leaves than the structure has.
        InputTypeError: for leaves that are not a list.
    """
    try:
        flat = list(leaves)
    except TypeError:
        raise errors.InputTypeError(
            f"pb.tree.unflatten: the leaves are a list, got {type(leaves).__name__}"
        ) from None
    count = len(_leaves(structure))
    if len(flat) != count:
        raise errors.InputValueError(
            f"pb.tree.unflatten: {len(flat)} leaves for a structure of {count}"
        )
    return like(structure, iter(flat))


def map(f: Callable[..., Any], tree: object, *others: object) -> Any:
    """The structure of what a function returns for each leaf.

    Args:
        f: takes a leaf of each structure.
        tree: a structure.
        others: structures like it.

    >>> pb.tree.map(lambda x, y: x + y, {"a": 1, "b": [2, 3]}, {"b": [20, 30], "a": 10})
    {'a': 11, 'b': [22, 33]}

    Raises:
        InputValueError: for structures that differ; the error names the place.
        InputTypeError: if `f` is not a function.
    """
    if not callable(f):
        raise errors.InputTypeError(
            f"pb.tree.map takes a function and structures, got {type(f).__name__} first"
        )
    return _mapped(f, (tree, *others), "")


def _mapped(f: Callable[..., Any], trees: tuple[Any, ...], path: str) -> Any:
    first = trees[0]
    keys: Any = ()
    if isinstance(first, dict):
        keys = first.keys()
    elif isinstance(first, (list, tuple)):
        keys = range(len(first))
    elif first is not None:
        return f(*trees)
    for other in trees[1:]:
        is_alike = type(other) is type(first)
        if is_alike and first is not None:
            is_alike = other.keys() == keys if isinstance(first, dict) else len(other) == len(keys)
        if not is_alike:
            raise errors.InputValueError(
                f"pb.tree.map: the structures differ{f' at {path}' if path else ''}: "
                f"{structure(first)} and {structure(other)}"
            )
    parts = [_mapped(f, tuple(tree[key] for tree in trees), f"{path}[{key!r}]") for key in keys]
    if isinstance(first, dict):
        return dict(zip(keys, parts, strict=True))
    if isinstance(first, tuple):
        return type(first)(*parts) if hasattr(first, "_fields") else tuple(parts)
    return None if first is None else parts
