"""Where state is: a walk over the attributes of plain objects, each found under its path.

Layers, models, optimizers and whatever a program puts them in need no registration. What they hold
is found by walking over their attributes, and over lists, tuples and dicts among these. A path is
made of the names on the way: `layers/0/kernel`. Names that hold a slash are escaped as in JSON
Pointer (RFC 6901), "~1" for "/" and "~0" for "~", so that a path has one meaning.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import ml_dtypes
import numpy as np

from pullback.variable import Variable

__all__ = ["Place", "Stateful", "escape", "join", "named_variables", "path_of", "walk"]


@runtime_checkable
class Stateful(Protocol):
    """What outlives a process besides variables: generators, iterators, metrics, counters.

    The state is made of numbers, strings, arrays, and lists and dicts of them. Variables in the
    object's attributes are found besides, unless its class has `opaque_state = True`.
    """

    def checkpoint_state(self) -> Mapping[str, Any]:
        """The state, by name."""

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Takes the state over; `checkpoint_state` gives the same from then on."""


class Place(NamedTuple):
    """An object that a walk has met."""

    path: str
    value: Any
    #: The path under which it was met first; None if this is that one.
    first: str | None


def escape(name: Any) -> str:
    """A name as one part of a path.

    >>> from pullback.state import escape
    >>> escape("conv1/pool")
    'conv1~1pool'
    """
    text = name if type(name) is str else str(name)
    if "/" in text or "~" in text:
        return text.replace("~", "~0").replace("/", "~1")
    return text


def join(path: str, name: Any) -> str:
    """The path of what is called `name` in the object at `path`."""
    return f"{path}/{escape(name)}" if path else escape(name)


def walk(root: Any) -> Iterator[Place]:
    """Every object under `root` that is or may hold state, itself first, in order of attributes.

    Each is entered once, under the first of its paths; its other paths are given with that one.
    Integers, strings, arrays, tensors, functions, classes and the objects of Python's and NumPy's
    own types are passed over.
    """
    seen: dict[int, str] = {}
    # Objects that exist during the walk only would have their ids used again.
    kept: list[Any] = []
    stack: list[tuple[str, Any, Children]] = []
    enter = _entering(type(root))
    if enter is not None:
        stack.append(("", root, enter))
    while stack:
        path, value, enter = stack.pop()
        first = seen.get(id(value))
        yield Place(path, value, first)
        if first is None:
            seen[id(value)] = path
            kept.append(value)
            parts = []
            for name, child in enter(value):
                into = _entering(type(child))
                if into is not None:
                    parts.append((join(path, name), child, into))
            parts.reverse()
            stack += parts


def named_variables(root: Any) -> dict[str, Variable]:
    """The variables under `root` by path, each once.

    >>> from pullback.state import named_variables
    >>> v = pb.Variable(1.0)
    >>> list(named_variables({"a/b": [v], "c": v}))
    ['a~1b/0']
    """
    return {
        place.path: place.value
        for place in walk(root)
        if place.first is None and isinstance(place.value, Variable)
    }


def path_of(root: Any, target: Any) -> str | None:
    """The path of `target` under `root`; None when it is not there."""
    for place in walk(root):
        if place.value is target:
            return place.path
    return None


# ---------------------------------------------------------------------------------------------
# What is entered, decided once per type.

Children = Callable[[Any], Iterable[tuple[Any, Any]]]

_TYPES: dict[type, Children | None] = {}
_MANY_TYPES = 4096
_PASSED_OVER = sys.stdlib_module_names | {np.__name__, ml_dtypes.__name__}


def _entering(cls: type) -> Children | None:
    """What gives the children of objects of a type; None if those are passed over."""
    try:
        return _TYPES[cls]
    except KeyError:
        if len(_TYPES) >= _MANY_TYPES:
            _TYPES.clear()
        found = _TYPES[cls] = _decide(cls)
        return found


def _decide(cls: type) -> Children | None:
    if issubclass(cls, Variable) or getattr(cls, "opaque_state", False):
        return _none
    if issubclass(cls, dict):
        return _items
    if issubclass(cls, (list, tuple)):
        return enumerate
    own = cls.__module__.partition(".")[0] not in _PASSED_OVER
    if own or issubclass(cls, types.SimpleNamespace):
        if cls.__dictoffset__ and not issubclass(cls, type):
            return _attributes
        if hasattr(cls, "checkpoint_state"):
            return _none
    return None


def _none(value: Any) -> Iterable[tuple[Any, Any]]:
    return ()


def _items(value: dict[Any, Any]) -> Iterable[tuple[Any, Any]]:
    return list(value.items())


def _attributes(value: Any) -> Iterable[tuple[Any, Any]]:
    return list(vars(value).items())


# ---------------------------------------------------------------------------------------------
# Values that wait for objects which do not exist yet.

#: Called when variables may have come into being; each is taken out when it has nothing left.
WAITING: list[Callable[[], None]] = []


def settle() -> None:
    """Hands values that wait (see `pullback.checkpoint`) to the objects made since."""
    for hand_out in list(WAITING):
        hand_out()
