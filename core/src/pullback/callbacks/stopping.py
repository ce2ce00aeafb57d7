"""Callbacks that end training: when it no longer helps, or has gone wrong."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pullback import errors
from pullback.callbacks.watching import Watch
from pullback.tensor import Tensor
from pullback.training.callback import Callback

__all__ = ["EarlyStopping", "TerminateOnNaN"]


class EarlyStopping(Callback):
    """Ends training when a figure has not become better for some epochs.

    Args:
        monitor: the figure, such as "val_loss" or "accuracy".
        patience: after so many epochs without a better value training ends.
        min_delta: a value is better only by more than this.
        mode: "min" or "max" for what is better; "auto" takes it from the name.
        restore_best_weights: whether the variables of the best epoch are put back at the end.
        start_from_epoch: epochs before this one are not watched.

    >>> model = pb.Sequential([pb.layers.Dense(1)])
    >>> model.compile(pb.optimizers.SGD(0.0), "mean_squared_error")
    >>> stop = pb.callbacks.EarlyStopping("loss", patience=2)
    >>> history = model.fit([[1.0]], [[1.0]], epochs=10, callbacks=[stop], verbose=False)
    >>> len(history.epoch)
    3

    Raises:
        InputValueError: for a patience below 1; in training, for a figure that there is not.
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
        if patience < 1:
            raise errors.InputValueError(f"patience is at least 1 epoch, got {patience}")
        self.patience = patience
        self.restore_best_weights = restore_best_weights
        self.start_from_epoch = start_from_epoch
        #: The epoch with the best value, by number.
        self.best_epoch: int | None = None
        self._watch = Watch(monitor, mode, min_delta)
        self._weights: dict[str, Any] = {}

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any]) -> None:
        """Looks at the figure."""
        value = self._watch.value(logs, self.run)
        if value is None or epoch < self.start_from_epoch:
            return
        if self._watch.improves(value):
            self.best_epoch = epoch
            if self.restore_best_weights:
                # Buffers never change: to keep the values is to keep the tensors.
                variables = self.model.named_variables
                self._weights = {path: variables[path].value for path in variables}
        elif self._watch.waited >= self.patience:
            self.model.stop_training = True
            self._put_back()

    def on_train_end(self, logs: Mapping[str, Any]) -> None:
        """Puts the best variables back where training ended by itself."""
        self._put_back()

    def _put_back(self) -> None:
        variables = self.model.named_variables
        for path, value in self._weights.items():
            variables[path].assign(value)

    def checkpoint_state(self) -> Mapping[str, Any]:
        """The best value, and the variables that gave it."""
        weights = {
            path: value.numpy() if isinstance(value, Tensor) else value
            for path, value in self._weights.items()
        }
        watched = self._watch.checkpoint_state()
        return {**watched, "best_epoch": self.best_epoch, "weights": weights}

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Takes over what `checkpoint_state` gave."""
        self._watch.restore_state(state)
        self.best_epoch = state["best_epoch"]
        self._weights = dict(state["weights"])


class TerminateOnNaN(Callback):
    """Raises an error as soon as the loss is not a number, or infinite.

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
        """Looks at the loss."""
        loss = logs.get("loss")
        if loss is not None and not math.isfinite(loss):
            raise errors.TrainingError(
                f"the loss became {loss} in epoch {self.run.epoch + 1}, step {batch + 1} (step "
                f"{self.run.total} of all); lower the learning rate, clip the gradients, or look "
                f"for inputs that are not finite"
            )
