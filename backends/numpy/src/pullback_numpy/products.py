"""Matrix products: large products are split over threads, those of BLAS or ours."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from pullback_numpy import threads
from pullback_numpy.typing import Array, DType
from pullback_numpy.windows import even_ranges

#: BLAS takes a second thread from this many terms on; smaller products go to it unchanged.
_FEW = 1 << 18
_FEW_OF_MATRIX = 8192  # elements, where the other factor is a vector
#: From this many terms on (200 us) a product is worth a second thread, ours or BLAS's. Smaller
#: products would gain little, and on a busy machine they would wait for the second thread longer.
_MANY = 1 << 23
#: The rows whose products `column_products` adds one after another.
_ROWS = 128


def matmul(x1: Array, x2: Array) -> Any:
    """np.matmul of arrays of one dtype."""
    if x1.ndim < 2 or x2.ndim < 2:
        return _with_vector(x1, x2)
    if x1.size * x2.shape[-1] < _FEW:
        return np.matmul(x1, x2)
    if x1.dtype.kind in "iu" and x1.shape[-1] == x2.shape[-2] and _fit_doubles(x1, x2):
        y = matmul(x1.astype(np.float64), x2.astype(np.float64))
        return y.astype(np.int64).astype(x1.dtype)  # which wraps around
    if x1.ndim > 2 and x2.ndim == 2:
        # One product over all rows of the stack instead of one a matrix.
        y = matmul(x1.reshape(-1, x1.shape[-1]), x2)
        return y.reshape(*x1.shape[:-1], x2.shape[1])
    many = x1.size * x2.shape[-1] >= _MANY
    if many and x1.ndim == x2.ndim == 2 and threads.blas_splits():
        return np.matmul(x1, x2)
    with threads.single_blas:
        return _split(x1, x2)


def _fit_doubles(x1: Array, x2: Array) -> bool:
    """True if all sums of products of two arrays of integers are exact in double precision.

    BLAS has no integers, and NumPy's own loop takes five times as long.
    """
    if not x1.size or not x2.size:
        return False
    # By Python's numbers, which do not overflow.
    first, second = (max(int(x.max()), -int(x.min())) for x in (x1, x2))
    terms: int = x1.shape[-1]
    return first * second * terms < 1 << 53


def _with_vector(x1: Array, x2: Array) -> Any:
    if max(x1.size, x2.size) < _FEW_OF_MATRIX:
        return np.matmul(x1, x2)
    # BLAS takes no matrix that repeats a row or a column: NumPy's own loop is ten times slower.
    a, b = (np.ascontiguousarray(x) if 0 in x.strides else x for x in (x1, x2))
    with threads.single_blas:
        return np.matmul(a, b)


def row_totals(x: Array) -> Any:
    """The sums of the rows of a matrix: BLAS adds in several lanes, and starts no loop for each."""
    return _with_vector(x, _ones(x.shape[1], x.dtype))


def column_totals(x: Array) -> Any:
    """The sums of the columns of a matrix."""
    return _with_vector(_ones(x.shape[0], x.dtype), x)


def column_products(a: Array, b: Array) -> Any:
    """The sums of the columns of the products of two matrices."""
    rows = a.shape[0]
    whole = rows - rows % _ROWS
    if not whole:
        return np.einsum("ij,ij->j", a, b)
    blocks = (whole // _ROWS, _ROWS, a.shape[1])
    # One after another, the errors of the sums of thousands of rows add up.
    partial = np.einsum("kij,kij->kj", a[:whole].reshape(blocks), b[:whole].reshape(blocks))
    total = column_totals(partial)
    return total + np.einsum("ij,ij->j", a[whole:], b[whole:]) if whole < rows else total


def _ones(size: int, dtype: DType) -> Array:
    return _kept_ones(size, dtype) if size <= 4096 else np.ones(size, dtype)


@lru_cache(maxsize=256)
def _kept_ones(size: int, dtype: DType) -> Array:
    return np.ones(size, dtype)


def _split(x1: Array, x2: Array) -> Any:
    count = threads.threads()
    rows, columns = x1.shape[-2], x2.shape[-1]
    if count < 2 or x1.dtype.kind not in "fc" or x1.shape[-1] != x2.shape[-2]:
        return np.matmul(x1, x2)
    if x1.ndim > 2 or x2.ndim > 2:
        return _stacked(x1, x2)
    if x1.size * columns < _MANY:
        return np.matmul(x1, x2)
    y = np.empty((rows, columns), x1.dtype)

    def by_rows(part: tuple[int, int]) -> None:
        np.matmul(x1[slice(*part)], x2, out=y[slice(*part)])

    def by_columns(part: tuple[int, int]) -> None:
        np.matmul(x1, x2[:, slice(*part)], out=y[:, slice(*part)])

    threads.run(by_rows if rows >= columns else by_columns, even_ranges(max(rows, columns), count))
    return y


def _stacked(x1: Array, x2: Array) -> Any:
    """Stacks of matrices, some at a time."""
    if x1.shape[:-2] != x2.shape[:-2] or prod(x1.shape) * x2.shape[-1] < _MANY:
        return np.matmul(x1, x2)
    y = np.empty((*x1.shape[:-1], x2.shape[-1]), x1.dtype)

    def work(part: tuple[int, int]) -> None:
        np.matmul(x1[slice(*part)], x2[slice(*part)], out=y[slice(*part)])

    threads.run(work, even_ranges(x1.shape[0], 4 * threads.threads()))
    return y
