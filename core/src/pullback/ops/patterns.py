"""Identity matrices, triangles, grids and one-hot encodings."""

from __future__ import annotations

import sys
from typing import Literal

from pullback import dtypes, errors
from pullback._dispatch import op
from pullback._dispatch.convert import as_tensors, from_any
from pullback._dispatch.symbolic import takes_symbols
from pullback._hints import answer_calls
from pullback._operators import OPERATORS
from pullback.devices import DeviceLike
from pullback.dtypes import DTypeLike, as_dtype, same
from pullback.ops.comparison import equal, less_equal
from pullback.ops.creation import arange, full
from pullback.ops.manipulation import broadcast_to, expand_dims, reshape
from pullback.ops.selection import where
from pullback.ops.slicing import diagonal_key, diagonal_span, strided_place
from pullback.shapes import Shape, as_int, as_shape
from pullback.spec import EXACT
from pullback.tensor import Tensor, TensorLike

__all__ = ["eye", "meshgrid", "one_hot", "tril", "triu"]


def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
) -> Tensor:
    """A matrix with ones on its k-th diagonal and zeros elsewhere (array API standard).

    Args:
        n_rows: the number of rows.
        n_cols: the number of columns; n_rows if not given.
        k: the diagonal: 0 is the main one, positive ones are above it.
        dtype: the dtype; float32 if not given.
        device: the device of the tensor; the active device if not given.

    Raises:
        ShapeError: for negative sizes.

    >>> pb.eye(2, 3, k=1).tolist()
    [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    rows, columns = as_shape((n_rows, n_rows if n_cols is None else n_cols))
    # Written into zeros: no element is compared.
    length = diagonal_span(rows, columns, k)[1]
    ones = full((length,), 1, dtype=dtypes.DEFAULT_FLOAT if dtype is None else dtype, device=device)
    line = strided_place(ones, shape=(rows * columns,), key=diagonal_key(rows, columns, k))
    return reshape(line, (rows, columns))


def _square(x: Shape, **_: object) -> Shape:
    """The shape of x, of two axes or more."""
    if len(x) < 2:
        raise errors.ShapeError(f"a triangle needs at least two axes, got shape {x}")
    return x


def _below(x: Tensor, k: int) -> Tensor:
    """True where the column is at most the row plus k."""
    rows, columns = _square(x.shape)[-2:]
    k = max(-rows, min(k, columns))
    row = reshape(arange(rows, device=x.device), (rows, 1))
    return less_equal(arange(-k, columns - k, device=x.device), row)


@op(shape=_square, dtype=same, accuracy=EXACT)
def tril(x: Tensor, /, k: int = 0) -> Tensor:
    """The lower triangle of a matrix or a stack of them, zeros above (array API standard).

    Args:
        x: a tensor of at least two axes.
        k: the highest diagonal to keep: 0 is the main one, positive ones are above it.

    Raises:
        ShapeError: for fewer than two axes.

    >>> pb.tril([[1, 2], [3, 4]]).tolist()
    [[1, 0], [3, 4]]
    """
    return where(_below(x, k), x, full((), 0, dtype=x.dtype, device=x.device))


tril.vjp(x=lambda g, k: tril(g, k=k))


@op(shape=_square, dtype=same, accuracy=EXACT)
def triu(x: Tensor, /, k: int = 0) -> Tensor:
    """The upper triangle of a matrix or a stack of them, zeros below (array API standard).

    Args:
        x: a tensor of at least two axes.
        k: the lowest diagonal to keep: 0 is the main one, positive ones are above it.

    Raises:
        ShapeError: for fewer than two axes.

    >>> pb.triu([[1, 2], [3, 4]]).tolist()
    [[1, 2], [0, 4]]
    """
    return where(_below(x, k - 1), full((), 0, dtype=x.dtype, device=x.device), x)


triu.vjp(x=lambda g, k: triu(g, k=k))


def meshgrid(*arrays: TensorLike, indexing: Literal["xy", "ij"] = "xy") -> tuple[Tensor, ...]:
    """One tensor of coordinates for each axis of a grid (array API standard).

    Args:
        arrays: the coordinates along each axis, 1-d (or 0-d) tensors of one dtype.
        indexing: "ij" for matrix indexing; "xy" exchanges the first two axes.

    Raises:
        InputValueError: for an unknown `indexing`.
        ShapeError: for tensors of more than one axis.

    >>> [x.tolist() for x in pb.meshgrid([1, 2], [3, 4, 5], indexing="ij")]
    [[[1, 1, 1], [2, 2, 2]], [[3, 4, 5], [3, 4, 5]]]
    """
    if not isinstance(indexing, str) or indexing not in ("xy", "ij"):
        raise errors.InputValueError(f'meshgrid: indexing must be "xy" or "ij", got {indexing!r}')
    tensors = as_tensors(arrays)
    for tensor in tensors:
        if tensor.ndim > 1:
            raise errors.ShapeError(f"meshgrid: needs 1-d tensors, got shape {tensor.shape}")
    order = list(range(len(tensors)))
    if indexing == "xy" and len(order) > 1:
        order[:2] = [1, 0]
    shape = [0] * len(order)
    for axis, tensor in zip(order, tensors, strict=True):
        shape[axis] = tensor.size
    results = []
    for axis, tensor in zip(order, tensors, strict=True):
        sizes = [1] * len(shape)
        sizes[axis] = tensor.size
        # A copy, as NumPy's: no view that may not be written into.
        results.append(broadcast_to(reshape(tensor, tuple(sizes)), shape).__copy__())
    return tuple(results)


@takes_symbols
def one_hot(
    indices: TensorLike, num_classes: int, /, *, dtype: DTypeLike | None = None, axis: int = -1
) -> Tensor:
    """The one-hot encoding of indices along a new axis.

    An index outside [0, num_classes) is encoded as zeros.

    Args:
        indices: an integer tensor of any shape.
        num_classes: the size of the new axis.
        dtype: the dtype of the result; float32 if not given.
        axis: the position of the new axis in the result.

    Raises:
        DTypeError: for indices that are not integers.
        AxisError: for a position out of range.

    >>> pb.one_hot([0, 2], 3).tolist()
    [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    """
    index = from_any(indices)
    if index.dtype not in dtypes.INTEGER:
        raise errors.DTypeError(f"one_hot: needs integer indices, got {index.dtype}")
    size = as_int(num_classes, "an integer number of classes")
    index = expand_dims(index, axis)
    sizes = [1] * index.ndim
    sizes[axis] = size
    # The classes may not fit into the dtype of the indices.
    wide = index.dtype if index.dtype.itemsize >= 4 else dtypes.DEFAULT_INT
    classes = reshape(arange(size, dtype=wide, device=index.device), tuple(sizes))
    return equal(index, classes).astype(dtypes.DEFAULT_FLOAT if dtype is None else as_dtype(dtype))


OPERATORS.one_hot = one_hot


answer_calls(sys.modules[__name__])
