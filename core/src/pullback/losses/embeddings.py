"""Losses of vectors: of their angles and distances."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pullback import _hints, errors
from pullback._dispatch.arguments import as_float
from pullback.losses.base import Reduction, of_one_shape, reduced
from pullback.ops.arithmetic import maximum
from pullback.ops.creation import arange
from pullback.ops.exponential import sqrt
from pullback.ops.linalg.linear_algebra import matmul
from pullback.ops.linalg.norms import vector_norm
from pullback.ops.nn.losses import cosine_similarity, sparse_softmax_cross_entropy_with_logits
from pullback.ops.reductions import sum as reduce_sum
from pullback.tensor import Tensor, TensorLike

__all__ = ["cosine_distance", "info_nce", "triplet_margin"]


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
    return reduced("cosine_distance", losses, weights, reduction)


def triplet_margin(
    anchors: TensorLike,
    positives: TensorLike,
    negatives: TensorLike,
    weights: TensorLike | None = None,
    *,
    margin: float = 1.0,
    reduction: Reduction = "mean",
) -> Tensor:
    """max(0, |anchor - positive| - |anchor - negative| + margin) (Schroff et al., 2015).

    Args:
        anchors: vectors (..., size).
        positives: vectors of the same classes, in the same shape.
        negatives: vectors of other classes, in the same shape.
        weights: the weights of the triplets, in a shape that broadcasts to (...). A
            mean is over all items, those of weight 0 too.
        margin: by how much negatives have to be farther away.
        reduction: "mean", "sum" or "none".

    >>> float(pb.losses.triplet_margin([[0.0]], [[2.0]], [[2.5]]))
    0.5

    Raises:
        ShapeError: for shapes that differ.
    """
    name = "triplet_margin"
    p, a = of_one_shape(name, positives, anchors, "positives and anchors")
    n, a = of_one_shape(name, negatives, a, "negatives and anchors")
    near, far = vector_norm(a - p, axis=-1), vector_norm(a - n, axis=-1)
    return reduced(name, maximum(near - far + as_float(margin, "margin"), 0), weights, reduction)


def info_nce(
    keys: TensorLike,
    queries: TensorLike,
    weights: TensorLike | None = None,
    *,
    temperature: float = 0.1,
    symmetric: bool = False,
    reduction: Reduction = "mean",
) -> Tensor:
    """The cross entropy of finding, by cosines, the key of each query among all keys.

    It is the loss of contrastive learning (van den Oord et al., 2018), and with `symmetric` that of
    pairs of images and texts (Radford et al., 2021).

    Args:
        keys: vectors (items, size).
        queries: vectors of the same shape; the key of a query is at the same place.
        weights: the weights of the queries, in a shape that broadcasts to (items,).
        temperature: the cosines are divided by it.
        symmetric: whether the loss is the mean of it and of that of finding the query of each key.
        reduction: "mean", "sum" or "none".

    >>> round(float(pb.losses.info_nce([[1.0, 0.0], [0.0, 1.0]], [[2.0, 0.0], [0.0, 3.0]])), 6)
    4.5e-05

    Raises:
        ShapeError: for shapes that differ, or lack one of the two axes.
        InputValueError: for a temperature that is not above 0.
    """
    if not as_float(temperature, "temperature") > 0:
        raise errors.InputValueError(f"info_nce: temperature must be above 0, got {temperature}")
    k, q = of_one_shape("info_nce", keys, queries, "keys and queries")
    if q.ndim != 2:
        raise errors.ShapeError(f"info_nce: queries must have shape (items, size), got {q.shape}")
    k, q = (x / sqrt(maximum(reduce_sum(x * x, axis=-1, keepdims=True), 1e-12)) for x in (k, q))
    logits = matmul(q, k.T) / temperature
    labels = arange(q.shape[0], device=q.device)
    losses = sparse_softmax_cross_entropy_with_logits(logits, labels)
    if symmetric:
        losses = (losses + sparse_softmax_cross_entropy_with_logits(logits.T, labels)) / 2
    return reduced("info_nce", losses, weights, reduction)


if not TYPE_CHECKING:
    _hints.answer_calls(sys.modules[__name__])
