"""Arrays by rows: an axis moved to the end, and slices of rows."""

from __future__ import annotations

import numpy as np

from pullback_numpy.threads import PIECE
from pullback_numpy.typing import Array


def last(x: Array, axis: int) -> Array:
    """x with `axis` moved to the end."""
    return x if axis == x.ndim - 1 else np.moveaxis(x, axis, -1)


def row_pieces(rows: int, columns: int) -> list[slice]:
    """Slices of whole rows that hold about PIECE elements each, whatever the number of threads."""
    step = max(1, PIECE // max(1, columns))
    return [slice(start, min(start + step, rows)) for start in range(0, rows, step)]
