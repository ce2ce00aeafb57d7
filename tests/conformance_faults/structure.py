"""Sizes, layouts, axes, empty inputs, pairs of attributes."""

from __future__ import annotations

import numpy as np
from conformance_faults.faults import Fault, changed, nudged, of_result


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
        lambda right: (
            lambda a, b: (
                right(a[..., :64], b[..., :64, :])
                if a.ndim > 1 and b.ndim > 1 and a.shape[-1] == b.shape[-2] > 64
                else right(a, b)
            )
        ),
        "value",
    ),
    "sort of more than 16 elements": Fault(
        "sort",
        lambda right: (
            lambda x, **a: (
                right(x, **a)
                if x.size < 17 or x.ndim != 1
                else np.concatenate([right(x[:16], **a), right(x[16:], **a)])
            )
        ),
        "value",
    ),
    "cumulative_sum starts anew after 50": Fault(
        "cumulative_sum",
        lambda right: (
            lambda x, **a: (
                right(x, **a)
                if a["include_initial"] or x.shape[a["axis"]] <= 50
                else np.concatenate(
                    [right(part, **a) for part in np.split(x, [50], a["axis"])], a["axis"]
                )
            )
        ),
        "value",
    ),
    "layer_norm of long rows": Fault(
        "layer_norm",
        lambda right: (
            lambda x, s, o, **a: (
                (nudged(right(x, s, o, **a)[0]), *right(x, s, o, **a)[1:])
                if x.shape[-1] > 60
                else right(x, s, o, **a)
            )
        ),
        "value",
    ),
}


def square(x):
    return x.ndim > 1 and x.shape[-1] == x.shape[-2]


LAYOUTS = {
    "a square matrix transposed in memory": Fault(
        "matmul",
        lambda right: (
            lambda a, b: (
                right(a, b.mT)
                if square(b) and not b.flags.c_contiguous and b.mT.flags.c_contiguous
                else right(a, b)
            )
        ),
        "column-major",
    ),
    "permute_dims of square arrays": Fault(
        "permute_dims",
        lambda right: (
            lambda x, *, axes: x if len(set(x.shape)) == 1 and x.ndim > 1 else right(x, axes=axes)
        ),
        "square",
    ),
    "the transpose of a square": Fault(
        "matrix_transpose", lambda right: lambda x: x if square(x) else right(x), "square|value"
    ),
    "strides of 0 in sum": Fault(
        "sum",
        lambda right: (
            lambda x, **a: (
                right(x, **a) if 0 not in x.strides or not x.size else right(np.zeros_like(x), **a)
            )
        ),
        "repeated|value",
    ),
    "reversed inputs of maximum": Fault(
        "maximum",
        lambda right: (
            lambda a, b: (
                right(a[..., ::-1], b)
                if a.ndim and a.size > 1 and a.strides[-1] < 0
                else right(a, b)
            )
        ),
        "reversed",
    ),
    "unaligned inputs of divide": Fault(
        "divide",
        lambda right: lambda a, b: right(a, b) if a.flags.aligned else nudged(right(a, b)),
        "unaligned",
    ),
}

AXES = {
    "max in one axis": Fault("max", changed(nudged, lambda x, **_: x.ndim == 1), "value"),
    "argmin in one axis": Fault(
        "argmin", changed(lambda y: y + 1, lambda x, **_: x.ndim == 1), "value"
    ),
    "flip in one axis": Fault(
        "flip", lambda right: lambda x, **a: x if x.ndim == 1 else right(x, **a), "value"
    ),
    "softmax over axis 2 of 4": Fault(
        "softmax",
        lambda right: lambda x, *, axis: right(x, axis=1 if (axis, x.ndim) == (2, 4) else axis),
        "axis=2",
    ),
    "sum over axes 0 and 2 of 4": Fault(
        "sum",
        lambda right: (
            lambda x, *, axis, dtype, keepdims: right(
                x,
                axis=(0, 1) if axis == (0, 2) and x.ndim == 4 else axis,
                dtype=dtype,
                keepdims=keepdims,
            )
        ),
        r"axis=\(0, 2\)",
    ),
    "concat along the third axis": Fault(
        "concat",
        lambda right: lambda x, *, axis: right(x[::-1] if axis == 2 else x, axis=axis),
        "axis",
    ),
    "take along the third axis": Fault(
        "take",
        lambda right: lambda x, i, *, axis: right(x[..., ::-1] if axis == 2 else x, i, axis=axis),
        "value",
    ),
    "cumulative_max along axis 1 of 4": Fault(
        "cumulative_max",
        lambda right: lambda x, *, axis: right(x, axis=2 if (axis, x.ndim) == (1, 4) else axis),
        "axis",
    ),
    "an order of four axes": Fault(
        "permute_dims",
        lambda right: (
            lambda x, *, axes: right(x, axes=(3, 0, 1, 2) if tuple(axes) == (1, 2, 3, 0) else axes)
        ),
        "axes",
    ),
    "roll over the second of four axes": Fault(
        "argsort",
        lambda right: (
            lambda x, *, axis, **a: right(x, axis=0 if (axis, x.ndim) == (1, 4) else axis, **a)
        ),
        "axis",
    ),
    "log_softmax_gradient over axis 0": Fault(
        "log_softmax_gradient",
        lambda right: (
            lambda g, o, *, axis: right(g, o, axis=1 if axis == 0 and g.ndim == 3 else axis)
        ),
        "axis",
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
        lambda right: (
            lambda x, **a: (
                right(x, **a)
                if sum(y.size for y in x)
                else right([y.astype(np.float64) for y in x], **a)
            )
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
        lambda right: (
            lambda x, **a: (
                right(x, **{**a, "correction": 0.0})
                if a["correction"] and a["keepdims"]
                else right(x, **a)
            )
        ),
        "correction",
    ),
    "sort descending along the first axis": Fault(
        "sort",
        lambda right: (
            lambda x, **a: (
                right(x, **{**a, "descending": False})
                if a["descending"] and a["axis"] == 0 and x.ndim > 1
                else right(x, **a)
            )
        ),
        "descending",
    ),
    "cumulative_sum with a first 0 along an inner axis": Fault(
        "cumulative_sum",
        lambda right: (
            lambda x, **a: (
                nudged(right(x, **a))
                if a["include_initial"] and a["axis"] == 1 and x.ndim == 3
                else right(x, **a)
            )
        ),
        "include_initial",
    ),
    "avg_pool without padding counted and channels first": Fault(
        "avg_pool",
        lambda right: (
            lambda x, **a: (
                right(x, **{**a, "count_include_pad": True})
                if not a["count_include_pad"] and a["data_format"] == "channels_first"
                else right(x, **a)
            )
        ),
        "data_format",
    ),
    "conv with groups and strides": Fault(
        "conv",
        lambda right: (
            lambda x, k, **a: (
                nudged(right(x, k, **a))
                if a["groups"] > 1 and max(a["strides"]) > 1
                else right(x, k, **a)
            )
        ),
        "groups",
    ),
    "lstm with a mask in reverse": Fault(
        "lstm",
        lambda right: (
            lambda *x, **a: (
                right(*x, **{**a, "reverse": False})
                if a["reverse"] and x[6] is not None
                else right(*x, **a)
            )
        ),
        "reverse",
    ),
    "sum with dtype and keepdims": Fault(
        "sum",
        lambda right: (
            lambda x, **a: (
                nudged(right(x, **a)) if a["dtype"] is not None and a["keepdims"] else right(x, **a)
            )
        ),
        "dtype",
    ),
    "adam with weight decay and another beta": Fault(
        "adam_update",
        lambda right: (
            lambda *x, **a: (
                right(*x, **{**a, "beta1": 0.9})
                if a["weight_decay"] and a["beta1"] != 0.9
                else right(*x, **a)
            )
        ),
        "beta1",
    ),
    "layer_norm with an offset alone": Fault(
        "layer_norm",
        lambda right: (
            lambda x, s, o, **a: right(x, s, None, **a) if s is None else right(x, s, o, **a)
        ),
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
