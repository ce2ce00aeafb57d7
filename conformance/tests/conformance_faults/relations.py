"""Inputs beside each other: numbers, broadcasting, one tensor twice, layouts, ranks, sizes."""

from __future__ import annotations

import numpy as np
from conformance_faults.faults import (
    Fault,
    changed,
    first_result,
    nudged,
    other,
    via,
)


def number_second(a, b, **_):
    return b.ndim == 0 < a.ndim


def number_first(a, b, **_):
    return a.ndim == 0 < b.ndim


def same(a, b, **_):
    return a is b


def floats(x):
    return x.dtype.kind == "f"


NUMBERS = {
    "array - number, exchanged": Fault("subtract", via(lambda a, b: (b, a), number_second), "x2"),
    "the root for a power of 0.5": Fault(
        "pow",
        other(
            lambda a, b: np.asarray(np.sqrt(a)),
            lambda a, b: floats(a) and b.ndim == 0 and float(b) == 0.5,
        ),
        "0.5 as x2",
    ),
    "the remainder by a number as in C": Fault(
        "remainder",
        other(
            lambda a, b: np.asarray(np.fmod(a, b)),
            lambda a, b: number_second(a, b) and np.all(b != 0),
        ),
        "as x2",
    ),
    "the reciprocal of a number in float16": Fault(
        "divide",
        other(
            lambda a, b: np.asarray(a * (np.ones((), a.dtype) / b)).astype(a.dtype),
            lambda a, b: a.dtype == np.float16 and number_second(a, b),
        ),
        "as x2",
    ),
    "atan2 of a number and an array": Fault("atan2", via(lambda a, b: (b, a), number_first), "x1"),
    "the larger of a number and NaN": Fault(
        "maximum",
        other(
            lambda a, b: np.asarray(np.fmax(a, b)),
            lambda a, b: (a.ndim == 0) != (b.ndim == 0) and floats(a),
        ),
        "NaN",
    ),
    "floor_divide by a number truncates": Fault(
        "floor_divide",
        other(
            lambda a, b: np.asarray(np.trunc(a / b)).astype(a.dtype),
            lambda a, b: number_second(a, b) and a.dtype == np.int32 and b != 0,
        ),
        "as x2",
    ),
}

BROADCASTING = {
    "a column beside a row": Fault(
        "add",
        via(
            lambda a, b: (a[::-1], b),
            lambda a, b: a.ndim == b.ndim == 2 and a.shape[1] == 1 == b.shape[0] < a.shape[0],
        ),
        "a column beside a row",
    ),
    "one element in the middle": Fault(
        "less_equal",
        changed(nudged, lambda a, b: a.shape != b.shape and a.ndim == b.ndim == 3),
        "in the middle|six axes",
    ),
    "a column as a condition": Fault(
        "where",
        changed(nudged, lambda c, a, b: c.ndim == a.ndim == 2 and c.shape[1] == 1 < a.shape[1]),
        "a column",
    ),
    "a condition without axes beside many elements": Fault(
        "where", changed(nudged, lambda c, a, b: c.ndim == 0 and a.size > 64), "no axes beside many"
    ),
    "six axes in add": Fault("add", changed(nudged, lambda a, b: a.ndim > 5), "six axes"),
}

TWICE = {
    "x - x is 0": Fault(
        "subtract", other(lambda a, b: np.zeros_like(a), same), "one tensor as x1 and x2"
    ),
    "x / x is 1": Fault("divide", other(lambda a, b: np.ones_like(a), same), "one tensor as"),
    "x == x is True": Fault(
        "equal", other(lambda a, b: np.ones(a.shape, np.bool_), same), "one tensor as"
    ),
    "x @ x is symmetric": Fault(
        "matmul",
        other(lambda a, b: np.asarray(np.matmul(a, a.mT)), lambda a, b: a is b and a.ndim > 1),
        "one tensor as",
    ),
    "an array twice in concat": Fault(
        "concat",
        via(lambda x: ([x[0], np.flip(x[1])],), lambda x, **_: len(x) == 2 and x[0] is x[1]),
        "one tensor as",
    ),
    "keys that are the values of attention": Fault(
        "scaled_dot_product_attention",
        via(lambda q, k, v, m: (q, k, v[..., ::-1], m), lambda q, k, v, m, **_: k is v),
        "one tensor as",
    ),
    "both means of adam": Fault(
        "adam_update", first_result(nudged, lambda p, g, m, v, *_, **__: m is v), "one tensor as"
    ),
}


def pitched(x):
    """The rows of a part of a wider matrix, without a step in a row."""
    return x.ndim == 2 and x.strides[1] == x.itemsize and x.strides[0] > x.shape[1] * x.itemsize


def without_pitch(x):
    flat = np.lib.stride_tricks.as_strided(x, (x.size,), (x.itemsize,))
    return flat.copy().reshape(x.shape)


def turned(x):
    return x.ndim == 2 and not x.flags.c_contiguous and x.flags.f_contiguous


LAYOUTS = {
    "matmul ignores the pitch of rows": Fault(
        "matmul", via(lambda a, b: (without_pitch(a), b), lambda a, b: pitched(a)), "layout|rows"
    ),
    "exp of parts of rows": Fault(
        "exp", other(lambda x: np.exp(without_pitch(x)), lambda x: floats(x) and pitched(x)), "rows"
    ),
    "the second input of add alone": Fault(
        "add",
        via(
            lambda a, b: (a, b.ravel("K").reshape(b.shape)),
            lambda a, b: a.shape == b.shape and a.flags.c_contiguous and turned(b),
        ),
        "beside others",
    ),
    "equal rows in softmax": Fault(
        "softmax",
        changed(nudged, lambda x, **_: x.ndim > 1 and x.strides[0] == 0 and x.shape[0] > 1),
        "rows repeated",
    ),
    "images exchanged in memory": Fault(
        "conv",
        changed(
            nudged,
            lambda x, *_, **__: x.ndim == 4
            and not x.flags.c_contiguous
            and np.moveaxis(x, 1, -1).flags.c_contiguous,
        ),
        "axes exchanged",
    ),
}  # fmt: skip

RANKS = {
    "sum of five axes": Fault("sum", changed(nudged, lambda x, **_: x.ndim == 5), "axes|axis"),
    "softmax of five axes": Fault("softmax", changed(nudged, lambda x, **_: x.ndim == 5), "axis|x"),
    "matmul of batches of batches": Fault(
        "matmul", changed(nudged, lambda a, b: a.ndim > 4), "more axes"
    ),
    "an order of five axes": Fault(
        "permute_dims", changed(nudged, lambda x, **_: x.ndim == 5), "axes"
    ),
    "seventeen arrays in concat": Fault(
        "concat",
        via(lambda x: ([*x[:8], *([x[0]] * (len(x) - 8))],), lambda x, **_: len(x) > 8),
        "17 arrays",
    ),
}


def rows_of(count):
    return lambda x, *_, **__: x.ndim > 0 and x.size and x.shape[-1] % count == 0


SIZES = {
    "whole vectors in exp": Fault("exp", changed(nudged, rows_of(16)), "every|64"),
    "softmax of rows of whole warps": Fault("softmax", changed(nudged, rows_of(32)), "64"),
    "matmul of whole tiles": Fault(
        "matmul",
        changed(
            nudged,
            lambda a, b: a.ndim > 1 < b.ndim and not any(n % 8 for n in a.shape[-2:] + b.shape),
        ),
        "64",
    ),
    "conv of whole groups of channels": Fault(
        "conv",
        changed(nudged, lambda x, k, **_: not k.shape[-1] % 8 and not k.shape[-2] % 8),
        "8|64",
    ),
    "matmul by one column": Fault(
        "matmul", changed(nudged, lambda a, b: a.ndim == b.ndim == 2 and b.shape[1] == 1), "is 1"
    ),
    "attention of one query": Fault(
        "scaled_dot_product_attention",
        first_result(nudged, lambda q, k, *_, **__: q.shape[-2] == 1 < k.shape[-2]),
        "is 1",
    ),
    "softmax of one element": Fault(
        "softmax", changed(nudged, lambda x, axis: x.ndim > 1 and x.shape[axis] == 1), "is 1|axis"
    ),
    "units of whole vectors in lstm": Fault(
        "lstm", first_result(nudged, lambda x, h, *_, **__: h.size and h.shape[-1] % 8 == 0), "16"
    ),
    "cholesky in blocks": Fault(
        "cholesky", changed(nudged, lambda x, **_: x.shape[-1] > 32), "36 rows"
    ),
    "powers of two in fft": Fault(
        "fft", changed(nudged, lambda x, **_: x.shape[-1] == 64), "is 64"
    ),
}

FAULTS = {
    **{f"number: {name}": fault for name, fault in NUMBERS.items()},
    **{f"broadcasting: {name}": fault for name, fault in BROADCASTING.items()},
    **{f"twice: {name}": fault for name, fault in TWICE.items()},
    **{f"laid out: {name}": fault for name, fault in LAYOUTS.items()},
    **{f"rank: {name}": fault for name, fault in RANKS.items()},
    **{f"whole size: {name}": fault for name, fault in SIZES.items()},
}
