"""Metrics: figures that are gathered over many batches.

Call a metric with each batch, ask for `result()`, and `reset()` it for the next epoch. What it has
gathered is part of a checkpoint that it is given to. Sums are kept on the host in double precision:
they neither saturate nor depend on how the data were split into batches.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pullback import dtypes, errors
from pullback.dispatch.convert import from_any
from pullback.dispatch.recording import paused
from pullback.shapes import Shape, broadcast_shapes
from pullback.tensor import CALL, Tensor, TensorLike

__all__ = [
    "Accuracy",
    "BinaryAccuracy",
    "CategoricalAccuracy",
    "Mean",
    "MeanAbsoluteError",
    "MeanSquaredError",
    "Metric",
    "SparseCategoricalAccuracy",
    "SparseTopKAccuracy",
    "Sum",
]


class Metric:
    """The base of every metric. A subclass writes `update`, `result` and its `initial` numbers.

    Args:
        name: a name for messages and summaries; that of the class if None.

    >>> class Largest(pb.metrics.Metric):
    ...     initial = {"largest": float("-inf")}
    ...     def update(self, values):
    ...         self.largest = max(self.largest, float(pb.max(values)))
    ...     def result(self):
    ...         return self.largest
    >>> largest = Largest()
    >>> largest([1.0, 3.0]), largest([2.0])
    (None, None)
    >>> largest.result()
    3.0
    """

    #: The numbers that the metric gathers, with what they are at the beginning.
    initial: Mapping[str, float] = {}

    def __init__(self, name: str | None = None) -> None:
        self.name = type(self).__name__.lower() if name is None else name
        self.reset()

    def reset(self) -> None:
        """Begins anew."""
        for name, value in self.initial.items():
            setattr(self, name, value)

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Takes one batch into account."""
        raise NotImplementedError(f"{type(self).__name__}.update")

    def result(self) -> Any:
        """The figure over all batches since the last reset."""
        raise NotImplementedError(f"{type(self).__name__}.result")

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Takes one batch into account; no tape hears of it."""
        with paused():
            self.update(*args, **kwargs)

    def checkpoint_state(self) -> Mapping[str, Any]:
        """What has been gathered."""
        return {name: getattr(self, name) for name in self.initial}

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Takes over what `checkpoint_state` gave."""
        for name in self.initial:
            setattr(self, name, state[name])

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}: {self.result()}>"


class _Gathering(Metric):
    """The weighted sum of values, and that of the weights."""

    initial: Mapping[str, float] = {"total": 0.0, "weight": 0.0}
    total: float
    weight: float

    def gather(self, values: TensorLike, weights: TensorLike) -> None:
        """Adds values of any shape, with weights that broadcast to them (or None)."""
        tensor = from_any(values)
        if weights is None:
            self.total += _total(tensor)
            self.weight += tensor.size
            return
        given = from_any(weights, None, tensor.device)
        if broadcast_shapes(given.shape, tensor.shape) != tensor.shape:
            raise errors.ShapeError(
                f"{self.name}: weights of shape {given.shape} do not broadcast to values of "
                f"shape {tensor.shape}"
            )
        self.total += _total(_double(tensor) * _double(given))
        self.weight += _total(CALL["broadcast_to"](given, tensor.shape))

    def mean(self) -> float:
        """The weighted mean; 0 before there are values."""
        return self.total / self.weight if self.weight else 0.0


def _double(tensor: Tensor) -> Tensor:
    return CALL["astype"](tensor, dtypes.float64)


def _total(tensor: Tensor) -> float:
    return float(CALL["sum"](_double(tensor)))


class Sum(_Gathering):
    """The weighted sum of all values.

    >>> total = pb.metrics.Sum()
    >>> total([1.0, 2.0]), total(3.0)
    (None, None)
    >>> total.result()
    6.0
    """

    def update(self, values: TensorLike, weights: TensorLike = None) -> None:
        """Adds values of any shape.

        Raises:
            ShapeError: for weights that do not broadcast to the values.
        """
        self.gather(values, weights)

    def result(self) -> float:
        """The sum."""
        return self.total


class Mean(Sum):
    """The weighted mean of all values.

    >>> mean = pb.metrics.Mean("loss")
    >>> mean(0), mean(5)
    (None, None)
    >>> mean.result()
    2.5
    >>> mean([8, 9])
    >>> mean.result()
    5.5
    """

    def result(self) -> float:
        """The mean; 0 before there are values."""
        return self.mean()


class _OfPairs(_Gathering):
    """The mean of a value for each pair of a target and a prediction."""

    def update(
        self, targets: TensorLike, predictions: TensorLike, weights: TensorLike = None
    ) -> None:
        """Takes a batch of targets and predictions into account.

        Raises:
            ShapeError: when they do not fit.
        """
        predictions = from_any(predictions)
        targets = from_any(targets, None, predictions.device)
        expected = self.expected(predictions.shape)
        if targets.shape != expected:
            raise errors.ShapeError(
                f"{self.name}: targets of shape {targets.shape} do not fit predictions of shape "
                f"{predictions.shape}; {expected} is expected"
            )
        self.gather(self.compare(targets, predictions), weights)

    def expected(self, predictions: Shape) -> Shape:
        """The shape that targets must have."""
        return predictions

    def compare(self, targets: Tensor, predictions: Tensor) -> Any:
        """The value for each pair."""
        raise NotImplementedError(f"{type(self).__name__}.compare")

    def result(self) -> float:
        """The mean over all pairs; 0 before there are any."""
        return self.mean()


class _OfClasses(_OfPairs):
    """The same for classes, given by number, and a score for each class."""

    def expected(self, predictions: Shape) -> Shape:
        """Predictions without the last axis, that of the classes."""
        return predictions[:-1]


class Accuracy(_OfPairs):
    """How often predictions are equal to targets.

    >>> accuracy = pb.metrics.Accuracy()
    >>> accuracy([1, 2, 3, 4], [1, 2, 3, 0])
    >>> accuracy.result()
    0.75
    """

    def compare(self, targets: Tensor, predictions: Tensor) -> Any:
        """Whether they are equal."""
        return targets == predictions


class SparseCategoricalAccuracy(_OfClasses):
    """How often the largest of the scores (..., classes) is that of the target, a class (...).

    >>> accuracy = pb.metrics.SparseCategoricalAccuracy()
    >>> accuracy([1, 0], [[0.1, 0.9], [0.2, 0.8]])
    >>> accuracy.result()
    0.5
    """

    def compare(self, targets: Tensor, predictions: Tensor) -> Any:
        """Whether the class is right."""
        return CALL["argmax"](predictions, axis=-1) == targets


class CategoricalAccuracy(_OfPairs):
    """How often the largest of the scores is where the largest target is, as in one-hot rows.

    >>> accuracy = pb.metrics.CategoricalAccuracy()
    >>> accuracy([[0, 1], [1, 0]], [[0.1, 0.9], [0.2, 0.8]])
    >>> accuracy.result()
    0.5
    """

    def compare(self, targets: Tensor, predictions: Tensor) -> Any:
        """Whether the class is right."""
        return CALL["argmax"](predictions, axis=-1) == CALL["argmax"](targets, axis=-1)


class SparseTopKAccuracy(_OfClasses):
    """How often the target, a class (...), is among the k largest scores (..., classes).

    >>> accuracy = pb.metrics.SparseTopKAccuracy(2)
    >>> accuracy([0, 2], [[0.3, 0.5, 0.2], [0.3, 0.5, 0.2]])
    >>> accuracy.result()
    0.5
    """

    def __init__(self, k: int = 5, name: str | None = None) -> None:
        super().__init__(name)
        self.k = k

    def compare(self, targets: Tensor, predictions: Tensor) -> Any:
        """Whether fewer than k scores are above that of the target."""
        column = CALL["reshape"](targets, (*targets.shape, 1))
        own = CALL["take_along_axis"](predictions, column, axis=-1)
        return CALL["count_nonzero"](predictions > own, axis=-1) < self.k


class BinaryAccuracy(_OfPairs):
    """How often predictions are on the side of a threshold on which the targets are.

    >>> accuracy = pb.metrics.BinaryAccuracy()
    >>> accuracy([0.0, 1.0], [0.3, 0.4])
    >>> accuracy.result()
    0.5
    """

    def __init__(self, threshold: float = 0.5, name: str | None = None) -> None:
        super().__init__(name)
        self.threshold = threshold

    def compare(self, targets: Tensor, predictions: Tensor) -> Any:
        """Whether both are above the threshold, or neither."""
        return (predictions > self.threshold) == (targets > self.threshold)


class MeanSquaredError(_OfPairs):
    """The mean of (prediction - target)**2.

    >>> error = pb.metrics.MeanSquaredError()
    >>> error([1.0, 2.0], [1.0, 4.0])
    >>> error.result()
    2.0
    """

    def compare(self, targets: Tensor, predictions: Tensor) -> Any:
        """The squared differences."""
        return CALL["squared_error"](predictions, targets)


class MeanAbsoluteError(_OfPairs):
    """The mean of |prediction - target|.

    >>> error = pb.metrics.MeanAbsoluteError()
    >>> error([1.0, 2.0], [1.0, 4.0])
    >>> error.result()
    1.0
    """

    def compare(self, targets: Tensor, predictions: Tensor) -> Any:
        """The absolute differences."""
        return CALL["absolute_error"](predictions, targets)
