"""CuPy's fast paths, over the kernels of `pullback.array_api`: one file per family of ops."""

from __future__ import annotations

from pullback import array_api
from pullback.plugins.records import Kernel
from pullback_cupy.kernels import (
    activations,
    attention,
    convolution,
    creation,
    elementwise,
    indexing,
    linalg,
    losses,
    normalization,
    optimizer_updates,
    ordering,
    pooling,
    random,
    recurrent,
    reductions,
    softmax,
)
from pullback_cupy.namespace import xp

KERNELS: dict[str, Kernel] = {
    **array_api.kernels(xp),
    **activations.KERNELS,
    **attention.KERNELS,
    **convolution.KERNELS,
    **creation.KERNELS,
    **elementwise.KERNELS,
    **indexing.KERNELS,
    **linalg.KERNELS,
    **losses.KERNELS,
    **normalization.KERNELS,
    **optimizer_updates.KERNELS,
    **ordering.KERNELS,
    **pooling.KERNELS,
    **random.KERNELS,
    **recurrent.KERNELS,
    **reductions.KERNELS,
    **softmax.KERNELS,
}
