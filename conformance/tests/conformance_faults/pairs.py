"""Mistakes of authors who did not know the kit, most of them where two conditions meet.

They were written from the specification and the backends alone: each is a branch that a kernel has
for speed, or a habit of another library, which is right in every call but some.
"""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
from conformance_faults.faults import called_with, changed, via
from conformance_faults.newest import inputs, of, quiet, result

from pullback.plugins.compiling import as_function
from pullback_numpy.kernels import KERNELS


def is_half(x):
    """float16 or bfloat16."""
    return x.dtype in (np.float16, ml_dtypes.bfloat16)


def is_number(x):
    return x is not None and x.ndim == 0


def by(op, function):
    """A kernel that is function(right, *inputs, **attributes)."""
    return of(op, lambda right: quiet(lambda *x, **a: function(right, *x, **a)))


def attributes(op, where, **wrong):
    return of(op, called_with(where, **wrong))


def behind(x, axis):
    """Returns whether the last axis is not among those that an attribute names."""
    axes = range(x.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
    return x.ndim > 1 and x.ndim - 1 not in axes


def like(y, value):
    return np.asarray(value, y.dtype)


# Elements -----------------------------------------------------------------------------------------


def chosen(y, condition, x1, x2):
    return np.array(x1 if condition else x2) if condition.ndim == 0 else y


def by_reciprocal(y, x1, x2):
    if y.dtype not in (np.float32, np.float64) or not is_number(x2) or not np.isfinite(1 / x2):
        return y
    return np.asarray(np.where(np.isfinite(x1), np.floor(x1 * (1 / x2)), y), y.dtype)


def masked(y, x1, x2):
    if y.dtype.kind != "i" or not is_number(x2) or x2 >= 0 or int(x2) & -int(x2) != -int(x2):
        return y
    return like(y, x1 & (-x2 - 1))


def reciprocal_of_square(y, x, *, exponent):
    return 1 / (x * x) if exponent == -2 and x.dtype == np.float16 else y


def with_open_end(y, x, least, most):
    if most is not None or least is None or y.dtype != np.int64:
        return y
    return np.fmin(np.maximum(x.astype(np.float64), least), 2.0**63 - 1024).astype(np.int64)


def next_of_bits(y, x1, x2):
    if not is_half(y):
        return y
    return np.asarray(np.where((x1 == 0) & (x2 < 0), -y, y), y.dtype)


def by_magic_number(y, x):
    if x.dtype != np.float32:
        return y
    magic = np.float32(1.5 * 2**23)
    found = np.copysign((np.abs(x) + magic) - magic, x)
    return np.asarray(np.where(np.abs(x) < 2**23, found, y), y.dtype)


def without_complement(y, x):
    if x.dtype != ml_dtypes.bfloat16:
        return y
    return like(y, 1 - KERNELS["erf"](np.asarray(x, np.float32)))


def reflected(right, x, *, n):
    y = right(x, n=n)
    if n % 2 == 0:
        return y
    return np.asarray(np.where(x < 0, y + 2 * right(1 - x, n=n), y), y.dtype)


def larger(y, x, *, negative_slope):
    return (
        np.maximum(x, like(x, x.astype(np.float64) * negative_slope)) if negative_slope > 1 else y
    )


def by_probabilities(y, x, *, axis):
    if not behind(x, axis):
        return y
    return like(y, np.log(np.exp(y.astype(np.float32) if is_half(y) else y)))


def slope_at_overflow(y, g, x, *, approximate):
    if not approximate or x.dtype != np.float16:
        return y
    return np.asarray(np.where(np.abs(x) > 256, np.nan, y), y.dtype)


ELEMENTS = {
    "where with one condition gives the chosen input in its own shape": result("where", chosen),
    "floor_divide by one number multiplies by the reciprocal": result(
        "floor_divide", by_reciprocal
    ),
    "remainder by a negative power of two is a mask": result("remainder", masked),
    "fixed_power of -2 squares in float16": result("fixed_power", reciprocal_of_square),
    "clip of int64 without a largest number goes through float64": result("clip", with_open_end),
    "nextafter of 16 bits steps from zero to the positive": result("nextafter", next_of_bits),
    "round adds a magic number to halves above it": result("round", by_magic_number),
    "atan2 of negative zero and one number has no sign": inputs(
        "atan2", lambda x1, x2: (x1 + 0, x2), lambda x1, x2: is_number(x2)
    ),
    "bitwise_right_shift of short numbers by one number brings in zeros": result(
        "bitwise_right_shift",
        lambda y, x1, x2: (
            np.asarray((x1.view(f"u{x1.itemsize}") >> x2.view(f"u{x2.itemsize}")).view(y.dtype))
            if y.dtype.kind == "i" and y.itemsize < 4 and is_number(x2)
            else y
        ),
    ),
    "conj of a view is the view": result(
        "conj", lambda y, x: y if x.flags.c_contiguous else np.array(x)
    ),
    "erfc of bfloat16 is one less erf": result("erfc", without_complement),
    "polygamma of odd order adds the reflection": by("polygamma", reflected),
    "gelu_gradient by tanh squares in float16": result("gelu_gradient", slope_at_overflow),
    "leaky_relu is the larger of two": result("leaky_relu", larger),
    "softplus of float64 has the threshold of float32": result(
        "softplus", lambda y, x: np.asarray(np.where(x > 20, x, y)) if x.itemsize == 8 else y
    ),
    "log_softmax of an axis in front is a logarithm of softmax": result(
        "log_softmax", by_probabilities
    ),
}

# Layouts ------------------------------------------------------------------------------------------


def first_flip(right, x, *, axis):
    if axis is not None and len(axis) > 1 and not x.flags.c_contiguous:
        axis = axis[:1]
    return right(x, axis=axis)


def only_behind(x, *, pad_width, mode, **_):
    return mode == "reflect" and any(not before and after for before, after in pad_width)


def forwards(right, x, value, *, key):
    """A value of several elements is written in the order of memory, whatever the step."""
    if value.ndim:
        turned, axis = [], 0
        for one in key:
            if one is Ellipsis:
                break
            if isinstance(one, slice):
                turned += [axis] if (one.step or 1) < 0 else []
            if not isinstance(one, int):
                axis += 1
        value = np.flip(np.broadcast_to(value, x[key].shape), turned)
    return right(x, value, key=key)


def in_memory_order(arrays):
    return ([x if x.flags.c_contiguous else x.ravel("K").reshape(x.shape) for x in arrays],)


def rounded_twice(y, x, *, dtype):
    if dtype != ml_dtypes.bfloat16 or x.dtype != np.float64:
        return y
    return x.astype(np.float32).astype(dtype)


LAYOUTS = {
    "flip of a view along several axes takes the first": by("flip", first_flip),
    "pad by reflection behind alone repeats the edge": attributes(
        "pad", only_behind, mode="symmetric"
    ),
    "strided_update through a negative step writes forwards": by("strided_update", forwards),
    "concat along the last axis reads views as they lie": inputs(
        "concat", in_memory_order, lambda arrays, *, axis: axis > 0 and axis == arrays[0].ndim - 1
    ),
    "astype from float64 to bfloat16 rounds twice": result("astype", rounded_twice),
}

# Reductions ---------------------------------------------------------------------------------------


def short_products(y, x, *, axis, dtype, keepdims):
    if axis is None or x.dtype.kind not in "iu" or x.itemsize != 4 or y.dtype.kind not in "iu":
        return y
    return np.multiply.reduce(x, axis, x.dtype, keepdims=keepdims).astype(y.dtype)


def largest_number(y, x, *, axis, keepdims):
    if not is_half(x) or not behind(x, axis) or not y.size:
        return y
    return like(y, np.fmax.reduce(x.astype(np.float32), axis, keepdims=keepdims))


def short_means(y, x, *, axis, keepdims):
    if x.dtype != np.float16 or not behind(x, axis) or not y.size:
        return y
    count = math.prod(x.shape[a] for a in axis)
    return like(y, np.add.reduce(x, axis, np.float16, keepdims=keepdims) / np.float16(count))


def signed_powers(y, x, *, axis, keepdims, ord):
    if x.dtype.kind == "c" or ord not in (3, 5) or not (x < 0).any():
        return y
    total = np.sum(x.astype(np.float64) ** ord, axis, keepdims=keepdims)
    return like(y, total ** (1 / ord))


def of_own_place(right, a, b, *, axis, reverse):
    if reverse and behind(b, axis):
        a = np.roll(a, 1, axis)
    return right(a, b, axis=axis, reverse=reverse)


REDUCTIONS = {
    "prod along axes multiplies in 32 bits": result("prod", short_products),
    "max of 16 bits along an axis in front passes over NaN": result("max", largest_number),
    "mean of float16 along an axis in front adds in float16": result("mean", short_means),
    "vector_norm of odd order keeps signs": result("vector_norm", signed_powers),
    "linear_recurrence backwards along an axis in front takes factors of its place": by(
        "linear_recurrence", of_own_place
    ),
}

# Positions and order ------------------------------------------------------------------------------


def from_the_row_before(y, x, indices):
    count = indices.shape[-1]
    if count < 2 or not y.size:
        return y
    place = np.zeros(indices.shape[:-1], np.int64)
    for axis in range(count):
        place = place * x.shape[axis] + indices[..., axis].astype(np.int64)
    return x.reshape(-1, *x.shape[count:])[place % math.prod(x.shape[:count])]


def buffered(right, x, indices, updates, *, axis):
    y = right(x, indices, updates, axis=axis)
    if not axis:
        return y
    y = np.array(x)
    y[(slice(None),) * axis + (indices,)] += updates
    return y


def as_integers(right, x, indices, updates, *, axis):
    if x.dtype != np.float32:
        return right(x, indices, updates, axis=axis)
    bits = (np.ascontiguousarray(a).view(np.int32).reshape(a.shape) for a in (x, updates))
    x, updates = bits
    return right(x, indices, updates, axis=axis).view(np.float32)


def not_below_zero(right, x, indices, *, axis):
    y = right(x, indices, axis=axis)
    if not behind(x, axis) or indices.dtype.kind != "i":
        return y
    return right(x, np.maximum(indices, 0), axis=axis)


def reversed_order(right, x, *, axis, descending, stable):
    if not descending or not behind(x, axis):
        return right(x, axis=axis, descending=descending, stable=stable)
    return np.flip(right(x, axis=axis, descending=False, stable=stable), axis)


def negated(right, x, *, k, axis, largest):
    if largest or x.dtype.kind != "u":
        return right(x, k=k, axis=axis, largest=largest)
    order = right(np.subtract(0, x, dtype=x.dtype), k=k, axis=axis, largest=True)[1]
    return np.take_along_axis(x, order, axis), order


def half_of_sum(y, x, *, axis, keepdims):
    count = x.size if axis is None else math.prod(x.shape[a] for a in axis)
    if count % 2 or x.dtype.kind in "iub":
        return y
    # a + (b - a) / 2
    return like(y, np.where(np.isinf(y), np.nan, y))


POSITIONS = {
    "gather_nd counts backwards into the row before": result("gather_nd", from_the_row_before),
    "scatter_add along an axis behind keeps one of the same index": by("scatter_add", buffered),
    "scatter_max compares float32 as integers": by("scatter_max", as_integers),
    "take_along_axis in front takes negative indices as 0": by("take_along_axis", not_below_zero),
    "argsort descending along an axis in front turns equals": by("argsort", reversed_order),
    "top_k of the smallest negates unsigned numbers": by("top_k", negated),
    "median of an even number between infinities is NaN": result("median", half_of_sum),
    "argmax of a whole view is the place in memory": inputs(
        "argmax",
        lambda x: (x.ravel("K"),),
        lambda x, *, axis, keepdims: axis is None and not keepdims and x.ndim > 1,
    ),
}

# Matrices and transforms --------------------------------------------------------------------------


def first_of_stack(x1, x2):
    return x1, np.broadcast_to(x2[..., :1, :, :], x2.shape)


def is_one_by_turned(x1, x2):
    if min(x1.ndim, x2.ndim) < 3 or x1.shape[-3] != 1 or x2.shape[-3] < 2:
        return False
    return not x2.flags.c_contiguous


def roots_of_products(y, x):
    if x.shape[-1] <= x.shape[-2] or not y.size or not np.isfinite(x).all():
        return y
    x = x.astype(np.float32) if is_half(x) else x
    largest = np.abs(x).max() or 1
    x = x / largest
    values = np.linalg.eigvalsh(x @ np.conj(x.swapaxes(-1, -2)))[..., ::-1]
    return like(y, np.sqrt(np.maximum(values, 0)) * largest)


def by_the_old_length(y, x, *, n, axis, norm):
    old = x.shape[axis]
    if norm != "ortho" or n == old or not old:
        return y
    return like(y, y * math.sqrt(n / old))


def real_at_the_end(right, x, *, n, axis, norm):
    if n % 2 and x.shape[axis] > n // 2 > 0:
        x = np.moveaxis(np.array(x), axis, -1)
        x[..., n // 2] = x[..., n // 2].real
        x = np.moveaxis(x, -1, axis)
    return right(x, n=n, axis=axis, norm=norm)


MATRICES = {
    "matmul of one matrix and turned ones takes the first": inputs(
        "matmul", first_of_stack, is_one_by_turned
    ),
    "vecdot along an axis in front does not conjugate": of(
        "vecdot",
        via(
            lambda x1, x2: (np.conj(x1), x2),
            lambda x1, x2, *, axis: axis < -1 and x1.dtype.kind == "c",
        ),
    ),
    "cholesky of complex numbers is turned without conjugation": of(
        "cholesky", changed(np.conj, lambda x, *, upper: upper and x.dtype.kind == "c")
    ),
    "svdvals of wide matrices are roots of products": result("svdvals", roots_of_products),
    "fft to another length is normalized by the old one": result("fft", by_the_old_length),
    "irfft of an odd number has a real end": by("irfft", real_at_the_end),
}

# Networks -----------------------------------------------------------------------------------------


def smoothed_where_ignored(found, logits, labels, *, axis, label_smoothing, ignore_label):
    loss, normalizer = found
    if ignore_label is None or not label_smoothing:
        return found
    rest = label_smoothing * np.mean(normalizer - logits.astype(normalizer.dtype), axis)
    return like(loss, np.where(labels == ignore_label, rest, loss)), normalizer


def of_whole_labels(found, logits, labels, *, axis, label_smoothing):
    loss, normalizer = found
    if label_smoothing:
        return found
    missing = 1 - labels.astype(np.float64).sum(axis)
    rest = np.where(np.abs(missing) > 0.01, missing * np.squeeze(normalizer, axis), 0)
    return like(loss, loss + rest), normalizer


def is_one_pixel(x, kernel, *, strides, padding, **_):
    return all(n == 1 for n in (*kernel.shape[:-2], *strides)) and any(map(any, padding))


def in_other_order(y, x, g, *, groups, **_):
    channels, filters = y.shape[-2] * groups, y.shape[-1]
    if groups == 1 or groups != channels or filters == groups:
        return y
    turned = y.reshape(*y.shape[:-1], groups, filters // groups).swapaxes(-1, -2)
    return turned.reshape(y.shape)


def by_whole_windows(y, x, *, window, strides, padding, dilation, ceil_mode, count_include_pad,
                     data_format):  # fmt: skip
    if not (ceil_mode and count_include_pad):
        return y
    first = 1 if data_format == "channels_last" else 2
    y = np.array(y)
    for i, size in enumerate(window):
        axis = first + i
        starts = np.arange(y.shape[axis]) * strides[i]
        places = starts[:, None] + np.arange(size) * dilation[i]
        counted = (places < x.shape[axis] + sum(padding[i])).sum(1)
        shape = [1] * y.ndim
        shape[axis] = -1
        y = like(y, y * (counted / size).reshape(shape))
    return y


def kept_by_sizes(right):
    methods = {}

    def kernel(x, *, size, method, data_format):
        method = methods.setdefault((x.shape, size, data_format), method)
        return right(x, size=size, method=method, data_format=data_format)

    return kernel


def moved_apart(right, boxes, scores, groups, **how):
    if groups is None or not boxes.size:
        return right(boxes, scores, groups, **how)
    boxes = boxes.astype(np.float64 if boxes.itemsize == 8 else np.float32)
    step = boxes.max() + 1
    return right(boxes + (groups[:, None] * step).astype(boxes.dtype), scores, None, **how)


def with_the_pair(right, *, shape, **how):
    y, count = right(shape=shape, **how), math.prod(shape)
    if count < 3 or count % 2 == 0:
        return y
    y = np.array(y)
    y.reshape(-1)[-1] = right(shape=(count + 1,), **how)[-1]
    return y


def dealt_channels(right, x, scale, offset, *, groups, axis, epsilon):
    channels = x.shape[axis]
    how = {"groups": groups, "axis": axis, "epsilon": epsilon}
    if axis != x.ndim - 1 or groups in (1, channels):
        return right(x, scale, offset, **how)
    order = np.arange(channels).reshape(-1, groups).T.reshape(-1)
    dealt = (None if p is None else p[order] for p in (scale, offset))
    y = np.empty_like(x)
    y[..., order] = right(np.ascontiguousarray(x[..., order]), *dealt, **how)
    return y


def by_one_axis(found, x, scale, *, axis, epsilon):
    axes = tuple(range(x.ndim)) if axis is None else axis
    if len(axes) < 2 or not x.size:
        return found
    y, spread = found
    squares = np.square(x.astype(np.float64)).sum(axes, keepdims=True)
    root = 1 / np.sqrt(squares / x.shape[axes[-1]] + epsilon)
    return like(y, y * (root / spread)), like(spread, root)


def capped_masks(y, query, key, mask, *, is_causal, scale, softcap, window):
    if softcap is None or mask is None or mask.dtype.kind == "b" or not y.size:
        return y
    k = np.repeat(key, query.shape[-3] // key.shape[-3], -3) if key.ndim > 2 else key
    q, k = query.astype(np.float64), k.astype(np.float64)
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    scores = q @ k.swapaxes(-1, -2) * scale + mask.astype(np.float64)
    away = np.arange(y.shape[-1]) - np.arange(y.shape[-2])[:, None]
    before, after = window or (None, None)
    seen = away <= (0 if is_causal else y.shape[-1] if after is None else after)
    seen &= away >= (-y.shape[-2] if before is None else -before)
    weights = np.exp(softcap * np.tanh(scores / softcap)) * seen
    total = weights.sum(-1, keepdims=True)
    return like(y, weights / np.where(total == 0, 1, total))


def first_of_group(right, query, key, value, *others, **how):
    shared = query.shape[-3] // key.shape[-3] if query.ndim > 2 and key.shape[-3] else 1
    if shared == 1:
        return right(query, key, value, *others, **how)
    own = (np.repeat(x, shared, -3) for x in (key, value))
    dq, dk, dv = right(query, *own, *others, **how)
    return dq, dk[..., ::shared, :, :].copy(), dv[..., ::shared, :, :].copy()


def last_in_time(found, x, *others, reverse):
    out, _, *rest = found
    if not reverse or others[5] is None or not x.shape[1]:
        return found
    return (out, out[:, -1].copy(), *rest)


def without_third(right, x, h, kernel, recurrent_kernel, bias, recurrent_bias, mask, **how):
    if recurrent_bias is not None and not how["reset_after"]:
        recurrent_bias = np.array(recurrent_bias)
        recurrent_bias[2 * recurrent_bias.size // 3 :] = 0
    return right(x, h, kernel, recurrent_kernel, bias, recurrent_bias, mask, **how)


NETWORKS = {
    "sparse cross entropy of an ignored label has the smooth part": result(
        "sparse_softmax_cross_entropy_with_logits", smoothed_where_ignored
    ),
    "cross entropy takes labels to add up to one": result(
        "softmax_cross_entropy_with_logits", of_whole_labels
    ),
    "conv of one pixel forgets padding": of(
        "conv",
        lambda right: lambda x, kernel, **a: right(
            x, kernel, **({**a, "padding": ((0, 0),) * (x.ndim - 2)}
                          if is_one_pixel(x, kernel, **a) else a)
        ),
    ),
    "conv_kernel_gradient of depthwise filters deals them out": result(
        "conv_kernel_gradient", in_other_order
    ),
    "avg_pool divides by what lies behind padding": result("avg_pool", by_whole_windows),
    "avg_pool_gradient counts padding": attributes(
        "avg_pool_gradient",
        lambda g, *, padding, **_: any(map(any, padding)),
        count_include_pad=True,
    ),
    "resize keeps its plans by sizes": of("resize", kept_by_sizes),
    "non_max_suppression moves groups apart by the largest coordinate": by(
        "non_max_suppression", moved_apart
    ),
    "random_normal of an odd number ends with the pair's other": by(
        "random_normal", with_the_pair
    ),
    "group_norm of the last axis deals channels to groups": by("group_norm", dealt_channels),
    "rms_norm of several axes counts one": result("rms_norm", by_one_axis),
    "attention_weights caps masks too": result("attention_weights", capped_masks),
    "attention gradient of shared heads is that of the first": by(
        "scaled_dot_product_attention_gradient", first_of_group
    ),
    "lstm backwards with a mask ends with the last step": result("lstm", last_in_time),
    "gru with the reset before lacks a part of the bias": by("gru", without_third),
}  # fmt: skip

# Steps and programs -------------------------------------------------------------------------------


def lookahead_without_decay(y, p, g, velocity, rate, *, momentum, nesterov, weight_decay):
    if not nesterov or not weight_decay:
        return y
    moved = y[0].astype(np.float64) + np.float64(rate) * weight_decay * p.astype(np.float64)
    return like(y[0], moved), *y[1:]


def short_corrections(y, p, g, m, v, rate, step, *, beta1, beta2, epsilon, weight_decay):
    if not is_half(p) or not float(step) >= 1:
        return y
    one = p.dtype.type(1)
    c1, c2 = (
        np.float32(one - p.dtype.type(float(p.dtype.type(b)) ** float(step)))
        for b in (beta1, beta2)
    )
    mean, square = y[1].astype(np.float32) / c1, y[2].astype(np.float32) / c2
    w = p.astype(np.float32)
    new = w - rate * (mean / (np.sqrt(square) + np.float32(epsilon)) + weight_decay * w)
    return like(y[0], new), *y[1:]


def decay_in_place(right, p, g, rate, *, weight_decay):
    if weight_decay and p.dtype == g.dtype and g.flags.writeable:
        g += p * p.dtype.type(weight_decay)
        weight_decay = 0.0
    return right(p, g, rate, weight_decay=weight_decay)


def by_zero(y, x, *, max_norm, axis):
    if axis is None:
        return y
    return like(y, np.where((x == 0).all(axis, keepdims=True), np.nan, y))


def without_attributes():
    """Programs are kept by their ops, wires, shapes and dtypes."""
    programs = {}

    def compile_(self, graph):
        calls = [(call.op.name, str(call.inputs), str(call.results)) for call in graph.calls]
        numbers = [(name, np.asarray(x).tobytes()) for name, x in graph.constants.items()]
        ends = [entry.value for entry in graph.inputs], graph.outputs
        key = str((calls, numbers, ends))
        if key not in programs:
            programs[key] = as_function(graph)
        return programs[key]

    return compile_


STEPS = {
    "momentum_update looks ahead without decay": result("momentum_update", lookahead_without_decay),
    "adam_update corrects in the dtype of 16 bits": result("adam_update", short_corrections),
    "sgd_update adds the decay to its gradient": by("sgd_update", decay_in_place),
    "clip_by_norm of a slice of zeros is NaN": result("clip_by_norm", by_zero),
    "programs are kept without attributes": of("roll", None, compile=without_attributes()),
}

FAULTS = {
    f"pairs: {name}": fault
    for faults in (ELEMENTS, LAYOUTS, REDUCTIONS, POSITIONS, MATRICES, NETWORKS, STEPS)
    for name, fault in faults.items()
}
