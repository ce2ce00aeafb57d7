"""`tf.keras.utils`."""

from __future__ import annotations

from typing import Any

import pullback as pb
from pullback import dtypes
from pullback.tensor import Tensor

__all__ = ["to_categorical"]


def to_categorical(y: Any, num_classes: int | None = None, dtype: Any = "float32") -> Tensor:
    """One-hot rows of classes by number."""
    classes = pb.asarray(y)
    count = int(pb.max(classes)) + 1 if num_classes is None else num_classes
    return pb.one_hot(classes, count, dtype=dtypes.as_dtype(dtype))
