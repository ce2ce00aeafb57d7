"""Fused kernels: the calls of a region as one CUDA kernel, which CuPy compiles through NVRTC.

A thread computes all calls of the region for an element, one after the other in registers, and
rounds after each as the kernels do, so the bits are theirs. Sums over the last axes, which may end
a region, are taken by a block for each row in the order of `kernels.reductions`.
"""

from __future__ import annotations

import functools
from typing import Any

import cupy

from pullback.plugins.records import Kernel
from pullback_cupy.compile import ROUNDED, contiguous
from pullback_cupy.fused_ops import Unsupported
from pullback_cupy.fused_source import Source, repeats_a_number
from pullback_cupy.typing import Array

__all__ = ["fuse"]


def fuse(region: Any) -> Kernel | None:
    """A kernel of all calls of a region; None if there is a call that kernels are not made of.

    Args:
        region: a `pullback.graph.passes.regions.Region`.

    Raises:
        Exception: what CuPy raises where the kernel cannot be compiled.
    """
    try:
        source = Source(region)
    except Unsupported:
        return None
    with region.device.native:
        raw = _compiled(source.text)
        constants = tuple(map(_stored, source.constants))
    grid, block, size = (source.blocks,), (source.threads,), source.size
    results = [(value.shape, value.dtype) for value in region.outputs]
    op_by_op, empty = region.op_by_op, cupy.empty

    def kernel(*arrays: Array) -> Any:
        for x in arrays:
            # Of other layouts the results of the calls have other layouts too, by which CuPy sums.
            if not x.flags.c_contiguous:
                return op_by_op(*arrays)
        outputs = tuple([empty(shape, dtype) for shape, dtype in results])
        raw(grid, block, (size, *arrays, *constants, *outputs))
        return outputs if len(outputs) > 1 else outputs[0]

    return kernel


@functools.cache
def _compiled(text: str) -> Any:
    raw = cupy.RawKernel(text, "fused", options=ROUNDED)
    raw.compile()  # an error belongs to `fuse`, which core catches
    return raw


def _stored(constant: Array) -> Array:
    """A constant as kernels read it: contiguous, or the one number that it repeats."""
    if repeats_a_number(constant):
        constant = constant[(slice(0, 1),) * constant.ndim]
    return contiguous(constant)
