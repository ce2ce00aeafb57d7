"""`Callback`: methods that run at the events of training, evaluation and prediction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pullback import errors
from pullback._notebook import table_html
from pullback.training.model import TrainedModel
from pullback.training.types import Logs

if TYPE_CHECKING:
    from pullback.training.run import Run

__all__ = ["Callback", "Callbacks", "History"]


class Callback:
    """The base of every callback: a subclass overrides the methods for the events it needs.

    `self.model` is the model, `self.run` the progress: `run.epoch` of `run.epochs`, `run.step` of
    `run.steps` in this epoch, and `run.total` steps in all epochs. Setting
    `self.model.stop_training = True` ends training after the step. Checkpoints hold the state of
    callbacks with `checkpoint_state` and `restore_state`.

    Metrics are computed when they are read: a callback that does not read them does not wait for
    the device.

    >>> class Best(pb.callbacks.Callback):
    ...     def on_epoch_end(self, epoch, logs):
    ...         print(f"epoch {epoch}: loss {logs['loss']:.2f}")
    >>> model = pb.Sequential([pb.layers.Dense(1, kernel_initializer="zeros")])
    >>> model.compile("sgd", "mean_squared_error")
    >>> _ = model.fit([[1.0]], [[1.0]], callbacks=[Best()], verbose=False)
    epoch 0: loss 1.00
    """

    #: Callbacks run by `order`, then in the order of the list. Checkpoints come last.
    order: int = 0
    #: True for one that only writes or shows something: of several ranks, the first one runs it.
    writes: bool = False

    model: Any = None
    run: Run = None  # type: ignore[assignment]

    def on_restore(self, logs: Logs) -> None:
        """Runs first of all: restores a saved model and run."""

    def on_train_begin(self, logs: Logs) -> None:
        """Runs before the first epoch, or before the rest of an interrupted one."""

    def on_train_end(self, logs: Logs) -> None:
        """Runs after the last epoch, with its metrics."""

    def on_epoch_begin(self, epoch: int, logs: Logs) -> None:
        """Runs before an epoch, also if it resumes after an interruption."""

    def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        """Runs after an epoch and its validation, with the metrics of both."""

    def on_train_batch_begin(self, batch: int, logs: Logs) -> None:
        """Runs before a step; `batch` is its number in the epoch."""

    def on_train_batch_end(self, batch: int, logs: Logs) -> None:
        """Runs after a step, with the metrics of the epoch so far."""

    def on_test_begin(self, logs: Logs) -> None:
        """Runs before an evaluation or a validation."""

    def on_test_end(self, logs: Logs) -> None:
        """Runs after an evaluation, with its metrics."""

    def on_test_batch_begin(self, batch: int, logs: Logs) -> None:
        """Runs before a batch of an evaluation."""

    def on_test_batch_end(self, batch: int, logs: Logs) -> None:
        """Runs after a batch of an evaluation."""

    def on_predict_begin(self, logs: Logs) -> None:
        """Runs before a prediction."""

    def on_predict_end(self, logs: Logs) -> None:
        """Runs after a prediction."""

    def on_predict_batch_begin(self, batch: int, logs: Logs) -> None:
        """Runs before a batch of a prediction."""

    def on_predict_batch_end(self, batch: int, logs: Logs) -> None:
        """Runs after a batch of a prediction."""

    def on_interrupt(self, logs: Logs) -> None:
        """Runs after Ctrl-C, between two steps."""

    def close(self) -> None:
        """Releases files; runs at the end, also after an error."""


class History(Callback):
    """The metrics of each epoch, which `fit` returns.

    >>> model = pb.Sequential([pb.layers.Dense(1, kernel_initializer="zeros")])
    >>> model.compile("sgd", "mean_squared_error")
    >>> history = model.fit([[1.0]], [[1.0]], epochs=2, verbose=False)
    >>> history.epoch, [round(loss, 4) for loss in history.history["loss"]]
    ([0, 1], [1.0, 0.9216])
    """

    def __init__(self) -> None:
        #: The numbers of the epochs.
        self.epoch: list[int] = []
        #: The values of each metric, one an epoch; None where there was none.
        self.history: dict[str, list[Any]] = {}

    def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        """Records the metrics."""
        for name, value in logs.items():
            column = self.history.setdefault(name, [])
            column += [None] * (len(self.epoch) - len(column))
            column.append(value)
        self.epoch.append(epoch)
        for column in self.history.values():
            column += [None] * (len(self.epoch) - len(column))

    def checkpoint_state(self) -> Mapping[str, Any]:
        """Returns all metrics."""
        return {"epoch": list(self.epoch), "history": dict(self.history)}

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Restores a state from `checkpoint_state`."""
        self.epoch = [int(epoch) for epoch in state["epoch"]]
        self.history = {name: list(column) for name, column in state["history"].items()}

    def __getstate__(self) -> Mapping[str, Any]:
        # Without the run and the model: a history is sent and stored for its numbers.
        return self.checkpoint_state()

    def __repr__(self) -> str:
        return f"<History of {len(self.epoch)} epochs: {', '.join(self.history)}>"

    def _repr_html_(self) -> str:
        # As notebooks show it: a row for each epoch.
        columns = self.history.values()
        rows = [
            [str(epoch + 1), *[_text(column[i]) for column in columns]]
            for i, epoch in enumerate(self.epoch)
        ]
        return table_html(f"{len(self.epoch)} epochs", ["epoch", *self.history], rows, "right")


def _text(value: object) -> str:
    """A metric in a table; "" where there was none."""
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


class Callbacks:
    """Several callbacks; for each event those that have a method for it."""

    def __init__(self, callbacks: Iterable[Callback], model: TrainedModel, run: Run) -> None:
        self.all = sorted(callbacks, key=lambda callback: getattr(callback, "order", 0))
        for callback in self.all:
            if not isinstance(callback, Callback):
                raise errors.InputTypeError(
                    f"callbacks must be of pb.callbacks, got {callback!r}"
                    + ("; call it" if isinstance(callback, type) else "")
                )
            callback.model, callback.run = model, run
        self._at: dict[str, list[Callable[..., None]]] = {}

    def at(self, event: str) -> list[Callable[..., None]]:
        """Returns the methods of the callbacks that have one of their own for an event."""
        methods = self._at.get(event)
        if methods is None:
            general = getattr(Callback, event)
            methods = self._at[event] = [
                getattr(callback, event)
                for callback in self.all
                if getattr(type(callback), event) is not general or event in vars(callback)
            ]
        return methods

    def __call__(self, event: str, *arguments: object) -> None:
        """Calls each callback that has a method of its own for an event."""
        for method in self.at(event):
            method(*arguments)

    def close(self) -> None:
        """Closes all callbacks, then raises the first error."""
        failed: Exception | None = None
        for callback in self.all:
            try:
                callback.close()
            except Exception as error:
                failed = failed or error
        if failed is not None:
            raise failed
