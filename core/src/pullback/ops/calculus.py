"""Helpers shared by the gradient rules of several families. No ops are defined here."""

from __future__ import annotations

from collections.abc import Callable
from types import EllipsisType
from typing import Any

from pullback._dispatch import OpFunction
from pullback._operators import OPERATORS
from pullback.ops import late, selection
from pullback.ops.creation import full
from pullback.tensor import Tensor, TensorLike

__all__ = ["NAMESPACE", "calling", "over", "where", "zeros"]


class _Namespace:
    """The ops as an array API namespace, for the formulas in `pullback._numerics`."""

    def __getattr__(self, name: str) -> Any:
        try:
            return vars(OPERATORS)[name]
        except KeyError:
            raise AttributeError(name) from None


NAMESPACE = _Namespace()


def where(condition: Tensor, x1: TensorLike, x2: TensorLike) -> Tensor:
    """x1 where `condition` is true, x2 elsewhere: the op, for families before its own."""
    return selection.where(condition, x1, x2)


def calling(
    op: OpFunction[..., Tensor], /, *inputs: str | EllipsisType, **attributes: str
) -> Callable[..., Tensor]:
    """A gradient rule that calls one op, as those of an op that is linear in an input.

    Args:
        op: the op.
        inputs: for each input of `op` the name of what the rule asks for; `...` for the cotangent.
        attributes: the same for those attributes of `op` that the rule's op has not.
    """
    named = {one.name: attributes.get(one.name, one.name) for one in op.spec.attributes}

    def rule(cotangent: Tensor, **values: Any) -> Tensor:
        given = [cotangent if isinstance(name, EllipsisType) else values[name] for name in inputs]
        return op(*given, **{name: values[source] for name, source in named.items()})

    asked = [name for name in inputs if not isinstance(name, EllipsisType)]
    vars(rule)["needs"] = (*asked, *named.values())
    return rule


def zeros(g: Tensor) -> Tensor:
    """The cotangent through a function that is constant almost everywhere."""
    return full(g.shape, 0, dtype=g.dtype, device=g.device)


def over(g: Tensor, slope: Tensor) -> Tensor:
    """g / slope, and 0 where g is 0 and the slope is 0 or NaN.

    The inverse of a function that is flat at a point is infinitely steep there (sqrt at 0), and it
    is not defined beyond. A cotangent of 0 must stay 0 there, or one element that `where` did not
    select turns a gradient into NaN.
    """
    return late.slope_quotient(g, slope)
