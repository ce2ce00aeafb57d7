"""Callbacks that change the learning rate."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from pullback import errors
from pullback.callbacks.watching import MetricWatch
from pullback.optimizers import Optimizer
from pullback.shapes import as_int, check_number
from pullback.training.callback import Callback
from pullback.variable import Variable

__all__ = ["LearningRateSchedule", "ReduceLearningRateOnPlateau", "rate_of"]


def rate_of(optimizer: Optimizer) -> float:
    """Returns the learning rate of the next step."""
    return float(optimizer.learning_rate)


def _set(optimizer: Optimizer, rate: float) -> None:
    if isinstance(optimizer.learning_rate, Variable):
        optimizer.learning_rate.assign(rate)
    else:
        optimizer.learning_rate = rate


class _ChangesRate(Callback):
    """The base of callbacks that change the learning rate; checkpoints hold it."""

    def _set(self, rate: float) -> None:
        _set(self.model.compiled.optimizer, rate)

    def checkpoint_state(self) -> Mapping[str, Any]:
        """Returns the learning rate, if it is a number."""
        optimizer = self.model.compiled.optimizer
        return {"rate": None if optimizer.schedule is not None else rate_of(optimizer)}

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Restores a state from `checkpoint_state`."""
        if state["rate"] is not None:
            self._set(float(state["rate"]))


class LearningRateSchedule(_ChangesRate):
    """Sets the learning rate before each epoch.

    Pass a schedule of steps, such as those in `pb.optimizers.schedules`, to the optimizer instead.

    Args:
        schedule: a function of the number of the epoch, or of that and the current rate.

    >>> model = pb.Sequential([pb.layers.Dense(1)])
    >>> model.compile("sgd", "mean_squared_error")
    >>> halve = pb.callbacks.LearningRateSchedule(lambda epoch, rate: rate / 2 if epoch else 0.1)
    >>> _ = model.fit([[1.0]], [[1.0]], epochs=3, callbacks=[halve], verbose=False)
    >>> model.compiled.optimizer.learning_rate
    0.025

    Raises:
        InputTypeError: for an object that cannot be called.
    """

    def __init__(self, schedule: Callable[..., float]) -> None:
        if not callable(schedule):
            raise errors.InputTypeError(
                f"a schedule must be a function of the number of the epoch, got {schedule!r}"
            )
        self.schedule = schedule
        try:
            needed = [
                parameter
                for parameter in inspect.signature(schedule).parameters.values()
                if parameter.default is parameter.empty
                and parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
            ]
        except (TypeError, ValueError):
            needed = []
        self._takes_rate = len(needed) == 2

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, Any]) -> None:
        """Sets the rate, unless the epoch resumes after an interruption."""
        if self.run.step:
            return
        optimizer = self.model.compiled.optimizer
        arguments = (epoch, rate_of(optimizer)) if self._takes_rate else (epoch,)
        self._set(float(self.schedule(*arguments)))


class ReduceLearningRateOnPlateau(_ChangesRate):
    """Lowers the learning rate when a metric has not improved for some epochs.

    Args:
        monitor: the metric, such as "val_loss" or "accuracy".
        factor: the factor that the rate is multiplied by.
        patience: the number of epochs without improvement after which the rate changes.
        min_delta: the least change that counts as an improvement.
        mode: "min" or "max", the better values; "auto" decides by the name.
        cooldown: the number of epochs after a change that do not count.
        min_rate: the lowest rate.

    >>> model = pb.Sequential([pb.layers.Dense(1)])
    >>> model.compile(pb.optimizers.SGD(0.5), lambda targets, y: 0 * pb.sum(y))
    >>> lower = pb.callbacks.ReduceLearningRateOnPlateau("loss", factor=0.1, patience=2)
    >>> _ = model.fit([[1.0]], [[1.0]], epochs=3, callbacks=[lower], verbose=False)
    >>> model.compiled.optimizer.learning_rate
    0.05

    Raises:
        InputValueError: for a factor that is not between 0 and 1, or a patience below 1.
    """

    def __init__(
        self,
        monitor: str = "val_loss",
        *,
        factor: float = 0.1,
        patience: int = 10,
        min_delta: float = 1e-4,
        mode: str = "auto",
        cooldown: int = 0,
        min_rate: float = 0.0,
    ) -> None:
        check_number(factor, "factor")
        check_number(min_rate, "min_rate")
        if not 0 < factor < 1:
            raise errors.InputValueError(f"factor must be between 0 and 1, got {factor}")
        if as_int(patience, "patience: an integer") < 1:
            raise errors.InputValueError(f"patience must be at least 1 epoch, got {patience}")
        self.factor = factor
        self.patience = patience
        self.cooldown = cooldown
        self.min_rate = min_rate
        self._resting = 0
        self._watch = MetricWatch(monitor, mode, min_delta)

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any]) -> None:
        """Lowers the rate if the metric has not improved."""
        value = self._watch.value(logs, self.run)
        if value is None:
            return
        better = self._watch.improves(value)
        if self._resting:
            self._resting -= 1
            self._watch.waited = 0
        elif not better and self._watch.waited >= self.patience:
            rate = rate_of(self.model.compiled.optimizer)
            self._set(max(rate * self.factor, self.min_rate))
            self._resting, self._watch.waited = self.cooldown, 0

    def checkpoint_state(self) -> Mapping[str, Any]:
        """Returns the learning rate, and the best value of the metric."""
        watched = self._watch.checkpoint_state()
        return {**super().checkpoint_state(), **watched, "resting": self._resting}

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Restores a state from `checkpoint_state`."""
        super().restore_state(state)
        self._watch.restore_state(state)
        self._resting = int(state["resting"])
