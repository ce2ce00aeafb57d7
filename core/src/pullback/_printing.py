"""Text of values, as NumPy prints arrays."""

from __future__ import annotations

from typing import Any

import numpy as np


def printed(array: np.ndarray[Any, Any], **options: Any) -> str:
    """The values as NumPy prints them."""
    if array.dtype.kind not in "biufc":
        # NumPy would print the 16-bit floats of ml_dtypes as if they were integers.
        array = array.astype("float32")
    return np.array2string(array, **options)
