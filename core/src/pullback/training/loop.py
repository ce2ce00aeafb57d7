"""The loops over batches behind `fit`, `evaluate` and `predict`."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from pullback import errors
from pullback._tree import leaves, like
from pullback.data.processes import broke
from pullback.ops.joining import concat
from pullback.state import named_variables
from pullback.tensor import Tensor
from pullback.training.batches import Batch, Batches
from pullback.training.callback import Callbacks
from pullback.training.interruption import Interrupted, Interruption
from pullback.training.model import TrainedModel
from pullback.training.objective import UnseenClasses, by_class
from pullback.training.run import Run
from pullback.training.types import Logs, Structure, Values

__all__ = ["FitLoop", "evaluate", "locate", "predict", "step_of"]


class FitLoop:
    """One call of `fit`.

    Args:
        model: the model.
        run: the progress, with data and validation data.
        callbacks: called at each event.
        class_weight: the weights of items by class.
        validation_steps: the number of batches in a validation; all if None.
        validation_freq: the number of epochs from one validation to the next.
        steps: the number of steps in an epoch; to the end of the data if None.
    """

    def __init__(
        self,
        model: TrainedModel,
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
        self.unseen = UnseenClasses(class_weight or {})
        self.validation_steps = validation_steps
        self.validation_freq = validation_freq
        self.steps = steps
        compiled = model._compiled
        self.sharing = None if compiled is None else compiled.sharing
        several = self.sharing is not None and self.sharing.is_several
        self.interruption = Interruption(
            self.sharing.any_of if self.sharing is not None and several else None
        )
        self.warned = False

    def __call__(self) -> None:
        """Runs all epochs, or stops at Ctrl-C.

        Raises:
            KeyboardInterrupt: after Ctrl-C, once callbacks have saved their state.
            TrainingError: if there are no data.
        """
        with self.interruption:
            try:
                self.callbacks("on_restore", {})
                if self.sharing is not None:
                    # Nobody saves before all have read.
                    self.sharing.agree(f"begins after step {self.run.total}")
                self.callbacks("on_train_begin", {})
                logs: Logs = {}
                while self.run.epoch < self.run.epochs and not self.run.stopped:
                    logs = self._epoch()
                self.callbacks("on_train_end", logs)
            except Interrupted:
                self.callbacks("on_interrupt", self.run.metrics.logs())
                if self.sharing is not None:
                    self.sharing.wait()  # for the rank that saves
                # A program ends as by any Ctrl-C.
                raise KeyboardInterrupt from None
            except errors.DataError as error:
                if not (self.interruption.asked and broke(error)):
                    raise
                # Ctrl-C has ended the workers too, where it cannot be blocked for them. Their data
                # are lost, so there is no position to save.
                raise KeyboardInterrupt from error
            finally:
                self.callbacks.close()
                for data in (self.run.data, self.run.validation):
                    if data is not None:
                        data.close()

    def _epoch(self) -> Logs:
        run, callbacks, data = self.run, self.callbacks, self.run.data
        assert data is not None
        epoch = run.epoch
        callbacks("on_epoch_begin", epoch, {})
        whole = not run.step
        if whole:
            run.metrics.reset()
            data.begin()
        metrics: Logs = run.metrics.logs()
        model, steps = self.model, self.steps
        begins, ends = callbacks.at("on_train_batch_begin"), callbacks.at("on_train_batch_end")
        while (steps is None or run.step < steps) and not model.stop_training:
            try:
                batch = data.next()
            except StopIteration:
                self._ended(data)
                if whole:
                    self.unseen.check()
                break
            for callback in begins:
                callback(run.step, {})
            try:
                if self.class_weight is not None:
                    batch = self._weighted(batch)
                run.metrics.add(run_step(model, model.train_step, batch), batch.size)
            except errors.PullbackError as error:
                locate(error, model, "fit", f"epoch {epoch + 1}, step {run.step + 1}", batch)
                raise
            run.step += 1
            run.total += 1
            metrics = run.metrics.logs()
            for callback in ends:
                callback(run.step - 1, metrics)
            self.interruption.check()
        self._warn_of_nan(metrics)
        logs = {**metrics, **self._validate()}
        # A checkpoint at the end of an epoch resumes at the beginning of the next.
        run.epoch, run.step = epoch + 1, 0
        callbacks("on_epoch_end", epoch, logs)
        run.stopped = bool(self.model.stop_training)
        self.interruption.check()
        return logs

    def _warn_of_nan(self, metrics: Logs) -> None:
        """Warns once of a loss that is NaN, which no number in a progress bar explains."""
        if not self.warned and math.isnan(float(metrics.get("loss", 0.0))):
            self.warned = True
            warnings.warn(
                "fit: the loss is NaN; labels outside 0, ..., classes - 1 give that, and so do a "
                "learning rate that is too large and NaN in the inputs; "
                "pb.callbacks.TerminateOnNaN() ends fit at the first batch that has it",
                RuntimeWarning,
                stacklevel=6,
            )

    def _weighted(self, batch: Batch) -> Batch:
        """A batch with the weights of its classes."""
        assert self.class_weight is not None
        weights = by_class(batch.targets, self.class_weight, batch.weights)
        self.unseen.see(batch.targets)
        return Batch(batch.inputs, batch.targets, weights)

    def _ended(self, data: Batches) -> None:
        """Raises if an epoch has no steps, or fewer than requested."""
        run = self.run
        if run.step and self.steps is None:
            return
        if data.once and run.total:
            raise errors.TrainingError(
                f"the data ended in epoch {run.epoch + 1}, after {run.step} steps: an iterator has "
                f"one pass; use a Dataset, a list of batches, or a function that makes an "
                f"iterator for each epoch"
            )
        raise errors.TrainingError("fit got no data: x yields no batches; pass at least one")

    def _validate(self) -> Logs:
        run = self.run
        if run.validation is None or (run.epoch + 1) % self.validation_freq:
            return {}
        # After an interruption the metrics are those of the training again.
        kept = run.metrics.checkpoint_state()
        try:
            return evaluate(
                self.model, run, run.validation, self.validation_steps, self.callbacks,
                prefix="val_", check=self.interruption.check,
            )  # fmt: skip
        except Interrupted:
            run.metrics.restore_state(kept)
            raise


def evaluate(
    model: TrainedModel,
    run: Run,
    data: Batches,
    steps: int | None,
    callbacks: Callbacks,
    *,
    prefix: str = "",
    check: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """Returns the metrics over one pass.

    Raises:
        TrainingError: if there are no data.
    """
    callbacks("on_test_begin", {})
    run.metrics.reset()
    data.begin()
    step = 0
    while steps is None or step < steps:
        try:
            batch = data.next()
        except StopIteration:
            break
        callbacks("on_test_batch_begin", step, {})
        try:
            values = run_step(model, model.test_step, batch)
            run.metrics.add(values, batch.size)
        except errors.PullbackError as error:
            locate(error, model, "evaluate", f"batch {step + 1}", batch)
            raise
        callbacks("on_test_batch_end", step, run.metrics.logs(prefix))
        step += 1
        check()
    if not step:
        raise errors.TrainingError(
            "evaluation got no data: it yields no batches; "
            + ("an iterator has one pass" if data.once else "pass at least one")
        )
    logs = dict(run.metrics.logs(prefix))
    callbacks("on_test_end", logs)
    return logs


def predict(
    model: TrainedModel, data: Batches, steps: int | None, callbacks: Callbacks
) -> Structure:
    """Returns the outputs of the model for all items.

    Raises:
        TrainingError: if there are no data.
    """
    callbacks("on_predict_begin", {})
    data.begin()
    outputs: list[Structure] = []
    while steps is None or len(outputs) < steps:
        try:
            batch = data.next()
        except StopIteration:
            break
        callbacks("on_predict_batch_begin", len(outputs), {})
        try:
            step = step_of(model, model.predict_step)
            sharing = model._compiled and model._compiled.sharing
            outputs.append(
                sharing.outputs(step, batch.inputs, batch.size) if sharing else step(batch.inputs)
            )
        except errors.PullbackError as error:
            locate(error, model, "predict", f"batch {len(outputs) + 1}", batch)
            raise
        callbacks("on_predict_batch_end", len(outputs) - 1, {})
    if not outputs:
        raise errors.TrainingError("predict got no data: x yields no batches; pass at least one")
    callbacks("on_predict_end", {})
    columns = zip(*[leaves(output) for output in outputs], strict=True)
    return like(outputs[0], iter([concat(list(column)) for column in columns]))


def step_of(model: TrainedModel, method: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a step of a model, captured if the model is compiled with `capture=True`."""
    compiled = model._compiled
    return method if compiled is None else compiled.step(method)


def run_step(model: TrainedModel, method: Callable[..., Any], batch: Batch) -> Values | None:
    """Returns the values of a step with a batch, which several ranks divide."""
    step = step_of(model, method)
    sharing = model._compiled and model._compiled.sharing
    values: Values | None = sharing.step(step, batch) if sharing else step(*batch)
    return values


def locate(
    error: errors.PullbackError, model: TrainedModel, method: str, position: str, batch: Batch
) -> None:
    """Adds the position in the data to an error, and to one of devices what to write."""
    parts = ", ".join(
        f"{name} {_shapes(part)}"
        for name, part in zip(batch._fields, batch, strict=True)
        if part is not None
    )
    error.add_note(f"in {method}: {position}; {parts}")
    devices = {variable.device for variable in named_variables(model).values()}
    if isinstance(error, errors.DeviceError) and len(devices) == 1:
        device = devices.pop()
        error.add_note(
            f"batches are made on the active device, and the model is on {device}: write "
            f'`with pb.device("{device}"):` around {method}'
        )


def _shapes(part: Structure) -> str | list[str]:
    def shape(leaf: object) -> str:
        return f"{leaf.dtype}{leaf.shape}" if isinstance(leaf, Tensor) else type(leaf).__name__

    flat = [shape(leaf) for leaf in leaves(part)]
    return flat[0] if len(flat) == 1 and not isinstance(part, (dict, list, tuple)) else flat
