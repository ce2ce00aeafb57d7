"""Checkpoints of training, from which it goes on as if it had never been stopped."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Mapping
from typing import Any

from pullback import errors
from pullback._dispatch.recording import paused
from pullback.callbacks.watching import Watch
from pullback.checkpoint import Checkpoint as Saved
from pullback.checkpoint import CheckpointManager
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
        keep: how many checkpoints stay, the newest; None keeps all.
        keep_best: how many stay besides, of those at the ends of epochs: the best by `monitor`.
        monitor: the figure that says which are best, such as "val_loss".
        mode: "min" or "max" for what is better; "auto" takes it from the name of the figure.
        background: how many checkpoints may wait while a thread writes them; 0 writes them before
            training goes on.
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
        InputValueError: for a number of steps or epochs below 1, or `keep_best` and no `monitor`.
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
        keep_best: int = 0,
        monitor: str | None = None,
        mode: str = "auto",
        background: int = 0,
        **objects: Any,
    ) -> None:
        for number in (every_steps, every_epochs):
            if number is not None and number < 1:
                raise errors.InputValueError(f"save every 1 or more, got {number}")
        if bool(keep_best) != (monitor is not None):
            raise errors.InputValueError(
                "keep_best=1, monitor='val_loss' keeps the best by a figure; give both, or neither"
            )
        self.directory = os.fspath(directory)
        self.resume = resume
        self.every_steps = every_steps
        self.every_epochs = every_epochs
        self.keep = keep
        self.keep_best = keep_best
        self.background = background
        self._watch = None if monitor is None else Watch(monitor, mode)
        self.objects = objects
        self._manager: CheckpointManager | None = None
        self._has_begun = False
        #: The number of the checkpoint before the first step, and that of the newest.
        self._first = self._newest = 0

    @property
    def latest(self) -> str | None:
        """The path of the newest checkpoint; None when there is none."""
        return None if self._manager is None else self._manager.latest

    @property
    def best(self) -> str | None:
        """The path of the best checkpoint; None when there is none, or nothing is monitored."""
        return None if self._manager is None else self._manager.best

    def on_restore(self, logs: Mapping[str, Any]) -> None:
        """Goes on from the newest checkpoint, if there is one and it is to."""
        optimizer = self.model._compiled and self.model._compiled.optimizer
        held = {"optimizer": optimizer} if optimizer is not None else {}
        self._manager = CheckpointManager(
            Saved(
                model=self.model, **held, run=self.run, generator=default_generator, **self.objects
            ),
            self.directory,
            keep=self.keep,
            keep_best=self.keep_best,
            better="higher" if self._watch is not None and self._watch.more else "lower",
            background=self.background,
        )
        newest = self._manager.latest
        if self._has_begun:
            # A second fit with the same callback trains the same model on.
            self._first = self._newest
        elif newest is not None:
            self._begin(newest)
        self._has_begun = True

    def _begin(self, newest: str) -> None:
        """Does with an earlier run what `resume` says."""
        assert self._manager is not None
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
            self.save(None if self._watch is None else self._watch.value(logs, run))

    def on_interrupt(self, logs: Mapping[str, Any]) -> None:
        """Saves, and says where."""
        path = self.save()
        self.close()  # What was to be written is written before that is said.
        run = self.run
        at = f"epoch {run.epoch + 1}, step {run.step}" if run.step else f"epoch {run.epoch}"
        print(
            f"interrupted after {at}; saved {path!r}; fit with Checkpoint({self.directory!r}, "
            f"resume=True) goes on from there",
            file=sys.stderr,
        )

    def save(self, metric: float | None = None) -> str:
        """Saves now; gives the path.

        Args:
            metric: how good the state is, for `keep_best`.
        """
        assert self._manager is not None
        self._newest = self._first + self.run.total
        return self._manager.save(step=self._newest, metric=metric)

    def close(self) -> None:
        """Waits until all has been written."""
        if self._manager is not None:
            self._manager.close()
