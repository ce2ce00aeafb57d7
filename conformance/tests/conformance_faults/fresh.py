"""Mistakes of the classes that slipped in `later`, in other ops and by other ways."""

from __future__ import annotations

import time

import ml_dtypes
import numpy as np
from conformance_faults.faults import elements
from conformance_faults.later import at, inputs, instead, is_float, of, result

from pullback.plugins.compiling import as_function
from pullback_numpy import NumPyBackend
from pullback_numpy.kernels import KERNELS

# Rests of loops over vectors, and long rows ------------------------------------------------------


def rest_of(n, by):
    return n % by if n > by else 0


def last_row_alone(y, x, *, axis, **how):
    if axis not in (0, None) or x.ndim != 2 or rest_of(len(x), 4) != 3 or y.shape != x.shape:
        return y
    return at(y, -1, x[-1]) if y.dtype == x.dtype else y


def last_channel(y, x, *, data_format, **_):
    n = y.shape[-1] if y.ndim else 0
    if data_format != "channels_last" or rest_of(n, 4) != 1:
        return y
    return at(y, (..., -1), y[..., -2])


def last_filter(y, x, kernel, *, groups, data_format, **_):
    if groups > 1 or data_format != "channels_last" or rest_of(y.shape[-1], 4) != 3:
        return y
    return at(y, (..., -1), 0)


def pairs_of_lines(y, x, *, n, axis, norm):
    if axis not in (-1, y.ndim - 1) or y.ndim != 2 or rest_of(len(y), 2) != 1 or len(y) < 9:
        return y
    return at(y, -1, np.conj(y[-1]))


def first_blocks(x, *, axis):
    """The sum of a long row is that of its first part."""
    moved = np.moveaxis(x, axis if isinstance(axis, int) else axis[0], -1).astype(np.float64)
    e = np.exp(moved - moved.max(-1, keepdims=True))
    part = e[..., : -(e.shape[-1] // 8)].sum(-1, keepdims=True)
    return np.moveaxis(e / part, -1, axis if isinstance(axis, int) else axis[0]).astype(x.dtype)


def in_block(y, x, *, axis, keepdims):
    if axis is None or x.ndim == 0 or x.shape[axis] < 2048:
        return y
    return np.asarray(np.where(y >= 2048, y - 2048, y), y.dtype)


RESTS = {
    "where takes x1 behind blocks of sixteen": result(
        "where",
        lambda y, c, a, b: (
            at(y, -1, np.broadcast_to(a, y.shape)[-1]) if y.ndim == 1 and y.size % 16 == 15 else y
        ),
    ),
    "cumulative_sum begins anew behind blocks of four rows": result(
        "cumulative_sum", last_row_alone
    ),
    "avg_pool repeats a channel": result("avg_pool", last_channel),
    "conv has no last filter of three": result("conv", last_filter),
    "take of rows of thirteen has the end of the row before": result(
        "take",
        lambda y, x, i, *, axis: (
            at(y, (-1, -1), y[-2, -1])
            if axis == 0 and y.ndim == 2 and len(y) > 1 and rest_of(y.shape[1], 8) == 5
            else y
        ),
    ),
    "fft of an odd number of lines turns the last": result("fft", pairs_of_lines),
    "softmax of long rows adds up a part": instead(
        "softmax",
        first_blocks,
        lambda x, *, axis: (
            x.ndim > 0
            and isinstance(axis, int)
            and x.shape[axis] >= 1024
            and x.shape[axis] % 512 == 0
            and is_float(x)
        ),
    ),
    "argmax counts from its block": result("argmax", in_block),
}

# Numbers ------------------------------------------------------------------------------------------


def real_rest(x1, x2):
    """The rest of the inner axis has no imaginary part."""
    x1 = np.array(x1)
    x1[..., -1] = x1[..., -1].real
    return x1, x2


def conjugated(x1, x2):
    return np.conj(x1), x2


def rest_of_complex(x1, x2):
    return x1.dtype.kind == "c" and x1.ndim > 1 and rest_of(x1.shape[-1], 4) == 1


def without_first(x, *, axis, keepdims):
    """NaN of the first row is not seen."""
    y = np.where(np.isnan(x[:1]), np.inf, x[:1])
    return KERNELS["argmin"](
        np.concatenate([y, x[1:]]).astype(x.dtype), axis=axis, keepdims=keepdims
    )


def nan_of_last(x, **_):
    y = np.array(x)
    y[-1, -1] = np.where(np.isnan(y[-1, -1]), -np.inf, y[-1, -1])
    return (y,)


def rounded(right):
    def kernel(*, dtype, **how):
        if dtype != ml_dtypes.bfloat16:
            return right(dtype=dtype, **how)
        wide = right(dtype=np.dtype(np.float32), **how)
        exact = np.floor(wide.astype(np.float64) * 256) / 256
        return np.where(wide > 1 - 2.0**-10, np.float32(1), exact).astype(dtype)

    return kernel


def opposite(x, indices, updates):
    """Equal positions are looked for before those from the end are turned."""
    kept = np.ones(indices.shape, bool)
    n = len(x)
    for place in np.unique(indices[indices < 0]):
        if (indices == place + n).any():
            kept &= indices != place
    fill = np.full_like(updates, np.inf)
    shape = indices.shape + (1,) * (updates.ndim - indices.ndim)
    return x, indices, np.where(kept.reshape(shape), updates, fill).astype(updates.dtype)


def of_largest(x, rtol=None):
    wide = x if x.dtype in (np.float32, np.float64) else x.astype(np.float32)
    s = np.linalg.svd(wide, compute_uv=False)
    eps = np.finfo(wide.dtype).eps
    return np.sum(s > max(x.shape[-2:]) * eps * s.max(initial=0), axis=-1, dtype=np.int64)


def acosh_by_squares(z):
    return np.log(z + np.sqrt(z * z - 1)).astype(z.dtype)


NUMBERS = {
    "matmul of complex numbers has a real rest": inputs("matmul", real_rest, rest_of_complex),
    "solve of complex matrices in another order conjugates": inputs(
        "solve",
        conjugated,
        lambda a, b: a.dtype.kind == "c" and a.ndim == 2 and not a.flags.c_contiguous,
    ),
    "prod of many complex numbers has no angle": result(
        "prod",
        lambda y, x, *, axis, **_: (
            np.abs(y).astype(y.dtype) if x.dtype.kind == "c" and x.size >= 256 else y
        ),
    ),
    "argmin does not see NaN of the first row": instead(
        "argmin",
        without_first,
        lambda x, *, axis, **_: axis == 0 and x.ndim > 1 and x.size > 0 and is_float(x),
    ),
    "max over two axes drops the NaN at the end": inputs(
        "max",
        nan_of_last,
        lambda x, *, axis, **_: axis == (0, 1) and x.ndim == 3 and x.size > 0 and is_float(x),
    ),
    "std along the first axis of an infinity is infinite": result(
        "std",
        lambda y, x, *, axis, **_: (
            elements(y, np.isinf(x).any(0) & ~np.isnan(x).any(0), np.inf)
            if axis == (0,) and x.ndim == 2 and y.shape == x.shape[1:]
            else y
        ),
    ),
    "max_pool passes over NaN": of(
        "max_pool",
        lambda right: (
            lambda x, **how: right(
                np.where(np.isnan(x), -np.inf, x).astype(x.dtype) if is_float(x) else x, **how
            )
        ),
    ),
    "random_uniform of bfloat16 rounds to 1": of("random_uniform", rounded),
    "random_normal has a least radius": result(
        "random_normal",
        lambda y, **_: (
            elements(y, (np.abs(y) < 1e-5), 1e-4) if y.dtype == np.float32 and y.size else y
        ),
    ),
    "rfft of fewer numbers along another axis takes the last": inputs(
        "rfft",
        lambda x: (x[::-1],),
        lambda x, *, n, axis, **_: axis in (0, -2) and x.ndim == 2 and n is not None and n < len(x),
    ),
    "scatter_min drops a position from the end beside the same one": inputs(
        "scatter_min",
        opposite,
        lambda x, i, u, *, axis: axis == 0 and i.size > 0 and is_float(x) and i.ndim > 0,
    ),
    "matrix_rank of several has the tolerance of the largest": instead(
        "matrix_rank",
        of_largest,
        lambda x, rtol=None: rtol is None and x.ndim > 2 and x.size > 0 and is_float(x),
    ),
    "acosh of complex numbers is on the other branch": instead(
        "acosh", acosh_by_squares, lambda z: z.dtype.kind == "c"
    ),
    "astype of int32 to bfloat16 by way of float16": instead(
        "astype",
        lambda x, *, dtype: x.astype(np.float16).astype(dtype),
        lambda x, *, dtype: x.dtype == np.int32 and dtype == ml_dtypes.bfloat16,
    ),
    "layer_norm_gradient of rows without variance is NaN": result(
        "layer_norm_gradient",
        lambda y, x, *_, axis, **__: (
            (elements(y[0], np.ptp(x, axis=axis, keepdims=True) == 0, np.nan), *y[1:])
            if x.size and is_float(x)
            else y
        ),
    ),
    "cosine_similarity of zeros is NaN": result(
        "cosine_similarity",
        lambda y, a, b, *, axis, **_: elements(
            y, ~a.any(axis) if a.shape == b.shape else False, np.nan
        ),
    ),
}

# State and programs -------------------------------------------------------------------------------


def short_attributes(graph):
    """Numbers among the attributes are float32 in the source of a program."""
    for call in graph.calls:
        for name, value in list(call.attributes.items()):
            if type(value) is float:
                call.attributes[name] = float(np.float32(value))
    return as_function(graph)


def without_sign(graph):
    """Constants are compared with zero, which has one form."""
    constants = {
        name: np.where(np.asarray(x) == 0, np.zeros((), np.asarray(x).dtype), x)
        if np.asarray(x).dtype.kind == "f"
        else x
        for name, x in graph.constants.items()
    }
    graph.constants.clear()
    graph.constants.update(constants)
    return as_function(graph)


def shared_room(right):
    """Arrays are copied into a room that all threads share, and sorted there."""
    rooms = {}

    def kernel(x, **how):
        if x.ndim != 2:
            return right(x, **how)
        room = rooms.setdefault((x.shape, x.dtype), np.empty_like(x))
        room[...] = x
        time.sleep(1e-6)
        return right(room, **how)

    return kernel


def in_c_order(self, array, **how):
    if array.ndim == 2 and array.flags.f_contiguous and not array.flags.c_contiguous:
        array = array.T.reshape(array.shape)
    return NumPyBackend.to_dlpack(self, array, **how)


STATE = {
    "elu in a program has float32 attributes": of(
        "elu", None, compile=lambda self, graph: short_attributes(graph)
    ),
    "programs have one zero among constants": of(
        "backend", None, compile=lambda self, graph: without_sign(graph)
    ),
    "sort has one room for all threads": of("sort", shared_room),
    "to_dlpack forgets that an array is turned": of("backend", None, to_dlpack=in_c_order),
    "item of a number with one axis is rounded": of(
        "backend",
        None,
        item=lambda self, x: (
            float(np.float32(x.item())) if x.dtype == np.float64 else NumPyBackend.item(self, x)
        ),
    ),
}

FAULTS = {
    f"fresh: {name}": fault for faults in (RESTS, NUMBERS, STATE) for name, fault in faults.items()
}
