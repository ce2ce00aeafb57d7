"""The loops over batches behind `fit`, `evaluate` and `predict`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pullback import errors
from pullback._tree import leaves, like
from pullback.data.processes import broke
from pullback.ops.joining import concat
from pullback.tensor import Tensor
from pullback.training.batches import Batch, Batches
from pullback.training.callback import Callbacks
from pullback.training.interruption import Interrupted, Interruption
from pullback.training.objective import by_class
from pullback.training.run import Run

__all__ = ["Fitting", "evaluate", "predict"]


class Fitting:
    """One call of `fit`.

    Args:
        model: what is trained.
        run: where it is; its data and validation data are set.
        callbacks: what is called at each turn.
        class_weight: what the items of each class count.
        validation_steps: batches of a validation; all if None.
        validation_freq: there is a validation after so many epochs.
        steps: of an epoch; to the end of the data if None.
    """

    def __init__(
        self,
        model: Any,
        run: Run,
        callbacks: Callbacks,
        class_weight: Mapping[int, float] | None,
        validation_steps: int | None,
        validation_freq: int,
        steps: int | None,
    ) -> None:
        self.model = model
        self.run = run
        self.callbacks = callbacks
        self.class_weight = class_weight
        self.validation_steps = validation_steps
        self.validation_freq = validation_freq
        self.steps = steps
        self.interruption = Interruption()

    def __call__(self) -> None:
        """Trains to the end, or to a Ctrl-C.

        Raises:
            KeyboardInterrupt: after a Ctrl-C, when callbacks have seen to what is to be kept.
            TrainingError: when there are no data.
        """
        with self.interruption:
            try:
                self.callbacks("on_restore", {})
                self.callbacks("on_train_begin", {})
                logs: Mapping[str, Any] = {}
                while self.run.epoch < self.run.epochs and not self.run.stopped:
                    logs = self._epoch()
                self.callbacks("on_train_end", logs)
            except Interrupted:
                self.callbacks("on_interrupt", self.run.scores.figures())
                # As it came: a program that ends by it ends as by any Ctrl-C.
                raise KeyboardInterrupt from None
            except errors.DataError as error:
                if not (self.interruption.asked and broke(error)):
                    raise
                # Ctrl-C has ended the workers too, where it cannot be held back from them. What
                # they had taken of the data is lost, so there is no position to save.
                raise KeyboardInterrupt from error
            finally:
                self.callbacks.close()
                for data in (self.run.data, self.run.validation):
                    if data is not None:
                        data.close()

    def _epoch(self) -> Mapping[str, Any]:
        run, callbacks, data = self.run, self.callbacks, self.run.data
        assert data is not None
        epoch = run.epoch
        callbacks("on_epoch_begin", epoch, {})
        if not run.step:
            run.scores.reset()
            data.begin()
        figures = run.scores.figures()
        while (self.steps is None or run.step < self.steps) and not self.model.stop_training:
            try:
                batch = data.next()
            except StopIteration:
                self._ended(data)
                break
            callbacks("on_train_batch_begin", run.step, {})
            with _where("fit", f"epoch {epoch + 1}, step {run.step + 1}", batch):
                run.scores.add(self._step(batch), batch.size)
            run.step += 1
            run.total += 1
            figures = run.scores.figures()
            callbacks("on_train_batch_end", run.step - 1, figures)
            self.interruption.check()
        logs = {**figures, **self._validate()}
        # A checkpoint at the end of an epoch is one of the beginning of the next.
        run.epoch, run.step = epoch + 1, 0
        callbacks("on_epoch_end", epoch, logs)
        run.stopped = bool(self.model.stop_training)
        self.interruption.check()
        return logs

    def _step(self, batch: Batch) -> Mapping[str, Any] | None:
        weights = batch.weights
        if self.class_weight is not None:
            weights = by_class(batch.targets, self.class_weight, weights)
        values: Mapping[str, Any] | None = self.model.train_step(
            batch.inputs, batch.targets, weights
        )
        return values

    def _ended(self, data: Batches) -> None:
        """Refuses an epoch without steps, or with fewer than were asked for."""
        run = self.run
        if run.step and self.steps is None:
            return
        if data.once and run.total:
            raise errors.TrainingError(
                f"the data ended in epoch {run.epoch + 1}, after {run.step} steps: an iterator is "
                f"gone through once; give a Dataset, a list of batches, or a function that makes "
                f"an iterator for each epoch"
            )
        raise errors.TrainingError("fit got no data: there is no batch in them")

    def _validate(self) -> Mapping[str, Any]:
        run = self.run
        if run.validation is None or (run.epoch + 1) % self.validation_freq:
            return {}
        # An interruption finds the figures of the training, which the validation's displace.
        kept = run.scores.checkpoint_state()
        try:
            return evaluate(
                self.model, run, run.validation, self.validation_steps, self.callbacks,
                prefix="val_", check=self.interruption.check,
            )  # fmt: skip
        except Interrupted:
            run.scores.restore_state(kept)
            raise


def evaluate(
    model: Any,
    run: Run,
    data: Batches,
    steps: int | None,
    callbacks: Callbacks,
    *,
    prefix: str = "",
    check: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """The figures over one pass.

    Raises:
        TrainingError: when there are no data.
    """
    callbacks("on_test_begin", {})
    run.scores.reset()
    data.begin()
    step = 0
    while steps is None or step < steps:
        try:
            batch = data.next()
        except StopIteration:
            break
        callbacks("on_test_batch_begin", step, {})
        with _where("evaluate", f"batch {step + 1}", batch):
            values = model.test_step(batch.inputs, batch.targets, batch.weights)
            run.scores.add(values, batch.size)
        callbacks("on_test_batch_end", step, run.scores.figures(prefix))
        step += 1
        check()
    if not step:
        raise errors.TrainingError(
            "evaluation got no data: there is no batch in them"
            + ("; an iterator is gone through once" if data.once else "")
        )
    logs = dict(run.scores.figures(prefix))
    callbacks("on_test_end", logs)
    return logs


def predict(model: Any, data: Batches, steps: int | None, callbacks: Callbacks) -> Any:
    """What the model gives for all items, one batch after another.

    Raises:
        TrainingError: when there are no data.
    """
    callbacks("on_predict_begin", {})
    data.begin()
    outputs: list[Any] = []
    while steps is None or len(outputs) < steps:
        try:
            batch = data.next()
        except StopIteration:
            break
        callbacks("on_predict_batch_begin", len(outputs), {})
        with _where("predict", f"batch {len(outputs) + 1}", batch):
            outputs.append(model.predict_step(batch.inputs))
        callbacks("on_predict_batch_end", len(outputs) - 1, {})
    if not outputs:
        raise errors.TrainingError("predict got no data: there is no batch in them")
    callbacks("on_predict_end", {})
    columns = zip(*[leaves(output) for output in outputs], strict=True)
    return like(outputs[0], iter([concat(list(column)) for column in columns]))


@contextmanager
def _where(what: str, place: str, batch: Batch) -> Iterator[None]:
    """Adds to an error where in the data it happened."""
    try:
        yield
    except errors.PullbackError as error:
        parts = ", ".join(
            f"{name} {_shapes(part)}"
            for name, part in zip(batch._fields, batch, strict=True)
            if part is not None
        )
        error.add_note(f"in {what}: {place}; {parts}")
        raise


def _shapes(part: Any) -> Any:
    def one(leaf: Any) -> Any:
        return f"{leaf.dtype}{leaf.shape}" if isinstance(leaf, Tensor) else type(leaf).__name__

    flat = [one(leaf) for leaf in leaves(part)]
    return flat[0] if len(flat) == 1 and not isinstance(part, (dict, list, tuple)) else flat
