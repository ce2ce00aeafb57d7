"""Linear algebra in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.backend import Kernel


def _matmul(x1: Any, x2: Any) -> Any:
    if x1.dtype.itemsize == 2 and x1.dtype.kind not in "iu":
        # float16 and bfloat16: products and sums in float32, rounded once.
        return _matmul(x1.astype(np.float32), x2.astype(np.float32)).astype(x1.dtype)
    if x1.ndim > 2 and x2.ndim == 2 and x1.size:
        # One product over all rows of the stack instead of one a matrix.
        return np.matmul(x1.reshape(-1, x1.shape[-1]), x2).reshape(*x1.shape[:-1], x2.shape[1])
    return np.matmul(x1, x2)


KERNELS: dict[str, Kernel] = {"matmul": _matmul}
