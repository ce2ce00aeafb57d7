"""Checks of what the methods of `Dataset` are called with."""

from __future__ import annotations

from inspect import isgenerator

from pullback import errors
from pullback.shapes import as_int

__all__ = ["at_least", "check_function"]


def at_least(method: str, value: int | None, least: int) -> None:
    """Checks that a number is an integer, and at least `least`; None is allowed.

    Raises:
        InputTypeError: for what is not an integer.
        InputValueError: for a smaller number.
    """
    if value is not None and as_int(value, f"{method}: an integer") < least:
        raise errors.InputValueError(
            f"{method} takes a number that is at least {least}, got {value}"
        )


def check_function(method: str, function: object, takes: str) -> None:
    """Checks that a function can be called; `takes` says what it is for.

    Raises:
        InputTypeError: for anything else, such as the generator that it would make.
    """
    if callable(function):
        return
    called = "; pass the function itself, without ()" if isgenerator(function) else ""
    raise errors.InputTypeError(
        f"{method} takes a function {takes}, got {type(function).__name__}{called}"
    )
