"""Losses: one number for the distance between predictions and targets.

Each takes `weights`, which broadcast to the losses of the items, and a `reduction`: "mean" (the
weighted sum divided by the number of items), "sum", or "none" for the losses of the items.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, TypeAlias

from pullback import _hints, dtypes, errors
from pullback._dispatch.convert import from_any, from_any_beside
from pullback.ops.nn.losses import (
    absolute_error,
    cosine_similarity,
    hinge_loss,
    huber_loss,
    log_cosh_loss,
    sigmoid_cross_entropy_with_logits,
    softmax_cross_entropy_with_logits,
    sparse_softmax_cross_entropy_with_logits,
    squared_error,
)
from pullback.ops.nn.losses import kl_divergence as kl_divergence_loss
from pullback.ops.reductions import mean
from pullback.ops.reductions import sum as reduce_sum
from pullback.shapes import broadcast_shapes
from pullback.tensor import Tensor, TensorLike

__all__ = [
    "cosine_distance",
    "hinge",
    "huber",
    "kl_divergence",
    "log_cosh",
    "mean_absolute_error",
    "mean_squared_error",
    "sigmoid_cross_entropy",
    "softmax_cross_entropy",
    "sparse_softmax_cross_entropy",
]

#: "mean" divides the sum by the number of items; "none" returns the losses of the items.
Reduction: TypeAlias = Literal["mean", "sum", "none"]

REDUCTIONS = ("mean", "sum", "none")


def _reduced(name: str, losses: Tensor, weights: TensorLike | None, reduction: Reduction) -> Tensor:
    if not isinstance(reduction, str) or reduction not in REDUCTIONS:
        raise errors.InputValueError(
            f"{name}: reduction must be 'mean', 'sum' or 'none', got {reduction!r}"
        )
    if weights is not None:
        weights = from_any_beside(weights, losses)
        if broadcast_shapes(weights.shape, losses.shape) != losses.shape:
            raise errors.ShapeError(
                f"{name}: weights of shape {weights.shape} do not broadcast to losses of shape "
                f"{losses.shape}"
            )
        losses = losses * weights.astype(losses.dtype)
    if reduction == "none":
        return losses
    return mean(losses) if reduction == "mean" else reduce_sum(losses)


def _elementwise(
    name: str,
    op: Callable[[Tensor, Tensor], Tensor],
    targets: TensorLike,
    predictions: TensorLike,
    weights: TensorLike | None,
    reduction: Reduction,
) -> Tensor:
    predictions = from_any(predictions)
    targets = from_any_beside(targets, predictions)
    if targets.shape != predictions.shape:
        # Broadcasting (n,) with (n, 1) to (n, n) would give a wrong loss without an error.
        raise errors.ShapeError(
            f"{name}: targets and predictions must have one shape, got {targets.shape} and "
            f"{predictions.shape}; reshape one of them"
        )
    return _reduced(name, op(predictions, targets), weights, reduction)


def _of_logits(
    name: str,
    op: Callable[..., Tensor],
    labels: TensorLike,
    logits: TensorLike,
    **attributes: float,
) -> Tensor:
    """Calls an op of logits and labels; an error is told in the terms of the loss."""
    try:
        return op(logits, labels, **attributes)
    except errors.ConversionError as error:
        which = "labels" if _is_refused(labels) else "logits"
        reason = str(error).removeprefix(f"{op.__name__}: ")
        named = errors.ConversionError(f"{name}: {which}: {reason}")
        named.op = name
        raise named.with_traceback(error.__traceback__) from None
    except (errors.DTypeError, errors.ShapeError) as error:
        first, second = from_any(labels), from_any(logits)
        reason = str(error).removeprefix(f"{op.__name__}: ").replace("_with_logits", "")
        if dtypes.is_floating(first.dtype) and not dtypes.is_floating(second.dtype):
            reason = "the arguments are swapped: labels come first"
        elif name.startswith("sparse") and dtypes.is_floating(first.dtype):
            reason = "labels must be integers; write labels.astype(pb.int32), or for one-hot rows"
            reason += " pb.losses.softmax_cross_entropy"
        described = type(error)(
            f"{name}: {reason}; got labels {first.dtype}{list(first.shape)} and logits "
            f"{second.dtype}{list(second.shape)}"
        )
        described.op = name
        raise described.with_traceback(error.__traceback__) from None


def _is_refused(value: TensorLike) -> bool:
    try:
        from_any(value)
    except errors.ConversionError:
        return True
    return False


# ---------------------------------------------------------------------------------------------
# Classes.


def softmax_cross_entropy(
    labels: TensorLike,
    logits: TensorLike,
    weights: TensorLike | None = None,
    *,
    label_smoothing: float = 0.0,
    reduction: Reduction = "mean",
) -> Tensor:
    """The cross entropy between distributions over classes and softmax(logits).

    Args:
        labels: probabilities (..., classes), such as one-hot rows.
        logits: unnormalized log probabilities (..., classes), of any size.
        weights: the weights of the items, in a shape that broadcasts to (...).
        label_smoothing: s replaces the labels by (1 - s) * labels + s / classes.
        reduction: "mean", "sum" or "none".

    >>> float(pb.losses.softmax_cross_entropy([[1.0, 0.0]], [[1e4, 0.0]]))
    0.0

    Raises:
        ShapeError: for shapes that do not fit.
    """
    losses = _of_logits(
        "softmax_cross_entropy", softmax_cross_entropy_with_logits, labels, logits,
        label_smoothing=label_smoothing,
    )  # fmt: skip
    return _reduced("softmax_cross_entropy", losses, weights, reduction)


def sparse_softmax_cross_entropy(
    labels: TensorLike,
    logits: TensorLike,
    weights: TensorLike | None = None,
    *,
    reduction: Reduction = "mean",
) -> Tensor:
    """The cross entropy between class indices and softmax(logits).

    Args:
        labels: integers in [0, classes), shape (...). The loss of any other label is NaN.
        logits: unnormalized log probabilities (..., classes), of any size.
        weights: the weights of the items, in a shape that broadcasts to (...).
        reduction: "mean", "sum" or "none".

    >>> float(pb.losses.sparse_softmax_cross_entropy([1], [[0.0, 1e4]]))
    0.0

    Raises:
        ShapeError: for shapes that do not fit.
    """
    losses = _of_logits(
        "sparse_softmax_cross_entropy", sparse_softmax_cross_entropy_with_logits, labels, logits
    )
    return _reduced("sparse_softmax_cross_entropy", losses, weights, reduction)


def sigmoid_cross_entropy(
    labels: TensorLike,
    logits: TensorLike,
    weights: TensorLike | None = None,
    *,
    reduction: Reduction = "mean",
) -> Tensor:
    """The binary cross entropy between probabilities and sigmoid(logits), for each element.

    Args:
        labels: probabilities of class 1, in the shape of logits.
        logits: log odds, of any size.
        weights: the weights of the elements, in a shape that broadcasts to theirs.
        reduction: "mean", "sum" or "none".

    >>> float(pb.losses.sigmoid_cross_entropy([0.0, 1.0], [-1e4, 1e4]))
    0.0

    Raises:
        ShapeError: for shapes that differ.
    """
    return _elementwise(
        "sigmoid_cross_entropy",
        sigmoid_cross_entropy_with_logits,
        labels, logits, weights, reduction,
    )  # fmt: skip


def hinge(
    targets: TensorLike,
    predictions: TensorLike,
    weights: TensorLike | None = None,
    *,
    reduction: Reduction = "mean",
) -> Tensor:
    """The hinge loss max(0, 1 - targets * predictions), for targets -1 and 1.

    >>> float(pb.losses.hinge([1.0, -1.0], [0.5, -3.0]))
    0.25

    Raises:
        ShapeError: for shapes that differ.
    """
    return _elementwise("hinge", hinge_loss, targets, predictions, weights, reduction)


def kl_divergence(
    targets: TensorLike,
    predictions: TensorLike,
    weights: TensorLike | None = None,
    *,
    reduction: Reduction = "mean",
) -> Tensor:
    """The Kullback-Leibler divergence sum(targets * log(targets / predictions)) of probabilities.

    >>> float(pb.losses.kl_divergence([[0.5, 0.5]], [[0.5, 0.5]]))
    0.0

    Raises:
        ShapeError: for shapes that differ.
    """
    losses = kl_divergence_loss(targets, predictions)
    return _reduced("kl_divergence", losses, weights, reduction)


# ---------------------------------------------------------------------------------------------
# Distances.


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
    return _elementwise(
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
    return _elementwise(
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
    return _elementwise(
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
    return _elementwise("log_cosh", log_cosh_loss, targets, predictions, weights, reduction)


def cosine_distance(
    targets: TensorLike,
    predictions: TensorLike,
    weights: TensorLike | None = None,
    *,
    axis: int = -1,
    reduction: Reduction = "mean",
) -> Tensor:
    """1 minus the cosine of the angle between targets and predictions along an axis.

    >>> float(pb.losses.cosine_distance([[1.0, 0.0]], [[0.0, 2.0]]))
    1.0

    Raises:
        ShapeError: for shapes that differ.
    """
    losses = 1 - cosine_similarity(targets, predictions, axis=axis)
    return _reduced("cosine_distance", losses, weights, reduction)


if not TYPE_CHECKING:
    __getattr__ = _hints.answer_module("pullback.losses")
    _hints.answer_calls(sys.modules[__name__])
