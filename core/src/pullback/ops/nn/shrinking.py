"""Activations that are 0 for some inputs: shrinking, thresholds and sparse forms of smooth ones."""

from __future__ import annotations

from typing import Any

from pullback import errors
from pullback._dispatch import op
from pullback._dispatch.arguments import as_float
from pullback.dtypes import real_floating
from pullback.ops.arithmetic import abs, clip, maximum, square
from pullback.ops.creation import arange
from pullback.ops.cumulative import cumulative_sum
from pullback.ops.manipulation import reshape
from pullback.ops.precision import narrowed, widened
from pullback.ops.reductions import sum
from pullback.ops.selection import where
from pullback.ops.sorting import sort
from pullback.ops.trigonometric import hypot, tanh
from pullback.shapes import Axis, Shape, first
from pullback.spec import ACCUMULATED, EXACT, FEW_ULP, ROUNDED
from pullback.tensor import Tensor

__all__ = [
    "hard_shrink",
    "soft_shrink",
    "sparse_plus",
    "sparse_sigmoid",
    "sparsemax",
    "squareplus",
    "tanh_shrink",
    "threshold",
]


def _not_negative(_shapes: tuple[Shape, ...], *, threshold: Any) -> dict[str, float]:
    limit = as_float(threshold, "threshold")
    if not limit >= 0:
        raise errors.InputValueError(f"threshold must not be negative, got {limit}")
    return {"threshold": limit}


@op(shape=first, dtype=real_floating, accuracy=ROUNDED, normalize=_not_negative)
def soft_shrink(x: Tensor, /, *, threshold: float = 0.5) -> Tensor:
    """x moved towards 0 by a threshold, and 0 within it (Donoho and Johnstone, 1994).

    Args:
        x: a tensor of any shape.
        threshold: how far elements move, not negative; those no farther from 0 become 0.

    >>> pb.soft_shrink([-2.0, 0.25, 1.0]).tolist()
    [-1.5, 0.0, 0.5]
    """
    wide = widened(x)
    less = where(wide < -threshold, wide + threshold, wide * 0)
    return narrowed(where(wide > threshold, wide - threshold, less), x)


soft_shrink.vjp(x=lambda g, x, threshold: where(abs(widened(x)) <= threshold, 0, g))


@op(shape=first, dtype=real_floating, accuracy=EXACT, normalize=_not_negative)
def hard_shrink(x: Tensor, /, *, threshold: float = 0.5) -> Tensor:
    """x, and 0 within a threshold (Donoho and Johnstone, 1994).

    Args:
        x: a tensor of any shape.
        threshold: the absolute value up to which elements become 0, not negative.

    >>> pb.hard_shrink([-2.0, 0.25, 1.0]).tolist()
    [-2.0, 0.0, 1.0]
    """
    return where(abs(widened(x)) <= threshold, 0, x)


hard_shrink.vjp(x=lambda g, x, threshold: where(abs(widened(x)) <= threshold, 0, g))


# ACCUMULATED: a difference, as every library has it; near 0 its terms cancel.
@op(shape=first, dtype=real_floating, accuracy=ACCUMULATED)
def tanh_shrink(x: Tensor, /) -> Tensor:
    """x - tanh(x).

    >>> pb.tanh_shrink(0.0).item()
    0.0
    """
    wide = widened(x)
    return narrowed(wide - tanh(wide), x)


tanh_shrink.vjp(x=lambda g, x: narrowed(widened(g) * square(tanh(widened(x))), x))


@op(shape=first, dtype=real_floating, accuracy=EXACT)
def threshold(x: Tensor, /, *, threshold: float, value: float) -> Tensor:
    """x where it is above a threshold, and a value elsewhere.

    Args:
        x: a tensor of any shape.
        threshold: elements above it stay.
        value: what the others become.

    >>> pb.threshold([-1.0, 0.5, 2.0], threshold=1.0, value=-3.0).tolist()
    [-3.0, -3.0, 2.0]
    """
    return where(widened(x) <= threshold, value, x)


threshold.vjp(x=lambda g, x, threshold: where(widened(x) <= threshold, 0, g))


def _positive(_shapes: tuple[Shape, ...], *, b: Any) -> dict[str, float]:
    width = as_float(b, "b")
    if not 0 < width < float("inf"):
        raise errors.InputValueError(f"b must be positive, got {width}")
    return {"b": width}


@op(shape=first, dtype=real_floating, accuracy=FEW_ULP, normalize=_positive)
def squareplus(x: Tensor, /, *, b: float = 4.0) -> Tensor:
    """(x + sqrt(x**2 + b)) / 2, a smooth `relu` (Barron, 2021).

    Args:
        x: a tensor of any shape.
        b: the width of the bend at 0, above 0.

    >>> pb.squareplus([0.0, 1.5]).tolist()
    [1.0, 2.0]
    """
    wide = widened(x)
    # Below 0 the terms of the sum would cancel. Halves of large numbers have a sum, these may not.
    half = abs(wide) / 2 + hypot(wide, b**0.5) / 2
    return narrowed(where(wide > 0, half, b / 4 / half), x)


@squareplus.vjp("x")
def _(g: Tensor, x: Tensor, out: Tensor, b: float) -> Tensor:
    return narrowed(widened(g) * widened(out) / hypot(widened(x), b**0.5), x)


@op(shape=first, dtype=real_floating, accuracy=FEW_ULP)
def sparse_sigmoid(x: Tensor, /) -> Tensor:
    """0 below -1, 1 above 1, and (x + 1) / 2 between.

    >>> pb.sparse_sigmoid([-2.0, 0.0, 3.0]).tolist()
    [0.0, 0.5, 1.0]
    """
    return narrowed((clip(widened(x), -1, 1) + 1) / 2, x)


sparse_sigmoid.vjp(x=lambda g, x: where(abs(x) < 1, g / 2, 0))


@op(shape=first, dtype=real_floating, accuracy=FEW_ULP)
def sparse_plus(x: Tensor, /) -> Tensor:
    """0 below -1, x above 1, and (x + 1)**2 / 4 between: a `softplus` that ends.

    >>> pb.sparse_plus([-2.0, 0.0, 3.0]).tolist()
    [0.0, 0.25, 3.0]
    """
    wide = widened(x)
    between = square(clip(wide, -1, 1) + 1) / 4
    return narrowed(where(wide >= 1, wide, between), x)


sparse_plus.vjp(x=lambda g, x: g * sparse_sigmoid(x))


# ACCUMULATED: sums of the largest inputs are subtracted.
@op(shape=first, dtype=real_floating, accuracy=ACCUMULATED)
def sparsemax(x: Tensor, /, axis: Axis = -1) -> Tensor:
    """The probabilities nearest to x, several of them 0 (Martins and Astudillo, 2016).

    Args:
        x: a tensor of at least one axis.
        axis: the axis of the probabilities, which add up to 1.

    Raises:
        AxisError: for an axis out of range.

    >>> pb.sparsemax([1.0, 0.5, -1.0]).tolist()
    [0.75, 0.25, 0.0]
    """
    wide = widened(x)
    count = x.shape[axis]
    if not x.size:
        return narrowed(wide, x)
    ordered = sort(wide, axis=axis, descending=True)
    # What is subtracted from all does not change the result, and what is 1 below the largest has no
    # part in it: sums stay small.
    top = ordered[(*[slice(None)] * axis, slice(0, 1))]
    ordered, wide = maximum(ordered - top, -1), maximum(wide - top, -1)
    shape = tuple(count if other == axis else 1 for other in range(x.ndim))
    rank = reshape(arange(1, count + 1, dtype=wide.dtype, device=x.device), shape)
    totals = cumulative_sum(ordered, axis=axis) - 1
    kept = (ordered * rank > totals).astype(wide.dtype)
    number = sum(kept, axis=axis, keepdims=True)
    least = sum(ordered * kept, axis=axis, keepdims=True) - 1
    return narrowed(maximum(wide - least / number, 0), x)


@sparsemax.vjp("x")
def _(g: Tensor, out: Tensor, axis: int) -> Tensor:
    kept = out > 0
    wide = where(kept, widened(g), 0)
    number = sum(kept, axis=axis, keepdims=True)
    mean = sum(wide, axis=axis, keepdims=True) / maximum(number, 1).astype(wide.dtype)
    return narrowed(where(kept, wide - mean, 0), g)
