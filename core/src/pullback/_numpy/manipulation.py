"""NumPy's functions that rearrange elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pullback import errors
from pullback._numpy.table import Function, Unsupported, flattened, routed
from pullback.dtypes import DTypeLike
from pullback.ops import indexing, manipulation, padding, repeating
from pullback.ops.comparison import not_equal
from pullback.ops.conversion import asarray
from pullback.ops.linalg import linear_algebra
from pullback.ops.manipulation import expand_dims, flip, moveaxis, permute_dims, reshape
from pullback.ops.patterns import eye
from pullback.ops.searching import nonzero
from pullback.ops.selection import where
from pullback.shapes import Axes, Shape, ShapeLike, as_ints, canonical_axis, size_of
from pullback.tensor import Tensor, TensorLike


@routed("reshape")
def _(a: TensorLike, shape: int | Shape) -> Any:
    return reshape(a, shape)


@routed("ravel")
def _(a: TensorLike) -> Any:
    return reshape(a, -1)


@routed("transpose")
def _(a: TensorLike, axes: Sequence[int] | None = None) -> Any:
    a = asarray(a)
    return permute_dims(a, tuple(range(a.ndim))[::-1] if axes is None else as_ints(axes, "axes"))


@routed("matrix_transpose", "linalg.matrix_transpose")
def _(x: TensorLike) -> Any:
    return manipulation.matrix_transpose(x)


@routed("swapaxes")
def _(a: TensorLike, axis1: int, axis2: int) -> Any:
    a = asarray(a)
    order = list(range(a.ndim))
    axis1, axis2 = canonical_axis(axis1, a.ndim), canonical_axis(axis2, a.ndim)
    order[axis1], order[axis2] = order[axis2], order[axis1]
    return permute_dims(a, tuple(order))


@routed("moveaxis")
def _(a: TensorLike, source: int | Shape, destination: int | Shape) -> Any:
    return moveaxis(a, source, destination)


@routed("rollaxis")
def _(a: TensorLike, axis: int, start: int = 0) -> Any:
    a = asarray(a)
    axis = canonical_axis(axis, a.ndim)
    start = start + a.ndim if start < 0 else start
    return moveaxis(a, axis, start - 1 if axis < start else start)


@routed("squeeze")
def _(a: TensorLike, axis: Axes = None) -> Any:
    return manipulation.squeeze(a, axis=axis)


@routed("expand_dims")
def _(a: TensorLike, axis: int | Shape) -> Any:
    return expand_dims(a, axis=axis)


def _with_axes(a: TensorLike, count: int) -> Any:
    a = asarray(a)
    if a.ndim >= count:
        return a
    if count == 3 and a.ndim == 2:
        return expand_dims(a, axis=2)
    if count == 3 and a.ndim == 1:
        return expand_dims(a, axis=(0, 2))
    return reshape(a, (*[1] * (count - a.ndim), *a.shape))


def _at_least(count: int) -> Function:
    def enlarge(*arys: TensorLike) -> Any:
        found = tuple([_with_axes(a, count) for a in arys])
        return found[0] if len(found) == 1 else found

    return enlarge


for _count in (1, 2, 3):
    routed(f"atleast_{_count}d")(_at_least(_count))


@routed("broadcast_to")
def _(array: TensorLike, shape: ShapeLike) -> Any:
    return manipulation.broadcast_to(array, shape if isinstance(shape, tuple) else (shape,))


@routed("broadcast_arrays")
def _(*args: Any) -> Any:
    if any(value is None or isinstance(value, str) for value in args):
        raise Unsupported  # an array of objects, as for the options of a plot
    return manipulation.broadcast_arrays(*args)


@routed("flip")
def _(m: TensorLike, axis: Axes = None) -> Any:
    return flip(m, axis=axis)


@routed("fliplr")
def _(m: TensorLike) -> Any:
    return flip(m, axis=1)


@routed("flipud")
def _(m: TensorLike) -> Any:
    return flip(m, axis=0)


@routed("rot90")
def _(m: TensorLike, k: int = 1, axes: Any = (0, 1)) -> Any:
    m = asarray(m)
    first, second = canonical_axis(axes[0], m.ndim), canonical_axis(axes[1], m.ndim)
    order = list(range(m.ndim))
    order[first], order[second] = second, first
    turns = k % 4
    if turns == 0:
        return m
    if turns == 2:
        return flip(m, axis=(first, second))
    if turns == 1:
        return permute_dims(flip(m, axis=second), tuple(order))
    return flip(permute_dims(m, tuple(order)), axis=second)


@routed("roll")
def _(a: TensorLike, shift: int | Shape, axis: int | Shape | None = None) -> Any:
    return repeating.roll(a, shift, axis=axis)


@routed("tile")
def _(A: TensorLike, reps: int | Sequence[int]) -> Any:
    A = asarray(A)
    reps = (reps,) if isinstance(reps, int) else tuple(reps)
    return repeating.tile(A, (*[1] * (A.ndim - len(reps)), *reps))


@routed("repeat")
def _(a: TensorLike, repeats: TensorLike, axis: int | None = None) -> Any:
    return repeating.repeat(a, repeats, axis=axis)


@routed("resize")
def _(a: TensorLike, new_shape: ShapeLike) -> Any:
    a = reshape(a, -1)
    shape = (new_shape,) if isinstance(new_shape, int) else tuple(new_shape)
    size, length = size_of(shape), a.shape[0]
    if length == 0:
        raise Unsupported("an empty array")
    return reshape(repeating.tile(a, (-(-size // length),))[:size], shape)


@routed("pad")
def _(
    array: TensorLike, pad_width: object, mode: object = "constant", constant_values: object = 0
) -> Any:
    if mode not in ("constant", "edge", "reflect", "symmetric", "wrap"):
        raise Unsupported(f"mode={mode!r}")
    if not isinstance(constant_values, (bool, int, float, complex)):
        raise Unsupported("several constant_values=")
    if isinstance(pad_width, dict):
        raise Unsupported("pad_width= as a dict")
    return padding.pad(array, pad_width, mode=mode, constant_values=constant_values)


@routed("take")
def _(a: TensorLike, indices: TensorLike, axis: int | None = None) -> Any:
    a, axis = flattened(a, axis)
    return indexing.take(a, indices, axis=axis)


@routed("take_along_axis")
def _(arr: TensorLike, indices: TensorLike, axis: int | None = -1) -> Any:
    arr, axis = flattened(arr, axis)
    return indexing.take_along_axis(arr, indices, axis=axis)


@routed("compress")
def _(condition: TensorLike, a: TensorLike, axis: int | None = None) -> Any:
    a, axis = flattened(a, axis)
    return indexing.take(a, nonzero(condition)[0], axis=axis)


@routed("extract")
def _(condition: TensorLike, arr: TensorLike) -> Any:
    return indexing.take(reshape(arr, -1), nonzero(reshape(condition, -1))[0], axis=0)


@routed("trim_zeros")
def _(filt: TensorLike, trim: str = "fb", axis: Axes = None) -> Any:
    filt = asarray(filt)
    if filt.ndim != 1:
        raise Unsupported("an array of several axes")
    present = [int(i) for i in nonzero(not_equal(filt, 0))[0].tolist()]
    if not present:
        return filt[:0]
    start = present[0] if "f" in trim.lower() else 0
    stop = present[-1] + 1 if "b" in trim.lower() else filt.shape[0]
    return filt[start:stop]


@routed("diagonal")
def _(a: TensorLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    return linear_algebra.diagonal(_matrices(a, axis1, axis2), offset=offset)


@routed("trace")
def _(
    a: TensorLike, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: DTypeLike | None = None
) -> Any:
    return linear_algebra.trace(_matrices(a, axis1, axis2), offset=offset, dtype=dtype)


def _matrices(a: TensorLike, axis1: int, axis2: int) -> Tensor:
    """a with these axes last."""
    a = asarray(a)
    there = type(axis1) is type(axis2) is int and (axis1, axis2) == (a.ndim - 2, a.ndim - 1)
    return a if there else moveaxis(a, (axis1, axis2), (-2, -1))


def _diagonal_matrix(v: Tensor, k: int) -> Any:
    n = v.shape[0] + abs(k)
    line = padding.pad(v, (0, abs(k)))
    line = reshape(line, (n, 1) if k >= 0 else (1, n))
    mask = not_equal(eye(n, k=k, dtype=v.dtype, device=v.device), 0)
    return where(mask, line, 0)


@routed("diag")
def _(v: TensorLike, k: int = 0) -> Any:
    v = asarray(v)
    if v.ndim == 1:
        return _diagonal_matrix(v, k)
    if v.ndim != 2:
        raise errors.ShapeError(f"np.diag: an array of 1 or 2 axes, got shape {v.shape}")
    return linear_algebra.diagonal(v, offset=k)


@routed("diagflat")
def _(v: TensorLike, k: int = 0) -> Any:
    return _diagonal_matrix(reshape(v, -1), k)
