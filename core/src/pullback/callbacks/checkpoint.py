"""Checkpoints of training, from which it resumes as if it had never stopped."""

from __future__ import annotations

import inspect
import os
import sys

from pullback import errors
from pullback._dispatch.arguments import as_bool
from pullback._dispatch.recording import paused
from pullback._hints import keyword_advice
from pullback._replacing import as_path
from pullback.callbacks.watching import MetricWatch
from pullback.checkpoint import Checkpoint as Saved
from pullback.checkpoint import CheckpointManager
from pullback.layers import Layer, Model
from pullback.random import default_generator
from pullback.shapes import as_int
from pullback.training.batches import arguments_of
from pullback.training.callback import Callback
from pullback.training.types import Logs, Structure

__all__ = ["Checkpoint"]


class Checkpoint(Callback):
    """Saves everything that training depends on, and resumes after an interruption.

    A checkpoint holds the model, the optimizer, the default random generator, the position in the
    data, the metrics so far and the state of the other callbacks: a run that is stopped and
    resumed gives the same numbers, bit for bit, as one that is not. Ctrl-C saves before it ends the
    program. (Data of other libraries are read again up to their position, so they must come in the
    same order.)

    Args:
        directory: the folder of the checkpoints.
        resume: True to resume from the newest checkpoint in the folder, if there is one; False to
            remove all checkpoints; None, the default, to raise an error if there is one.
        every_steps: the number of steps between checkpoints; None saves after epochs only.
        every_epochs: the number of epochs between checkpoints.
        keep: the number of newest checkpoints to keep; None keeps all.
        keep_best: the number of checkpoints to keep as well, at the ends of the best epochs.
        monitor: the metric that ranks them, such as "val_loss".
        mode: "min" or "max", the better values; "auto" decides by the name of the metric.
        background: the number of checkpoints that may wait while a thread writes them; 0 writes
            them before training goes on.
        sharded: True if all ranks of a distributed run write a part of each checkpoint, in place of
            the first one all of it, into a folder that all of them see.
        objects: other objects to save, each by a name of your choice.

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
        InputValueError: for a number of steps or epochs below 1, `keep_best` without `monitor`, and
            in `fit` for `sharded` in the background.
        InputTypeError: for a number, a text or None among `objects`.
        CheckpointError: in `fit`, if there are checkpoints and `resume` is None, or if they are
            those of another model.
    """

    #: Runs after all others, whose state it saves.
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
        sharded: bool = False,
        **objects: object,
    ) -> None:
        for number in (every_steps, every_epochs):
            if number is not None and as_int(number, "an integer number of steps or epochs") < 1:
                raise errors.InputValueError(
                    f"every_steps and every_epochs must be at least 1, got {number}"
                )
        if bool(as_int(keep_best, "keep_best: a number of checkpoints")) != (monitor is not None):
            raise errors.InputValueError(
                "keep_best and monitor belong together, such as keep_best=1, monitor='val_loss'; "
                "pass both, or neither"
            )
        for name, value in objects.items():
            if value is None or isinstance(value, (bool, int, float, str)):
                settings = [*inspect.signature(Checkpoint).parameters]
                raise errors.InputTypeError(
                    f"Checkpoint: {name}={value!r} is neither a setting nor an object with state; "
                    + keyword_advice("callbacks", name, settings)
                )
        self.directory = os.fspath(as_path(directory, "directory"))
        self.resume = resume
        self.every_steps = every_steps
        self.every_epochs = every_epochs
        self.keep = keep
        self.keep_best = keep_best
        self.background = background
        self.sharded = as_bool(sharded, "sharded")
        self._watch = None if monitor is None else MetricWatch(monitor, mode)
        self.objects = objects
        self._manager: CheckpointManager | None = None
        self._has_begun = False
        #: The numbers of the checkpoint before the first step, and of the newest.
        self._first = self._newest = 0

    @property
    def latest(self) -> str | None:
        """The path of the newest checkpoint; None if there is none."""
        return None if self._manager is None else self._manager.latest

    @property
    def best(self) -> str | None:
        """The path of the best checkpoint; None if there is none, or no monitor."""
        return None if self._manager is None else self._manager.best

    def on_restore(self, logs: Logs) -> None:
        """Resumes from the newest checkpoint, if `resume` is True and there is one."""
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
            sharded=self.sharded,
        )
        newest = self._manager.latest
        if self._has_begun:
            # A second fit with the same callback continues the same model.
            self._first = self._newest
        elif newest is not None:
            self._begin(newest)
        self._has_begun = True

    def _begin(self, newest: str) -> None:
        """Resumes an earlier run, or removes it, as `resume` says."""
        assert self._manager is not None
        if self.resume is None:
            raise errors.CheckpointError(
                f"{self.directory!r} holds checkpoints of an earlier run, the newest is "
                f"{newest!r}; Checkpoint(..., resume=True) resumes from it, resume=False removes "
                f"them, or use another folder"
            )
        if self.resume:
            self._resume()
        elif self._is_first:
            self._manager.clear()

    @property
    def _is_first(self) -> bool:
        """True on the rank that writes; all ranks read."""
        compiled = self.model._compiled
        return compiled is None or compiled.sharing is None or bool(compiled.sharing.is_first)

    def _resume(self) -> None:
        assert self._manager is not None
        if not self.model.built and self.run.data is not None:
            self._build(self.run.data.peek().inputs)
        restored = self._manager.restore_latest(partial=True)
        if restored is not None:
            self._newest = int(restored.path.rpartition("-")[2])
            self._first = self._newest - self.run.total
            missing = [p for p in restored.missing if not p.startswith(("run/", "generator/"))]
            if missing:
                raise errors.CheckpointError(
                    f"{restored.path} is a checkpoint of another model: it has no value for "
                    f"{', '.join(missing[:10])}; use another folder, or start over with "
                    f"resume=False"
                )

    def _build(self, inputs: Structure) -> None:
        """Makes the variables, which draws from the default generator, as before the save."""
        call = inspect.signature(self.model.call)
        arguments = arguments_of(self.model, inputs)
        try:
            call.bind(*arguments)
        except TypeError:
            return  # A model with steps of its own may be called otherwise.
        if type(self.model).call not in (Layer.call, Model.call):
            with paused():
                self.model(*arguments, training=False)

    def on_train_batch_end(self, batch: int, logs: Logs) -> None:
        """Saves every `every_steps` steps."""
        if self.every_steps is not None and self.run.total % self.every_steps == 0:
            self.save()

    def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        """Saves every `every_epochs` epochs, and after the last."""
        run = self.run
        last = run.epoch == run.epochs or self.model.stop_training
        if run.epoch % self.every_epochs == 0 or last:
            run.stopped = bool(self.model.stop_training)
            self.save(None if self._watch is None else self._watch.value(logs, run))

    def on_interrupt(self, logs: Logs) -> None:
        """Saves, and prints the path."""
        path = self.save()
        self.close()  # Background writes finish before the message.
        if not path or not self._is_first:
            return
        run = self.run
        at = f"epoch {run.epoch + 1}, step {run.step}" if run.step else f"epoch {run.epoch}"
        print(
            f"interrupted after {at}; saved {path!r}; fit with Checkpoint({self.directory!r}, "
            f"resume=True) resumes from there",
            file=sys.stderr,
        )

    def save(self, metric: float | None = None) -> str:
        """Saves now, and returns the path.

        Args:
            metric: the metric of the state, for `keep_best`.
        """
        assert self._manager is not None
        self._newest = self._first + self.run.total
        compiled = self.model._compiled
        if self.sharded or compiled is None or compiled.sharing is None:
            return self._manager.save(step=self._newest, metric=metric)
        with compiled.sharing.saving(compiled.optimizer):
            if not self._is_first:
                return ""
            return self._manager.save(step=self._newest, metric=metric)

    def close(self) -> None:
        """Waits until everything has been written."""
        if self._manager is not None:
            self._manager.close()
