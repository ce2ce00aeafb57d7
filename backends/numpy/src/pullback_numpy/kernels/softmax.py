"""Softmax and the cross entropies of it in NumPy.

NumPy reduces a short last axis one row after the other, at 3 to 7 ns an element. Sums go through
BLAS, and maxima are taken over a transposed copy: 0.3 to 0.5 ns.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from pullback.plugins.records import Kernel, may_decline
from pullback_numpy import threads
from pullback_numpy.half import narrowed, widened
from pullback_numpy.kernels.precision import last
from pullback_numpy.kernels.reductions import tree_sum
from pullback_numpy.products import row_totals
from pullback_numpy.typing import Array

_add: Any = np.add.reduce
#: Rows up to this long have their maxima taken over a transposed copy.
_SHORT_ROW = 64
#: Up to this many elements a loop that starts for each row costs less than a call of BLAS.
_FEW = 512
#: Rows up to this long are summed by BLAS: in a few lanes, accurate enough to some thousand terms.
_LONG_ROW = 4096


def row_max(x: Array, axis: int) -> Any:
    """The maximum along axis, which is kept."""
    if axis == x.ndim - 1 and x.shape[axis] <= _SHORT_ROW and x.size > 256:
        rows = x.reshape(-1, x.shape[-1])
        top = np.maximum.reduce(np.ascontiguousarray(rows.T), 0)
        return top.reshape((*x.shape[:-1], 1))
    return np.maximum.reduce(x, axis, keepdims=True)


def row_sum(x: Array, axis: int) -> Any:
    """The sum along axis, which is kept."""
    if x.size <= _FEW and axis == x.ndim - 1:
        return _add(x, axis, None, None, True)
    if axis == x.ndim - 1 and x.shape[axis] <= _LONG_ROW and x.flags.c_contiguous:
        total = row_totals(x.reshape(-1, x.shape[-1]))
        return total.reshape((*x.shape[:-1], 1))
    return tree_sum(x, (axis,), True)


def _rows(w: Array, axis: int) -> Array | None:
    """w as rows of the last axis, if that needs no copy and w is large; else None."""
    if axis == w.ndim - 1 and w.flags.c_contiguous and w.size > 2 * threads.PIECE:
        return w.reshape(-1, w.shape[-1])
    return None


def _softmax_of(w: Array, axis: int, out: Array | None = None) -> Any:
    e = np.subtract(w, row_max(w, axis), out=out)
    np.exp(e, out=e)
    e /= row_sum(e, axis)
    return e


def _log_softmax_of(w: Array, axis: int, out: Array | None = None) -> Any:
    y = np.subtract(w, row_max(w, axis), out=out)
    y -= np.log(row_sum(np.exp(y), axis))
    return y


def _by_rows(compute: Callable[..., Any], x: Array, axis: int) -> Array:
    """compute(x, axis, out) in float32 or wider, for the whole or for pieces of rows."""
    if not x.size:
        return x
    w = widened(x)
    rows = _rows(w, axis)
    if rows is None:
        return narrowed(compute(w, axis), x)
    y = np.empty(rows.shape, rows.dtype)
    threads.over(lambda piece: compute(rows[piece], 1, y[piece]), *rows.shape)
    return narrowed(y.reshape(x.shape), x)


def _softmax(x: Array, *, axis: int) -> Array:
    return _by_rows(_softmax_of, x, axis)


def _log_softmax(x: Array, *, axis: int) -> Array:
    return _by_rows(_log_softmax_of, x, axis)


def _gradient(compute: Callable[..., Any], g: Array, out: Array, axis: int) -> Array:
    """compute(g, out, axis, y) in float32 or wider, for the whole or for pieces of rows."""
    if g.shape != out.shape:
        raise ValueError("shapes differ")
    if not out.size:
        return out
    h, w = widened(g), widened(out)
    rows = _rows(w, axis)
    if rows is None:
        return narrowed(compute(h, w, axis), out)
    h, y = h.reshape(rows.shape), np.empty(rows.shape, rows.dtype)
    threads.over(lambda piece: compute(h[piece], rows[piece], 1, y[piece]), *rows.shape)
    return narrowed(y.reshape(out.shape), out)


def _softmax_gradient_of(g: Array, out: Array, axis: int, y: Array | None = None) -> Array:
    y = np.multiply(g, out, out=y)
    np.subtract(g, row_sum(y, axis), out=y)
    y *= out
    return y


def _log_softmax_gradient_of(g: Array, out: Array, axis: int, y: Array | None = None) -> Array:
    y = np.exp(out, out=y)
    y *= row_sum(g, axis)
    return np.subtract(g, y, out=y)


def _softmax_gradient(g: Array, out: Array, *, axis: int) -> Array:
    return _gradient(_softmax_gradient_of, g, out, axis)


def _log_softmax_gradient(g: Array, out: Array, *, axis: int) -> Array:
    return _gradient(_log_softmax_gradient_of, g, out, axis)


def _log_sums(w: Array, axis: int) -> tuple[Any, Any]:
    """The largest elements along axis, and log(sum(exp(w - largest))); the axis is kept."""
    rows = _rows(w, axis)
    if rows is not None:
        top, log_sum = (np.empty((rows.shape[0], 1), rows.dtype) for _ in range(2))

        def work(piece: slice) -> None:
            top[piece], log_sum[piece] = _log_sums_of(rows[piece], 1)

        threads.over(work, *rows.shape)
        kept = (*w.shape[:-1], 1)
        return top.reshape(kept), log_sum.reshape(kept)
    return _log_sums_of(w, axis)


def _log_sums_of(w: Array, axis: int) -> tuple[Any, Any]:
    top = row_max(w, axis)
    e = np.subtract(w, top)
    np.exp(e, out=e)
    return top, np.log(row_sum(e, axis))


def _smooth(labels: Array, axis: int, smoothing: float) -> Any:
    if not smoothing:
        return labels
    return labels * labels.dtype.type(1 - smoothing) + labels.dtype.type(
        smoothing / labels.shape[axis]
    )


def _cross_entropy(
    logits: Array, labels: Array, *, axis: int, label_smoothing: float
) -> tuple[Array, ...]:
    if logits.shape != labels.shape:
        raise ValueError("shapes differ")
    w = widened(logits)
    if not w.shape[axis]:
        raise ValueError("there are no classes")
    top, log_sum = _log_sums(w, axis)
    target = _smooth(widened(labels), axis, label_smoothing)
    # top + log_sum - w would lose the digits of a small loss beside large logits.
    terms = np.subtract(w, top)
    np.subtract(log_sum, terms, out=terms)
    loss = _weighted_sum(terms, target, axis)
    if math.isnan(_add(loss, None)):
        # 0 * inf: a class that is masked out, with a label of 0.
        terms[target == 0] = 0
        loss = _weighted_sum(terms, target, axis)
    return narrowed(loss, logits), top + log_sum


def _weighted_sum(terms: Array, weights: Array, axis: int) -> Any:
    """The sum of terms * weights along axis."""
    if terms.size <= 16 * _FEW and axis == terms.ndim - 1:
        return np.asarray(np.vecdot(terms, weights))
    return row_sum(terms * weights, axis).squeeze(axis)


def _flat(logits: Array, labels: Array, axis: int) -> tuple[Any, Any, Any]:
    """Rows of logits, their labels, and a mask of the labels that are classes (None: all)."""
    w = last(widened(logits), axis)
    if labels.shape != w.shape[:-1]:
        raise ValueError("shapes differ")
    classes = w.shape[-1]
    if not classes:
        raise ValueError("there are no classes")
    rows, flat = w.reshape(-1, classes), labels.reshape(-1)
    if not flat.size:
        return rows, flat, None
    # As unsigned integers, negative labels are large too: one maximum checks both ends.
    top = np.maximum.reduce(flat.view(_UNSIGNED.get(flat.dtype.char, flat.dtype)))
    if top >= classes:
        return rows, flat, (flat >= 0) & (flat < classes)
    return rows, flat, None


#: By an integer's character: the integer of its size that has no sign.
_UNSIGNED = {char: np.dtype(char.upper()) for char in "bhilq"}


def _label_positions(rows: Array, flat: Array) -> Array:
    """The positions of the labels' classes in the flattened rows."""
    return np.arange(0, rows.size, rows.shape[1]) + flat.astype(np.intp, copy=False)


def _sparse_cross_entropy(
    logits: Array, labels: Array, *, axis: int, label_smoothing: float, ignore_label: int | None
) -> tuple[Array, ...]:
    rows, flat, valid = _flat(logits, labels, axis)
    top, log_sum = _log_sums(rows, 1)
    positions = _label_positions(rows, flat if valid is None else np.where(valid, flat, 0))
    # An infinite sum leaves -inf - -inf where a class is masked out; elsewhere it is finite.
    loss = (log_sum - (rows.reshape(-1)[positions, None] - top))[:, 0]
    if label_smoothing:
        mean = (log_sum - (row_sum(rows, 1) / rows.shape[1] - top))[:, 0]
        loss = loss * rows.dtype.type(1 - label_smoothing) + rows.dtype.type(label_smoothing) * mean
    if valid is not None:
        loss[~valid] = np.nan
    if ignore_label is not None:
        loss[flat == ignore_label] = 0
    shape = list(logits.shape)
    shape[axis] = 1
    return narrowed(loss.reshape(labels.shape), logits), (top + log_sum).reshape(shape)


def _sparse_cross_entropy_gradient(
    logits: Array,
    labels: Array,
    normalizer: Array,
    g: Array,
    *,
    axis: int,
    label_smoothing: float,
    ignore_label: int | None,
) -> Array:
    rows, flat, valid = _flat(logits, labels, axis)
    dtype = rows.dtype
    g = widened(g).reshape(-1, 1)
    if valid is not None:
        g = np.where(valid[:, None], g, dtype.type(np.nan))
    if ignore_label is not None:
        g = np.where((flat == ignore_label)[:, None], dtype.type(0), g)
    p = np.empty(rows.shape, dtype)
    constants = normalizer.reshape(-1, 1)

    def work(piece: slice) -> None:
        part = np.subtract(rows[piece], constants[piece], out=p[piece])
        np.exp(part, out=part)
        if label_smoothing:
            part -= dtype.type(label_smoothing / rows.shape[1])
        part *= g[piece]

    threads.over(work, *rows.shape)
    positions, right = _label_positions(rows, flat), g[:, 0]
    if valid is not None:
        positions, right = positions[valid], right[valid]
    if label_smoothing:
        right = right * dtype.type(1 - label_smoothing)
    every = p.reshape(-1)
    every[positions] -= right
    if axis == logits.ndim - 1:
        return narrowed(p.reshape(logits.shape), logits)
    moved = p.reshape(*labels.shape, rows.shape[1])
    return narrowed(np.moveaxis(moved, -1, axis), logits)


@may_decline
def _kl_divergence(targets: Array, predictions: Array, *, axis: int) -> Any:
    if targets.shape != predictions.shape or targets.size >= threads.LARGE:
        return NotImplemented  # the body's ops split large arrays over threads
    p, q = widened(targets), widened(predictions)
    is_zero = p == 0
    if is_zero.any():
        one = p.dtype.type(1)
        logs = np.log(np.where(is_zero, one, p)) - np.log(np.where(is_zero, one, q))
    else:
        logs = np.log(p) - np.log(q)
    return narrowed(tree_sum(np.multiply(p, logs), (axis,), False), targets)


def _negative_log_likelihood(log_probabilities: Array, labels: Array, *, axis: int) -> Array:
    if not log_probabilities.size:
        return np.full(labels.shape, np.nan, log_probabilities.dtype)
    rows, flat, valid = _flat(log_probabilities, labels, axis)
    positions = _label_positions(rows, flat if valid is None else np.where(valid, flat, 0))
    loss = rows.reshape(-1)[positions]
    np.negative(loss, out=loss)
    if valid is not None:
        loss[~valid] = np.nan
    return narrowed(loss.reshape(labels.shape), log_probabilities)


KERNELS: dict[str, Kernel] = {
    "kl_divergence": _kl_divergence,
    "log_softmax": _log_softmax,
    "log_softmax_gradient": _log_softmax_gradient,
    "softmax": _softmax,
    "softmax_gradient": _softmax_gradient,
    "negative_log_likelihood_of_classes": _negative_log_likelihood,
    "softmax_cross_entropy_with_logits": _cross_entropy,
    "sparse_softmax_cross_entropy_gradient": _sparse_cross_entropy_gradient,
    "sparse_softmax_cross_entropy_with_logits": _sparse_cross_entropy,
}
