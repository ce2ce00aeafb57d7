"""Sums over the last axes, in the order in which fused kernels take them."""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np

from pullback import array_api
from pullback.casting import compute_dtype
from pullback.dtypes import DType
from pullback.plugins.records import Kernel
from pullback.shapes import Shape
from pullback_cupy.compile import launch, threads_of_row
from pullback_cupy.namespace import xp
from pullback_cupy.typing import Array

#: Columns of a row that a block sums up: of fewer most of its threads have nothing to do, and of
#: more CuPy divides a row among blocks. Of few rows they may not be that many.
_FEWEST_COLUMNS, _MOST_COLUMNS, _FEW_ROWS, _COLUMNS_OF_FEW = 128, 1 << 16, 16, 1 << 12

_sum_of_cupy = array_api.kernels(xp)["sum"]


def columns_of(shape: Shape, axis: Any, source: DType, result: DType) -> int:
    """The number of terms of each sum, if blocks take the sums; else 0, for those of CuPy.

    Args:
        shape: the shape of what is summed.
        axis: the axes, in order, or None for all.
        source: the dtype of what is summed.
        result: the dtype of the sums.
    """
    axes = tuple(range(len(shape))) if axis is None else axis
    if axes != tuple(range(len(shape) - len(axes), len(shape))):
        return 0
    rows, columns = 1, 1
    for i, size in enumerate(shape):
        rows, columns = (rows, columns * size) if i in axes else (rows * size, columns)
    most = _MOST_COLUMNS if rows >= _FEW_ROWS else _COLUMNS_OF_FEW
    if not (rows and _FEWEST_COLUMNS <= columns <= most) or rows >= 1 << 31:
        return 0
    if "c" in (source.kind, result.kind) or result.kind == "b":
        return 0
    whole = "biu"
    return 0 if result.kind in whole and source.kind not in whole else columns


def sum_dtype(result: DType) -> DType:
    """The dtype in which sums are taken: wide, and of integers without a sign: they overflow."""
    if result.kind in "iu":
        return np.dtype("uint64" if result.itemsize == 8 else "uint32")
    return compute_dtype(result)


def _sum(x: Array, *, axis: Any, dtype: Any, keepdims: bool) -> Array:
    result = _result(x.dtype, dtype)
    columns = columns_of(x.shape, axis, x.dtype, result) if x.flags.c_contiguous else 0
    if not columns:
        return _sum_of_cupy(x, axis=axis, dtype=dtype, keepdims=keepdims)
    kept = x.ndim - (x.ndim if axis is None else len(axis))
    shape = x.shape[:kept] + (1,) * (x.ndim - kept if keepdims else 0)
    y = cupy.empty(shape, result)
    threads = threads_of_row(columns)
    launch("sums", "sum_of_rows", x.size // columns, threads, (x, y, columns),
           T=x.dtype, S=result, A=sum_dtype(result))  # fmt: skip
    return y


def _result(dtype: DType, wanted: Any) -> DType:
    """The dtype of a sum: small integers widen."""
    if wanted is not None:
        made: DType = np.dtype(wanted)
        return made
    if dtype.kind == "b" or dtype.name in ("int8", "int16"):
        return np.dtype("int32")
    return np.dtype("uint32") if dtype.name in ("uint8", "uint16") else dtype


KERNELS: dict[str, Kernel] = {"sum": _sum}
