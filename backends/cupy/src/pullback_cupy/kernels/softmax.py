"""Softmax, its logarithm, and the cross entropies: one kernel each, with a block for each row."""

from __future__ import annotations

import math

import cupy

from pullback.casting import compute_dtype
from pullback.plugins.records import Kernel
from pullback_cupy.compile import contiguous, over_elements, over_rows
from pullback_cupy.typing import Array


def layout(x: Array, axis: int) -> tuple[int, int, int]:
    """The number of rows of x along an axis, of columns, and the distance between columns."""
    columns, inner = x.shape[axis], math.prod(x.shape[axis + 1 :])
    return math.prod(x.shape[:axis]) * inner, columns, inner


def _along(name: str) -> Kernel:
    def kernel(x: Array, *, axis: int) -> Array:
        x = contiguous(x)
        y = cupy.empty_like(x)
        if x.size:
            rows, columns, inner = layout(x, axis)
            over_rows("rows", name, rows, columns, (x, y, rows, columns, inner), T=x.dtype,
                      I=_NONE, G=x.dtype)  # fmt: skip
        return y

    return kernel


_NONE = cupy.dtype("int32")


def _cross_entropy(
    logits: Array, labels: Array, *, axis: int, label_smoothing: float
) -> tuple[Array, ...]:
    if logits.shape != labels.shape:
        raise ValueError("shapes differ")
    rows, columns, inner = layout(logits, axis)
    if not columns:
        raise ValueError("there are no classes")
    x, target = contiguous(logits), contiguous(labels)
    loss, normalizer = _results(x, axis)
    over_rows(
        "rows", "cross_entropy", rows, columns,
        (x, target, loss, normalizer, rows, columns, inner, label_smoothing),
        T=x.dtype, I=_NONE, G=x.dtype,
    )  # fmt: skip
    return loss, normalizer


def _results(x: Array, axis: int) -> tuple[Array, Array]:
    """Arrays for the loss and for the normalizer of x, which keeps the axis with size 1."""
    left, right = x.shape[:axis], x.shape[axis + 1 :]
    loss = cupy.empty((*left, *right), x.dtype)
    return loss, cupy.empty((*left, 1, *right), compute_dtype(x.dtype))


def _classes(
    logits: Array, labels: Array, axis: int, ignore_label: int | None
) -> tuple[int, int, int, int, int]:
    """The layout of the rows, the label to ignore, and 1 if a label is ignored."""
    rows, columns, inner = layout(logits, axis)
    if labels.shape != logits.shape[:axis] + logits.shape[axis + 1 :]:
        raise ValueError("shapes differ")
    if not columns:
        raise ValueError("there are no classes")
    limits = cupy.iinfo(labels.dtype)
    if ignore_label is None or not limits.min <= ignore_label <= limits.max:
        return rows, columns, inner, 0, 0
    return rows, columns, inner, ignore_label, 1


def _sparse_cross_entropy(
    logits: Array, labels: Array, *, axis: int, label_smoothing: float, ignore_label: int | None
) -> tuple[Array, ...]:
    rows, columns, inner, ignore, ignores = _classes(logits, labels, axis, ignore_label)
    x, label = contiguous(logits), contiguous(labels)
    loss, normalizer = _results(x, axis)
    over_rows(
        "rows", "sparse_cross_entropy", rows, columns,
        (x, label, loss, normalizer, rows, columns, inner, label_smoothing, ignore, ignores),
        T=x.dtype, I=label.dtype, G=x.dtype,
    )  # fmt: skip
    return loss, normalizer


def _sparse_cross_entropy_gradient(
    logits: Array, labels: Array, normalizer: Array, g: Array, *, axis: int, label_smoothing: float,
    ignore_label: int | None,
) -> Array:  # fmt: skip
    rows, columns, inner, ignore, ignores = _classes(logits, labels, axis, ignore_label)
    x, label, norm, slope = map(contiguous, (logits, labels, normalizer, g))
    dx = cupy.empty_like(x)
    over_elements(
        "rows", "sparse_cross_entropy_gradient", x.size,
        (x, label, norm.astype(compute_dtype(x.dtype), copy=False), slope, dx, rows, columns, inner,
         label_smoothing, ignore, ignores),
        T=x.dtype, I=label.dtype, G=slope.dtype,
    )  # fmt: skip
    return dx


KERNELS: dict[str, Kernel] = {
    "log_softmax": _along("log_softmax"),
    "softmax": _along("softmax"),
    "softmax_cross_entropy_with_logits": _cross_entropy,
    "sparse_softmax_cross_entropy_gradient": _sparse_cross_entropy_gradient,
    "sparse_softmax_cross_entropy_with_logits": _sparse_cross_entropy,
}
