"""Normalization in NumPy: few passes, in place."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pullback.plugins.records import Kernel
from pullback_numpy import threads
from pullback_numpy.half import narrowed, widened
from pullback_numpy.kernels.precision import row_pieces
from pullback_numpy.kernels.reductions import tree_sum
from pullback_numpy.products import column_totals, row_totals
from pullback_numpy.typing import Array, Axes, Sizes


def laid_out(parameter: Array, shape: Sizes, axes: Axes) -> Array:
    """A parameter of the normalized axes, with the other axes in between as size 1."""
    if axes is None or parameter.ndim == len(shape):
        return parameter
    return parameter.reshape([n if i in axes else 1 for i, n in enumerate(shape)])


def _size(shape: Sizes, axes: Axes) -> int:
    return math.prod(shape if axes is None else [shape[a] for a in axes])


def mean(x: Array, axes: Axes) -> Any:
    """The mean over axes, which are kept; an array of x's dtype even where x is 0-d."""
    rows = axes == (x.ndim - 1,) and x.flags.c_contiguous and x.size
    if rows and x.shape[-1] <= 4096:
        total = row_totals(x.reshape(-1, x.shape[-1])).reshape((*x.shape[:-1], 1))
    else:
        total = np.asarray(tree_sum(x, axes, True))
    return total / x.dtype.type(_size(x.shape, axes) or math.nan)


def _mean_product(a: Array, b: Array, axes: Axes) -> Any:
    """The mean of a * b over axes, which are kept."""
    if axes == (a.ndim - 1,) and a.flags.c_contiguous and b.flags.c_contiguous and a.size:
        return np.vecdot(a, b)[..., None] / a.dtype.type(a.shape[-1])
    return mean(a * b, axes)


def affine(y: Array, scale: Array | None, offset: Array | None, axes: Axes) -> Array:
    """Scales and shifts y in place: y * scale + offset."""
    if scale is not None:
        y *= laid_out(scale, y.shape, axes)
    if offset is not None:
        y += laid_out(offset, y.shape, axes)
    return y


def _as_rows(x: Array, axes: Axes) -> Array | None:
    """x as rows of normalized elements, if the normalized axes are its last; else None."""
    if not x.size or not x.flags.c_contiguous or axes is None or not axes:
        return None
    if axes != tuple(range(x.ndim - len(axes), x.ndim)):
        return None
    return x.reshape(-1, _size(x.shape, axes))


def _layer_norm(
    x: Array, scale: Array | None, offset: Array | None, *, axis: Any, epsilon: float
) -> tuple[Array, ...]:
    w = widened(x)
    rows = _as_rows(w, axis)
    if rows is None or (axis == (x.ndim - 1,) and x.size <= threads.PIECE):
        y, center, spread = _layer_norm_of(w, scale, offset, axis, epsilon, None)
        return narrowed(y, x), center, spread
    factor, summand = (None if p is None else p.reshape(-1) for p in (scale, offset))
    y = np.empty(rows.shape, rows.dtype)
    center, spread = (np.empty((rows.shape[0], 1), rows.dtype) for _ in range(2))

    def work(piece: slice) -> None:
        _, center[piece], spread[piece] = _layer_norm_of(
            rows[piece], factor, summand, (1,), epsilon, y[piece]
        )

    threads.over(work, *rows.shape)
    kept = [1 if i in axis else n for i, n in enumerate(x.shape)]
    return narrowed(y.reshape(x.shape), x), center.reshape(kept), spread.reshape(kept)


def _layer_norm_of(
    w: Array,
    scale: Array | None,
    offset: Array | None,
    axes: Axes,
    epsilon: float,
    out: Array | None,
) -> tuple[Array, ...]:
    center = np.asarray(mean(w, axes))
    y = np.subtract(w, center, out=np.empty(w.shape, w.dtype) if out is None else out)
    spread = np.asarray(_mean_product(y, y, axes) + w.dtype.type(epsilon))
    np.sqrt(spread, out=spread)
    np.reciprocal(spread, out=spread)
    y *= spread
    return affine(y, scale, offset, axes), center, spread


def others_of(x: Array, axes: Axes) -> Sizes:
    """The axes that are not normalized."""
    return () if axes is None else tuple(i for i in range(x.ndim) if i not in axes)


def _over_rows(x: Array, axes: Axes) -> Any:
    """The sum over axes; over no axes x itself."""
    if axes == (0,) and x.ndim == 2 and x.shape[0] <= 4096 and x.flags.c_contiguous:
        return column_totals(x)
    return tree_sum(x, axes, False) if axes else x


def _layer_norm_gradient(
    x: Array, scale: Array | None, center: Array, spread: Array, g: Array, *, axis: Any
) -> tuple[Array, ...]:
    w, h = widened(x), widened(g)
    rows, rows_g = _as_rows(w, axis), _as_rows(h, axis)
    if rows is None or rows_g is None:
        dx = np.empty(w.shape, w.dtype)
        dscale, doffset = _layer_norm_gradient_of(w, scale, center, spread, h, axis, dx)
        return narrowed(dx, x), narrowed(dscale, x), narrowed(doffset, x)
    dx = np.empty(rows.shape, rows.dtype)
    flat, shape = None if scale is None else scale.reshape(-1), [x.shape[a] for a in axis]
    middle, width = center.reshape(-1, 1), spread.reshape(-1, 1)
    pieces = row_pieces(*rows.shape)
    sums = np.empty((2, len(pieces), rows.shape[1]), rows.dtype)

    def work(number: int) -> None:
        piece = pieces[number]
        sums[:, number] = _layer_norm_gradient_of(
            rows[piece], flat, middle[piece], width[piece], rows_g[piece], (1,), dx[piece]
        )

    threads.run(work, range(len(pieces)), rows.size)
    dscale, doffset = (tree_sum(partial, (0,), False) for partial in sums)
    return (
        narrowed(dx.reshape(x.shape), x),
        narrowed(dscale.reshape(shape), x),
        narrowed(doffset.reshape(shape), x),
    )


def _layer_norm_gradient_of(
    w: Array, scale: Array | None, center: Array, spread: Array, h: Array, axes: Axes, dx: Array
) -> tuple[Any, Any]:
    """Writes dx; returns the gradients of scale and offset."""
    y = np.subtract(w, center, out=np.empty(w.shape, w.dtype))
    y *= spread
    others = others_of(w, axes)
    dscale, doffset = _over_rows(np.multiply(h, y, out=dx), others), _over_rows(h, others)
    if not others:
        dscale = dscale.copy()
    np.multiply(h, 1 if scale is None else laid_out(scale, w.shape, axes), out=dx)
    slope = _mean_product(dx, y, axes)
    dx -= mean(dx, axes)
    y *= slope
    dx -= y
    dx *= spread
    return np.asarray(dscale), np.asarray(doffset)


def _rms_norm(x: Array, scale: Array | None, *, axis: Any, epsilon: float) -> tuple[Array, ...]:
    w = widened(x)
    spread = np.asarray(_mean_product(w, w, axis) + w.dtype.type(epsilon))
    np.sqrt(spread, out=spread)
    np.reciprocal(spread, out=spread)
    y = np.multiply(w, spread, out=np.empty(w.shape, w.dtype))
    return narrowed(affine(y, scale, None, axis), x), spread


def _rms_norm_gradient(
    x: Array, scale: Array | None, spread: Array, g: Array, *, axis: Any
) -> tuple[Array, ...]:
    w, h = widened(x), widened(g)
    y = np.multiply(w, spread, out=np.empty(w.shape, w.dtype))
    dscale = _over_rows(h * y, others_of(w, axis))
    dx = np.multiply(h, 1 if scale is None else laid_out(scale, w.shape, axis),
                     out=np.empty(w.shape, w.dtype))  # fmt: skip
    y *= _mean_product(dx, y, axis)
    dx -= y
    dx *= spread
    return narrowed(dx, x), narrowed(np.asarray(dscale), x)


def _group_norm(
    x: Array, scale: Array | None, offset: Array | None, *, groups: int, axis: int, epsilon: float
) -> Array:
    """Groups are rows of an array whose channels are first, and with one group as they are."""
    w = widened(x)
    moved = w if groups == 1 else np.moveaxis(w, axis, 1)
    if not x.size:
        return x
    rows = moved.reshape(x.shape[0] * groups, -1)
    y = _layer_norm(rows, None, None, axis=(1,), epsilon=epsilon)[0].reshape(moved.shape)
    y = y if groups == 1 else np.moveaxis(y, 1, axis)
    return narrowed(affine(y, scale, offset, (axis,)), x)


def _group_norm_gradient(
    x: Array, scale: Array | None, g: Array, *, groups: int, axis: int, epsilon: float
) -> tuple[Array, ...]:
    w, h = widened(x), widened(g)
    if not x.size:
        nothing = np.zeros(x.shape[axis], x.dtype)
        return x, nothing, nothing
    # In any order of channels where there is one group.
    place = axis if groups == 1 else 1
    moved, slopes = np.moveaxis(w, axis, place), np.moveaxis(h, axis, place)
    rows = moved.reshape(x.shape[0] * groups, -1)
    _, center, spread = _layer_norm(rows, None, None, axis=(1,), epsilon=epsilon)
    scaled = slopes if scale is None else slopes * laid_out(scale, moved.shape, (place,))
    dx = _layer_norm_gradient(rows, None, center, spread, scaled.reshape(rows.shape), axis=(1,))[0]
    y = rows - center
    y *= spread
    y = y.reshape(moved.shape)
    y *= slopes
    others = others_of(y, (place,))
    dscale, doffset = _over_rows(y, others), _over_rows(slopes, others)
    dx = np.moveaxis(dx.reshape(moved.shape), place, axis)
    return narrowed(dx, x), narrowed(np.asarray(dscale), x), narrowed(np.asarray(doffset), x)


KERNELS: dict[str, Kernel] = {
    "group_norm": _group_norm,
    "group_norm_gradient": _group_norm_gradient,
    "layer_norm": _layer_norm,
    "layer_norm_gradient": _layer_norm_gradient,
    "rms_norm": _rms_norm,
    "rms_norm_gradient": _rms_norm_gradient,
}
