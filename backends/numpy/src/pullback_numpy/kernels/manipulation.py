"""Shapes and creation in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.backend import Kernel


def _reshape(x: Any, *, shape: tuple[int, ...]) -> Any:
    return x.reshape(shape)


def _full(*, shape: tuple[int, ...], fill_value: Any, dtype: Any, device: None) -> Any:
    return np.full(shape, fill_value, dtype)


KERNELS: dict[str, Kernel] = {"full": _full, "reshape": _reshape}
