"""The confusion matrix, and scores made of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pullback import errors
from pullback._dispatch.convert import from_any
from pullback._dispatch.recording import effect
from pullback.devices import as_device
from pullback.metrics.base import Metric, double, optional_weights
from pullback.ops.arithmetic import clip
from pullback.ops.creation import full
from pullback.ops.data_types import astype
from pullback.ops.indexing import segment_sum
from pullback.ops.precision import widest
from pullback.ops.reductions import max as reduce_max
from pullback.ops.reductions import min as reduce_min
from pullback.ops.searching import argmax
from pullback.shapes import as_int
from pullback.tensor import Tensor, TensorLike

__all__ = ["ConfusionMatrix", "MatthewsCorrelation", "MeanIoU"]


def classes_of(name: str, targets: Tensor, predictions: Tensor) -> tuple[Tensor, Tensor]:
    """Returns class indices of targets (...) and of predictions, indices or scores (..., classes).

    Raises:
        ShapeError: for shapes that do not fit.
    """
    if targets.shape == predictions.shape:
        return targets, predictions
    if targets.shape != predictions.shape[:-1]:
        raise errors.ShapeError(
            f"{name}: targets of shape {targets.shape} do not fit predictions of shape "
            f"{predictions.shape}; predictions must be class indices in the shape of targets, "
            f"or scores with one more axis"
        )
    return targets, argmax(predictions, axis=-1)


def checked_classes(name: str, what: str, values: Tensor, num_classes: int) -> Tensor:
    """Returns class indices in one axis.

    Raises:
        InputValueError: for an index outside [0, num_classes).
    """
    flat = astype(values, "int64").reshape((-1,))
    if flat.size:
        ends = reduce_min(flat), reduce_max(flat)
        if effect(_reject_classes, name, what, num_classes, *ends):
            # What is computed before the check is no error of its own.
            flat = clip(flat, 0, num_classes - 1)
    return flat


def _reject_classes(name: str, what: str, num_classes: int, least: Tensor, largest: Tensor) -> None:
    low, high = int(least), int(largest)
    if low < 0 or high >= num_classes:
        raise errors.InputValueError(
            f"{name}: {what} must be classes from 0 to {num_classes - 1}, got {low} to {high}"
        )


class ConfusionMatrix(Metric):
    """Counts of targets and predictions by class: rows are targets, columns are predictions.

    Args:
        num_classes: the number of classes.
        name: a name for messages and logs.

    >>> matrix = pb.metrics.ConfusionMatrix(2)
    >>> matrix([0, 0, 1], [0, 1, 1])
    >>> matrix.result().tolist()
    [[1.0, 1.0], [0.0, 1.0]]

    Raises:
        InputValueError: for fewer than 2 classes.
    """

    initial: Mapping[str, float | None] = {"counts": None}
    counts: Tensor | None

    def __init__(self, num_classes: int, name: str | None = None) -> None:
        if as_int(num_classes, "num_classes: an integer") < 2:
            raise errors.InputValueError(f"num_classes must be 2 or more, got {num_classes}")
        self.num_classes = num_classes
        super().__init__(name)

    def update(
        self, targets: TensorLike, predictions: TensorLike, weights: TensorLike | None = None
    ) -> None:
        """Adds a batch.

        Args:
            targets: class indices (...).
            predictions: class indices, or scores (..., classes), whose largest counts.
            weights: the weights of the items.

        Raises:
            ShapeError: for shapes that do not fit.
            InputValueError: for a class outside the range.
        """
        predictions = from_any(predictions)
        targets = from_any(targets, None, predictions.device)
        targets, predictions = classes_of(self.name, targets, predictions)
        size = self.num_classes
        factor = (
            None
            if weights is None
            else optional_weights(weights, targets.shape, self.name, targets.device)
        )
        ones = full(targets.shape, 1.0, dtype=widest(targets.device), device=targets.device)
        counted = (ones if factor is None else ones * factor).reshape((-1,))
        row = checked_classes(self.name, "targets", targets, size)
        column = checked_classes(self.name, "predictions", predictions, size)
        counts = segment_sum(counted, row * size + column, size * size)
        counts = counts.reshape((size, size))
        self.counts = counts if self.counts is None else self.counts.to(counts.device) + counts

    def matrix(self) -> Tensor:
        """Returns the counts (classes, classes), in double precision."""
        if self.counts is None:
            return full((self.num_classes, self.num_classes), 0.0, dtype=widest(as_device(None)))
        return double(self.counts)

    def result(self) -> Any:
        """Returns the counts (classes, classes)."""
        return self.matrix()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}: {self.result()}>"


class MeanIoU(ConfusionMatrix):
    """The mean over the classes of intersection / union of targets and predictions (Jaccard, 1912).

    Classes that occur in neither are skipped.

    >>> iou = pb.metrics.MeanIoU(2)
    >>> iou([0, 0, 1], [0, 1, 1])
    >>> iou.result()
    0.5
    """

    def __init__(self, num_classes: int, name: str | None = None) -> None:
        super().__init__(num_classes, "mean_iou" if name is None else name)

    def result(self) -> float:
        """Returns the mean; 0 before the first batch."""
        rows = self.matrix().tolist()
        ratios = []
        for number, row in enumerate(rows):
            union = sum(row) + sum(other[number] for other in rows) - row[number]
            if union:
                ratios.append(row[number] / union)
        return math.fsum(ratios) / len(ratios) if ratios else 0.0


class MatthewsCorrelation(ConfusionMatrix):
    """The correlation of targets and predictions as classes (Matthews, 1975; Gorodkin, 2004).

    >>> correlation = pb.metrics.MatthewsCorrelation(2)
    >>> correlation([0, 0, 1, 1], [0, 0, 1, 0])
    >>> round(correlation.result(), 4)
    0.5774
    """

    def result(self) -> float:
        """Returns the correlation; 0 if targets or predictions are constant."""
        rows = self.matrix().tolist()
        actual = [sum(row) for row in rows]
        predicted = [sum(column) for column in zip(*rows, strict=True)]
        total = sum(actual)
        right = sum(row[number] for number, row in enumerate(rows))
        both = right * total - sum(a * p for a, p in zip(actual, predicted, strict=True))
        spread = (total**2 - sum(a * a for a in actual)) * (
            total**2 - sum(p * p for p in predicted)
        )
        return both / math.sqrt(spread) if spread > 0 else 0.0
