"""Guards and numbers, which a program asks the host for, and lines of the program for messages."""

from __future__ import annotations

import itertools
import linecache
import operator
import os
import sys
from collections import deque
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from types import CodeType, EllipsisType, FrameType, MappingProxyType, NoneType
from typing import Any, NamedTuple, TypeGuard

import numpy as np

from pullback._dispatch.convert import constant
from pullback._symbols import HostNumber
from pullback.casting import number as number_of_dtype
from pullback.devices import Device
from pullback.dtypes import DType
from pullback.plugins.records import Native
from pullback.tensor import Tensor

#: Frames of files below this folder are the framework's, and those of generated code.
_FRAMEWORK = str(Path(__file__).parents[1]), "<pullback "


#: Containers that are compared item by item.
CONTAINERS: tuple[Any, ...] = (
    *(list, dict, set, tuple, frozenset, deque, MappingProxyType),
    *(type({}.keys()), type({}.values()), type({}.items())),
)
#: Those of them that can be changed.
CHANGEABLE = (list, dict, set, deque)
#: Types of which no operation reads anything of the user's.
INERT = {Tensor, bool, int, float, str, NoneType}
#: Types whose values `same` compares; booleans are one object each.
_BY_VALUE = {int, float, complex, str, bytes, range, tuple, frozenset}
_VALUES = {
    *(bool, int, float, complex, str, bytes, NoneType, EllipsisType, range, slice),
    *(CodeType, DType, Device, np.dtype),
}


class Guard(NamedTuple):
    """A test that a program makes before it runs: `function(*arguments)` must equal `value`."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    value: object
    what: str

    def holds(self) -> bool:
        """Returns whether the value is what it was."""
        try:
            return same(self.function(*self.arguments), self.value)
        except Exception:
            return False


class Number(NamedTuple):
    """A number that the host computes at each run."""

    result: HostNumber
    function: Callable[..., Any]
    arguments: tuple[Any, ...]


def is_plain(value: object) -> bool:
    """Returns whether a value is one that nothing changes and that holds no other object."""
    return is_plain_type(type(value))


def is_plain_type(kind: type) -> bool:
    """The same for a class."""
    return kind in _VALUES or issubclass(kind, (Device, np.generic))


def is_a(value: object, kinds: Any) -> TypeGuard[Any]:
    """As `isinstance`, which may run the code of a class that hides what it is."""
    return issubclass(type(value), kinds)


def same(value: Any, before: Any) -> bool:
    """True if a value is the one before, or a number, text or tuple that cannot be told from it."""
    if value is before:
        return True
    kind = type(value)
    if kind is not type(before):
        return False
    if kind is float:
        return bool(value.hex() == before.hex())
    if kind is tuple:
        if len(value) != len(before):
            return False
        # In C, while they are the same objects.
        return all(map(operator.is_, value, before)) or all(map(same, value, before))
    if kind is complex:
        return same(value.real, before.real) and same(value.imag, before.imag)
    if kind is frozenset:
        return {*map(_key, value)} == {*map(_key, before)}
    if issubclass(kind, np.generic):
        return bool(value.tobytes() == before.tobytes() and value.dtype == before.dtype)
    return kind in _BY_VALUE and bool(value == before)


def is_by_identity(value: object) -> bool:
    """Returns whether `same` compares other values with this one by identity alone."""
    kind = type(value)
    return kind not in _BY_VALUE and not issubclass(kind, np.generic)


def _key(value: Any) -> Any:
    """A value for a set in which what cannot be told apart is one."""
    kind = type(value)
    if kind in (tuple, frozenset):
        parts = map(_key, value)
        return kind, tuple(parts) if kind is tuple else frozenset(parts)
    if kind is float:
        return kind, value.hex()
    return kind, value if kind in (int, str, bool, bytes) else id(value)


def contents(container: Collection[object]) -> tuple[Any, ...]:
    """Returns the items of a container; the keys and values of a dict in turn."""
    if isinstance(container, (dict, MappingProxyType)):
        return (*itertools.chain.from_iterable(container.items()),)
    return (*container,)


def replace(
    container: list[Any] | dict[Any, Any] | set[Any] | deque[Any], items: Iterable[Any]
) -> None:
    """Has a container hold these items: of a dict, another one or pairs."""
    # Subclasses may have methods of their own: a `Counter` adds what it is updated with.
    if isinstance(container, dict):
        dict.clear(container)
        dict.update(container, items)
    elif isinstance(container, set):
        set.clear(container)
        set.update(container, items)
    else:
        kind: Any = list if isinstance(container, list) else deque
        kind.clear(container)
        kind.extend(container, items)


def array_of(value: object, dtype: DType, device: Device) -> Native:
    """A 0-d array with a number of the host."""
    if type(value) is int:
        # Such as the number of a step, which does not come again.
        array = np.asarray(number_of_dtype(value, dtype), dtype)
        return device.backend.from_host(array, device.native, copy=False)
    array_: Native = constant(value, dtype, device)._array
    return array_


def host_array_of(value: object, dtype: DType) -> np.ndarray[Any, Any]:
    """The same as a NumPy array, for a program that its backend has compiled."""
    return np.asarray(number_of_dtype(value, dtype), dtype)


def line_of_program() -> str:
    """The innermost line that runs now and is not the framework's: "train.py:12"."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = _PROGRAMS[frame.f_code.co_filename]
        if name:
            return f"{name}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


_MANY_FILES = 1 << 12


class _Programs(dict[str, str]):
    """The names of files without their folders; "" for those of the framework."""

    def __missing__(self, file: str) -> str:
        name = "" if file.startswith(_FRAMEWORK) else file.rpartition(os.sep)[2]
        if len(self) > _MANY_FILES:  # each function that is generated has one
            self.clear()
        self[file] = name
        return name


_PROGRAMS = _Programs()


def depth_of_program() -> int:
    """The number of frames of the framework that run now: `stacklevel` for a warning."""
    depth, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_FRAMEWORK):
        depth, frame = depth + 1, frame.f_back
    return depth


def line_of_traceback(error: BaseException) -> str:
    """The innermost line in an error's traceback that is not the framework's, with its text."""
    line = ""
    at = error.__traceback__
    while at is not None:
        file = at.tb_frame.f_code.co_filename
        if not file.startswith(_FRAMEWORK):
            text = linecache.getline(file, at.tb_lineno).strip()
            line = f"{os.path.basename(file)}:{at.tb_lineno}" + f" ({text})" * bool(text)
        at = at.tb_next
    return line


def kind_of_value(state: Any) -> Any:
    """The kind of the value of a host state: of numbers their type; of most else the value."""
    value = state.value
    if type(value) is Tensor:
        return value.shape, value._array.dtype, value._device
    return type(value) if type(value) in (int, float) else value
