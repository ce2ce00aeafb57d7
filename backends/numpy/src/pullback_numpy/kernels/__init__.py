"""NumPy's fast paths, over the kernels of `pullback.array_api`: one file per family of ops."""

from __future__ import annotations

import numpy as np

from pullback import array_api
from pullback.backend import Kernel
from pullback_numpy.kernels import (
    activations,
    attention,
    convolution,
    creation,
    cumulative,
    elementwise,
    indexing,
    linalg,
    manipulation,
    normalization,
    optimizer_updates,
    pooling,
    random,
    recurrent,
    reductions,
    searching,
    softmax,
    sorting,
    special,
)

KERNELS: dict[str, Kernel] = {
    **array_api.kernels(np),
    **creation.KERNELS,
    **elementwise.KERNELS,
    **special.KERNELS,
    **linalg.KERNELS,
    **manipulation.KERNELS,
    **indexing.KERNELS,
    **reductions.KERNELS,
    **cumulative.KERNELS,
    **searching.KERNELS,
    **sorting.KERNELS,
    **activations.KERNELS,
    **softmax.KERNELS,
    **convolution.KERNELS,
    **pooling.KERNELS,
    **random.KERNELS,
    **normalization.KERNELS,
    **attention.KERNELS,
    **recurrent.KERNELS,
    **optimizer_updates.KERNELS,
}
