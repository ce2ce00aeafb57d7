"""Checkpoints of training, from which it goes on as if it had never been stopped."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Mapping
from typing import Any

from pullback import errors
from pullback.checkpoint import Checkpoint as Saved
from pullback.checkpoint import CheckpointManager
from pullback.dispatch.recording import paused
from pullback.layers import Layer
from pullback.random import default_generator
from pullback.training.callback import Callback

__all__ = ["Checkpoint"]


class Checkpoint(Callback):
    """Saves everything that training depends on, and goes on from there after an interruption.

    That is the model, the optimizer, the default random generator, the position in the data, the
    figures so far and the state of the other callbacks: a run that was stopped and goes on gives
    the same numbers, bit for bit, as one that was not. Ctrl-C saves before it ends the program.
    (Data of other libraries are read again up to where they were: they must come in the same
    order.)

    Args:
        directory: the folder of the checkpoints.
        resume: whether training goes on from the newest checkpoint there. True begins anew where
            there is none; False removes what is there; None, the default, refuses to do either
            where there is one.
        every_steps: save after so many steps; None saves after each epoch only.
        every_epochs: save after so many epochs.
        keep: how many checkpoints stay; None keeps all.
        objects: what else is saved with the model, each by a name of your choice.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> def train(epochs):
    ...     model = pb.Sequential([pb.layers.Dense(1, kernel_initializer="zeros")])
    ...     model.compile("adam", "mean_squared_error")
    ...     save = pb.callbacks.Checkpoint(folder, resume=True)
    ...     return model.fit([[1.0]], [[2.0]], epochs=epochs, callbacks=[save], verbose=False)
    >>> train(2).epoch, train(3).epoch
    ([0, 1], [0, 1, 2])

    Raises:
        InputValueError: for a number of steps or epochs below 1.
        CheckpointError: in `fit`, when there are checkpoints and `resume` does not say what to do
            with them, or when they are of another model.
    """

    #: After all others, whose state it saves.
    order = 1000

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        resume: bool | None = None,
        every_steps: int | None = None,
        every_epochs: int = 1,
        keep: int | None = 5,
        **objects: Any,
    ) -> None:
        for number in (every_steps, every_epochs):
            if number is not None and number < 1:
                raise errors.InputValueError(f"save every 1 or more, got {number}")
        self.directory = os.fspath(directory)
        self.resume = resume
        self.every_steps = every_steps
        self.every_epochs = every_epochs
        self.keep = keep
        self.objects = objects
        self._manager: CheckpointManager | None = None
        #: The number of the checkpoint before the first step, and that of the newest.
        self._first = self._newest = 0

    @property
    def latest(self) -> str | None:
        """The path of the newest checkpoint; None when there is none."""
        return None if self._manager is None else self._manager.latest

    def on_restore(self, logs: Mapping[str, Any]) -> None:
        """Goes on from the newest checkpoint, if there is one and it is to."""
        again = self._manager is not None
        optimizer = self.model._compiled and self.model._compiled.optimizer
        held = {"optimizer": optimizer} if optimizer is not None else {}
        self._manager = CheckpointManager(
            Saved(
                model=self.model, **held, run=self.run, generator=default_generator, **self.objects
            ),
            self.directory,
            keep=self.keep,
        )
        newest = self._manager.latest
        if again:
            # A second fit with the same callback trains the same model on.
            self._first = self._newest
        if newest is None or again:
            return
        if self.resume is None:
            raise errors.CheckpointError(
                f"{self.directory!r} holds checkpoints of an earlier run, the newest is "
                f"{newest!r}; Checkpoint(..., resume=True) goes on from it, resume=False removes "
                f"them, or name another folder"
            )
        if self.resume:
            self._go_on()
        else:
            self._manager.clear()

    def _go_on(self) -> None:
        assert self._manager is not None
        if not self.model.built and self.run.data is not None:
            self._build(self.run.data.peek().inputs)
        restored = self._manager.restore_latest(partial=True)
        if restored is not None:
            self._newest = int(restored.path.rpartition("-")[2])
            self._first = self._newest - self.run.total
            lacking = [p for p in restored.missing if not p.startswith(("run/", "generator/"))]
            if lacking:
                raise errors.CheckpointError(
                    f"{restored.path} is of another model: it has nothing for "
                    f"{', '.join(lacking[:10])}; name another folder, or begin anew with "
                    f"resume=False"
                )

    def _build(self, inputs: Any) -> None:
        """Makes the variables: that draws from the default generator, as it did before the save."""
        call = inspect.signature(self.model.call)
        try:
            call.bind(inputs)
        except TypeError:
            return  # A model with steps of its own may be called otherwise.
        if type(self.model).call is not Layer.call:
            with paused():
                self.model(inputs, training=False)

    def on_train_batch_end(self, batch: int, logs: Mapping[str, Any]) -> None:
        """Saves, where it is time."""
        if self.every_steps is not None and self.run.total % self.every_steps == 0:
            self.save()

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any]) -> None:
        """Saves, where it is time, and after the last epoch."""
        run = self.run
        last = run.epoch == run.epochs or self.model.stop_training
        if run.epoch % self.every_epochs == 0 or last:
            run.stopped = bool(self.model.stop_training)
            self.save()

    def on_interrupt(self, logs: Mapping[str, Any]) -> None:
        """Saves, and says where."""
        path = self.save()
        run = self.run
        at = f"epoch {run.epoch + 1}, step {run.step}" if run.step else f"epoch {run.epoch}"
        print(
            f"interrupted after {at}; saved {path!r}; fit with Checkpoint({self.directory!r}, "
            f"resume=True) goes on from there",
            file=sys.stderr,
        )

    def save(self) -> str:
        """Saves now; gives the path."""
        assert self._manager is not None
        self._newest = self._first + self.run.total
        return self._manager.save(step=self._newest)
