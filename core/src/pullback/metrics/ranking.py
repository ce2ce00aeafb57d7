"""How well scores put what is in a class before what is not: areas under curves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pullback import errors
from pullback._dispatch.convert import from_any
from pullback.metrics.base import Metric, double, item_weights
from pullback.metrics.confusion import checked_classes
from pullback.ops import reductions
from pullback.ops.arithmetic import minimum
from pullback.ops.creation import arange, full
from pullback.ops.cumulative import cumulative_sum
from pullback.ops.data_types import astype
from pullback.ops.indexing import segment_sum
from pullback.ops.joining import concat, stack
from pullback.ops.manipulation import broadcast_to, flip, permute_dims
from pullback.ops.rounding import floor
from pullback.ops.selection import where
from pullback.ops.sets import unique_inverse
from pullback.tensor import Tensor, TensorLike

__all__ = ["AUC"]


class AUC(Metric):
    """The area under the curve of all thresholds.

    For "ROC" it is the probability that an item of the class has a higher score than one that is
    not (Hanley and McNeil, 1982); for "PR" the average precision: the mean of the precisions at
    each hit. Without `bins` it keeps every score, and is exact; with them it keeps counts only.

    Args:
        classes: the number of classes that exclude each other: targets are numbers (...), scores
            (..., classes), and each class is held against the rest. Without it targets are 0 and 1,
            and scores are in their shape.
        curve: "ROC" or "PR".
        average: of classes: "macro" for the mean of their areas, "weighted" for the mean by how
            often each occurs, None for the areas.
        bins: into how many equal parts of [0, 1] scores are counted, which are outside for none.
        name: a name for messages and figures.

    >>> area = pb.metrics.AUC()
    >>> area([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    >>> area.result()
    0.75

    Raises:
        InputValueError: for another curve or average.
    """

    initial: Mapping[str, float | None] = {"inside": None, "outside": None}
    #: Counts (classes, bins) of the scores of items that are in a class, and of those that are not.
    inside: Tensor | None
    outside: Tensor | None

    def __init__(
        self,
        classes: int | None = None,
        *,
        curve: str = "ROC",
        average: str | None = "macro",
        bins: int | None = None,
        name: str | None = None,
    ) -> None:
        if curve not in ("ROC", "PR"):
            raise errors.InputValueError(f"curve is 'ROC' or 'PR', got {curve!r}")
        if average not in ("macro", "weighted", None):
            raise errors.InputValueError(f"average is 'macro', 'weighted' or None, got {average!r}")
        if bins is not None and bins < 2:
            raise errors.InputValueError(f"there are 2 bins or more, got {bins}")
        self.classes = classes
        self.curve = curve
        self.average = average
        self.bins = bins
        super().__init__("auc" if name is None else name)

    def reset(self) -> None:
        """Begins anew."""
        super().reset()
        # Rows of scores, whether each is inside, and weights: (classes, items) each.
        self._kept: list[tuple[Tensor, Tensor, Tensor]] = []

    def update(
        self, targets: TensorLike, predictions: TensorLike, weights: TensorLike = None
    ) -> None:
        """Takes a batch into account.

        Raises:
            ShapeError: when the shapes do not fit.
            InputValueError: for a class outside those there are, or, with bins, for a score outside
                [0, 1].
        """
        scores = from_any(predictions)
        targets = from_any(targets, None, scores.device)
        items = scores.shape if self.classes is None else scores.shape[:-1]
        fits = self.classes is None or scores.shape[-1:] == (self.classes,)
        if targets.shape != items or not fits:
            wanted = "their shape" if self.classes is None else f"shape (..., {self.classes})"
            raise errors.ShapeError(
                f"{self.name}: scores of shape {scores.shape} do not fit targets of shape "
                f"{targets.shape}; they are of {wanted}"
            )
        if not scores.size:
            return
        count = 1 if self.classes is None else self.classes
        rows = permute_dims(double(scores).reshape((-1, count)), (1, 0))
        if self.classes is None:
            inside = double(targets > 0.5).reshape((1, -1))
        else:
            number = checked_classes(self.name, "targets", targets, count)
            each = arange(count, dtype="int64", device=scores.device)
            inside = double(each.reshape((-1, 1)) == number)
        factor = item_weights(weights, targets.shape, self.name, scores.device)
        counted = double(full(targets.shape, 1.0, dtype="float64", device=scores.device))
        if factor is not None:
            counted = counted * factor
        counted = broadcast_to(counted.reshape((1, -1)), rows.shape)
        if self.bins is None:
            self._kept.append((rows, inside, counted))
        else:
            self._count(rows, inside, counted, self.bins)

    def _count(self, scores: Tensor, inside: Tensor, weights: Tensor, bins: int) -> None:
        if scores.size and not bool(reductions.all((scores >= 0) & (scores <= 1))):
            raise errors.InputValueError(
                f"{self.name}: with bins scores are from 0 to 1; apply pb.sigmoid or pb.softmax to "
                f"logits, or leave bins out"
            )
        count = scores.shape[0]
        bin_ = minimum(astype(floor(scores * bins), "int64"), bins - 1)
        first = arange(count, dtype="int64", device=scores.device).reshape((-1, 1)) * bins
        index = (bin_ + first).reshape((-1,))
        for name, part in (("inside", inside), ("outside", 1 - inside)):
            found = segment_sum((part * weights).reshape((-1,)), index, count * bins)
            found = found.reshape((count, bins))
            before = getattr(self, name)
            setattr(self, name, found if before is None else before.to(found.device) + found)

    def result(self) -> Any:
        """The area; not a number where nothing, or everything, is in the class."""
        pairs = self._pairs()
        if not pairs:
            return 0.0
        areas = [_area(self.curve, *pair) for pair in pairs]
        if self.classes is None:
            return areas[0]
        if self.average is None:
            return areas
        occurs = [1.0 if self.average == "macro" else float(reductions.sum(i)) for i, _ in pairs]
        return sum(a * n for a, n in zip(areas, occurs, strict=True)) / sum(occurs)

    def _pairs(self) -> list[tuple[Tensor, Tensor]]:
        """For each class the counts inside and outside, by score, from the highest."""
        if self.bins is not None:
            if self.inside is None or self.outside is None:
                return []
            both = flip(stack([self.inside, self.outside]), axis=-1)
            return [(both[0, number], both[1, number]) for number in range(both.shape[1])]
        if not self._kept:
            return []
        device = self._kept[-1][0].device
        columns = zip(*self._kept, strict=True)
        scores, inside, weights = (
            concat([part.to(device) for part in column], axis=1) for column in columns
        )
        pairs = []
        for number in range(scores.shape[0]):
            # Items of one score are one step of the curve.
            values, place = unique_inverse(-scores[number])
            found = [
                segment_sum(part * weights[number], place, values.shape[0])
                for part in (inside[number], 1 - inside[number])
            ]
            pairs.append((found[0], found[1]))
        return pairs

    def checkpoint_state(self) -> Mapping[str, Any]:
        """What has been gathered."""
        kept = [[part.numpy() for part in parts] for parts in self._kept]
        return {**super().checkpoint_state(), "kept": kept}

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Takes over what `checkpoint_state` gave."""
        super().restore_state(state)
        self._kept = []
        for scores, inside, weights in state["kept"]:
            self._kept.append(tuple(from_any(np.asarray(x)) for x in (scores, inside, weights)))  # type: ignore[arg-type]

    def __repr__(self) -> str:
        return f"<AUC {self.name!r}: {self.result()}>"


def _area(curve: str, inside: Tensor, outside: Tensor) -> float:
    """The area, from counts by score from the highest."""
    hits = cumulative_sum(inside)
    misses = cumulative_sum(outside)
    all_hits, all_misses = float(hits[-1]), float(misses[-1])
    if not all_hits or (curve == "ROC" and not all_misses):
        return float("nan")
    if curve == "ROC":
        # Trapezoids: half of a step's hits are before its misses.
        area = reductions.sum(outside * (hits - inside / 2))
        return float(area) / (all_hits * all_misses)
    taken = hits + misses
    # Where nothing has been taken yet there are no hits either.
    precision = hits / where(taken > 0, taken, 1.0)
    return float(reductions.sum(inside * precision)) / all_hits
