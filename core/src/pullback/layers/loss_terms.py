"""`LossTerms`: the losses that a layer adds, by `add_loss` or by regularizers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

from pullback._dispatch.recording import announce_call

__all__ = ["LossTerms", "penalties"]


class LossTerms(list[Any]):
    """Losses of one call, or functions that compute penalties.

    Models without any need not look through their layers for them in each step: `ever` is True from
    the first list that this process makes, also by unpickling a layer that had one.
    """

    ever = False

    def __new__(cls, *args: object) -> Self:
        """Makes a list, and remembers that there is one."""
        LossTerms.ever = True
        return super().__new__(cls)


def penalties(functions: Sequence[Callable[[], Any]]) -> list[Any]:
    """The values of the penalties of a layer."""
    for function in functions:
        announce_call(function, "a regularizer")
    return [function() for function in functions]
