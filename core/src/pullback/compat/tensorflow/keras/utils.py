"""`tf.keras.utils`."""

from __future__ import annotations

from typing import Any

from pullback import dtypes
from pullback.tensor import CALL, Tensor

__all__ = ["to_categorical"]


def to_categorical(y: Any, num_classes: int | None = None, dtype: Any = "float32") -> Tensor:
    """One-hot rows of classes by number."""
    classes = CALL["asarray"](y)
    count = int(CALL["max"](classes)) + 1 if num_classes is None else num_classes
    return CALL["one_hot"](classes, count, dtype=dtypes.as_dtype(dtype))
