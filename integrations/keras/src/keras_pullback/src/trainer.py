"""`fit`, `evaluate` and `predict`: steps op by op, or as programs of `pb.function`."""

from __future__ import annotations

import warnings

import numpy as np
from keras.src import backend, optimizers, tree
from keras.src import callbacks as callbacks_module
from keras.src.backend import config
from keras.src.trainers import trainer as base_trainer
from keras.src.trainers.data_adapters import array_slicing, data_adapter_utils
from keras.src.trainers.epoch_iterator import EpochIterator
from keras.src.utils import traceback_utils
from keras.src.utils.python_utils import pythonify_logs

import pullback as pb
from keras_pullback.src.ops.core import convert_to_tensor
from keras_pullback.src.optimizer import hasten


def _tensor(x):
    """The arrays of a batch as tensors; what is none, such as texts, as it is."""
    if isinstance(x, pb.Tensor) or x is None:
        return x
    if hasattr(x, "dtype") and getattr(x.dtype, "kind", "") in "OSU":
        return x
    try:
        return convert_to_tensor(x)
    except (TypeError, ValueError):
        return x


class Trainer(base_trainer.Trainer):
    def __init__(self):
        super().__init__()
        self.train_function = None
        self.test_function = None
        self.predict_function = None

    # Steps ---------------------------------------------------------------------------------------

    def _predicted(self, x, training):
        return self(x, training=training) if self._call_has_training_arg else self(x)

    def _loss_of(self, x, y, y_pred, sample_weight, training):
        loss = self._compute_loss(
            x=x, y=y, y_pred=y_pred, sample_weight=sample_weight, training=training
        )
        size = next(i for i in tree.flatten(x) if i is not None).shape[0]
        self._loss_tracker.update_state(loss, sample_weight=size)
        return loss

    def train_step(self, data):
        x, y, sample_weight = data_adapter_utils.unpack_x_y_sample_weight(data)
        variables = self.trainable_weights
        with pb.GradientTape() as tape:
            y_pred = self._predicted(x, training=True)
            loss = self._loss_of(x, y, y_pred, sample_weight, training=True)
            if self.optimizer is not None:
                loss = self.optimizer.scale_loss(loss)
        if variables:
            gradients = tape.gradient(loss, [v._value for v in variables])
            hasten(self.optimizer)
            self.optimizer.apply(gradients, variables)
        else:
            warnings.warn("The model does not have any trainable weights.", stacklevel=2)
        return self.compute_metrics(x, y, y_pred, sample_weight=sample_weight)

    def test_step(self, data):
        x, y, sample_weight = data_adapter_utils.unpack_x_y_sample_weight(data)
        y_pred = self._predicted(x, training=False)
        self._loss_of(x, y, y_pred, sample_weight, training=False)
        return self.compute_metrics(x, y, y_pred, sample_weight=sample_weight)

    def predict_step(self, data):
        x, _, _ = data_adapter_utils.unpack_x_y_sample_weight(data)
        return self._predicted(x, training=False)

    def _function(self, step, join):
        """A function of the batches of one execution; `join` makes one result of those of steps."""

        def one(data):
            return step(data)

        if self.jit_compile and not self.run_eagerly:
            one = pb.function(one, strict=False, compare=False)

        def run(batches):
            results = [one(tree.map_structure(_tensor, batch)) for batch in batches]
            return join(results)

        return run

    def make_train_function(self, force=False):
        if self.train_function is None or force:
            self.train_function = self._function(self.train_step, lambda logs: logs[-1])
        return self.train_function

    def make_test_function(self, force=False):
        if self.test_function is None or force:
            self.test_function = self._function(self.test_step, lambda logs: logs[-1])
        return self.test_function

    def make_predict_function(self, force=False):
        def join(results):
            return (
                tree.map_structure(lambda *parts: pb.concat(parts), *results)
                if len(results) > 1
                else results[0]
            )

        if self.predict_function is None or force:
            self.predict_function = self._function(self.predict_step, join)
        return self.predict_function

    # Loops ---------------------------------------------------------------------------------------

    def _callbacks(self, callbacks, iterator, verbose, epochs=1, **options):
        if isinstance(callbacks, callbacks_module.CallbackList):
            return callbacks
        made = callbacks_module.CallbackList(
            callbacks,
            add_progbar=verbose != 0,
            verbose=verbose,
            epochs=epochs,
            steps=iterator.num_batches,
            model=self,
            **options,
        )
        if pb.default_device().kind == "cpu":
            # A thread of callbacks would wait for nothing, and take turns with the steps.
            made._async_train = made._async_test = made._async_predict = False
        return made

    @traceback_utils.filter_traceback
    def fit(
        self,
        x=None,
        y=None,
        batch_size=None,
        epochs=1,
        verbose="auto",
        callbacks=None,
        validation_split=0.0,
        validation_data=None,
        shuffle=True,
        class_weight=None,
        sample_weight=None,
        initial_epoch=0,
        steps_per_epoch=None,
        validation_steps=None,
        validation_batch_size=None,
        validation_freq=1,
    ):
        self._assert_compile_called("fit")
        most = config.max_epochs()
        if most and most < epochs:
            warnings.warn(f"Limiting epochs to {most}", stacklevel=2)
            epochs = most
        self._eval_epoch_iterator = None
        if validation_split and validation_data is None:
            (x, y, sample_weight), validation_data = array_slicing.train_validation_split(
                (x, y, sample_weight), validation_split=validation_split
            )
        iterator = EpochIterator(
            x=x,
            y=y,
            sample_weight=sample_weight,
            batch_size=batch_size,
            steps_per_epoch=steps_per_epoch,
            shuffle=shuffle,
            class_weight=class_weight,
            steps_per_execution=self.steps_per_execution,
        )
        self._symbolic_build(iterator=iterator)
        iterator.reset()
        callbacks = self._callbacks(callbacks, iterator, verbose, epochs, add_history=True)
        self.stop_training = False
        training_logs = {}
        self.make_train_function()
        callbacks.on_train_begin()
        for epoch in range(self._initial_epoch or initial_epoch, epochs):
            self.reset_metrics()
            callbacks.on_epoch_begin(epoch)
            logs = {}
            for begin, end, batches in iterator:
                callbacks.on_train_batch_begin(begin)
                logs = self.train_function(batches)
                callbacks.on_train_batch_end(end, logs)
                if self.stop_training:
                    break
            epoch_logs = dict(pythonify_logs(self._get_metrics_result_or_logs(logs)))
            if validation_data is not None and self._should_eval(epoch, validation_freq):
                epoch_logs |= self._validated(
                    validation_data,
                    validation_batch_size or batch_size,
                    validation_steps,
                    callbacks,
                )
            callbacks.on_epoch_end(epoch, epoch_logs)
            training_logs = epoch_logs
            if self.stop_training:
                break
        if isinstance(self.optimizer, optimizers.Optimizer) and epochs > 0:
            self.optimizer.finalize_variable_values(self.trainable_weights)
        self._eval_epoch_iterator = None
        callbacks.on_train_end(logs=training_logs)
        return self.history

    def _validated(self, data, batch_size, steps, callbacks):
        x, y, sample_weight = data_adapter_utils.unpack_x_y_sample_weight(data)
        if self._eval_epoch_iterator is None:
            self._eval_epoch_iterator = EpochIterator(
                x=x,
                y=y,
                sample_weight=sample_weight,
                batch_size=batch_size,
                steps_per_execution=self.steps_per_execution,
                steps_per_epoch=steps,
                shuffle=False,
            )
        logs = self.evaluate(
            x=x,
            y=y,
            sample_weight=sample_weight,
            batch_size=batch_size,
            steps=steps,
            callbacks=callbacks,
            return_dict=True,
            _use_cached_eval_dataset=True,
        )
        return {f"val_{name}": value for name, value in logs.items()}

    @traceback_utils.filter_traceback
    def evaluate(
        self,
        x=None,
        y=None,
        batch_size=None,
        verbose="auto",
        sample_weight=None,
        steps=None,
        callbacks=None,
        return_dict=False,
        **kwargs,
    ):
        self._assert_compile_called("evaluate")
        cached = kwargs.pop("_use_cached_eval_dataset", False)
        if kwargs:
            raise ValueError(f"Arguments not recognized: {kwargs}")
        iterator = (
            self._eval_epoch_iterator
            if cached
            else EpochIterator(
                x=x,
                y=y,
                sample_weight=sample_weight,
                batch_size=batch_size,
                steps_per_epoch=steps,
                shuffle=False,
                steps_per_execution=self.steps_per_execution,
            )
        )
        self._symbolic_build(iterator=iterator)
        iterator.reset()
        callbacks = self._callbacks(callbacks, iterator, verbose)
        self.make_test_function()
        self.stop_evaluating = False
        callbacks.on_test_begin()
        logs = {}
        self.reset_metrics()
        for begin, end, batches in iterator:
            callbacks.on_test_batch_begin(begin)
            logs = self.test_function(batches)
            callbacks.on_test_batch_end(end, logs)
            if self.stop_evaluating:
                break
        logs = pythonify_logs(self._get_metrics_result_or_logs(logs))
        callbacks.on_test_end(logs)
        return logs if return_dict else self._flatten_metrics_in_order(logs)

    @traceback_utils.filter_traceback
    def predict(self, x, batch_size=None, verbose="auto", steps=None, callbacks=None):
        iterator = EpochIterator(
            x=x,
            batch_size=batch_size,
            steps_per_epoch=steps,
            shuffle=False,
            steps_per_execution=self.steps_per_execution,
        )
        callbacks = self._callbacks(callbacks, iterator, verbose)
        self.make_predict_function()
        self.stop_predicting = False
        callbacks.on_predict_begin()
        outputs = []
        for begin, end, batches in iterator:
            callbacks.on_predict_batch_begin(begin)
            outputs.append(self.predict_function(batches))
            callbacks.on_predict_batch_end(end, {"outputs": outputs[-1]})
            if self.stop_predicting:
                break
        callbacks.on_predict_end()
        return tree.map_structure(
            lambda *parts: np.concatenate([backend.convert_to_numpy(part) for part in parts]),
            *outputs,
        )

    def train_on_batch(self, x, y=None, sample_weight=None, class_weight=None, return_dict=False):
        self._assert_compile_called("train_on_batch")
        if class_weight is not None:
            if sample_weight is not None:
                raise ValueError(
                    "Arguments `sample_weight` and `class_weight` cannot be specified at the same "
                    f"time. Received: sample_weight={sample_weight}, class_weight={class_weight}"
                )
            sample_weight = data_adapter_utils.class_weight_to_sample_weights(y, class_weight)
        return self._on_batch((x, y, sample_weight), self.make_train_function, return_dict)

    def test_on_batch(self, x, y=None, sample_weight=None, return_dict=False):
        self._assert_compile_called("test_on_batch")
        return self._on_batch((x, y, sample_weight), self.make_test_function, return_dict)

    def _on_batch(self, data, make, return_dict):
        data = tree.map_structure(_tensor, data)
        self._symbolic_build(data_batch=data)
        function = make()
        self.reset_metrics()
        logs = pythonify_logs(function([data]))
        return logs if return_dict else self._flatten_metrics_in_order(logs)

    def predict_on_batch(self, x):
        outputs = self.make_predict_function()([(x,)])
        return tree.map_structure(backend.convert_to_numpy, outputs)
