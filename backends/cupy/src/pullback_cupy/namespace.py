"""CuPy as the namespace that `pullback.array_api` makes kernels of, where the two differ."""

from __future__ import annotations

from typing import Any

import cupy
import ml_dtypes
import numpy as np


class Namespace:
    """CuPy; with bfloat16, and with creation on a given device."""

    bfloat16 = np.dtype(ml_dtypes.bfloat16)

    def __getattr__(self, name: str) -> Any:
        return getattr(cupy, name)

    @staticmethod
    def isdtype(dtype: Any, kind: Any) -> bool:
        """CuPy's, which knows no bfloat16."""
        if dtype == Namespace.bfloat16:
            kinds = kind if isinstance(kind, tuple) else (kind,)
            return any(one in ("real floating", "numeric", dtype) for one in kinds)
        return bool(cupy.isdtype(dtype, kind))


xp = Namespace()
