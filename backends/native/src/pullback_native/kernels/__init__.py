"""Kernels of several loops and products, combined in Python: one file per family of ops."""

from __future__ import annotations

from pullback.plugins.records import Kernel
from pullback_native.kernels import attention, convolution, pooling, products, recurrent, resizing

KERNELS: dict[str, Kernel] = {
    **attention.KERNELS,
    **convolution.KERNELS,
    **pooling.KERNELS,
    **products.KERNELS,
    **recurrent.KERNELS,
    **resizing.KERNELS,
}
