"""NumPy's functions by NumPy's names, made of ops: `pb.numpy.kron(x, y)`.

They take NumPy's arguments, by position and by keyword, and what ops take: tensors, variables,
arrays and numbers in lists. They give tensors, which stay on their device, and tapes record them.
`pullback` itself has the names of the array API standard; here are those that only NumPy has, and
what NumPy's functions of the others' names take beside it, such as `initial=` and `where=`.

>>> pb.numpy.ptp([[1.0, 5.0], [2.0, 3.0]], axis=1).tolist()
[4.0, 1.0]
>>> pb.numpy.sum([1.0, 2.0, 3.0], where=[True, False, True], initial=10.0).item()
14.0
>>> pb.numpy.linalg.norm([3.0, 4.0]).item()
5.0
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable
from math import e, inf, nan, pi
from operator import attrgetter
from typing import Any

import numpy as np

from pullback import _hints, errors
from pullback._dispatch.convert import read
from pullback._numpy.functions import arguments, parameters_of
from pullback._numpy.host import map_tensors, name_of
from pullback._numpy.table import FUNCTIONS, Unsupported
from pullback._numpy.ufuncs import UFUNCS, called

newaxis = None


def _instead(name: str) -> str:
    return f"np.{name} of x.numpy() computes on the host, without a gradient"


def _checked(name: str, call: Callable[..., object]) -> Callable[..., object]:
    """A function that says what to write for arguments that have no equivalent."""

    def checked(*args: object, **kwargs: object) -> object:
        try:
            return call(map_tensors(read, args), map_tensors(read, kwargs))
        except Unsupported as error:
            raise errors.InputTypeError(
                f"pb.numpy.{name} does not take {error}; {_instead(name)}"
            ) from None

    return checked


def _function(name: str) -> Callable[..., object]:
    own, numpys = FUNCTIONS[name], attrgetter(name)(np)

    def call(args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        known = parameters_of(numpys, own)
        unknown = set() if known.named else kwargs.keys() - known.defaults.keys()
        if unknown or (len(args) > len(known.names) and not known.variadic):
            raise errors.InputTypeError(
                f"pb.numpy.{name} takes {', '.join(known.defaults)}; got "
                + (f"{sorted(unknown)}" if unknown else f"{len(args)} arguments by position")
            )
        positional, named = arguments(numpys, own, args, kwargs)
        return own(*positional, **named)

    return _checked(name, call)


def _ufunc(name: str) -> Callable[..., object]:
    return _checked(name, lambda args, kwargs: called(name, args, kwargs))


class Functions:
    """A namespace of NumPy's: `pb.numpy` itself, or `linalg` and `fft` in it."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def __getattr__(self, name: str) -> object:
        full = self._prefix + name
        entry = self._entries().get(name)
        if entry is None:
            close = _hints.close_names(name, dir(self))
            also = f"did you mean {close[0]!r}?" if close else _instead(full)
            raise AttributeError(f"pb.numpy has no {full!r} that is made of ops; {also}", name=name)
        numpys = attrgetter(full)(np)
        function = (_function if entry in FUNCTIONS else _ufunc)(entry)
        with contextlib.suppress(ValueError):  # functions in C have none before NumPy 2.4
            vars(function)["__signature__"] = inspect.signature(numpys)
        function.__name__ = function.__qualname__ = name
        function.__module__ = __name__
        # Below the signature, where a docstring begins with one.
        first, _, rest = (inspect.getdoc(numpys) or "").partition("\n\n")
        told = rest.partition("\n\n")[0] if "(" in first else first
        function.__doc__ = f"NumPy's `{full}` on tensors, made of ops.\n\n{told}"
        vars(self)[name] = function
        return function

    def _entries(self) -> dict[str, str]:
        """By the names that this version of NumPy has, those of the tables: `acos` is `arccos`."""
        space = attrgetter(self._prefix[:-1])(np) if self._prefix else np
        found = {}
        for name, value in vars(space).items():
            if name[0] == "_" or isinstance(value, type) or not hasattr(value, "__name__"):
                continue
            if not callable(value):
                continue  # a module
            entry = name_of(value)
            if entry in UFUNCS or entry in FUNCTIONS:
                found[name] = entry
        return found

    def __dir__(self) -> list[str]:
        return sorted(self._entries())

    def __repr__(self) -> str:
        return f"<NumPy's functions on tensors: pb.numpy.{self._prefix}".rstrip(".") + ">"


_ALL = Functions("")
linalg, fft = Functions("linalg."), Functions("fft.")
__all__ = ["e", "fft", "inf", "linalg", "nan", "newaxis", "pi", *dir(_ALL)]


def __getattr__(name: str) -> Any:
    return getattr(_ALL, name)


def __dir__() -> list[str]:
    return sorted(__all__)
