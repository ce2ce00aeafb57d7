"""The precision to which cuBLAS and cuDNN may round float32 inside products.

Products of float16 and of bfloat16 run on tensor cores and are added up in float32. float32 runs on
tensor cores only if it may be rounded to TF32, which keeps 10 of its 23 bits: that is ten times as
fast, and off by default.
"""

from __future__ import annotations

import os

import cupy
import numpy as np

_tf32 = os.environ.get("CUPY_TF32", "0") not in ("", "0")


def tf32() -> bool:
    """Returns whether products may round float32 to TF32."""
    return _tf32


def use_tf32(use: bool = True) -> None:
    """Lets products of matrices, convolution and attention round float32 to TF32, or not."""
    global _tf32
    from cupy._core import _routines_linalg as routines

    kind = routines.COMPUTE_TYPE_TF32 if use else routines.COMPUTE_TYPE_DEFAULT
    cupy._core.set_compute_type(np.float32, kind)
    _tf32 = bool(use)
