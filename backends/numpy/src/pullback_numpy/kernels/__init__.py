"""NumPy's fast paths, over the kernels of `pullback.array_api`: one file per family of ops."""

from __future__ import annotations

import numpy as np

from pullback import array_api
from pullback.plugins.records import Kernel
from pullback_numpy.kernels import (
    activations,
    alignment,
    attention,
    batch_normalization,
    convolution,
    creation,
    cumulative,
    detection,
    distances,
    elementwise,
    factors,
    gelu,
    half,
    indexing,
    linalg,
    manipulation,
    normalization,
    optimizer_updates,
    pointwise,
    pooling,
    random,
    recurrent,
    reductions,
    resizing,
    searching,
    softmax,
    sorting,
    special,
)

# Kernels that run Python code of NumPy, whose warnings the plugin's filter does not catch.
_LOUD = (
    *("cholesky", "det", "eig", "eigh", "eigvals", "eigvalsh", "inv", "qr", "slogdet", "solve"),
    *("svd", "svdvals", "tensordot", "bessel_i", "digamma", "lgamma", "polygamma"),
    *("gamma_density", "gamma_order_slope", "regularized_gamma"),
    *(name for name in array_api.kernels(np) if "fft" in name),
)

KERNELS: dict[str, Kernel] = {
    **array_api.kernels(np),
    **creation.KERNELS,
    **elementwise.KERNELS,
    **special.KERNELS,
    **linalg.KERNELS,
    **factors.KERNELS,
    **distances.KERNELS,
    **manipulation.KERNELS,
    **indexing.KERNELS,
    **reductions.KERNELS,
    **cumulative.KERNELS,
    **searching.KERNELS,
    **sorting.KERNELS,
    **activations.KERNELS,
    **gelu.KERNELS,
    **pointwise.KERNELS,
    **softmax.KERNELS,
    **alignment.KERNELS,
    **convolution.KERNELS,
    **pooling.KERNELS,
    **detection.KERNELS,
    **resizing.KERNELS,
    **random.KERNELS,
    **normalization.KERNELS,
    **batch_normalization.KERNELS,
    **attention.KERNELS,
    **recurrent.KERNELS,
    **optimizer_updates.KERNELS,
}
KERNELS.update({name: linalg.quiet(KERNELS[name]) for name in _LOUD})
#: Those of some dtypes of the first input.
KERNELS_BY_DTYPE = half.kernels(KERNELS)
