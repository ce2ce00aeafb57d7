"""`tf.keras.losses`: the losses of items, by targets and predictions."""

from __future__ import annotations

from typing import Any

import pullback as pb
from pullback import losses
from pullback.tensor import Tensor

__all__ = [
    "binary_crossentropy", "categorical_crossentropy", "mean_absolute_error",
    "mean_squared_error", "sparse_categorical_crossentropy",
]  # fmt: skip

_LEAST = 1e-7  # of a probability, so that its logarithm is finite


def mean_squared_error(y_true: Any, y_pred: Any) -> Tensor:
    """The mean of squared differences along the last axis."""
    return pb.mean(pb.squared_error(y_pred, y_true), axis=-1)


def mean_absolute_error(y_true: Any, y_pred: Any) -> Tensor:
    """The mean of differences along the last axis."""
    return pb.mean(pb.absolute_error(y_pred, y_true), axis=-1)


def _logits(y_pred: Any, from_logits: bool) -> Tensor:
    scores = pb.asarray(y_pred)
    # Logarithms of probabilities are logits of the same distribution.
    return scores if from_logits else pb.log(pb.clip(scores, _LEAST, 1.0))


def categorical_crossentropy(y_true: Any, y_pred: Any, from_logits: bool = False) -> Tensor:
    """The cross entropy of each row."""
    return losses.softmax_cross_entropy(y_true, _logits(y_pred, from_logits), reduction="none")


def sparse_categorical_crossentropy(y_true: Any, y_pred: Any, from_logits: bool = False) -> Tensor:
    """The cross entropy of each row, for classes by number."""
    logits = _logits(y_pred, from_logits)
    labels = pb.asarray(y_true)
    if labels.ndim == logits.ndim:
        labels = pb.squeeze(labels, axis=-1)
    return losses.sparse_softmax_cross_entropy(labels, logits, reduction="none")


def binary_crossentropy(y_true: Any, y_pred: Any, from_logits: bool = False) -> Tensor:
    """The mean cross entropy along the last axis, for probabilities of yes."""
    scores = pb.asarray(y_pred)
    if not from_logits:
        p = pb.clip(scores, _LEAST, 1 - _LEAST)
        scores = pb.log(p) - pb.log1p(-p)
    labels = pb.astype(pb.asarray(y_true), scores.dtype)
    return pb.mean(losses.sigmoid_cross_entropy(labels, scores, reduction="none"), axis=-1)
