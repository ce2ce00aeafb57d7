"""Calls of users' functions with elements of a dataset."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TypeVar

from pullback import errors
from pullback._dispatch.recording import paused
from pullback.data.elements import Element, as_tensors
from pullback.random import Generator

__all__ = ["call", "call_on_tensors", "check_takes_generator"]

R = TypeVar("R")


def call(function: Callable[..., R], element: Element, key: int | None = None) -> R:
    """Calls a function with an element; the parts of a tuple are its arguments.

    Args:
        function: the function.
        element: its argument, or a tuple of arguments.
        key: the key of the generator that it gets as `generator`; None for no generator.

    Raises:
        DataError: if the function raises StopIteration, which would silently end the data.
    """
    more = {} if key is None else {"generator": Generator(key)}
    arguments = element if isinstance(element, tuple) else (element,)
    try:
        with paused():
            return function(*arguments, **more)
    except StopIteration as error:
        raise errors.DataError(
            f"{getattr(function, '__name__', function)} raised StopIteration, which would end the "
            f"data; use take, or filter to drop elements"
        ) from error


def check_takes_generator(function: Callable[..., object]) -> None:
    """Checks that a function takes a generator, which `map` with a seed passes.

    Raises:
        InputTypeError: if it has no such parameter.
    """
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return  # of another language
    if "generator" in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return
    name = getattr(function, "__name__", type(function).__name__)
    raise errors.InputTypeError(
        f"map with a seed passes a generator: give {name} a parameter of that name, "
        f"def {name.strip('<>')}(x, generator): ..., or leave out seed="
    )


def call_on_tensors(function: Callable[..., R], element: Element, key: int | None) -> R:
    """Calls a function with an element whose arrays become tensors."""
    return call(function, as_tensors(element), key)
