"""Metrics, distributions and the graph of a model for TensorBoard, while it trains."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pullback import errors, summary
from pullback._replacing import as_path
from pullback.callbacks.rates import rate_of
from pullback.shapes import as_int
from pullback.training.callback import Callback
from pullback.training.types import Logs

__all__ = ["TensorBoard"]

_VALIDATION = "val_"


class TensorBoard(Callback):
    """Records the metrics of training in one folder, those of validation in another beside it.

    The curves of both have the same names and share a plot, over the number of steps. A resumed
    run replaces the records after its checkpoint.

    Args:
        directory: the folder; `train` and `validation` are made in it.
        every_steps: the number of steps between records; None records after epochs only.
        histograms_every: the number of epochs between histograms of all variables; 0 for never.
        graph: True to record the graph of the model, which takes one more call of it.
        hparams: the hyperparameters of the run by name, to compare runs.
        flush_millis: the number of milliseconds after which records are written to the files.

    >>> import tempfile
    >>> board = pb.callbacks.TensorBoard(tempfile.mkdtemp(), every_steps=10, graph=True)
    >>> model = pb.Sequential([pb.layers.Dense(1)])
    >>> model.compile("sgd", "mean_squared_error")
    >>> history = model.fit([[1.0]], [[1.0]], callbacks=[board], verbose=False)

    Raises:
        InputValueError: for numbers that are not positive.
        SummaryError: in `fit`, if the files cannot be made, or tensorboardX is not installed.
    """

    writes = True

    def __init__(
        self,
        directory: str | os.PathLike[str] = "logs",
        *,
        every_steps: int | None = None,
        histograms_every: int = 0,
        graph: bool = False,
        hparams: Mapping[str, object] | None = None,
        flush_millis: int = 10_000,
    ) -> None:
        if every_steps is not None and as_int(every_steps, "every_steps: an integer") < 1:
            raise errors.InputValueError(f"every_steps must be at least 1, got {every_steps}")
        if as_int(histograms_every, "histograms_every: an integer") < 0:
            raise errors.InputValueError(
                f"histograms_every must be at least 0, got {histograms_every}"
            )
        self.directory = os.fspath(as_path(directory, "directory"))
        self.every_steps = every_steps
        self.histograms_every = histograms_every
        self.graph = graph
        self.hparams = hparams
        self.flush_millis = flush_millis
        self._writers: dict[str, summary.Writer] = {}

    @contextmanager
    def _writing(self, run: str) -> Iterator[None]:
        writer = self._writers.get(run)
        if writer is None:
            resumed = self.run.total or None
            writer = self._writers[run] = summary.create_file_writer(
                os.path.join(self.directory, run),
                flush_millis=self.flush_millis,
                # The metrics of the saved step are in the files already.
                purge_step=None if resumed is None else resumed + 1,
            )
        # Conditions for the program's own summaries do not apply.
        with writer.as_default(), summary.record_if(True):
            yield

    def on_train_begin(self, logs: Logs) -> None:
        """Opens the files."""
        with self._writing("train"):
            if self.hparams is not None:
                summary.hparams(self.hparams)
        if self.run.validation is not None:
            with self._writing("validation"):
                pass

    def on_epoch_begin(self, epoch: int, logs: Logs) -> None:
        """Records the graph, before the first epoch."""
        if self.graph and not self.run.total:
            assert self.run.data is not None
            with self._writing("train"):
                summary.graph(self.model, self.run.data.peek().inputs)

    def on_train_batch_end(self, batch: int, logs: Logs) -> None:
        """Records the metrics of the epoch so far every `every_steps` steps."""
        if self.every_steps is not None and self.run.total % self.every_steps == 0:
            with self._writing("train"):
                self._record("batch_", logs)

    def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        """Records the metrics of the epoch and of its validation."""
        own = {name: value for name, value in logs.items() if not name.startswith(_VALIDATION)}
        with self._writing("train"):
            self._record("epoch_", own)
            compiled = self.model._compiled
            if compiled is not None:
                rate = rate_of(compiled.optimizer)
                summary.scalar("epoch_learning_rate", rate, self.run.total)
            if self.histograms_every and (epoch + 1) % self.histograms_every == 0:
                for path, variable in self.model.named_variables.items():
                    summary.histogram(path, variable, self.run.total)
        others = {
            name.removeprefix(_VALIDATION): value for name, value in logs.items() if name not in own
        }
        if others:
            with self._writing("validation"):
                self._record("epoch_", others)

    def _record(self, prefix: str, logs: Logs) -> None:
        for name, value in logs.items():
            if isinstance(value, (int, float)):
                summary.scalar(prefix + name, value, self.run.total)

    def close(self) -> None:
        """Closes the files."""
        for writer in self._writers.values():
            writer.close()
        self._writers = {}
