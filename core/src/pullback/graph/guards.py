"""Guards for what a captured function reads beside its arguments.

A program is for what the function read when it was traced. Beginning with the function, `Reach`
follows the names in its code: closure cells and globals, attributes of objects and modules, items
of short lists and dicts, and, where they belong to the user's program, the functions and methods
that it calls. Each is compared before a run: numbers and texts by value, all else by identity.
"""

from __future__ import annotations

import dis
import functools
import itertools
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from types import CodeType, FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any, NamedTuple, cast

from pullback._dispatch.recording import AMBIENT, SETTINGS
from pullback._symbols import Break
from pullback.devices import Device
from pullback.graph.host import Guard, same
from pullback.tensor import Tensor

_PLAIN = (bool, int, float, complex, str, bytes, type(None))
#: Longer containers, and more guards, are not looked at: a program asks all of them at each run.
#: Those of layers it asks when an attribute of one has been set.
_LONGEST, _MOST = 64, 256
_FRAMEWORK = __name__.partition(".")[0]
#: Folders of what a user has installed.
_INSTALLED = {"site-packages", "dist-packages"}


def guards_of(f: Callable[..., Any]) -> list[Guard]:
    """The guards for all that a function reads outside, with the values of now."""
    reach = Reach()
    owner: object = None
    function: object = f
    if isinstance(f, MethodType):
        owner, function = f.__self__, f.__func__
    elif not isinstance(f, FunctionType):
        owner, function = f, getattr(type(f).__call__, "__func__", type(f).__call__)
    for inner in _wrapped(function):
        reach.function(inner, owner, "self")
    return [*(Guard(read, (), read(), what) for read, what in AMBIENT), *reach.guards.values()]


class Reads:
    """The reads of the layers that a trace calls, and the attributes its program has itself."""

    def __init__(self) -> None:
        #: Attributes whose values are part of the program, by the identity of their object.
        self.announced: set[tuple[int, str]] = set()
        self.layers: dict[int, object] = {}
        self.reach = Reach(follows_framework=True)

    def layer(self, layer: object) -> None:
        """Adds a layer that is called."""
        self.layers[id(layer)] = layer
        call = _of_class(type(layer), "call")
        if isinstance(call, FunctionType):
            self.reach.method(call, layer, type(layer).__name__)


def settled(
    guards: Iterable[Guard], reads: Reads, device: Device
) -> tuple[list[Guard], list[Guard]]:
    """Sorts the guards of a trace that has ended.

    Args:
        guards: those of the function, with the values from before the trace.
        reads: what the layers read.
        device: the device of the trace.

    Returns:
        What each run compares, and what it compares when an attribute of a layer has been set.

    Raises:
        Break: if the function has put a tensor of the trace where it read one.
    """
    always: list[Guard] = []
    layers: list[Guard] = []
    kept = None
    for guard in (*guards, *reads.reach.guards.values()):
        is_attribute = guard.function is getattr
        if is_attribute and (id(guard.arguments[0]), guard.arguments[1]) in reads.announced:
            continue
        if not guard.holds():
            now, before = guard.function(*guard.arguments), cast("Any", guard.value)
            if guard.function is contents and same(now[: len(before)], before):
                # Such as `calls.append(1)`: Python that a program does not repeat.
                continue
            parts = now if guard.function is contents else (now,)
            if any(type(part) is Tensor and part._device is device for part in parts):
                _put_back(guard)
                kept = guard.what
        (layers if is_attribute and id(guard.arguments[0]) in reads.layers else always).append(
            guard
        )
    if kept is not None:
        raise Break(
            f"keeps a tensor in {kept}, and reads it at the next call",
            "make a pb.Variable before the call, and assign the tensor to it",
        )
    return always, layers


def _put_back(guard: Guard) -> None:
    """Has a place hold what it held before the trace."""
    place, *name = guard.arguments
    before = cast("Any", guard.value)
    if guard.function is getattr:
        setattr(place, name[0], before)
    elif guard.function is not contents:
        cast("Any", guard.function).__self__[place] = before
    elif type(place) is list:
        place[:] = before
    else:
        place.clear()
        place.update(zip(before[::2], before[1::2], strict=True))


def contents(container: Collection[object]) -> tuple[Any, ...]:
    """Returns the items of a list; the keys and values of a dict in turn."""
    if isinstance(container, dict):
        return (*itertools.chain.from_iterable(container.items()),)
    return (*container,)


class Unset:
    """Guards of attributes of layers, which are asked when one has been set since they held."""

    def __init__(self, guards: Iterable[Guard]) -> None:
        self.guards = tuple(guards)
        self.count = SETTINGS.count if not self.unmet() else -1

    def unmet(self) -> list[Guard]:
        """The guards that do not hold now."""
        return [guard for guard in self.guards if not guard.holds()]

    def hold(self) -> bool:
        """Returns whether all hold."""
        count = SETTINGS.count
        if self.unmet():
            return False
        self.count = count
        return True


class _Names(NamedTuple):
    """The names that a function reads: its globals, and attributes of any object."""

    of_globals: tuple[str, ...]
    of_attributes: tuple[str, ...]


class Reach:
    """The reads of functions outside of their arguments, as guards.

    Args:
        follows_framework: whether to follow methods of the framework's own classes, too. Those of
            optimizers and metrics announce what they read.
    """

    def __init__(self, *, follows_framework: bool = False) -> None:
        self._follows_framework = follows_framework
        self._most = sys.maxsize if follows_framework else _MOST
        #: The guards, each once.
        self.guards: dict[Any, Guard] = {}
        # With the objects, whose identities are in the keys.
        self._visited: dict[tuple[int, int], tuple[object, object]] = {}

    def function(self, function: FunctionType, owner: object = None, path: str = "") -> None:
        """Adds what a function reads.

        Args:
            function: the function.
            owner: the object that it is a method of.
            path: what the owner is called in messages.
        """
        if not self._is_new(function.__code__, owner):
            return
        names = _names(function.__code__)
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        for name, cell in cells:
            try:
                cell.cell_contents  # noqa: B018
            except ValueError:  # a cell that is still empty
                continue
            self._place(getattr, (cell, "cell_contents"), name, names)
        for name in names.of_globals:
            if name in function.__globals__:
                self._place(function.__globals__.get, (name,), f"the global {name}", names)
        if owner is not None:
            self.attributes(owner, path, names)

    def attributes(self, owner: object, path: str, names: _Names) -> None:
        """Adds the attributes of an object that a function reads, and the methods it calls."""
        if not self._is_new(names, owner):
            return
        own = getattr(owner, "__dict__", {})
        for name in names.of_attributes:
            if name in own:
                self._place(getattr, (owner, name), f"{path}.{name}", names)
                continue
            value = _of_class(type(owner), name)
            if isinstance(value, property):
                value = value.fget
            if isinstance(value, FunctionType):
                self.method(value, owner, path)
            elif _is_data(value) and hasattr(owner, name):
                self._place(getattr, (owner, name), f"{path}.{name}", names)

    def method(self, function: FunctionType, owner: object, path: str) -> None:
        """Adds what a method reads; of the framework's own, only of its object."""
        if _is_own(function.__module__):
            self.function(function, owner, path)
        elif self._follows_framework and self._is_new(function.__code__, owner):
            self.attributes(owner, path, _names(function.__code__))

    def _place(
        self,
        read: Callable[..., Any],
        arguments: tuple[Any, ...],
        path: str,
        names: _Names,
    ) -> None:
        """Adds a place in which a function finds a value."""
        value = read(*arguments)
        if not isinstance(value, ModuleType):
            self._add(Guard(read, arguments, value, path))
        self._inside(value, path.removeprefix("the global "), names)

    def _inside(self, value: Any, path: str, names: _Names) -> None:
        """Adds what a function reads of a value that it names."""
        kind = type(value)
        if kind in _PLAIN or len(self.guards) >= self._most:
            return
        if kind in (list, dict, tuple):
            parts = contents(value)
            if len(parts) <= _LONGEST and self._is_new(names, value):
                if kind is not tuple:
                    self._add(Guard(contents, (value,), parts, f"what is in {path}"))
                for part in parts:
                    self._inside(part, f"{path}[...]", names)
        elif isinstance(value, functools.partial):
            self._inside((value.func, *value.args, *value.keywords.values()), path, names)
        elif isinstance(value, MethodType):
            if isinstance(value.__func__, FunctionType):
                self.method(value.__func__, value.__self__, path.rpartition(".")[0])
        elif isinstance(value, FunctionType) or (
            hasattr(value, "__wrapped__") and not isinstance(value, (ModuleType, type))
        ):
            for function in _wrapped(value):
                if _is_own(function.__module__):
                    self.function(function)
        elif isinstance(value, ModuleType):
            if _is_own(value.__name__):
                self.attributes(value, path, names)
        elif _module_of(value).partition(".")[0] != _FRAMEWORK:
            self.attributes(value, path, names)
            called = _of_class(kind, "__call__")
            if isinstance(called, FunctionType):
                self.method(called, value, path)

    def _add(self, guard: Guard) -> None:
        if len(self.guards) < self._most:
            self.guards.setdefault((guard.function, *map(id, guard.arguments)), guard)

    def _is_new(self, what: object, owner: object) -> bool:
        identity = id(what), id(owner)
        new = identity not in self._visited
        self._visited[identity] = what, owner
        return new


def _wrapped(function: object) -> Iterator[FunctionType]:
    """The function, and those that decorators say they have wrapped."""
    while function is not None:
        if isinstance(function, FunctionType):
            yield function
        function = getattr(function, "__wrapped__", None)


def _of_class(kind: type, name: str) -> object:
    """Returns what a class or its bases have under a name, as it is there; None for nothing."""
    return next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), None)


def _is_data(value: object) -> bool:
    """Returns whether an attribute of a class is a plain value or one of its slots."""
    return isinstance(value, MemberDescriptorType) or (type(value) in _PLAIN and value is not None)


def _module_of(value: object) -> str:
    """The module of a class, or of an object's class."""
    return str((value if isinstance(value, type) else type(value)).__module__)


@functools.cache
def _is_own(module: str | None) -> bool:
    """Returns whether a module is the user's: not Python's, the framework's, or installed."""
    name = module or ""
    top = name.partition(".")[0]
    if (top in sys.stdlib_module_names and name != "__main__") or top == _FRAMEWORK:
        return False
    file = getattr(sys.modules.get(name), "__file__", None)
    return file is None or _INSTALLED.isdisjoint(Path(file).parts)


@functools.cache
def _names(code: CodeType) -> _Names:
    """The names that a function reads, and those that functions defined in it do."""
    of_globals: dict[str, None] = {}
    of_attributes: dict[str, None] = {}
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            of_globals[instruction.argval] = None
        elif instruction.opname.startswith(("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER")):
            of_attributes[instruction.argval] = None
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            inner = _names(constant)
            of_globals |= dict.fromkeys(inner.of_globals)
            of_attributes |= dict.fromkeys(inner.of_attributes)
    return _Names((*of_globals,), (*of_attributes,))
