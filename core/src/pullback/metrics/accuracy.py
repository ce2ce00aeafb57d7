"""How often predictions are right."""

from __future__ import annotations

from typing import Any

from pullback import errors
from pullback.metrics.base import OfPairs
from pullback.ops.indexing import take_along_axis
from pullback.ops.manipulation import reshape
from pullback.ops.reductions import count_nonzero
from pullback.ops.searching import argmax
from pullback.shapes import Shape
from pullback.tensor import Tensor

__all__ = [
    "Accuracy",
    "BinaryAccuracy",
    "CategoricalAccuracy",
    "SparseCategoricalAccuracy",
    "SparseTopKAccuracy",
    "TopKAccuracy",
]


class Accuracy(OfPairs):
    """How often predictions are equal to targets.

    >>> accuracy = pb.metrics.Accuracy()
    >>> accuracy([1, 2, 3, 4], [1, 2, 3, 0])
    >>> accuracy.result()
    0.75
    """

    def compare(self, targets: Tensor, predictions: Tensor) -> Any:
        """Whether they are equal."""
        return targets == predictions


class SparseCategoricalAccuracy(OfPairs):
    """How often the largest of the scores (..., classes) is that of the target, a class (...).

    >>> accuracy = pb.metrics.SparseCategoricalAccuracy()
    >>> accuracy([1, 0], [[0.1, 0.9], [0.2, 0.8]])
    >>> accuracy.result()
    0.5
    """

    def expected(self, predictions: Shape) -> Shape:
        """Predictions without the last axis, that of the classes."""
        return predictions[:-1]

    def compare(self, targets: Tensor, predictions: Tensor) -> Any:
        """Whether the class is right."""
        return argmax(predictions, axis=-1) == targets


class CategoricalAccuracy(OfPairs):
    """How often the largest of the scores is where the largest target is, as in one-hot rows.

    >>> accuracy = pb.metrics.CategoricalAccuracy()
    >>> accuracy([[0, 1], [1, 0]], [[0.1, 0.9], [0.2, 0.8]])
    >>> accuracy.result()
    0.5
    """

    def compare(self, targets: Tensor, predictions: Tensor) -> Any:
        """Whether the class is right."""
        return argmax(predictions, axis=-1) == argmax(targets, axis=-1)


class SparseTopKAccuracy(SparseCategoricalAccuracy):
    """How often the target, a class (...), is among the k largest scores (..., classes).

    >>> accuracy = pb.metrics.SparseTopKAccuracy(2)
    >>> accuracy([0, 2], [[0.3, 0.5, 0.2], [0.3, 0.5, 0.2]])
    >>> accuracy.result()
    0.5

    Raises:
        InputValueError: for k below 1.
    """

    def __init__(self, k: int = 5, name: str | None = None) -> None:
        if k < 1:
            raise errors.InputValueError(f"k is at least 1, got {k}")
        super().__init__(name)
        self.k = k

    def compare(self, targets: Tensor, predictions: Tensor) -> Any:
        """Whether fewer than k scores are above that of the target."""
        column = reshape(targets, (*targets.shape, 1))
        own = take_along_axis(predictions, column, axis=-1)
        return count_nonzero(predictions > own, axis=-1) < self.k


class TopKAccuracy(SparseTopKAccuracy):
    """How often the place of the largest target, as in one-hot rows, is among the k largest scores.

    >>> accuracy = pb.metrics.TopKAccuracy(2)
    >>> accuracy([[1, 0, 0], [0, 0, 1]], [[0.3, 0.5, 0.2], [0.3, 0.5, 0.2]])
    >>> accuracy.result()
    0.5

    Raises:
        InputValueError: for k below 1.
    """

    def expected(self, predictions: Shape) -> Shape:
        """That of the predictions."""
        return predictions

    def compare(self, targets: Tensor, predictions: Tensor) -> Any:
        """Whether fewer than k scores are above that of the target."""
        return super().compare(argmax(targets, axis=-1), predictions)


class BinaryAccuracy(OfPairs):
    """How often predictions are on the side of a threshold on which the targets are.

    Args:
        threshold: of the predictions; 0 for logits. Targets are 0 and 1.
        name: a name for messages and figures.

    >>> accuracy = pb.metrics.BinaryAccuracy()
    >>> accuracy([0.0, 1.0], [0.3, 0.4])
    >>> accuracy.result()
    0.5
    """

    def __init__(self, threshold: float = 0.5, name: str | None = None) -> None:
        super().__init__(name)
        self.threshold = threshold

    def compare(self, targets: Tensor, predictions: Tensor) -> Any:
        """Whether the prediction is above the threshold where the target is 1, and only there."""
        return (predictions > self.threshold) == (targets > 0.5)
