"""Creation on the requested device: CuPy itself makes arrays on the current device."""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np

from pullback.dtypes import DType
from pullback.plugins.records import Kernel
from pullback_cupy.typing import Array


def _full(*, shape: tuple[int, ...], fill_value: Any, dtype: DType, device: Any) -> Array:
    with device:
        return cupy.full(shape, bool(fill_value) if dtype.kind == "b" else fill_value, dtype)


def _arange(*, start: Any, stop: Any, step: Any, dtype: DType, device: Any) -> Array:
    with device:
        if type(start) is type(stop) is type(step) is int and dtype.kind in "iu":
            return cupy.arange(start, stop, step, dtype)
        # The length as in the op's rule; start + i * step is nearer than adding steps up.
        length = max(0, -int((start - stop) / step // 1))
        counts = cupy.arange(length, dtype=np.float64)
        return (counts * float(step) + float(start)).astype(dtype, copy=False)


def _bitcast(x: Array, *, dtype: DType, parts: int, whole: int) -> Array:
    y = (x[..., None] if parts > 1 else cupy.ascontiguousarray(x).reshape(x.shape)).view(dtype)
    return y[..., 0] if whole > 1 else y


KERNELS: dict[str, Kernel] = {"arange": _arange, "bitcast": _bitcast, "full": _full}
