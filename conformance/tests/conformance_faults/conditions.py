"""Mistakes that show under a condition or two, written without a look at the kit's checks.

Of most ops here the name was drawn at random; the mistake is one of those that the author of a
backend for another machine makes.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
from conformance_faults.faults import elements
from conformance_faults.later import inputs, instead, of, result

from pullback.plugins.compiling import as_function
from pullback_numpy import NumPyBackend

HALF = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))


def half(x, *_, **__):
    return x.dtype in HALF


def scalar(x):
    return x.ndim == 0


def spatial(x, data_format):
    """The spatial axes of images."""
    first = 1 if data_format == "channels_last" else 2
    return range(first, first + x.ndim - 2)


# Elements -----------------------------------------------------------------------------------------


def minimum_by_less(x1, x2):
    return np.where(x1 < x2, x1, x2)


def saturated(x1, x2):
    bounds = np.iinfo(x1.dtype)
    wide = x1.astype(np.int32) * x2.astype(np.int32)
    return np.clip(wide, bounds.min, bounds.max).astype(x1.dtype)


def by_bits(x1, x2):
    return x1.view(np.uint16) == x2.view(np.uint16)


def single_tail(y, x):
    if y.dtype != np.float64:
        return y
    return elements(y, (abs(x) > 0.999) & (abs(x) < 1), y.astype(np.float32).astype(y.dtype))


def xor_of_words(x1, x2):
    """The constant operand is passed to the program as 32 bits."""
    return (x1 ^ x2.astype(np.int32).astype(x2.dtype)).astype(x1.dtype)


def short_i0(y, x):
    """Exp and a factor, in float32."""
    return elements(y, abs(x) > 88.72, np.inf) if y.dtype == np.float32 else y


def by_doubled_exp(y, g, x):
    return elements(y, x > 44.5, np.nan) if y.dtype == np.float32 else y


def on_the_cut(y, z):
    """The sign of a zero is lost."""
    if z.dtype.kind == "c":
        y = np.array(y)
        y.imag[(z.imag == 0) & np.signbit(z.imag)] *= -1
    return y


def into_the_output(right):
    """The result has the output's layout, and is written where that lies."""

    def kernel(g, out):
        found = right(g, out)
        if not g.flags.c_contiguous and out.shape == found.shape and out.dtype == found.dtype:
            out[...] = found
        return found

    return kernel


ELEMENTS = {
    "gcd of a negative number and 0 is negative": result(
        "gcd",
        lambda y, a, b: (
            np.asarray(np.where((a < 0) & (b == 0), a, np.where((b < 0) & (a == 0), b, y)), y.dtype)
            if y.dtype.kind == "i"
            else y
        ),
    ),
    "expm1 of strided float32 is an exponential less one": instead(
        "expm1",
        lambda x: np.exp(x) - x.dtype.type(1),
        lambda x: x.dtype == np.float32 and not x.flags.c_contiguous,
    ),
    "minimum with broadcasting loses a NaN of the first": instead(
        "minimum", minimum_by_less, lambda x1, x2: x1.shape != x2.shape and x1.dtype.kind in "fV"
    ),
    "multiply of bytes by a scalar saturates": instead(
        "multiply",
        saturated,
        lambda x1, x2: x1.dtype.kind in "iu" and x1.itemsize == 1 and scalar(x1) != scalar(x2),
    ),
    "log2 of a float64 scalar is computed in float32": instead(
        "log2",
        lambda x: np.asarray(np.log2(x.astype(np.float32)), x.dtype),
        lambda x: x.dtype == np.float64 and scalar(x),
    ),
    "erfinv of float64 has a tail of float32": result("erfinv", single_tail),
    "rsqrt of 16 bits is a power": result(
        "rsqrt", lambda y, x: elements(y, x == -np.inf, 0) if half(x) else y
    ),
    "sign of large complex numbers is 0": result(
        "sign",
        lambda y, x: (
            elements(y, np.isinf(np.sqrt(x.real * x.real + x.imag * x.imag)), 0)
            if x.dtype.kind == "c"
            else y
        ),
    ),
    "absolute_error is the root of a square": result(
        "absolute_error",
        lambda y, a, b: np.sqrt(np.square(a - b)) if a.dtype in (np.float32, np.float64) else y,
    ),
    "equal of 16 bits compares the bits": instead(
        "equal", by_bits, lambda x1, x2: half(x1) and half(x2)
    ),
    "log of a complex number below the cut has the sign of above": result("log", on_the_cut),
    "log_sigmoid of float64 overflows": result(
        "log_sigmoid",
        lambda y, x: elements(y, x < -709.8, -np.inf) if y.dtype == np.float64 else y,
    ),
    "i1e of large negative numbers is positive": result(
        "i1e", lambda y, x: elements(y, x < -8, abs(y))
    ),
    "xlogy of 0 and NaN is 0": result("xlogy", lambda y, a, b: elements(y, a == 0, 0)),
    "logaddexp2 of two infinities is NaN": result(
        "logaddexp2", lambda y, a, b: elements(y, (a == np.inf) & (b == np.inf), np.nan)
    ),
    "i0 overflows early in float32": result("i0", short_i0),
    "bitwise_xor of int64 with a scalar takes 32 bits of it": instead(
        "bitwise_xor",
        xor_of_words,
        lambda x1, x2: x1.dtype == np.int64 and scalar(x2) and not scalar(x1),
    ),
    "mish_gradient of large numbers is NaN in float32": result("mish_gradient", by_doubled_exp),
    "logaddexp with broadcasting does not take the maximum out": instead(
        "logaddexp",
        lambda a, b: np.log(np.exp(a) + np.exp(b)),
        lambda a, b: a.shape != b.shape and a.dtype in (np.float32, np.float64),
    ),
    "sigmoid_gradient of a transposed gradient writes into the output": of(
        "sigmoid_gradient", into_the_output
    ),
    "astype of complex numbers to booleans looks at the real part": instead(
        "astype",
        lambda x, *, dtype: x.real != 0,
        lambda x, *, dtype: x.dtype.kind == "c" and dtype == np.bool_,
    ),
    "less of uint64 compares signed numbers": instead(
        "less",
        lambda a, b: a.view(np.int64) < b.view(np.int64),
        lambda a, b: a.dtype == b.dtype == np.uint64,
    ),
    "sparse_plus of a NaN of 16 bits is 0": result(
        "sparse_plus", lambda y, x: elements(y, np.isnan(x), 0) if half(x) else y
    ),
    "threshold with itself as value takes the maximum": result(
        "threshold",
        lambda y, x, *, threshold, value: (
            elements(y, np.isnan(x), value) if threshold == value else y
        ),
    ),
}

# Reductions, norms and softmax --------------------------------------------------------------------


def first_in_memory(x, *, axis, keepdims):
    """The place in the memory of a transposed matrix."""
    return np.asarray(np.argmax(x.ravel(order="K")), np.int64).reshape([1] * x.ndim * keepdims)


def odd_power(x, *, axis, keepdims, **_):
    total = np.sum(x * x * x, axis=axis, keepdims=keepdims)
    return np.asarray(np.cbrt(total), x.dtype)


def by_moments(x, *, axis, correction, keepdims):
    n = np.prod([x.shape[i] for i in axis])
    first = np.mean(x, axis=axis, keepdims=keepdims)
    second = np.mean(x * x, axis=axis, keepdims=keepdims)
    return np.asarray((second - first * first) * (n / (n - correction)), x.dtype)


def lowest_of_half(y, x, **_):
    return elements(y, y == -np.inf, ml_dtypes.finfo(y.dtype).min) if half(y) else y


def kept_by_shapes(self, graph):
    """Programs are kept by their ops, shapes and constants, without the attributes."""
    constants = [(np.asarray(x).shape, np.asarray(x).tobytes()) for x in graph.constants.values()]
    calls = [(call.op.name, call.inputs, call.results) for call in graph.calls]
    key = repr((calls, graph.inputs, graph.outputs, constants))
    if key not in self.programs:
        self.programs[key] = as_function(graph)
    return self.programs[key]


def without_squares_of_half(y, x, *, max_norm, axis):
    if x.dtype != np.float16:
        return y
    wide = x.astype(np.float32)
    large = np.sum(wide * wide, axis=axis, keepdims=True) > 65504
    return elements(y, large & np.isfinite(x), 0)


def scale_cast_to_half(x, mean, variance, scale, offset, **_):
    return x, mean, variance.astype(x.dtype).astype(variance.dtype), scale, offset


REDUCTIONS = {
    "argmax of all elements of a transposed array is a place in memory": instead(
        "argmax",
        first_in_memory,
        lambda x, *, axis, keepdims: (
            axis is None and x.size and not x.flags.c_contiguous and x.flags.f_contiguous
        ),
    ),
    "vector_norm of order 3 takes no magnitudes": instead(
        "vector_norm",
        odd_power,
        lambda x, **how: how["ord"] == 3 and x.dtype in (np.float32, np.float64),
    ),
    "var along axes that are apart subtracts squares": instead(
        "var",
        by_moments,
        lambda x, *, axis, correction, **_: (
            isinstance(axis, tuple)
            and len(axis) > 1
            and np.ptp(axis) >= len(axis)
            and x.size
            and x.dtype in (np.float32, np.float64)
            and np.prod([x.shape[i] for i in axis]) > correction
        ),
    ),
    "max of 16 bits begins at the least finite number": result("max", lowest_of_half),
    "rms_norm without a scale keeps a spread of 16 bits": result(
        "rms_norm",
        lambda y, x, scale, **_: (y[0], y[1].astype(x.dtype)) if scale is None and half(x) else y,
    ),
    "log_softmax in a program has the axis of another program": of(
        "log_softmax",
        lambda right: right,
        compile=kept_by_shapes,
        programs={},
    ),
    "clip_by_norm of float16 adds up squares of float16": result(
        "clip_by_norm", without_squares_of_half
    ),
    "batch_norm_inference of 16 bits casts the variance": inputs(
        "batch_norm_inference",
        scale_cast_to_half,
        lambda x, mean, variance, *_, **__: x.dtype == np.float16 and variance.dtype != x.dtype,
    ),
}

# Places -------------------------------------------------------------------------------------------


def behind_in_memory(right):
    """The second part of a flipped array begins where that of its memory does."""

    def kernel(x, *, position, axis):
        before, behind = right(x, position=position, axis=axis)
        if x.strides[axis] < 0 and 0 < position < x.shape[axis]:
            place = [slice(None)] * x.ndim
            place[axis] = slice(0, x.shape[axis] - position)
            behind = np.array(x[tuple(place)])
        return before, behind

    return kernel


def from_the_low_end(right):
    """Steps back are steps forth from the low end, in the other order."""

    def kernel(x, *, key):
        axis, found = 0, []
        for one in key:
            if one is Ellipsis:
                break
            if isinstance(one, slice):
                places = range(*one.indices(x.shape[axis]))
                if places.step < -1 and len(places):
                    low = places.stop + 1
                    start, end = low - (len(places) - 1) * places.step, low + places.step
                    one = slice(start, end if end >= 0 else None, places.step)
            axis += one is not None
            found.append(one)
        return right(x, key=(*found, *key[len(found) :]))

    return kernel


def shifted_by_more(y, x, *, axes):
    for axis in axes if axes is not None and len(axes) < x.ndim else ():
        if x.shape[axis] % 2:
            y = np.roll(y, 1, axis)
    return y


def flat_places(x, indices, updates):
    """Positions are made flat first, and those below 0 wrapped then."""
    sizes = x.shape[: indices.shape[-1]]
    steps = [int(np.prod(sizes[i + 1 :])) for i in range(len(sizes))]
    flat = (indices * np.asarray(steps, indices.dtype)).sum(-1)
    total = int(np.prod(sizes))
    wrapped = np.unravel_index(np.where(flat < 0, flat + total, flat), sizes)
    return x, np.stack(wrapped, -1).astype(indices.dtype), updates


def added_in_half(data, segment_ids, *, num_segments, axis):
    sums = np.zeros((num_segments, *data.shape[1:]), data.dtype)
    np.add.at(sums, segment_ids, data)
    return sums


def apart_by_largest(right):
    """Groups are moved apart by the largest coordinate."""

    def kernel(boxes, scores, groups, **how):
        if groups is None or not boxes.size or boxes.dtype.kind != "f":
            return right(boxes, scores, groups, **how)
        moved = boxes + (groups[:, None] * (boxes.max() + 1)).astype(boxes.dtype)
        return right(moved, scores, None, **how)

    return kernel


def low_word(right):
    return lambda *, counter, **how: right(
        counter=counter if not isinstance(counter, int) else counter % 2**32, **how
    )


def old_protocol(self, array, **kwargs):
    """Before version 1.0 arrays have no strides."""
    if kwargs.get("max_version") is None and array.ndim > 1 and array.flags.f_contiguous:
        array = array.T.reshape(array.shape)
    return NumPyBackend.to_dlpack(self, array, **kwargs)


PLACES = {
    "split_at of a flipped array counts from the other end": of("split_at", behind_in_memory),
    "strided_slice back by steps begins at the low end": of("strided_slice", from_the_low_end),
    "fftshift of some axes goes too far in odd sizes": result("fftshift", shifted_by_more),
    "scatter_nd wraps flat positions only": inputs(
        "scatter_nd",
        flat_places,
        lambda x, indices, *_, **__: (
            indices.shape[-1] > 1
            and indices.size
            and x.size
            and (abs(indices + 0.5) < x.shape[: indices.shape[-1]]).all()
        ),
    ),
    "segment_sum of float16 adds up in order of the segments in float16": instead(
        "segment_sum",
        added_in_half,
        lambda data, ids, *, axis, num_segments: (
            data.dtype == np.float16
            and axis == 0
            and ids.ndim == 1
            and ids.size
            and ids[0] >= 0
            and ids[-1] < num_segments
            and (np.diff(ids) >= 0).all()
        ),
    ),
    "non_max_suppression moves groups apart by the largest coordinate": of(
        "non_max_suppression", apart_by_largest
    ),
    "random_bits has a counter of 32 bits": of("random_bits", low_word),
    "to_device and the old protocol lose the strides": of("backend", None, to_dlpack=old_protocol),
}

# Linear algebra and transforms --------------------------------------------------------------------


def untransposed(x1, x2):
    return x1, np.swapaxes(x2, -1, -2)


def scaled_by_first(x):
    """As many squarings as the first matrix of a batch needs."""
    largest = np.abs(x.reshape(-1, *x.shape[-2:])[0]).sum(-2).max(initial=0)
    count = max(0, int(np.ceil(np.log2(max(largest, 1e-30)))) + 1)
    scaled = x.astype(np.complex128 if x.dtype.kind == "c" else np.float64) / 2**count
    term = total = np.broadcast_to(np.eye(x.shape[-1]), x.shape)
    for k in range(1, 14):
        term = term @ scaled / k
        total = total + term
    for _ in range(count):
        total = total @ total
    return total.astype(x.dtype)


def adjugate(x):
    a, b, c, d = x[..., 0, 0], x[..., 0, 1], x[..., 1, 0], x[..., 1, 1]
    rows = np.stack([np.stack([d, -b], -1), np.stack([-c, a], -1)], -2)
    return rows / (a * d - b * c)[..., None, None]


def regular(x):
    """Returns whether matrices are regular, as the right kernel sees it."""
    return np.isfinite(x).all() and (np.linalg.matrix_rank(x.astype(np.float64)) == 2).all()


def real_as_the_first(y, x):
    values, vectors = y
    if x.ndim < 3 or x.dtype.kind == "c" or not values.size:
        return y
    if values.reshape(-1, values.shape[-1])[0].imag.any():
        return y
    return np.asarray(values.real, values.dtype), np.asarray(vectors.real, vectors.dtype)


def rest_of_q(y, x, *, mode):
    m, n = x.shape[-2:]
    if mode != "complete" or x.ndim < 3 or m <= n:
        return y
    q = np.array(y[0])
    q[..., n:] = 0
    return q, y[1]


def row_order(matrix):
    """The order of the rows that partial pivoting ends with."""
    a, order = matrix.astype(np.complex128), list(range(len(matrix)))
    for k in range(len(a)):
        pivot = k + int(np.argmax(abs(a[k:, k])))
        a[[k, pivot]], order[k], order[pivot] = a[[pivot, k]], order[pivot], order[k]
        if a[k, k]:
            a[k + 1 :] -= np.outer(a[k + 1 :, k] / a[k, k], a[k])
    return order


def cycles(order):
    seen, count = set(), 0
    for first in order:
        count += first not in seen
        while first not in seen:
            seen.add(first)
            first = order[first]
    return count


def signs_by_moved_rows(y, x):
    """The sign counts the rows that are not in their place, not the exchanges."""
    n = x.shape[-1]
    if x.ndim < 3 or not x.size:
        return y
    wrong = []
    for matrix in x.reshape(-1, n, n):
        order = row_order(matrix)
        moved = sum(i != row for i, row in enumerate(order))
        wrong.append((moved - (n - cycles(order))) % 2)
    return np.asarray(np.where(np.reshape(wrong, y.shape), -y, y), y.dtype)


def ties_pull(y, x1, x2, g, *, p):
    if p != 1:
        return y
    ties = (x1[..., :, None, :] == x2[..., None, :, :]) * g[..., None]
    if ties.sum(-2).shape != y[0].shape or ties.sum(-3).shape != y[1].shape:
        return y
    return (y[0] + ties.sum(-2)).astype(x1.dtype), (y[1] - ties.sum(-3)).astype(x2.dtype)


LINEAR_ALGEBRA = {
    "matmul of a vector and transposed square matrices takes them as they lie": inputs(
        "matmul",
        untransposed,
        lambda x1, x2: (
            x1.ndim == 1
            and x2.ndim > 2
            and x2.shape[-1] == x2.shape[-2]
            and not x2.flags.c_contiguous
            and np.swapaxes(x2, -1, -2).flags.c_contiguous
        ),
    ),
    "expm of a batch squares as often as the first needs": instead(
        "expm", scaled_by_first, lambda x: x.ndim > 2 and x.size and np.isfinite(x).all()
    ),
    "inv of 2 by 2 matrices divides by a determinant that underflows": instead(
        "inv",
        adjugate,
        lambda x: x.shape[-2:] == (2, 2) and x.dtype == np.float32 and regular(x),
    ),
    "eig of a batch is real where the first is": result("eig", real_as_the_first),
    "qr of a batch of tall matrices does not complete Q": result("qr", rest_of_q),
    "det of a batch has the sign of the rows that moved": result("det", signs_by_moved_rows),
    "cdist_gradient of order 1 pulls at equal coordinates": result("cdist_gradient", ties_pull),
    "rfft of padded lines in norm ortho has the root of the old size": result(
        "rfft",
        lambda y, x, *, n, axis, norm: (
            np.asarray(y * np.sqrt(n / x.shape[axis]), y.dtype)
            if norm == "ortho" and n > x.shape[axis] > 0
            else y
        ),
    ),
    "hfft of an odd size in norm forward divides by an even one": result(
        "hfft",
        lambda y, x, *, n, axis, norm: (
            np.asarray(y * (n / (n - 1)), y.dtype) if norm == "forward" and n % 2 and n > 1 else y
        ),
    ),
    "irfft along an inner axis in norm ortho takes the root of the last size": result(
        "irfft",
        lambda y, x, *, n, axis, norm: (
            np.asarray(y * np.sqrt(n / y.shape[-1]), y.dtype)
            if norm == "ortho" and axis % y.ndim != y.ndim - 1 and y.size
            else y
        ),
    ),
}

# Networks -----------------------------------------------------------------------------------------


def two_passes(right):
    """Windows that overlap are added in two passes; the second overwrites the first."""

    def kernel(g, indices, *, data_format, window, strides, **how):
        how.update(data_format=data_format, window=window, strides=strides)
        if data_format != "channels_first" or strides[-1] >= window[-1] or g.shape[-1] < 2:
            return right(g, indices, **how)
        odd = np.arange(g.shape[-1]) % 2 == 1
        first = right(np.where(odd, np.zeros_like(g), g), indices, **how)
        second = right(np.where(odd, g, np.zeros_like(g)), indices, **how)
        return np.asarray(np.where(second != 0, second, first), g.dtype)

    return kernel


def windows_end_early(x, *, output_size, data_format):
    """Windows end before what lies between two elements, not behind it."""
    y = x.astype(np.float64 if x.dtype == np.float64 else np.float32)
    if isinstance(output_size, int):
        output_size = (output_size,) * (x.ndim - 2)
    for axis, n in zip(spatial(x, data_format), output_size, strict=True):
        size = y.shape[axis]
        parts = []
        for i in range(n):
            low = i * size // n
            high = max((i + 1) * size // n, low + 1)
            parts.append(y.take(range(low, high), axis).mean(axis, keepdims=True))
        y = np.concatenate(parts, axis)
    return y.astype(x.dtype)


def whole_windows(y, x, *, window, strides, padding, dilation, data_format, **how):
    """Counts what the last windows have beyond the padding, too."""
    if not (how.get("ceil_mode") and how.get("count_include_pad")):
        return y
    wide = y.astype(np.float64)
    for i, axis in enumerate(spatial(x, data_format)):
        start = np.arange(y.shape[axis])[:, None] * strides[i] - padding[i][0]
        places = start + np.arange(window[i]) * dilation[i]
        inside = (places < x.shape[axis] + padding[i][1]).sum(1)
        share = (inside / window[i]).reshape([-1] + [1] * (y.ndim - axis - 1))
        wide = wide * share
    return wide.astype(y.dtype)


def other_side(right):
    """In groups the padding of both sides is exchanged."""

    def kernel(x, g, *, padding, groups, **how):
        if groups > 1:
            padding = tuple((high, low) for low, high in padding)
        return right(x, g, padding=padding, groups=groups, **how)

    return kernel


def multiplier_first(y, x, kernel, *, groups, data_format, **_):
    """Filters of a depthwise convolution are in the order of the multiplier."""
    axis = y.ndim - 1 if data_format == "channels_last" else 1
    channels, filters = x.shape[axis], y.shape[axis]
    if groups != channels or filters <= channels or channels < 2 or data_format == "channels_last":
        return y
    order = np.arange(filters).reshape(channels, -1).T.reshape(-1)
    return y.take(order, axis)


def methods_of_shrunk(right):
    """Neighbors of an axis that shrinks are kept by its sizes, without the method."""
    methods = {}

    def kernel(x, *, size, method, data_format):
        sizes = tuple(x.shape[i] for i in spatial(x, data_format))
        if all(new < old for new, old in zip(size, sizes, strict=True)):
            method = methods.setdefault((sizes, size), method)
        return right(x, size=size, method=method, data_format=data_format)

    return kernel


def mask_of_other_end(x, h, kernel, recurrent, bias, mask):
    return x, h, kernel, recurrent, bias, mask[:, ::-1]


def capped_mask(y, query, key, value, mask, *, is_causal, scale, softcap=None, window=None):
    """The cap is put on scores that have been masked."""
    if (
        softcap is None
        or mask is None
        or mask.dtype != np.bool_
        or is_causal
        or window
        or not key.size
    ):
        return y
    if query.shape[:-2] != key.shape[:-2] or query.dtype not in (np.float32, np.float64):
        return y
    scores = np.where(mask, query @ np.swapaxes(key, -1, -2) * scale, -np.inf)
    capped = softcap * np.tanh(scores / softcap)
    e = np.exp(capped - capped.max(-1, keepdims=True))
    return ((e / e.sum(-1, keepdims=True) @ value).astype(query.dtype), *y[1:])


def first_moment_as_it_was(y, p, g, m, *_, beta1, **__):
    return (y[0], m.copy(), y[2]) if beta1 == 0 else y


def change_with_rate(y, p, g, square, change, rate, *, rho, epsilon, weight_decay):
    wide = g.astype(np.float64) + weight_decay * p.astype(np.float64)
    new = square + (wide * wide - square) * (1 - rho)
    step = rate * wide * np.sqrt((change + epsilon) / (new + epsilon))
    return y[0], y[1], np.asarray(change + (step * step - change) * (1 - rho), y[2].dtype)


NETWORKS = {
    "max_pool_gradient of channels first overwrites what overlaps": of(
        "max_pool_gradient", two_passes
    ),
    "adaptive_avg_pool of channels first ends windows early": instead(
        "adaptive_avg_pool",
        windows_end_early,
        lambda x, *, output_size, data_format: (
            data_format == "channels_first" and x.size and np.min(output_size)
        ),
    ),
    "avg_pool with ceil_mode and padding counts whole windows": result("avg_pool", whole_windows),
    "conv_kernel_gradient in groups pads the other side": of("conv_kernel_gradient", other_side),
    "conv of channels first by depth orders filters by multiplier": result(
        "conv", multiplier_first
    ),
    "resize to a smaller size has the method of an earlier call": of("resize", methods_of_shrunk),
    "simple_rnn in reverse does not reverse the mask": inputs(
        "simple_rnn",
        mask_of_other_end,
        lambda *x, reverse, **_: reverse and len(x) > 5 and x[5] is not None,
    ),
    "scaled_dot_product_attention caps scores that are masked": result(
        "scaled_dot_product_attention", capped_mask
    ),
    "adam_update without a first decay keeps the first moment": result(
        "adam_update", first_moment_as_it_was
    ),
    "adadelta_update keeps changes that have the rate in them": result(
        "adadelta_update", change_with_rate
    ),
}

FAULTS = {
    f"conditions: {name}": fault
    for faults in (ELEMENTS, REDUCTIONS, PLACES, LINEAR_ALGEBRA, NETWORKS)
    for name, fault in faults.items()
}
