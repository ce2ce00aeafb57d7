"""The state of plain objects: a traversal of their attributes, in which each has a path.

Layers, models, optimizers and whatever a program puts them in need no registration. Their state is
found by following attributes, slots, and the items of lists, tuples and dicts. A path is made of
the names on the way: `layers/0/kernel`. Names that contain a slash are escaped as in JSON Pointer
(RFC 6901), "~1" for "/" and "~0" for "~", so that a path has one meaning.

A class with `opaque_state = True` keeps its attributes to itself: nothing in them is state, except
what its `checkpoint_state` returns, if it has one.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import ml_dtypes
import numpy as np

from pullback import errors
from pullback._autodiff.tape import GradientTape
from pullback._dispatch.recording import capturing
from pullback._notebook import table_html
from pullback._once import once_for_each
from pullback.devices import Device
from pullback.dtypes import NamedDType
from pullback.spec import Op
from pullback.strings import StringTensor
from pullback.tensor import Tensor
from pullback.variable import Variable

__all__ = [
    "StateEntry",
    "Stateful",
    "VariableList",
    "escape",
    "join",
    "named_variables",
    "path_of",
    "walk",
]


@runtime_checkable
class Stateful(Protocol):
    """An object with state besides variables: a generator, iterator, metric or counter.

    The state is made of numbers, strings, arrays, and lists and dicts of them. Variables in the
    object's attributes are saved as well, unless its class has `opaque_state = True`.
    """

    def checkpoint_state(self) -> Mapping[str, Any]:
        """Returns the state by name."""

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Takes the state over; from then on `checkpoint_state` returns the same."""


class StateEntry(NamedTuple):
    """An object in a traversal."""

    path: str
    value: Any
    #: The first path of an object that has several; None for the entry with that path.
    first: str | None


def escape(name: object) -> str:
    """Returns a name as one part of a path.

    >>> from pullback.state import escape
    >>> escape("conv1/pool")
    'conv1~1pool'
    """
    text = name if type(name) is str else str(name)
    if "/" in text or "~" in text:
        return text.replace("~", "~0").replace("/", "~1")
    return text


def join(path: str, name: object) -> str:
    """Returns the path of `name` in the object at `path`.

    Raises:
        InputTypeError: for a path that is not a str.
    """
    if not isinstance(path, str):
        raise errors.InputTypeError(f"path must be a str, got {type(path).__name__}")
    return f"{path}/{escape(name)}" if path else escape(name)


def walk(root: object) -> Iterator[StateEntry]:
    """Yields every object under `root` that is or may hold state, itself first.

    Objects come in the order of attributes. Each is entered once, under its first path; under its
    other paths it comes with that one. Integers, strings, arrays, tensors, devices, functions,
    classes and the objects of Python's and NumPy's own types are skipped.
    """
    seen: dict[int, str] = {}
    # Keeps temporary objects alive, so that their ids are not used again.
    kept: list[object] = []
    stack: list[tuple[str, object, Children]] = []
    enter = _children_of(type(root))
    if enter is not None:
        stack.append(("", root, enter))
    while stack:
        path, value, enter = stack.pop()
        first = seen.get(id(value))
        yield StateEntry(path, value, first)
        if first is None:
            seen[id(value)] = path
            kept.append(value)
            parts = []
            for name, child in enter(value):
                cls = type(child)
                if child is None or cls is bool or cls is int or cls is str:
                    continue  # most attributes
                enter_child = _children_of(cls)
                if enter_child is not None:
                    parts.append((join(path, name), child, enter_child))
            parts.reverse()
            stack += parts


class VariableList(list[Variable]):
    """A list of variables that prints their names, shapes and dtypes, not their values.

    >>> pb.layers.Dense(3, input_shape=(2,)).variables
    [<kernel (2, 3) float32>, <bias (3,) float32>]
    """

    def __repr__(self) -> str:
        parts = (f"<{v.name or 'Variable'} {v.shape} {v.dtype}>" for v in self)
        return f"[{', '.join(parts)}]"

    def _repr_html_(self) -> str:
        # As notebooks show it.
        rows = [[v.name or "Variable", str(v.shape), str(v.dtype), f"{v.size:,}"] for v in self]
        return table_html(f"{len(self)} variables", ["name", "shape", "dtype", "size"], rows)


def named_variables(root: object) -> dict[str, Variable]:
    """Returns the variables under `root` by path, each once.

    >>> from pullback.state import named_variables
    >>> v = pb.Variable(1.0)
    >>> list(named_variables({"a/b": [v], "c": v}))
    ['a~1b/0']
    """
    entries = [entry for entry in walk(root) if entry.first is None]
    if (capture := capturing()) is not None:
        capture.traversed(
            [entry.value for entry in entries if not isinstance(entry.value, Variable)], _parts
        )
    return {entry.path: entry.value for entry in entries if isinstance(entry.value, Variable)}


class _Enters(dict[type, bool]):
    """Knows of each type whether a traversal enters its objects."""

    def __missing__(self, kind: type) -> bool:
        self[kind] = found = _children_of(kind) is not None
        return found


_ENTERS = _Enters()


def _parts(value: Any) -> tuple[object, ...]:
    """The objects in one that a traversal enters: fast, as each run of a program compares them."""
    children = _children_of(type(value))
    values: Iterable[object]
    if children is _attributes:
        values = vars(value).values()
    elif children is enumerate:
        values = value
    else:
        values = [child for _, child in (children or _none)(value)]
    return tuple([child for child in values if _ENTERS[type(child)]])


def path_of(root: object, target: object) -> str | None:
    """Returns the path of `target` under `root`, or None if it is not there."""
    for entry in walk(root):
        if entry.value is target:
            return entry.path
    return None


# ---------------------------------------------------------------------------------------------
# The children of an object, decided once per type.

Children: TypeAlias = Callable[[Any], Iterable[tuple[object, object]]]

#: The packages whose objects are skipped.
_FOREIGN = sys.stdlib_module_names | {np.__name__, ml_dtypes.__name__}
#: Values of this library, and what belongs to a device or to a tape: they hold no state.
_VALUES = (Tensor, StringTensor, NamedDType, Device, Op, GradientTape)


@once_for_each
def _children_of(cls: type) -> Children | None:
    """Returns the function that lists the children of a type's objects; None to skip them."""
    if issubclass(cls, Variable):
        return _none
    if issubclass(cls, _VALUES):
        return None
    if getattr(cls, "opaque_state", False):
        return _none if hasattr(cls, "checkpoint_state") else None
    if issubclass(cls, dict):
        return _items
    if issubclass(cls, (list, tuple)):
        return enumerate
    if not _is_foreign(cls) or issubclass(cls, types.SimpleNamespace):
        slots = _slots(cls)
        if slots:
            return _slots_and_attributes(slots)
        if cls.__dictoffset__ and not issubclass(cls, type):
            return _attributes
        if hasattr(cls, "checkpoint_state"):
            return _none
    return None


def _is_foreign(cls: type) -> bool:
    # With its bases: a model whose class was made by `exec` is of the module "builtins".
    return all(base.__module__.partition(".")[0] in _FOREIGN for base in cls.__mro__)


def _slots(cls: type) -> list[str]:
    """Returns the names of the slots of a class, those of its bases first."""
    return [
        name
        for base in reversed(cls.__mro__)
        if not _is_foreign(base)
        for name, member in sorted(vars(base).items())
        if isinstance(member, types.MemberDescriptorType)
    ]


def _none(value: object) -> Iterable[tuple[object, object]]:
    return ()


def _items(value: dict[object, object]) -> Iterable[tuple[object, object]]:
    return list(value.items())


def _attributes(value: object) -> Iterable[tuple[object, object]]:
    return list(vars(value).items())


def _slots_and_attributes(slots: list[str]) -> Children:
    def children(value: object) -> Iterable[tuple[object, object]]:
        attributes = list(getattr(value, "__dict__", {}).items())
        return [(name, getattr(value, name)) for name in slots if hasattr(value, name)] + attributes

    return children


# ---------------------------------------------------------------------------------------------
# Saved values that wait for objects which do not exist yet.


class PendingRestore(Protocol):
    """A restoration with values for variables that do not exist yet."""

    def restore_deferred(self) -> None:
        """Gives the values to the variables made since."""

    def forget(self, objects: Collection[object]) -> None:
        """Gives up on objects that another restoration is for."""


#: Restorations that still have values. Each leaves the list when it has none left.
PENDING_RESTORES: list[PendingRestore] = []


def restore_pending() -> None:
    """Gives deferred values (see `pullback.checkpoint`) to the variables made since."""
    for pending in list(PENDING_RESTORES):
        pending.restore_deferred()
