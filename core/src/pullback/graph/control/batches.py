"""Branches and loops inside of `pb.vmap`, where each item of a batch may take another way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pullback._dispatch.recording import reject_use
from pullback._tree import leaves, like
from pullback.graph.control.structures import check_alike, tensors
from pullback.ops.arithmetic import clip
from pullback.ops.comparison import equal
from pullback.ops.selection import where
from pullback.tensor import Tensor

_ADVICE = "all of them return one structure, with the same shapes and dtypes"


def chosen(condition: Tensor, one: Any, other: Any) -> Any:
    """The values of one structure for the items where a condition holds, else of another one."""
    pairs = zip(leaves(one), leaves(other), strict=True)
    return like(one, iter([where(condition, x, y) for x, y in pairs]))


def switch(
    name: str, index: Tensor, functions: Sequence[Callable[..., Any]], operands: Sequence[Any]
) -> Any:
    """The results of several functions, for each item of the one that it chooses.

    All of them are called, as the items take different ones, and where values are not known.
    """
    results = [tensors(f(*operands)) for f in functions]
    index = clip(index, 0, len(results) - 1)
    found = results[0]
    for number, result in enumerate(results[1:], 1):
        before, after = "one function returns", "another one"
        check_alike(name, before, found, after, result, _ADVICE)
        found = chosen(equal(index, number), result, found)
    return found


def any_goes_on(goes_on: Tensor) -> bool:
    """Returns whether a loop has to go on for any item; ends a trace, where no values are known."""
    reject_use(
        "calls pb.while_loop inside of pb.vmap, which ends by values",
        "write pb.fori_loop with pb.where",
    )
    return goes_on.device.holds_anywhere(goes_on)
