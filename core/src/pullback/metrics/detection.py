"""Precision, recall and what combines them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pullback import errors
from pullback._dispatch.convert import from_any
from pullback.metrics.base import Metric, double, item_weights
from pullback.metrics.confusion import checked_classes, classes_of
from pullback.ops import reductions
from pullback.ops.creation import full
from pullback.ops.indexing import segment_sum
from pullback.ops.manipulation import broadcast_to
from pullback.tensor import Tensor, TensorLike

__all__ = ["F1Score", "FBetaScore", "Precision", "Recall"]

AVERAGES = ("macro", "micro", "weighted", None)


class _OfDetections(Metric):
    """Counts, for each class, of what is in it, what was taken for it, and what both."""

    initial: Mapping[str, float | None] = {"hits": None, "predicted": None, "actual": None}
    hits: Tensor | None
    predicted: Tensor | None
    actual: Tensor | None

    def __init__(
        self,
        classes: int | None = None,
        *,
        labels: int | None = None,
        average: str | None = "macro",
        threshold: float = 0.5,
        name: str | None = None,
    ) -> None:
        if average not in AVERAGES:
            raise errors.InputValueError(
                f"average is 'macro', 'micro', 'weighted' or None, got {average!r}"
            )
        if classes is not None and labels is not None:
            raise errors.InputValueError(
                "give classes, of which an item has one, or labels, of which it has any number"
            )
        for number in (classes, labels):
            if number is not None and number < 1:
                raise errors.InputValueError(f"there is 1 class or more, got {number}")
        self.classes = classes
        self.labels = labels
        self.average = average
        self.threshold = threshold
        super().__init__(name)

    def update(
        self, targets: TensorLike, predictions: TensorLike, weights: TensorLike = None
    ) -> None:
        """Takes a batch into account.

        Raises:
            ShapeError: when the shapes do not fit.
            InputValueError: for a class outside those there are.
        """
        predictions = from_any(predictions)
        targets = from_any(targets, None, predictions.device)
        counts = (
            self._of_sides(targets, predictions, weights)
            if self.classes is None
            else self._of_classes(targets, predictions, weights, self.classes)
        )
        for name, count in zip(("hits", "predicted", "actual"), counts, strict=True):
            before = getattr(self, name)
            setattr(self, name, count if before is None else before.to(count.device) + count)

    def _of_classes(
        self, targets: Tensor, predictions: Tensor, weights: TensorLike, classes: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        targets, predictions = classes_of(self.name, targets, predictions)
        factor = item_weights(weights, targets.shape, self.name, targets.device)
        ones = full(targets.shape, 1.0, dtype="float64", device=targets.device)
        counted = (ones if factor is None else ones * factor).reshape((-1,))
        t = checked_classes(self.name, "targets", targets, classes)
        p = checked_classes(self.name, "predictions", predictions, classes)
        hits = segment_sum(counted * double(t == p), t, classes)
        predicted = segment_sum(counted, p, classes)
        return hits, predicted, segment_sum(counted, t, classes)

    def _of_sides(
        self, targets: Tensor, predictions: Tensor, weights: TensorLike
    ) -> tuple[Tensor, Tensor, Tensor]:
        count = 1 if self.labels is None else self.labels
        fits = self.labels is None or predictions.shape[-1:] == (count,)
        if targets.shape != predictions.shape or not fits:
            wanted = "one shape" if self.labels is None else f"shape (..., {count})"
            raise errors.ShapeError(
                f"{self.name}: targets of shape {targets.shape} and predictions of shape "
                f"{predictions.shape} are of {wanted}; for classes by number give their number: "
                f"{type(self).__name__}(classes)"
            )
        factor = item_weights(weights, targets.shape, self.name, targets.device)
        t = double(targets > 0.5)
        p = double(predictions > self.threshold)
        w = 1.0 if factor is None else broadcast_to(factor, t.shape)
        rows = (-1, count)
        hits, predicted, actual = ((w * x).reshape(rows) for x in (t * p, p, t))
        return (
            reductions.sum(hits, axis=0),
            reductions.sum(predicted, axis=0),
            reductions.sum(actual, axis=0),
        )

    def figure(self, hits: float, predicted: float, actual: float) -> float:
        """The figure of one class."""
        raise NotImplementedError(f"{type(self).__name__}.figure")

    def result(self) -> Any:
        """The figure; 0 before there is anything. A list of those of the classes for no average."""
        if self.hits is None or self.predicted is None or self.actual is None:
            several = self.average is None and (self.classes or self.labels)
            return [0.0] * several if several else 0.0
        counts = [self.hits.tolist(), self.predicted.tolist(), self.actual.tolist()]
        if self.classes is None and self.labels is None:
            return self.figure(*[column[0] for column in counts])
        if self.average == "micro":
            return self.figure(*[sum(column) for column in counts])
        figures = [self.figure(*row) for row in zip(*counts, strict=True)]
        if self.average is None:
            return figures
        if self.average == "macro":
            return sum(figures) / len(figures)
        actual = counts[2]
        total = sum(actual)
        weighted = sum(figure * count for figure, count in zip(figures, actual, strict=True))
        return weighted / total if total else 0.0


class Precision(_OfDetections):
    """Of what was taken for a class, the share that is in it.

    Without `classes` and `labels` there are two classes: targets are 0 and 1, and predictions above
    the threshold are taken for 1.

    Args:
        classes: the number of classes that exclude each other: targets are numbers (...),
            predictions such numbers, or scores (..., classes), of which the largest counts.
        labels: the number of labels that do not: targets (..., labels) are 0 and 1, predictions
            above the threshold stand for 1.
        average: of classes or labels: "macro" for the mean of their figures, "weighted" for the
            mean by how often each occurs, "micro" for the figure of all counts together, None for
            the figures themselves. A class that never occurs has the figure 0.
        threshold: what predictions are held against; 0 for logits.
        name: a name for messages and figures.

    >>> precision = pb.metrics.Precision()
    >>> precision([1, 0, 1, 1], [0.9, 0.8, 0.7, 0.1])
    >>> round(precision.result(), 4)
    0.6667

    Raises:
        InputValueError: for settings that do not go together.
    """

    def figure(self, hits: float, predicted: float, actual: float) -> float:
        """The figure of one class."""
        return hits / predicted if predicted else 0.0


class Recall(_OfDetections):
    """Of what is in a class, the share that was taken for it. Its settings are Precision's.

    >>> recall = pb.metrics.Recall(3, average=None)
    >>> recall([0, 1, 1, 2], [0, 1, 2, 2])
    >>> recall.result()
    [1.0, 0.5, 1.0]

    Raises:
        InputValueError: for settings that do not go together.
    """

    def figure(self, hits: float, predicted: float, actual: float) -> float:
        """The figure of one class."""
        return hits / actual if actual else 0.0


class FBetaScore(_OfDetections):
    """The harmonic mean of precision and recall, in which recall counts beta times as much.

    (1 + b**2) P R / (b**2 P + R) (van Rijsbergen, 1979). Its settings are Precision's.

    Args:
        classes: as of `Precision`.
        beta: what recall counts.
        settings: those of `Precision`.

    >>> score = pb.metrics.FBetaScore(beta=2.0)
    >>> score([1, 0, 1, 1], [0.9, 0.8, 0.7, 0.1])
    >>> round(score.result(), 4)
    0.6667

    Raises:
        InputValueError: for settings that do not go together, or beta that is not positive.
    """

    def __init__(self, classes: int | None = None, *, beta: float = 1.0, **settings: Any) -> None:
        if not beta > 0:
            raise errors.InputValueError(f"beta is positive, got {beta}")
        self.beta = beta
        super().__init__(classes, **settings)

    def figure(self, hits: float, predicted: float, actual: float) -> float:
        """The figure of one class."""
        square = self.beta**2
        below = square * actual + predicted
        return (1 + square) * hits / below if below else 0.0


class F1Score(FBetaScore):
    """The harmonic mean of precision and recall: 2 P R / (P + R). Its settings are Precision's.

    >>> score = pb.metrics.F1Score(3)
    >>> score([0, 1, 1, 2], [0, 1, 2, 2])
    >>> round(score.result(), 4)
    0.7778

    Raises:
        InputValueError: for settings that do not go together.
    """

    def __init__(self, classes: int | None = None, **settings: Any) -> None:
        super().__init__(classes, **settings)
