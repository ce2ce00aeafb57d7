"""NumPy's functions that join and split arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pullback._numpy.table import Function, routed
from pullback.dtypes import DTypeLike
from pullback.ops import joining
from pullback.ops.conversion import asarray
from pullback.ops.data_types import astype
from pullback.ops.joining import concat
from pullback.ops.manipulation import expand_dims, reshape
from pullback.shapes import canonical_axis
from pullback.tensor import Tensor, TensorLike


def _typed(result: Any, dtype: DTypeLike | None) -> Any:
    return result if dtype is None else astype(result, dtype)


@routed("concatenate")
def _(arrays: Sequence[TensorLike], axis: int | None = 0, dtype: DTypeLike | None = None) -> Any:
    return _typed(concat(arrays, axis=axis), dtype)


@routed("stack")
def _(arrays: Sequence[TensorLike], axis: int = 0, dtype: DTypeLike | None = None) -> Any:
    return _typed(joining.stack(arrays, axis=axis), dtype)


@routed("vstack", "row_stack")
def _(tup: Sequence[TensorLike], dtype: DTypeLike | None = None) -> Any:
    rows = [asarray(a) for a in tup]
    return _typed(concat([reshape(a, (1, -1)) if a.ndim < 2 else a for a in rows], axis=0), dtype)


@routed("hstack")
def _(tup: Sequence[TensorLike], dtype: DTypeLike | None = None) -> Any:
    parts = [asarray(a) for a in tup]
    parts = [reshape(a, (1,)) if a.ndim == 0 else a for a in parts]
    return _typed(concat(parts, axis=0 if parts[0].ndim == 1 else 1), dtype)


def _deep(a: Tensor) -> Any:
    return reshape(a, (1, -1, 1)) if a.ndim < 2 else expand_dims(a, axis=2) if a.ndim == 2 else a


@routed("dstack")
def _(tup: Sequence[TensorLike]) -> Any:
    return concat([_deep(asarray(a)) for a in tup], axis=2)


@routed("column_stack")
def _(tup: Sequence[TensorLike]) -> Any:
    columns = [asarray(a) for a in tup]
    return concat([reshape(a, (-1, 1)) if a.ndim < 2 else a for a in columns], axis=1)


@routed("append")
def _(arr: TensorLike, values: TensorLike, axis: int | None = None) -> Any:
    return concat([asarray(arr), asarray(values)], axis=axis)


@routed("block")
def _(arrays: Sequence[TensorLike]) -> Any:
    def depth(part: object) -> int:
        return 1 + depth(part[0]) if isinstance(part, list) else 0

    def ndims(part: Any) -> int:
        if isinstance(part, list):
            return max([ndims(one) for one in part])
        return int(asarray(part).ndim)

    levels = depth(arrays)
    ndim = max(levels, ndims(arrays))

    def join(part: Any, axis: int) -> Any:
        if isinstance(part, list):
            return concat([join(one, axis + 1) for one in part], axis=axis)
        part = asarray(part)
        return reshape(part, (*[1] * (ndim - part.ndim), *part.shape))

    return join(arrays, -levels)


def _pieces(a: TensorLike, sections: int | Sequence[int], axis: int) -> list[Any]:
    """The pieces of `array_split`, the first ones one element longer where it does not go out."""
    a = asarray(a)
    if not isinstance(sections, int):
        return joining.split(a, [int(one) for one in sections], axis=axis)
    each, more = divmod(a.shape[canonical_axis(axis, a.ndim)], sections)
    stops = [(each + 1) * i if i <= more else each * i + more for i in range(1, sections)]
    return joining.split(a, stops, axis=axis)


@routed("split")
def _(ary: TensorLike, indices_or_sections: int | Sequence[int], axis: int = 0) -> Any:
    return joining.split(ary, indices_or_sections, axis=axis)


@routed("array_split")
def _(ary: TensorLike, indices_or_sections: int | Sequence[int], axis: int = 0) -> Any:
    return _pieces(ary, indices_or_sections, axis)


def _split_along(axis: int) -> Function:
    def split(ary: TensorLike, indices_or_sections: int | Sequence[int]) -> Any:
        ary = asarray(ary)
        along = 0 if axis == 1 and ary.ndim == 1 else axis
        return joining.split(ary, indices_or_sections, axis=along)

    return split


for _name, _axis in {"vsplit": 0, "hsplit": 1, "dsplit": 2}.items():
    routed(_name)(_split_along(_axis))


@routed("unstack")
def _(x: TensorLike, axis: int = 0) -> Any:
    return joining.unstack(x, axis=axis)
