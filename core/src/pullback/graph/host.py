"""Guards, and what a trace asks of objects without running anybody's code."""

from __future__ import annotations

import array
import contextvars
import datetime
import functools
import gc
import io
import itertools
import operator
import os
import re
import struct
import sys
import threading
import types
import weakref
from collections import deque
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from functools import partial
from types import (
    BuiltinFunctionType,
    CodeType,
    EllipsisType,
    FunctionType,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
    NoneType,
)
from typing import Any, NamedTuple, TypeGuard

import numpy as np

from pullback._dispatch.convert import constant
from pullback._dispatch.host_state import HostState
from pullback._once import once_for_each
from pullback._symbols import HostNumber
from pullback.casting import number as number_of_dtype
from pullback.devices import Device
from pullback.dtypes import DType
from pullback.plugins.records import Native
from pullback.tensor import Tensor

#: Containers that are compared item by item.
CONTAINERS: tuple[Any, ...] = (
    *(list, dict, set, tuple, frozenset, deque, MappingProxyType),
    *(type({}.keys()), type({}.values()), type({}.items())),
)
#: Those of them that can be changed.
CHANGEABLE = (list, dict, set, deque)
#: The class of a row of an array with fields.
RECORD = np.dtype([("", "i1")]).type
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
    if issubclass(kind, np.generic):
        return not issubclass(kind, RECORD)  # which can be changed
    return kind in _VALUES or issubclass(kind, Device)


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


def array_type(device: Device) -> type[Any]:
    """The type of the native arrays of a device."""
    zero = np.asarray(0, next(iter(device.backend.dtypes)))
    return type(device.backend.from_host(zero, device.native, copy=True))


def host_array_of(value: object, dtype: DType) -> np.ndarray[Any, Any]:
    """The same as a NumPy array, for a program that its backend has compiled."""
    return np.asarray(number_of_dtype(value, dtype), dtype)


def kind_of_value(state: Any) -> Any:
    """The kind of the value of a host state: of numbers their type; of most else the value."""
    value = state.value
    if type(value) is Tensor:
        return value.shape, value._array.dtype, value._device
    return type(value) if type(value) in (int, float) else value


FRAMEWORK = __name__.partition(".")[0]
#: The file of Python's imports.
IMPORTS = "<frozen importlib"
_OWN = (f"{FRAMEWORK}.", f"{FRAMEWORK}_")
_SKIPPED = ("<pullback ", IMPORTS)
#: What a lookup returns that finds nothing.
ABSENT = object()
#: The flag of classes that may change, as those in Python do.
HEAP_TYPE = 1 << 9
#: What classes have themselves, past the code of their metaclass.
_entries = type.__dict__["__dict__"].__get__
#: Classes in C that have no state, or whose state is compared.
_CLEAR = (
    *CONTAINERS,
    *(type, type(NotImplemented), property, staticmethod, classmethod, BaseException),
    *(types.ModuleType, FunctionType, types.MethodType, types.BuiltinFunctionType),
    *(types.MethodDescriptorType, types.WrapperDescriptorType, types.MethodWrapperType),
    *(MemberDescriptorType, GetSetDescriptorType, types.CellType, types.GenericAlias),
    *(bytearray, memoryview, array.array, np.ndarray, np.ufunc, struct.Struct, re.Match),
    *(functools.partial, type(functools.cache(len)), weakref.ref, contextvars.ContextVar),
    *(operator.attrgetter, operator.itemgetter, operator.methodcaller, types.SimpleNamespace),
)
#: What only changes an object, or tells it from others; and calls, whose arguments are compared.
_CHANGING = {
    *("acquire", "release", "__enter__", "__exit__", "__init__", "__setattr__"),
    *("__call__", "__class_getitem__"),
}
#: Functions in C without arguments that say how the process is now: they are called again.
ASKING = (os.getcwd, os.getpid, sys.getrecursionlimit, threading.get_ident, gc.isenabled)


class Unknown:
    """A value that is not seen: one of these objects from outside, or one that was made now."""

    __slots__ = ("candidates", "kind")

    def __init__(self, candidates: tuple[Any, ...] = (), kind: type | None = None) -> None:
        self.candidates = candidates
        #: The class of a new object, if that is known.
        self.kind = kind


#: A value that nothing is known of, and one that an instruction has left which is not followed.
UNKNOWN, LOST = Unknown(), Unknown()


def seen_of(value: object) -> tuple[Any, ...]:
    """The objects that a value may be: itself, or what an unknown one may be."""
    return value.candidates if type(value) is Unknown else (value,)


class Found(NamedTuple):
    """An attribute of a class."""

    base: type
    value: Any


def has(kind: type, name: str) -> bool:
    """Returns whether a class has something under a name."""
    return find(kind, name) is not None if kind.__flags__ & HEAP_TYPE else _has(kind, name)


@functools.cache
def _has(kind: type, name: str) -> bool:
    """The same for a class in C, which does not change."""
    return find(kind, name) is not None


def find(kind: type, name: str, after: type | None = None) -> Found | None:
    """Returns what a class has under a name, as it is; `after` skips the classes up to that."""
    order = kind.__mro__
    for base in order if after is None else order[order.index(after) + 1 :]:
        space = _entries(base)
        if name in space:
            return Found(base, space[name])
    return None


def found_in(kind: type, name: str, after: type | None = None) -> object:
    """The same for a guard: the value alone, or `ABSENT`."""
    found = find(kind, name, after)
    return ABSENT if found is None else found.value


def has_own(owner: object, name: str) -> bool:
    """Returns whether an object itself has an attribute, or its class."""
    return name in space_of(owner) or find(type(owner), name) is not None


def bytes_of(array: np.ndarray[Any, Any] | np.generic) -> bytes:
    """The memory of an array or a record, with what says how to read it; past all subclasses."""
    plain = np.ndarray.view(array, np.ndarray) if isinstance(array, np.ndarray) else array
    return repr((plain.shape, plain.dtype)).encode() + plain.tobytes()


def memory_of(value: object) -> bytes | None:
    """The memory that an object of Python's library shares, such as a bytearray; or None."""
    if in_python(type(value), "__buffer__"):
        return None
    try:
        view = memoryview(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    return view.tobytes()


def is_pointer(kind: type) -> bool:
    """Returns whether a class is one of pointers of ctypes, whose memory nobody compares."""
    return any((base.__module__, base.__name__) == ("_ctypes", "_Pointer") for base in kind.__mro__)


def subclasses_of(kind: type) -> tuple[type, ...]:
    """The direct subclasses of a class."""
    return (*type.__subclasses__(kind),)


def names_in(value: object) -> tuple[str, ...]:
    """The names that `dir` finds."""
    return (*dir(value),)


def space_of(owner: object) -> dict[str, Any]:
    """The attributes that an object has itself."""
    try:
        space = object.__getattribute__(owner, "__dict__")
    except AttributeError:
        return {}
    return space if type(space) is dict else {}


def slots_of(kind: type) -> list[tuple[str, Any]]:
    """The slots of a class, with what reads them."""
    return [
        (name, value)
        for base in kind.__mro__
        for name, value in vars(base).items()
        if isinstance(value, MemberDescriptorType)
    ]


def putter(owner: object, name: Any) -> Callable[[], object]:
    """A function that has an attribute of an object, or an item of a dict, be what it is now.

    It runs nobody's code: what a property sets is an attribute, too.
    """
    if type(owner) is dict:
        return partial(_put_item, owner, name, owner.get(name, ABSENT))
    if is_a(owner, type):
        return partial(_put_in_class, owner, name, _entries(owner).get(name, ABSENT))
    found = find(type(owner), name)
    if found is not None and is_a(found.value, (MemberDescriptorType, GetSetDescriptorType)):
        try:
            value = found.value.__get__(owner)
        except (AttributeError, ValueError):  # an empty slot, an empty cell
            return partial(_call_quietly, found.value.__delete__, owner)
        return partial(_call_quietly, found.value.__set__, owner, value)
    if found is not None and type(found.value).__module__ == "_ctypes":
        return items_putter(owner)
    space = space_of(owner)
    return partial(_put_item, space, name, space.get(name, ABSENT))


def items_putter(owner: Any) -> Callable[[], object]:
    """The same for all items of an array; of other objects code that is followed sets them."""
    if type(owner) is np.ndarray:
        return partial(owner.__setitem__, ..., owner.copy())
    if type(owner) in (bytearray, array.array):
        return partial(owner.__setitem__, slice(None), owner[:])
    memory = memory_of(owner)
    return tuple if memory is None else partial(_put_memory, owner, memory)


def _put_memory(owner: Any, memory: bytes) -> None:
    with memoryview(owner) as view:
        if not view.readonly:
            view.cast("B")[:] = memory


def _put_item(space: dict[Any, Any], name: object, value: object) -> None:
    if value is not ABSENT:
        space[name] = value
    else:
        space.pop(name, None)


def _put_in_class(kind: type, name: str, value: object) -> None:
    if value is not ABSENT:
        type.__setattr__(kind, name, value)
    elif name in _entries(kind):
        type.__delattr__(kind, name)


def _call_quietly(function: Callable[..., object], *args: object) -> None:
    with suppress(AttributeError, ValueError, TypeError):
        function(*args)


def in_python(kind: type, name: str) -> bool:
    """Returns whether a class has a method in Python under a name; each object its own, maybe."""
    found = find(kind, name)
    return found is not None and (
        is_a(found.value, FunctionType)
        or (is_a(found.value, MemberDescriptorType) and is_framework(kind))
    )


def is_input(value: object) -> bool:
    """Returns whether a trace has a value as an input: a tensor, a variable, a number of a run."""
    return _is_input(type(value))


@once_for_each
def _is_input(kind: type) -> bool:
    return issubclass(kind, (Tensor, HostNumber, HostState)) or any(
        is_framework(base) and "__pullback_tensor__" in vars(base) for base in kind.__mro__
    )


def is_bare(value: object) -> bool:
    """Returns whether a value is plain or an input of a trace: it has nothing of the user's."""
    return type(value) in INERT or _is_bare(type(value))


@once_for_each
def _is_bare(kind: type) -> bool:
    return is_plain_type(kind) or _is_input(kind)


def is_iterator(value: object) -> bool:
    """Returns whether a value is an iterator whose next value nobody else knows."""
    kind = type(value)
    if not has(kind, "__next__"):
        return False
    found = find(kind, "__next__")
    if found is None or is_a(found.value, FunctionType):
        return found is not None and is_framework(kind)
    return kind.__module__ not in ("_io", "io")


def hides_state(kind: type, name: str) -> bool:
    """Returns whether a method is one in C of what has a state that nobody else can compare.

    What is compared by its value does not change. Files are the outer world.
    """
    found = find(kind, name)
    if found is None or is_a(found.value, FunctionType) or name in _CHANGING:
        return False
    base = found.base
    compares: Any = base.__hash__
    if not is_pointer(base) and (
        base is object
        or compares not in (None, object.__hash__)
        or issubclass(base, _CLEAR)
        or is_framework(base)
    ):
        return False
    return base.__module__ != "_io" or issubclass(kind, (io.StringIO, io.BytesIO))


def is_data_descriptor(value: object) -> bool:
    """Returns whether a value in a class goes before what an object has itself."""
    kind = type(value)
    return has(kind, "__get__") and (has(kind, "__set__") or has(kind, "__delete__"))


def is_simple(key: object) -> bool:
    """Returns whether a key is found without anybody's code, and tells itself from others."""
    kind = type(key)
    if isinstance(key, tuple) and kind is tuple:
        return all(map(is_simple, key))
    by_identity = object.__hash__, object.__eq__
    if kind is slice:  # which gives another list each time
        return False
    return is_plain(key) or (
        kind is not Unknown and (kind is type or (kind.__hash__, kind.__eq__) == by_identity)
    )


def key_of(key: object) -> Any:
    """A key that tells 1 from 1.0 and from True."""
    if type(key) is tuple:
        return tuple(map(key_of, key))
    return key if type(key) is str else (type(key), key if is_plain(key) else id(key))


# The outer world, the framework, and other libraries ----------------------------------------------

CLOCK = "reads the clock"
_CLOCKS = {
    f"{name}{unit}"
    for name in ("time", "monotonic", "perf_counter", "process_time", "thread_time")
    for unit in ("", "_ns")
}
_FILES = (open, os.open, os.stat, os.listdir, os.scandir)
_GENERATORS = {("numpy.random", "Generator"), ("numpy.random", "RandomState"), ("random", "Random")}


@once_for_each
def is_framework(kind: type) -> bool:
    """Returns whether a class is the framework's."""
    return str(kind.__module__).partition(".")[0] == FRAMEWORK


@once_for_each
def _is_generator(kind: type) -> bool:
    """Returns whether a class is one of generators of NumPy or of Python."""
    return any(
        (base.__module__.partition("._")[0].removesuffix(".mtrand"), base.__name__) in _GENERATORS
        for base in kind.__mro__
    )


def generator_of(value: object) -> Any:
    """The generator of a value that draws: itself, a method, or a module of functions; or None."""
    if isinstance(value, ModuleType) and value.__name__ in ("random", "numpy.random"):
        value = value.random
    if isinstance(value, (MethodType, BuiltinFunctionType)):
        value = value.__self__
    return value if _is_generator(type(value)) else None


def state_of(generator: Any) -> Any:
    """The state of a generator; None for one that has none, such as `random.SystemRandom`."""
    if hasattr(generator, "bit_generator"):
        return generator.bit_generator.state
    try:
        return generator.getstate() if hasattr(generator, "getstate") else generator.get_state()
    except NotImplementedError:
        return None


def set_state(generator: Any, state: object) -> None:
    """Has a generator draw again what it drew after `state_of`."""
    if hasattr(generator, "bit_generator"):
        generator.bit_generator.state = state
    elif hasattr(generator, "setstate"):
        generator.setstate(state)
    else:
        generator.set_state(state)


def has_drawn(generator: object, state: object) -> bool:
    """Returns whether a generator has another state than this one."""
    return bool(_plain(state_of(generator)) != _plain(state))


def _plain(state: object) -> object:
    """A state with bytes in place of arrays, which `==` compares."""
    if isinstance(state, dict):
        return {name: _plain(part) for name, part in state.items()}
    if isinstance(state, tuple):
        return tuple(map(_plain, state))
    return state.tobytes() if isinstance(state, np.ndarray) else state


def outer_of(function: BuiltinFunctionType) -> str:
    """Says what a function in C does that no program does again; "" if nothing."""
    owner = function.__self__
    if is_a(owner, ModuleType) and owner.__name__ == "time" and function.__name__ in _CLOCKS:
        return CLOCK
    if is_a(owner, type) and issubclass(owner, datetime.date):
        return CLOCK if function.__name__ in ("now", "utcnow", "today") else ""
    return "opens a file" if any(function is each for each in _FILES) else ""


@once_for_each
def is_foreign_array(kind: type) -> bool:
    """Returns whether a class is one of arrays of another library, whose values are not in Python.

    An `__array__` in Python is followed as it runs, wherever it is installed.
    """
    bases = kind.__mro__
    if issubclass(kind, (np.ndarray, np.generic)) or any(map(is_framework, bases)):
        return False
    methods = [vars(base)["__array__"] for base in bases if "__array__" in vars(base)]
    return any("__dlpack__" in vars(base) for base in bases) or (
        bool(methods) and type(methods[0]) is not FunctionType
    )


def is_framework_code(code: types.CodeType, space: dict[str, Any]) -> bool:
    """Returns whether a function is the framework's or a backend's, or of Python's imports."""
    return str(space.get("__name__")).startswith(_OWN) or code.co_filename.startswith(_SKIPPED)
