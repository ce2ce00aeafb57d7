"""Making tensors, their shapes, and parts of them."""

from __future__ import annotations

import builtins
import math

import numpy as np
from keras.src.backend import config
from keras.src.backend.common.backend_utils import canonicalize_axis

import pullback as pb
from keras_pullback.src.ops.core import (
    BOOL,
    NUMBERS,
    cast,
    convert_to_numpy,
    convert_to_tensor,
    name_of,
    numeric,
    result,
    same,
    to,
)


def array(x, dtype=None):
    return convert_to_tensor(x, dtype)


# Making tensors -----------------------------------------------------------------------------------


def _dtype(dtype):
    return config.floatx() if dtype is None else cast(0, dtype).dtype


def ones(shape, dtype=None):
    return pb.ones(sizes_of(shape), dtype=_dtype(dtype))


def zeros(shape, dtype=None):
    return pb.zeros(sizes_of(shape), dtype=_dtype(dtype))


def empty(shape, dtype=None):
    return zeros(shape, dtype)


def full(shape, fill_value, dtype=None):
    return pb.broadcast_to(cast(fill_value, dtype or config.floatx()), sizes_of(shape))


def sizes_of(shape):
    if isinstance(shape, pb.Tensor):
        shape = shape.tolist()
    return (int(shape),) if isinstance(shape, (int, np.integer)) else tuple(int(n) for n in shape)


def _like(x, dtype):
    x = convert_to_tensor(x)
    return x, name_of(x) if dtype is None else dtype


def ones_like(x, dtype=None):
    x, dtype = _like(x, dtype)
    return cast(pb.ones_like(x), dtype)


def zeros_like(x, dtype=None):
    x, dtype = _like(x, dtype)
    return cast(pb.zeros_like(x), dtype)


empty_like = zeros_like


def full_like(x, fill_value, dtype=None):
    x, dtype = _like(x, dtype)
    return pb.broadcast_to(cast(fill_value, dtype), x.shape)


def arange(start, stop=None, step=None, dtype=None):
    given = [x for x in (start, stop, step) if x is not None]
    if dtype is None:
        dtype = result(*(given_kind(x) for x in given))
    numbers = [
        x if x is None or isinstance(x, NUMBERS) else convert_to_tensor(x).item()
        for x in (start, stop, step)
    ]
    start, stop, step = numbers
    if stop is None:
        start, stop = 0, start
    return cast(pb.arange(start, stop, 1 if step is None else step), dtype)


def given_kind(x):
    return type(x) if isinstance(x, NUMBERS) else name_of(convert_to_tensor(x))


def linspace(start, stop, num=50, endpoint=True, retstep=False, dtype=None, axis=0):
    if dtype is None:
        dtype = result(given_kind(start), given_kind(stop), float)
    wide = "float64" if dtype == "float64" else "float32"
    start, stop = pb.broadcast_arrays(cast(start, wide), cast(stop, wide))
    count = num - 1 if endpoint else num
    step = (stop - start) / count if count > 0 else stop - start
    if num == 0:
        values = pb.zeros((0, *start.shape), dtype=wide)
    else:
        positions = pb.reshape(pb.arange(num, dtype=wide), (-1,) + (1,) * start.ndim)
        values = start + positions * step
        if endpoint and num > 1:
            last = positions == num - 1
            values = pb.where(last, stop, values)
    if "int" in dtype:
        values = pb.floor(values)
    values = cast(pb.moveaxis(values, 0, axis), dtype)
    return (values, cast(step, dtype)) if retstep else values


def logspace(start, stop, num=50, endpoint=True, base=10, dtype=None, axis=0):
    if dtype is None:
        dtype = result(given_kind(start), given_kind(stop), float)
    exponents = linspace(start, stop, num, endpoint, dtype="float32", axis=axis)
    return cast(pb.pow(cast(base, "float32"), exponents), dtype)


def geomspace(start, stop, num=50, endpoint=True, dtype=None, axis=0):
    start, stop = convert_to_tensor(start, "float32"), convert_to_tensor(stop, "float32")
    sign = pb.sign(start)
    values = pb.exp(linspace(pb.log(start * sign), pb.log(stop * sign), num, endpoint, axis=0))
    return cast(pb.moveaxis(values * sign, 0, axis), dtype or config.floatx())


def eye(N, M=None, k=0, dtype=None):
    return pb.eye(int(N), None if M is None else int(M), k=int(k), dtype=_dtype(dtype))


def identity(n, dtype=None):
    return eye(n, dtype=dtype)


def tri(N, M=None, k=0, dtype=None):
    return cast(pb.tril(pb.ones((N, N if M is None else M)), k), dtype or config.floatx())


def vander(x, N=None, increasing=False):
    x = convert_to_tensor(x)
    powers = pb.arange(x.shape[0] if N is None else N)
    powers = powers if increasing else pb.flip(powers)
    wide = to(x, result(name_of(x), "float32"))
    return to(pb.pow(pb.expand_dims(wide, -1), powers.astype(wide.dtype)), result(name_of(x)))


def _window(function):
    return lambda x, *rest: convert_to_tensor(function(int(x), *rest), config.floatx())


bartlett = _window(np.bartlett)
blackman = _window(np.blackman)
hamming = _window(np.hamming)
hanning = _window(np.hanning)
kaiser = _window(lambda n, beta: np.kaiser(n, float(beta)))


def meshgrid(*x, indexing="xy"):
    return list(pb.meshgrid(*(convert_to_tensor(v) for v in x), indexing=indexing))


# Shapes -------------------------------------------------------------------------------------------


def ndim(x):
    return convert_to_tensor(x).ndim


def size(x):
    return math.prod(convert_to_tensor(x).shape)


def broadcast_to(x, shape):
    return pb.broadcast_to(convert_to_tensor(x), sizes_of(shape))


def expand_dims(x, axis):
    return pb.expand_dims(convert_to_tensor(x), axes_of(axis))


def axes_of(axis):
    return tuple(axis) if isinstance(axis, list) else axis


def flip(x, axis=None):
    return pb.flip(convert_to_tensor(x), axes_of(axis))


def fliplr(x):
    return flip(x, 1)


def flipud(x):
    return flip(x, 0)


def moveaxis(x, source, destination):
    return pb.moveaxis(convert_to_tensor(x), axes_of(source), axes_of(destination))


def swapaxes(x, axis1, axis2):
    x = convert_to_tensor(x)
    order = list(range(x.ndim))
    order[axis1], order[axis2] = order[axis2], order[axis1]
    return pb.permute_dims(x, tuple(order))


def ravel(x):
    return pb.reshape(convert_to_tensor(x), (-1,))


def reshape(x, newshape):
    return pb.reshape(convert_to_tensor(x), sizes_of(newshape))


def roll(x, shift, axis=None):
    x = convert_to_tensor(x)
    places = 0 if axis is None else convert_to_numpy(axis)
    # NumPy broadcasts the two, and adds up the shifts of an axis.
    shifts, places = (
        v.ravel().tolist() for v in np.broadcast_arrays(convert_to_numpy(shift), places)
    )
    if axis is None:
        return pb.roll(x, builtins.sum(shifts))
    return pb.roll(x, tuple(shifts), tuple(places))


def rot90(array, k=1, axes=(0, 1)):
    array = convert_to_tensor(array)
    if array.ndim < 2:
        raise ValueError(f"Input array must have at least 2 dimensions. Received: {array.ndim}")
    if len(axes) != 2 or axes[0] == axes[1]:
        raise ValueError(f"Invalid axes: {axes}. Axes must be a tuple of two different dimensions.")
    first, second = (canonicalize_axis(axis, array.ndim) for axis in axes)
    k %= 4
    if k == 2:
        return pb.flip(array, (first, second))
    if k:
        turned = swapaxes(array, first, second)
        return pb.flip(turned, first if k == 1 else second)
    return array


def squeeze(x, axis=None):
    x = convert_to_tensor(x)
    if axis is None:
        axis = tuple(i for i, n in enumerate(x.shape) if n == 1)
    return pb.squeeze(x, axes_of(axis))


def transpose(x, axes=None):
    x = convert_to_tensor(x)
    axes = range(x.ndim)[::-1] if axes is None else axes
    return pb.permute_dims(x, tuple(axes))


def _together(xs):
    return same(*xs) if len(xs) else []


def concatenate(xs, axis=0):
    return pb.concat(_together(xs), axis=axis)


def stack(x, axis=0):
    return pb.stack(_together(x), axis=axis)


def append(x1, x2, axis=None):
    xs = same(x1, x2)
    return pb.concat([ravel(x) for x in xs] if axis is None else xs, axis=axis or 0)


def raised(x, ndim):
    """With axes of one element added as NumPy's `atleast_1d`, `2d` and `3d` do."""
    if ndim == 3 and x.ndim == 2:
        return x[:, :, None]
    if ndim == 3 and x.ndim == 1:
        return x[None, :, None]
    return pb.reshape(x, (1,) * (ndim - x.ndim) + x.shape) if x.ndim < ndim else x


def vstack(xs):
    return pb.concat([raised(x, 2) for x in _together(xs)], axis=0)


def hstack(xs):
    xs = [raised(x, 1) for x in _together(xs)]
    return pb.concat(xs, axis=0 if xs[0].ndim == 1 else 1)


def dstack(xs):
    return pb.concat([raised(x, 3) for x in _together(xs)], axis=2)


def column_stack(xs):
    return pb.numpy.column_stack(_together(xs))


def array_split(x, indices_or_sections, axis=0):
    x = convert_to_tensor(x)
    axis = canonicalize_axis(axis, x.ndim)
    if isinstance(indices_or_sections, int):
        size, rest = divmod(x.shape[axis], indices_or_sections)
        sizes = [size + (i < rest) for i in range(indices_or_sections)]
        indices_or_sections = np.cumsum(sizes)[:-1].tolist()
    return list(pb.split(x, [int(i) for i in indices_or_sections], axis=axis))


def split(x, indices_or_sections, axis=0):
    x = convert_to_tensor(x)
    axis = canonicalize_axis(axis, x.ndim)
    if isinstance(indices_or_sections, int):
        if x.shape[axis] % indices_or_sections:
            raise ValueError(
                f"{x.shape[axis]} cannot be split into {indices_or_sections} equal parts"
            )
    elif isinstance(indices_or_sections, pb.Tensor):
        indices_or_sections = indices_or_sections.tolist()
    return array_split(x, indices_or_sections, axis)


def vsplit(x, indices_or_sections):
    return split(x, indices_or_sections, 0)


def hsplit(x, indices_or_sections):
    x = convert_to_tensor(x)
    return split(x, indices_or_sections, 0 if x.ndim == 1 else 1)


def dsplit(x, indices_or_sections):
    return split(x, indices_or_sections, 2)


def repeat(x, repeats, axis=None):
    x = convert_to_tensor(x)
    if not isinstance(repeats, int):
        repeats = convert_to_tensor(repeats, "int32")
        repeats = int(repeats.item()) if repeats.size == 1 else repeats
    return pb.repeat(x, repeats, axis=axis)


def tile(x, repeats):
    x = convert_to_tensor(x)
    repeats = sizes_of(repeats)
    x = raised(x, len(repeats)) if x.ndim != len(repeats) - 1 else pb.expand_dims(x, 0)
    return pb.tile(x, (1,) * (x.ndim - len(repeats)) + repeats)


def pad(x, pad_width, mode="constant", constant_values=None):
    x = convert_to_tensor(x)
    if constant_values is not None and mode != "constant":
        raise ValueError(
            "Argument `constant_values` can only be provided when `mode == 'constant'`. "
            f"Received: mode={mode}"
        )
    widths = np.broadcast_to(np.asarray(pad_width), (x.ndim, 2)).tolist()
    value = constant_values or 0
    if isinstance(value, pb.Tensor):
        value = value.item()
    if x.dtype == BOOL:
        return pb.pad(x.astype("int32"), widths, mode=mode, constant_values=int(value)).astype(
            "bool"
        )
    return pb.pad(x, widths, mode=mode, constant_values=value)


# Parts --------------------------------------------------------------------------------------------


def take(x, indices, axis=None):
    x, indices = convert_to_tensor(x), convert_to_tensor(indices)
    if "int" not in name_of(indices):
        indices = indices.astype("int32")
    if axis is None:
        x, axis = pb.reshape(x, (-1,)), 0
    return pb.take(x, indices, axis=axis)


def take_along_axis(x, indices, axis=None):
    x, indices = convert_to_tensor(x), convert_to_tensor(indices)
    if "int" not in name_of(indices):
        indices = indices.astype("int32")
    if axis is None:
        x, axis = pb.reshape(x, (-1,)), 0
    return pb.take_along_axis(x, indices, axis=axis)


def tril(x, k=0):
    return _triangle(pb.tril, x, k)


def triu(x, k=0):
    return _triangle(pb.triu, x, k)


def _triangle(op, x, k):
    x = convert_to_tensor(x)
    x = pb.broadcast_to(x, (*x.shape, *x.shape)) if x.ndim == 1 else x
    return op(x.astype("int32"), k).astype("bool") if x.dtype == BOOL else op(x, k)


def diagonal(x, offset=0, axis1=0, axis2=1):
    return pb.linalg.diagonal(moveaxis(x, (axis1, axis2), (-2, -1)), offset)


def diag(x, k=0):
    x = convert_to_tensor(x)
    if x.ndim == 2:
        return diagonal(x, k)
    if x.ndim != 1:
        raise ValueError(f"`x` must be 1-D or 2-D. Received: x.shape={x.shape}")
    rows, columns = builtins.max(-k, 0), builtins.max(k, 0)
    square = pb.where(pb.eye(x.shape[0], dtype="bool"), x, pb.zeros_like(x))
    return pad(square, ((rows, columns), (columns, rows)))


def diagflat(x, k=0):
    return diag(ravel(x), k)


def nonzero(x):
    return tuple(i.astype("int32") for i in pb.nonzero(cast(x, "bool")))


def searchsorted(sorted_sequence, values, side="left"):
    if ndim(sorted_sequence) != 1:
        raise ValueError(
            "`searchsorted` only supports 1-D sorted sequences. You can use "
            "`keras.ops.vectorized_map` to extend it to N-D sequences. "
            f"Received: sorted_sequence.shape={sorted_sequence.shape}"
        )
    sorted_sequence, values = (numeric(x) for x in same(sorted_sequence, values))
    return pb.searchsorted(sorted_sequence, values, side=side).astype("int32")


def digitize(x, bins):
    return searchsorted(bins, x, side="right")


def unravel_index(indices, shape):
    indices = convert_to_tensor(indices)
    name = result(name_of(indices))
    indices = pb.where(indices < 0, indices + math.prod(shape), indices)
    found = []
    for n in reversed(shape):
        found.append(to(pb.remainder(indices, n), name))
        indices = pb.floor_divide(indices, n)
    return tuple(reversed(found))
