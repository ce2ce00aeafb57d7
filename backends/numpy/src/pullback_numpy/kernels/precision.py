"""Kernels for wide floats, made to serve the 16-bit ones too."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback import dtypes

SHORT = frozenset([dtypes.float16, dtypes.bfloat16])


def wide(x: Any) -> Any:
    """x, in float32 where it holds 16-bit floats."""
    return x.astype(np.float32) if x.dtype in SHORT else x


def like(y: Any, x: Any) -> Any:
    """y in the dtype of x."""
    return y if y.dtype == x.dtype else y.astype(x.dtype)


def last(x: Any, axis: int) -> Any:
    """x with `axis` moved to the end."""
    return x if axis == x.ndim - 1 else np.moveaxis(x, axis, -1)


#: Elements of a piece: several float32 arrays of this size stay in a second-level cache, so that
#: all passes over a piece but the first read from there.
PIECE = 65536


def row_pieces(rows: int, columns: int) -> list[slice]:
    """Slices of whole rows that hold about PIECE elements each."""
    return pieces(rows, max(1, PIECE // max(1, columns)))


def pieces(size: int, step: int = PIECE) -> list[slice]:
    """Slices of `step` elements, the last one of what is left."""
    return [slice(start, min(start + step, size)) for start in range(0, size, step)]
