"""The reads of a function beside its arguments, found by following the names in its code."""

from __future__ import annotations

import builtins
import collections
import dis
import functools
import sys
from collections.abc import Callable, Collection, Iterator
from types import CodeType, FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from pullback._dispatch.host_state import HostState
from pullback._symbols import Break
from pullback.graph.foreign import FRAMEWORK, generator_of, has_drawn, is_own, state_of
from pullback.graph.host import Guard, contents

__all__ = ["Reach", "of_class", "wrapped"]

_PLAIN = (bool, int, float, complex, str, bytes, type(None))
#: Longer containers, and more guards, are not looked at: a program asks all of them at each run.
#: Those of layers it asks when an attribute of one has been set.
_LONGEST, _MOST = 64, 512
#: Containers whose items are compared one by one.
_CONTAINERS = (list, dict, set, collections.deque)
#: Methods that Python calls for what an expression does with an object.
_SPECIAL = tuple(
    f"__{name}__"
    for name in (
        *("call", "getitem", "len", "contains", "iter", "next", "bool", "enter"),
        *("getattr", "getattribute"),
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
_ITERATORS = ("builtins", "itertools", FRAMEWORK)
#: Functions whose second argument is the name of an attribute.
_BY_NAME = {"getattr", "hasattr"}


class _Names(NamedTuple):
    """The names that a function reads."""

    of_globals: dict[str, None]
    #: Attributes of any object.
    of_attributes: dict[str, None]
    #: Modules that it imports.
    of_modules: dict[str, None]
    #: Globals and an attribute that is read of them: `np.random`.
    of_parts: dict[tuple[str, str], None]
    #: Texts that may name an attribute, which objects may lack: `getattr(x, "name", None)`.
    of_texts: dict[str, None]


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
        #: Whether a function compares types with those of numbers.
        self.compares_types = False
        #: Those that an object may lack.
        self._optional: set[str] = set()
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
        self.add(Guard(getattr, (function, "__code__"), function.__code__, function.__name__))
        found = _names(function.__code__)
        self.of_attributes |= found.of_attributes
        self._optional.update(found.of_texts)
        if "type" in found.of_globals and not found.of_globals.keys().isdisjoint(("int", "float")):
            self.compares_types = True
        names = self.of_attributes
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        for name, cell in cells:
            try:
                cell.cell_contents  # noqa: B018
            except ValueError:  # a cell that is still empty
                continue
            self._place(getattr, (cell, "cell_contents"), name, names)
        get = function.__globals__.get
        for name in found.of_globals:
            if name in function.__globals__:
                self._place(get, (name,), f"the global {name}", names)
            elif not hasattr(builtins, name):
                self.add(Guard(get, (name,), None, f"the global {name}"))
        for name, part in found.of_parts:
            if get(name) is np and part == "random":
                self.inside(getattr(np, part), f"{name}.{part}", names)
        package = get("__package__")
        for name in found.of_modules:
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
        kind = owner if isinstance(owner, type) else type(owner)
        own = vars(owner) if hasattr(owner, "__dict__") and not is_class else {}
        if "__dict__" in names and not _is_of_framework(kind):
            self.inside(own, f"{path}.__dict__", names)
        for name in tuple(names):
            if name in own:
                if type(own[name]) is HostState:
                    continue  # the trace answers for it
                self._place(getattr, (owner, name), f"{path}.{name}", names)
                continue
            found = of_class(kind, name)
            for base, value in found:
                self._of_class(base, value, owner, name, f"{path}.{name}", names)
            if found and is_own(kind.__module__) and not is_class:
                self.add(Guard(getattr, (owner, "__class__"), kind, f"the class of {path}"))
            elif not found and name in self._optional:
                self.add(Guard(hasattr, (owner, name), hasattr(owner, name), f"{path}.{name}"))

    def _of_class(
        self, base: type, value: Any, owner: object, name: str, path: str, names: _Attributes
    ) -> None:
        """Adds what an object has under a name from its class, or for `super()` from a base."""
        is_class = isinstance(owner, type)
        kind = owner if isinstance(owner, type) else type(owner)
        if not is_class and isinstance(value, (property, functools.cached_property)):
            value = value.fget if isinstance(value, property) else value.func
        if isinstance(value, (staticmethod, classmethod)):
            is_static = isinstance(value, staticmethod)
            self._methods(value.__func__, None if is_static else kind, path)
        elif isinstance(value, FunctionType) or hasattr(value, "__wrapped__"):
            if isinstance(value, FunctionType) and is_own(value.__module__):
                now = getattr(base, name)  # the property, if it is one
                self.add(Guard(getattr, (base, name), now, path))
                if hasattr(owner, "__dict__") and not is_class and not self._follows_framework:
                    # An object may get a function of its own in place of the method.
                    self.add(Guard(vars(owner).get, (name,), None, path))
            self._methods(value, None if is_class else owner, path)
        elif _is_data(value) and hasattr(owner, name):
            self._place(getattr, (owner, name), path, names)
        else:
            for _, get in of_class(type(value), "__get__"):
                if isinstance(get, FunctionType):
                    self.method(get, value, path)

    def _methods(self, function: object, owner: object, path: str) -> None:
        for inner in wrapped(function):
            self.method(inner, owner, path)

    def method(self, function: FunctionType, owner: object, path: str) -> None:
        """Adds what a method reads; of the framework's own, only of its object."""
        if is_own(function.__module__):
            self.function(function, owner, path)
        elif self._follows_framework and self._is_new(function.__code__, owner):
            self.attributes(owner, path, _names(function.__code__).of_attributes)

    def found(self) -> list[Guard]:
        """The guards. A function for `pb.py_function` may draw random numbers at each call."""
        draws = "py_function" in self.of_attributes
        return [g for g in self.guards.values() if not (draws and g.function is has_drawn)]

    def check_iterators(self) -> None:
        """Ends a trace whose function takes values from an iterator.

        Raises:
            Break: for such a function.
        """
        # A function for `pb.py_function` runs at each call, and may take some.
        if self.iterators and "py_function" not in self.of_attributes:
            raise Break(
                f"takes values from the iterator {self.iterators[0]}",
                "pass what next() gives as an argument",
            )

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
            self.add(Guard(read, arguments, value, path))
        self.inside(value, path.removeprefix("the global "), names)

    def inside(self, value: Any, path: str, names: _Attributes) -> None:
        """Adds what a function reads of a value that it names."""
        kind = type(value)
        if kind in _PLAIN or len(self.guards) >= self._most:
            return
        generator = generator_of(value)
        if generator is not None and self._is_new(has_drawn, generator):
            self.add(Guard(has_drawn, (generator, state_of(generator)), False, path))
        if isinstance(value, np.ndarray):
            if value.size <= _LONGEST and not value.dtype.hasobject:
                self.add(Guard(value.tobytes, (), value.tobytes(), f"what is in {path}"))
        elif isinstance(value, (*_CONTAINERS, tuple)):
            parts = contents(value)
            if len(parts) <= _LONGEST and self._is_new(names, value):
                if not isinstance(value, tuple):
                    self.add(Guard(contents, (value,), parts, f"what is in {path}"))
                for part in parts:
                    self.inside(part, f"{path}[...]", names)
        elif hasattr(kind, "__next__") and kind.__module__.partition(".")[0] in _ITERATORS:
            self.iterators.append(path)
        elif isinstance(value, (collections.UserDict, collections.UserList)):
            self._place(getattr, (value, "data"), path, names)
        elif isinstance(value, collections.ChainMap):
            self._place(getattr, (value, "maps"), path, names)
        elif isinstance(value, functools.partial):
            self.inside((value.func, *value.args, value.keywords), path, names)
        elif isinstance(value, MethodType):
            if isinstance(value.__func__, FunctionType):
                self.method(value.__func__, value.__self__, path.rpartition(".")[0])
        elif isinstance(value, FunctionType) or (
            hasattr(value, "__wrapped__") and not isinstance(value, (ModuleType, type))
        ):
            for function in wrapped(value):
                if is_own(function.__module__):
                    self.function(function)
        elif isinstance(value, ModuleType):
            if is_own(value.__name__):
                self.attributes(value, path, names)
        elif _module_of(value).partition(".")[0] != FRAMEWORK:
            self.attributes(value, path, names)
            # Of a class that is named here, objects are made.
            is_class = isinstance(value, type)
            for name in (*_SPECIAL, "__init__") if is_class else _SPECIAL:
                for _, called in of_class(value if is_class else kind, name):
                    if isinstance(called, FunctionType):
                        self.method(called, value, path)

    def add(self, guard: Guard) -> None:
        """Adds a guard, unless there is one for the same or there are too many."""
        if len(self.guards) < self._most:
            self.guards.setdefault((guard.function, *map(id, guard.arguments)), guard)

    def _is_new(self, what: object, owner: object) -> bool:
        identity = id(what), id(owner)
        new = identity not in self._visited
        self._visited[identity] = what, owner
        return new


def wrapped(function: object) -> Iterator[FunctionType]:
    """The function, and those that decorators say they have wrapped."""
    while function is not None:
        if isinstance(function, FunctionType):
            yield function
        function = getattr(function, "__wrapped__", None)


def of_class(kind: type, name: str) -> list[tuple[type, Any]]:
    """The values that a class or its bases have under a name, as they are, and where.

    The first is the class itself. Others follow where one of them reads `super().name`.
    """
    found: list[tuple[type, Any]] = []
    for base in kind.__mro__:
        if name in vars(base):
            value = vars(base)[name]
            found.append((base if found else kind, value))
            inner = value.fget if isinstance(value, property) else value
            functions = wrapped(getattr(inner, "__func__", inner))
            if not any("super" in _names(each.__code__).of_globals for each in functions):
                break
    return found


def _is_data(value: object) -> bool:
    """Returns whether an attribute of a class is a value, or one of its slots."""
    return isinstance(value, MemberDescriptorType) or not hasattr(type(value), "__get__")


def _is_of_framework(kind: type) -> bool:
    """Returns whether a class has a base in the framework, whose attributes announce themselves."""
    return any(base.__module__.partition(".")[0] == FRAMEWORK for base in kind.__mro__)


def _module_of(value: object) -> str:
    """The module of a class, or of an object's class."""
    return str((value if isinstance(value, type) else type(value)).__module__)


@functools.cache
def _names(code: CodeType) -> _Names:
    """The names that a function reads, and those that functions defined in it do."""
    names = _Names({}, {}, {}, {}, {})
    before = None
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            names.of_globals[instruction.argval] = None
        elif instruction.opname == "IMPORT_NAME":
            names.of_modules[instruction.argval] = None
        elif instruction.opname.startswith(_READS):
            names.of_attributes[instruction.argval] = None
            if before is not None and before.opname == "LOAD_GLOBAL":
                names.of_parts[before.argval, instruction.argval] = None
        before = instruction
    if not _BY_NAME.isdisjoint(names.of_globals):
        texts = [text for text in code.co_consts if isinstance(text, str) and text.isidentifier()]
        names.of_texts.update(dict.fromkeys(texts))
        names.of_attributes.update(names.of_texts)
    if "vars" in names.of_globals:
        names.of_attributes["__dict__"] = None
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            inner = _names(constant)
            names.of_globals.update(inner.of_globals)
            names.of_attributes.update(inner.of_attributes)
            names.of_modules.update(inner.of_modules)
            names.of_parts.update(inner.of_parts)
            names.of_texts.update(inner.of_texts)
    return names
