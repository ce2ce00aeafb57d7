"""Precision, recall and F-scores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict, Unpack

from pullback import errors
from pullback._dispatch.convert import from_any
from pullback.metrics.base import Metric, double, optional_weights
from pullback.metrics.confusion import checked_classes, classes_of
from pullback.ops.creation import full
from pullback.ops.indexing import segment_sum
from pullback.ops.manipulation import broadcast_to
from pullback.ops.precision import widest
from pullback.ops.reductions import sum as reduce_sum
from pullback.shapes import as_int, check_choice, check_number
from pullback.tensor import Tensor, TensorLike

__all__ = ["F1Score", "FBetaScore", "Precision", "Recall"]

AVERAGES = ("macro", "micro", "weighted", None)


class DetectionOptions(TypedDict, total=False):
    """The keyword arguments of F-scores; `Precision` describes them."""

    num_labels: int | None
    average: str | None
    threshold: float
    name: str | None


class _DetectionScore(Metric):
    """Counts of true positives (hits), predictions and targets of each class."""

    initial: Mapping[str, float | None] = {"hits": None, "predicted": None, "actual": None}
    hits: Tensor | None
    predicted: Tensor | None
    actual: Tensor | None

    def __init__(
        self,
        num_classes: int | None = None,
        *,
        num_labels: int | None = None,
        average: str | None = "macro",
        threshold: float = 0.5,
        name: str | None = None,
    ) -> None:
        check_choice(average, "average", AVERAGES)
        if num_classes is not None and num_labels is not None:
            raise errors.InputValueError(
                "set num_classes, if an item has one class, or num_labels, if it has any number "
                "of labels, not both"
            )
        for name_, number in (("num_classes", num_classes), ("num_labels", num_labels)):
            if number is not None and as_int(number, f"{name_}: an integer") < 1:
                raise errors.InputValueError(f"{name_} must be 1 or more, got {number}")
        self.num_classes = num_classes
        self.num_labels = num_labels
        self.average = average
        self.threshold = threshold
        super().__init__(name)

    def update(
        self, targets: TensorLike, predictions: TensorLike, weights: TensorLike | None = None
    ) -> None:
        """Adds a batch.

        Raises:
            ShapeError: for shapes that do not fit.
            InputValueError: for a class outside the range.
        """
        predictions = from_any(predictions)
        targets = from_any(targets, None, predictions.device)
        counts = (
            self._binary_counts(targets, predictions, weights)
            if self.num_classes is None
            else self._class_counts(targets, predictions, weights, self.num_classes)
        )
        for name, count in zip(("hits", "predicted", "actual"), counts, strict=True):
            before = getattr(self, name)
            setattr(self, name, count if before is None else before.to(count.device) + count)

    def _class_counts(
        self, targets: Tensor, predictions: Tensor, weights: TensorLike | None, num_classes: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        targets, predictions = classes_of(self.name, targets, predictions)
        factor = (
            None
            if weights is None
            else optional_weights(weights, targets.shape, self.name, targets.device)
        )
        ones = full(targets.shape, 1.0, dtype=widest(targets.device), device=targets.device)
        counted = (ones if factor is None else ones * factor).reshape((-1,))
        t = checked_classes(self.name, "targets", targets, num_classes)
        p = checked_classes(self.name, "predictions", predictions, num_classes)
        hits = segment_sum(counted * double(t == p), t, num_classes)
        predicted = segment_sum(counted, p, num_classes)
        return hits, predicted, segment_sum(counted, t, num_classes)

    def _binary_counts(
        self, targets: Tensor, predictions: Tensor, weights: TensorLike | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        count = 1 if self.num_labels is None else self.num_labels
        fits = self.num_labels is None or predictions.shape[-1:] == (count,)
        if targets.shape != predictions.shape or not fits:
            expected = "one shape" if self.num_labels is None else f"shape (..., {count})"
            raise errors.ShapeError(
                f"{self.name}: targets and predictions must have {expected}, got shapes "
                f"{targets.shape} and {predictions.shape}; for class indices use "
                f"{type(self).__name__}(num_classes)"
            )
        factor = (
            None
            if weights is None
            else optional_weights(weights, targets.shape, self.name, targets.device)
        )
        t = double(targets > 0.5)
        p = double(predictions > self.threshold)
        w = 1.0 if factor is None else broadcast_to(factor, t.shape)
        rows = (-1, count)
        hits, predicted, actual = ((w * x).reshape(rows) for x in (t * p, p, t))
        return (reduce_sum(hits, axis=0), reduce_sum(predicted, axis=0), reduce_sum(actual, axis=0))

    def score(self, hits: float, predicted: float, actual: float) -> float:
        """Returns the score of one class."""
        raise NotImplementedError(f"{type(self).__name__}.score")

    def result(self) -> float | list[float]:
        """Returns the score, or a list of the scores of the classes; 0 before the first batch."""
        if self.hits is None or self.predicted is None or self.actual is None:
            several = self.average is None and (self.num_classes or self.num_labels)
            return [0.0] * several if several else 0.0
        counts = [self.hits.tolist(), self.predicted.tolist(), self.actual.tolist()]
        if self.num_classes is None and self.num_labels is None:
            return self.score(*[column[0] for column in counts])
        if self.average == "micro":
            return self.score(*[sum(column) for column in counts])
        scores = [self.score(*row) for row in zip(*counts, strict=True)]
        if self.average is None:
            return scores
        if self.average == "macro":
            return sum(scores) / len(scores)
        actual = counts[2]
        total = sum(actual)
        weighted = sum(score * count for score, count in zip(scores, actual, strict=True))
        return weighted / total if total else 0.0


class Precision(_DetectionScore):
    """The fraction of predictions of a class that are right.

    Without `num_classes` and `num_labels` targets are 0 and 1, and predictions above the threshold
    count as 1.

    Args:
        num_classes: the number of exclusive classes: targets are class indices (...), predictions
            are indices, or scores (..., classes), whose largest counts.
        num_labels: the number of independent labels: targets (..., labels) are 0 and 1,
            predictions above the threshold count as 1.
        average: the average over classes or labels: "macro" for the mean of their scores,
            "weighted" for the mean weighted by their frequency, "micro" for the score of all
            counts together, None for a list of scores. A class that never occurs has score 0.
        threshold: the threshold of predictions; 0 for logits.
        name: a name for messages and logs.

    >>> precision = pb.metrics.Precision()
    >>> precision([1, 0, 1, 1], [0.9, 0.8, 0.7, 0.1])
    >>> round(precision.result(), 4)
    0.6667

    Raises:
        InputValueError: for settings that exclude each other.
    """

    def score(self, hits: float, predicted: float, actual: float) -> float:
        """Returns the score of one class."""
        return hits / predicted if predicted else 0.0


class Recall(_DetectionScore):
    """The fraction of items of a class that are predicted. Arguments are those of `Precision`.

    >>> recall = pb.metrics.Recall(3, average=None)
    >>> recall([0, 1, 1, 2], [0, 1, 2, 2])
    >>> recall.result()
    [1.0, 0.5, 1.0]

    Raises:
        InputValueError: for settings that exclude each other.
    """

    def score(self, hits: float, predicted: float, actual: float) -> float:
        """Returns the score of one class."""
        return hits / actual if actual else 0.0


class FBetaScore(_DetectionScore):
    """The harmonic mean of precision and recall, in which recall counts beta times as much.

    (1 + b**2) P R / (b**2 P + R) (van Rijsbergen, 1979).

    Args:
        num_classes: see `Precision`.
        beta: the weight of recall.
        options: see `Precision`.

    >>> score = pb.metrics.FBetaScore(beta=2.0)
    >>> score([1, 0, 1, 1], [0.9, 0.8, 0.7, 0.1])
    >>> round(score.result(), 4)
    0.6667

    Raises:
        InputValueError: for settings that exclude each other, or a beta of 0 or less.
    """

    def __init__(
        self,
        num_classes: int | None = None,
        *,
        beta: float = 1.0,
        **options: Unpack[DetectionOptions],
    ) -> None:
        check_number(beta, "beta")
        if not beta > 0:
            raise errors.InputValueError(f"beta must be above 0, got {beta}")
        self.beta = beta
        super().__init__(num_classes, **options)

    def score(self, hits: float, predicted: float, actual: float) -> float:
        """Returns the score of one class."""
        square = self.beta**2
        below = square * actual + predicted
        return (1 + square) * hits / below if below else 0.0


class F1Score(FBetaScore):
    """The harmonic mean of precision and recall: 2 P R / (P + R).

    Arguments are those of `Precision`.

    >>> score = pb.metrics.F1Score(3)
    >>> score([0, 1, 1, 2], [0, 1, 2, 2])
    >>> round(score.result(), 4)
    0.7778

    Raises:
        InputValueError: for settings that exclude each other.
    """

    def __init__(self, num_classes: int | None = None, **options: Unpack[DetectionOptions]) -> None:
        super().__init__(num_classes, **options)
