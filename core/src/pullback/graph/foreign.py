"""Modules, arrays and generators of random numbers that are not the framework's."""

from __future__ import annotations

from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from pullback._once import once_for_each

__all__ = [
    "FRAMEWORK",
    "generator_of",
    "has_drawn",
    "is_foreign_array",
    "is_framework",
    "set_state",
    "state_of",
]

FRAMEWORK = __name__.partition(".")[0]
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
