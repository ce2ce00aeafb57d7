"""`LossTerms`: the losses that a layer adds, by `add_loss` or by regularizers."""

from __future__ import annotations

from typing import Any, Self

__all__ = ["LossTerms"]


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
