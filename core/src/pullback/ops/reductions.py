"""Reductions over axes: sums, products, extrema, statistics.

`axis` is one axis, several axes, or None for all; `keepdims` keeps reduced axes with size 1.
"""

from __future__ import annotations

from typing import Any

from pullback import dtypes, errors
from pullback._dispatch import op
from pullback.dtypes import (
    DType,
    DTypeLike,
    accumulating,
    floating,
    is_floating,
    ordered,
    predicate,
    promoting,
    real_floating,
)
from pullback.ops import late
from pullback.ops.comparison import isinf, not_equal
from pullback.ops.creation import full
from pullback.ops.data_types import cotangent_of
from pullback.ops.exponential import exp, log, sqrt
from pullback.ops.manipulation import broadcast_to, flip, permute_dims, reshape
from pullback.ops.precision import places_on, widened
from pullback.ops.selection import where
from pullback.shapes import Axes, Shape, reduce, reduced, size_of
from pullback.spec import ACCUMULATED, EXACT
from pullback.tensor import Tensor

__all__ = [
    "all",
    "any",
    "count_nonzero",
    "logsumexp",
    "max",
    "mean",
    "min",
    "prod",
    "std",
    "sum",
    "var",
]


def expand(g: Tensor, shape: Shape, axis: Shape | None, keepdims: bool) -> Tensor:
    """The result of a reduction, or its cotangent, broadcast over the reduced axes."""
    if not keepdims and axis is not None:  # a 0-d g broadcasts as it is
        g = reshape(g, reduced(shape, axis, True))
    return broadcast_to(g, shape)


def count(shape: Shape, axis: Any) -> int:
    """The number of elements that each result of a reduction over canonical `axis` combines."""
    return size_of(shape if axis is None else [shape[a] for a in axis])


# ---------------------------------------------------------------------------------------------
# Sums and products.


@op(
    shape=reduce,
    dtype=accumulating,
    accuracy=ACCUMULATED,
    primitive="A body of pairwise sums takes log2(n) passes; products with ones take no integers.",
)
def sum(
    x: Tensor, /, axis: Axes = None, *, dtype: DTypeLike | None = None, keepdims: bool = False
) -> Tensor:
    """The sum of x over `axis`. The sum of nothing is 0.

    Small integers and booleans are summed in the default integer dtype, unless `dtype` is set.

    Raises:
        DTypeError: for complex x and a `dtype` that has no imaginary parts.

    >>> pb.sum([[1.0, 2.0], [3.0, 4.0]], axis=0).tolist()
    [4.0, 6.0]
    """


@sum.vjp("x")
def _(
    g: Tensor,
    x_shape: Shape,
    x_dtype: DType,
    axis: Shape | None,
    dtype: DType | None,
    keepdims: bool,
) -> Tensor:
    g = expand(g, tuple(x_shape), axis, keepdims)
    return g if dtype is None or dtype == x_dtype else cotangent_of(g, x_dtype)


@op(
    shape=reduce,
    dtype=accumulating,
    accuracy=ACCUMULATED,
    primitive="A body of pairwise products takes log2(n) passes; exp of a sum of logs rounds.",
)
def prod(
    x: Tensor, /, axis: Axes = None, *, dtype: DTypeLike | None = None, keepdims: bool = False
) -> Tensor:
    """The product of x over `axis`. The product of nothing is 1.

    Small integers and booleans are multiplied in the default integer dtype, unless `dtype` is
    set.

    >>> pb.prod([[1.0, 2.0], [3.0, 4.0]], axis=0).tolist()
    [3.0, 8.0]
    """


@prod.vjp("x")
def _(g: Tensor, x: Tensor, axis: Shape | None, dtype: DType | None, keepdims: bool) -> Tensor:
    # For each element the product of all others: of those before it times those after it.
    # Not out / x, which is 0 / 0 where x has a zero.
    axes = tuple(range(x.ndim)) if axis is None else axis
    g = expand(g, x.shape, axes, keepdims)
    if dtype is not None and dtype != x.dtype:
        g = cotangent_of(g, x.dtype)
    order = (*[a for a in range(x.ndim) if a not in axes], *axes)
    kept = x.ndim - len(axes)
    line = permute_dims(x, order)
    shape = line.shape
    line = reshape(line, (*shape[:kept], count(shape, tuple(range(kept, x.ndim)))))
    cumulative_prod = late.cumulative_prod
    before = cumulative_prod(line, axis=-1, include_initial=True)[..., :-1]
    after = cumulative_prod(flip(line, axis=-1), axis=-1, include_initial=True)[..., :-1]
    others = reshape(before * flip(after, axis=-1), shape)
    return g * permute_dims(others, tuple(order.index(a) for a in range(x.ndim)))


@op(shape=reduce, dtype=floating, accuracy=ACCUMULATED)
def mean(x: Tensor, /, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """The arithmetic mean of x over `axis`; integers give the default floating dtype.

    >>> pb.mean([[1.0, 2.0], [3.0, 4.0]], axis=1).tolist()
    [1.5, 3.5]
    """
    total = sum(widened(x), axis=axis, keepdims=keepdims)
    return (total / count(x.shape, axis)).astype(x.dtype)


@mean.vjp("x")
def _(g: Tensor, x_shape: Shape, axis: Shape | None, keepdims: bool) -> Tensor:
    shape = tuple(x_shape)
    return expand(g / count(shape, axis), shape, axis, keepdims)


# ---------------------------------------------------------------------------------------------
# Extrema.


def reduce_some(
    x: Shape, *, axis: Shape | int | None = None, keepdims: bool = False, **_: object
) -> Shape:
    """The shape of a reduction that needs at least one element."""
    result = reduce(x, axis=axis, keepdims=keepdims)
    axes = (axis,) if isinstance(axis, int) else axis
    if count(x, axes) == 0 and size_of(result) != 0:
        raise errors.InputValueError(
            f"a maximum or minimum needs at least one element, and shape {x} is empty along "
            f"{'all axes' if axes is None else f'axis {axes}'}"
        )
    return result


@op(
    shape=reduce_some,
    dtype=ordered,
    accuracy=EXACT,
    primitive="A body of pairwise maxima takes log2(n) passes, and sorting costs more.",
)
def max(x: Tensor, /, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """The maximum of x over `axis`; NaN if there is one. Ties share the gradient.

    Raises:
        InputValueError: if there are no elements.

    >>> pb.max([[1.0, 2.0], [4.0, 3.0]], axis=1).tolist()
    [2.0, 4.0]
    """


@op(shape=reduce_some, dtype=ordered, accuracy=EXACT)
def min(x: Tensor, /, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """The minimum of x over `axis`; NaN if there is one. Ties share the gradient.

    Raises:
        InputValueError: if there are no elements.

    >>> pb.min([[1.0, 2.0], [4.0, 3.0]], axis=1).tolist()
    [1.0, 3.0]
    """
    # Both reverse the order exactly.
    if is_floating(x.dtype):
        return -max(-x, axis=axis, keepdims=keepdims)
    return ~max(~x, axis=axis, keepdims=keepdims)


def _share_among_ties(
    g: Tensor, x: Tensor, out: Tensor, axis: Shape | None, keepdims: bool
) -> Tensor:
    is_extreme: Tensor = x == expand(out, x.shape, axis, keepdims)
    ties = sum(is_extreme, axis=axis, keepdims=keepdims, dtype=g.dtype)
    return is_extreme.astype(g.dtype) * expand(g / ties, x.shape, axis, keepdims)


max.vjp(x=_share_among_ties)
min.vjp(x=_share_among_ties)


# ---------------------------------------------------------------------------------------------
# Logic.


@op(shape=reduce, dtype=predicate, accuracy=EXACT, differentiable=False)
def any(x: Tensor, /, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """Returns True if any element of x over `axis` is not 0; False for no elements.

    A complex number is 0 if both of its parts are; NaN is not 0.

    >>> pb.any([[0, 1], [0, 0]], axis=1).tolist()
    [True, False]
    >>> pb.any([0j, 1j]).item()
    True
    """
    return not_equal(count_nonzero(x, axis=axis, keepdims=keepdims), 0)


@op(shape=reduce, dtype=predicate, accuracy=EXACT, differentiable=False)
def all(x: Tensor, /, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """Returns True if all elements of x over `axis` are not 0; True for no elements.

    A complex number is 0 if both of its parts are; NaN is not 0.

    >>> pb.all([[2, 1], [0, 1]], axis=1).tolist()
    [True, False]
    """
    return ~any(x == 0, axis=axis, keepdims=keepdims)


@op(shape=reduce, dtype=promoting("any", to=dtypes.int64), accuracy=EXACT, differentiable=False)
def count_nonzero(x: Tensor, /, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """The number of elements of x over `axis` that are not 0, as int64.

    >>> pb.count_nonzero([[0, 1], [2, 3]], axis=1).tolist()
    [1, 2]
    """
    return sum(x != 0, axis=axis, keepdims=keepdims, dtype=places_on(x.device))


# ---------------------------------------------------------------------------------------------
# Statistics.


def _freedom(shape: Shape, axis: Any, correction: float) -> float:
    left = count(shape, axis) - correction
    return left if left > 0 else 0


@op(shape=reduce, dtype=real_floating, accuracy=ACCUMULATED)
def var(
    x: Tensor, /, axis: Axes = None, *, correction: float = 0.0, keepdims: bool = False
) -> Tensor:
    """The variance of x over `axis`: the mean square distance from the mean.

    Two passes keep it accurate for a large mean. The sum of n squares is divided by
    n - `correction`: 0 for the variance of a population, 1 for the unbiased estimate from a
    sample (Bessel).

    >>> pb.var([1.0, 2.0, 3.0, 4.0]).item()
    1.25
    """
    wide = widened(x)
    centered = wide - mean(wide, axis=axis, keepdims=True)
    # The rounding of the mean may be large compared with the differences.
    centered = centered - mean(centered, axis=axis, keepdims=True)
    total = sum(centered * centered, axis=axis, keepdims=keepdims)
    return (total / _freedom(x.shape, axis, correction)).astype(x.dtype)


@var.vjp("x")
def _(g: Tensor, x: Tensor, axis: Shape | None, correction: float, keepdims: bool) -> Tensor:
    centered = x - mean(x, axis=axis, keepdims=True)
    return expand(2 * g / _freedom(x.shape, axis, correction), x.shape, axis, keepdims) * centered


@op(shape=reduce, dtype=real_floating, accuracy=ACCUMULATED)
def std(
    x: Tensor, /, axis: Axes = None, *, correction: float = 0.0, keepdims: bool = False
) -> Tensor:
    """The standard deviation of x over `axis`: the square root of `var`.

    Where all elements are equal, its gradient is defined as 0.

    >>> pb.std([2.0, 4.0, 6.0, 8.0], correction=1).item()
    2.5819888114929199
    """
    variance = var(widened(x), axis=axis, correction=correction, keepdims=keepdims)
    return sqrt(variance).astype(x.dtype)


@std.vjp("x")
def _(
    g: Tensor, x: Tensor, out: Tensor, axis: Shape | None, correction: float, keepdims: bool
) -> Tensor:
    all_equal = out == 0
    # `where` twice: derivatives of this rule do not divide by 0 either.
    deviation = where(all_equal, 1, out)
    factor = where(all_equal, 0, g / (deviation * _freedom(x.shape, axis, correction)))
    return expand(factor, x.shape, axis, keepdims) * (x - mean(x, axis=axis, keepdims=True))


# ACCUMULATED: the logarithm of a sum and the largest element may cancel, as in logaddexp.
@op(shape=reduce, dtype=real_floating, accuracy=ACCUMULATED)
def logsumexp(x: Tensor, /, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """log(sum(exp(x))) over `axis` without overflow; -inf for no elements.

    >>> pb.logsumexp([1000.0, 1000.0]).item()
    1000.693115234375
    """
    axes: Any = axis
    if count(x.shape, axes) == 0:
        shape = reduced(x.shape, axes, keepdims)
        return full(shape, -float("inf"), dtype=x.dtype, device=x.device)
    wide = widened(x)
    largest = max(wide, axis=axis, keepdims=True)
    # An infinite maximum is the result. It is not subtracted, since inf - inf is NaN.
    largest = where(isinf(largest), 0, largest)
    total = sum(exp(wide - largest), axis=axis, keepdims=keepdims)
    return (log(total) + reshape(largest, total.shape)).astype(x.dtype)


@logsumexp.vjp("x")
def _(g: Tensor, x: Tensor, out: Tensor, axis: Shape | None, keepdims: bool) -> Tensor:
    inf = float("inf")
    y = expand(out, x.shape, axis, keepdims)
    # exp(x - y), without NaN for an infinite y: only infinite elements count there.
    infinite = isinf(y)
    difference = where(infinite, where(x == inf, 0, x - inf), x - where(infinite, 0, y))
    return exp(difference) * expand(g, x.shape, axis, keepdims)
