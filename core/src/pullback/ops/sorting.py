"""Sorting, top-k and quantiles. NaN counts as larger than every number."""

from __future__ import annotations

import math
from typing import Any

from pullback import dtypes, errors
from pullback._dispatch import op
from pullback._dispatch.arguments import as_float
from pullback._dispatch.convert import as_number
from pullback.dtypes import Operands, Resolution, ordered, position
from pullback.ops.comparison import isinf
from pullback.ops.creation import full
from pullback.ops.indexing import place_along_axis, take_along_axis
from pullback.ops.joining import stack
from pullback.ops.manipulation import permute_dims, reshape
from pullback.ops.precision import widened
from pullback.ops.reductions import count, reduce_some
from pullback.ops.selection import where
from pullback.shapes import Axes, Axis, Shape, first, reduced
from pullback.spec import ACCUMULATED, EXACT
from pullback.tensor import Tensor

__all__ = ["argsort", "median", "quantile", "sort", "top_k"]


@op(
    shape=first,
    dtype=position,
    accuracy=EXACT,
    differentiable=False,
    primitive="No bounded number of elementwise passes sorts.",
)
def argsort(
    x: Tensor, /, axis: Axis = -1, *, descending: bool = False, stable: bool = True
) -> Tensor:
    """The indices that sort x along `axis`, as int64.

    With `stable`, equal elements keep their order, in descending order too.

    Raises:
        AxisError: for an axis out of range.

    >>> pb.argsort([30, 10, 20]).tolist()
    [1, 2, 0]
    """


@op(shape=first, dtype=ordered, accuracy=EXACT)
def sort(x: Tensor, /, axis: Axis = -1, *, descending: bool = False, stable: bool = True) -> Tensor:
    """The elements of x in ascending order along `axis`.

    Raises:
        AxisError: for an axis out of range.

    >>> pb.sort([[3, 1, 2]], descending=True).tolist()
    [[3, 2, 1]]
    """
    order = argsort(x, axis=axis, descending=descending, stable=stable)
    return take_along_axis(x, order, axis=axis)


@sort.vjp("x")
def _(g: Tensor, x: Tensor, axis: int, descending: bool, stable: bool) -> Tensor:
    order = argsort(x, axis=axis, descending=descending, stable=stable)
    return place_along_axis(g, order, shape=x.shape, axis=axis)


def _top(x: Shape, *, k: int, axis: int, **_: object) -> list[Shape]:
    """The shape of x with k elements along the axis, twice."""
    if not 0 <= k <= x[axis]:
        raise errors.InputValueError(f"k must be in [0, {x[axis]}] for shape {x}, got {k}")
    shape = (*x[:axis], k, *x[axis + 1 :])
    return [shape, shape]


def _with_index(operands: Operands, **_: object) -> Resolution:
    """Values in the dtype of x, indices in int64."""
    inputs, outputs = ordered(operands)
    return Resolution(inputs, (*outputs, dtypes.int64))


@op(shape=_top, dtype=_with_index, accuracy=EXACT, outputs=("values", "indices"))
def top_k(x: Tensor, /, k: int, axis: Axis = -1, *, largest: bool = True) -> tuple[Tensor, Tensor]:
    """The k largest (or smallest) elements along `axis`, in order, and their indices.

    Equal elements keep their order.

    Raises:
        AxisError: for an axis out of range.
        InputValueError: for a k larger than the axis.

    >>> values, indices = pb.top_k([1, 5, 3], 2)
    >>> values.tolist(), indices.tolist()
    ([5, 3], [1, 2])
    """
    _top(x.shape, k=k, axis=axis)
    order = argsort(x, axis=axis, descending=largest)
    indices = order[(*[slice(None)] * axis, slice(k))]
    return take_along_axis(x, indices, axis=axis), indices


@top_k.vjp("x")
def _(g: tuple[Tensor, Tensor], indices: Tensor, x_shape: Shape, axis: int) -> Tensor:
    return place_along_axis(g[0], indices, shape=tuple(x_shape), axis=axis)


# ---------------------------------------------------------------------------------------------
# Quantiles.


def _quantile_shape(
    x: Shape, *, q: Any, axis: Shape | None = None, keepdims: bool = False, **_: object
) -> Shape:
    """The shape of the reduction, with an axis for several levels in front."""
    return (*_several(q), *reduce_some(x, axis=axis, keepdims=keepdims))


def _several(q: Any) -> Shape:
    """The axis of several levels in the result, or no axis."""
    return () if isinstance(q, float) else (len(q),)


def _level(q: Any) -> float:
    instead = "np.interp(q * (n - 1), np.arange(n), pb.sort(x)) for the n numbers of a vector x"
    return as_float(as_number(q, "q", instead), "q")


def _levels(
    shapes: tuple[Shape, ...], *, q: Any, method: object, **rest: object
) -> dict[str, object]:
    if method not in METHODS:
        raise errors.InputValueError(
            f"the method of a quantile must be one of {', '.join(METHODS)}; got {method!r}"
        )
    if getattr(q, "ndim", 0) == 1:
        q = tuple(q)
    levels = tuple(map(_level, q)) if isinstance(q, (tuple, list)) else _level(q)
    for level in levels if isinstance(levels, tuple) else (levels,):
        if not 0 <= level <= 1:
            raise errors.InputValueError(f"the level of a quantile must be in [0, 1], got {level}")
    return {"q": levels, "method": method, **rest}


#: The methods of Hyndman and Fan, "Sample quantiles in statistical packages" (1996), that put the
#: quantile of level q at n q + a + q (1 - a - b) - 1 of n sorted elements: a and b.
_SPACED = {
    "interpolated_inverted_cdf": (0.0, 1.0),
    "hazen": (0.5, 0.5),
    "weibull": (0.0, 0.0),
    "linear": (1.0, 1.0),
    "median_unbiased": (1 / 3, 1 / 3),
    "normal_unbiased": (3 / 8, 3 / 8),
}
METHODS = (
    *_SPACED,
    *("inverted_cdf", "averaged_inverted_cdf", "closest_observation"),
    *("lower", "higher", "midpoint", "nearest"),
)


def place(level: float, count: int, method: str) -> tuple[int, float]:
    """The element below a quantile, of `count` in order, and how far it is to the next one."""
    if method in ("inverted_cdf", "averaged_inverted_cdf", "closest_observation"):
        at = count * level - (1.5 if method == "closest_observation" else 1)
        below = math.floor(at)
        share = {
            "inverted_cdf": float(at > below),
            "averaged_inverted_cdf": 1.0 if at > below else 0.5,
            # The even one of two that are equally near, counted from 1.
            "closest_observation": float(at > below or below % 2 == 0),
        }[method]
    else:
        a, b = _SPACED.get(method, (1.0, 1.0))
        at = level * (count - 1) if a == b == 1 else count * level + a + level * (1 - a - b) - 1
        below = math.floor(at)
        share = {
            "lower": 0.0,
            "higher": float(at > below),
            "midpoint": 0.5 * (at > below),
            "nearest": float(round(at) - below),
        }.get(method, at - below)
    if below + share <= 0:
        return 0, 0.0
    if below >= count - 1:
        return count - 1, 0.0
    return (below + 1, 0.0) if share == 1 else (below, share)


@op(shape=_quantile_shape, dtype=dtypes.real_floating, accuracy=ACCUMULATED, normalize=_levels)
def quantile(
    x: Tensor,
    /,
    q: float | tuple[float, ...],
    axis: Axes = None,
    *,
    keepdims: bool = False,
    method: str = "linear",
) -> Tensor:
    """The quantiles of x over `axis`, with linear interpolation between elements.

    Several levels q are along a new first axis of the result. NaN if there is a NaN.

    Args:
        x: real numbers.
        q: the level, or several levels, in [0, 1].
        axis: the axis or axes to reduce; None for all.
        keepdims: True to keep them, with one element each.
        method: which elements count: "linear", "lower", "higher", "midpoint" or "nearest", or one
            of the others of NumPy's `quantile`, such as "hazen" and "inverted_cdf" (Hyndman and
            Fan, "Sample quantiles in statistical packages", 1996).

    Raises:
        InputValueError: for levels outside [0, 1], other methods, and if there are no elements.
        TapeError: for levels that a tape records, which get no gradient here.

    >>> pb.quantile([1.0, 2.0, 3.0, 4.0], 0.5).item()
    2.5
    >>> pb.quantile([1.0, 2.0, 3.0, 4.0], [0.0, 1.0]).tolist()
    [1.0, 4.0]
    >>> pb.quantile([1.0, 2.0, 3.0, 4.0], 0.4, method="higher").item()
    3.0
    """
    axes: Any = tuple(range(x.ndim)) if axis is None else axis
    _quantile_shape(x.shape, q=q, axis=axes, keepdims=keepdims)
    kept = tuple(a for a in range(x.ndim) if a not in axes)
    vectors = permute_dims(x, (*kept, *axes))
    vectors = reshape(vectors, (*vectors.shape[: len(kept)], count(x.shape, axes)))
    vectors, shape = sort(widened(vectors)), reduced(x.shape, axes, keepdims)
    if not vectors.size:
        return full((*_several(q), *shape), 0, dtype=x.dtype, device=x.device)
    last = vectors.shape[-1] - 1
    has_nan = vectors[..., last] != vectors[..., last]

    def at(level: float) -> Tensor:
        below, fraction = place(level, last + 1, method)
        value = vectors[..., below]
        if fraction:
            # Interpolated from the nearer end, so that both ends are exact.
            above = vectors[..., below + 1]
            # Two infinities of one sign have no difference, and nothing between them.
            step = where(above == value, 0, above - value)
            left = 1 - fraction
            between = value + step * fraction if fraction < 0.5 else above - step * left
            # A number beside an infinity is lost in it.
            value = where(isinf(step), value * left + above * fraction, between)
        value = where(has_nan, float("nan"), value)
        return value.reshape(shape).astype(x.dtype)

    return at(q) if isinstance(q, float) else stack([at(level) for level in q])


@op(shape=reduce_some, dtype=dtypes.real_floating, accuracy=ACCUMULATED)
def median(x: Tensor, /, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """The median of x over `axis`: the middle element, or the mean of the two middle ones.

    Raises:
        InputValueError: if there are no elements.

    >>> pb.median([[3.0, 1.0, 2.0], [6.0, 4.0, 5.0]], axis=1).tolist()
    [2.0, 5.0]
    """
    return quantile(x, 0.5, axis=axis, keepdims=keepdims)
