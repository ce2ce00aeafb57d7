"""Mistakes that were thought of after the checks had been written, to measure these by."""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np
from conformance_faults.faults import (
    Fault,
    called_with,
    changed,
    elements,
    first_result,
    nudged,
    of_result,
    other,
    via,
)

from pullback.plugins.compiling import as_function
from pullback_numpy import NumPyBackend
from pullback_numpy.kernels import KERNELS

quiet = np.errstate(all="ignore")


def of(op: str, make: Any, **members: Any) -> Fault:
    return Fault(op, make, "", members)


def wrong_where(op, where):
    return of(op, changed(nudged, where))


def first_wrong(op, where):
    return of(op, first_result(nudged, where))


def instead(op, function, where=lambda *_, **__: True):
    return of(op, other(quiet(function), where))


# Reductions and orders ---------------------------------------------------------------------------


def sum_in_half(x, *, axis, dtype, keepdims):
    return np.add.reduce(x, axis, x.dtype, keepdims=keepdims)


def last_of_ties(x, *, axis, keepdims):
    if axis is None:
        found = np.int64(x.size - 1 - np.argmax(x.reshape(-1)[::-1]))
        return np.full((1,) * x.ndim, found) if keepdims else np.asarray(found)
    return x.shape[axis] - 1 - np.argmax(np.flip(x, axis), axis, keepdims=keepdims)


def reversed_ties(x, *, axis, descending, stable):
    found = np.argsort(x, axis, kind="stable")
    return np.flip(found, axis) if descending else found


REDUCTIONS = {
    "sum of float16 is taken in float16": instead(
        "sum", sum_in_half, lambda x, *, dtype, **_: x.dtype == np.float16 and dtype is None
    ),
    "max passes over NaN": instead(
        "max", lambda x, *, axis, keepdims: np.fmax.reduce(x, axis, keepdims=keepdims),
        lambda x, **_: x.dtype.kind == "f" and x.size > 0,
    ),
    "argmax is the last of ties": instead("argmax", last_of_ties, lambda x, **_: x.size > 0),
    "argsort turns ties round where it descends": instead("argsort", reversed_ties),
    "mean divides by the size of the last axis": of(
        "mean",
        of_result(
            lambda y, x, *, axis, keepdims: (
                np.asarray(y * (math.prod(x.shape[a] for a in axis) / x.shape[axis[-1]]), y.dtype)
                if axis is not None and len(axis) == 3 and x.size
                else y
            )
        ),
    ),
    "prod of nothing is 0": of(
        "prod", changed(np.zeros_like, lambda x, **_: x.size == 0 and x.ndim > 1)
    ),
    "all of an empty axis is false": of(
        "all", changed(np.zeros_like, lambda x, *, axis, **_: axis is not None and 0 in x.shape)
    ),
    "cumulative_sum begins with x": of(
        "cumulative_sum",
        called_with(lambda x, *, axis, include_initial, **_: x.ndim == 3 and axis == 1, axis=2),
    ),
    "std with a correction of more than 1 takes 1": of(
        "std", called_with(lambda x, *, correction, **_: correction > 1, correction=1.0)
    ),
}  # fmt: skip

# Elements ----------------------------------------------------------------------------------------


def leaking_where(c, x, y):
    return np.asarray(np.where(c, x, 0) + np.where(c, 0, y) + 0 * x * y, x.dtype)


def truncated(x1, x2):
    safe = np.where(x2 == 0, 1, x2)
    return np.where(x2 == 0, 0, np.trunc(x1.astype(float) / safe)).astype(x1.dtype)


def of_signs(a, b):
    signed = f"i{a.itemsize}"
    by = np.minimum(b, 8 * a.itemsize - 1).view(signed)
    return (a.view(signed) >> by).view(a.dtype)


ELEMENTS = {
    "where lets NaN of the other side through": instead(
        "where", leaking_where, lambda c, x, y: x.dtype.kind == "f"
    ),
    "clip gives the lower bound for NaN": of(
        "clip",
        of_result(
            lambda y, x, low=None, high=None: (
                elements(y, np.isnan(x), low) if low is not None and x.dtype.kind == "f" else y
            )
        ),
    ),
    "round takes halves away from zero": instead(
        "round", lambda x: np.asarray(np.trunc(x + np.copysign(x.dtype.type(0.5), x)), x.dtype),
        lambda x: x.dtype.kind == "f",
    ),
    "floor_divide of int8 truncates": instead(
        "floor_divide", truncated, lambda a, b: a.dtype == np.int8
    ),
    "pow of float32 by exp and log": instead(
        "pow", lambda a, b: np.asarray(np.exp(b * np.log(a)), a.dtype),
        lambda a, b: a.dtype == np.float32 and bool(np.all(a > 0)),
    ),
    "expm1 is exp - 1 from 1e-4 on": of(
        "expm1",
        of_result(lambda y, x: elements(y, np.abs(x) > 1e-4, np.exp(x) - 1)),
    ),
    "log1p of float64 in float32 for large x": of(
        "log1p",
        of_result(
            lambda y, x: (
                elements(y, x > 1e6, np.log(x.astype(np.float32)))
                if x.dtype == np.float64
                else y
            )
        ),
    ),
    "hypot by the root of squares": instead(
        "hypot", lambda a, b: np.asarray(np.sqrt(a * a + b * b), a.dtype)
    ),
    "tanh of float64 is 1 from 9 on": of(
        "tanh",
        of_result(
            lambda y, x: (
                elements(y, np.abs(x) > 9, np.sign(x)) if x.dtype == np.float64 else y
            )
        ),
    ),
    "logaddexp of two infinities is NaN": instead(
        "logaddexp",
        lambda a, b: np.asarray(np.maximum(a, b) + np.log1p(np.exp(-abs(a - b))), a.dtype),
    ),
    "atan2 of zeros without signs": instead(
        "atan2", lambda a, b: np.asarray(np.arctan2(a + 0, b + 0), a.dtype)
    ),
    "equal of NaN and itself": of(
        "equal",
        of_result(
            lambda y, a, b: (
                elements(y, np.isnan(a) & np.isnan(b), True) if a.dtype.kind == "f" else y
            )
        ),
    ),
    "sign of NaN is 0": of(
        "sign",
        of_result(lambda y, x: elements(y, np.isnan(x), 0) if x.dtype.kind == "f" else y),
    ),
    "shift of unsigned numbers is of their signs": instead(
        "bitwise_right_shift",
        of_signs,
        lambda a, b: a.dtype.kind == "u" and a.ndim > 0 and b.ndim > 0,
    ),
    "huber_loss at the corner": of(
        "huber_loss",
        of_result(
            lambda y, p, t, *, delta: elements(y, np.abs(p - t) > delta, delta * np.abs(p - t))
        ),
    ),
    "minimum of -0 and 0 of float16 nan": of(
        "minimum",
        of_result(
            lambda y, a, b: elements(y, np.isnan(b), a) if a.dtype == np.float16 else y
        ),
    ),
}  # fmt: skip


# Movement ----------------------------------------------------------------------------------------


def assigned_add(x, indices, updates, *, axis):
    y = x.copy()
    y[(slice(None),) * axis + (indices,)] += updates
    return y


def first_wins(x, indices, updates, *, axis):
    y = x.copy()
    key = (slice(None),) * axis
    y[(*key, np.flip(indices))] = np.flip(updates, tuple(range(axis, axis + indices.ndim)))
    return y


def inverse(x, *, axes):
    return np.transpose(x, np.argsort(axes))


MOVEMENT = {
    "scatter_add keeps one of equal positions": instead("scatter_add", assigned_add),
    "scatter_update keeps the first of equal positions": instead(
        "scatter_update", first_wins, lambda x, i, u, **_: i.ndim == 1 and u.ndim == x.ndim
    ),
    "take counts negative positions from the end but one": of(
        "take",
        via(
            lambda x, i: (x, np.where((i < 0) & (i != -1), i + 1, i).astype(i.dtype)),
            lambda x, i, **_: i.dtype.kind == "i",
        ),
    ),
    "permute_dims goes the other way round for five axes": instead(
        "permute_dims", inverse, lambda x, *, axes: x.ndim >= 5
    ),
    "flip of two axes is of the first": of(
        "flip", called_with(lambda x, *, axis: axis is not None and len(axis) == 2, axis=(0,))
    ),
    "concat leaves the last of nine out": of(
        "concat",
        via(lambda xs: ([*xs[:-1], np.zeros_like(xs[-1])],), lambda xs, **_: len(xs) > 8),
    ),
    "pad by reflection repeats the edge": of(
        "pad", called_with(lambda x, *, mode, **_: mode == "reflect", mode="symmetric")
    ),
    "tile of a vector repeats each element": instead(
        "tile", lambda x, *, repetitions: np.repeat(x, repetitions[0]),
        lambda x, *, repetitions: x.ndim == 1 and len(repetitions) == 1,
    ),
    "reshape of what is turned goes along its memory": of(
        "reshape",
        other(
            lambda x, *, shape: np.ascontiguousarray(x.T).T.ravel("K").reshape(shape),
            lambda x, **_: x.ndim == 3 and not x.flags.c_contiguous,
        ),
    ),
    "strided_slice backwards begins one late": of(
        "strided_slice",
        changed(
            nudged,
            lambda x, *, key: any(
                isinstance(k, slice) and k.step is not None and k.step < -1 for k in key
            ),
        ),
    ),
    "strided_update writes a broadcast value once": wrong_where(
        "strided_update", lambda x, v, *, key: v.ndim < x.ndim and v.size > 1
    ),
    "astype of float64 to float16 by way of float32": instead(
        "astype", lambda x, *, dtype: x.astype(np.float32).astype(dtype),
        lambda x, *, dtype: x.dtype == np.float64 and dtype == np.float16,
    ),
    "astype to bool looks at whole parts": instead(
        "astype", lambda x, *, dtype: x.astype(np.int64).astype(dtype),
        lambda x, *, dtype: x.dtype.kind == "f" and dtype == np.bool_,
    ),
    "arange adds up its steps": of(
        "arange",
        of_result(
            lambda y, *, start, stop, step, dtype, device: (
                np.cumsum(np.r_[start, np.full(max(len(y) - 1, 0), step)], dtype=y.dtype)[: len(y)]
                if y.dtype == np.float32
                else y
            )
        ),
    ),
    "full of a large integer by way of float64": of(
        "full",
        of_result(
            lambda y, *, shape, fill_value, **_: (
                np.full(shape, int(float(fill_value)), y.dtype)
                if y.dtype == np.int64 and abs(fill_value) < 2**62
                else y
            )
        ),
    ),
    "searchsorted of int64 in float64": of(
        "searchsorted",
        via(
            lambda a, b, s=None: (a.astype(float), b.astype(float), s),
            lambda a, b, s=None, **_: a.dtype == np.int64,
        ),
    ),
}  # fmt: skip

# Networks ----------------------------------------------------------------------------------------


def padded_with_zeros(right):
    def kernel(x, *, padding, **attributes):
        y, indices = right(x, padding=padding, **attributes)
        return (np.maximum(y, 0) if any(map(any, padding)) and y.size else y), indices

    return kernel


def turned_padding(*_, padding, **__):
    return any(before != after for before, after in padding)


def asymmetric(right):
    def kernel(*x, padding, **a):
        if turned_padding(padding=padding) and len(padding) > 1:
            padding = tuple((after, before) for before, after in padding)
        return right(*x, padding=padding, **a)

    return kernel


def epsilon_outside(right):
    def kernel(x, scale, *, axis, epsilon):
        with quiet:
            _, spread = right(x, scale, axis=axis, epsilon=0.0)
            spread = np.asarray(1 / (1 / spread + x.dtype.type(epsilon)), spread.dtype)
            y = x * spread if scale is None else x * spread * scale
        return np.asarray(y, x.dtype), spread

    return kernel


def no_bias_correction(right):
    def kernel(*x, **a):
        *arrays, step = x
        return right(*arrays, np.minimum(step, np.asarray(1000, step.dtype)), **a)

    return kernel


NETWORKS = {
    "conv pads before what it should pad behind": of("conv", asymmetric),
    "conv with dilation of one axis dilates the other": of(
        "conv",
        changed(nudged, lambda *_, dilation, **__: len(set(dilation)) == 2),
    ),
    "conv_input_gradient with strides that leave a rest": wrong_where(
        "conv_input_gradient",
        lambda g, k, *, input_shape, strides, **_: len(strides) == 1 and max(strides) > 2,
    ),
    "max_pool pads with zeros": of("max_pool", padded_with_zeros),
    "avg_pool counts the padding where it is on one side": of(
        "avg_pool", called_with(turned_padding, count_include_pad=True)
    ),
    "layer_norm over two axes takes the last": first_wrong(
        "layer_norm", lambda x, *_, axis, **__: len(axis) == 2 and x.ndim == 4
    ),
    "rms_norm adds epsilon outside of the root": of("rms_norm", epsilon_outside),
    "softmax of one element is x": of(
        "softmax", other(lambda x, *, axis: x, lambda x, *, axis: x.size and x.shape[axis] == 1)
    ),
    "log_softmax without the maximum": instead(
        "log_softmax",
        lambda x, *, axis: np.asarray(
            x - np.log(np.sum(np.exp(x), axis, keepdims=True)), x.dtype
        ),
        lambda x, **_: x.dtype == np.float64,
    ),
    "attention of a row without keys is their mean": first_wrong(
        "scaled_dot_product_attention",
        lambda q, k, v, mask, **_: (
            mask is not None and mask.dtype == np.bool_ and not mask.any(-1).all()
        ),
    ),
    "gelu_gradient is approximate for float32": of(
        "gelu_gradient", called_with(lambda g, x, **_: x.dtype == np.float32, approximate=True)
    ),
    "gru with a mask and reverse": first_wrong(
        "gru", lambda *x, reverse: reverse and x[-1] is not None
    ),
    "lstm without a bias": first_wrong("lstm", lambda *x, reverse: x[5] is None),
    "adam_update after a thousand steps": of("adam_update", no_bias_correction),
    "momentum_update is never nesterov with weight decay": of(
        "momentum_update",
        called_with(lambda *_, nesterov, weight_decay, **__: weight_decay > 0, nesterov=False),
    ),
    "sparse cross entropy ignores no label where labels are smoothed": of(
        "sparse_softmax_cross_entropy_with_logits",
        called_with(lambda *_, label_smoothing, **__: label_smoothing > 0, ignore_label=None),
    ),
    "resize of one row": of(
        "resize",
        changed(nudged, lambda x, *, size, **_: 1 in size and max(size) > 1 and x.size > 1),
    ),
    "random_bits ignore the upper half of the key": of(
        "random_bits",
        other(
            lambda *, key, **a: KERNELS["random_bits"](key=key & (2**64 - 1), **a),
            lambda *, key, **_: isinstance(key, int),
        ),
    ),
}  # fmt: skip

# State, threads, programs ------------------------------------------------------------------------


def kept_buffer(right):
    """The result is written into the one of the call before the last, if it has its shape."""
    kept: list[Any] = []

    def kernel(x):
        y = right(x)
        kept.append(y)
        if len(kept) > 40:
            old = kept.pop(0)
            if old.shape == y.shape and old.dtype == y.dtype and old.flags.writeable:
                old[...] = y
                return old
        return y

    return kernel


def shared_scratch(right):
    room: dict[Any, Any] = {}

    def kernel(x):
        y = right(x)
        space = room.setdefault((y.shape, y.dtype), np.empty_like(y))
        np.copyto(space, y)
        threading.Event().wait(1e-5)
        return space.copy()

    return kernel


def writes_where_large(right):
    def kernel(x1, x2):
        if x1.size > 2**17 and x1.flags.writeable and x1.shape == x2.shape:
            return np.add(x1, x2, out=x1)
        return right(x1, x2)

    return kernel


def by_shapes(self, graph):
    """The program of a graph with the same ops and shapes, whatever its connections."""
    kept = self.__dict__.setdefault("kept", {})
    key = tuple((call.op.name, repr(call.attributes)) for call in graph.calls)
    return kept.setdefault((key, len(graph.inputs)), as_function(graph))


def dropped_outputs(self, graph):
    """Outputs that are equal are computed once, also where one is a variable's new value."""
    run = as_function(graph)

    def call(*x):
        results = run(*x)
        return (*results[:-1], results[0]) if len(results) > 2 else results

    return call


def read_only_shared(self, x, device, *, copy):
    return x if x.ndim == 3 else np.array(x)


def float_item(self, x):
    return float(x) if x.dtype.kind in "iu" else x.item()


STATE = {
    "relu gives the memory of an earlier result away": of("relu", kept_buffer),
    "sigmoid has one scratch for all threads": of("sigmoid", shared_scratch),
    "add writes into x1 where it is large": of("add", writes_where_large),
    "programs are found by their ops alone": of("backend", None, compile=by_shapes),
    "the last output is the first": of("backend", None, compile=dropped_outputs),
    "from_host shares arrays of three axes": of("backend", None, from_host=read_only_shared),
    "item of an integer is a float": of("backend", None, item=float_item),
    "to_host turns arrays of four axes round": of(
        "backend",
        None,
        to_host=lambda self, x: NumPyBackend.to_host(self, x[::-1] if x.ndim == 4 else x),
    ),
}

FAULTS = {
    f"unforeseen: {name}": fault
    for faults in (REDUCTIONS, ELEMENTS, MOVEMENT, NETWORKS, STATE)
    for name, fault in faults.items()
}
