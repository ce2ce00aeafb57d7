"""`tf.losses`: weighted means of losses, by TensorFlow's order of arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pullback as pb
from pullback import losses
from pullback.tensor import Tensor, TensorLike

__all__ = [
    "Reduction", "absolute_difference", "compute_weighted_loss", "cosine_distance", "hinge_loss",
    "huber_loss", "log_loss", "mean_squared_error", "sigmoid_cross_entropy",
    "softmax_cross_entropy", "sparse_softmax_cross_entropy",
]  # fmt: skip


class Reduction:
    """The ways to reduce the losses of the items."""

    NONE = "none"
    SUM = "weighted_sum"
    MEAN = "weighted_mean"
    SUM_OVER_BATCH_SIZE = "weighted_sum_over_batch_size"
    SUM_BY_NONZERO_WEIGHTS = "weighted_sum_by_nonzero_weights"
    SUM_OVER_NONZERO_WEIGHTS = SUM_BY_NONZERO_WEIGHTS


_DEFAULT = Reduction.SUM_BY_NONZERO_WEIGHTS


def compute_weighted_loss(
    losses: TensorLike,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: Any = None,
    reduction: str = _DEFAULT,
) -> Tensor:
    """Losses times weights: all of them, their sum, or that over the weights that are not 0.

    >>> import pullback.compat.tensorflow as tf
    >>> float(tf.losses.compute_weighted_loss([1.0, 2.0, 6.0], [1.0, 1.0, 0.0]))
    1.5
    """
    values = pb.asarray(losses)
    given = pb.astype(pb.asarray(weights), values.dtype)
    if given.ndim == values.ndim + 1 and given.shape[-1] == 1:
        given = pb.squeeze(given, axis=-1)
    each = pb.broadcast_to(given, values.shape)
    weighted = values * each
    if reduction == Reduction.NONE:
        return weighted
    total = pb.sum(weighted)
    if reduction == Reduction.SUM:
        return total
    if reduction == Reduction.MEAN:
        return total / pb.sum(each)
    if reduction == Reduction.SUM_OVER_BATCH_SIZE:
        return total / values.size
    return total / pb.maximum(pb.astype(pb.count_nonzero(each), values.dtype), 1)


def _loss(first: str, second: str, items: Callable[..., Any], more: str = "") -> Callable[..., Any]:
    """A loss of two arguments of these names; `items` gives the losses of the items."""
    names = [first, second, "weights", *more.split(), "scope", "loss_collection", "reduction"]

    def loss(*args: Any, **kwargs: Any) -> Tensor:
        given = dict(zip(names, args, strict=False)) | kwargs
        options = {name: given[name] for name in more.split() if name in given}
        each = items(given[first], given[second], **options)
        reduction = given.get("reduction", _DEFAULT)
        return compute_weighted_loss(each, given.get("weights", 1.0), reduction=reduction)

    return loss


def _each(of: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The losses of the items; targets take the dtype of the predictions."""

    def items(targets: Any, predictions: Any, **options: Any) -> Tensor:
        found = pb.asarray(predictions)
        wanted = pb.astype(pb.asarray(targets), found.dtype)
        return of(wanted, found, reduction="none", **options)

    return items


def _sparse(labels: Any, logits: Any) -> Tensor:
    classes, scores = pb.asarray(labels), pb.asarray(logits)
    if classes.ndim == scores.ndim and classes.shape[-1] == 1:
        classes = pb.squeeze(classes, axis=-1)
    return losses.sparse_softmax_cross_entropy(classes, scores, reduction="none")


def _sigmoid(multi_class_labels: Any, logits: Any, label_smoothing: float = 0) -> Tensor:
    scores = pb.asarray(logits)
    labels = pb.astype(pb.asarray(multi_class_labels), scores.dtype)
    labels = labels * (1 - label_smoothing) + label_smoothing / 2
    return losses.sigmoid_cross_entropy(labels, scores, reduction="none")


def _hinge(labels: Any, logits: Any) -> Tensor:
    # TensorFlow's labels are 0 and 1.
    return losses.hinge(2 * pb.asarray(labels) - 1, logits, reduction="none")


def _log(labels: Any, predictions: Any, epsilon: float = 1e-7) -> Tensor:
    y, p = pb.asarray(labels), pb.asarray(predictions)
    found: Tensor = -y * pb.log(p + epsilon) - (1 - y) * pb.log(1 - p + epsilon)
    return found


def _huber(labels: Any, predictions: Any, delta: float = 1.0) -> Tensor:
    return _each(losses.huber)(labels, predictions, delta=delta)


mean_squared_error = _loss("labels", "predictions", _each(losses.mean_squared_error))
absolute_difference = _loss("labels", "predictions", _each(losses.mean_absolute_error))
huber_loss = _loss("labels", "predictions", _huber, "delta")
hinge_loss = _loss("labels", "logits", _hinge)
log_loss = _loss("labels", "predictions", _log, "epsilon")
softmax_cross_entropy = _loss(
    "onehot_labels", "logits", _each(losses.softmax_cross_entropy), "label_smoothing"
)
sigmoid_cross_entropy = _loss("multi_class_labels", "logits", _sigmoid, "label_smoothing")
sparse_softmax_cross_entropy = _loss("labels", "logits", _sparse)


def cosine_distance(
    labels: TensorLike,
    predictions: TensorLike,
    axis: int = -1,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: Any = None,
    reduction: str = _DEFAULT,
) -> Tensor:
    """1 - the inner product, of vectors of the length 1."""
    each = 1 - pb.sum(pb.multiply(labels, predictions), axis=axis, keepdims=True)
    return compute_weighted_loss(each, weights, reduction=reduction)
