"""`tfe.metrics`: pullback's metrics, with results that are tensors."""

from __future__ import annotations

from typing import Any

import pullback as pb
from pullback import dtypes, metrics
from pullback.tensor import TensorLike

__all__ = [
    "Accuracy", "BinaryAccuracy", "CategoricalAccuracy", "Mean", "Metric", "SparseAccuracy",
]  # fmt: skip


class Metric(metrics.Metric):
    """The base of metrics; a subclass writes `update`, `result` and its `initial` numbers."""

    def result(self) -> Any:
        """The value over all calls, as a tensor."""
        return pb.asarray(super().result(), dtype=dtypes.float64)

    def init_variables(self) -> None:
        """Resets the metric."""
        self.reset()

    @property
    def variables(self) -> list[Any]:
        """None: sums are saved as the metric's state."""
        return []


class Mean(Metric, metrics.Mean):
    """The weighted mean of all values.

    >>> import pullback.compat.tensorflow as tf
    >>> m = tf.contrib.eager.metrics.Mean("loss")
    >>> m(0), m(5)
    (None, None)
    >>> m.result().numpy().item()
    2.5
    """

    def __init__(self, name: str | None = None, dtype: Any = None, **_: Any) -> None:
        super().__init__(name)


class OfLabels(Metric):
    """The base of those that compare predictions with labels."""

    def update(self, labels: TensorLike, predictions: TensorLike, weights: Any = None) -> None:
        """Takes a batch into account."""
        super().update(labels, predictions, weights)


class Accuracy(OfLabels, metrics.Accuracy):
    """The fraction of predictions that equal their labels.

    >>> import pullback.compat.tensorflow as tf
    >>> accuracy = tf.contrib.eager.metrics.Accuracy()
    >>> accuracy(labels=[1, 2], predictions=[1, 0])
    >>> accuracy.result().numpy().item()
    0.5
    """

    def __init__(self, name: str | None = None, dtype: Any = None, **_: Any) -> None:
        super().__init__(name)


class CategoricalAccuracy(OfLabels, metrics.CategoricalAccuracy):
    """The fraction of rows whose largest prediction is at the largest label."""

    def __init__(self, name: str | None = None, dtype: Any = None, **_: Any) -> None:
        super().__init__(name)


class SparseAccuracy(OfLabels, metrics.SparseCategoricalAccuracy):
    """The fraction of rows whose largest prediction is that of the label."""

    def __init__(self, name: str | None = None, dtype: Any = None, **_: Any) -> None:
        super().__init__(name)


class BinaryAccuracy(OfLabels, metrics.BinaryAccuracy):
    """The fraction of predictions on the same side of a threshold as their labels."""

    def __init__(self, threshold: float = 0.5, name: str | None = None, **_: Any) -> None:
        super().__init__(threshold, name)
