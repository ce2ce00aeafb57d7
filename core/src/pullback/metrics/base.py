"""`Metric`, and the sums and means on which most metrics are based."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from copy import copy
from typing import Any, Self

import numpy as np

from pullback import dtypes, errors
from pullback._dispatch.convert import from_any
from pullback._dispatch.host_state import HostState
from pullback._dispatch.recording import LOCAL, announce, effect, lifted, reject_use
from pullback._symbols import TRACES
from pullback.devices import Device, as_device
from pullback.ops.data_types import astype
from pullback.ops.manipulation import broadcast_to
from pullback.ops.precision import widest
from pullback.ops.reductions import count_nonzero
from pullback.ops.reductions import sum as reduce_sum
from pullback.shapes import Shape
from pullback.tensor import Tensor, TensorLike, wrap

__all__ = [
    "Mean",
    "Metric",
    "PairwiseMean",
    "Sum",
    "WeightedSum",
    "double",
    "gives_items",
    "item_weights",
    "name_of",
    "optional_weights",
]


class Metric:
    """The base of every metric. A subclass writes `update`, `result` and the initial state.

    Args:
        name: a name for messages, logs and summaries; the name of the class if None.

    >>> class Largest(pb.metrics.Metric):
    ...     initial = {"largest": float("-inf")}
    ...     def update(self, values):
    ...         self.largest = pb.maximum(self.largest, pb.max(values))
    ...     def result(self):
    ...         return float(self.largest)
    >>> largest = Largest()
    >>> largest([1.0, 3.0]), largest([2.0])
    (None, None)
    >>> largest.result()
    3.0
    """

    #: The attributes that are the state, with their initial values: numbers, or None for an
    #: attribute that becomes a tensor. A captured function reads and sets them at each run.
    initial: Mapping[str, float | None] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Has the attributes that are the state be host states."""
        super().__init_subclass__(**kwargs)
        for name in cls.initial:
            # A property keeps the state in its own way.
            if not hasattr(type(getattr(cls, name, None)), "__get__"):
                setattr(cls, name, _StateAttribute(name))

    def __init__(self, name: str | None = None) -> None:
        words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?=[A-Z][a-z])(?<!^)", "_", type(self).__name__)
        self.name = re.sub("_+", "_", words).lower() if name is None else name
        self.reset()

    def reset(self) -> None:
        """Sets the state back to its initial values."""
        for name, value in self.initial.items():
            setattr(self, name, value)

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Adds a batch."""
        raise NotImplementedError(f"{type(self).__name__}.update")

    def result(self) -> Any:
        """Returns the value over all batches since the last reset."""
        raise NotImplementedError(f"{type(self).__name__}.result")

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Adds a batch; no tape records it."""
        if TRACES.count:
            names = [name for name in vars(self) if name[0] != "_" and name not in self.initial]
            announce(self, self.update, names)
        # `with paused()`, whose three calls would take as long as the sum of a number.
        state = LOCAL.state
        state.paused += 1
        state.recording = False
        try:
            self.update(*args, **kwargs)
        finally:
            state.paused -= 1
            if state.tapes:
                state.update()

    def __copy__(self) -> Self:
        copied = type(self).__new__(type(self))
        for name, value in vars(self).items():
            vars(copied)[name] = copy(value) if type(value) is HostState else value
        return copied

    def checkpoint_state(self) -> Mapping[str, Any]:
        """The state, by name."""
        values = {name: getattr(self, name) for name in self.initial}
        return {
            name: value.numpy() if isinstance(value, Tensor) else value
            for name, value in values.items()
        }

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Restores the result of `checkpoint_state`."""
        for name in self.initial:
            value = state[name]
            if isinstance(value, np.ndarray) and value.dtype == dtypes.float64:
                value = value.astype(widest(as_device(None)), copy=False)
            setattr(self, name, from_any(value) if isinstance(value, np.ndarray) else value)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}: {self.result()}>"


class _StateAttribute:
    """An attribute of a metric that is in a host state."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, metric: Metric | None, owner: type | None = None) -> Any:
        if metric is None:
            return self
        try:
            state: HostState = metric.__dict__[self._name]
        except KeyError:
            raise AttributeError(
                f"{type(metric).__name__} has no {self._name} before reset() has been called"
            ) from None
        return state.get() if TRACES.count else state.value

    def __set__(self, metric: Metric, value: Any) -> None:
        state = metric.__dict__.get(self._name)
        if state is None:
            name = f"{self._name} of {type(metric).__name__}"
            vars(metric)[self._name] = HostState(value, name)
        else:
            state.set(value)


def double(tensor: Tensor) -> Tensor:
    """Returns the tensor in double precision, in which metrics accumulate, if its device has it."""
    return astype(tensor, widest(tensor.device))


def item_weights(weights: TensorLike, shape: Shape, name: str, device: Device) -> Tensor:
    """Returns weights in double precision, with as many axes as the values.

    The axes of the weights are the first axes of the values: the weight of an item holds for all
    of its values.

    Args:
        weights: a number, or an array.
        shape: the shape of the values.
        name: the name of the metric, for messages.
        device: the device of the values.

    Raises:
        ShapeError: for weights of another shape.
    """
    tensor = double(from_any(weights, None, device))
    fits = tensor.ndim <= len(shape) and all(
        size in (1, expected) for size, expected in zip(tensor.shape, shape, strict=False)
    )
    if not fits:
        raise errors.ShapeError(
            f"{name}: weights of shape {tensor.shape} do not fit values of shape {shape}; the "
            f"axes of weights must be the first axes of the values"
        )
    return tensor.reshape((*tensor.shape, *[1] * (len(shape) - tensor.ndim)))


def optional_weights(
    weights: TensorLike | None, shape: Shape, name: str, device: Device
) -> Tensor | None:
    """Returns `item_weights`, or None for no weights."""
    return None if weights is None else item_weights(weights, shape, name, device)


def gives_items(function: Callable[..., Any]) -> bool:
    """Returns whether a loss takes `reduction="none"`, for the losses of the items."""
    if "reduction" in getattr(function, "keywords", ()):  # filled in by functools.partial
        return False
    try:
        return "reduction" in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


def name_of(function: Callable[..., Any]) -> str:
    """Returns the name of a function, also of a `functools.partial`."""
    inner = getattr(function, "func", function)
    return str(getattr(inner, "__name__", type(inner).__name__))


def _sum_of(values: Tensor) -> Tensor:
    """Returns the sum in double precision; booleans are counted, and one number is its own sum."""
    kind = dtypes.kind(values.dtype)
    if kind == dtypes.BOOL:
        return count_nonzero(values)
    if kind == dtypes.CMPLX:
        values = double(values)  # which says that a part would be dropped
    if values._array.shape:
        return reduce_sum(values, dtype=widest(values._device))
    if values._node is None and not TRACES.count:
        return values
    # Without its node, which has what a gradient of the number needs.
    number = lifted(values)
    return wrap(number._array, number._device)


class WeightedSum(Metric):
    """The base of metrics that keep the weighted sum of values and the sum of the weights."""

    initial: Mapping[str, float | None] = {"total": 0.0, "weight": 0.0}

    # Sums are read in groups: reading after every batch would wait for the device every time.
    _MAX_PENDING = 64

    def reset(self) -> None:
        """Sets the state back to its initial values."""
        self._total = self._weight = 0.0
        #: Sums of batches, each with its factor and its weight.
        self._pending: list[tuple[Tensor, float, Tensor | float]] = []

    def _read_pending(self) -> None:
        reject_use(f"reads the metric {self.name!r}", "read its result() after the call")
        pending, self._pending = self._pending, []
        for total, factor, weight in pending:
            self._total += float(total) * factor
            self._weight += float(weight)

    @property
    def total(self) -> float:
        """The sum of the values times their weights."""
        self._read_pending()
        return self._total

    @property
    def weight(self) -> float:
        """The sum of the weights."""
        self._read_pending()
        return self._weight

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Restores the result of `checkpoint_state`."""
        self.reset()
        self._total, self._weight = float(state["total"]), float(state["weight"])

    def accumulate(self, values: TensorLike, weights: TensorLike | None) -> None:
        """Adds values of any shape, with the weights of the items or None."""
        tensor = from_any(values)
        if weights is None or isinstance(weights, (int, float)):
            number = 1.0 if weights is None else float(weights)
            effect(self._add, _sum_of(tensor), number, number * tensor.size)
        else:
            factor = item_weights(weights, tensor.shape, self.name, tensor.device)
            counted = reduce_sum(broadcast_to(factor, tensor.shape))
            effect(self._add, reduce_sum(double(tensor) * factor), 1.0, counted)

    def _add(self, total: Tensor, factor: float, weight: Tensor | float) -> None:
        self._pending.append((total, factor, weight))
        if len(self._pending) >= self._MAX_PENDING:
            self._read_pending()

    def mean(self) -> float:
        """Returns the weighted mean; 0 before there are values."""
        return self.total / self.weight if self.weight else 0.0


class Sum(WeightedSum):
    """The weighted sum of all values.

    >>> total = pb.metrics.Sum()
    >>> total([1.0, 2.0]), total(3.0)
    (None, None)
    >>> total.result()
    6.0
    """

    def update(self, values: TensorLike, weights: TensorLike | None = None) -> None:
        """Adds values of any shape.

        Raises:
            ShapeError: for weights of another shape.
        """
        self.accumulate(values, weights)

    def result(self) -> float:
        """Returns the sum."""
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
        """Returns the mean; 0 before there are values."""
        return self.mean()


class PairwiseMean(WeightedSum):
    """The base of means of a value for each pair of a target and a prediction."""

    def update(
        self, targets: TensorLike, predictions: TensorLike, weights: TensorLike | None = None
    ) -> None:
        """Adds a batch of targets and predictions.

        Raises:
            ShapeError: for targets of another shape than expected.
        """
        predictions = from_any(predictions)
        targets = from_any(targets, None, predictions.device)
        expected = self.expected(predictions.shape)
        if targets.shape != expected:
            raise errors.ShapeError(
                f"{self.name}: targets of shape {targets.shape} do not fit predictions of shape "
                f"{predictions.shape}; expected {expected}"
            )
        self.accumulate(self.compare(targets, predictions), weights)

    def expected(self, predictions: Shape) -> Shape:
        """Returns the shape that targets must have."""
        return predictions

    def compare(self, targets: Tensor, predictions: Tensor) -> Tensor:
        """Returns the value for each pair."""
        raise NotImplementedError(f"{type(self).__name__}.compare")

    def result(self) -> float:
        """Returns the mean over all pairs; 0 before there are any."""
        return self.mean()
