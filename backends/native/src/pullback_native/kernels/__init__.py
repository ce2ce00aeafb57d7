"""Kernels of several loops and products, combined in Python: one file per family of ops."""

from __future__ import annotations

from pullback.plugins.records import Kernel
from pullback_native.kernels import (
    assignment,
    attention,
    channels,
    convolution,
    declining,
    fourier,
    logical,
    moments,
    pooling,
    products,
    recurrent,
    resizing,
)

KERNELS: dict[str, Kernel] = {
    **assignment.KERNELS,
    **attention.KERNELS,
    **convolution.KERNELS,
    **declining.KERNELS,
    **fourier.KERNELS,
    **logical.KERNELS,
    **pooling.KERNELS,
    **products.KERNELS,
    **recurrent.KERNELS,
    **resizing.KERNELS,
}
#: What kernels all in C hand over to others than NumPy's of the same op.
FALLBACKS: dict[str, Kernel] = {
    **channels.FALLBACKS,
    **declining.FALLBACKS,
    **moments.FALLBACKS,
    **pooling.FALLBACKS,
}
