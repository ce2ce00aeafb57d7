"""The places that a trace reads outside of its function, each once with the value that it had."""

from __future__ import annotations

import collections
import contextlib
import contextvars
import functools
import operator
import sys
import weakref
from collections.abc import Callable, Collection, Iterable
from types import (
    BuiltinFunctionType,
    FunctionType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    SimpleNamespace,
)
from typing import Any

import numpy as np

from pullback._symbols import Break
from pullback.graph.host import (
    ABSENT,
    CHANGEABLE,
    CONTAINERS,
    HEAP_TYPE,
    LOST,
    RECORD,
    Found,
    Guard,
    Unknown,
    bytes_of,
    contents,
    find,
    found_in,
    hides_state,
    in_python,
    is_a,
    is_bare,
    is_foreign_array,
    is_framework,
    is_iterator,
    is_plain,
    is_pointer,
    is_simple,
    items_putter,
    key_of,
    memory_of,
    putter,
    replace,
    same,
    seen_of,
    slots_of,
    space_of,
)

#: So many items of one container are compared at once with the others.
_MANY = 8
_LENGTHS = tuple(kind.__len__ for kind in (list, dict, set, tuple, collections.deque, frozenset))


class Places:
    """The places that a trace has read."""

    def __init__(self) -> None:
        self._guards: dict[Any, Guard] = {}
        #: Objects from outside, by identity, and what they are called.
        self._known: dict[int, tuple[Any, str]] = {}
        #: Objects that the function makes.
        self._made: dict[int, Any] = {}
        self._written: set[Any] = set()
        #: What containers held before the function wrote to them.
        self._before: dict[int, tuple[Any, tuple[Any, ...]]] = {}
        #: What else it wrote to, by the key of the place, with what puts the value of before back.
        self._undo: dict[Any, Callable[[], object]] = {}
        self._candidates: dict[int, tuple[Any, ...]] = {}
        #: Lists, tuples and dicts that stand for arguments: their items alone are compared.
        self._lent: dict[int, tuple[Any, str]] = {}
        #: What the function has asked the outer world, which no run of the program does.
        self.outer: dict[str, None] = {}
        #: Functions from outside, by their code.
        self.functions: dict[Any, list[FunctionType]] = collections.defaultdict(list)

    @property
    def guards(self) -> list[Guard]:
        """A guard for each place; for many items of a container one for all."""
        counts: dict[int, int] = collections.Counter(
            key[1] for key, guard in self._guards.items() if guard.function is operator.getitem
        )
        for container, count in counts.items():
            place, path = self._known[container]
            if count > _MANY and container not in self._before:
                self.add(
                    (contents, container), contents, (place,), contents(place), what_is_in(path)
                )
        return [
            guard
            for key, guard in self._guards.items()
            if guard.function is not operator.getitem or (contents, key[1]) not in self._guards
        ]

    # Objects -----------------------------------------------------------------------------------

    def is_outside(self, value: object) -> bool:
        """Returns whether an object was there before the function ran."""
        return id(value) in self._known or (
            is_a(value, (type, ModuleType)) and id(value) not in self._made
        )

    def path(self, value: object) -> str:
        """Returns what an object is called in messages."""
        known = self._known.get(id(value))
        if known is not None:
            return known[1]
        return value.__name__ if is_a(value, (type, ModuleType)) else type(value).__name__

    def make(self, value: object) -> None:
        """Notes that the function has made an object."""
        if id(value) not in self._known:
            self._made[id(value)] = value

    def lend(self, value: object, path: str) -> None:
        """Notes that a value stands for an argument, with all containers in it."""
        if is_a(value, (list, tuple, dict)):
            self._lent[id(value)] = value, path
            for key, item in value.items() if is_a(value, dict) else enumerate(value):
                self.lend(item, f"{path}[{key!r}]")

    def reject_lent(self, value: object, name: str) -> None:
        """Ends the trace where more is read of the copy of an argument than its items."""
        if id(value) in self._lent:
            path = self._lent[id(value)][1]
            raise Break(
                f"reads {name} of its argument {path}, where only items are compared",
                f"pass {path}.{name} as an argument too",
            )

    def decimals(self) -> None:
        """Reads the settings of decimals, such as their precision."""
        self.add(_of_decimals, _of_decimals, (), _of_decimals(), "decimal.getcontext()")

    def register(self, value: object, path: str) -> Any:
        """Notes that an object comes from outside; returns it."""
        if is_bare(value) or id(value) in self._known or id(value) in self._made:
            return value
        self._known[id(value)] = value, path
        if type(value).__module__ == "decimal":
            self.decimals()
        if is_foreign_array(type(value)):
            raise Break(
                f"reads the array {path} of another library, whose values may change",
                f"use pb.asarray({path}), or pass it as an argument",
            )
        if is_a(value, weakref.ProxyTypes):
            raise Break(
                f"reads the weak proxy {path}, which nothing compares",
                "use weakref.ref, and call that",
            )
        if is_a(value, (np.ndarray, RECORD)):
            if value.dtype.hasobject:
                raise Break(
                    f"reads {path}, an array of Python objects, whose values cannot be compared",
                    "use a list, or an array of numbers",
                )
            self.add((bytes_of, id(value)), bytes_of, (value,), bytes_of(value), what_is_in(path))
        elif is_a(value, FunctionType):
            self.functions[value.__code__].append(value)
        elif is_a(value, MethodType):
            self.register(value.__self__, path.rpartition(".")[0] or path)
            self.register(value.__func__, path)
        elif is_a(value, functools.partial) and not is_framework(type(value)):
            for part in (value.func, *value.args):
                self.register(part, path)
            self.register(value.keywords, f"{path}.keywords")
            for name in ("func", "args"):
                self.place(value, name, getattr(value, name))
        elif is_a(value, (BuiltinFunctionType, MethodWrapperType)):
            self.register(value.__self__, f"{path}.__self__")
        elif (memory := memory_of(value)) is not None:
            self.add((memory_of, id(value)), memory_of, (value,), memory, what_is_in(path))
        return value

    def function(self, function: FunctionType) -> None:
        """Reads what a function from outside is called with: its code and its defaults."""
        path = function.__name__
        for name in ("__code__", "__defaults__", "__kwdefaults__"):
            value = getattr(function, name)
            if value is None:
                continue  # a call that passes all arguments goes on doing so
            what = path if name == "__code__" else f"the defaults of {path}"
            self.add((getattr, id(function), name), getattr, (function, name), value, what)
            if name != "__code__":
                self.whole(self.register(value, what))

    def cell(self, function: FunctionType, name: str) -> None:
        """Reads a variable of an enclosing function."""
        names = function.__code__.co_freevars
        if name not in names or function.__closure__ is None:
            return
        cell = function.__closure__[names.index(name)]
        if (getattr, id(cell), "cell_contents") in self._guards:
            return
        try:
            value = cell.cell_contents
        except ValueError:
            return
        if (id(cell), "cell_contents") not in self._written:
            key = getattr, id(cell), "cell_contents"
            self.add(key, getattr, (cell, "cell_contents"), value, name)
            self.register(value, name)

    def cell_written(self, function: FunctionType, name: str) -> None:
        """Notes that the function sets a variable of an enclosing function."""
        names = function.__code__.co_freevars
        if name in names and function.__closure__ is not None:
            cell = function.__closure__[names.index(name)]
            self._written.add((id(cell), "cell_contents"))
            if (id(cell), name) not in self._undo:
                self._undo[id(cell), name] = putter(cell, "cell_contents")

    def of_context(self, variable: contextvars.ContextVar[Any]) -> Any:
        """Reads the value of a variable of context; `ABSENT` if it has none."""
        value, path = variable.get(ABSENT), self.path(variable)
        self.add((variable, "get"), variable.get, (ABSENT,), value, path)
        return self.register(value, path)

    def name(self, space: dict[str, Any], builtins: dict[str, Any], name: str) -> Any:
        """Reads a global, or a builtin that no global hides."""
        for place in (space, builtins):
            if name in place:
                value = place[name]
                key = dict.get, id(place), name
                if key not in self._guards and (id(place), name) not in self._written:
                    self.add(key, place.get, (name,), value, f"the global {name}")
                    self.register(value, name)
                return value
            self.absent(place, name, f"the global {name}")
        return Unknown()

    def written(self, owner: object, name: object, *, is_item: bool = False) -> None:
        """Notes that the function sets an attribute, a global or an item."""
        for each in seen_of(owner):
            if self.is_outside(each) or type(each) is dict:
                self.snapshot(each)
                if not is_a(each, CONTAINERS) or is_simple(name):
                    key = id(each), key_of(name)
                    self._written.add(key)
                    if id(each) not in self._before and key not in self._undo:
                        self._undo[key] = items_putter(each) if is_item else putter(each, name)

    @property
    def changed(self) -> list[str]:
        """The names of what the function has written to that it had read."""
        owners = {*self._before, *(owner for owner, _ in self._undo)}
        return [
            guard.what
            for guard in self.guards
            if id(getattr(guard.function, "__self__", None)) in owners
            or (guard.arguments and id(guard.arguments[0]) in owners)
            if not guard.holds()
        ]

    def take_back(self) -> None:
        """Has all that the function wrote to hold what it held before."""
        for put in self._undo.values():
            put()
        for container, items in self._before.values():
            if is_a(container, CHANGEABLE) and not same(contents(container), items):
                is_dict = is_a(container, dict)
                replace(container, zip(items[::2], items[1::2], strict=True) if is_dict else items)

    # Classes ------------------------------------------------------------------------------

    def place(self, owner: object, name: str, value: object) -> Any:
        """Reads an attribute that has this value."""
        path = f"{self.path(owner)}.{name}"
        if (id(owner), key_of(name)) not in self._written:
            read: Any = getattr
            if in_python(type(owner), "__getattribute__"):
                read = object.__getattribute__
            self.add((getattr, id(owner), name), read, (owner, name), value, path)
            self.register(value, path)
        return value

    def entry(self, kind: type, name: str, found: Found | None, after: type | None = None) -> Any:
        """Reads what a class has under a name."""
        path = f"{kind.__name__}.{name}"
        value = ABSENT if found is None else found.value
        if id(kind) in self._made or (id(kind), key_of(name)) in self._written:
            return value
        if kind.__flags__ & HEAP_TYPE and not is_framework(kind):
            key = found_in, id(kind), name, id(after)
            if after is None and is_a(value, FunctionType) and type(kind) is type:
                self.add(key, getattr, (kind, name), value, path)
            else:
                arguments = (kind, name) if after is None else (kind, name, after)
                self.add(key, found_in, arguments, value, path)
        if value is not ABSENT:
            self.register(value, path)
        return value

    def special_of(self, kind: type, name: str) -> None:
        """Reads which method a class has under a name, if it has one."""
        self.entry(kind, name, find(kind, name))

    def special(self, value: object, names: Iterable[str]) -> None:
        """Reads which special methods Python would call for an operation with a value."""
        for each in seen_of(value):
            kind = type(each)
            if kind.__flags__ & HEAP_TYPE and not is_framework(kind):
                for name in names:
                    self.special_of(kind, name)
            if not is_plain(each) and self.is_outside(each) and not is_iterator(each):
                self.reject_state(each, names)

    def reject_state(self, value: object, names: Iterable[str]) -> None:
        """Ends the trace where code in C reads of an object what no guard compares.

        Args:
            value: the object.
            names: methods; Python calls one of them.
        """
        kind = type(value)
        is_compared = not is_pointer(kind) and any(
            (function, id(value)) in self._guards for function in (memory_of, bytes_of)
        )
        for name in names:
            is_special = name.startswith("__")
            if hides_state(kind, name) and not (is_special and is_compared):
                what = self.path(value) if is_special else f"{self.path(value)}.{name}"
                raise Break(
                    f"{'reads' if is_special else 'calls'} {what}, whose results may change",
                    f"{'read' if is_special else 'call'} it before, and pass the result as an "
                    "argument",
                )

    # Items -------------------------------------------------------------------------------------

    def length(self, container: object) -> None:
        """Reads how many items a container has."""
        if is_a(container, Unknown):
            for candidate in container.candidates:
                self.length(candidate)
        elif is_a(container, CONTAINERS) and type(container).__len__ in _LENGTHS:
            if self.is_outside(container) and not is_a(container, tuple):
                before = self._before.get(id(container))
                count = len(container) if before is None else len(before[1])
                if is_a(container, dict) and before is not None:
                    count //= 2
                what = f"the length of {self.path(container)}"
                self.add((len, id(container)), len, (container,), count, what)
        else:
            self.special(container, ("__bool__", "__len__"))
            self.given(container)

    def whole(self, container: Collection[Any]) -> tuple[Any, ...]:
        """Reads all that a container holds; returns the objects from outside among that."""
        outside = self.is_outside(container)
        if outside and id(container) in self._candidates:
            return self._candidates[id(container)]
        parts = contents(container)
        if outside:
            path = self.path(container)
            if is_a(container, collections.defaultdict):
                self.place(container, "default_factory", container.default_factory)
            if not is_a(container, (tuple, frozenset)):
                before = self._before.get(id(container), (None, parts))[1]
                key = contents, id(container)
                self.add(key, contents, (container,), before, what_is_in(path))
            self._candidates[id(container)] = ()  # it may hold itself
            for part in parts:
                self.register(part, f"{path}[...]")
        found = self.outside_of([part for part in parts if not is_plain(part)])
        inner = [each for part in parts if not is_plain(part) for each in self.given(part)]
        result = tuple({id(each): each for each in (*found, *inner)}.values())
        if outside:
            self._candidates[id(container)] = result
        return result

    def compared(self, values: Iterable[object]) -> tuple[Any, ...]:
        """Reads what `==` in C reads of values: the items of containers, and of namespaces all."""
        parts = [part for value in values for part in seen_of(value)]
        found = tuple(x for part in parts for x in self.given(part))
        seen = {id(part) for part in parts}
        for part in parts:  # which grows
            inner: Iterable[Any] = ()
            if is_a(part, SimpleNamespace):
                inner = space_of(part).values()
                if self.is_outside(part):
                    self.whole(self.register(space_of(part), f"vars({self.path(part)})"))
            elif is_a(part, CONTAINERS):
                inner = contents(part)
            new = [x for x in inner if not is_plain(x) and id(x) not in seen]
            seen.update(map(id, new))
            parts += new
        return found

    # Code that is not followed -------------------------------------------------------------------

    def given(self, value: object, *, deep: bool = False, seen: set[int] | None = None) -> Any:
        """Reads what code in C, or of the framework, may read of a value that it gets.

        Args:
            value: the value.
            deep: whether it may read attributes of objects.
            seen: objects that have been looked at.

        Returns:
            The objects from outside that it may find.
        """
        if is_bare(value):
            return ()
        if type(value) is Unknown:
            self.check(value)
            return tuple(
                each
                for candidate in value.candidates
                for each in (candidate, *self.given(candidate, deep=deep, seen=seen))
            )
        if is_a(value, (ModuleType, type)):
            return ()
        seen = set() if seen is None else seen
        if id(value) in seen:
            return ()
        seen.add(id(value))
        outside = self.is_outside(value)
        found: list[Any] = [value] if outside else []
        space = space_of(value)
        if is_a(value, CONTAINERS):
            items = self.whole(value)
            found += items
            if deep:
                found += [x for item in items for x in self.given(item, deep=True, seen=seen)]
            if deep and space:
                self.reject_lent(value, "__dict__")
                found += self.given(self.register(space, f"{self.path(value)}.__dict__"), seen=seen)
        elif is_a(value, functools.partial) and not is_framework(type(value)):
            for part in (value.func, value.args, value.keywords):
                found += self.given(part, deep=deep, seen=seen)
        elif is_a(value, (MethodType, BuiltinFunctionType, MethodWrapperType)):
            found += self.given(value.__self__, deep=deep, seen=seen)
        elif is_a(value, np.ndarray) and value.dtype.hasobject:
            found += self.outside_of(value.flat)
        elif is_a(value, FunctionType) or is_a(value, np.ndarray):
            pass
        elif is_a(value, contextvars.ContextVar):
            found += [x for x in (self.of_context(value),) if self.is_outside(x)]
        elif is_a(value, contextvars.Context):
            raise Break(
                "reads what a copy of the context holds", "call get() of the variables of context"
            )
        elif outside and is_iterator(value):
            raise Break(
                f"takes values from the iterator {self.path(value)}",
                "pass what next() gives as an argument",
            )
        elif not is_framework(type(value)):
            if outside and deep:
                self.whole(self.register(space, f"{self.path(value)}.__dict__"))
                for name, slot in slots_of(type(value)):
                    with contextlib.suppress(AttributeError):
                        part = self.place(value, name, slot.__get__(value))
                        found += self.given(part, deep=True, seen=seen)
                        if self.is_outside(part):
                            found.append(part)
            if deep or not outside:
                for part in [*space.values()]:
                    found += self.given(part, deep=deep, seen=seen)
                    if self.is_outside(part):
                        found.append(part)
        return tuple(found)

    # The guards --------------------------------------------------------------------------------

    def check(self, value: Unknown) -> None:
        """Raises a `Break` for a value that instructions have left which are not followed."""
        if value is LOST:
            raise Break(
                "reads a value that is not followed", "assign the value to a variable first"
            )

    def add(
        self, key: object, function: Callable[..., Any], arguments: Any, value: object, what: str
    ) -> None:
        """Adds a guard, unless there is one for the same."""
        if key not in self._guards:
            self._guards[key] = Guard(function, arguments, value, what)

    def absent(self, place: dict[Any, Any], name: object, what: str) -> None:
        """Reads that a dict lacks a key."""
        if (id(place), key_of(name)) not in self._written:
            key = operator.contains, id(place), key_of(name)
            self.add(key, operator.contains, (place, name), False, what)

    def snapshot(self, container: object) -> None:
        """Keeps what a container holds before the function may write to it."""
        for each in seen_of(container):
            if is_a(each, CONTAINERS) and id(each) not in self._before and self.is_outside(each):
                self._before[id(each)] = each, contents(each)

    def outside_of(self, values: Iterable[Any]) -> tuple[Any, ...]:
        """The objects from outside among values."""
        parts = [part for value in values for part in seen_of(value)]
        found = {id(x): x for x in parts if not is_plain(x) and self.is_outside(x)}
        return tuple(found.values())


def what_is_in(path: str) -> str:
    """Returns what all items of a container are called in messages."""
    return f"what is in {path}"


def _of_decimals() -> tuple[object, ...]:
    """The settings of decimals in this thread, on which their arithmetic depends."""
    context = sys.modules["decimal"].getcontext()
    names = ("prec", "rounding", "Emin", "Emax", "capitals", "clamp")
    return (*(getattr(context, name) for name in names), *context.traps.values())
