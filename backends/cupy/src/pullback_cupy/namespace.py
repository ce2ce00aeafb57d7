"""CuPy as a namespace of the array API for `pullback.array_api`."""

from __future__ import annotations

from typing import Any

import cupy
import ml_dtypes
import numpy as np


class Namespace:
    """CuPy, with bfloat16."""

    bfloat16 = np.dtype(ml_dtypes.bfloat16)

    def __getattr__(self, name: str) -> Any:
        return getattr(cupy, name)

    @staticmethod
    def isdtype(dtype: Any, kind: Any) -> bool:
        """`cupy.isdtype`, for bfloat16 too."""
        if dtype == Namespace.bfloat16:
            kinds = kind if isinstance(kind, tuple) else (kind,)
            return any(entry in ("real floating", "numeric", dtype) for entry in kinds)
        return bool(cupy.isdtype(dtype, kind))


xp = Namespace()
