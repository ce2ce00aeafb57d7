"""Reductions in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.backend import Kernel


def _sum(x: Any, *, axis: Any, dtype: Any, keepdims: bool) -> Any:
    return np.add.reduce(x, axis=axis, dtype=dtype, keepdims=keepdims)


KERNELS: dict[str, Kernel] = {"sum": _sum}
