"""What makes a model trainable: `compile`, `fit`, `evaluate` and `predict`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pullback import errors
from pullback.optimizers import Optimizer
from pullback.shapes import as_int
from pullback.training.batches import Batch, Batches, Columns, is_batches, of_arrays, split
from pullback.training.callback import Callback, Callbacks, History
from pullback.training.loop import Fitting, evaluate, predict
from pullback.training.objective import Compiled
from pullback.training.progress import ProgressBar
from pullback.training.run import Run, Scores

__all__ = ["Trainable"]

BATCH_SIZE = 32


class Trainable:
    """The training of a model: what `pb.Model` is besides a layer.

    `train_step`, `test_step` and `predict_step` say what is done with a batch; a model that is
    trained otherwise, such as one with two optimizers, writes its own.
    """

    #: Set by a callback, it ends training after the step.
    stop_training: bool = False
    _compiled: Compiled | None = None

    # What is minimized ---------------------------------------------------------------------------

    def compile(
        self,
        optimizer: Optimizer | str,
        loss: Any = None,
        metrics: Any = None,
        *,
        loss_weights: Any = None,
        weighted_metrics: Any = None,
    ) -> None:
        """Says how the model is to be trained.

        Args:
            optimizer: one of `pb.optimizers`, or the name of one: "adam".
            loss: a function of targets and predictions, or the name of one of `pb.losses`; for
                several outputs a dict or list of them, in the structure of the outputs. What layers
                add (`model.losses`) is added to it, and may be all there is.
            metrics: metrics, names of them ("accuracy" is the one that fits), or functions of
                targets and predictions; for several outputs a dict of lists of them by output.
            loss_weights: what each of several losses counts; 1 if it says nothing.
            weighted_metrics: as metrics; these are given the weights of the items.

        >>> model = pb.Sequential([pb.layers.Dense(3)])
        >>> model.compile("adam", "sparse_softmax_cross_entropy", ["accuracy"])

        Raises:
            InputValueError: for a name that is none.
            InputTypeError: for what is no optimizer, loss or metric.
        """
        self._compiled = Compiled(optimizer, loss, loss_weights, metrics, weighted_metrics)
        self.stop_training = False

    @property
    def compiled(self) -> Compiled:
        """What `compile` was given: `optimizer`, `losses` and `metrics`.

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

    def train_step(self, inputs: Any, targets: Any, weights: Any) -> Mapping[str, Any] | None:
        """Trains on one batch; what is done is for subclasses to say otherwise.

        Args:
            inputs: what the model is called with.
            targets: what should come out; None where the data have none.
            weights: of the items; None where there are none.

        Returns:
            Numbers by name, whose means over the epoch are among its figures.
        """
        compiled = self.compiled
        model: Any = self
        predictions: Any = None
        figures: dict[str, Any] = {}

        def loss() -> Any:
            nonlocal predictions, figures
            predictions = model(inputs, training=True)
            total, figures = compiled.loss_of(targets, predictions, weights, model.losses)
            return total

        value = compiled.optimizer.minimize(loss)
        compiled.update_metrics(targets, predictions, weights)
        return {"loss": value, **figures}

    def test_step(self, inputs: Any, targets: Any, weights: Any) -> Mapping[str, Any] | None:
        """Evaluates one batch: as `train_step`, and nothing is trained."""
        compiled = self.compiled
        model: Any = self
        predictions = model(inputs, training=False)
        value, figures = compiled.loss_of(targets, predictions, weights, model.losses)
        compiled.update_metrics(targets, predictions, weights)
        return {"loss": value, **figures}

    def predict_step(self, inputs: Any) -> Any:
        """What the model gives for one batch."""
        model: Any = self
        return model(inputs, training=False)

    # Loops ---------------------------------------------------------------------------------------

    def fit(
        self,
        x: Any,
        y: Any = None,
        *,
        batch_size: int | None = None,
        epochs: int = 1,
        verbose: bool = True,
        callbacks: Iterable[Callback] = (),
        validation_split: float = 0.0,
        validation_data: Any = None,
        shuffle: bool = True,
        class_weight: Mapping[int, float] | None = None,
        sample_weight: Any = None,
        initial_epoch: int = 0,
        steps_per_epoch: int | None = None,
        validation_steps: int | None = None,
        validation_batch_size: int | None = None,
        validation_freq: int = 1,
        columns: Columns | None = None,
    ) -> History:
        """Trains the model, and gives the figures of each epoch.

        A first Ctrl-C ends training after the step that is under way; with a
        `pb.callbacks.Checkpoint` it goes on from there the next time.

        Args:
            x: arrays (a tuple or dict of them for several inputs), or an iterable of batches, each
                (inputs, targets) or (inputs, targets, weights): a dataset, a list, a loader of
                another library, a generator, or a function that makes one for each epoch.
            y: the targets of arrays.
            batch_size: of arrays; 32 if not given.
            epochs: train to the end of this one.
            verbose: whether a progress bar is shown.
            callbacks: of `pb.callbacks`, or your own.
            validation_split: the share of the arrays, from their end, to validate with.
            validation_data: (x, y) or (x, y, weights), or an iterable of batches, to validate with
                after each epoch; its figures begin with "val_".
            shuffle: whether arrays come in another order in each epoch.
            class_weight: what items count, by their class: {0: 1.0, 1: 5.0}.
            sample_weight: of arrays, what each item counts.
            initial_epoch: the number of the first epoch.
            steps_per_epoch: batches in an epoch; needed where the data have no end. An epoch then
                goes on where the one before it stopped.
            validation_steps: batches in a validation; all if None.
            validation_batch_size: of arrays to validate with; batch_size if None.
            validation_freq: there is a validation after so many epochs.
            columns: for batches that are dicts, which of their columns are inputs, targets and
                weights: ("image", "label").

        >>> x = [[0.0], [1.0], [2.0], [3.0]]
        >>> model = pb.Sequential([pb.layers.Dense(1)])
        >>> model.compile(pb.optimizers.SGD(0.1), "mean_squared_error")
        >>> history = model.fit(x, [[1.0], [3.0], [5.0], [7.0]], epochs=200, verbose=False)
        >>> history.history["loss"][-1] < 0.01
        True

        Raises:
            TrainingError: before `compile`, or without data.
            KeyboardInterrupt: after Ctrl-C.
            InputValueError: for arguments that do not go together.
        """
        size = _size("fit", x, batch_size)
        validating = validation_data is not None
        if validating and validation_split:
            raise errors.InputValueError("give validation_data or validation_split, not both")
        epochs = as_int(epochs, "epochs: an integer")
        if epochs < 0:
            raise errors.InputValueError(f"fit: epochs is at least 0, got {epochs}")
        run = self._new_run(epochs)
        if is_batches(x):
            _no_arrays("fit", y=y, sample_weight=sample_weight, validation_split=validation_split)
            source, held_out = x, None
        else:
            source, held_out = of_arrays(
                "fit", (x, y, sample_weight), size, shuffle=shuffle, share=validation_split
            )
        run.data = Batches(source, columns, endless=steps_per_epoch is not None)
        run.steps = run.data.size if steps_per_epoch is None else steps_per_epoch
        run.epoch = initial_epoch
        if held_out is not None:
            run.validation = Batches(held_out)
        elif validating:
            run.validation = _validation(validation_data, validation_batch_size or size, columns)
        called = self._callbacks(callbacks, run, verbose, run.history)
        self.stop_training = False
        Fitting(
            self, run, called, class_weight, validation_steps, validation_freq, steps_per_epoch
        )()
        return run.history

    def evaluate(
        self,
        x: Any,
        y: Any = None,
        *,
        batch_size: int | None = None,
        verbose: bool = True,
        sample_weight: Any = None,
        steps: int | None = None,
        callbacks: Iterable[Callback] = (),
        columns: Columns | None = None,
    ) -> dict[str, Any]:
        """The loss and the metrics, by name, over data that nothing is learned from.

        The arguments are those of `fit`; `steps` is the number of batches, all if None.

        Raises:
            TrainingError: before `compile`, or without data.
        """
        run = self._new_run(0)
        data = _batches("evaluate", x, y, sample_weight, batch_size, columns)
        run.steps = data.size if steps is None else steps
        called = self._callbacks(callbacks, run, verbose)
        try:
            return evaluate(self, run, data, steps, called)
        finally:
            data.close()
            called.close()

    def predict(
        self,
        x: Any,
        *,
        batch_size: int | None = None,
        verbose: bool = False,
        steps: int | None = None,
        callbacks: Iterable[Callback] = (),
        columns: Columns | None = None,
    ) -> Any:
        """What the model gives for all items, in one tensor, or in the structure of its outputs.

        The arguments are those of `fit`; targets that batches bring are passed over.

        >>> model = pb.Sequential([pb.layers.Dense(3)])
        >>> model.predict(pb.zeros((70, 2))).shape
        (70, 3)

        Raises:
            TrainingError: without data.
        """
        run = Run(0, Scores({}))
        data = _batches("predict", x, None, None, batch_size, columns)
        run.steps = data.size if steps is None else steps
        called = self._callbacks(callbacks, run, verbose)
        try:
            return predict(self, data, steps, called)
        finally:
            data.close()
            called.close()

    def train_on_batch(self, x: Any, y: Any = None, sample_weight: Any = None) -> dict[str, Any]:
        """Takes one step; gives the loss and the metrics of this batch alone.

        >>> model = pb.Sequential([pb.layers.Dense(1, kernel_initializer="zeros")])
        >>> model.compile("sgd", "mean_squared_error")
        >>> model.train_on_batch([[1.0]], [[2.0]])
        {'loss': 4.0}

        Raises:
            TrainingError: before `compile`.
        """
        return self._on_batch(self.train_step, x, y, sample_weight)

    def test_on_batch(self, x: Any, y: Any = None, sample_weight: Any = None) -> dict[str, Any]:
        """The loss and the metrics of one batch.

        Raises:
            TrainingError: before `compile`.
        """
        return self._on_batch(self.test_step, x, y, sample_weight)

    def _on_batch(
        self, step: Callable[..., Any], x: Any, y: Any, sample_weight: Any
    ) -> dict[str, Any]:
        scores = self._new_run(0).scores
        kept = scores.checkpoint_state()
        scores.reset()
        try:
            batch = Batch(*[split((part,)).inputs for part in (x, y, sample_weight)])
            scores.add(step(*batch), batch.size)
            return dict(scores.figures())
        finally:
            scores.restore_state(kept)

    def _new_run(self, epochs: int) -> Run:
        # A model with steps of its own needs no loss, and perhaps no optimizer.
        kind = type(self)
        own = kind.train_step is not Trainable.train_step
        compiled = self._compiled if own else self.compiled
        metrics = {} if compiled is None else compiled.named_metrics
        return Run(epochs, Scores(metrics))

    def _callbacks(
        self, callbacks: Iterable[Callback], run: Run, verbose: bool, *own: Callback
    ) -> Callbacks:
        if isinstance(callbacks, Callback):
            raise errors.InputTypeError(
                f"callbacks is a list, got a {type(callbacks).__name__}; write callbacks=[...]"
            )
        given = [*own, *callbacks]
        if verbose and not any(isinstance(callback, ProgressBar) for callback in given):
            given.append(ProgressBar())
        called = Callbacks(given, self, run)
        run.callbacks = called.all
        return called


def _size(name: str, x: Any, batch_size: int | None) -> int:
    if batch_size is not None and is_batches(x):
        raise errors.InputValueError(
            f"{name}: batch_size is for arrays, and x gives batches already; for a dataset of "
            f"single items write dataset.batch({batch_size})"
        )
    if batch_size is not None and batch_size < 1:
        raise errors.InputValueError(f"{name}: batch_size is at least 1, got {batch_size}")
    return BATCH_SIZE if batch_size is None else batch_size


def _no_arrays(name: str, **given: Any) -> None:
    for what, value in given.items():
        if value is not None and not (isinstance(value, float) and value == 0):
            raise errors.InputValueError(
                f"{name}: {what} is for arrays, and x gives batches; have each batch bring its "
                f"own: (inputs, targets, weights)"
            )


def _batches(
    name: str, x: Any, y: Any, sample_weight: Any, batch_size: int | None, columns: Columns | None
) -> Batches:
    size = _size(name, x, batch_size)
    if is_batches(x):
        _no_arrays(name, y=y, sample_weight=sample_weight)
        return Batches(x, columns)
    return Batches(of_arrays(name, (x, y, sample_weight), size)[0])


def _validation(data: Any, batch_size: int, columns: Columns | None) -> Batches:
    if isinstance(data, tuple):
        if not 1 <= len(data) <= 3:
            raise errors.InputValueError(
                f"validation_data is (x, y) or (x, y, weights), got {len(data)} parts"
            )
        parts = [*data, None, None][:3]
        return Batches(of_arrays("fit's validation_data", parts, batch_size)[0])
    if is_batches(data):
        return Batches(data, columns)
    return Batches(of_arrays("fit's validation_data", (data, None, None), batch_size)[0])
