"""A backend over `array_api_strict`: the standard and nothing else, so the generic kernels as is.

It holds no 16-bit floats, because that library has none.
"""

from __future__ import annotations

from typing import Any

import array_api_strict as xp
import numpy as np

from pullback import array_api
from pullback.backend import Backend
from pullback.dtypes import ALL


class StrictBackend(Backend):
    """Native arrays are `array_api_strict.Array`."""

    name = "strict"
    version = xp.__version__
    kinds = ("cpu",)
    dtypes = {dtype: getattr(xp, dtype.name) for dtype in ALL if hasattr(xp, dtype.name)}
    kernels = array_api.kernels(xp)

    def from_host(self, array: np.ndarray[Any, Any], device: None, *, copy: bool) -> Any:
        return xp.asarray(array, copy=copy or None)

    def to_host(self, array: Any) -> np.ndarray[Any, Any]:
        host = np.asarray(array)
        host.flags.writeable = False
        return host

    def from_dlpack(self, value: Any, device: None, *, copy: bool | None) -> Any:
        return xp.from_dlpack(value, copy=copy)
