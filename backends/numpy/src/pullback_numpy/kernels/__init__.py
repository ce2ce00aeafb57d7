"""NumPy's fast paths, over the kernels of `pullback.array_api`: one file per family of ops."""

from __future__ import annotations

import numpy as np

from pullback import array_api
from pullback.backend import Kernel
from pullback_numpy.kernels import creation, linalg, manipulation, reductions, searching

KERNELS: dict[str, Kernel] = {
    **array_api.kernels(np),
    **creation.KERNELS,
    **linalg.KERNELS,
    **manipulation.KERNELS,
    **reductions.KERNELS,
    **searching.KERNELS,
}
