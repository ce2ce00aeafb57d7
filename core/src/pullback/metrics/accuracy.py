"""Accuracies, the fraction of predictions that are right; and perplexity."""

from __future__ import annotations

import math

from pullback import errors
from pullback.metrics.base import PairwiseMean, double
from pullback.ops.comparison import equal
from pullback.ops.indexing import take_along_axis
from pullback.ops.manipulation import reshape
from pullback.ops.nn.losses import sparse_softmax_cross_entropy_with_logits
from pullback.ops.reductions import count_nonzero
from pullback.ops.searching import argmax
from pullback.shapes import Shape, as_int
from pullback.tensor import Tensor

__all__ = [
    "Accuracy",
    "BinaryAccuracy",
    "CategoricalAccuracy",
    "Perplexity",
    "SparseCategoricalAccuracy",
    "SparseTopKAccuracy",
    "TopKAccuracy",
]


class Accuracy(PairwiseMean):
    """The fraction of predictions that are equal to their targets.

    >>> accuracy = pb.metrics.Accuracy()
    >>> accuracy([1, 2, 3, 4], [1, 2, 3, 0])
    >>> accuracy.result()
    0.75
    """

    def compare(self, targets: Tensor, predictions: Tensor) -> Tensor:
        """Returns whether they are equal."""
        return equal(targets, predictions)


class SparseCategoricalAccuracy(PairwiseMean):
    """The fraction of scores (..., classes) whose largest is that of the target class (...).

    >>> accuracy = pb.metrics.SparseCategoricalAccuracy()
    >>> accuracy([1, 0], [[0.1, 0.9], [0.2, 0.8]])
    >>> accuracy.result()
    0.5
    """

    def expected(self, predictions: Shape) -> Shape:
        """Returns the shape of predictions without the axis of the classes."""
        return predictions[:-1]

    def compare(self, targets: Tensor, predictions: Tensor) -> Tensor:
        """Returns whether the class is right."""
        return equal(argmax(predictions, axis=-1), targets)


class CategoricalAccuracy(PairwiseMean):
    """The fraction of scores whose largest is at the largest target, as in one-hot rows.

    >>> accuracy = pb.metrics.CategoricalAccuracy()
    >>> accuracy([[0, 1], [1, 0]], [[0.1, 0.9], [0.2, 0.8]])
    >>> accuracy.result()
    0.5
    """

    def compare(self, targets: Tensor, predictions: Tensor) -> Tensor:
        """Returns whether the class is right."""
        return equal(argmax(predictions, axis=-1), argmax(targets, axis=-1))


class SparseTopKAccuracy(SparseCategoricalAccuracy):
    """The fraction of target classes (...) that are among the k largest scores (..., classes).

    >>> accuracy = pb.metrics.SparseTopKAccuracy(2)
    >>> accuracy([0, 2], [[0.3, 0.5, 0.2], [0.3, 0.5, 0.2]])
    >>> accuracy.result()
    0.5

    Raises:
        InputValueError: for k below 1.
    """

    def __init__(self, k: int = 5, name: str | None = None) -> None:
        if as_int(k, "k: an integer") < 1:
            raise errors.InputValueError(f"k must be 1 or more, got {k}")
        super().__init__(name)
        self.k = k

    def compare(self, targets: Tensor, predictions: Tensor) -> Tensor:
        """Returns whether fewer than k scores are above that of the target."""
        column = reshape(targets, (*targets.shape, 1))
        own = take_along_axis(predictions, column, axis=-1)
        return count_nonzero(predictions > own, axis=-1) < self.k


class TopKAccuracy(SparseTopKAccuracy):
    """The fraction of largest targets, as in one-hot rows, that are among the k largest scores.

    >>> accuracy = pb.metrics.TopKAccuracy(2)
    >>> accuracy([[1, 0, 0], [0, 0, 1]], [[0.3, 0.5, 0.2], [0.3, 0.5, 0.2]])
    >>> accuracy.result()
    0.5

    Raises:
        InputValueError: for k below 1.
    """

    def expected(self, predictions: Shape) -> Shape:
        """Returns the shape of the predictions."""
        return predictions

    def compare(self, targets: Tensor, predictions: Tensor) -> Tensor:
        """Returns whether fewer than k scores are above that of the target."""
        return super().compare(argmax(targets, axis=-1), predictions)


class BinaryAccuracy(PairwiseMean):
    """The fraction of predictions on the same side of a threshold as their targets.

    Args:
        threshold: the threshold of the predictions; 0 for logits. Targets are 0 and 1.
        name: a name for messages and logs.

    >>> accuracy = pb.metrics.BinaryAccuracy()
    >>> accuracy([0.0, 1.0], [0.3, 0.4])
    >>> accuracy.result()
    0.5
    """

    def __init__(self, threshold: float = 0.5, name: str | None = None) -> None:
        super().__init__(name)
        self.threshold = threshold

    def compare(self, targets: Tensor, predictions: Tensor) -> Tensor:
        """Returns whether a prediction is above the threshold exactly if its target is 1."""
        return equal(predictions > self.threshold, targets > 0.5)


class Perplexity(SparseCategoricalAccuracy):
    """exp of the mean cross entropy of target classes (...) and logits (..., classes).

    It is the number of classes among which a model that guesses evenly would be as unsure. Weights
    of 0 leave out what fills sequences up.

    >>> perplexity = pb.metrics.Perplexity()
    >>> perplexity([0, 2], [[1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 0.0]])
    >>> round(perplexity.result(), 4)
    4.0
    """

    def compare(self, targets: Tensor, predictions: Tensor) -> Tensor:
        """Returns the cross entropies; NaN for a label outside the classes."""
        return sparse_softmax_cross_entropy_with_logits(double(predictions), targets)

    def result(self) -> float:
        """Returns exp of the mean; 0 before there are values."""
        mean = self.mean()
        if mean > 709:  # more than float64 holds
            return math.inf
        return math.exp(mean) if self.weight else 0.0
