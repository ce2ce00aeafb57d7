"""More of `later`: networks, transforms, conversions, programs, 16 bits, complex numbers."""

from __future__ import annotations

import time

import ml_dtypes
import numpy as np
from conformance_faults.faults import elements, nudged
from conformance_faults.later import (
    at,
    inputs,
    instead,
    named,
    of,
    quiet,
    result,
)

from pullback.plugins.compiling import as_function

# Networks -----------------------------------------------------------------------------------------


def last_of_time(right):
    def kernel(x, *rest, reverse, **how):
        out, h = right(x, *rest, reverse=reverse, **how)
        return out, (np.array(out[:, -1]) if reverse and out.shape[1] else h)

    return kernel


def merged_blocks(right):
    """The variance of a long row is the mean of those of its blocks."""

    def kernel(x, scale, offset, *, axis, epsilon):
        found = right(x, scale, offset, axis=axis, epsilon=epsilon)
        if axis != (x.ndim - 1,) or x.shape[-1] < 1024 or x.shape[-1] % 2 or x.dtype != np.float32:
            return found
        halves = x.reshape(*x.shape[:-1], 2, -1)
        inner = np.sqrt(halves.var(-1).mean(-1, keepdims=True) + epsilon)
        outer = np.sqrt(x.var(-1, keepdims=True) + epsilon)
        with quiet:
            out = (x - x.mean(-1, keepdims=True)) / inner
        out = out * (1 if scale is None else scale) + (0 if offset is None else offset)
        return (out.astype(x.dtype), found[1], found[2] * (outer / inner).astype(np.float32))

    return kernel


def no_slope_of_cap(right):
    def kernel(q, k, v, mask, *rest, softcap, **how):
        found = right(q, k, v, mask, *rest, softcap=softcap, **how)
        if softcap is None or mask is None or mask.dtype == np.bool_:
            return found
        return (nudged(found[0]), *found[1:])

    return kernel


def rows_of_nine(y, g, out, *, axis):
    n = out.shape[-1] if out.ndim else 0
    rest = n > 8 and n % 8 == 1 and axis in (-1, out.ndim - 1)
    return at(y, (..., -1), g[..., -1]) if rest else y


NETWORKS = {
    "gru_gradient loses what passes masked steps": result(
        "gru_gradient",
        lambda y, x, h, k, r, mask, *_, **__: (
            (y[0], elements(y[1], ~mask.all(1)[:, None], 0), *y[2:])
            if mask is not None and y[1] is not None and mask.size
            else y
        ),
    ),
    "simple_rnn ends with the last step where it is reversed": of("simple_rnn", last_of_time),
    "attention_weights have a window one too wide before": of(
        "attention_weights",
        lambda right: lambda *x, window, **how: right(
            *x, window=(window[0] + 1, window[1]) if window and window[0] else window, **how
        ),
    ),
    "attention's gradient has no slope of a cap beside a mask of numbers": of(
        "scaled_dot_product_attention_gradient", no_slope_of_cap
    ),
    "layer_norm of long rows merges no means": of("layer_norm", merged_blocks),
    "softmax_gradient leaves out one behind blocks of eight": result(
        "softmax_gradient", rows_of_nine
    ),
    "lamb_update of a parameter of zeros stays": result(
        "lamb_update",
        lambda y, p, *_, **__: (np.array(p), *y[1:]) if p.size and not p.any() else y,
    ),
}  # fmt: skip

# Fourier ------------------------------------------------------------------------------------------


def sorted_axes(right):
    def kernel(x, *, s, axes, norm):
        if axes is not None and list(axes) != sorted(axes):
            order = sorted(range(len(axes)), key=lambda i: axes[i])
            axes = tuple(axes[i] for i in order)
            s = None if s is None else tuple(s[i] for i in order)
        return right(x, s=s, axes=axes, norm=norm)

    return kernel


FOURIER = {
    "irfft of an odd size has the last number once": result(
        "irfft",
        lambda y, x, *, n, axis, norm: (
            nudged(y) if y.shape[axis] % 2 == 1 and y.shape[axis] > 16 else y
        ),
    ),
    "rfftn halves the last axis of all": of("rfftn", sorted_axes),
    "hfft to more numbers repeats the last": inputs(
        "hfft",
        lambda x: (np.concatenate([x, x[..., -1:]], -1),),
        lambda x, *, n, axis, **_: (
            axis in (-1, x.ndim - 1) and n is not None and n // 2 + 1 > x.shape[-1] > 0
        ),
    ),
}  # fmt: skip

# Conversion and memory ----------------------------------------------------------------------------


def rounded_twice(x, *, dtype):
    return x.astype(np.float64).astype(dtype)


def bits_cut(x, *, dtype):
    """bfloat16 by adding half a unit, without a look at NaN."""
    words = np.ascontiguousarray(x).view(np.uint32)
    words = words + np.uint32(0x7FFF) + (words >> 16 & 1).astype(np.uint32)
    return (words >> 16).astype(np.uint16).view(ml_dtypes.bfloat16).reshape(x.shape)


def memory_order(x):
    return (np.ascontiguousarray(x.T).T.ravel("K").reshape(x.shape),)


CONVERSION = {
    "astype of int64 to float32 rounds twice": instead(
        "astype", rounded_twice,
        lambda x, *, dtype: x.dtype == np.int64 and dtype == np.float32,
    ),
    "astype of uint64 takes it as signed": instead(
        "astype", lambda x, *, dtype: x.view(np.int64).astype(dtype),
        lambda x, *, dtype: x.dtype == np.uint64 and dtype == np.float64,
    ),
    "astype of NaN with all bits to bfloat16 is a zero": instead(
        "astype", bits_cut,
        lambda x, *, dtype: x.dtype == np.float32 and dtype == ml_dtypes.bfloat16,
    ),
    "bitcast reads along memory": inputs(
        "bitcast", memory_order, lambda x, **_: x.ndim > 1 and not x.flags.c_contiguous
    ),
    "astype of strided float16 reads every element": inputs(
        "astype",
        lambda x: (np.ascontiguousarray(x).reshape(x.shape)[::-1] if x.ndim else x,),
        lambda x, **_: x.ndim == 1 and x.dtype == np.float16 and abs(x.strides[0]) > 2,
    ),
}  # fmt: skip

# State and programs -------------------------------------------------------------------------------


def without_one(right, left_out):
    """Kept for a call, an attribute serves another with other attributes."""
    kept = {}

    def kernel(*x, **how):
        key = (
            tuple((np.shape(y), getattr(y, "dtype", None)) for y in x),
            tuple((k, repr(v)) for k, v in sorted(how.items()) if k != left_out),
        )
        return right(*x, **{**how, left_out: kept.setdefault(key, how[left_out])})

    return kernel


def by_address(right):
    """A kernel's weights are kept in another order under their address."""
    kept = {}

    def kernel(x, weight, bias):
        if weight.size < 64:
            return right(x, weight, bias)
        where = weight.__array_interface__["data"][0], weight.shape, weight.dtype
        if len(kept) > 200:
            kept.clear()
        return right(x, kept.setdefault(where, np.array(weight)), bias)

    return kernel


def one_scratch(right):
    """The borders are written once in a room that all threads share."""
    rooms = {}

    def kernel(x, *, pad_width, mode, constant_values):
        y = right(x, pad_width=pad_width, mode=mode, constant_values=constant_values)
        if mode != "constant" or y.size < 16:
            return y
        room = rooms.setdefault((y.shape, y.dtype), np.empty_like(y))
        room[...] = y
        time.sleep(1e-6)
        return room.copy()

    return kernel


def in_double(graph):
    """Integers that are constants of a program are written as decimal numbers in its source."""
    for name, value in list(graph.constants.items()):
        value = np.asarray(value)
        if value.dtype == np.int64:
            graph.constants[name] = value.astype(np.float64).astype(np.int64)
    return as_function(graph)


def given_back(graph):
    """An input that is no longer needed is the memory of a result, which others still hold."""
    run = as_function(graph)

    def call(*x):
        results = list(run(*x))
        for entry, array in zip(graph.inputs, x, strict=True):
            if type(entry).__name__ != "State" or not graph.writes:
                continue
            for i, y in enumerate(results):
                if y.shape == array.shape and y.dtype == array.dtype and y.size > 4:
                    if array.flags.writeable and y is not array:
                        array[...] = y
                        results[i] = array
                    break
        return tuple(results)

    return call


def first_draws(graph):
    """The draws of a program are made where it is compiled."""
    run, kept = as_function(graph), {}

    def call(*x):
        x = list(x)
        for i, entry in enumerate(graph.inputs):
            if type(entry).__name__ == "Draw":
                x[i] = kept.setdefault(i, x[i])
        return run(*x)

    return call


def written_moments(right):
    """Moments are written in place from 4096 elements on."""

    def kernel(p, g, m, v, *rest, **how):
        found = right(p, g, m, v, *rest, **how)
        if p.size >= 4096 and m.flags.writeable and m.dtype == found[1].dtype:
            m[...] = found[1]
            return found[0], m, found[2]
        return found

    return kernel


STATE = {
    "pad keeps its border for shapes alone": of(
        "pad", lambda right: without_one(right, "constant_values")
    ),
    "resize keeps its weights for sizes alone": of(
        "resize", lambda right: without_one(right, "method")
    ),
    "linear keeps weights by their address": of("linear", by_address),
    "pad has one room for all threads": of("pad", one_scratch),
    "programs have large integers as decimals": of(
        "backend", None, compile=lambda self, graph: in_double(graph)
    ),
    "programs write results over variables": of(
        "backend", None, compile=lambda self, graph: given_back(graph)
    ),
    "programs repeat their first draws": of(
        "backend", None, compile=lambda self, graph: first_draws(graph)
    ),
    "adam_update writes large moments in place": of("adam_update", written_moments),
}  # fmt: skip

# 16 bits ------------------------------------------------------------------------------------------


def as_signed(right):
    """16-bit floats are compared as signed integers."""

    def kernel(x, *, axis):
        if x.dtype.itemsize != 2 or x.dtype.kind not in "fV" or not x.size:
            return right(x, axis=axis)
        found = np.minimum.accumulate(x.view(np.int16), 0 if axis is None else axis)
        return found.view(x.dtype)

    return kernel


HALVES = {
    "cumulative_min of 16 bits compares words": of("cumulative_min", as_signed),
    "isinf of bfloat16 by way of float16": inputs(
        "isinf", lambda x: (x.astype(np.float16),), lambda x: x.dtype == ml_dtypes.bfloat16
    ),
    "squared_error of bfloat16 rounds the difference": instead(
        "squared_error", lambda a, b: np.square(a - b),
        lambda a, b: a.dtype == ml_dtypes.bfloat16,
    ),
    "vector_norm of float16 overflows": instead(
        "vector_norm",
        lambda x, *, axis, keepdims, **_: np.sqrt(
            np.add.reduce(x * x, axis, np.float32, keepdims=keepdims)
        ).astype(x.dtype),
        lambda x, **how: x.dtype == np.float16 and how["ord"] == 2,
    ),
    "exp2 of float16 has no subnormal numbers": result(
        "exp2",
        lambda y, x: elements(y, y < 6.1e-5, 0) if y.dtype == np.float16 else y,
    ),
}  # fmt: skip

# Complex numbers ----------------------------------------------------------------------------------


def overflowing_tan(z):
    return np.asarray((np.sin(z) / np.cos(z)), z.dtype)


def by_squares(z):
    return np.asarray(np.conj(z) / (z.real * z.real + z.imag * z.imag), z.dtype)


def swapped_lanes(y, x, *, axis, keepdims):
    """A lone complex number behind vectors of two has its parts exchanged."""
    if y.dtype != np.complex64 or axis != (0,) or x.ndim < 2 or x.shape[-1] % 2 == 0:
        return y
    if x.shape[-1] < 4:
        return y
    last = y[..., -1]
    return at(y, (..., -1), last.imag + 1j * last.real)


def is_complex(x, *_, **__):
    return x.dtype.kind == "c"


COMPLEX = {
    "tan far from the real axis is NaN": instead("tan", overflowing_tan, is_complex),
    "reciprocal by squares": instead("reciprocal", by_squares, is_complex),
    "angle of -1 - 0i is that of -1 + 0i": instead(
        "angle", lambda z: np.asarray(np.angle(z + 0), z.real.dtype), is_complex
    ),
    "log1p of small complex numbers by log": instead(
        "log1p", lambda z: np.log(1 + z).astype(z.dtype), is_complex
    ),
    "mean of an odd number of complex columns": result("mean", swapped_lanes),
}  # fmt: skip

# What came last -----------------------------------------------------------------------------------


def unmerged(right):
    """Labelings are told apart by their last label and their length."""

    def kernel(logits, lengths, *, beam_width, top_paths, blank):
        labels, sizes, scores = right(
            logits, lengths, beam_width=beam_width, top_paths=top_paths, blank=blank
        )
        return labels, sizes, np.asarray(scores - 0.05 * (sizes > 1), scores.dtype)

    return kernel


def by_products(right):
    """The gradient of Euclidean distances by products, whatever the distance."""

    def kernel(a, b, g, *, p):
        if p != 2 or not a.size or not b.size or a.dtype != np.float32:
            return right(a, b, g, p=p)
        squares = (a * a).sum(-1)[..., :, None] + (b * b).sum(-1)[..., None, :]
        d = np.sqrt(np.maximum(squares - 2 * a @ np.swapaxes(b, -1, -2), 0))
        w = np.where(d > 0, g / np.where(d > 0, d, 1), 0).astype(a.dtype)
        turned = np.swapaxes(w, -1, -2)
        return (
            (a * w.sum(-1, keepdims=True) - w @ b).astype(a.dtype),
            (b * turned.sum(-1, keepdims=True) - turned @ a).astype(a.dtype),
        )

    return kernel


def greedy(right):
    """A frame behind the length counts where the length is 0."""

    def kernel(logits, lengths, **how):
        if logits.shape[1]:
            lengths = np.maximum(lengths, 1)
        return right(logits, lengths, **how)

    return kernel


NEW = {
    "polygamma below 0 has the sign of odd orders": result(
        "polygamma",
        lambda y, x, *, n: elements(y, x < 0, -y) if n % 2 == 0 and n > 2 else y,
    ),
    "gammainc of a = 0 is NaN": result("gammainc", lambda y, a, x: elements(y, a == 0, np.nan)),
    "gamma_order_slope of the second order is 0 for small a": result(
        "gamma_order_slope",
        lambda y, a, x, *, order: elements(y, a < 1e-2, 0) if order == 2 else y,
    ),
    "ctc_beam_search adds up fewer alignments of long labels": of("ctc_beam_search", unmerged),
    "ctc_beam_search has at least one frame": of("ctc_beam_search", greedy),
    "cdist_gradient by products": of("cdist_gradient", by_products),
    "cdist_gradient of equal rows is NaN below 2": result(
        "cdist_gradient",
        lambda y, a, b, g, *, p: (
            (elements(y[0], (y[0] == 0), np.nan), y[1]) if 1 < p < 2 and y[0].size else y
        ),
    ),
    "non_max_suppression has so many boxes of a group": of(
        "non_max_suppression",
        lambda right: lambda boxes, scores, groups=None, *, max_boxes, **how: right(
            boxes, scores, groups,
            max_boxes=None if groups is not None and max_boxes and max_boxes > 1 else max_boxes,
            **how,
        ),
    ),
    "isin of int64 compares in float64": inputs(
        "isin", lambda a, b: (a.astype(float), b.astype(float)),
        lambda a, b, **_: a.dtype == np.int64 and b.dtype == np.int64,
    ),
    "scatter_multiply takes one of equal positions": instead(
        "scatter_multiply",
        lambda x, i, u, *, axis: (
            lambda y: (y.__setitem__(i, y[i] * u), y)[1]
        )(np.array(x)),
        lambda x, i, u, *, axis: axis == 0 and i.ndim == 2 and i.size > 0,
    ),
}  # fmt: skip

FAULTS = named(NETWORKS, FOURIER, CONVERSION, STATE, HALVES, COMPLEX, NEW)
