"""The ops of a sparse matrix: three products, which are each other's gradients.

An entry has a value, a row and a column; `pointers` say where the entries of each row begin, and
where the last ones end. `CSR` has checked them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import pullback as pb
from pullback import dtypes
from pullback.casting import narrowed, widened
from pullback.devices import Device
from pullback.dtypes import DTypeRule, Operands, Resolution
from pullback.shapes import Shape
from pullback.spec import ACCUMULATED
from pullback.tensor import Tensor

__all__ = ["matmul", "sample", "transposed_matmul", "use_own_kernels"]


@DTypeRule
def _numbers(operands: Operands, **_: object) -> Resolution:
    """The first and the last input in one floating dtype, that of the result; indices as is."""
    first, *indices, last = operands
    found = dtypes.floating((first, last))
    kept = dtypes.each("integer")(tuple(indices)).inputs
    return Resolution((found.inputs[0], *kept, found.inputs[1]), found.outputs)


def _rows_of(
    values: Shape, rows: Shape, columns: Shape, pointers: Shape, x: Shape, **_: object
) -> Shape:
    """A row for each row of the matrix."""
    return (pointers[0] - 1, x[1])


def _columns_of(
    values: Shape, rows: Shape, columns: Shape, pointers: Shape, x: Shape, *, size: int
) -> Shape:
    """A row for each column of the matrix."""
    return (size, x[1])


def _entries_of(a: Shape, rows: Shape, columns: Shape, pointers: Shape, b: Shape) -> Shape:
    """A number for each entry."""
    return rows


@pb.op(name="sparse_matmul", shape=_rows_of, dtype=_numbers, accuracy=ACCUMULATED)
def matmul(values: Tensor, rows: Tensor, columns: Tensor, pointers: Tensor, x: Tensor, /) -> Tensor:
    """The matrix times x, whose rows are those of the matrix's columns."""
    terms = pb.expand_dims(widened(values), axis=1) * pb.take(widened(x), columns, axis=0)
    return narrowed(pb.segment_sum(terms, rows, pointers.shape[0] - 1), x)


@pb.op(name="sparse_transposed_matmul", shape=_columns_of, dtype=_numbers, accuracy=ACCUMULATED)
def transposed_matmul(
    values: Tensor, rows: Tensor, columns: Tensor, pointers: Tensor, x: Tensor, /, *, size: int
) -> Tensor:
    """The transposed matrix, which has `size` rows, times x."""
    terms = pb.expand_dims(widened(values), axis=1) * pb.take(widened(x), rows, axis=0)
    return narrowed(pb.segment_sum(terms, columns, size), x)


@pb.op(name="sparse_sample", shape=_entries_of, dtype=_numbers, accuracy=ACCUMULATED)
def sample(a: Tensor, rows: Tensor, columns: Tensor, pointers: Tensor, b: Tensor, /) -> Tensor:
    """The elements of a @ b.T at the places of the entries."""
    terms = pb.take(widened(a), rows, axis=0) * pb.take(widened(b), columns, axis=0)
    return narrowed(pb.sum(terms, axis=1), b)


matmul.vjp(
    values=lambda g, rows, columns, pointers, x: sample(g, rows, columns, pointers, x),
    rows=None, columns=None, pointers=None,
    x=lambda g, values, rows, columns, pointers, x_shape: transposed_matmul(
        values, rows, columns, pointers, g, size=x_shape[0]
    ),
)  # fmt: skip
transposed_matmul.vjp(
    values=lambda g, rows, columns, pointers, x: sample(x, rows, columns, pointers, g),
    rows=None, columns=None, pointers=None,
    x=lambda g, values, rows, columns, pointers: matmul(values, rows, columns, pointers, g),
)  # fmt: skip
sample.vjp(
    a=lambda g, rows, columns, pointers, b: matmul(g, rows, columns, pointers, b),
    rows=None, columns=None, pointers=None,
    b=lambda g, a, rows, columns, pointers, b_shape: transposed_matmul(
        g, rows, columns, pointers, a, size=b_shape[0]
    ),
)  # fmt: skip


# Kernels -----------------------------------------------------------------------------------------


def _matmul(values: Any, rows: Any, columns: Any, pointers: Any, x: Any) -> Any:
    return _scipy(values, columns, pointers, x.shape[0]) @ x


def _transposed_matmul(
    values: Any, rows: Any, columns: Any, pointers: Any, x: Any, *, size: int
) -> Any:
    return _scipy(values, columns, pointers, size).T @ x


def _sample(a: Any, rows: Any, columns: Any, pointers: Any, b: Any) -> Any:
    found = np.empty(rows.size, a.dtype)
    # The rows of so many entries stay in the caches.
    few = max(1, 32768 // max(1, a.shape[1]))
    for i in range(0, rows.size, few):
        part = slice(i, i + few)
        left, right = a.take(rows[part], axis=0), b.take(columns[part], axis=0)
        np.einsum("ij,ij->i", left, right, out=found[part])
    return found


def _scipy(values: Any, columns: Any, pointers: Any, size: int) -> Any:
    import scipy.sparse

    return scipy.sparse.csr_array((values, columns, pointers), shape=(pointers.size - 1, size))


_DTYPES = frozenset(map(np.dtype, ("float32", "float64", "complex64", "complex128")))
_SOURCE = "pullback-sparse"
#: The names of backends whose arrays were looked at.
_seen: set[str] = set()


def use_own_kernels(device: Device) -> None:
    """Has the backend of a device call SciPy's loops and NumPy's, if its arrays are NumPy's."""
    backend = device.backend
    if backend.name in _seen:
        return
    _seen.add(backend.name)
    if backend.name == "numpy":
        for name, kernel in (
            ("sparse_matmul", _matmul),
            ("sparse_transposed_matmul", _transposed_matmul),
            ("sparse_sample", _sample),
        ):
            backend.register_kernel(name, kernel, dtypes=_DTYPES, source=_SOURCE, priority=10)
