"""NumPy's functions that choose among arrays, or call functions on parts of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pullback import errors
from pullback._numpy.table import Function, Unsupported, routed
from pullback.ops.comparison import equal, not_equal
from pullback.ops.conversion import asarray
from pullback.ops.creation import zeros_like
from pullback.ops.joining import concat, stack
from pullback.ops.manipulation import broadcast_to, expand_dims, moveaxis, reshape
from pullback.ops.selection import where
from pullback.shapes import canonical_axis
from pullback.tensor import TensorLike


@routed("choose")
def _(a: TensorLike, choices: Sequence[TensorLike]) -> Any:
    a = asarray(a)
    if a.size and not 0 <= int(a.min()) <= int(a.max()) < len(choices):
        raise errors.InputValueError(f"np.choose: a must be in [0, {len(choices) - 1}]")
    result = asarray(choices[0])
    for i in range(1, len(choices)):
        result = where(equal(a, i), choices[i], result)
    return result


@routed("piecewise")
def _(
    x: TensorLike, condlist: TensorLike, funclist: Sequence[Any], *args: object, **kw: object
) -> Any:
    x = asarray(x)
    conditions = condlist if isinstance(condlist, (list, tuple)) else [condlist]
    masks = [broadcast_to(not_equal(one, 0), x.shape) for one in conditions]
    if len(funclist) == len(masks) + 1:
        rest = ~masks[0]
        for mask in masks[1:]:
            rest = rest & ~mask
        masks.append(rest)
    if len(funclist) != len(masks):
        raise errors.InputValueError(
            f"np.piecewise: {len(masks)} conditions need as many functions, or one more, "
            f"got {len(funclist)}"
        )
    result = zeros_like(x)
    for mask, function in zip(masks, funclist, strict=True):
        result[mask] = function(x[mask], *args, **kw) if callable(function) else function
    return result


@routed("apply_over_axes")
def _(func: Function, a: TensorLike, axes: int | Sequence[int]) -> Any:
    a = asarray(a)
    for axis in (axes,) if isinstance(axes, int) else axes:
        axis = canonical_axis(axis, a.ndim)
        result = asarray(func(a, axis))
        a = result if result.ndim == a.ndim else expand_dims(result, axis=axis)
    return a


@routed("apply_along_axis")
def _(func1d: Function, axis: int, arr: TensorLike, *args: object, **kwargs: object) -> Any:
    arr = asarray(arr)
    axis = canonical_axis(axis, arr.ndim)
    lines = moveaxis(arr, axis, -1)
    outer = lines.shape[:-1]
    lines = reshape(lines, (-1, lines.shape[-1]))
    if not lines.shape[0]:
        raise Unsupported("an empty array")
    found = stack([asarray(func1d(lines[i], *args, **kwargs)) for i in range(lines.shape[0])])
    inner = found.shape[1:]
    found = reshape(found, (*outer, *inner))
    # The axes of what the function returns are where the line was.
    places = tuple(range(axis, axis + len(inner)))
    return moveaxis(found, tuple(range(len(outer), len(outer) + len(inner))), places)


def _dropped(obj: slice | TensorLike, size: int) -> set[int]:
    """The positions that `delete` leaves out."""
    if isinstance(obj, slice):
        return {*range(*obj.indices(size))}
    found = asarray(obj).tolist()
    found = found if isinstance(found, list) else [found]
    if found and type(found[0]) is bool:
        return {i for i, drop in enumerate(found) if drop}
    for one in found:
        if not -size <= one < size:
            raise errors.IndexingError(f"np.delete: index {one} is outside of an axis of {size}")
    return {one % size for one in found}


@routed("delete")
def _(arr: TensorLike, obj: slice | TensorLike, axis: int | None = None) -> Any:
    arr = reshape(arr, -1) if axis is None else moveaxis(arr, axis, 0)
    dropped = _dropped(obj, arr.shape[0])
    kept = arr[[i for i in range(arr.shape[0]) if i not in dropped]]
    return kept if axis is None else moveaxis(kept, 0, axis)


@routed("insert")
def _(arr: TensorLike, obj: object, values: TensorLike, axis: int | None = None) -> Any:
    arr = reshape(arr, -1) if axis is None else moveaxis(arr, axis, 0)
    values = asarray(values, dtype=arr.dtype)
    if not isinstance(obj, int) or values.ndim > arr.ndim - 1:
        raise Unsupported("several positions or slices")
    size = arr.shape[0]
    if not -size <= obj <= size:
        raise errors.IndexingError(f"np.insert: index {obj} is outside of an axis of {size}")
    place = obj + size if obj < 0 else obj
    one = broadcast_to(values, (1, *arr.shape[1:]))
    joined = concat([arr[:place], one, arr[place:]], axis=0)
    return joined if axis is None else moveaxis(joined, 0, axis)
