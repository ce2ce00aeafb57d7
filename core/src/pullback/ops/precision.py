"""16-bit floats are too coarse for intermediate steps: bodies of ops compute in float32."""

from __future__ import annotations

from collections.abc import Callable

from pullback import casting, dtypes
from pullback.tensor import Tensor

__all__: list[str] = []

#: x, as float32 if it holds 16-bit floats.
widened: Callable[[Tensor], Tensor] = casting.widened
#: y in the dtype of the second argument, with one rounding.
narrowed: Callable[[Tensor, Tensor], Tensor] = casting.narrowed


def counting(labels: Tensor) -> Tensor:
    """Labels in a dtype that has the number of classes, and any label to ignore, too."""
    return labels.astype(dtypes.int32) if labels.dtype.itemsize < 4 else labels
