"""Signatures for callers; written by tools/stubs.py."""

from pullback.shapes import Axis
from pullback.tensor import Tensor, TensorLike

__all__ = [
    "absolute_error",
    "cosine_similarity",
    "hinge_loss",
    "huber_loss",
    "kl_divergence",
    "log_cosh_loss",
    "sigmoid_cross_entropy_with_logits",
    "softmax_cross_entropy_with_logits",
    "sparse_softmax_cross_entropy_with_logits",
    "squared_error",
]

def times(weight: Tensor, value: Tensor) -> Tensor: ...
def softmax_cross_entropy_with_logits(
    logits: TensorLike, labels: TensorLike, *, axis: Axis = -1, label_smoothing: float = 0.0
) -> Tensor: ...
def sparse_softmax_cross_entropy_with_logits(
    logits: TensorLike,
    labels: TensorLike,
    *,
    axis: Axis = -1,
    label_smoothing: float = 0.0,
    ignore_label: int | None = None,
) -> Tensor: ...
def negative_log_likelihood_of_classes(
    log_probabilities: TensorLike, labels: TensorLike, *, axis: Axis = -1
) -> Tensor: ...
def sparse_softmax_cross_entropy_gradient(
    logits: TensorLike,
    labels: TensorLike,
    normalizer: TensorLike,
    g: TensorLike,
    *,
    axis: Axis = -1,
    label_smoothing: float = 0.0,
    ignore_label: int | None = None,
) -> Tensor: ...
def sigmoid_cross_entropy_with_logits(logits: TensorLike, labels: TensorLike) -> Tensor: ...
def squared_error(predictions: TensorLike, targets: TensorLike) -> Tensor: ...
def absolute_error(predictions: TensorLike, targets: TensorLike) -> Tensor: ...
def huber_loss(predictions: TensorLike, targets: TensorLike, *, delta: float = 1.0) -> Tensor: ...
def log_cosh_loss(predictions: TensorLike, targets: TensorLike) -> Tensor: ...
def hinge_loss(predictions: TensorLike, targets: TensorLike) -> Tensor: ...
def kl_divergence(targets: TensorLike, predictions: TensorLike, *, axis: Axis = -1) -> Tensor: ...
def cosine_similarity(
    x1: TensorLike, x2: TensorLike, *, axis: Axis = -1, epsilon: float = 1e-12
) -> Tensor: ...
