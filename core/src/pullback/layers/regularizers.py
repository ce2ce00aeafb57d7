"""Penalties on variables, for `kernel_regularizer`; their values are among a model's `losses`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from pullback import _hints, errors
from pullback.ops.arithmetic import abs as absolute
from pullback.state.serialization import recipe
from pullback.tensor import Tensor
from pullback.variable import Variable

__all__ = ["get", "l1", "l1_l2", "l2"]

Regularizer: TypeAlias = Callable[[Variable], Tensor]
RegularizerLike: TypeAlias = "str | Regularizer | None"


def get(value: RegularizerLike) -> Regularizer | None:
    """Returns the regularizer for a name ("l2", with its default weight), or a function.

    Raises:
        InputValueError: for an unknown name.
        InputTypeError: for a value that is neither a name nor a function.
    """
    if value is None:
        return None
    if isinstance(value, str):
        makers: dict[str, Callable[[], Regularizer]] = {"l1": l1, "l2": l2, "l1_l2": l1_l2}
        if value not in makers:
            raise errors.InputValueError(
                f"unknown regularizer {value!r}; use one of {', '.join(makers)}, or a function of "
                f"a variable"
            )
        return makers[value]()
    if not callable(value):
        raise errors.InputTypeError(
            f"a regularizer must be a function of a variable or a name, got {value!r}; write "
            f"pb.layers.regularizers.l2({value!r}) for a weight"
        )
    return value


@recipe
def l1(weight: float = 0.01) -> Regularizer:
    """weight * the sum of |v|, which makes values sparse (Tibshirani, 1996).

    >>> pb.layers.regularizers.l1(0.5)(pb.Variable([1.0, -2.0])).item()
    1.5
    """
    return lambda v: absolute(v).sum() * weight


@recipe
def l2(weight: float = 0.01) -> Regularizer:
    """weight * the sum of v**2 (Hoerl and Kennard, 1970).

    >>> pb.layers.regularizers.l2(0.5)(pb.Variable([1.0, -2.0])).item()
    2.5
    """
    return lambda v: (v * v).sum() * weight


@recipe
def l1_l2(l1: float = 0.01, l2: float = 0.01) -> Regularizer:
    """The sum of both penalties, the elastic net (Zou and Hastie, 2005).

    >>> pb.layers.regularizers.l1_l2(0.5, 0.5)(pb.Variable([1.0, -2.0])).item()
    4.0
    """

    def penalty(v: Variable) -> Tensor:
        total: Tensor = absolute(v).sum() * l1 + (v * v).sum() * l2
        return total

    return penalty


if not TYPE_CHECKING:
    __getattr__ = _hints.answer_module("pullback.layers.regularizers")
