"""Losses of numbers: distances between predictions and targets."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING

from pullback import _hints, errors
from pullback._dispatch.arguments import as_float
from pullback._dispatch.convert import from_any_beside
from pullback.losses.base import Reduction, elementwise, of_one_shape, reduced
from pullback.ops.arithmetic import maximum
from pullback.ops.exponential import exp, log
from pullback.ops.nn.losses import absolute_error, huber_loss, log_cosh_loss, squared_error
from pullback.ops.selection import where
from pullback.shapes import broadcast_shapes
from pullback.tensor import Tensor, TensorLike

__all__ = [
    "gaussian_negative_log_likelihood",
    "huber",
    "log_cosh",
    "mean_absolute_error",
    "mean_squared_error",
    "pinball",
    "poisson",
]


def mean_squared_error(
    targets: TensorLike,
    predictions: TensorLike,
    weights: TensorLike | None = None,
    *,
    reduction: Reduction = "mean",
) -> Tensor:
    """The mean of (predictions - targets)**2.

    >>> float(pb.losses.mean_squared_error([1.0, 2.0], [1.0, 4.0]))
    2.0

    Raises:
        ShapeError: for shapes that differ.
    """
    return elementwise(
        "mean_squared_error", squared_error, targets, predictions, weights, reduction
    )


def mean_absolute_error(
    targets: TensorLike,
    predictions: TensorLike,
    weights: TensorLike | None = None,
    *,
    reduction: Reduction = "mean",
) -> Tensor:
    """The mean of |predictions - targets|.

    >>> float(pb.losses.mean_absolute_error([1.0, 2.0], [1.0, 4.0]))
    1.0

    Raises:
        ShapeError: for shapes that differ.
    """
    return elementwise(
        "mean_absolute_error", absolute_error, targets, predictions, weights, reduction
    )


def huber(
    targets: TensorLike,
    predictions: TensorLike,
    weights: TensorLike | None = None,
    *,
    delta: float = 1.0,
    reduction: Reduction = "mean",
) -> Tensor:
    """Half the squared error up to a difference of delta, linear beyond it (Huber, 1964).

    >>> float(pb.losses.huber([0.0, 0.0], [1.0, 4.0]))
    2.0

    Raises:
        ShapeError: for shapes that differ.
    """
    return elementwise(
        "huber",
        lambda x1, x2: huber_loss(x1, x2, delta=delta),
        targets, predictions, weights, reduction,
    )  # fmt: skip


def log_cosh(
    targets: TensorLike,
    predictions: TensorLike,
    weights: TensorLike | None = None,
    *,
    reduction: Reduction = "mean",
) -> Tensor:
    """The mean of log(cosh(predictions - targets)): quadratic near 0, linear far from it.

    >>> float(pb.losses.log_cosh([1.0], [1.0]))
    0.0

    Raises:
        ShapeError: for shapes that differ.
    """
    return elementwise("log_cosh", log_cosh_loss, targets, predictions, weights, reduction)


def poisson(
    targets: TensorLike,
    predictions: TensorLike,
    weights: TensorLike | None = None,
    *,
    log_input: bool = False,
    reduction: Reduction = "mean",
) -> Tensor:
    """predictions - targets * log(predictions): the likelihood of counts, without their constant.

    Args:
        targets: counts.
        predictions: the expected counts, or their logarithms.
        weights: the weights of the elements, in a shape that broadcasts to theirs. A mean
            is over all elements, those of weight 0 too.
        log_input: whether predictions are logarithms, which any number is.
        reduction: "mean", "sum" or "none".

    >>> float(pb.losses.poisson([0.0, 2.0], [3.0, 1.0]))
    2.0

    Raises:
        ShapeError: for shapes that differ.
    """
    t, p = of_one_shape("poisson", targets, predictions)
    # A count of 0 may be expected with certainty.
    logs = p if log_input else log(where((t == 0) & (p == 0), 1, p))
    return reduced("poisson", (exp(p) if log_input else p) - t * logs, weights, reduction)


def gaussian_negative_log_likelihood(
    targets: TensorLike,
    means: TensorLike,
    variances: TensorLike,
    weights: TensorLike | None = None,
    *,
    epsilon: float = 1e-6,
    reduction: Reduction = "mean",
) -> Tensor:
    """(log(2 pi variance) + (targets - means)**2 / variance) / 2 (Nix and Weigend, 1994).

    Args:
        targets: numbers.
        means: their expected values, in the same shape.
        variances: their variances, in a shape that broadcasts to theirs.
        weights: the weights of the elements, in a shape that broadcasts to theirs. A mean
            is over all elements, those of weight 0 too.
        epsilon: the least variance.
        reduction: "mean", "sum" or "none".

    >>> round(float(pb.losses.gaussian_negative_log_likelihood([1.0], [1.0], [1.0])), 4)
    0.9189

    Raises:
        ShapeError: for shapes that do not fit.
    """
    name = "gaussian_negative_log_likelihood"
    t, m = of_one_shape(name, targets, means, "targets and means")
    v = from_any_beside(variances, m)
    if broadcast_shapes(v.shape, m.shape) != m.shape:
        raise errors.ShapeError(
            f"{name}: variances of shape {v.shape} do not broadcast to means of shape {m.shape}"
        )
    v = maximum(v, as_float(epsilon, "epsilon"))
    return reduced(name, (log(2 * math.pi * v) + (t - m) ** 2 / v) / 2, weights, reduction)


def pinball(
    targets: TensorLike,
    predictions: TensorLike,
    weights: TensorLike | None = None,
    *,
    quantile: float = 0.5,
    reduction: Reduction = "mean",
) -> Tensor:
    """max(q * d, (q - 1) * d) of d = targets - predictions (Koenker and Bassett, 1978).

    The predictions that minimize it are quantiles: the fraction q of targets is below them.

    >>> float(pb.losses.pinball([1.0, 4.0], [2.0, 2.0], quantile=0.75))
    0.875

    Raises:
        ShapeError: for shapes that differ.
        InputValueError: for a quantile outside [0, 1].
    """
    if not 0 <= as_float(quantile, "quantile") <= 1:
        raise errors.InputValueError(f"pinball: quantile must be in [0, 1], got {quantile}")
    t, p = of_one_shape("pinball", targets, predictions)
    difference = t - p
    losses = maximum(quantile * difference, (quantile - 1) * difference)
    return reduced("pinball", losses, weights, reduction)


if not TYPE_CHECKING:
    _hints.answer_calls(sys.modules[__name__])
