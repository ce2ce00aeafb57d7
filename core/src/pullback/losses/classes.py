"""Losses of classes and probabilities."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from pullback import _hints, dtypes, errors
from pullback._dispatch.arguments import as_float
from pullback._dispatch.convert import from_any
from pullback.losses.base import Reduction, elementwise, of_one_shape, reduced
from pullback.ops.nn.activations import sigmoid
from pullback.ops.nn.losses import (
    hinge_loss,
    negative_log_likelihood_of_classes,
    sigmoid_cross_entropy_with_logits,
    softmax_cross_entropy_with_logits,
    sparse_softmax_cross_entropy_with_logits,
)
from pullback.ops.nn.losses import kl_divergence as kl_divergence_loss
from pullback.ops.reductions import sum as reduce_sum
from pullback.ops.selection import where
from pullback.tensor import Tensor, TensorLike

__all__ = [
    "dice",
    "hinge",
    "kl_divergence",
    "negative_log_likelihood",
    "sigmoid_cross_entropy",
    "sigmoid_focal_cross_entropy",
    "softmax_cross_entropy",
    "sparse_softmax_cross_entropy",
    "squared_hinge",
]

#: The largest position that an int32 holds.
_MOST_INT32 = 2**31 - 1


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
        weights: the weights of the items, in a shape that broadcasts to (...). A
            mean is over all items, those of weight 0 too.
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
    return reduced("softmax_cross_entropy", losses, weights, reduction)


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
        weights: the weights of the items, in a shape that broadcasts to (...). A
            mean is over all items, those of weight 0 too.
        reduction: "mean", "sum" or "none".

    >>> float(pb.losses.sparse_softmax_cross_entropy([1], [[0.0, 1e4]]))
    0.0

    Raises:
        ShapeError: for shapes that do not fit.
    """
    losses = _of_logits(
        "sparse_softmax_cross_entropy", sparse_softmax_cross_entropy_with_logits, labels, logits
    )
    return reduced("sparse_softmax_cross_entropy", losses, weights, reduction)


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
        weights: the weights of the elements, in a shape that broadcasts to theirs. A mean
            is over all elements, those of weight 0 too.
        reduction: "mean", "sum" or "none".

    >>> float(pb.losses.sigmoid_cross_entropy([0.0, 1.0], [-1e4, 1e4]))
    0.0

    Raises:
        ShapeError: for shapes that differ.
    """
    return elementwise(
        "sigmoid_cross_entropy",
        sigmoid_cross_entropy_with_logits,
        labels, logits, weights, reduction,
    )  # fmt: skip


def negative_log_likelihood(
    labels: TensorLike,
    log_probabilities: TensorLike,
    weights: TensorLike | None = None,
    *,
    reduction: Reduction = "mean",
) -> Tensor:
    """-log_probabilities[label]: the cross entropy of class indices where `log_softmax` was taken.

    Args:
        labels: integers in [0, classes), shape (...). The loss of any other label is NaN.
        log_probabilities: (..., classes), such as `pb.log_softmax(logits)`.
        weights: the weights of the items, in a shape that broadcasts to (...). A
            mean is over all items, those of weight 0 too.
        reduction: "mean", "sum" or "none".

    >>> float(pb.losses.negative_log_likelihood([1], [[-3.0, -0.5]]))
    0.5

    Raises:
        ShapeError: for shapes that do not fit.
        DTypeError: for labels that are not integers.
    """
    rows = from_any(log_probabilities)
    index = from_any(labels, None, rows.device)
    if not rows.ndim or index.shape != rows.shape[:-1]:
        raise errors.ShapeError(
            f"negative_log_likelihood: labels must have the shape of log_probabilities "
            f"{rows.shape} without the last axis, got {index.shape}"
        )
    if dtypes.kind(index.dtype) != dtypes.INT:
        raise errors.DTypeError(
            f"negative_log_likelihood: labels must be integers, got {index.dtype}; write "
            f"labels.astype(pb.int32)"
        )
    losses = negative_log_likelihood_of_classes(rows, index)
    return reduced("negative_log_likelihood", losses, weights, reduction)


def sigmoid_focal_cross_entropy(
    labels: TensorLike,
    logits: TensorLike,
    weights: TensorLike | None = None,
    *,
    gamma: float = 2.0,
    alpha: float | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    """(1 - p)**gamma * -log(p), where p is the probability of the true class (Lin et al., 2017).

    Elements that are easy count for less than in `sigmoid_cross_entropy`, which it is for gamma 0.

    Args:
        labels: probabilities of class 1, in the shape of logits.
        logits: log odds, of any size.
        weights: the weights of the elements, in a shape that broadcasts to theirs. A mean
            is over all elements, those of weight 0 too.
        gamma: how much less easy elements count.
        alpha: the weight of class 1, where 1 - alpha is that of class 0; None for no weights.
        reduction: "mean", "sum" or "none".

    >>> round(float(pb.losses.sigmoid_focal_cross_entropy([1.0], [0.0])), 4)
    0.1733

    Raises:
        ShapeError: for shapes that differ.
        InputValueError: for a negative gamma, or an alpha outside [0, 1].
    """
    name = "sigmoid_focal_cross_entropy"
    if as_float(gamma, "gamma") < 0:
        raise errors.InputValueError(f"{name}: gamma must be 0 or more, got {gamma}")
    if alpha is not None and not 0 <= as_float(alpha, "alpha") <= 1:
        raise errors.InputValueError(f"{name}: alpha must be in [0, 1], got {alpha}")
    y, z = of_one_shape(name, labels, logits)
    losses = sigmoid_cross_entropy_with_logits(z, y)
    if gamma:
        # The probability of the other class. At 0 a power may have no derivative.
        wrong = y * sigmoid(-z) + (1 - y) * sigmoid(z)
        losses = where(wrong == 0, 0, where(wrong == 0, 1, wrong) ** gamma) * losses
    if alpha is not None:
        losses = (alpha * y + (1 - alpha) * (1 - y)) * losses
    return reduced(name, losses, weights, reduction)


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
    return elementwise("hinge", hinge_loss, targets, predictions, weights, reduction)


def squared_hinge(
    targets: TensorLike,
    predictions: TensorLike,
    weights: TensorLike | None = None,
    *,
    reduction: Reduction = "mean",
) -> Tensor:
    """The square of the hinge loss, max(0, 1 - targets * predictions)**2, for targets -1 and 1.

    >>> float(pb.losses.squared_hinge([1.0, -1.0], [0.5, -3.0]))
    0.125

    Raises:
        ShapeError: for shapes that differ.
    """
    return elementwise(
        "squared_hinge", lambda x1, x2: hinge_loss(x1, x2) ** 2,
        targets, predictions, weights, reduction,
    )  # fmt: skip


def dice(
    targets: TensorLike,
    predictions: TensorLike,
    weights: TensorLike | None = None,
    *,
    epsilon: float = 1e-7,
    reduction: Reduction = "mean",
) -> Tensor:
    """1 - 2 * sum(targets * predictions) / sum(targets + predictions), for each item.

    It is the part of two regions that they do not have in common (Sudre et al., 2017).

    Args:
        targets: 0 and 1, (items, ...).
        predictions: probabilities of the same shape, such as `pb.sigmoid(logits)`.
        weights: the weights of the items, in a shape that broadcasts to (items,).
        epsilon: is added to both sums; the loss of two empty regions is 0.
        reduction: "mean", "sum" or "none".

    >>> round(float(pb.losses.dice([[1.0, 1.0, 0.0]], [[1.0, 0.0, 0.0]])), 4)
    0.3333

    Raises:
        ShapeError: for shapes that differ.
    """
    epsilon = as_float(epsilon, "epsilon")
    t, p = of_one_shape("dice", targets, predictions)
    axes = tuple(range(1, p.ndim))
    common = 2 * reduce_sum(t * p, axis=axes)
    losses = 1 - (common + epsilon) / (reduce_sum(t + p, axis=axes) + epsilon)
    return reduced("dice", losses, weights, reduction)


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
    return reduced("kl_divergence", losses, weights, reduction)


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


if not TYPE_CHECKING:
    _hints.answer_calls(sys.modules[__name__])
