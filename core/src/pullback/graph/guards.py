"""Guards for what a captured function reads beside its arguments.

A program is for what the function read when it was traced. Beginning with the function, `Reach`
follows the names in its code: closure cells and globals, defaults of parameters, attributes of
objects and modules, items of short lists, dicts and sets, and, where they belong to the user's
program, the functions and methods that it calls. Arguments that a program compares by identity are
followed too. Each is compared before a run: numbers and texts by value, all else by identity.
"""

from __future__ import annotations

import collections
import dis
import functools
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from types import CodeType, FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any, NamedTuple, TypeAlias, cast

from pullback._dispatch.recording import AMBIENT, SETTINGS
from pullback._symbols import Break
from pullback.devices import Device
from pullback.graph.host import Guard, contents, replace, same
from pullback.tensor import Tensor

_PLAIN = (bool, int, float, complex, str, bytes, type(None))
#: Longer containers, and more guards, are not looked at: a program asks all of them at each run.
#: Those of layers it asks when an attribute of one has been set.
_LONGEST, _MOST = 64, 512
#: Containers whose items are compared one by one.
_CONTAINERS = (list, dict, set, collections.deque)
_FRAMEWORK = __name__.partition(".")[0]
#: Methods that Python calls for what an expression does with an object.
_SPECIAL = tuple(
    f"__{name}__"
    for name in (
        *("call", "getitem", "len", "contains", "iter", "next", "bool", "enter", "getattr"),
        *("array", "float", "int", "index", "neg", "abs", "lt", "le", "gt", "ge", "eq", "ne"),
        *(
            f"{side}{op}"
            for op in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul")
            for side in ("", "r")
        ),
    )
)
#: Beginnings of the names of instructions that read an attribute.
_READS = ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER", "IMPORT_FROM")
#: Where iterators come from whose next value nobody else knows.
_ITERATORS = ("builtins", "itertools", _FRAMEWORK)
#: What a class has under a name that it lacks.
_ABSENT = object()
#: Folders of what a user has installed.
_INSTALLED = {"site-packages", "dist-packages"}


def guards_of(f: Callable[..., Any], arguments: Iterable[tuple[str, object]] = ()) -> list[Guard]:
    """The guards for all that a function reads outside, with the values of now.

    Args:
        f: the function.
        arguments: names and values of arguments that are objects: what the function reads of them
            may change between calls.
    """
    reach = Reach()
    owner: object = None
    function: object = f
    if isinstance(f, MethodType):
        owner, function = f.__self__, f.__func__
    elif not isinstance(f, (FunctionType, functools.partial)):
        owner, function = f, getattr(type(f).__call__, "__func__", type(f).__call__)
    objects = [*arguments]
    if isinstance(f, functools.partial):
        objects.append(("the arguments of functools.partial", f))

    def begin() -> None:
        for inner in _wrapped(function):
            reach.function(inner, owner, "self")
        for path, value in objects:
            reach.inside(value, path, reach.of_attributes)

    reach.closed(begin)
    # A function for `pb.py_function` runs at each call, and may take values from an iterator.
    if reach.iterators and "py_function" not in reach.of_attributes:
        raise Break(
            f"takes values from the iterator {reach.iterators[0]}",
            "pass what next() gives as an argument",
        )
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
            self.reach.closed(lambda: self.reach.method(call, layer, type(layer).__name__))


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
            if guard.function is contents and _has_grown(guard, now, before):
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


def _has_grown(guard: Guard, now: tuple[Any, ...], before: tuple[Any, ...]) -> bool:
    """Returns whether a container has what it had, and more behind it."""
    place = guard.arguments[0]
    if isinstance(place, set):
        return place.issuperset(before)
    return same(now[: len(before)], before)


def _put_back(guard: Guard) -> None:
    """Has a place hold what it held before the trace."""
    place, *name = guard.arguments
    before = cast("Any", guard.value)
    if guard.function is getattr:
        setattr(place, name[0], before)
    elif guard.function is not contents:
        cast("Any", guard.function).__self__[place] = before
    else:
        is_dict = isinstance(place, dict)
        replace(place, zip(before[::2], before[1::2], strict=True) if is_dict else before)


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
    """The names that a function reads: globals, attributes of any object, modules it imports."""

    of_globals: tuple[str, ...]
    of_attributes: tuple[str, ...]
    of_modules: tuple[str, ...]


#: The names of attributes that are looked for in an object.
_Attributes: TypeAlias = Collection[str]


class Reach:
    """The reads of functions outside of their arguments, as guards.

    A function may hand an object to another one, so what any of them reads is looked for in all
    objects that are found.

    Args:
        follows_framework: whether to follow methods of the framework's own classes, too. Those of
            optimizers and metrics announce what they read.
    """

    def __init__(self, *, follows_framework: bool = False) -> None:
        self._follows_framework = follows_framework
        self._most = sys.maxsize if follows_framework else _MOST
        #: The guards, each once.
        self.guards: dict[Any, Guard] = {}
        #: Where iterators are.
        self.iterators: list[str] = []
        #: The names of the attributes that the functions read, in order.
        self.of_attributes: dict[str, None] = {}
        # With the objects, whose identities are in the keys.
        self._visited: dict[tuple[int, int], tuple[object, object]] = {}

    def closed(self, begin: Callable[[], None]) -> None:
        """Calls `begin`, and again while that finds functions which read further attributes.

        An object may have been found before the function that it is handed to.
        """
        count = -1
        while count != len(self.of_attributes):
            count = len(self.of_attributes)
            begin()
            if count != len(self.of_attributes):
                self._visited = {}

    def function(self, function: FunctionType, owner: object = None, path: str = "") -> None:
        """Adds what a function reads.

        Args:
            function: the function.
            owner: the object that it is a method of.
            path: what the owner is called in messages.
        """
        if not self._is_new(function.__code__, owner):
            return
        # IPython's autoreload puts new code into functions.
        self._add(Guard(getattr, (function, "__code__"), function.__code__, function.__name__))
        of_globals, of_attributes, of_modules = _names(function.__code__)
        self.of_attributes |= dict.fromkeys(of_attributes)
        names = self.of_attributes
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        for name, cell in cells:
            try:
                cell.cell_contents  # noqa: B018
            except ValueError:  # a cell that is still empty
                continue
            self._place(getattr, (cell, "cell_contents"), name, names)
        for name in of_globals:
            if name in function.__globals__:
                self._place(function.__globals__.get, (name,), f"the global {name}", names)
        package = function.__globals__.get("__package__")
        for name in of_modules:
            for module in (name, f"{package}.{name}"):
                if module in sys.modules:
                    self.inside(sys.modules[module], module, names)
        for kind in ("__defaults__", "__kwdefaults__"):
            if getattr(function, kind):
                defaults = f"the defaults of {function.__name__}"
                self._place(getattr, (function, kind), defaults, names)
        if owner is not None:
            self.attributes(owner, path, names)

    def attributes(self, owner: object, path: str, names: _Attributes) -> None:
        """Adds the attributes of an object that a function reads, and the methods it calls."""
        if not self._is_new(names, owner):
            return
        is_class = isinstance(owner, type)
        has_own = hasattr(owner, "__dict__") and not is_class
        own = vars(owner) if has_own else {}
        for name in tuple(names):
            if name in own:
                self._place(getattr, (owner, name), f"{path}.{name}", names)
                continue
            of_class = owner if isinstance(owner, type) else type(owner)
            value = _of_class(of_class, name)
            if isinstance(value, property) and not is_class:
                value = value.fget
            if isinstance(value, (staticmethod, classmethod)):
                is_static = isinstance(value, staticmethod)
                bound = None if is_static else owner if is_class else type(owner)
                self._methods(value.__func__, bound, path)
            elif isinstance(value, FunctionType) or hasattr(value, "__wrapped__"):
                if isinstance(value, FunctionType) and _is_own(value.__module__):
                    now = getattr(of_class, name)  # the property, if it is one
                    self._add(Guard(getattr, (of_class, name), now, f"{path}.{name}"))
                    if has_own and not self._follows_framework:
                        # An object may get a function of its own in place of the method.
                        self._add(Guard(own.get, (name,), None, f"{path}.{name}"))
                self._methods(value, None if is_class else owner, path)
            elif _is_data(value) and hasattr(owner, name):
                self._place(getattr, (owner, name), f"{path}.{name}", names)

    def _methods(self, function: object, owner: object, path: str) -> None:
        for inner in _wrapped(function):
            self.method(inner, owner, path)

    def method(self, function: FunctionType, owner: object, path: str) -> None:
        """Adds what a method reads; of the framework's own, only of its object."""
        if _is_own(function.__module__):
            self.function(function, owner, path)
        elif self._follows_framework and self._is_new(function.__code__, owner):
            self.attributes(owner, path, _names(function.__code__).of_attributes)

    def _place(
        self,
        read: Callable[..., Any],
        arguments: tuple[Any, ...],
        path: str,
        names: _Attributes,
    ) -> None:
        """Adds a place in which a function finds a value."""
        value = read(*arguments)
        if not isinstance(value, ModuleType):
            self._add(Guard(read, arguments, value, path))
        self.inside(value, path.removeprefix("the global "), names)

    def inside(self, value: Any, path: str, names: _Attributes) -> None:
        """Adds what a function reads of a value that it names."""
        kind = type(value)
        if kind in _PLAIN or len(self.guards) >= self._most:
            return
        if isinstance(value, (*_CONTAINERS, tuple)):
            parts = contents(value)
            if len(parts) <= _LONGEST and self._is_new(names, value):
                if not isinstance(value, tuple):
                    self._add(Guard(contents, (value,), parts, f"what is in {path}"))
                for part in parts:
                    self.inside(part, f"{path}[...]", names)
        elif hasattr(kind, "__next__") and kind.__module__.partition(".")[0] in _ITERATORS:
            self.iterators.append(path)
        elif isinstance(value, (collections.UserDict, collections.UserList)):
            self._place(getattr, (value, "data"), path, names)
        elif isinstance(value, collections.ChainMap):
            self._place(getattr, (value, "maps"), path, names)
        elif isinstance(value, functools.partial):
            self.inside((value.func, *value.args, *value.keywords.values()), path, names)
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
            # Of a class that is named here, objects are made.
            is_class = isinstance(value, type)
            for name in (*_SPECIAL, "__init__") if is_class else _SPECIAL:
                called = _of_class(value if is_class else kind, name)
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


def is_foreign_array(value: object) -> bool:
    """Returns whether an argument is an array of an installed library other than NumPy."""
    kind = type(value)
    if not (hasattr(kind, "__array__") or hasattr(kind, "__dlpack__")):
        return False
    modules = [base.__module__ for base in kind.__mro__]
    return not _is_own(modules[0]) and _FRAMEWORK not in {m.partition(".")[0] for m in modules}


def _wrapped(function: object) -> Iterator[FunctionType]:
    """The function, and those that decorators say they have wrapped."""
    while function is not None:
        if isinstance(function, FunctionType):
            yield function
        function = getattr(function, "__wrapped__", None)


def _of_class(kind: type, name: str) -> object:
    """Returns what a class or its bases have under a name, as it is; `_ABSENT` for nothing."""
    return next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), _ABSENT)


def _is_data(value: object) -> bool:
    """Returns whether an attribute of a class is a value, or one of its slots."""
    if value is _ABSENT:
        return False
    return isinstance(value, MemberDescriptorType) or not hasattr(type(value), "__get__")


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
    of_modules: dict[str, None] = {}
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            of_globals[instruction.argval] = None
        elif instruction.opname == "IMPORT_NAME":
            of_modules[instruction.argval] = None
        elif instruction.opname.startswith(_READS):
            of_attributes[instruction.argval] = None
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            inner = _names(constant)
            of_globals |= dict.fromkeys(inner.of_globals)
            of_attributes |= dict.fromkeys(inner.of_attributes)
            of_modules |= dict.fromkeys(inner.of_modules)
    return _Names((*of_globals,), (*of_attributes,), (*of_modules,))
