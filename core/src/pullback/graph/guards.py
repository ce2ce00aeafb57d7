"""Guards for what a captured function names outside of its arguments.

Closure cells, globals and the attributes of `self` that are plain values are compared by identity
before each run, numbers and texts by value: a program is for those that it was made with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from pullback._dispatch.recording import AMBIENT
from pullback.graph.host import Guard

_MISSING = object()
_PLAIN = (bool, int, float, complex, str, bytes, type(None))


def guards_of(f: Callable[..., Any]) -> list[Guard]:
    """The guards for all that a function names, with the values of now."""
    guards = [Guard(read, (), read(), what) for read, what in AMBIENT]
    owner: object = None
    function: object = f
    if isinstance(f, MethodType):
        owner, function = f.__self__, f.__func__
    elif not isinstance(f, FunctionType):
        owner, function = f, getattr(type(f).__call__, "__func__", type(f).__call__)
    for inner in _wrapped(function):
        guards += _of_cells(inner)
        guards += _of_globals(inner)
        if owner is not None:
            guards += _of_attributes(owner, inner)
    return guards


def _wrapped(function: object) -> Iterator[FunctionType]:
    """The function, and those that decorators say they have wrapped."""
    while function is not None:
        if isinstance(function, FunctionType):
            yield function
        function = getattr(function, "__wrapped__", None)


def _of_cells(function: FunctionType) -> Iterator[Guard]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            value = cell.cell_contents
        except ValueError:  # a cell that is still empty
            continue
        yield Guard(getattr, (cell, "cell_contents"), value, name)


def _of_globals(function: FunctionType) -> Iterator[Guard]:
    names = function.__globals__
    for name in dict.fromkeys(_names(function.__code__)):
        value = names.get(name, _MISSING)
        if value is not _MISSING and not isinstance(value, ModuleType):
            yield Guard(names.get, (name,), value, f"the global {name}")


def _of_attributes(owner: object, function: FunctionType) -> Iterator[Guard]:
    values = getattr(owner, "__dict__", {})
    for name in dict.fromkeys(_names(function.__code__)):
        if type(values.get(name, _MISSING)) in _PLAIN:
            yield Guard(getattr, (owner, name), values[name], f"self.{name}")


def _names(code: CodeType) -> Iterator[str]:
    """The names of globals and attributes in a function and in those defined in it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
