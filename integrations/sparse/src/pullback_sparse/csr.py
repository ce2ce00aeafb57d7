"""`CSR`: a sparse matrix by its rows."""

from __future__ import annotations

from typing import Any

import numpy as np

import pullback as pb
from pullback import dtypes, errors
from pullback.tensor import Tensor, TensorLike
from pullback_sparse.products import matmul, transposed_matmul, use_own_kernels

__all__ = ["CSR"]


class CSR:
    """A sparse matrix (rows, columns), to be multiplied with dense ones.

    Args:
        values: the values of the entries, row by row: floating numbers, or a variable of them.
        columns: the column of each entry, integers, in any order within a row. Entries of one
            place are added.
        pointers: where the entries of each row begin, and where the last ones end:
            integers (rows + 1,).
        shape: (rows, columns).

    >>> matrix = CSR([1.0, 2.0, 3.0], [0, 2, 1], [0, 2, 2, 3], (3, 3))
    >>> (matrix @ pb.asarray([1.0, 10.0, 100.0])).tolist()
    [201.0, 0.0, 30.0]
    >>> (matrix.T @ pb.ones(3)).tolist(), (pb.ones((1, 3)) @ matrix).tolist()
    ([1.0, 3.0, 2.0], [[1.0, 3.0, 2.0]])

    Raises:
        ShapeError: for parts that do not fit the shape.
        IndexingError: for columns outside the matrix, or pointers that descend.
        DTypeError: for values that are not floating, or places that are not integers.
    """

    #: NumPy leaves `x @ matrix` to the matrix.
    __array_ufunc__ = None

    def __init__(
        self, values: TensorLike, columns: TensorLike, pointers: TensorLike, shape: tuple[int, int]
    ) -> None:
        self.values = values if isinstance(values, pb.Variable) else pb.asarray(values)
        self.shape = _checked_shape(shape)
        device = self.values.device
        self.columns = _places("columns", columns, device)
        self.pointers = _places("pointers", pointers, device)
        use_own_kernels(device)
        entries, (size, width) = self.columns.shape[0], self.shape
        if not dtypes.is_floating(self.values.dtype) and not dtypes.is_complex(self.values.dtype):
            raise errors.DTypeError(
                f"values must be floating numbers, got {self.values.dtype}; write "
                f"values.astype(pb.float32)"
            )
        if self.values.shape != (entries,) or self.pointers.shape != (size + 1,):
            raise errors.ShapeError(
                f"a matrix {self.shape} has as many values as columns and {size + 1} pointers, got "
                f"values {self.values.shape}, columns {self.columns.shape} and pointers "
                f"{self.pointers.shape}"
            )
        ends, found = self.pointers.numpy(), self.columns.numpy()
        counts = np.diff(ends)
        if ends[0] != 0 or ends[-1] != entries or (counts < 0).any():
            raise errors.IndexingError(
                f"pointers must ascend from 0 to the number of entries, {entries}"
            )
        if entries and (found.min() < 0 or found.max() >= width):
            raise errors.IndexingError(f"columns must be in [0, {width})")
        self.rows = pb.asarray(np.repeat(np.arange(size, dtype=ends.dtype), counts), device=device)
        self._transposed = False

    @classmethod
    def from_scipy(cls, matrix: Any) -> CSR:
        """The same matrix, of a sparse one of SciPy or CuPy in any format.

        Raises:
            InputTypeError: for an object without `tocsr`.

        >>> import scipy.sparse
        >>> CSR.from_scipy(scipy.sparse.eye_array(2)) @ pb.asarray([3.0, 4.0])
        Tensor([3., 4.], shape=(2,), dtype=float64, device=cpu:0)
        """
        if not hasattr(matrix, "tocsr"):
            raise errors.InputTypeError(
                f"matrix must be a sparse matrix of SciPy or CuPy, got {type(matrix).__name__}; "
                f"write CSR.from_scipy(scipy.sparse.csr_array(matrix))"
            )
        csr = matrix.tocsr()
        return cls(pb.asarray(csr.data), pb.asarray(csr.indices), pb.asarray(csr.indptr), csr.shape)

    @classmethod
    def from_coo(
        cls, values: TensorLike, rows: TensorLike, columns: TensorLike, shape: tuple[int, int]
    ) -> CSR:
        """A matrix of entries in any order, whose values may have a gradient.

        Raises:
            IndexingError: for rows or columns outside the matrix.

        >>> CSR.from_coo([1.0, 2.0], [1, 0], [0, 1], (2, 2)).to_dense().tolist()
        [[0.0, 2.0], [1.0, 0.0]]
        """
        size, _ = _checked_shape(shape)
        numbers = pb.asarray(values)
        row, column = (_places(n, x, None) for n, x in (("rows", rows), ("columns", columns)))
        if not numbers.shape == row.shape == column.shape:
            raise errors.ShapeError(
                f"there must be a row and a column for each value, got values {numbers.shape}, "
                f"rows {row.shape} and columns {column.shape}"
            )
        found = row.numpy()
        if found.size and (found.min() < 0 or found.max() >= size):
            raise errors.IndexingError(f"rows must be in [0, {size})")
        order = np.argsort(found, kind="stable")
        counts = np.bincount(found, minlength=size)
        pointers = np.concatenate([[0], np.cumsum(counts)]).astype(found.dtype)
        return cls(pb.take(numbers, order), column.numpy()[order], pointers, shape)

    def with_values(self, values: TensorLike) -> CSR:
        """A matrix with other values at the same places.

        Raises:
            ShapeError: for another number of values.

        >>> matrix = CSR([1.0, 2.0], [0, 1], [0, 1, 2], (2, 2))
        >>> pb.grad(lambda v: pb.sum(matrix.with_values(v) @ pb.asarray([3.0, 4.0])))([1.0, 1.0])
        Tensor([3., 4.], shape=(2,), dtype=float32, device=cpu:0)
        """
        new = values if isinstance(values, pb.Variable) else pb.asarray(values)
        if new.shape != self.values.shape:
            raise errors.ShapeError(f"values must have shape {self.values.shape}, got {new.shape}")
        return self._with(values=new)

    @property
    def T(self) -> CSR:
        """The transposed matrix, which has the same parts."""
        return self._with(shape=self.shape[::-1], _transposed=not self._transposed)

    def _with(self, **changes: Any) -> CSR:
        made = object.__new__(CSR)
        vars(made).update(vars(self), **changes)
        return made

    def __matmul__(self, x: TensorLike) -> Tensor:
        dense = pb.asarray(x)
        if dense.ndim not in (1, 2) or dense.shape[0] != self.shape[1]:
            raise errors.ShapeError(
                f"a matrix {self.shape} is multiplied with a vector or matrix of {self.shape[1]} "
                f"rows, got {dense.shape}; for a batch of them write pb.vmap"
            )
        table = dense if dense.ndim == 2 else pb.reshape(dense, (-1, 1))
        parts: Any = (self.values, self.rows, self.columns, self.pointers, table)
        y: Tensor = (
            transposed_matmul(*parts, size=self.shape[0]) if self._transposed else matmul(*parts)
        )
        return y if dense.ndim == 2 else pb.reshape(y, (-1,))

    def __rmatmul__(self, x: TensorLike) -> Tensor:
        dense = pb.asarray(x)
        if dense.ndim not in (1, 2) or dense.shape[-1] != self.shape[0]:
            raise errors.ShapeError(
                f"a vector or matrix of {self.shape[0]} columns is multiplied with a matrix "
                f"{self.shape}, got {dense.shape}; for a batch of them write pb.vmap"
            )
        if dense.ndim == 1:
            return self.T @ dense
        return pb.permute_dims(self.T @ pb.permute_dims(dense, (1, 0)), (1, 0))

    def to_dense(self) -> Tensor:
        """The matrix as a tensor, through which gradients flow."""
        y: Tensor = self @ pb.eye(self.shape[1], dtype=self.values.dtype, device=self.values.device)
        return y

    def to_scipy(self) -> Any:
        """The matrix as a `scipy.sparse.csr_array`, or for a transposed one a `csc_array`."""
        import scipy.sparse

        parts = [np.asarray(part.numpy()) for part in (self.values, self.columns, self.pointers)]
        make = scipy.sparse.csc_array if self._transposed else scipy.sparse.csr_array
        return make(tuple(parts), shape=self.shape)

    def __repr__(self) -> str:
        return (
            f"<CSR {self.shape}, {self.values.shape[0]} entries, {self.values.dtype}"
            f"{', transposed' * self._transposed}>"
        )


def _checked_shape(shape: Any) -> tuple[int, int]:
    try:
        size, width = (int(n) for n in shape)
    except (TypeError, ValueError):
        raise errors.InputTypeError(
            f"shape must be two sizes, (rows, columns), got {shape!r}"
        ) from None
    if size < 0 or width < 0:
        raise errors.ShapeError(f"shape must have sizes of 0 or more, got {shape!r}")
    return size, width


def _places(name: str, places: TensorLike, device: Any) -> Tensor:
    found = pb.asarray(places, device=device)
    if not found.size:
        found = found.astype(pb.int64)
    if found.ndim != 1:
        raise errors.ShapeError(f"{name} must be a vector, got shape {found.shape}")
    if found.dtype not in (pb.int32, pb.int64):
        raise errors.DTypeError(f"{name} must be int32 or int64, got {found.dtype}")
    return found
