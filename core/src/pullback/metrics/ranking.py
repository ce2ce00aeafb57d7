"""Areas under curves: the quality of a ranking by scores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pullback import errors
from pullback._dispatch.convert import from_any
from pullback._dispatch.recording import effect
from pullback.metrics.base import Metric, double, optional_weights
from pullback.metrics.confusion import checked_classes
from pullback.ops.arithmetic import minimum
from pullback.ops.creation import arange, full
from pullback.ops.cumulative import cumulative_sum
from pullback.ops.data_types import astype
from pullback.ops.indexing import segment_sum
from pullback.ops.joining import concat, stack
from pullback.ops.manipulation import broadcast_to, flip, permute_dims
from pullback.ops.precision import widest
from pullback.ops.reductions import all as reduce_all
from pullback.ops.reductions import sum as reduce_sum
from pullback.ops.rounding import floor
from pullback.ops.selection import where
from pullback.ops.sets import unique_inverse
from pullback.shapes import as_int, check_choice
from pullback.tensor import Tensor, TensorLike

__all__ = ["AUC"]


class AUC(Metric):
    """The area under the ROC curve or the precision-recall curve.

    For "ROC" it is the probability that an item of the class has a higher score than an item
    outside it (Hanley and McNeil, 1982); for "PR" it is the average precision, the mean of the
    precisions at each hit. Without `bins` it keeps every score, and is exact; with `bins` it keeps
    counts only.

    Args:
        num_classes: the number of exclusive classes: targets are class indices (...), scores
            (..., classes), and each class is compared with the rest. If None, targets are 0 and 1,
            and scores have their shape.
        curve: "ROC" or "PR".
        average: the average over classes: "macro" for the mean of their areas, "weighted" for the
            mean weighted by their frequency, None for a list of areas.
        bins: the number of equal parts of [0, 1] in which scores, which must lie in it, are
            counted.
        name: a name for messages and logs.

    >>> area = pb.metrics.AUC()
    >>> area([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    >>> area.result()
    0.75

    Raises:
        InputValueError: for another curve or average, or bins below 2.
    """

    initial: Mapping[str, float | None] = {"inside": None, "outside": None}
    #: Counts (classes, bins) of the scores of items in a class, and of items outside it.
    inside: Tensor | None
    outside: Tensor | None

    def __init__(
        self,
        num_classes: int | None = None,
        *,
        curve: str = "ROC",
        average: str | None = "macro",
        bins: int | None = None,
        name: str | None = None,
    ) -> None:
        check_choice(curve, "curve", ("ROC", "PR"))
        check_choice(average, "average", ("macro", "weighted", None))
        if bins is not None and as_int(bins, "bins: an integer") < 2:
            raise errors.InputValueError(f"bins must be 2 or more, got {bins}")
        self.num_classes = num_classes
        self.curve = curve
        self.average = average
        self.bins = bins
        super().__init__("auc" if name is None else name)

    def reset(self) -> None:
        """Sets the state back to its initial values."""
        super().reset()
        # Rows of scores, whether each is inside, and weights: (classes, items) each.
        self._kept: list[tuple[Tensor, Tensor, Tensor]] = []

    def update(
        self, targets: TensorLike, predictions: TensorLike, weights: TensorLike | None = None
    ) -> None:
        """Adds a batch.

        Raises:
            ShapeError: for shapes that do not fit.
            InputValueError: for a class outside the range, or, with bins, for a score outside
                [0, 1].
        """
        scores = from_any(predictions)
        targets = from_any(targets, None, scores.device)
        items = scores.shape if self.num_classes is None else scores.shape[:-1]
        fits = self.num_classes is None or scores.shape[-1:] == (self.num_classes,)
        if targets.shape != items or not fits:
            expected = "their shape" if self.num_classes is None else f"(..., {self.num_classes})"
            raise errors.ShapeError(
                f"{self.name}: scores of shape {scores.shape} do not fit targets of shape "
                f"{targets.shape}; expected {expected}"
            )
        if not scores.size:
            return
        count = 1 if self.num_classes is None else self.num_classes
        rows = permute_dims(double(scores).reshape((-1, count)), (1, 0))
        if self.num_classes is None:
            inside = double(targets > 0.5).reshape((1, -1))
        else:
            number = checked_classes(self.name, "targets", targets, count)
            each = arange(count, dtype="int64", device=scores.device)
            inside = double(each.reshape((-1, 1)) == number)
        factor = (
            None
            if weights is None
            else optional_weights(weights, targets.shape, self.name, scores.device)
        )
        counted = full(targets.shape, 1.0, dtype=widest(scores.device), device=scores.device)
        if factor is not None:
            counted = counted * factor
        counted = broadcast_to(counted.reshape((1, -1)), rows.shape)
        if self.bins is None:
            effect(self._keep, rows, inside, counted)
        else:
            self._count(rows, inside, counted, self.bins)

    def _keep(self, scores: Tensor, inside: Tensor, weights: Tensor) -> None:
        self._kept.append((scores, inside, weights))

    def _count(self, scores: Tensor, inside: Tensor, weights: Tensor, bins: int) -> None:
        if scores.size:
            within = reduce_all((scores >= 0) & (scores <= 1))
            if effect(self._reject_scores, within):
                scores = where(within, scores, 0.0)
        count = scores.shape[0]
        bin_ = minimum(astype(floor(scores * bins), "int64"), bins - 1)
        first = arange(count, dtype="int64", device=scores.device).reshape((-1, 1)) * bins
        index = (bin_ + first).reshape((-1,))
        for name, part in (("inside", inside), ("outside", 1 - inside)):
            counts = segment_sum((part * weights).reshape((-1,)), index, count * bins)
            counts = counts.reshape((count, bins))
            before = getattr(self, name)
            setattr(self, name, counts if before is None else before.to(counts.device) + counts)

    def _reject_scores(self, within: Tensor) -> None:
        if not bool(within):
            raise errors.InputValueError(
                f"{self.name}: with bins, scores must be from 0 to 1; apply pb.sigmoid or "
                f"pb.softmax to logits, or leave bins out"
            )

    def result(self) -> float | list[float]:
        """Returns the area, NaN if no item or every item is in the class."""
        pairs = self._pairs()
        if not pairs:
            return 0.0
        areas = [_area(self.curve, *pair) for pair in pairs]
        if self.num_classes is None:
            return areas[0]
        if self.average is None:
            return areas
        occurs = [1.0 if self.average == "macro" else float(reduce_sum(i)) for i, _ in pairs]
        return sum(a * n for a, n in zip(areas, occurs, strict=True)) / sum(occurs)

    def _pairs(self) -> list[tuple[Tensor, Tensor]]:
        """Returns for each class the counts inside and outside, from the highest score down."""
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
            # Items with equal scores are one step of the curve.
            values, place = unique_inverse(-scores[number])
            hits, misses = (
                segment_sum(part * weights[number], place, values.shape[0])
                for part in (inside[number], 1 - inside[number])
            )
            pairs.append((hits, misses))
        return pairs

    def checkpoint_state(self) -> Mapping[str, Any]:
        """The state, by name."""
        kept = [[part.numpy() for part in parts] for parts in self._kept]
        return {**super().checkpoint_state(), "kept": kept}

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Restores the result of `checkpoint_state`."""
        super().restore_state(state)
        self._kept = []
        for scores, inside, weights in state["kept"]:
            self._kept.append(
                (
                    from_any(np.asarray(scores)),
                    from_any(np.asarray(inside)),
                    from_any(np.asarray(weights)),
                )
            )

    def __repr__(self) -> str:
        return f"<AUC {self.name!r}: {self.result()}>"


def _area(curve: str, inside: Tensor, outside: Tensor) -> float:
    """Returns the area, from counts in the order of scores, highest first."""
    hits = cumulative_sum(inside)
    misses = cumulative_sum(outside)
    all_hits, all_misses = float(hits[-1]), float(misses[-1])
    if not all_hits or (curve == "ROC" and not all_misses):
        return float("nan")
    if curve == "ROC":
        # Trapezoids: half of a step's hits are before its misses.
        area = reduce_sum(outside * (hits - inside / 2))
        return float(area) / (all_hits * all_misses)
    taken = hits + misses
    # Where nothing has been taken yet there are no hits either.
    precision = hits / where(taken > 0, taken, 1.0)
    return float(reduce_sum(inside * precision)) / all_hits
