"""Reads of attributes and items, and of calls, found as Python finds them."""

from __future__ import annotations

import abc
import collections
import contextvars
import functools
import gc
import operator
import os
import sys
import threading
import types
import weakref
from collections.abc import Callable, Iterable
from types import FunctionType, MethodType, ModuleType
from typing import Any

from pullback._symbols import Break, HostNumber
from pullback.graph.host import (
    ABSENT,
    ASKING,
    CONTAINERS,
    FRAMEWORK,
    HEAP_TYPE,
    UNKNOWN,
    Found,
    Unknown,
    find,
    generator_of,
    has,
    has_drawn,
    has_own,
    in_python,
    is_a,
    is_bare,
    is_data_descriptor,
    is_framework,
    is_input,
    is_plain,
    is_simple,
    key_of,
    names_in,
    seen_of,
    space_of,
    state_of,
    subclasses_of,
)
from pullback.graph.places import Places

#: What is called in C: with an object, and with an object as the first argument.
_BOUND = (types.BuiltinFunctionType, types.MethodWrapperType)
_UNBOUND = (types.MethodDescriptorType, types.WrapperDescriptorType)
_CALLED = (*_BOUND, *_UNBOUND)
#: Modules whose functions in C read of objects only what they find by special methods.
_SHALLOW = {"builtins", "_operator", "itertools", "_functools", "_collections", "math"}
#: Where functions in C are that read the settings of decimals.
_DECIMAL = ("decimal", "_decimal")
#: What code in C reads an attribute with.
_DESCRIPTORS = (types.MemberDescriptorType, types.GetSetDescriptorType)
#: Methods in C of containers that compare items.
_COMPARING = {"index", "count", "remove", "__contains__", "__eq__", "__ne__"}
#: Methods in C that add to a container, and read nothing of it.
_ADDING = {"append", "appendleft", "extend", "add", "update", "__setitem__", "__init__"}


class Reads(Places):
    """Says to itself what is read where Python reads an attribute, an item or makes a call.

    What runs in Python for that (`__getattr__`, a property) is followed as it runs
    (`pullback.graph.watch`); its result is unknown here.
    """

    # Attributes --------------------------------------------------------------------------------

    def attribute(self, owner: object, name: str, *, plain: bool = False) -> Any:
        """Reads an attribute; what Python code computes for it is unknown here.

        Args:
            owner: whose attribute.
            name: its name.
            plain: whether it is read past the `__getattribute__` of a class.
        """
        kind = type(owner)
        if type(owner) is Unknown:
            self.check(owner)
            if name == "__class__" and owner.kind is not None and not owner.candidates:
                return owner.kind
            values = [self.attribute(candidate, name) for candidate in owner.candidates]
            if owner.kind is not None:
                values.append(self.entry(owner.kind, name, find(owner.kind, name)))
            return Unknown(self.outside_of([*owner.candidates, *values]))
        if kind is super:
            return self._of_super(owner, name)
        if is_a(owner, ModuleType):
            return self._of_module(owner, name)
        if is_a(owner, type):
            return self._of_class(owner, name)
        if is_bare(owner):
            return Unknown()
        outside = self.is_outside(owner)
        space = space_of(owner)
        if name in space:
            self.reject_lent(owner, name)
        if not plain and _getattribute_of(kind) and in_python(kind, "__getattribute__"):
            self.special_of(kind, "__getattribute__")
            return Unknown((owner,) if outside else ())
        found = find(kind, name)
        if not is_framework(kind):
            self.kind_of(owner)
        if found is not None and is_data_descriptor(found.value):
            return self._described(owner, name, found)
        if name in space:
            return self.place(owner, name, space[name]) if outside else space[name]
        if found is None:
            if outside and is_a(owner, threading.local) and hasattr(owner, name):
                return self.place(owner, name, getattr(owner, name))
            if outside and is_a(owner, threading.local):
                key = hasattr, id(owner), name
                self.add(key, hasattr, (owner, name), False, f"{self.path(owner)}.{name}")
            elif outside:
                key = has_own, id(owner), name
                self.add(key, has_own, (owner, name), False, f"{self.path(owner)}.{name}")
            if kind.__flags__ & HEAP_TYPE:
                self.special_of(kind, "__getattr__")
            return Unknown((owner,) if outside else ())
        if has(type(found.value), "__get__"):
            if outside and hasattr(owner, "__dict__") and not is_framework(kind):
                self.absent(space, name, f"{self.path(owner)}.{name}")
            return self._described(owner, name, found)
        if outside:
            return self.place(owner, name, found.value)
        return self.entry(kind, name, found)

    def chains(self, owner: object, chains: Iterable[Iterable[str]]) -> None:
        """Reads attributes as code of the framework does, which may call them or look into them.

        Args:
            owner: whose attributes.
            chains: the names, each of an attribute of the value of the one before.
        """
        for chain in chains:
            value = owner
            for name in chain:
                value = self.attribute(value, name)
            self.given(value)
            if callable(value) and not is_a(value, (FunctionType, MethodType, type)):
                self.called(value, [Unknown()])

    def _of_module(self, module: ModuleType, name: str) -> Any:
        space = vars(module)
        value = space.get(name, ABSENT)
        if _is_of_framework(module):
            return Unknown() if value is ABSENT else value
        path = f"{module.__name__}.{name}"
        if value is ABSENT:
            self.absent(space, name, path)
            if "__getattr__" in space:
                self.name(space, {}, "__getattr__")
            return Unknown()
        if (id(space), name) not in self._written:
            self.add((dict.get, id(space), name), space.get, (name,), value, path)
            self.register(value, path)
        return value

    def _of_class(self, owner: type, name: str) -> Any:
        meta = type(owner)
        of_meta, found = find(meta, name), find(owner, name)
        if meta is not type and in_python(meta, "__getattribute__"):
            self.special_of(meta, "__getattribute__")
            return Unknown((owner,))
        if of_meta is not None and is_data_descriptor(of_meta.value):
            return self._described(owner, name, of_meta)
        value = self.entry(owner, name, found)
        if found is None:
            if of_meta is not None:
                return self._described(owner, name, of_meta)
            self.special_of(meta, "__getattr__")
            return Unknown((owner,))
        return self._bound_to_class(value, owner, f"{owner.__name__}.{name}")

    def _described(self, owner: object, name: str, found: Found) -> Any:
        """Returns what a descriptor of a class gives for one of its objects."""
        kind, (base, value) = type(owner), found
        outside = self.is_outside(owner)
        form = type(value)
        if form in (types.MemberDescriptorType, types.GetSetDescriptorType):
            if form is types.MemberDescriptorType or space_of(owner):
                self.reject_lent(owner, name)
            try:
                given = value.__get__(owner, kind)
            except AttributeError:
                if outside:
                    key = hasattr, id(owner), name
                    self.add(key, hasattr, (owner, name), False, f"{self.path(owner)}.{name}")
                return Unknown((owner,) if outside else ())
            if not outside:
                return given
            if given is value.__get__(owner, kind) or is_plain(given):
                return self.place(owner, name, given)
            if is_a(given, types.MappingProxyType):  # of a class, another one each time
                return self.register(given, f"{self.path(owner)}.{name}")
            return Unknown(self.given(owner, deep=True))
        if not (is_framework(base) and is_framework(kind)):
            self.entry(kind, name, found)
        if is_a(value, FunctionType):
            return MethodType(value, owner)
        if is_a(value, staticmethod):
            return self.register(value.__func__, f"{kind.__name__}.{name}")
        if is_a(value, classmethod):
            return MethodType(value.__func__, kind)
        if is_a(value, property):
            if is_a(value.fget, FunctionType):
                self.register(value.fget, f"{kind.__name__}.{name}")
                return Unknown()
            return self.called(value.fget, [owner])
        if in_python(form, "__get__"):
            self.special_of(form, "__get__")
            return Unknown((owner,) if outside else ())
        given = value.__get__(owner, kind)
        if outside and is_plain(given):
            return self.place(owner, name, given)
        return self.register(given, f"{self.path(owner)}.{name}") if outside else given

    def _bound_to_class(self, value: Any, owner: type, path: str) -> Any:
        if is_a(value, staticmethod):
            return self.register(value.__func__, path)
        if is_a(value, classmethod):
            return MethodType(value.__func__, owner)
        if in_python(type(value), "__get__"):
            self.special_of(type(value), "__get__")
            return Unknown((owner,))
        if find(type(value), "__get__") is not None and not is_a(value, (FunctionType, property)):
            return self.register(value.__get__(None, owner), path)
        return value

    def _of_super(self, owner: Any, name: str) -> Any:
        kind, after, holder = owner.__self_class__, owner.__thisclass__, owner.__self__
        if kind is None or name == "__class__":
            return Unknown()
        found = find(kind, name, after)
        value = self.entry(kind, name, found, after)
        if found is None:
            return Unknown()
        path = f"super().{name}"
        if holder is kind:
            return self._bound_to_class(value, kind, path)
        if find(type(value), "__get__") is not None:
            return self._described_above(holder, value, kind, path)
        return value

    def _described_above(self, holder: object, value: Any, kind: type, path: str) -> Any:
        if is_a(value, FunctionType):
            return MethodType(value, holder)
        if is_a(value, (staticmethod, classmethod)):
            return self._bound_to_class(value, kind, path)
        if is_a(value, property) or in_python(type(value), "__get__"):
            if is_a(value, property):
                self.register(value.fget, path)
            return Unknown((holder,) if self.is_outside(holder) else ())
        return self.register(value.__get__(holder, kind), path)

    # Items -------------------------------------------------------------------------------------

    def item(self, container: object, key: object, *, plain: bool = False) -> Any:
        """Reads an item of a container; `plain` goes past the `__getitem__` of a class."""
        kind = type(container)
        if is_a(container, Unknown):
            self.check(container)
            found = [self.item(candidate, key) for candidate in container.candidates]
            return Unknown(self.outside_of([*container.candidates, *found]))
        if is_input(container):
            self.given(key)
            return Unknown()
        if kind is types.MappingProxyType:
            return self.item(self._under(container), key)
        if not is_a(container, (dict, list, tuple)) or not is_simple(key):
            self.special(container, ("__getitem__", "__class_getitem__"))
            return Unknown((*self.given(container), *self.given(key)))
        if not plain and in_python(kind, "__getitem__"):
            self.special_of(kind, "__getitem__")
            return Unknown()
        path = f"{self.path(container)}[{key!r}]"
        outside = self.is_outside(container)
        if is_a(container, dict):
            value = dict.get(container, key, ABSENT)
        else:
            try:
                base: Any = list if is_a(container, list) else tuple
                value = base.__getitem__(container, key)
            except (IndexError, TypeError):
                value = ABSENT
        if value is ABSENT:
            if is_a(container, collections.defaultdict):
                self.reject_lent(container, "default_factory")
            if outside and is_a(container, dict):
                self.absent(container, key, path)
                self.special_of(kind, "__missing__")
                if is_a(container, collections.defaultdict):
                    self.snapshot(container)  # which may add the key
            elif outside:
                self.length(container)
            return Unknown((container,) if outside else ())
        if outside and (id(container), key_of(key)) not in self._written:
            if not is_a(container, tuple):
                place = operator.getitem, id(container), key_of(key)
                self.add(place, operator.getitem, (container, key), value, path)
            self.register(value, path)
        return value

    def _under(self, proxy: object) -> Any:
        (under,) = gc.get_referents(proxy)
        return self.register(under, self.path(proxy))

    def contains(self, container: object, key: object) -> None:
        """Reads whether a container has a key."""
        if type(container) is types.MappingProxyType:
            container = self._under(container)
        if is_a(container, (dict, set)) and is_simple(key) and self.is_outside(container):
            if (id(container), key_of(key)) in self._written:
                return
            if not in_python(type(container), "__contains__"):
                has = key in container
                place = operator.contains, id(container), key_of(key)
                path = f"whether {key!r} is in {self.path(container)}"
                self.add(place, operator.contains, (container, key), has, path)
                return
        self.special(container, ("__contains__", "__iter__", "__getitem__"))
        self.compared([container, key])

    # Calls -------------------------------------------------------------------------------------

    def called(self, callee: Any, args: list[Any], named: Any = ()) -> Any:
        """Reads what a call reads of its arguments, of what is not followed; its result."""
        if type(callee) is FunctionType:
            return self._handed(callee, "", args, named)
        owner = callee.__self__ if is_a(callee, _BOUND) else None
        name = callee.__name__ if is_a(callee, (*_BOUND, *_UNBOUND)) else ""
        if is_a(callee, _UNBOUND) and args and name not in ("__setattr__", "__getattribute__"):
            owner, *args = args
        exact = _EXACT.get(callee) if is_a(callee, _CALLED) or type(callee) is type else None
        if exact is not None and not named:
            result = exact(self, *args) if _fits(exact, args) else NotImplemented
            if result is not NotImplemented:
                return result
        if owner is not None and not is_a(owner, ModuleType):
            found = self._method(owner, name, args)
            if found is not NotImplemented:
                return found
            self._reject_state(owner, name)
            args = [owner, *args]
        elif is_a(callee, operator.attrgetter):
            return self._got(callee, args)
        elif is_a(callee, weakref.ref):
            self.add((callee, id(callee)), callee, (), callee(), self.path(callee))
            return self.register(callee(), f"{self.path(callee)}()")
        elif callee is contextvars.copy_context:
            return callee()
        elif callee is __import__ and args and type(args[0]) is str and len(args) == 1:
            modules = self.register(sys.modules, "sys.modules")
            self.item(modules, args[0])
            return self.item(modules, args[0].partition(".")[0])
        elif any(callee is each for each in _MAKING) and all(map(is_plain, args)):
            return callee(*args)
        elif any(callee is each for each in ASKING) and not args and not named:
            self.add((callee, ()), callee, (), callee(), f"{callee.__name__}()")
        elif callee is os.urandom:
            raise Break(
                "draws random numbers from os.urandom",
                "draw with pb.random or a pb.Generator, or pass the numbers as arguments",
            )
        return self._handed(callee, name, args, named)

    def _handed(self, callee: Any, name: str, args: list[Any], named: Any) -> Unknown:
        """Reads what code that is not followed reads of its arguments; its result."""
        values = [value for value in (*args, *named) if not is_bare(value)]
        if not is_a(callee, (type, FunctionType)):
            values.append(callee)
        elif not values and is_a(callee, FunctionType):
            return UNKNOWN
        for value in values:
            self.snapshot(value)
            self._draw(value, callee)
        deep = _is_deep(callee, name) or any(map(_gets_attributes, args))
        if is_a(callee, (types.BuiltinFunctionType, type)) and callee.__module__ in _DECIMAL:
            self.decimals()
        found = tuple(x for value in values for x in self.given(value, deep=deep))
        return Unknown(found, callee if is_a(callee, type) else None)

    def _method(self, owner: object, name: str, args: list[Any]) -> Any:
        """Reads what a method in C reads, if that is known."""
        first = args[0] if args else None
        if is_a(owner, (dict, types.MappingProxyType)) and name == "get" and args:
            found = self.item(owner, first, plain=True)
            return Unknown(self.outside_of([found, *args])) if type(found) is Unknown else found
        if is_a(owner, CONTAINERS) and name == "__getitem__":
            return self.item(owner, first, plain=True)
        if is_a(owner, CONTAINERS) and name in _COMPARING:
            self.compared([owner, *args])
        if is_a(owner, type) and name == "__subclasses__":
            found = subclasses_of(owner)
            what = f"the subclasses of {owner.__name__}"
            self.add((subclasses_of, id(owner)), subclasses_of, (owner,), found, what)
            return Unknown(found)
        if name == "__get__" and is_a(owner, _DESCRIPTORS) and is_a(first, owner.__objclass__):
            return self._described(first, owner.__name__, Found(owner.__objclass__, owner))
        if is_a(owner, CONTAINERS) and name in _ADDING:
            self.snapshot(owner)
            return Unknown(tuple(x for a in args for x in self.given(a)))
        if name in ("copy", "__copy__") and is_a(owner, collections.defaultdict):
            self.reject_lent(owner, "default_factory")
        if name == "__getattribute__" and type(first) is str:
            return self.attribute(owner, first, plain=True)
        if name == "__setattr__" and type(first) is str:
            return self._setattr(owner, first, None)
        if is_a(owner, contextvars.Context) and name == "run":
            return Unknown(tuple(x for arg in args for x in self.given(arg)))
        if is_a(owner, contextvars.ContextVar) and name == "get":
            given = self.of_context(owner)
            return Unknown(self.outside_of(args)) if given is ABSENT else given
        return NotImplemented

    def _reject_state(self, owner: object, name: str) -> None:
        """Ends the trace where a method in C reads what no guard compares."""
        for each in seen_of(owner):
            if self.is_outside(each) and not is_a(each, type) and generator_of(each) is None:
                self.reject_state(each, (name,))

    def _draw(self, value: object, callee: object) -> None:
        """Notes the state of a generator of random numbers that a call may draw from."""
        generator = None if is_a(value, Unknown) else generator_of(value)
        if generator is not None and not is_a(callee, FunctionType):
            state, path = state_of(generator), self.path(value)
            self.add((has_drawn, id(generator)), has_drawn, (generator, state), False, path)

    def _got(self, getter: object, args: list[Any]) -> Any:
        names = getter.__reduce__()[1]
        results = []
        for name in names:
            value = args[0]
            for part in name.split("."):
                value = self.attribute(value, part)
            results.append(value)
        return results[0] if len(results) == 1 else Unknown(self.outside_of(results))

    def _getattr(self, owner: object, name: object, *default: object) -> Any:
        if not is_a(name, str):
            outside = self.outside_of([owner])
            if outside and not _is_of_framework(owner):
                raise Break(
                    f"reads an attribute of {self.path(outside[0])} by a name that is computed",
                    "assign the name to a variable first: name = ...; getattr(value, name)",
                )
            return NotImplemented
        found = self.attribute(owner, name)
        if is_a(found, Unknown) and default:
            return Unknown(self.outside_of([found, *default]))
        return found

    def _getattribute(self, owner: object, name: object) -> Any:
        return self.attribute(owner, name, plain=True) if type(name) is str else NotImplemented

    def _setattr(self, owner: object, name: object, value: object) -> Any:
        self.written(owner, name)
        return Unknown()

    def _vars(self, owner: object) -> Any:
        if is_a(owner, Unknown):
            found = [self._vars(candidate) for candidate in owner.candidates]
            return Unknown(self.outside_of([*owner.candidates, *found]))
        if is_a(owner, (type, ModuleType)):
            return self.register(vars(owner), f"vars({self.path(owner)})")
        space = space_of(owner)
        if space:
            self.reject_lent(owner, "__dict__")
        return (
            self.register(space, f"vars({self.path(owner)})") if self.is_outside(owner) else space
        )

    def _type(self, value: object, *more: object) -> Any:
        if more:
            return NotImplemented
        if type(value) is HostNumber:
            raise Break("compares types with those of numbers")
        self.kind_of(value)
        if is_a(value, Unknown):
            return Unknown() if value.candidates or value.kind is None else value.kind
        return type(value)

    def of_class(self, value: object, kinds: object) -> Any:
        """Reads whether an object is of a class, or of one of some."""
        self.kind_of(value)
        return self._issubclass(Unknown(tuple(map(type, seen_of(value)))), kinds)

    def _issubclass(self, value: object, kinds: object) -> Any:
        for kind in seen_of(value):
            if is_a(kind, type) and kind.__flags__ & HEAP_TYPE and not is_framework(kind):
                key = getattr, id(kind), "__mro__"
                self.add(key, getattr, (kind, "__mro__"), kind.__mro__, f"{kind.__name__}.__mro__")
        classes = [each for kind in seen_of(kinds) for each in _classes_in(kind)]
        if any(is_a(kind, abc.ABCMeta) for kind in classes):
            token = abc.get_cache_token()
            self.add(abc, abc.get_cache_token, (), token, "what ABCMeta.register was told")
        return Unknown()

    def _callable(self, value: object) -> Any:
        self.kind_of(value)
        self.special(value, ("__call__",))
        return Unknown()

    def _dir(self, value: object) -> Any:
        for each in seen_of(value):
            if self.is_outside(each) and not in_python(type(each), "__dir__"):
                what = f"the names in {self.path(each)}"
                self.add((dir, id(each)), names_in, (each,), names_in(each), what)
        return Unknown()

    def kind_of(self, value: object, *_: object) -> Any:
        """Reads the class of an object."""
        for each in seen_of(value):
            kind = type(each)
            may_change = kind.__flags__ & HEAP_TYPE and not is_framework(kind)
            if may_change and not is_a(each, type) and self.is_outside(each):
                key = getattr, id(each), "__class__"
                what = f"the class of {self.path(each)}"
                self.add(key, getattr, (each, "__class__"), kind, what)
        return Unknown()

    def _length(self, value: object) -> Any:
        self.length(value)
        return Unknown()

    def _nothing(self, *_: object) -> Any:
        return Unknown()


#: Makers of functions in C.
_MAKING = (operator.attrgetter, operator.itemgetter, operator.methodcaller)
_EXACT: dict[Any, Callable[..., Any]] = {
    getattr: Reads._getattr,
    hasattr: Reads._getattr,
    setattr: Reads._setattr,
    object.__setattr__: Reads._setattr,
    object.__getattribute__: Reads._getattribute,
    vars: Reads._vars,
    type: Reads._type,
    isinstance: Reads.of_class,
    issubclass: Reads._issubclass,
    callable: Reads._callable,
    dir: Reads._dir,
    len: Reads._length,
    bool: Reads._length,
    id: Reads._nothing,
    operator.getitem: Reads.item,
}


def _classes_in(kinds: object) -> Iterable[object]:
    """The classes of what `isinstance` takes: a class, a union, or tuples of these."""
    parts = kinds if is_a(kinds, tuple) else getattr(kinds, "__args__", None)
    if parts is None or is_a(kinds, type):
        return (kinds,)
    return [each for part in parts for each in _classes_in(part)]


def _getattribute_of(kind: type) -> bool:
    """Returns whether a class may have a way of its own to find attributes."""
    return type.__getattribute__(kind, "__getattribute__") is not object.__getattribute__


def _is_deep(callee: object, name: str) -> bool:
    """Returns whether code in C may read attributes of the objects that it gets."""
    if not is_a(callee, _CALLED):
        # A class, or an object with a method in Python; else one of C, such as a function of NumPy.
        return not is_a(callee, (type, FunctionType, MethodType)) and not in_python(
            type(callee), "__call__"
        )
    kind = callee.__objclass__ if is_a(callee, _UNBOUND) else type(callee.__self__)
    if issubclass(kind, (ModuleType, type(None))):
        return callee.__module__ not in _SHALLOW
    return kind.__module__ != "builtins" or name in ("__reduce_ex__", "__reduce__", "__getstate__")


def _gets_attributes(value: object) -> bool:
    """Returns whether a value is a function in C that reads attributes of its arguments."""
    if is_a(value, functools.partial):
        return _gets_attributes(value.func)
    return is_a(value, _MAKING) or value is getattr or value is hasattr or value is vars


def _fits(exact: Callable[..., Any], args: list[Any]) -> bool:
    code = exact.__code__
    least = code.co_argcount - 1
    return len(args) == least or (bool(code.co_flags & 4) and len(args) >= least)


def _is_of_framework(value: object) -> bool:
    """Returns whether a value is a module of the framework, whose names are constants."""
    return is_a(value, ModuleType) and value.__name__.partition(".")[0] == FRAMEWORK
