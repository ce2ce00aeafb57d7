"""Dtypes that store values and do not compute: they are converted from float32, and back to it."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

float8_e4m3fn: np.dtype[Any] = np.dtype(ml_dtypes.float8_e4m3fn)
float8_e5m2: np.dtype[Any] = np.dtype(ml_dtypes.float8_e5m2)
int4: np.dtype[Any] = np.dtype(ml_dtypes.int4)
uint4: np.dtype[Any] = np.dtype(ml_dtypes.uint4)

STORAGE: tuple[np.dtype[Any], ...] = (float8_e4m3fn, float8_e5m2, int4, uint4)


def storage_message(dtype: object) -> str:
    """The message for a computation with values of a dtype for storage."""
    return f"{dtype} stores values and does not compute; convert with x.astype(pb.float32) first"
