"""Which classes are taken for which, and the figures made of that."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pullback import errors
from pullback._dispatch.convert import from_any
from pullback.metrics.base import Metric, double, item_weights
from pullback.ops import reductions
from pullback.ops.creation import full
from pullback.ops.data_types import astype
from pullback.ops.indexing import segment_sum
from pullback.ops.searching import argmax
from pullback.tensor import Tensor, TensorLike

__all__ = ["ConfusionMatrix", "MatthewsCorrelation", "MeanIoU"]


def classes_of(name: str, targets: Tensor, predictions: Tensor) -> tuple[Tensor, Tensor]:
    """Classes by number, of targets (...) and predictions: such numbers, or scores (..., classes).

    Raises:
        ShapeError: when they do not fit.
    """
    if targets.shape == predictions.shape:
        return targets, predictions
    if targets.shape != predictions.shape[:-1]:
        raise errors.ShapeError(
            f"{name}: targets of shape {targets.shape} do not fit predictions of shape "
            f"{predictions.shape}; predictions are classes, as the targets, or have one axis more, "
            f"of scores"
        )
    return targets, argmax(predictions, axis=-1)


def checked_classes(name: str, what: str, values: Tensor, classes: int) -> Tensor:
    """Class numbers as they are, in one axis.

    Raises:
        InputValueError: for one outside the classes.
    """
    flat: Tensor = astype(values, "int64").reshape((-1,))
    if flat.size:
        low, high = int(reductions.min(flat)), int(reductions.max(flat))
        if low < 0 or high >= classes:
            raise errors.InputValueError(
                f"{name}: {what} have classes from {low} to {high}, and there are {classes}: 0 to "
                f"{classes - 1}"
            )
    return flat


class ConfusionMatrix(Metric):
    """How often each class was taken for each: a row for each target, a column for each prediction.

    Args:
        classes: how many there are.
        name: a name for messages and figures.

    >>> matrix = pb.metrics.ConfusionMatrix(2)
    >>> matrix([0, 0, 1], [0, 1, 1])
    >>> matrix.result().tolist()
    [[1.0, 1.0], [0.0, 1.0]]

    Raises:
        InputValueError: for fewer than 2 classes.
    """

    initial: Mapping[str, float | None] = {"counts": None}
    counts: Tensor | None

    def __init__(self, classes: int, name: str | None = None) -> None:
        if classes < 2:
            raise errors.InputValueError(f"there are 2 classes or more, got {classes}")
        self.classes = classes
        super().__init__(name)

    def update(
        self, targets: TensorLike, predictions: TensorLike, weights: TensorLike = None
    ) -> None:
        """Takes a batch into account.

        Args:
            targets: classes by number (...).
            predictions: the same, or scores (..., classes), of which the largest counts.
            weights: of the items.

        Raises:
            ShapeError: when they do not fit.
            InputValueError: for a class outside those there are.
        """
        predictions = from_any(predictions)
        targets = from_any(targets, None, predictions.device)
        targets, predictions = classes_of(self.name, targets, predictions)
        size = self.classes
        factor = item_weights(weights, targets.shape, self.name, targets.device)
        ones = full(targets.shape, 1.0, dtype="float64", device=targets.device)
        counted = (ones if factor is None else ones * factor).reshape((-1,))
        row = checked_classes(self.name, "targets", targets, size)
        column = checked_classes(self.name, "predictions", predictions, size)
        counts = segment_sum(counted, row * size + column, size * size)
        counts = counts.reshape((size, size))
        self.counts = counts if self.counts is None else self.counts.to(counts.device) + counts

    def matrix(self) -> Tensor:
        """The counts (classes, classes), in double precision."""
        if self.counts is None:
            zeros: Tensor = full((self.classes, self.classes), 0.0, dtype="float64")
            return zeros
        return double(self.counts)

    def result(self) -> Any:
        """The counts (classes, classes)."""
        return self.matrix()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}: {self.result()}>"


class MeanIoU(ConfusionMatrix):
    """The mean over the classes of intersection / union of targets and predictions (Jaccard, 1912).

    Classes that occur in neither are left out.

    >>> iou = pb.metrics.MeanIoU(2)
    >>> iou([0, 0, 1], [0, 1, 1])
    >>> iou.result()
    0.5
    """

    def __init__(self, classes: int, name: str | None = None) -> None:
        super().__init__(classes, "mean_iou" if name is None else name)

    def result(self) -> float:
        """The mean; 0 before there is anything."""
        rows = self.matrix().tolist()
        found = []
        for number, row in enumerate(rows):
            union = sum(row) + sum(other[number] for other in rows) - row[number]
            if union:
                found.append(row[number] / union)
        return math.fsum(found) / len(found) if found else 0.0


class MatthewsCorrelation(ConfusionMatrix):
    """The correlation of targets and predictions as classes (Matthews, 1975; Gorodkin, 2004).

    >>> correlation = pb.metrics.MatthewsCorrelation(2)
    >>> correlation([0, 0, 1, 1], [0, 0, 1, 0])
    >>> round(correlation.result(), 4)
    0.5774
    """

    def result(self) -> float:
        """The correlation; 0 where one of the two is constant."""
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
