"""NumPy's fast paths, over the kernels of `pullback.array_api`: one file per family of ops."""

from __future__ import annotations

import numpy as np

from pullback import array_api
from pullback.backend import Kernel
from pullback_numpy.kernels import manipulation, reductions

KERNELS: dict[str, Kernel] = {
    **array_api.kernels(np),
    **manipulation.KERNELS,
    **reductions.KERNELS,
}
