"""Callbacks that end training: when it no longer helps, or fails."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pullback import errors
from pullback.callbacks.watching import MetricWatch
from pullback.shapes import as_int
from pullback.tensor import Tensor, TensorLike
from pullback.training.callback import Callback

__all__ = ["EarlyStopping", "TerminateOnNaN"]


class EarlyStopping(Callback):
    """Ends training when a metric has not improved for some epochs.

    Args:
        monitor: the metric, such as "val_loss" or "accuracy".
        patience: the number of epochs without improvement after which training ends.
        min_delta: the least change that counts as an improvement.
        mode: "min" or "max", the better values; "auto" decides by the name.
        restore_best_weights: True to restore the variables of the best epoch at the end.
        start_from_epoch: the first epoch that counts.

    >>> model = pb.Sequential([pb.layers.Dense(1)])
    >>> model.compile(pb.optimizers.SGD(0.0), "mean_squared_error")
    >>> stop = pb.callbacks.EarlyStopping("loss", patience=2)
    >>> history = model.fit([[1.0]], [[1.0]], epochs=10, callbacks=[stop], verbose=False)
    >>> len(history.epoch)
    3

    Raises:
        InputValueError: for a patience below 1; in training, for an unknown metric.
    """

    def __init__(
        self,
        monitor: str = "val_loss",
        *,
        patience: int = 1,
        min_delta: float = 0.0,
        mode: str = "auto",
        restore_best_weights: bool = False,
        start_from_epoch: int = 0,
    ) -> None:
        if as_int(patience, "patience: an integer") < 1:
            raise errors.InputValueError(f"patience must be at least 1 epoch, got {patience}")
        self.patience = patience
        self.restore_best_weights = restore_best_weights
        self.start_from_epoch = start_from_epoch
        #: The number of the epoch with the best value.
        self.best_epoch: int | None = None
        self._watch = MetricWatch(monitor, mode, min_delta)
        self._weights: dict[str, TensorLike] = {}

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any]) -> None:
        """Ends training if the metric has not improved."""
        value = self._watch.value(logs, self.run)
        if value is None or epoch < self.start_from_epoch:
            return
        if self._watch.improves(value):
            self.best_epoch = epoch
            if self.restore_best_weights:
                # Buffers never change: keeping the tensors keeps the values.
                variables = self.model.named_variables
                self._weights = {path: variables[path].value for path in variables}
        elif self._watch.waited >= self.patience:
            self.model.stop_training = True
            self._restore()

    def on_train_end(self, logs: Mapping[str, Any]) -> None:
        """Restores the best variables if training ended by itself."""
        self._restore()

    def _restore(self) -> None:
        variables = self.model.named_variables
        for path, value in self._weights.items():
            variables[path].assign(value)

    def checkpoint_state(self) -> Mapping[str, Any]:
        """Returns the best value, and its variables."""
        weights = {
            path: value.numpy() if isinstance(value, Tensor) else value
            for path, value in self._weights.items()
        }
        watched = self._watch.checkpoint_state()
        return {**watched, "best_epoch": self.best_epoch, "weights": weights}

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Restores a state from `checkpoint_state`."""
        self._watch.restore_state(state)
        self.best_epoch = state["best_epoch"]
        self._weights = dict(state["weights"])


class TerminateOnNaN(Callback):
    """Raises an error as soon as the loss is NaN or infinite.

    It reads the loss after every step, which waits for the device.

    >>> model = pb.Sequential([pb.layers.Dense(1)])
    >>> model.compile(pb.optimizers.SGD(1e30), "mean_squared_error")
    >>> stop = pb.callbacks.TerminateOnNaN()
    >>> try:
    ...     model.fit([[1.0]], [[3.0]], epochs=9, callbacks=[stop], verbose=False)
    ... except pb.errors.TrainingError as error:
    ...     print(str(error)[:30])
    the loss became inf in epoch 2
    """

    def on_train_batch_end(self, batch: int, logs: Mapping[str, Any]) -> None:
        """Checks the loss."""
        loss = logs.get("loss")
        if loss is not None and not math.isfinite(loss):
            raise errors.TrainingError(
                f"the loss became {loss} in epoch {self.run.epoch + 1}, step {batch + 1} (step "
                f"{self.run.total} in total); lower the learning rate, clip the gradients, or "
                f"check the inputs for NaN and infinity"
            )
