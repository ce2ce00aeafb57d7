"""x[key] and x[key] = value for any key that NumPy takes, composed of a few ops.

A key becomes a `Plan`: a canonical key for the part that does not depend on data (`strided_slice`),
and integer tensors for the rest (`take`). If tensors index several axes, these axes are moved
together and merged, and the tensors are combined into indices along the merged axis. The axes of
the indices go where NumPy puts them: in place of the first indexed axis if all indexed axes are
neighbors in the key, else in front.
"""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

import numpy as np

from pullback import dtypes, errors
from pullback._dispatch.arguments import rename
from pullback._dispatch.convert import as_tensor, constant, from_any, from_any_beside
from pullback._dispatch.host_data import SCALAR_TYPES
from pullback._dispatch.plan import keyed_by_first
from pullback._dispatch.recording import RECORDING
from pullback._operators import OPERATORS
from pullback._views import base_of
from pullback.ops.creation import full
from pullback.ops.indexing import index_dtype, ravel_indices, scatter_update, take, taken_shape
from pullback.ops.manipulation import broadcast_to, permute_dims, reshape
from pullback.ops.precision import places_on
from pullback.ops.searching import argwhere
from pullback.ops.selection import where
from pullback.ops.slicing import sliced_shape, strided_slice, strided_update
from pullback.shapes import Shape, broadcast_shapes, size_of
from pullback.spec import OPS, Op
from pullback.tensor import Tensor, TensorLike

__all__: list[str] = []

_EVERYTHING = slice(None)
_PART, _ROWS = OPS["strided_update"], OPS["scatter_update"]


class SubscriptPlan(NamedTuple):
    """The steps for a key on a tensor."""

    #: The canonical key; None if it selects everything.
    basic: tuple[Any, ...] | None
    #: The tensors of the key, each after the first axis that it indexes in the result of `basic`.
    tensors: list[tuple[int, Tensor]]
    #: True if the axes of the indices go in front.
    in_front: bool


def _get(x: Tensor, key: Any) -> Tensor:
    shape = x._array.shape
    kind = type(key)
    # The most frequent keys need no plan.
    if kind is int and shape and -shape[0] <= key < shape[0]:
        return strided_slice(x, key=(key if key >= 0 else key + shape[0], ...))
    if kind is slice and shape:
        return strided_slice(x, key=(_canonical_slice(key, shape[0]), ...))
    if key is None:
        return strided_slice(x, key=(None, ...))
    if kind is tuple and (basic := _without_tensors(key, shape)) is not None:
        return strided_slice(x, key=basic)
    if (found := _along_one(x, key)) is not None:
        merged, index, axis = found
        return take(merged, index, axis=axis)
    plan = _plan(x.shape, key, x)
    if plan.basic is not None:
        x = strided_slice(x, key=plan.basic)
    if not plan.tensors:
        if plan.basic is None:
            whole = x.__copy__()
            whole._base = base_of(x)
            return whole
        return x
    merged, index, axis, _ = _merge(x, plan)
    return take(merged, index, axis=axis)


def _along_one(x: Tensor, key: Any) -> tuple[Tensor, Tensor, int] | None:
    """x with the indexed axes as one, the indices along it and its number, for frequent keys.

    The key is a tensor of integers or booleans for the first axes, a tuple of tensors of integers
    for these, or one such tensor among slices of everything; None for others.
    """
    shape = x._array.shape
    kind = type(key)
    if kind is Tensor and shape:
        if dtypes.kind(key.dtype) == dtypes.INT:
            return x, key, 0
        count = key.ndim
        if key.dtype != dtypes.bool_ or not count or key.shape != shape[:count]:
            return None
        index = reshape(argwhere(key if count == 1 else reshape(key, (-1,))), (-1,))
    elif kind is tuple and 1 < len(key) <= len(shape):
        count = len(key)
        if not all(map(_is_indices, key)):
            axes = [axis for axis, entry in enumerate(key) if not _is_everything(entry)]
            if len(axes) == 1 and _is_indices(key[axes[0]]):
                return x, key[axes[0]], axes[0]
            return None
        index = ravel_indices(key, shape[:count])
    else:
        return None
    merged = x if count == 1 else reshape(x, (size_of(shape[:count]), *shape[count:]))
    return merged, index, 0


def _without_tensors(key: tuple[Any, ...], shape: Shape) -> tuple[Any, ...] | None:
    """The canonical form of a valid key of ints, slices, None and the ellipsis; None for others."""
    basic: list[Any] = []
    axis, selects, dots = 0, False, False
    for number, entry in enumerate(key):
        if entry is None:
            basic.append(None)
            selects = True
            continue
        if entry is ... and not dots:
            dots, later = True, key[number + 1 :]
            rest = len(shape) - axis - len([one for one in later if one is not None])
            if rest < 0:
                return None
            if later:
                basic += [_EVERYTHING] * rest
            axis += rest
            continue
        kind = type(entry)
        if axis == len(shape) or (kind is not int and kind is not slice):
            return None
        size = shape[axis]
        axis += 1
        if kind is slice:
            entry = _canonical_slice(entry, size)
            selects = selects or entry is not _EVERYTHING
        elif -size <= entry < size:
            entry = entry if entry >= 0 else entry + size
            selects = True
        else:
            return None
        basic.append(entry)
    return (*basic, ...) if selects else None


def _set(x: Tensor, key: Any, value: TensorLike) -> Tensor:
    """x with a value at a key: a new tensor, or x itself if its array has been written into."""
    basic = _without_tensors(key if type(key) is tuple else (key,), x.shape)
    if basic is None:
        written = _set_along_one(x, key, value)
        if written is not None:
            return written
    plan = _plan(x.shape, key, x) if basic is None else SubscriptPlan(basic, [], False)
    whole = (...,) if plan.basic is None else plan.basic
    if not plan.tensors:
        ndim = len(sliced_shape(x.shape, whole))
        plain = type(value) in SCALAR_TYPES
        value = value if plain else _trimmed(from_any_beside(value, x), ndim)
        if _writes(_PART, x, value, key=whole):
            return x
        try:
            return strided_update(x, value, key=whole)
        except errors.PullbackError as error:
            raise rename(error, "x[...] = value") from error.__cause__
    values = _into(x, value)
    if plan.basic is None and len(plan.tensors) == 1 and values.size == 1:
        axis, mask = plan.tensors[0]
        if mask.dtype == dtypes.bool_:
            # One value for all elements of the mask: `where` does it, without counting them.
            mask = reshape(mask, (*mask.shape, *[1] * (x.ndim - axis - mask.ndim)))
            return where(mask, reshape(values, ()), x)
    part = x if plan.basic is None else strided_slice(x, key=plan.basic)
    merged, index, axis, order = _merge(part, plan)
    merged = _scattered(merged, index, values, axis)
    if order is None:
        part = reshape(merged, part.shape)
    else:
        part = reshape(merged, tuple([part.shape[moved] for moved in order]))
        part = permute_dims(part, tuple(sorted(range(len(order)), key=order.__getitem__)))
    return part if plan.basic is None else strided_update(x, part, key=plan.basic)


def _set_along_one(x: Tensor, key: Any, value: TensorLike) -> Tensor | None:
    """x with a value at a key that `_along_one` reads; None for other keys."""
    if type(key) is Tensor and key.dtype == dtypes.bool_ and key.shape == x.shape and x.ndim:
        values = _into(x, value)
        if values.size == 1:
            # One value for all elements of the mask: `where` does it, without counting them.
            return where(key, reshape(values, ()) if values.ndim else values, x)
    found = _along_one(x, key)
    if found is None:
        return None
    merged, index, axis = found
    written = _scattered(merged, index, _into(x, value), axis)
    return written if merged is x else reshape(written, x.shape)


def _writes(op: Op, x: Tensor, *values: object, **attributes: object) -> bool:
    """Does what an op does in the array of x, if nothing is recorded and the backend can.

    False where the op has to be called; a call that fails here says what is wrong there.
    """
    device, dtype = x._device, x._array.dtype
    if RECORDING.count:
        return False
    inputs = []
    for value in values:
        if type(value) is Tensor:
            tensor: Tensor | None = value
        else:
            tensor = op.scalars.get((value or repr(value), type(value), device, dtype))
        if tensor is None or tensor._device is not device:
            return False
        inputs.append(tensor._array)
    if inputs[-1].dtype is not dtype:
        return False
    key = dtype if keyed_by_first(op) else (dtype, *[array.dtype for array in inputs])
    try:
        kernel = device.tables[op.index][key]
    except LookupError:  # before the first call
        return False
    update = device.backend.in_place(op.name, kernel)
    if update is None:
        return False
    try:
        update(x, *inputs, **attributes)
    except Exception:
        return False
    x._node = None
    return True


def _scattered(x: Tensor, index: Tensor, values: Tensor, axis: int) -> Tensor:
    """x with values, which are broadcast, at indices along an axis.

    Raises:
        ShapeError: for values of another shape.
    """
    target = taken_shape(x.shape, index.shape, axis=axis)
    values = _trimmed(values, len(target))
    if values.shape != target:
        try:
            fits = not values.ndim or broadcast_shapes(target, values.shape) == target
        except errors.ShapeError:
            fits = False
        if not fits:
            raise errors.ShapeError(
                f"x[...] = value: a value of shape {values.shape} does not broadcast to {target}"
            )
        values = broadcast_to(values, target)
    if _writes(_ROWS, x, index, values, axis=axis):
        return x
    return scatter_update(x, index, values, axis=axis)


def _is_everything(entry: object) -> bool:
    if type(entry) is not slice:
        return False
    return entry.start is None and entry.stop is None and entry.step is None


def _is_indices(entry: object) -> bool:
    return type(entry) is Tensor and dtypes.kind(entry.dtype) == dtypes.INT


OPERATORS.get_item = _get
OPERATORS.set_item = _set


# ---------------------------------------------------------------------------------------------
# Reading a key.


def _plan(shape: Shape, key: Any, x: Tensor) -> SubscriptPlan:
    entries = [_entry(entry, x) for entry in (key if type(key) is tuple else (key,))]
    used = sum(map(_width, entries))
    if used > len(shape):
        raise errors.IndexingError(f"{used} indices for a tensor of {len(shape)} axes {shape}")
    # By identity: == on a tensor is an op.
    ellipses = sum(entry is ... for entry in entries)
    if ellipses > 1:
        raise errors.IndexingError("an index may have only one ellipsis (...)")
    if not ellipses:
        entries.append(...)
    basic: list[Any] = []
    tensors: list[tuple[int, Tensor]] = []
    axis = basic_axis = 0  # the axis in x, and in the result of `basic`
    indexed = []  # the numbers of the entries that are ints, tensors and masks
    for number, entry in enumerate(entries):
        if entry is ...:
            rest = len(shape) - used
            if number + 1 < len(entries):
                basic += [_EVERYTHING] * rest
            axis += rest
            basic_axis += rest
        elif entry is None:
            basic.append(None)
            basic_axis += 1
        elif type(entry) is slice:
            basic.append(_canonical_slice(entry, shape[axis]))
            axis += 1
            basic_axis += 1
        elif type(entry) is int:
            basic.append(_canonical_int(entry, axis, shape))
            indexed.append(number)
            axis += 1
        else:
            indexed.append(number)
            width = _width(entry)
            if entry.dtype == dtypes.bool_:
                entry = _fitting(entry, axis, shape)
            tensors.append((basic_axis, entry))
            if entry.dtype == dtypes.bool_ and not width:
                basic.append(None)
                basic_axis += 1
            basic += [_EVERYTHING] * width
            axis += width
            basic_axis += width
    trivial = all(entry is _EVERYTHING for entry in basic)
    apart = indexed != list(range(indexed[0], indexed[-1] + 1)) if indexed else False
    return SubscriptPlan(None if trivial else (*basic, ...), tensors, apart)


def _entry(entry: Any, x: Tensor) -> Any:
    """One entry of a key as an int, a slice, None, the ellipsis or a tensor."""
    kind = type(entry)
    if kind is int or kind is slice or entry is None or entry is ...:
        return entry
    tensor = as_tensor(entry)
    if tensor is None:
        if isinstance(entry, np.generic) and entry.dtype != dtypes.bool_:
            is_array = False  # NumPy's integers are read as Python's
        else:
            is_array = isinstance(entry, bool | list | tuple) or hasattr(entry, "__array__")
        if is_array:
            empty = isinstance(entry, list | tuple) and not len(entry)
            tensor = from_any(entry, places_on(x.device) if empty else None, x.device)
        else:
            try:
                return operator.index(entry)
            except TypeError:
                raise errors.IndexingError(
                    f"{entry!r} of type {kind.__name__} cannot be an index; use integers, "
                    f"slices, None, ... and tensors of integers or booleans"
                ) from None
    if tensor.dtype != dtypes.bool_:
        try:
            index_dtype(tensor.dtype)
        except errors.DTypeError as error:
            raise errors.IndexingError(str(error)) from None
    return tensor


def _fitting(mask: Tensor, axis: int, shape: Shape) -> Tensor:
    """Checks that a mask has the shape of its axes; an empty mask selects nothing (standard)."""
    masked = shape[axis : axis + mask.ndim]
    if mask.shape == masked:
        return mask
    if any(size not in (0, own) for size, own in zip(mask.shape, masked, strict=True)):
        raise errors.IndexingError(
            f"a mask of shape {mask.shape} does not fit axis {axis} of a tensor of shape {shape}; "
            f"it must have shape {masked}"
        )
    return full(masked, False, device=mask.device)


def _width(entry: object) -> int:
    """The number of axes that an entry indexes."""
    if entry is None or entry is ...:
        return 0
    if type(entry) is Tensor and entry.dtype == dtypes.bool_:
        return entry.ndim
    return 1


def _canonical_slice(entry: slice, size: int) -> slice:
    try:
        start, stop, step = entry.indices(size)
    except (TypeError, ValueError) as error:
        raise errors.IndexingError(f"{entry} must be a slice of integers: {error}") from None
    if step > 0:
        if start == 0 and step == 1 and stop == size:
            return _EVERYTHING
        return slice(start, max(start, stop), step)
    # Python's stop before the first element is -1, which as a bound means the last element.
    if start <= stop:
        return slice(0, 0, 1)
    return slice(start, None if stop < 0 else stop, step)


def _canonical_int(entry: int, axis: int, shape: Shape) -> int:
    size = shape[axis]
    if not -size <= entry < size:
        raise errors.IndexingError(
            f"index {entry} is outside axis {axis} of size {size}, in a tensor of shape {shape}"
        )
    return entry if entry >= 0 else entry + size


# ---------------------------------------------------------------------------------------------
# Tensors in a key.


def _merge(x: Tensor, plan: SubscriptPlan) -> tuple[Tensor, Tensor, int, tuple[int, ...] | None]:
    """x with the indexed axes merged, the indices along that axis, the axis, the order of axes.

    The order is None if no axes of x were moved.
    """
    axes: list[int] = []
    sizes: list[int] = []
    indices: list[Tensor] = []
    for first, tensor in plan.tensors:
        width = 1
        index = tensor
        if tensor.dtype == dtypes.bool_:
            width = max(tensor.ndim, 1)
            index = reshape(argwhere(reshape(tensor, (-1,))), (-1,))
        axes += range(first, first + width)
        sizes.append(size_of(x.shape[first : first + width]))
        indices.append(index)
    order = None
    start = axes[0]
    if plan.in_front and axes != list(range(len(axes))):
        order = (*axes, *[axis for axis in range(x.ndim) if axis not in axes])
        x = permute_dims(x, order)
        start = 0
    if len(axes) > 1:
        x = reshape(x, (*x.shape[:start], size_of(sizes), *x.shape[start + len(axes) :]))
    if len(indices) == 1:
        return x, indices[0], start, order
    return x, ravel_indices(indices, sizes), start, order


def _trimmed(value: Tensor, ndim: int) -> Tensor:
    """A value without leading axes of size 1 beyond `ndim` axes."""
    while value.ndim > ndim and value.shape[0] == 1:
        value = reshape(value, value.shape[1:])
    return value


def _into(x: Tensor, value: TensorLike) -> Tensor:
    """A value as a tensor with the dtype and device of x."""
    number = type(value) if type(value) in SCALAR_TYPES else None
    tensor = x if number else from_any_beside(value, x)
    if dtypes.kind(number or tensor.dtype) > dtypes.kind(x.dtype):
        raise errors.DTypeError(
            f"x[...] = value: values of dtype {number.__name__ if number else tensor.dtype} cannot "
            f"be cast to {x.dtype}, the dtype of x; convert one of them with x.astype(...)"
        )
    return constant(value, x.dtype, x.device) if number else tensor.astype(x.dtype, copy=False)
