"""Penalties on variables, for `kernel_regularizer`: what they give is among a model's `losses`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from pullback.ops import arithmetic
from pullback.state.serialization import recipe
from pullback.tensor import Tensor
from pullback.variable import Variable

__all__ = ["l1", "l1_l2", "l2"]

Regularizer: TypeAlias = Callable[[Variable], Tensor]


@recipe
def l1(weight: float = 0.01) -> Regularizer:
    """weight * the sum of |v|: values that are not needed become 0 (Tibshirani, 1996).

    >>> pb.layers.regularizers.l1(0.5)(pb.Variable([1.0, -2.0])).item()
    1.5
    """
    return lambda v: arithmetic.abs(v).sum() * weight


@recipe
def l2(weight: float = 0.01) -> Regularizer:
    """weight * the sum of v**2 (Hoerl and Kennard, 1970).

    >>> pb.layers.regularizers.l2(0.5)(pb.Variable([1.0, -2.0])).item()
    2.5
    """
    return lambda v: (v * v).sum() * weight


@recipe
def l1_l2(l1: float = 0.01, l2: float = 0.01) -> Regularizer:
    """Both (Zou and Hastie, 2005).

    >>> pb.layers.regularizers.l1_l2(0.5, 0.5)(pb.Variable([1.0, -2.0])).item()
    4.0
    """

    def penalty(v: Any) -> Any:
        return arithmetic.abs(v).sum() * l1 + (v * v).sum() * l2

    return penalty
