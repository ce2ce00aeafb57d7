"""The parameters of a captured function, and of the code that is generated for it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from types import FunctionType, MethodType
from typing import Any, NamedTuple

#: What a parameter of generated code has that was not given.
ABSENT = object()
_TAKES_MORE = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS


class FunctionParameters(NamedTuple):
    """The parameters of a captured function.

    Code that is generated for a plain function has the same ones, for packing arguments takes a
    tenth of a small call; that for others takes all arguments.
    """

    #: Of those by position, then of those by keyword alone; `*args` has some with a number.
    names: tuple[str, ...]
    #: How many may be given by position, and how many by position alone.
    positional: int = 0
    unnamed: int = 0
    #: The name of a plain function; "" for others.
    function: str = ""

    @classmethod
    def of(cls, function: Callable[..., Any]) -> FunctionParameters:
        """Those of a function."""
        bound = isinstance(function, MethodType)
        plain = function.__func__ if isinstance(function, MethodType) else function
        if type(plain) is FunctionType and not plain.__code__.co_flags & _TAKES_MORE:
            code, bound = plain.__code__, bound and plain.__code__.co_argcount > 0
            names = code.co_varnames[bound : code.co_argcount + code.co_kwonlyargcount]
            unnamed = max(0, code.co_posonlyargcount - bound)
            return cls(names, code.co_argcount - bound, unnamed, plain.__qualname__)
        return cls(_names_of(function))

    def take(self, count: int, named: Collection[str]) -> bool:
        """Returns whether code for so many arguments by position, and these by name, has them."""
        by_name = {*self.names[max(count, self.unnamed) :]}
        return bool(self.function) and count <= self.positional and by_name.issuperset(named)

    def given(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a call, from the parameters of generated code."""
        count = next((i for i, value in enumerate(args) if value is ABSENT), len(args))
        named = {**dict(zip(self.names[count:], args[count:], strict=False)), **kwargs}
        return args[:count], {name: x for name, x in named.items() if x is not ABSENT}

    def named(self, run: FunctionType) -> FunctionType:
        """Gives generated code the names of the parameters, and of the function for errors."""
        code = run.__code__
        names = self.names + code.co_varnames[len(self.names) :]
        run.__globals__["text"] = code  # tracebacks have the text while this lives
        run.__code__ = code.replace(co_varnames=names, co_qualname=self.function)
        run.__kwdefaults__ = dict.fromkeys(self.names[self.positional :], ABSENT)
        run.__qualname__ = self.function
        return run


def _names_of(function: Callable[..., Any]) -> tuple[str, ...]:
    """The names of the positional parameters of a function, those of `*args` with a number."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return ()
    names: list[str] = []
    for parameter in parameters:
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            return (*names, *(f"{parameter.name}[{i}]" for i in range(64)))
        names.append(parameter.name)
    return tuple(names)
