"""`tf.keras.losses`: the losses of items, by targets and predictions."""

from __future__ import annotations

from typing import Any

from pullback import losses
from pullback.tensor import CALL, Tensor

__all__ = [
    "binary_crossentropy", "categorical_crossentropy", "mean_absolute_error",
    "mean_squared_error", "sparse_categorical_crossentropy",
]  # fmt: skip

_LEAST = 1e-7  # of a probability, so that its logarithm is finite


def mean_squared_error(y_true: Any, y_pred: Any) -> Tensor:
    """The mean of squared differences along the last axis."""
    return CALL["mean"](CALL["squared_error"](y_pred, y_true), axis=-1)


def mean_absolute_error(y_true: Any, y_pred: Any) -> Tensor:
    """The mean of differences along the last axis."""
    return CALL["mean"](CALL["absolute_error"](y_pred, y_true), axis=-1)


def _logits(y_pred: Any, from_logits: bool) -> Tensor:
    scores = CALL["asarray"](y_pred)
    # Logarithms of probabilities are logits of the same distribution.
    return scores if from_logits else CALL["log"](CALL["clip"](scores, _LEAST, 1.0))


def categorical_crossentropy(y_true: Any, y_pred: Any, from_logits: bool = False) -> Tensor:
    """The cross entropy of each row."""
    return losses.softmax_cross_entropy(y_true, _logits(y_pred, from_logits), reduction="none")


def sparse_categorical_crossentropy(y_true: Any, y_pred: Any, from_logits: bool = False) -> Tensor:
    """The cross entropy of each row, for classes by number."""
    logits = _logits(y_pred, from_logits)
    labels = CALL["asarray"](y_true)
    if labels.ndim == logits.ndim:
        labels = CALL["squeeze"](labels, axis=-1)
    return losses.sparse_softmax_cross_entropy(labels, logits, reduction="none")


def binary_crossentropy(y_true: Any, y_pred: Any, from_logits: bool = False) -> Tensor:
    """The mean cross entropy along the last axis, for probabilities of yes."""
    scores = CALL["asarray"](y_pred)
    if not from_logits:
        p = CALL["clip"](scores, _LEAST, 1 - _LEAST)
        scores = CALL["log"](p) - CALL["log1p"](-p)
    labels = CALL["astype"](CALL["asarray"](y_true), scores.dtype)
    return CALL["mean"](losses.sigmoid_cross_entropy(labels, scores, reduction="none"), axis=-1)
