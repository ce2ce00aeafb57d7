"""Sizes, layouts, axes, empty inputs, pairs of attributes."""

from __future__ import annotations

import numpy as np
from conformance_faults.faults import (
    Fault,
    called_with,
    changed,
    first_result,
    nudged,
    of_result,
    other,
    via,
)


def big(limit):
    return lambda x, *_, **__: np.asarray(x).size > limit


def tail(y, x, **__):
    """The elements behind the last whole vector of 8 are left over."""
    y = np.array(y)
    count = y.size % 8
    if y.size > 64 and count:
        y.reshape(-1)[-count:] = 0
    return y


def blocks(size):
    """The first element of every block but the first is wrong."""

    def change(y, *_, **__):
        y = np.array(y)
        y.reshape(-1)[size::size] = 7
        return y

    return of_result(change)


def in_parts(size, dimensions=(1, 2, 3, 4)):
    """The first elements along the axis and the others, as if they were two arrays."""

    def make(right):
        def kernel(x, **a):
            if x.ndim not in dimensions or x.shape[a["axis"]] <= size or a.get("include_initial"):
                return right(x, **a)
            parts = np.split(x, [size], a["axis"])
            return np.concatenate([right(part, **a) for part in parts], a["axis"])

        return kernel

    return make


SIZES = {
    "exp beyond 2,000 elements": Fault("exp", changed(nudged, big(2000)), "every float"),
    "add beyond 60,000 elements": Fault("add", changed(nudged, big(60000)), "every float32"),
    "max beyond 2,000 elements": Fault("max", changed(nudged, big(2000)), "value"),
    "softmax beyond 2,000 elements": Fault("softmax", changed(nudged, big(2000)), "value"),
    "the tail of vectors in tanh": Fault("tanh", of_result(tail), "every float"),
    "the tail of vectors in multiply": Fault("multiply", of_result(tail), "every"),
    "the borders of blocks in sqrt": Fault("sqrt", blocks(1024), "every float"),
    "16-bit offsets in negative": Fault("negative", blocks(2**16), "every float32"),
    "argmax with 16-bit positions": Fault("argmax", of_result(lambda y, x, **_: y % 1024), "value"),
    "matmul with a long inner axis": Fault(
        "matmul",
        via(
            lambda a, b: (a[..., :64], b[..., :64, :]),
            lambda a, b: a.ndim > 1 and b.ndim > 1 and a.shape[-1] == b.shape[-2] > 64,
        ),
        "value",
    ),
    "sort of more than 16 elements": Fault("sort", in_parts(16, dimensions=(1,)), "value"),
    "cumulative_sum starts anew after 50": Fault("cumulative_sum", in_parts(50), "value"),
    "layer_norm of long rows": Fault(
        "layer_norm", first_result(nudged, lambda x, *_, **__: x.shape[-1] > 60), "value"
    ),
}


def square(x):
    return x.ndim > 1 and x.shape[-1] == x.shape[-2]


LAYOUTS = {
    "a square matrix transposed in memory": Fault(
        "matmul",
        via(
            lambda a, b: (a, b.mT),
            lambda a, b: square(b) and not b.flags.c_contiguous and b.mT.flags.c_contiguous,
        ),
        "column-major",
    ),
    "permute_dims of square arrays": Fault(
        "permute_dims",
        other(lambda x, **_: x, lambda x, **_: len(set(x.shape)) == 1 and x.ndim > 1),
        "square",
    ),
    "the transpose of a square": Fault(
        "matrix_transpose", other(lambda x: x, square), "square|value"
    ),
    "strides of 0 in sum": Fault(
        "sum",
        via(lambda x: (np.zeros_like(x),), lambda x, **_: 0 in x.strides and x.size),
        "repeated|value",
    ),
    "reversed inputs of maximum": Fault(
        "maximum",
        via(
            lambda a, b: (a[..., ::-1], b),
            lambda a, b: a.ndim and a.size > 1 and a.strides[-1] < 0,
        ),
        "reversed",
    ),
    "unaligned inputs of divide": Fault(
        "divide", changed(nudged, lambda a, b: not a.flags.aligned), "unaligned"
    ),
}


def along(axis, ndim):
    """Calls over an axis of inputs with this number of axes."""
    return lambda x, *_, **a: (a["axis"], x.ndim) == (axis, ndim)


AXES = {
    "max in one axis": Fault("max", changed(nudged, lambda x, **_: x.ndim == 1), "value"),
    "argmin in one axis": Fault(
        "argmin", changed(lambda y: y + 1, lambda x, **_: x.ndim == 1), "value"
    ),
    "flip in one axis": Fault("flip", other(lambda x, **_: x, lambda x, **_: x.ndim == 1), "value"),
    "softmax over axis 2 of 4": Fault("softmax", called_with(along(2, 4), axis=1), "axis=2"),
    "sum over axes 0 and 2 of 4": Fault(
        "sum", called_with(along((0, 2), 4), axis=(0, 1)), r"axis=\(0, 2\)"
    ),
    "concat along the third axis": Fault(
        "concat", via(lambda x: (x[::-1],), lambda x, *, axis: axis == 2), "axis"
    ),
    "take along the third axis": Fault(
        "take", via(lambda x, i: (x[..., ::-1], i), lambda x, i, *, axis: axis == 2), "value"
    ),
    "cumulative_max along axis 1 of 4": Fault(
        "cumulative_max", called_with(along(1, 4), axis=2), "axis"
    ),
    "an order of four axes": Fault(
        "permute_dims",
        called_with(lambda x, *, axes: tuple(axes) == (1, 2, 3, 0), axes=(3, 0, 1, 2)),
        "axes",
    ),
    "roll over the second of four axes": Fault("argsort", called_with(along(1, 4), axis=0), "axis"),
    "log_softmax_gradient over axis 0": Fault(
        "log_softmax_gradient", called_with(along(0, 3), axis=1), "axis"
    ),
}


def no_empty(x, *_, **__):
    return x.size == 0


EMPTY = {
    "the sum of nothing in int64": Fault(
        "sum",
        changed(
            lambda y: y + np.asarray(1, y.dtype), lambda x, **_: x.size == 0 and x.dtype == np.int64
        ),
        "0",
    ),
    "the product of nothing in float16": Fault(
        "prod", changed(lambda y: y * 0, lambda x, **_: x.size == 0 and x.dtype == np.float16), "0"
    ),
    "all of nothing": Fault("all", changed(np.zeros_like, no_empty), "value"),
    "matmul over nothing": Fault(
        "matmul",
        changed(
            lambda y: y + np.asarray(1, y.dtype), lambda a, b: a.size == 0 and a.dtype.itemsize == 2
        ),
        "0",
    ),
    "the dtype of an empty result": Fault(
        "concat",
        via(
            lambda x: ([y.astype(np.float64) for y in x],),
            lambda x, **_: not sum(y.size for y in x),
        ),
        "0|empty",
    ),
    "count_nonzero of nothing in bfloat16": Fault(
        "count_nonzero",
        changed(lambda y: y + 1, lambda x, **_: x.size == 0 and x.dtype.itemsize == 2),
        "0",
    ),
}

PAIRS = {
    "var with correction and keepdims": Fault(
        "var",
        called_with(lambda x, **a: a["correction"] and a["keepdims"], correction=0.0),
        "correction",
    ),
    "sort descending along the first axis": Fault(
        "sort",
        called_with(
            lambda x, **a: a["descending"] and a["axis"] == 0 and x.ndim > 1, descending=False
        ),
        "descending",
    ),
    "cumulative_sum with a first 0 along an inner axis": Fault(
        "cumulative_sum",
        changed(nudged, lambda x, **a: a["include_initial"] and a["axis"] == 1 and x.ndim == 3),
        "include_initial",
    ),
    "avg_pool without padding counted and channels first": Fault(
        "avg_pool",
        called_with(
            lambda x, **a: not a["count_include_pad"] and a["data_format"] == "channels_first",
            count_include_pad=True,
        ),
        "data_format",
    ),
    "conv with groups and strides": Fault(
        "conv",
        changed(nudged, lambda *_, **a: a["groups"] > 1 and max(a["strides"]) > 1),
        "groups",
    ),
    "lstm with a mask in reverse": Fault(
        "lstm",
        called_with(lambda *x, **a: a["reverse"] and x[6] is not None, reverse=False),
        "reverse",
    ),
    "sum with dtype and keepdims": Fault(
        "sum",
        changed(nudged, lambda x, **a: a["dtype"] is not None and a["keepdims"]),
        "dtype",
    ),
    "adam with weight decay and another beta": Fault(
        "adam_update", called_with(lambda *_, **a: a["weight_decay"], beta1=0.9), "beta1"
    ),
    "layer_norm with an offset alone": Fault(
        "layer_norm",
        via(lambda x, s, o: (x, s, None), lambda x, s, o, **_: s is None),
        "without scale|value",
    ),
}


FAULTS = {
    **{f"size: {name}": fault for name, fault in SIZES.items()},
    **{f"layout: {name}": fault for name, fault in LAYOUTS.items()},
    **{f"axis: {name}": fault for name, fault in AXES.items()},
    **{f"empty: {name}": fault for name, fault in EMPTY.items()},
    **{f"pair: {name}": fault for name, fault in PAIRS.items()},
}
