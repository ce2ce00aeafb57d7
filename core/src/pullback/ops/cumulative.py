"""Cumulative sums, products, maxima and minima."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback import errors
from pullback._dispatch import op
from pullback.casting import HALF
from pullback.dtypes import DType, DTypeLike, accumulating, floating, ordered, real_floating
from pullback.ops.arithmetic import maximum, minimum
from pullback.ops.creation import arange, ones_like, zeros_like
from pullback.ops.data_types import cotangent_of
from pullback.ops.exponential import logaddexp, share
from pullback.ops.indexing import place_along_axis
from pullback.ops.joining import concat
from pullback.ops.manipulation import flip, moveaxis
from pullback.ops.precision import widened
from pullback.ops.selection import where
from pullback.shapes import Axis, Shape
from pullback.spec import ACCUMULATED, EXACT
from pullback.tensor import Tensor

__all__ = [
    "cumulative_logsumexp",
    "cumulative_max",
    "cumulative_min",
    "cumulative_prod",
    "cumulative_sum",
]


def _one_axis(shapes: tuple[Shape, ...], *, axis: int | None, **rest: object) -> dict[str, object]:
    if axis is None:
        if len(shapes[0]) != 1:
            raise errors.AxisError(
                f"an array of {len(shapes[0])} dimensions needs an axis; give axis="
            )
        axis = 0
    return {"axis": axis, **rest}


def _run(x: Shape, *, axis: int, include_initial: bool = False, **_: object) -> Shape:
    """The shape of x, with one element more along the axis if the initial one is included."""
    return (*x[:axis], x[axis] + include_initial, *x[axis + 1 :])


@op(
    shape=_run,
    dtype=accumulating,
    accuracy=ACCUMULATED,
    normalize=_one_axis,
    primitive="A body of shifted sums takes log2(n) passes over the data.",
)
def cumulative_sum(
    x: Tensor,
    /,
    axis: Axis | None = None,
    *,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
) -> Tensor:
    """The cumulative sums of x along `axis`.

    Args:
        x: a tensor of at least one axis; a vector needs no `axis`.
        axis: the axis.
        dtype: the dtype of the sums; by default that of `sum`.
        include_initial: True to put the empty sum, 0, first.

    Raises:
        AxisError: for an axis out of range, or None if x has several.

    >>> pb.cumulative_sum([1, 2, 3]).tolist()
    [1, 3, 6]
    >>> pb.cumulative_sum([1, 2, 3], include_initial=True).tolist()
    [0, 1, 3, 6]
    """


@cumulative_sum.vjp("x")
def _(g: Tensor, x_dtype: DType, axis: int, dtype: DType | None, include_initial: bool) -> Tensor:
    g = _own_elements(g, axis, include_initial)
    g = flip(cumulative_sum(flip(g, axis=axis), axis=axis), axis=axis)
    return g if dtype is None or dtype == x_dtype else cotangent_of(g, x_dtype)


@op(
    shape=_run,
    dtype=accumulating,
    accuracy=ACCUMULATED,
    normalize=_one_axis,
    primitive="A body of shifted products takes log2(n) passes over the data.",
)
def cumulative_prod(
    x: Tensor,
    /,
    axis: Axis | None = None,
    *,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
) -> Tensor:
    """The cumulative products of x along `axis`.

    Args:
        x: a tensor of at least one axis; a vector needs no `axis`.
        axis: the axis.
        dtype: the dtype of the products; by default that of `prod`.
        include_initial: True to put the empty product, 1, first.

    Raises:
        AxisError: for an axis out of range, or None if x has several.

    >>> pb.cumulative_prod([1, 2, 3, 4]).tolist()
    [1, 2, 6, 24]
    """


@cumulative_prod.vjp("x")
def _(g: Tensor, x: Tensor, axis: int, dtype: DType | None, include_initial: bool) -> Tensor:
    # y_k is the product of x_0 ... x_k, so that with p_i the product of all before x_i
    #   dL/dx_i = p_i r_i,  r_i = sum over k >= i of g_k x_{i+1} ... x_k = g_i + x_{i+1} r_{i+1}.
    # There are no divisions, so zeros in x need no special case.
    g = _own_elements(g, axis, include_initial)
    if dtype is not None and dtype != x.dtype:
        g = cotangent_of(g, x.dtype)
    before = cumulative_prod(x, axis=axis, include_initial=True)
    before = before[(*[slice(None)] * axis, slice(None, -1))]
    return before * linear_recurrence(x, g, axis=axis, reverse=True)


def _own_elements(g: Tensor, axis: int, include_initial: bool) -> Tensor:
    """The cotangents of all but the initial element, which is a constant."""
    return g[(*[slice(None)] * axis, slice(1, None))] if include_initial else g


def _both(a: Shape, b: Shape, **_: object) -> Shape:
    """The shape of both."""
    if a != b:
        raise errors.ShapeError(f"factors of shape {a} do not fit terms of shape {b}")
    return a


@op(shape=_both, dtype=floating, accuracy=ACCUMULATED, public=False)
def linear_recurrence(a: Tensor, b: Tensor, /, *, axis: Axis, reverse: bool = False) -> Tensor:
    """The y_i = b_i + a_i y_{i-1} along `axis`, which begin with y_0 = b_0.

    The body takes log2(n) steps. After each b_i covers twice as many terms, and a_i is the product
    of the factors to skip them (Hillis and Steele, "Data parallel algorithms", 1986).

    Args:
        a: the factors; the first one along the axis is not used.
        b: the terms, of the same shape.
        axis: the axis.
        reverse: True for y_i = b_i + a_{i+1} y_{i+1}, which is the transpose.

    Raises:
        ShapeError: for two shapes.

    >>> pb.ops.linear_recurrence([0.0, 2.0, 3.0], [1.0, 1.0, 1.0], axis=0).tolist()
    [1.0, 3.0, 10.0]
    """
    dtype = b.dtype
    a, b = moveaxis(widened(a), axis, -1), moveaxis(widened(b), axis, -1)
    a, b = (a, b) if reverse else (flip(a, axis=-1), flip(b, axis=-1))
    step, n = 1, b.shape[-1]
    a = a[..., 1:] if reverse else a[..., :-1]
    while step < n:
        b = concat([b[..., :-step] + a * b[..., step:], b[..., -step:]], axis=-1)
        a = a[..., :-step] * a[..., step:]
        step *= 2
    return moveaxis(b if reverse else flip(b, axis=-1), -1, axis).astype(dtype)


@linear_recurrence.vjp("a", "b")
def _(g: Tensor, a: Tensor, out: Tensor, axis: int, reverse: bool) -> tuple[Tensor, Tensor]:
    back = linear_recurrence(a, g, axis=axis, reverse=not reverse)
    earlier, later = (back, out) if reverse else (out, back)
    first, others, rest = (
        (*[slice(None)] * axis, part) for part in (slice(1), slice(-1), slice(1, None))
    )
    factors = earlier[others] * later[rest]
    return concat([zeros_like(a[first]), factors], axis=axis), back


def _scan(combine: Callable[[Any, Any], Tensor], x: Tensor, axis: int) -> Tensor:
    """The cumulative combination of elements, in log2(n) steps."""
    x = moveaxis(x, axis, -1)
    step, n = 1, x.shape[-1]
    while step < n:
        x = concat([x[..., :step], combine(x[..., step:], x[..., :-step])], axis=-1)
        step *= 2
    return moveaxis(x, -1, axis)


@op(shape=_run, dtype=real_floating, accuracy=ACCUMULATED, normalize=_one_axis)
def cumulative_logsumexp(x: Tensor, /, axis: Axis | None = None) -> Tensor:
    """The cumulative log(sum(exp(x))) of x along `axis`.

    Raises:
        AxisError: for an axis out of range, or None if x has several.

    >>> pb.cumulative_logsumexp([1000.0, 1000.0]).tolist()
    [1000.0, 1000.693115234375]
    """
    assert axis is not None
    return _scan(logaddexp, widened(x), axis).astype(x.dtype)


@cumulative_logsumexp.vjp("x")
def _(g: Tensor, x: Tensor, out: Tensor, axis: int) -> Tensor:
    # y_k = logaddexp(y_{k-1}, x_k), whose weights are at most 1: no term is lost or too large.
    if x.dtype in HALF:
        out = cumulative_logsumexp(widened(x), axis=axis)
    dtype = x.dtype
    g, x, y = (moveaxis(widened(value), axis, -1) for value in (g, x, out))
    before, after, term = y[..., :-1], y[..., 1:], x[..., 1:]
    own = concat([ones_like(x[..., :1]), share(term, before, after)], axis=-1)
    kept = concat([ones_like(x[..., :1]), share(before, term, after)], axis=-1)
    slope = own * linear_recurrence(kept, g, axis=-1, reverse=True)
    return moveaxis(slope, -1, axis).astype(dtype)


@op(shape=_run, dtype=ordered, accuracy=EXACT, normalize=_one_axis)
def cumulative_max(x: Tensor, /, axis: Axis | None = None) -> Tensor:
    """The cumulative maximum of x along `axis`; NaN from the first NaN on.

    The gradient is that of the first of equal elements.

    Raises:
        AxisError: for an axis out of range, or None if x has several.

    >>> pb.cumulative_max([1, 3, 2, 5]).tolist()
    [1, 3, 3, 5]
    """
    assert axis is not None
    return _scan(maximum, x, axis)


@op(shape=_run, dtype=ordered, accuracy=EXACT, normalize=_one_axis)
def cumulative_min(x: Tensor, /, axis: Axis | None = None) -> Tensor:
    """The cumulative minimum of x along `axis`; NaN from the first NaN on.

    The gradient is that of the first of equal elements.

    Raises:
        AxisError: for an axis out of range, or None if x has several.

    >>> pb.cumulative_min([3, 1, 2, 0]).tolist()
    [3, 1, 1, 0]
    """
    assert axis is not None
    return _scan(minimum, x, axis)


@cumulative_max.vjp("x")
@cumulative_min.vjp("x")
def _(g: Tensor, out: Tensor, axis: int) -> Tensor:
    n = out.shape[axis]
    if n < 2:
        return g
    y = moveaxis(out, axis, -1)
    before = y[..., :-1]
    # Where the result is another one than before, it is the element there; NaN stays NaN.
    changes = (y[..., 1:] != before) & (before == before)
    places = where(changes, arange(1, n, device=out.device), 0)
    places = concat([zeros_like(places[..., :1]), places], axis=-1)
    origins = moveaxis(cumulative_max(places, axis=-1), -1, axis)
    return place_along_axis(g, origins, shape=g.shape, axis=axis)
