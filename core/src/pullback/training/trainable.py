"""`Trainable`: the methods `compile`, `fit`, `evaluate` and `predict` of models."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from types import NoneType
from typing import Any

from pullback import errors
from pullback._dispatch.arguments import as_float, as_list
from pullback.optimizers import Optimizer
from pullback.shapes import as_int
from pullback.tensor import Tensor
from pullback.training.batches import (
    Batch,
    Batches,
    Columns,
    arguments_of,
    is_batches,
    of_arrays,
    split,
)
from pullback.training.callback import Callback, Callbacks, History
from pullback.training.evaluation import Evaluation
from pullback.training.loop import FitLoop, evaluate, locate, predict, step_of
from pullback.training.model import TrainedModel
from pullback.training.objective import CompileConfig, LossWeights, UnseenClasses
from pullback.training.progress import ProgressBar
from pullback.training.run import Run, RunningMetrics
from pullback.training.types import LossLike, MetricsLike, Structure, Values

__all__ = ["Trainable"]

BATCH_SIZE = 32


class _CompiledOptimizer:
    """The optimizer of a compiled model: an attribute that an object may set to another one."""

    def __get__(self, model: Trainable | None, owner: type) -> Any:
        return self if model is None else model.compiled.optimizer


class Trainable:
    """The training methods of `pb.Model`.

    `train_step`, `test_step` and `predict_step` process one batch; a model that is trained in
    another way, such as with two optimizers, overrides them.
    """

    #: A callback sets it to end training after the step.
    stop_training: bool = False
    _compiled: CompileConfig | None = None
    #: The optimizer that `compile` got; a model may have another one in this attribute.
    optimizer: Any = _CompiledOptimizer()

    # Compiling -----------------------------------------------------------------------------------

    def compile(
        self,
        optimizer: Optimizer | str,
        loss: LossLike = None,
        metrics: MetricsLike = None,
        *,
        loss_weights: LossWeights = None,
        weighted_metrics: MetricsLike = None,
        capture: bool = False,
        distributed: bool = False,
    ) -> None:
        """Sets the optimizer, the loss and the metrics.

        Args:
            optimizer: one of `pb.optimizers`, or its name: "adam".
            loss: a function of targets and predictions, or the name of one of `pb.losses`; for
                several outputs a dict or list of them, in the structure of the outputs. The losses
                that layers add (`model.losses`) are added to it, and may be the only ones.
            metrics: metrics, their names ("accuracy" chooses the one that fits), or functions of
                targets and predictions; for several outputs a dict of lists of them by output.
            loss_weights: the weights of several losses; 1 by default.
            weighted_metrics: metrics that take the weights of the items into account.
            capture: whether `fit`, `evaluate` and `predict` run captured steps (`pb.function`): as
                one program, without Python between the ops. A step that cannot be captured runs
                op by op, with a warning.
            distributed: whether the batches are divided among the ranks of `pb.distributed`.

        >>> model = pb.Sequential([pb.layers.Dense(3)])
        >>> model.compile("adam", "sparse_softmax_cross_entropy", ["accuracy"])

        Raises:
            InputValueError: for an unknown name.
            InputTypeError: for any other object that is not an optimizer, loss or metric.
        """
        self._compiled = CompileConfig(optimizer, loss, loss_weights, metrics, weighted_metrics)
        self._compiled.capture = bool(capture)
        if distributed:
            from pullback.distributed.data_parallel import DataParallel, Sharing

            self._compiled.sharing = Sharing()
            if not isinstance(self._compiled.optimizer, DataParallel):
                self._compiled.optimizer = DataParallel(self._compiled.optimizer)
        self.stop_training = False

    @property
    def compiled(self) -> CompileConfig:
        """The arguments of `compile`: `optimizer`, `losses` and `metrics`.

        Raises:
            TrainingError: before `compile`.
        """
        if self._compiled is None:
            raise errors.TrainingError(
                f"this {type(self).__name__} has not been compiled; first call "
                f'model.compile(optimizer, loss), such as model.compile("adam", '
                f'"sparse_softmax_cross_entropy", ["accuracy"])'
            )
        return self._compiled

    # Steps ---------------------------------------------------------------------------------------

    def train_step(
        self: TrainedModel, inputs: Structure, targets: Structure, weights: Structure
    ) -> Values | None:
        """Trains on one batch; subclasses may override it.

        Args:
            inputs: the inputs of the model.
            targets: the targets; None if the data have none.
            weights: the weights of the items; None if there are none.

        Returns:
            Values by name, whose means over the epoch are logged.
        """
        compiled = self.compiled
        predictions: Structure = None
        values: dict[str, Tensor] = {}

        def loss() -> Tensor:
            nonlocal predictions, values
            predictions = self(*arguments_of(self, inputs), training=True)
            total, values = compiled.loss_of(targets, predictions, weights, self.losses)
            return total

        total = compiled.optimizer.minimize(loss)
        compiled.update_metrics(targets, predictions, weights)
        return {"loss": total, **values}

    def test_step(
        self: TrainedModel, inputs: Structure, targets: Structure, weights: Structure
    ) -> Values | None:
        """Evaluates one batch: as `train_step`, without training."""
        compiled = self.compiled
        predictions = self(*arguments_of(self, inputs), training=False)
        total, values = compiled.loss_of(targets, predictions, weights, self.losses)
        compiled.update_metrics(targets, predictions, weights)
        return {"loss": total, **values}

    def predict_step(self: TrainedModel, inputs: Structure) -> Structure:
        """Returns the outputs of the model for one batch."""
        return self(*arguments_of(self, inputs), training=False)

    # Loops ---------------------------------------------------------------------------------------

    def fit(
        self: TrainedModel,
        x: Structure,
        y: Structure = None,
        *,
        batch_size: int | None = None,
        epochs: int = 1,
        verbose: bool = True,
        callbacks: Iterable[Callback] = (),
        validation_split: float = 0.0,
        validation_data: Structure = None,
        shuffle: bool = True,
        class_weight: Mapping[int, float] | None = None,
        sample_weight: Structure = None,
        initial_epoch: int = 0,
        steps_per_epoch: int | None = None,
        validation_steps: int | None = None,
        validation_batch_size: int | None = None,
        validation_freq: int = 1,
        columns: Columns | None = None,
    ) -> History:
        """Trains the model, and returns the metrics of each epoch.

        A first Ctrl-C ends training after the current step; with a `pb.callbacks.Checkpoint` the
        next call resumes from there.

        Args:
            x: arrays (a tuple or dict of them for several inputs), or an iterable of batches, each
                (inputs, targets) or (inputs, targets, weights): a dataset, a list, a loader of
                another library, a generator, or a function that makes one for each epoch.
            y: the targets of arrays.
            batch_size: the size of batches of arrays; 32 if None.
            epochs: the number of the last epoch.
            verbose: True to show a progress bar.
            callbacks: callbacks, of `pb.callbacks` or your own.
            validation_split: the fraction of the arrays, from their end, to validate with.
            validation_data: (x, y) or (x, y, weights), or an iterable of batches, to validate with
                after each epoch; its metrics begin with "val_".
            shuffle: True for a new order of the arrays in each epoch.
            class_weight: the weights of items by class: {0: 1.0, 1: 5.0}. Every class must occur.
            sample_weight: the weights of the items of arrays.
            initial_epoch: the number of the first epoch.
            steps_per_epoch: the number of batches in an epoch; required for infinite data. An
                epoch then begins where the one before it stopped.
            validation_steps: the number of batches in a validation; all if None.
            validation_batch_size: the size of batches of validation arrays; batch_size if None.
            validation_freq: the number of epochs from one validation to the next.
            columns: for batches that are dicts, the columns of inputs, targets and weights:
                ("image", "label").

        >>> x = [[0.0], [1.0], [2.0], [3.0]]
        >>> model = pb.Sequential([pb.layers.Dense(1)])
        >>> model.compile(pb.optimizers.SGD(0.1), "mean_squared_error")
        >>> history = model.fit(x, [[1.0], [3.0], [5.0], [7.0]], epochs=200, verbose=False)
        >>> history.history["loss"][-1] < 0.01
        True

        Raises:
            TrainingError: before `compile`, or without data.
            KeyboardInterrupt: after Ctrl-C.
            InputValueError: for arguments that contradict each other.
        """
        size = _size("fit", x, batch_size)
        validating = validation_data is not None
        validation_split = as_float(validation_split, "validation_split")
        if validating and validation_split:
            raise errors.InputValueError("pass validation_data or validation_split, not both")
        _check_steps(self, validating or bool(validation_split))
        epochs = as_int(epochs, "epochs: an integer")
        if epochs < 0:
            raise errors.InputValueError(f"fit: epochs must be at least 0, got {epochs}")
        steps_per_epoch = _steps("steps_per_epoch", steps_per_epoch)
        validation_steps = _steps("validation_steps", validation_steps)
        run = _new_run(self, epochs)
        if is_batches(x):
            _no_arrays("fit", y=y, sample_weight=sample_weight, validation_split=validation_split)
            source, held_out = x, None
        else:
            if class_weight is not None:
                unseen = UnseenClasses(class_weight)
                unseen.see(y)
                unseen.check()
            source, held_out = of_arrays(
                "fit",
                (x, y, sample_weight),
                size,
                shuffle=shuffle,
                validation_split=validation_split,
            )
        run.data = Batches(source, columns, endless=steps_per_epoch is not None)
        run.steps = run.data.size if steps_per_epoch is None else steps_per_epoch
        run.epoch = as_int(initial_epoch, "initial_epoch: an integer")
        if held_out is not None:
            run.validation = Batches(held_out)
        elif validating:
            run.validation = _validation(validation_data, validation_batch_size or size, columns)
        called = _callbacks(self, callbacks, run, verbose, run.history)
        if self._compiled is not None and self._compiled.sharing is not None:
            self._compiled.sharing.begin(self, self._compiled.optimizer)
        self.stop_training = False
        FitLoop(
            self, run, called, class_weight, validation_steps, validation_freq, steps_per_epoch
        )()
        return run.history

    def evaluate(
        self: TrainedModel,
        x: Structure,
        y: Structure = None,
        *,
        batch_size: int | None = None,
        verbose: bool = True,
        sample_weight: Structure = None,
        steps: int | None = None,
        callbacks: Iterable[Callback] = (),
        columns: Columns | None = None,
    ) -> Evaluation:
        """Returns the loss and the metrics, without training: `result["loss"]`, or `result.loss`.

        The result is unpacked into values, `loss, accuracy = model.evaluate(x, y)`, and
        `dict(result)` has them by name. The arguments are those of `fit`; `steps` is the number of
        batches, all if None.

        Raises:
            TrainingError: before `compile`, or without data.
        """
        run = _new_run(self, 0)
        data = _batches("evaluate", x, y, sample_weight, batch_size, columns)
        steps = _steps("steps", steps)
        run.steps = data.size if steps is None else steps
        called = _callbacks(self, callbacks, run, verbose)
        try:
            return Evaluation(evaluate(self, run, data, steps, called))
        finally:
            data.close()
            called.close()

    def predict(
        self: TrainedModel,
        x: Structure,
        *,
        batch_size: int | None = None,
        verbose: bool = False,
        steps: int | None = None,
        callbacks: Iterable[Callback] = (),
        columns: Columns | None = None,
    ) -> Structure:
        """Returns the outputs for all items: one tensor, or the structure of the outputs.

        The arguments are those of `fit`; targets in batches are ignored.

        >>> model = pb.Sequential([pb.layers.Dense(3)])
        >>> model.predict(pb.zeros((70, 2))).shape
        (70, 3)

        Raises:
            TrainingError: without data.
        """
        run = Run(0, RunningMetrics({}))
        data = _batches("predict", x, None, None, batch_size, columns)
        steps = _steps("steps", steps)
        run.steps = data.size if steps is None else steps
        called = _callbacks(self, callbacks, run, verbose)
        try:
            return predict(self, data, steps, called)
        finally:
            data.close()
            called.close()

    def train_on_batch(
        self: TrainedModel, x: Structure, y: Structure = None, sample_weight: Structure = None
    ) -> Evaluation:
        """Takes one step; returns the loss and the metrics of this batch alone.

        >>> model = pb.Sequential([pb.layers.Dense(1, kernel_initializer="zeros")])
        >>> model.compile("sgd", "mean_squared_error")
        >>> model.train_on_batch([[1.0]], [[2.0]])
        Evaluation(loss=4.0)

        Raises:
            TrainingError: before `compile`.
        """
        return _on_batch(self, "train_on_batch", self.train_step, x, y, sample_weight)

    def test_on_batch(
        self: TrainedModel, x: Structure, y: Structure = None, sample_weight: Structure = None
    ) -> Evaluation:
        """Returns the loss and the metrics of one batch.

        Raises:
            TrainingError: before `compile`.
        """
        return _on_batch(self, "test_on_batch", self.test_step, x, y, sample_weight)


def _on_batch(
    model: TrainedModel,
    method: str,
    step: Callable[[Structure, Structure, Structure], Values | None],
    x: Structure,
    y: Structure,
    sample_weight: Structure,
) -> Evaluation:
    metrics = _new_run(model, 0).metrics
    kept = metrics.checkpoint_state()
    metrics.reset()
    try:
        batch = Batch(*[split((part,)).inputs for part in (x, y, sample_weight)])
        try:
            metrics.add(step_of(model, step)(*batch), batch.size)
        except errors.PullbackError as error:
            locate(error, model, method, "one batch", batch)
            raise
        return Evaluation(metrics.logs())
    finally:
        metrics.restore_state(kept)


def _new_run(model: TrainedModel, epochs: int) -> Run:
    # A model with steps of its own needs no loss, and perhaps no optimizer.
    has_own_step = getattr(type(model), "train_step", None) is not Trainable.train_step
    compiled = model._compiled if has_own_step else model.compiled
    return Run(epochs, RunningMetrics({} if compiled is None else compiled.named_metrics))


def _check_steps(model: TrainedModel, validating: bool) -> None:
    """Checks the steps that a model has of its own.

    Raises:
        TrainingError: for other parameters, or a validation without a step for it.
    """
    kind = type(model)
    for name in ("train_step", "test_step"):
        try:
            inspect.signature(getattr(model, name)).bind(None, None, None)
        except TypeError:
            parameters = inspect.signature(getattr(kind, name))
            raise errors.TrainingError(
                f"{kind.__name__}.{name} has the parameters {parameters}; write "
                f"def {name}(self, inputs, targets, weights)"
            ) from None
    own = getattr(kind, "test_step", None) is not Trainable.test_step
    if validating and model._compiled is None and not own:
        raise errors.TrainingError(
            f"validation calls test_step, and {kind.__name__} has only a train_step of its own; "
            f"write def test_step(self, inputs, targets, weights), or compile it with a loss"
        )


def _steps(name: str, value: int | None) -> int | None:
    """A number of batches, or None for all."""
    return None if value is None else as_int(value, f"{name}: an integer")


def _callbacks(
    model: TrainedModel, callbacks: Iterable[Callback], run: Run, verbose: bool, *own: Callback
) -> Callbacks:
    if isinstance(callbacks, Callback):
        raise errors.InputTypeError(
            f"callbacks must be a list, got a {type(callbacks).__name__}; write callbacks=[...]"
        )
    listed = [*own, *as_list(callbacks, "callbacks", "callbacks")]
    if not isinstance(verbose, (str, NoneType)):
        as_int(verbose, "verbose: True or False")
    if verbose and not any(isinstance(callback, ProgressBar) for callback in listed):
        listed.append(ProgressBar())
    sharing = model._compiled and model._compiled.sharing
    if sharing and not sharing.is_first:
        listed = [callback for callback in listed if not callback.writes]
    called = Callbacks(listed, model, run)
    run.callbacks = called.all
    return called


def _size(name: str, x: Structure, batch_size: int | None) -> int:
    if batch_size is not None and is_batches(x):
        raise errors.InputValueError(
            f"{name}: batch_size is for arrays, but x yields batches already; for a dataset of "
            f"single items write dataset.batch({batch_size})"
        )
    if batch_size is not None and as_int(batch_size, f"{name}: an integer batch_size") < 1:
        raise errors.InputValueError(f"{name}: batch_size must be at least 1, got {batch_size}")
    return BATCH_SIZE if batch_size is None else batch_size


def _no_arrays(name: str, **arguments: Structure) -> None:
    for argument, value in arguments.items():
        if value is not None and not (isinstance(value, float) and value == 0):
            raise errors.InputValueError(
                f"{name}: {argument} is for arrays, but x yields batches; put it into each batch: "
                f"(inputs, targets, weights)"
            )


def _batches(
    name: str,
    x: Structure,
    y: Structure,
    sample_weight: Structure,
    batch_size: int | None,
    columns: Columns | None,
) -> Batches:
    size = _size(name, x, batch_size)
    if is_batches(x):
        _no_arrays(name, y=y, sample_weight=sample_weight)
        return Batches(x, columns)
    return Batches(of_arrays(name, (x, y, sample_weight), size)[0])


def _validation(data: Structure, batch_size: int, columns: Columns | None) -> Batches:
    if isinstance(data, tuple):
        if not 1 <= len(data) <= 3:
            raise errors.InputValueError(
                f"validation_data must be (x, y) or (x, y, weights), got {len(data)} parts"
            )
        parts = [*data, None, None][:3]
        return Batches(of_arrays("fit's validation_data", parts, batch_size)[0])
    if is_batches(data):
        return Batches(data, columns)
    return Batches(of_arrays("fit's validation_data", (data, None, None), batch_size)[0])
