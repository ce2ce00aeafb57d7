"""`Callback`: what is done at the turns of training, evaluation and prediction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pullback import errors

if TYPE_CHECKING:
    from pullback.training.run import Run

__all__ = ["Callback", "Callbacks", "History"]

#: Figures by name, such as {"loss": 0.3, "val_loss": 0.4}.
Logs = Mapping[str, Any]


class Callback:
    """The base of every callback: a subclass writes the methods for the turns it is for.

    `self.model` is the model, `self.run` what is known of the run: `run.epoch` and `run.epochs`,
    `run.step` of `run.steps` in this epoch, `run.total` steps of all. Setting
    `self.model.stop_training = True` ends training after the step. A callback with
    `checkpoint_state` and `restore_state` has its state in checkpoints.

    Figures are computed when they are read: a callback that does not look costs no wait for the
    device.

    >>> class Best(pb.callbacks.Callback):
    ...     def on_epoch_end(self, epoch, logs):
    ...         print(f"epoch {epoch}: loss {logs['loss']:.2f}")
    >>> model = pb.Sequential([pb.layers.Dense(1, kernel_initializer="zeros")])
    >>> model.compile("sgd", "mean_squared_error")
    >>> _ = model.fit([[1.0]], [[1.0]], callbacks=[Best()], verbose=False)
    epoch 0: loss 1.00
    """

    #: Callbacks run in the order of these, then in that of the list. Checkpoints come last.
    order: int = 0

    model: Any = None
    run: Run = None  # type: ignore[assignment]

    def on_restore(self, logs: Logs) -> None:
        """Before all else: brings the model and the run to where they were saved."""

    def on_train_begin(self, logs: Logs) -> None:
        """Before the first epoch, or before the rest of one that was interrupted."""

    def on_train_end(self, logs: Logs) -> None:
        """After the last epoch, with its figures."""

    def on_epoch_begin(self, epoch: int, logs: Logs) -> None:
        """Before an epoch; also before one that goes on after an interruption."""

    def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        """After an epoch and its validation, with the figures of both."""

    def on_train_batch_begin(self, batch: int, logs: Logs) -> None:
        """Before a step; `batch` is its number in the epoch."""

    def on_train_batch_end(self, batch: int, logs: Logs) -> None:
        """After a step, with the figures of the epoch so far."""

    def on_test_begin(self, logs: Logs) -> None:
        """Before an evaluation, also before a validation."""

    def on_test_end(self, logs: Logs) -> None:
        """After an evaluation, with its figures."""

    def on_test_batch_begin(self, batch: int, logs: Logs) -> None:
        """Before a batch of an evaluation."""

    def on_test_batch_end(self, batch: int, logs: Logs) -> None:
        """After a batch of an evaluation."""

    def on_predict_begin(self, logs: Logs) -> None:
        """Before a prediction."""

    def on_predict_end(self, logs: Logs) -> None:
        """After a prediction."""

    def on_predict_batch_begin(self, batch: int, logs: Logs) -> None:
        """Before a batch of a prediction."""

    def on_predict_batch_end(self, batch: int, logs: Logs) -> None:
        """After a batch of a prediction."""

    def on_interrupt(self, logs: Logs) -> None:
        """After Ctrl-C, between two steps."""

    def close(self) -> None:
        """Lets go of files; called at the end, however it came."""


class History(Callback):
    """The figures of each epoch; what `fit` returns.

    >>> model = pb.Sequential([pb.layers.Dense(1, kernel_initializer="zeros")])
    >>> model.compile("sgd", "mean_squared_error")
    >>> history = model.fit([[1.0]], [[1.0]], epochs=2, verbose=False)
    >>> history.epoch, [round(loss, 4) for loss in history.history["loss"]]
    ([0, 1], [1.0, 0.9216])
    """

    def __init__(self) -> None:
        #: The numbers of the epochs.
        self.epoch: list[int] = []
        #: For each figure its value after each of them; None where there was none.
        self.history: dict[str, list[Any]] = {}

    def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        """Takes the figures down."""
        for name, value in logs.items():
            column = self.history.setdefault(name, [])
            column += [None] * (len(self.epoch) - len(column))
            column.append(value)
        self.epoch.append(epoch)
        for column in self.history.values():
            column += [None] * (len(self.epoch) - len(column))

    def checkpoint_state(self) -> Mapping[str, Any]:
        """All figures."""
        return {"epoch": list(self.epoch), "history": dict(self.history)}

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Takes over what `checkpoint_state` gave."""
        self.epoch = [int(epoch) for epoch in state["epoch"]]
        self.history = {name: list(column) for name, column in state["history"].items()}

    def __repr__(self) -> str:
        return f"<History of {len(self.epoch)} epochs: {', '.join(self.history)}>"


class Callbacks:
    """Several callbacks; only those that do something at a turn are called there."""

    def __init__(self, callbacks: Iterable[Callback], model: Any, run: Any) -> None:
        self.all = sorted(callbacks, key=lambda callback: getattr(callback, "order", 0))
        for callback in self.all:
            if not isinstance(callback, Callback):
                raise errors.InputTypeError(
                    f"callbacks are of pb.callbacks, got {callback!r}"
                    + ("; call it" if isinstance(callback, type) else "")
                )
            callback.model, callback.run = model, run
        self._at: dict[str, list[Callable[..., None]]] = {}

    def __call__(self, turn: str, *arguments: Any) -> None:
        """Calls each callback that has a method of its own for a turn."""
        methods = self._at.get(turn)
        if methods is None:
            general = getattr(Callback, turn)
            methods = self._at[turn] = [
                getattr(callback, turn)
                for callback in self.all
                if getattr(type(callback), turn) is not general or turn in vars(callback)
            ]
        for method in methods:
            method(*arguments)

    def close(self) -> None:
        """Closes all; the first error is raised when all have been."""
        failed: Exception | None = None
        for callback in self.all:
            try:
                callback.close()
            except Exception as error:
                failed = failed or error
        if failed is not None:
            raise failed
