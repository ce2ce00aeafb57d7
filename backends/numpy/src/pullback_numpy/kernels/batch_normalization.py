"""Batch normalization in NumPy.

Where the channels come last, an array is read in pieces that stay in the cache, once for the sums
and once for the result. Loops over the channels alone would be short (32 elements, say), so rows
are lines: several pixels, with the channels' parameters repeated along them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pullback.plugins.records import Kernel
from pullback_numpy import threads
from pullback_numpy.half import narrowed, widened
from pullback_numpy.kernels.normalization import affine, laid_out, mean, others_of
from pullback_numpy.kernels.precision import row_pieces
from pullback_numpy.kernels.reductions import tree_sum
from pullback_numpy.products import column_products, column_totals
from pullback_numpy.typing import Array

#: The least number of elements of a line, if the array has as many.
_LINE = 512
#: Up to this many elements, making lines costs more than short loops.
_SMALL = 2048


def _lines(x: Array, axis: int) -> Array | None:
    """x (..., channels) as lines of whole pixels; None if its size or layout is not for that."""
    channels = x.shape[axis]
    if x.size <= _SMALL or axis != x.ndim - 1 or not x.flags.c_contiguous or x.ndim < 2:
        return None
    pixels, group = x.size // channels, 1
    while group * channels < _LINE and pixels % (2 * group) == 0:
        group *= 2
    return x.reshape(-1, group * channels)


def _along(values: Any, lines: Array) -> Array:
    """A value for each channel, repeated along a line."""
    along = np.empty((lines.shape[1] // values.size, values.size), values.dtype)
    along[...] = values
    return along.reshape(-1)


def _sums(lines: Array, channels: int, terms: Callable[[slice, Array], None], count: int) -> Array:
    """`count` sums over pixels, (count, channels); terms(piece, out) writes those of a piece."""
    pieces = row_pieces(*lines.shape)
    partial = np.empty((len(pieces), count, lines.shape[1]), lines.dtype)

    def work(number: int) -> None:
        terms(pieces[number], partial[number])

    with threads.single_blas:
        threads.run(work, range(len(pieces)), lines.size)
    whole = partial.reshape(len(pieces), count, -1, channels)
    return np.asarray(tree_sum(whole, (0, 2), False))


def _batch_norm(
    x: Array, scale: Array | None, offset: Array | None, *, axis: int, epsilon: float
) -> tuple[Array, ...]:
    w = widened(x)
    lines = _lines(w, axis)
    if lines is None:
        return _batch_norm_of(x, w, scale, offset, axis, epsilon)
    channels, count = x.shape[axis], w.size // x.shape[axis]
    # Distances are taken from a mean of the first pixels. The square of their mean, which is
    # subtracted again, is at most the variance times the number of pieces: few digits are lost.
    first_pixels = w.reshape(-1, channels)[: max(1, threads.PIECE // channels)]
    near = column_totals(first_pixels) / w.dtype.type(len(first_pixels))
    near_line = _along(near, lines)

    def terms(piece: slice, out: Array) -> None:
        away = lines[piece] - near_line
        out[0] = column_totals(away)
        out[1] = column_products(away, away)

    first, second = _sums(lines, channels, terms, 2) / w.dtype.type(count)
    center, variance = near + first, np.maximum(second - first * first, 0)
    if not np.isfinite(variance).all():
        # Here squares out of range give inf - inf; squares of distances to the exact mean do not.
        return _batch_norm_of(x, w, scale, offset, axis, epsilon)
    factor = 1 / np.sqrt(variance + w.dtype.type(epsilon))
    y = _normalized(lines, center, factor, scale, offset)
    return narrowed(y.reshape(x.shape), x), center, variance


def _normalized(
    lines: Array, center: Array, factor: Any, scale: Array | None, offset: Array | None
) -> Array:
    """(lines - center) * factor * scale + offset."""
    if scale is not None:
        factor = factor * scale
    center, factor = _along(center, lines), _along(factor.astype(lines.dtype, copy=False), lines)
    summand = None if offset is None else _along(offset, lines)
    y = np.empty(lines.shape, lines.dtype)

    def work(piece: slice) -> None:
        part = np.subtract(lines[piece], center, out=y[piece])
        part *= factor
        if summand is not None:
            part += summand

    threads.over(work, *lines.shape)
    return y


def _batch_norm_of(
    x: Array, w: Array, scale: Array | None, offset: Array | None, axis: int, epsilon: float
) -> tuple[Array, ...]:
    others = others_of(w, (axis,))
    center = np.asarray(mean(w, others))
    y = np.subtract(w, center, out=np.empty(w.shape, w.dtype))
    variance = np.asarray(mean(y * y, others))
    factor = 1 / np.sqrt(variance + w.dtype.type(epsilon))
    if scale is not None:
        factor = factor * laid_out(scale, w.shape, (axis,))
    y *= factor
    y = affine(y, None, offset, (axis,))
    return narrowed(y, x), center.reshape(-1), variance.reshape(-1)


def _batch_norm_gradient(
    x: Array, scale: Array | None, mean: Array, variance: Array, g: Array, mean_g: Array,
    variance_g: Array, *, axis: int, epsilon: float,
) -> tuple[Array, ...]:  # fmt: skip
    # `spread`, `factor`, `by_x` and `constant` are those of the op's body and of CuPy's kernel.
    # They are not shared: the sums and the pass over x, which differ, stand between these lines.
    w, h = widened(x), widened(g)
    spread = 1 / np.sqrt(variance + w.dtype.type(epsilon))
    factor = spread if scale is None else spread * scale
    count = w.dtype.type(max(1, w.size // max(1, x.shape[axis])))
    lines, lines_g = _lines(w, axis), _lines(h, axis)
    if lines is None or lines_g is None:
        level, slope = _slopes(w, h, mean, spread, axis)
    else:
        center = _along(mean, lines)

        def terms(piece: slice, out: Array) -> None:
            away = lines[piece] - center
            out[0] = column_totals(lines_g[piece])
            out[1] = column_products(away, lines_g[piece])

        level, slope = _sums(lines, x.shape[axis], terms, 2)
        slope = slope * spread
    by_x = (variance_g * 2 - factor * spread * slope) / count
    constant = (mean_g - factor * level) / count
    if lines is None or lines_g is None:
        channel = (axis,)
        dx = np.subtract(w, laid_out(mean, w.shape, channel), out=np.empty(w.shape, w.dtype))
        dx *= laid_out(by_x, w.shape, channel)
        dx += laid_out(constant, w.shape, channel)
        dx += h * laid_out(factor, w.shape, channel)
    else:
        dx = _combined(lines, lines_g, (mean, by_x, constant, factor)).reshape(x.shape)
    return narrowed(dx, x), narrowed(slope, x), narrowed(level, x)


def _slopes(w: Array, h: Array, mean: Array, spread: Array, axis: int) -> tuple[Any, Any]:
    others = others_of(w, (axis,))
    product = np.subtract(w, laid_out(mean, w.shape, (axis,)), out=np.empty(w.shape, w.dtype))
    product *= h
    if not others:
        return h, product * spread
    return np.asarray(tree_sum(h, others, False)), tree_sum(product, others, False) * spread


def _combined(lines: Array, lines_g: Array, parts: Any) -> Array:
    """(lines - center) * by_x + lines_g * factor + constant."""
    center, by_x, constant, factor = (
        _along(part.astype(lines.dtype, copy=False), lines) for part in parts
    )
    dx = np.empty(lines.shape, lines.dtype)

    def work(piece: slice) -> None:
        part = np.subtract(lines[piece], center, out=dx[piece])
        part *= by_x
        part += constant
        part += lines_g[piece] * factor

    threads.over(work, *lines.shape)
    return dx


def _batch_norm_inference(
    x: Array,
    mean: Array,
    variance: Array,
    scale: Array | None,
    offset: Array | None,
    *,
    axis: int,
    epsilon: float,
) -> Array:
    w = widened(x)
    factor = 1 / np.sqrt(widened(variance).astype(w.dtype, copy=False) + w.dtype.type(epsilon))
    lines = _lines(w, axis)
    if lines is not None:
        center = widened(mean).astype(w.dtype, copy=False)
        return narrowed(_normalized(lines, center, factor, scale, offset).reshape(x.shape), x)
    if scale is not None:
        factor = factor * scale
    factor = factor.astype(w.dtype, copy=False)
    y = np.subtract(w, laid_out(mean, w.shape, (axis,)), out=np.empty(w.shape, w.dtype))
    y *= laid_out(factor, w.shape, (axis,))
    return narrowed(affine(y, None, offset, (axis,)), x)


KERNELS: dict[str, Kernel] = {
    "batch_norm": _batch_norm,
    "batch_norm_gradient": _batch_norm_gradient,
    "batch_norm_inference": _batch_norm_inference,
}
