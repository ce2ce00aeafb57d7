"""`tf.keras.regularizers`."""

from __future__ import annotations

from pullback.layers import regularizers
from pullback.layers.regularizers import Regularizer

__all__ = ["l1", "l1_l2", "l2"]

l1_l2 = regularizers.l1_l2


def l1(l: float = 0.01) -> Regularizer:  # noqa: E741 (Keras calls it so)
    """The sum of absolute values, times l."""
    return regularizers.l1(l)


def l2(l: float = 0.01) -> Regularizer:  # noqa: E741
    """The sum of squares, times l."""
    return regularizers.l2(l)
