"""`Metric`, and the sums and means that most metrics are."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from pullback import dtypes, errors
from pullback._dispatch.convert import from_any
from pullback._dispatch.recording import paused
from pullback.ops import reductions
from pullback.ops.data_types import astype
from pullback.ops.manipulation import broadcast_to
from pullback.shapes import Shape
from pullback.tensor import Tensor, TensorLike

__all__ = [
    "Gathering",
    "Mean",
    "Metric",
    "OfPairs",
    "Sum",
    "double",
    "gives_items",
    "item_weights",
    "name_of",
]


class Metric:
    """The base of every metric. A subclass writes `update`, `result` and what it begins with.

    Args:
        name: a name for messages, figures and summaries; that of the class if None.

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

    #: What the metric gathers, with what that is at the beginning: numbers, or None for what
    #: becomes a tensor.
    initial: Mapping[str, float | None] = {}

    def __init__(self, name: str | None = None) -> None:
        words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?=[A-Z][a-z])(?<!^)", "_", type(self).__name__)
        self.name = re.sub("_+", "_", words).lower() if name is None else name
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
        found = {name: getattr(self, name) for name in self.initial}
        return {
            name: value.numpy() if isinstance(value, Tensor) else value
            for name, value in found.items()
        }

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Takes over what `checkpoint_state` gave."""
        for name in self.initial:
            value = state[name]
            setattr(self, name, from_any(value) if isinstance(value, np.ndarray) else value)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}: {self.result()}>"


def double(tensor: Tensor) -> Tensor:
    """The tensor in double precision, in which figures are gathered."""
    found: Tensor = astype(tensor, dtypes.float64)
    return found


def item_weights(weights: TensorLike, shape: Shape, what: str, device: Any) -> Any:
    """Weights in as many axes as the values have, in double precision; None where there are none.

    The axes of the weights are the first ones of the values: one weight for each item of a batch
    holds for all of its values.

    Args:
        weights: a number, or an array.
        shape: that of the values.
        what: whose values they are, for messages.
        device: where the values are.

    Raises:
        ShapeError: when the weights do not fit.
    """
    if weights is None:
        return None
    tensor = double(from_any(weights, None, device))
    fits = tensor.ndim <= len(shape) and all(
        size in (1, there) for size, there in zip(tensor.shape, shape, strict=False)
    )
    if not fits:
        raise errors.ShapeError(
            f"{what}: weights of shape {tensor.shape} do not fit values of shape {shape}; the "
            f"axes of weights are the first axes of the values"
        )
    return tensor.reshape((*tensor.shape, *[1] * (len(shape) - tensor.ndim)))


def gives_items(function: Callable[..., Any]) -> bool:
    """Whether a loss can be asked for those of the items: `reduction="none"`."""
    if "reduction" in getattr(function, "keywords", ()):  # filled in by functools.partial
        return False
    try:
        return "reduction" in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


def name_of(function: Callable[..., Any]) -> str:
    """The name of a function, also of one with arguments filled in."""
    inner = getattr(function, "func", function)
    return str(getattr(inner, "__name__", type(inner).__name__))


class Gathering(Metric):
    """The weighted sum of values, and that of the weights."""

    initial: Mapping[str, float | None] = {"total": 0.0, "weight": 0.0}

    # Sums that the device may still be computing: to read them after every batch would be to wait
    # for it after every batch.
    _MANY = 64

    def reset(self) -> None:
        """Begins anew."""
        self._total = self._weight = 0.0
        self._pending: list[tuple[Tensor, Tensor | float]] = []

    def _settle(self) -> None:
        pending, self._pending = self._pending, []
        for total, weight in pending:
            self._total += float(total)
            self._weight += float(weight)

    @property
    def total(self) -> float:
        """The sum of the values, each times its weight."""
        self._settle()
        return self._total

    @property
    def weight(self) -> float:
        """The sum of the weights."""
        self._settle()
        return self._weight

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Takes over what `checkpoint_state` gave."""
        self.reset()
        self._total, self._weight = float(state["total"]), float(state["weight"])

    def gather(self, values: TensorLike, weights: TensorLike) -> None:
        """Adds values of any shape, with the weights of the items (or None)."""
        tensor = from_any(values)
        if weights is None or isinstance(weights, (int, float)):
            share = 1.0 if weights is None else float(weights)
            total = reductions.sum(double(tensor))
            self._pending.append((total if share == 1 else total * share, share * tensor.size))
        else:
            factor = item_weights(weights, tensor.shape, self.name, tensor.device)
            counted = reductions.sum(broadcast_to(factor, tensor.shape))
            self._pending.append((reductions.sum(double(tensor) * factor), counted))
        if len(self._pending) >= self._MANY:
            self._settle()

    def mean(self) -> float:
        """The weighted mean; 0 before there are values."""
        return self.total / self.weight if self.weight else 0.0


class Sum(Gathering):
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
            ShapeError: for weights that do not fit the values.
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


class OfPairs(Gathering):
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
