"""Functions made of ops that keep a call with symbolic tensors as one call, as ops do."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

from pullback import errors

P = ParamSpec("P")
R = TypeVar("R")

#: Such functions by name, for configurations of models.
FUNCTIONS: dict[str, Callable[..., Any]] = {}


def takes_symbols(function: Callable[P, R]) -> Callable[P, R]:
    """Decorates a function of `pb` that is not an op and looks at more of a tensor than ops do."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except errors.SymbolicError as error:
            if error.apply is None:
                raise
            return cast("R", error.apply(call, args, kwargs))

    FUNCTIONS[function.__name__] = call
    return call
