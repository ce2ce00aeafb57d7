"""Mistakes that were thought of after the checks for `newest`: in all areas, and in blocked loops.

Many are those of a compiled kernel: a tail, a threshold, a stride, a split between threads. They
are made around the kernels of NumPy, in the calls in which such a loop would go wrong.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
from conformance_faults.faults import (
    called_with,
    elements,
    nudged,
    other,
)
from conformance_faults.newest import inputs, of, quiet, result

from pullback_numpy.kernels import KERNELS


def instead(op, function, where=lambda *_, **__: True):
    return of(op, other(quiet(function), where))


def is_float(x, *_, **__):
    return x.dtype.kind == "f"


def at(y, place, value):
    """A copy of an array with another value at a place."""
    y = np.array(y)
    y[place] = value
    return y


def last_of_block(y, *, block, rest, least):
    """The last element is that before it, where a blocked loop over `y` would leave a rest."""
    if y.size < least or y.size % block != rest:
        return y
    flat = np.array(y).reshape(-1)
    flat[-1] = flat[-2]
    return flat.reshape(y.shape)


# Elements -----------------------------------------------------------------------------------------


def floored(x1, x2):
    return np.asarray(x1 - np.floor(x1 / x2) * x2, x1.dtype)


def wrapped_shift(x1, x2):
    return np.left_shift(x1, x2 % (8 * x1.itemsize), dtype=x1.dtype)


ELEMENTS = {
    "ldexp multiplies by the power": instead(
        "ldexp", lambda x, n: np.asarray(x * np.exp2(n.astype(x.dtype)), x.dtype), is_float
    ),
    "remainder by infinity is NaN": instead(
        "remainder", floored, lambda a, b: a.dtype.kind == "f" and bool(np.isinf(b).any())
    ),
    "bitwise_left_shift takes the places modulo the width": instead(
        "bitwise_left_shift", wrapped_shift
    ),
    "prelu adds the two sides": instead(
        "prelu",
        lambda x, slope: np.asarray(np.maximum(x, 0) + slope * np.minimum(x, 0), x.dtype),
    ),
    "cbrt of vectors ends one early": result(
        "cbrt",
        lambda y, x: (
            last_of_block(y, block=8, rest=7, least=64) if x.dtype == np.float32 else y
        ),
    ),
    "heaviside takes x2 for NaN": result(
        "heaviside", lambda y, a, b: elements(y, np.isnan(a), b) if a.dtype.kind == "f" else y
    ),
}  # fmt: skip

# Reductions ---------------------------------------------------------------------------------------


def half_sums(right):
    """The median of an even number is half of a sum, in the dtype."""

    def kernel(x, *, axis, keepdims):
        if axis is None or len(axis) != 1 or x.shape[axis[0]] % 2 or not x.size:
            return right(x, axis=axis, keepdims=keepdims)
        ordered = np.sort(x, axis[0])
        n = x.shape[axis[0]]
        low, high = (np.take(ordered, [n // 2 + i], axis[0]) for i in (-1, 0))
        y = np.asarray((low + high) / x.dtype.type(2), x.dtype)
        y = np.where(np.isnan(ordered).any(axis[0], keepdims=True), x.dtype.type(np.nan), y)
        return y if keepdims else np.squeeze(y, axis[0])

    return kernel


def without_last_row(x, **_):
    """A sum over the first axis takes four rows at a time."""
    return x[: len(x) // 4 * 4]


def second_operand(x, *, axis, keepdims):
    """As `minps`: what is kept is dropped where it is NaN."""
    return np.asarray(right_min(np.where(np.isnan(x[:1]), np.inf, x[:1]), x[1:], axis, keepdims))


def right_min(first, rest, axis, keepdims):
    x = np.concatenate([first, rest]).astype(rest.dtype)
    return KERNELS["min"](x, axis=axis, keepdims=keepdims)


def count_of_first(y, x, *, axis, correction, keepdims):
    """The correction is that of the first of several axes."""
    if axis is None or len(axis) != 2 or not x.size or 0 in y.shape:
        return y
    n, first = math.prod(x.shape[a] for a in axis), x.shape[axis[0]]
    if first <= correction or n <= correction:
        return y
    return np.asarray(y * ((n - correction) / n) / ((first - correction) / first), y.dtype)


REDUCTIONS = {
    "var of two axes has the correction of one": result("var", count_of_first),
    "median adds up and halves": of("median", half_sums),
    "quantile between two infinities is NaN": result(
        "quantile",
        lambda y, x, **how: (
            elements(y, np.isinf(y), np.nan) if how["method"] == "linear" and x.size > 1 else y
        ),
    ),
    "prod along the first axis leaves out rows": inputs(
        "prod", lambda x: (without_last_row(x),),
        lambda x, *, axis, **_: axis == (0,) and x.ndim > 1 and len(x) > 16 and len(x) % 4 == 1,
    ),
    "min drops NaN of the first row": instead(
        "min", second_operand,
        lambda x, *, axis, **_: axis == (0,) and x.ndim > 1 and len(x) > 1 and is_float(x),
    ),
    "cumulative_logsumexp begins with a difference of infinities": result(
        "cumulative_logsumexp",
        lambda y, x, **_: elements(y, np.isneginf(y), np.nan) if x.ndim > 1 else y,
    ),
}  # fmt: skip

# Positions ----------------------------------------------------------------------------------------


def at_split(right):
    """Two threads sum the halves of many rows, and both begin with the row between them."""

    def kernel(data, ids, *, num_segments, axis):
        y = right(data, ids, num_segments=num_segments, axis=axis)
        if axis or ids.ndim != 1 or data.size < 2**16 or len(ids) < 2 or data.dtype.kind != "f":
            return y
        middle = len(ids) // 2
        y = np.array(y)
        y[ids[middle]] += data[middle]
        return y

    return kernel


def rows_of_four(right):
    def kernel(x, indices, updates, *, axis):
        y = right(x, indices, updates, axis=axis)
        if axis or x.ndim < 2 or x.shape[-1] < 4 or x.shape[-1] % 4 == 0:
            return y
        y, n = np.array(y), x.shape[-1] // 4 * 4
        y[..., n:] = x[..., n:]
        return y

    return kernel


def smallest_turned(right):
    """The smallest are the last of the largest, turned round."""

    def kernel(x, *, k, axis, largest):
        if largest:
            return right(x, k=k, axis=axis, largest=True)
        values, places = right(x, k=x.shape[axis], axis=axis, largest=True)
        key = [slice(None)] * x.ndim
        key[axis] = slice(x.shape[axis] - k, None)
        return tuple(np.flip(z[tuple(key)], axis) for z in (values, places))

    return kernel


POSITIONS = {
    "scatter_max ignores NaN": inputs(
        "scatter_max",
        lambda x, i, u: (x, i, np.where(np.isnan(u), -np.inf, u).astype(u.dtype)),
        lambda x, *_, **__: is_float(x),
    ),
    "segment_mean of an empty segment is NaN": result(
        "segment_mean",
        lambda y, x, ids, *, num_segments, axis: (
            at(y, (slice(None),) * axis + (np.setdiff1d(np.arange(num_segments), ids),), np.nan)
            if ids.size and ids.min() >= 0
            else y
        ),
    ),
    "segment_sum adds the row at the split twice": of("segment_sum", at_split),
    "scatter_min leaves the rest of rows of four": of("scatter_min", rows_of_four),
    "top_k of the smallest has the last of ties": of("top_k", smallest_turned),
}  # fmt: skip

# Images -------------------------------------------------------------------------------------------


def without_overlap(x, *, output_size, data_format):
    """Windows end where the next one begins."""
    if data_format != "channels_last":
        x = np.moveaxis(x, 1, -1)
    sizes = output_size if isinstance(output_size, tuple) else (output_size,) * (x.ndim - 2)
    for axis, n in enumerate(sizes, 1):
        s = x.shape[axis]
        parts = [
            np.take(x, range(i * s // n, max((i + 1) * s // n, i * s // n + 1)), axis).mean(
                axis, keepdims=True, dtype=np.float64
            )
            for i in range(n)
        ]
        x = np.concatenate(parts, axis).astype(x.dtype)
    return x if data_format == "channels_last" else np.ascontiguousarray(np.moveaxis(x, -1, 1))


def filters_in_turn(x, kernel):
    """Filters are those of all groups in turn, as another library has them."""
    groups = x.shape[-1]
    several = kernel.shape[-1] // groups
    turned = kernel.reshape(*kernel.shape[:-1], several, groups)
    return x, np.ascontiguousarray(np.swapaxes(turned, -1, -2)).reshape(kernel.shape)


def largest_column(right):
    """Rows end with a vector of eight, whose last element is that before it."""

    def kernel(x, **how):
        y, *rest = right(x, **how)
        n = y.shape[-1] if y.ndim == 4 else 0
        if how["data_format"] == "channels_first" and n > 8 and n % 8 == 1:
            y = at(y, (..., -1), y[..., -2])
        return (y, *rest)

    return kernel


def zeros_behind(right):
    def kernel(x, weights, *, output_padding, data_format, **how):
        y = right(x, weights, output_padding=output_padding, data_format=data_format, **how)
        sizes = output_padding if isinstance(output_padding, tuple) else (output_padding,)
        if any(sizes) and y.size:
            y = np.array(y)
            first = 1 if data_format == "channels_last" else 2
            for axis, n in zip(range(first, y.ndim), itertools.cycle(sizes), strict=False):
                if n and axis < first + y.ndim - 2:
                    y[(slice(None),) * axis + (slice(-n, None),)] = 0
        return y

    return kernel


IMAGES = {
    "adaptive_avg_pool has windows that do not overlap": instead(
        "adaptive_avg_pool", without_overlap, lambda x, **_: x.size > 0 and is_float(x)
    ),
    "conv of single channels has several filters in turn": inputs(
        "conv", filters_in_turn,
        lambda x, k, *, groups, data_format, **_: (
            data_format == "channels_last" and groups == x.shape[-1] > 1
            and k.shape[-1] > groups and k.size > 0
        ),
    ),
    "max_pool of long rows repeats a column": of("max_pool", largest_column),
    "conv_transpose has zeros in the output padding": of("conv_transpose", zeros_behind),
    "roi_align has 0 as the least of the points": result(
        "roi_align", lambda y, *_, reduction, **__: np.maximum(y, 0) if reduction == "max" else y
    ),
    "resample takes the pixel below in the middle": of(
        "resample",
        called_with(
            lambda x, *, method, rounding, **_: method == "nearest" and rounding == "half_up",
            rounding="half_down",
        ),
    ),
}  # fmt: skip

# Linear algebra -----------------------------------------------------------------------------------


def first_pivots(lu, pivots, x2):
    if pivots.ndim > 1 and pivots.size:
        pivots = np.ascontiguousarray(
            np.broadcast_to(pivots.reshape(-1, pivots.shape[-1])[0], pivots.shape)
        )
    return lu, pivots, x2


def whole_matrix(x1, x2, *, upper, unit_diagonal):
    """The other triangle counts."""
    return np.linalg.solve(x1, x2[..., None] if x2.ndim == 1 else x2).reshape(x2.shape)


def blocks_of_256(x1, x2):
    """The rest of the inner axis behind the last block of 256 is left out where it is one."""
    return x1[..., :-1], x2[..., :-1, :] if x2.ndim > 1 else x2[:-1]


LINEAR = {
    "lu_solve has the pivots of the first matrix": inputs("lu_solve", first_pivots),
    "solve_triangular reads both triangles": instead(
        "solve_triangular", whole_matrix,
        lambda x1, x2, *, unit_diagonal, **_: (
            x1.ndim == 2 and x1.size > 1 and x2.size > 0 and not unit_diagonal
            and x1.dtype in (np.float32, np.float64)
        ),
    ),
    "matrix_rank of float32 has the tolerance of float64": inputs(
        "matrix_rank", lambda x, rtol=None: (x, np.asarray(1e-15, x.dtype)),
        lambda x, rtol=None: rtol is None and x.dtype == np.float32,
    ),
    "matmul leaves out one behind blocks of 256": inputs(
        "matmul", blocks_of_256,
        lambda x1, x2: x1.ndim > 1 and x1.shape[-1] > 256 and x1.shape[-1] % 256 == 1,
    ),
    "vecdot of many complex numbers has no conjugate": inputs(
        "vecdot", lambda x1, x2: (np.conj(x1), x2),
        lambda x1, x2, *, axis: x1.dtype.kind == "c" and x1.shape[axis] >= 64,
    ),
    "tensordot takes pairs of axes in ascending order": of(
        "tensordot",
        lambda right: lambda a, b, *, axes: right(
            a, b, axes=tuple(map(tuple, map(sorted, axes)))
            if isinstance(axes, tuple) and len(axes[0]) > 1
            and len({a.shape[i] for i in axes[0]}) == 1 else axes,
        ),
    ),
}  # fmt: skip

# Random numbers -----------------------------------------------------------------------------------


def without_carry(right):
    """The counter of a block is the lower word of the first one and its number."""

    def kernel(*, shape, key, counter, **how):
        if isinstance(counter, int) and counter % 2**64 > 2**64 - 2**20:
            n = math.prod(shape)
            if counter % 2**64 + n // 4 + 1 >= 2**64:
                return nudged(right(shape=shape, key=key, counter=counter, **how))
        return right(shape=shape, key=key, counter=counter, **how)

    return kernel


def rounded_up(right):
    """float32 from 32 bits, which may be 1, where many are drawn."""

    def kernel(*, dtype, **how):
        y = right(dtype=dtype, **how)
        return elements(y, y >= 1 - 2.0**-20, 1) if dtype == np.float32 and y.size > 100 else y

    return kernel


def second_thread(right):
    """The second of two threads begins at a whole number of blocks."""

    def kernel(*, shape, **how):
        y = right(shape=shape, **how)
        if y.size < 2**16 or y.size % 8 == 0:
            return y
        flat = np.array(y).reshape(-1)
        middle = y.size // 2
        flat[middle:] = np.roll(flat[middle:], 1)
        return flat.reshape(y.shape)

    return kernel


RANDOM = {
    "random_bits carries nothing into the second word": of("random_bits", without_carry),
    "random_uniform of float32 may be 1": of("random_uniform", rounded_up),
    "random_bits of an odd number begins the second half one late": of(
        "random_bits", second_thread
    ),
    "dropout at rate 1 is NaN": result(
        "dropout", lambda y, x, *, rate, **_: (y[0] * np.nan, *y[1:]) if rate == 1 else y
    ),
    "random_normal ends an odd number with a cosine": result(
        "random_normal",
        lambda y, *, shape, **_: last_of_block(y, block=2, rest=1, least=256),
    ),
}  # fmt: skip

#: Those that were drawn before any was run, to be run when checks for the others are in.
HELD = {
    "astype of NaN with all bits to bfloat16 is a zero",
    "bitcast reads along memory",
    "cumulative_logsumexp begins with a difference of infinities",
    "dropout at rate 1 is NaN",
    "isin of int64 compares in float64",
    "isinf of bfloat16 by way of float16",
    "linear keeps weights by their address",
    "lu_solve has the pivots of the first matrix",
    "matmul leaves out one behind blocks of 256",
    "mean of an odd number of complex columns",
    "pad has one room for all threads",
    "prod along the first axis leaves out rows",
    "programs repeat their first draws",
    "random_normal ends an odd number with a cosine",
    "roi_align has 0 as the least of the points",
    "scatter_max ignores NaN",
    "squared_error of bfloat16 rounds the difference",
    "tensordot takes pairs of axes in ascending order",
}


def named(*groups):
    return {
        f"{'held' if name in HELD else 'later'}: {name}": fault
        for faults in groups
        for name, fault in faults.items()
    }


FAULTS = named(ELEMENTS, REDUCTIONS, POSITIONS, IMAGES, LINEAR, RANDOM)
