"""Functions made of ops that keep a call with symbolic tensors as one call, as ops do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pullback._hints import answering

F = TypeVar("F", bound=Callable[..., Any])

#: Such functions by name, for configurations of models.
FUNCTIONS: dict[str, Callable[..., Any]] = {}


def takes_symbols(function: F) -> F:
    """Decorates a function of `pb` that is not an op and looks at more of a tensor than ops do."""
    call = answering(function, keeps_symbols=True)
    FUNCTIONS[function.__name__] = call
    return call
