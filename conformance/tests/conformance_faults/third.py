"""Mistakes of one who never saw what the kit tests: one in each of sixty ops drawn by chance."""

from __future__ import annotations

import math
from itertools import product

import ml_dtypes
import numpy as np
from conformance_faults.faults import (
    Fault,
    called_with,
    changed,
    elements,
    of_result,
    other,
    via,
)

HALVES = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))


def is_half(x):
    return x.dtype in HALVES


def is_wide(x):
    return x.dtype == np.float64


def is_transposed(x):
    return x.ndim == 2 and x.flags.f_contiguous and not x.flags.c_contiguous


def axes_of(axis, ndim):
    axis = range(ndim) if axis is None else axis if isinstance(axis, (tuple, list)) else (axis,)
    return tuple(i % ndim for i in axis)


def quietly(function):
    def kernel(*x, **a):
        with np.errstate(all="ignore"):
            return function(*x, **a)

    return kernel


def result(change):
    return of_result(quietly(change))


# Losses and steps --------------------------------------------------------------------------------


def all_frames(logits, labels, lengths, counts):
    return logits, labels, np.full_like(lengths, logits.shape[1]), counts


def rmsprop_in_half(y, parameter, gradient, square, rate, *, rho, epsilon, weight_decay):
    if not is_half(gradient) or weight_decay:
        return y
    g, old = gradient.astype(np.float32), square.astype(np.float32)
    new = old + ((gradient * gradient).astype(np.float32) - old) * np.float32(1 - rho)
    step = parameter - g / (np.sqrt(new) + epsilon) * rate
    return step.astype(parameter.dtype), new.astype(square.dtype)


def lion_without_zero(y, parameter, gradient, m, rate, *, beta1, beta2, weight_decay):
    """The sign by comparison with 0 in the kernel with decay."""
    if not weight_decay:
        return y
    p, g, old = (v.astype(np.float64) for v in (parameter, gradient, m))
    still = old * beta1 + g * (1 - beta1) == 0
    step = p - (p * weight_decay - 1) * np.asarray(rate, np.float64)
    return elements(y[0], still, step.astype(y[0].dtype)), y[1]


def adagrad_without_decay(y, parameter, gradient, accumulator, rate, *, epsilon, weight_decay):
    """The accumulator has the squares from before the decay."""
    if not weight_decay:
        return y
    g = gradient.astype(np.float64)
    total = accumulator.astype(np.float64) + g * g
    return y[0], total.astype(accumulator.dtype)


def log_cosh_series(y, predictions, targets):
    size = np.abs(predictions - targets)
    return elements(y, size < 0.01, size * size / 2) if is_wide(y) else y


def zero_times_log(y, targets, predictions, *, axis):
    if axis in (-1, targets.ndim - 1):
        return y
    return elements(y, (targets == 0).any(axis), np.nan)


def modulo_labels(logits, labels):
    """A flat loop takes label i % size."""
    if logits.ndim == 2 and labels.shape == (len(logits), 1) and logits.shape[1] > 1:
        return logits, np.resize(labels, logits.shape)
    return logits, labels


def into_predictions(y, predictions, targets):
    """The result is made in the place of the predictions, which are as large."""
    if predictions.shape == y.shape != targets.shape and predictions.flags.writeable:
        predictions[...] = y
    return y


def product_of_norms(x1, x2, *, axis, epsilon):
    a, b = x1.astype(np.float64), x2.astype(np.float64)
    norms = np.sqrt((a * a).sum(axis) * (b * b).sum(axis))
    return ((a * b).sum(axis) / np.maximum(norms, epsilon)).astype(x1.dtype)


def ctc_padding(y, logits, labels, lengths, counts, g, *, blank):
    """0 times what the frames behind the end hold."""
    behind = np.arange(logits.shape[1]) >= np.asarray(lengths)[:, None]
    bad = behind & ~np.isfinite(logits.astype(np.float64)).all(-1)
    return elements(y, bad[..., None], np.nan)


LOSSES = {
    "ctc_loss takes all frames with another blank": (
        "ctc_loss",
        via(all_frames),
        lambda *_, blank: blank != 0,
    ),
    "rmsprop_update squares a 16-bit gradient in 16 bits": (
        "rmsprop_update",
        result(rmsprop_in_half),
    ),
    "log_cosh_loss has the series of float32 in float64": (
        "log_cosh_loss",
        result(log_cosh_series),
    ),
    "lion_update with decay moves a parameter without a direction": (
        "lion_update",
        result(lion_without_zero),
    ),
    "sigmoid_cross_entropy_with_logits repeats a column of labels": (
        "sigmoid_cross_entropy_with_logits",
        via(modulo_labels),
    ),
    "kl_divergence along another axis has 0 log 0": (
        "kl_divergence",
        result(zero_times_log),
    ),
    "adagrad_update accumulates gradients without decay": (
        "adagrad_update",
        result(adagrad_without_decay),
    ),
    "ctc_loss_gradient multiplies infinite frames behind the end": (
        "ctc_loss_gradient",
        result(ctc_padding),
    ),
    "cosine_similarity bounds the product of the norms": (
        "cosine_similarity",
        other(quietly(product_of_norms)),
    ),
    "absolute_error writes into predictions beside broadcast targets": (
        "absolute_error",
        result(into_predictions),
    ),
    "ftrl_update without l1 leaves out beta": (
        "ftrl_update",
        called_with(lambda *_, l1, **__: l1 == 0, beta=0.0),
    ),
}

# Elementwise -------------------------------------------------------------------------------------


def unturned(x1, x2):
    """A row that goes backwards is read by words, as stored."""
    return x1[..., ::-1], x2


def goes_backwards(x1, x2):
    return x1.ndim > 0 and x1.strides[-1] < 0 and x2.flags.c_contiguous


def textbook_asin(x):
    return (-1j * np.log(1j * x + np.sqrt(1 - x * x))).astype(x.dtype)


def finite_bits(x):
    return (np.ascontiguousarray(x).view(np.uint16) & 0x7C00) != 0x7C00


def one_step_tan(y, x):
    if x.dtype != np.float32:
        return y
    turns = np.rint(x / np.float32(np.pi))
    return elements(y, np.abs(x) > 100, np.tan(x - turns * np.float32(np.pi)))


def storage_order(g, x):
    """A flat loop over the elements of both."""
    if is_transposed(x) and g.shape == x.shape and g.flags.c_contiguous:
        return g, x.T.reshape(x.shape)
    return g, x


def into_out(y, g, out):
    """The place of the result is that of a dense input, where g is not dense."""
    dense = out.flags.c_contiguous and not g.flags.c_contiguous
    if dense and g.shape == out.shape and out.dtype == y.dtype and out.flags.writeable:
        out[...] = y
    return y


def stirling(y, x):
    if not is_wide(x):
        return y
    near = (x - 0.5) * np.log(x) - x + 0.5 * math.log(2 * math.pi)
    return elements(y, np.isfinite(x) & (x >= 8), near + 1 / (12 * x) - 1 / (360 * x**3))


def quotient_fmod(x1, x2):
    return x1 - np.trunc(x1 / x2) * x2


def overflowing_gelu(y, g, x, *, approximate):
    if x.dtype != np.float16 or approximate in (False, "none"):
        return y
    return elements(y, np.abs(x) > 40.3, np.nan)


ELEMENTWISE = {
    "logical_or reads a flipped row as stored beside a dense one": (
        "logical_or",
        via(unturned, goes_backwards),
    ),
    "asin of complex numbers is the formula of the textbook": (
        "asin",
        other(quietly(textbook_asin), lambda x: x.dtype.kind == "c"),
    ),
    "isfinite has the exponents of float16 for bfloat16": (
        "isfinite",
        other(finite_bits, lambda x: x.dtype == ml_dtypes.bfloat16),
    ),
    "exp of float16 ends at 11": (
        "exp",
        via(
            lambda x: (elements(x, x > 11, 11),),
            lambda x: x.dtype == np.float16,
        ),
    ),
    "sigmoid_gradient of a strided g writes into the other input": (
        "sigmoid_gradient",
        result(into_out),
    ),
    "polygamma of even order has no sign below 0": (
        "polygamma",
        result(lambda y, x, *, n: elements(y, x < 0, -y) if n and n % 2 == 0 else y),
    ),
    "tan of large float32 numbers is reduced in one step": (
        "tan",
        result(one_step_tan),
    ),
    "clip without a minimum begins at 0 for integers": (
        "clip",
        via(
            lambda x, _, most: (x, np.zeros((), x.dtype), most),
            lambda x, least, most: least is None and most is not None and x.dtype.kind == "i",
        ),
    ),
    "gelu_gradient of float16 overflows in the cube": (
        "gelu_gradient",
        result(overflowing_gelu),
    ),
    "celu of 16-bit floats does not divide by alpha": (
        "celu",
        other(
            quietly(
                lambda x, *, alpha: np.where(
                    x > 0, x, alpha * np.expm1(np.minimum(x, 0).astype(np.float32))
                ).astype(x.dtype)
            ),
            lambda x, **_: is_half(x),
        ),
    ),
    "acos of float32 is a difference": (
        "acos",
        other(
            quietly(lambda x: np.float32(np.pi / 2) - np.arcsin(x)),
            lambda x: x.dtype == np.float32,
        ),
    ),
    "copysign of 16-bit floats has no sign of zero": (
        "copysign",
        via(lambda a, b: (a, elements(b, b == 0, 0)), lambda a, b: is_half(a)),
    ),
    "silu_gradient reads a transposed input as stored": (
        "silu_gradient",
        via(storage_order),
    ),
    "signbit of views compares with 0": (
        "signbit",
        other(
            quietly(lambda x: np.asarray(x < 0)), lambda x: x.ndim > 0 and not x.flags.c_contiguous
        ),
    ),
    "greater_equal compares int64 as float64": (
        "greater_equal",
        via(
            lambda a, b: (a.astype(np.float64), b.astype(np.float64)),
            lambda a, b: a.dtype == b.dtype == np.int64,
        ),
    ),
    "ldexp multiplies by a power of two": (
        "ldexp",
        other(
            quietly(lambda a, b: a * np.exp2(b.astype(a.dtype))),
            lambda a, b: a.dtype == np.float32,
        ),
    ),
    "sparse_plus of NaN is 0": (
        "sparse_plus",
        result(lambda y, x: elements(y, np.isnan(x), 0)),
    ),
    "lgamma of large float64 numbers has the series of float32": (
        "lgamma",
        result(stirling),
    ),
    "fmod of float32 subtracts a rounded product": (
        "fmod",
        other(quietly(quotient_fmod), lambda a, b: a.dtype == np.float32),
    ),
    "hypot of float64 overflows in the squares": (
        "hypot",
        other(quietly(lambda a, b: np.sqrt(a * a + b * b)), lambda a, b: is_wide(a)),
    ),
    "log_sigmoid of float64 ends where that of float32 does": (
        "log_sigmoid",
        result(lambda y, x: elements(y, x < -20, x) if is_wide(x) else y),
    ),
    "sinh of small float64 numbers cancels": (
        "sinh",
        other(quietly(lambda x: (np.exp(x) - np.exp(-x)) / 2), is_wide),
    ),
}

# Reductions, movement, indices -------------------------------------------------------------------


def of_squares(x, *, axis, correction, keepdims):
    axes = axes_of(axis, x.ndim)
    n = math.prod(x.shape[i] for i in axes)
    mean = np.mean(x, axis=axes, keepdims=True)
    square = np.mean(x * x, axis=axes, keepdims=True)
    y = np.maximum(square - mean * mean, 0) * x.dtype.type(np.divide(n, max(n - correction, 0)))
    return y if keepdims else y.squeeze(axes)


def not_last(x, axis):
    return x.ndim > 1 and x.ndim - 1 not in axes_of(axis, x.ndim)


def counted_in_bytes(y, x, *, axis, keepdims):
    return np.asarray(y % 256, y.dtype) if x.dtype == np.bool_ and not_last(x, axis) else y


def one_wrap(y, x, *, pad_width, mode, constant_values):
    """A negative place has the size added once, and ends at 0."""
    if mode != "wrap" or not x.size:
        return y
    y = np.array(y)
    for axis, size in enumerate(x.shape):
        before = (y.shape[axis] - size) and pad_width[axis][0]
        if before > size:
            front = [slice(None)] * x.ndim
            front[axis] = slice(0, before - size)
            first = list(front)
            first[axis] = slice(before, before + 1)
            y[tuple(front)] = y[tuple(first)]
    return y


def last_first(x, *, axis):
    for place in sorted(axis, reverse=True):
        x = np.expand_dims(x, min(place, x.ndim))
    return x


def short_diagonal(y, x, *, offset):
    rows, columns = x.shape[-2:]
    if offset >= 0 or rows <= columns:
        return y
    return y[..., : max(min(rows, columns) + offset, 0)]


def first_size(x, indices):
    """A negative index has the size of the first axis added."""
    indices = np.array(indices)
    for i in range(1, indices.shape[-1]):
        column = indices[..., i]
        moved = np.clip(column + x.shape[0], 0, x.shape[i] - 1)
        indices[..., i] = np.where((column < 0) & (column >= -x.shape[i]), moved, column)
    return x, indices


def from_zero(y, data, ids, *, num_segments, axis):
    """The greatest score of a segment begins at 0."""
    if ids.ndim != 1 or axis != 0 or not data.size or data.dtype != np.float32:
        return y
    ids = ids % num_segments
    tops = np.zeros((num_segments, *data.shape[1:]), data.dtype)
    np.maximum.at(tops, ids, data)
    powers = np.exp(data - tops[ids])
    totals = np.zeros_like(tops)
    np.add.at(totals, ids, powers)
    low = tops[ids] == 0
    return elements(y, low, powers / totals[ids])


MOVEMENT = {
    "isin of nothing is not inverted": (
        "isin",
        changed(np.zeros_like),
        lambda x1, x2, *, invert: invert and not x2.size,
    ),
    "pad with wrap wraps once": ("pad", result(one_wrap)),
    "any of complex numbers reads real parts": (
        "any",
        via(lambda x: (x.real,), lambda x, **_: x.dtype.kind == "c"),
    ),
    "expand_dims adds the last of several axes first": ("expand_dims", other(last_first)),
    "var along other axes subtracts squares": (
        "var",
        other(
            quietly(of_squares),
            lambda x, *, axis, **_: x.dtype == np.float32 and x.size and not_last(x, axis),
        ),
    ),
    "diagonal below of a tall matrix is too short": ("diagonal", result(short_diagonal)),
    "count_nonzero of bools counts in bytes along other axes": (
        "count_nonzero",
        result(counted_in_bytes),
    ),
    "gather_nd adds the first size to negative indices": ("gather_nd", via(first_size)),
    "segment_softmax has tops from 0": ("segment_softmax", result(from_zero)),
    "dropout with a shape of noise keeps its mask": (
        "dropout",
        called_with(lambda *_, noise_shape, **__: noise_shape is not None, counter=0),
    ),
}

# Images ------------------------------------------------------------------------------------------


def first_alone(y, theta, *, size, align_corners):
    """A line of one point begins at -1."""
    if not align_corners:
        return y
    moved = y.astype(np.float64)
    for column, count in enumerate(reversed(size)):
        if count == 1:
            part = theta[:, :, column].astype(np.float64)
            moved = moved - part.reshape(len(theta), *[1] * len(size), -1)
    return moved.astype(y.dtype)


def floored_windows(y, x, *, output_size, data_format):
    if data_format != "channels_first" or not y.size:
        return y
    wide, out = x.astype(np.float64), np.empty(y.shape)
    for place in product(*(range(n) for n in y.shape[2:])):
        window = []
        for i, n, s in zip(place, y.shape[2:], x.shape[2:], strict=True):
            window.append(slice(i * s // n, max((i + 1) * s // n, i * s // n + 1)))
        part = wide[(..., *window)]
        out[(..., *place)] = part.mean(axis=tuple(range(2, x.ndim)))
    return out.astype(y.dtype)


def by_sizes(right):
    """Places by the ratio of the sizes, not by the scale."""

    def kernel(x, **a):
        y = right(x, **a)
        if a["scale"] is None or a["coordinates"] != "half_pixel" or a["box"] is not None:
            return y
        size = y.shape[1:-1] if a["data_format"] == "channels_last" else y.shape[2:]
        return right(x, **{**a, "scale": None, "size": tuple(size)})

    return kernel


def interleaved(y, x, kernel, *, groups, data_format, **_):
    if groups == 1 or data_format != "channels_first":
        return y
    parts = y.reshape(len(y), groups, -1, *y.shape[2:])
    return np.ascontiguousarray(parts.swapaxes(1, 2)).reshape(y.shape)


def greatest_numbers(y, x, *, keepdims, data_format):
    """Comparisons leave NaN out in the layout of rows."""
    if data_format != "channels_first" or not x.size or x.dtype.kind != "f":
        return y
    return np.fmax.reduce(x, axis=tuple(range(2, x.ndim)), keepdims=keepdims)


def apart(boxes, scores, groups):
    """Groups are moved apart by the greatest coordinate, that no box of another may meet them."""
    boxes = boxes.astype(np.float64)
    return boxes + groups[:, None] * (boxes.max() + 1), scores, None


IMAGES = {
    "affine_grid of one point has its corner": ("affine_grid", result(first_alone)),
    "adaptive_avg_pool of rows has windows that end too early": (
        "adaptive_avg_pool",
        result(floored_windows),
    ),
    "resample by a scale has the ratio of the sizes": ("resample", by_sizes),
    "conv_transpose of rows interleaves the groups": ("conv_transpose", result(interleaved)),
    "non_max_suppression moves groups onto each other": (
        "non_max_suppression",
        via(apart, lambda boxes, scores, groups, **_: groups is not None and len(boxes)),
    ),
    "global_max_pool of rows leaves out NaN": ("global_max_pool", result(greatest_numbers)),
}

# Layers ------------------------------------------------------------------------------------------


def last_of_reversed(y, x, h, kernel, recurrent, bias, mask, *, activation, reverse):
    if not reverse or mask is None or not x.shape[1]:
        return y
    return y[0], np.array(y[0][:, -1])


def without_state(*x):
    return *x[:11], np.zeros_like(x[11])


def offset_in_half(y, x, scale, center, spread, g, *, axis):
    if not is_half(g) or axes_of(axis, x.ndim) != (x.ndim - 1,) or g.size < 2:
        return y
    total = np.zeros(g.shape[-1], g.dtype)
    for row in g.reshape(-1, g.shape[-1]):
        total = total + row
    return y[0], y[1], total.reshape(y[2].shape).astype(y[2].dtype)


LAYERS = {
    "simple_rnn that goes back with a mask ends at the last step": (
        "simple_rnn",
        result(last_of_reversed),
    ),
    "scaled_dot_product_attention_gradient with a mask has no window": (
        "scaled_dot_product_attention_gradient",
        called_with(lambda q, k, v, mask, *_, **__: mask is not None, window=None),
    ),
    "group_norm_gradient without a scale has the default epsilon": (
        "group_norm_gradient",
        called_with(lambda x, scale, g, **_: scale is None, epsilon=1e-5),
    ),
    "lstm_gradient with a mask leaves out the gradient of the last cell": (
        "lstm_gradient",
        via(without_state, lambda *x, **_: x[5] is not None),
    ),
    "layer_norm_gradient adds offsets in 16 bits": (
        "layer_norm_gradient",
        result(offset_in_half),
    ),
}

# Matrices and transforms -------------------------------------------------------------------------


def old_ortho(y, x, *, n, axis, norm):
    size = x.shape[axis]
    if norm != "ortho" or n is None or n == size or not size:
        return y
    return (y * math.sqrt(n / size)).astype(y.dtype)


def sorted_axes(right):
    """Sizes go with the axes in their order."""

    def kernel(x, *, s, axes, norm):
        if s is None or axes is None:
            return right(x, s=s, axes=axes, norm=norm)
        return right(x, s=s, axes=tuple(sorted(axes_of(axes, x.ndim))), norm=norm)

    return kernel


def old_forward(y, x, *, s, axes, norm):
    if norm != "forward" or s is None or axes is None or not x.size:
        return y
    old = math.prod(x.shape[i] for i in axes_of(axes, x.ndim))
    return (y * (math.prod(s) / old)).astype(y.dtype)


def roots_of_square(x):
    squares = np.linalg.eigvalsh(x @ np.conj(np.swapaxes(x, -1, -2)))
    return np.sqrt(np.maximum(squares, 0))[..., ::-1]


MATRICES = {
    "matmul conjugates a transposed matrix": (
        "matmul",
        via(
            lambda a, b: (a, np.conj(b)),
            lambda a, b: a.dtype.kind == b.dtype.kind == "c" and is_transposed(b),
        ),
    ),
    "ifft of another size is scaled by the old one": ("ifft", result(old_ortho)),
    "ifftn pairs sizes with sorted axes": ("ifftn", sorted_axes),
    "cholesky of complex matrices above is not conjugated": (
        "cholesky",
        changed(np.conj, lambda x, *, upper: upper and x.dtype.kind == "c"),
    ),
    "fftn of another size is scaled by the old one": ("fftn", result(old_forward)),
    "svdvals of wide matrices are roots of eigenvalues": (
        "svdvals",
        other(
            quietly(roots_of_square),
            lambda x: x.size and x.shape[-2] < x.shape[-1] and x.dtype.char in "fdFD",
        ),
    ),
}


def fault(op, make, where=None):
    """A mistake in an op, where the call meets the condition, if there is one."""
    if where is None:
        return Fault(op, make, ".")

    def made(right):
        wrong = make(right)
        return lambda *x, **a: (wrong if where(*x, **a) else right)(*x, **a)

    return Fault(op, made, ".")


FAULTS = {
    f"third: {name}": fault(*parts)
    for faults in (LOSSES, ELEMENTWISE, MOVEMENT, IMAGES, LAYERS, MATRICES)
    for name, parts in faults.items()
}
