"""Errors and correlations of predicted numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from pullback import errors
from pullback._dispatch.convert import from_any
from pullback._dispatch.recording import announce_call, when
from pullback._symbols import TRACES
from pullback.metrics.base import (
    Metric,
    PairwiseMean,
    WeightedSum,
    double,
    gives_items,
    name_of,
    optional_weights,
)
from pullback.ops.arithmetic import abs as absolute
from pullback.ops.arithmetic import maximum
from pullback.ops.creation import full
from pullback.ops.exponential import log1p
from pullback.ops.joining import stack
from pullback.ops.manipulation import expand_dims
from pullback.ops.nn.losses import absolute_error, cosine_similarity, squared_error
from pullback.ops.reductions import sum as reduce_sum
from pullback.shapes import check_choice
from pullback.tensor import Tensor, TensorLike

__all__ = [
    "CosineSimilarity",
    "ExplainedVariance",
    "MeanAbsoluteError",
    "MeanAbsolutePercentageError",
    "MeanOf",
    "MeanSquaredError",
    "MeanSquaredLogarithmicError",
    "PearsonCorrelation",
    "R2Score",
    "RootMeanSquaredError",
]


class MeanSquaredError(PairwiseMean):
    """The mean of (prediction - target)**2.

    >>> error = pb.metrics.MeanSquaredError()
    >>> error([1.0, 2.0], [1.0, 4.0])
    >>> error.result()
    2.0
    """

    def compare(self, targets: Tensor, predictions: Tensor) -> Tensor:
        """Returns the squared differences."""
        return squared_error(predictions, targets)


class RootMeanSquaredError(MeanSquaredError):
    """The root of the mean of (prediction - target)**2.

    >>> error = pb.metrics.RootMeanSquaredError()
    >>> error([1.0, 2.0], [4.0, 6.0])
    >>> round(error.result(), 4)
    3.5355
    """

    def result(self) -> float:
        """Returns the root of the mean over all pairs; 0 before there are any."""
        return math.sqrt(self.mean())


class MeanAbsoluteError(PairwiseMean):
    """The mean of |prediction - target|.

    >>> error = pb.metrics.MeanAbsoluteError()
    >>> error([1.0, 2.0], [1.0, 4.0])
    >>> error.result()
    1.0
    """

    def compare(self, targets: Tensor, predictions: Tensor) -> Tensor:
        """Returns the absolute differences."""
        return absolute_error(predictions, targets)


class MeanAbsolutePercentageError(PairwiseMean):
    """The mean of |prediction - target| / |target|, as a fraction: 0.05 is five percent.

    >>> error = pb.metrics.MeanAbsolutePercentageError()
    >>> error([1.0, 2.0], [1.0, 4.0])
    >>> error.result()
    0.5
    """

    def compare(self, targets: Tensor, predictions: Tensor) -> Tensor:
        """Returns the differences as fractions of the targets."""
        size = double(absolute(targets))
        difference = double(absolute_error(predictions, targets))
        # As in scikit-learn: a target of 0 gives a large but finite number.
        return difference / maximum(size, 2.0**-52)


class MeanSquaredLogarithmicError(PairwiseMean):
    """The mean of (log(1 + prediction) - log(1 + target))**2, for numbers above -1.

    >>> error = pb.metrics.MeanSquaredLogarithmicError()
    >>> error([0.0], [1.718281828])
    >>> round(error.result(), 6)
    1.0
    """

    def compare(self, targets: Tensor, predictions: Tensor) -> Tensor:
        """Returns the squared differences of the logarithms."""
        return squared_error(log1p(double(predictions)), log1p(double(targets)))


class MeanOf(WeightedSum):
    """The mean of a function of targets and predictions, such as one of `pb.losses`.

    Args:
        function: returns a number for each item, or one for a batch, whose items count equally.
        name: a name for messages and logs; the name of the function if None.

    >>> error = pb.metrics.MeanOf(pb.losses.huber)
    >>> error([0.0, 0.0], [1.0, 4.0])
    >>> error.name, error.result()
    ('huber', 2.0)
    """

    def __init__(self, function: Callable[..., Any], name: str | None = None) -> None:
        self.function = function
        self._itemwise = gives_items(function)
        super().__init__(name_of(function) if name is None else name)

    def update(
        self, targets: TensorLike, predictions: TensorLike, weights: TensorLike | None = None
    ) -> None:
        """Adds a batch.

        Raises:
            InputTypeError: for weights with a function that returns one number for a batch.
        """
        if TRACES.count:
            announce_call(self.function, self.name)
        more = {"reduction": "none"} if self._itemwise else {}
        values = from_any(self.function(targets, predictions, **more))
        if not values.ndim:
            if weights is not None:
                raise errors.InputTypeError(
                    f"{self.name} returns one number for a batch; leave out weights"
                )
            weights = int(
                getattr(targets, "shape", (1,))[0] if getattr(targets, "shape", ()) else 1
            )
        self.accumulate(values, weights)

    def result(self) -> float:
        """Returns the mean; 0 before the first batch."""
        return self.mean()


class _Moments(Metric):
    """The base of metrics that depend on means and squares of pairs (items,) or (items, outputs).

    Batches are merged by the method of Chan, Golub and LeVeque (1979): squares are of differences
    from the mean, which avoids cancellation for large numbers.
    """

    initial: Mapping[str, float | None] = {
        "count": 0.0, "means": None, "squares": None, "residual": None,
    }  # fmt: skip
    count: float | Tensor
    means: Tensor | None
    squares: Tensor | None
    residual: Tensor | None

    def update(
        self, targets: TensorLike, predictions: TensorLike, weights: TensorLike | None = None
    ) -> None:
        """Adds a batch.

        Raises:
            ShapeError: for shapes that differ or have more than two axes.
        """
        predictions = from_any(predictions)
        targets = from_any(targets, None, predictions.device)
        if targets.shape != predictions.shape or not 1 <= targets.ndim <= 2:
            raise errors.ShapeError(
                f"{self.name}: targets and predictions must have one shape, (items,) or (items, "
                f"outputs), got {targets.shape} and {predictions.shape}"
            )
        rows = (-1, 1) if targets.ndim == 1 else targets.shape
        t, p = (double(tensor).reshape(rows) for tensor in (targets, predictions))
        factor = (
            None
            if weights is None
            else optional_weights(weights, targets.shape[:1], self.name, t.device)
        )
        w = full((t.shape[0], 1), 1.0, dtype=t.dtype, device=t.device)
        if factor is not None:
            w = w * factor.reshape((-1, 1))
        if self.means is None:
            device, outputs = t.device, t.shape[1]
            self.count = full((), 0, dtype=t.dtype, device=device)
            self.means = full((2, outputs), 0, dtype=t.dtype, device=device)
            self.squares = full((3, outputs), 0, dtype=t.dtype, device=device)
            self.residual = full((outputs,), 0, dtype=t.dtype, device=device)
        count = reduce_sum(w)
        when(count != 0, lambda: self._merge(count, w, t, p))

    def _merge(self, count: Tensor, w: Tensor, t: Tensor, p: Tensor) -> None:
        both = stack([t, p])  # (2, items, outputs)
        means = reduce_sum(w * both, axis=1) / count
        apart = both - expand_dims(means, axis=1)
        # Squares of targets and predictions, and their products: (3, outputs).
        products = stack([apart[0] * apart[0], apart[1] * apart[1], apart[0] * apart[1]])
        squares = reduce_sum(w * products, axis=1)
        residual = reduce_sum(w * (t - p) ** 2, axis=0)
        state = (self.count, self.means, self.squares, self.residual)
        counted, means_before, squares_before, residual_before = (
            from_any(x).to(t.device) for x in state
        )
        total = counted + count
        delta = means - means_before
        cross = stack([delta[0] * delta[0], delta[1] * delta[1], delta[0] * delta[1]])
        self.means = means_before + delta * (count / total)
        self.squares = squares_before + squares + cross * (counted * count / total)
        self.residual = residual_before + residual
        self.count = total

    def _is_empty(self) -> bool:
        """Returns whether no item with a weight has been added."""
        return self.means is None or not bool(from_any(self.count) != 0)


class R2Score(_Moments):
    """The coefficient of determination: 1 - (sum of squared errors) / (that of the mean).

    For several outputs (items, outputs) it is the mean of their scores.

    Args:
        average: "uniform" for the mean over the outputs, "variance" for the mean weighted by the
            variance of their targets, None for the score of each.
        name: a name for messages and logs.

    >>> score = pb.metrics.R2Score()
    >>> score([1.0, 2.0, 3.0], [1.0, 2.0, 4.0])
    >>> score.result()
    0.5

    Raises:
        InputValueError: for another average.
    """

    def __init__(self, average: str | None = "uniform", name: str | None = None) -> None:
        check_choice(average, "average", ("uniform", "variance", None))
        super().__init__(name)
        self.average = average

    def result(self) -> float | list[float]:
        """Returns the score, or a list of the scores of the outputs; 0 before the first batch."""
        if self._is_empty() or self.squares is None:
            return 0.0
        variances: list[float] = self.squares[0].tolist()
        errors_ = self._unexplained(self.squares)
        scores: list[float] = [
            1 - e / v if v else (0.0 if e else 1.0) for e, v in zip(errors_, variances, strict=True)
        ]
        if self.average is None:
            return scores
        if self.average == "uniform" or not any(variances):
            return sum(scores) / len(scores)
        return sum(s * v for s, v in zip(scores, variances, strict=True)) / sum(variances)

    def _unexplained(self, squares: Tensor) -> list[float]:
        """The sum of squares that is compared with that of the targets, for each output."""
        found: list[float] = from_any(self.residual).tolist()
        return found


class ExplainedVariance(R2Score):
    """1 - (variance of the errors) / (variance of the targets): a constant error costs nothing.

    Without a constant error it is `R2Score`, whose arguments it has.

    >>> score = pb.metrics.ExplainedVariance()
    >>> score([1.0, 2.0, 3.0], [2.0, 3.0, 4.0])
    >>> score.result()
    1.0

    Raises:
        InputValueError: for another average.
    """

    def _unexplained(self, squares: Tensor) -> list[float]:
        found: list[float] = (squares[0] + squares[1] - 2 * squares[2]).tolist()
        return found


class CosineSimilarity(PairwiseMean):
    """The mean of the cosines of the angles between targets and predictions, along the last axis.

    >>> similarity = pb.metrics.CosineSimilarity()
    >>> similarity([[1.0, 0.0], [0.0, 2.0]], [[2.0, 0.0], [3.0, 0.0]])
    >>> similarity.result()
    0.5
    """

    def compare(self, targets: Tensor, predictions: Tensor) -> Tensor:
        """Returns the cosines."""
        return cosine_similarity(double(targets), double(predictions))


class PearsonCorrelation(_Moments):
    """The correlation of targets and predictions; for several outputs the mean of theirs.

    >>> correlation = pb.metrics.PearsonCorrelation()
    >>> correlation([1.0, 2.0, 3.0], [2.0, 4.0, 6.0])
    >>> round(correlation.result(), 6)
    1.0
    """

    def result(self) -> float:
        """Returns the correlation; 0 if targets or predictions are constant."""
        if self._is_empty() or self.squares is None:
            return 0.0
        correlations = [
            both / math.sqrt(t * p) if t and p else 0.0
            for t, p, both in zip(*self.squares.tolist(), strict=True)
        ]
        return math.fsum(correlations) / len(correlations)
