"""compile, fit, evaluate and predict: results, sources of data, and rejected arguments."""

from __future__ import annotations

import functools
import gc
import threading

import numpy as np
import pytest

import pullback as pb
from pullback.state import named_variables

RNG = np.random.default_rng(5)
X = RNG.normal(size=(50, 4)).astype(np.float32)
Y = (X[:, 0] + X[:, 1] > 0).astype(np.int32)
T = (X @ np.array([[1.0], [2.0], [3.0], [4.0]]) + 5).astype(np.float32)
CROSS_ENTROPY = pb.losses.sparse_softmax_cross_entropy


def classifier(seed=0, dropout=0.0):
    pb.random.seed(seed)
    return pb.Sequential(
        [
            pb.layers.Dense(8, activation="tanh"),
            pb.layers.Dropout(dropout, seed=seed),
            pb.layers.Dense(2),
        ]
    )


def line():
    return pb.Sequential([pb.layers.Dense(1, kernel_initializer="zeros", input_shape=(4,))])


def values(model):
    return [variable.numpy().copy() for variable in model.variables]


def same(first, second):
    return all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


class Turns(pb.callbacks.Callback):
    """Takes down which methods are called, with what."""

    def __init__(self):
        self.calls = []


def _noting(name):
    return lambda self, *arguments: self.calls.append((name, *arguments[:-1]))


for _name in [name for name in dir(pb.callbacks.Callback) if name.startswith("on_")]:
    setattr(Turns, _name, _noting(_name))


class TestFit:
    def test_is_the_loop_that_one_would_write(self):
        model = classifier(dropout=0.3)
        model.compile(pb.optimizers.Adam(0.01), CROSS_ENTROPY, ["accuracy"])
        history = model.fit(X, Y, epochs=3, batch_size=8, verbose=False)

        by_hand = classifier(dropout=0.3)
        optimizer = pb.optimizers.Adam(0.01)
        dataset = pb.data.Dataset.from_tensor_slices((X, Y)).shuffle().batch(8)
        losses, accuracies = [], []
        for _ in range(3):
            mean, accuracy = pb.metrics.Mean(), pb.metrics.SparseCategoricalAccuracy()
            for inputs, targets in dataset:
                with pb.GradientTape() as tape:
                    logits = by_hand(inputs, training=True)
                    loss = CROSS_ENTROPY(targets, logits)
                variables = by_hand.trainable_variables
                optimizer.apply_gradients(
                    zip(tape.gradient(loss, variables), variables, strict=True)
                )
                mean(loss, len(targets))
                accuracy(targets, logits)
            losses.append(mean.result())
            accuracies.append(accuracy.result())
        assert same(values(model), values(by_hand))
        assert history.history == {"loss": losses, "accuracy": accuracies}
        assert history.epoch == [0, 1, 2]
        assert model.compiled.optimizer.step == 21

    def test_learns(self):
        model = line()
        model.compile(pb.optimizers.SGD(0.05), "mean_squared_error")
        model.fit(X, T, epochs=200, verbose=False)
        kernel, bias = values(model)
        np.testing.assert_allclose(kernel[:, 0], [1, 2, 3, 4], atol=1e-3)
        np.testing.assert_allclose(bias, 5, atol=1e-3)

    def test_unshuffled_arrays_come_in_order(self):
        seen = []

        class Model(pb.Model):
            def train_step(self, inputs, targets, weights):
                seen.append(inputs.numpy()[:, 0].tolist())

        Model().fit(np.arange(5.0)[:, None], batch_size=2, shuffle=False, verbose=False)
        assert seen == [[0, 1], [2, 3], [4]]
        seen.clear()
        model = Model()
        model.fit(np.arange(64.0)[:, None], epochs=2, batch_size=64, verbose=False)
        assert seen[0] != seen[1]
        assert sorted(seen[0]) == sorted(seen[1]) == list(range(64))

    def test_frozen_layers_stay(self):
        model = classifier()
        model(X)
        model.layers[0].trainable = False
        before = values(model)
        model.compile("sgd", CROSS_ENTROPY)
        model.fit(X, Y, verbose=False)
        after = values(model)
        assert same(before[:2], after[:2])
        assert not same(before[2:], after[2:])

    def test_losses_of_layers_are_minimized(self):
        class Penalty(pb.layers.Layer):
            def call(self, x):
                self.add_loss(2 * pb.sum(x * x))
                return x

        model = pb.Sequential(
            [pb.layers.Dense(1, kernel_initializer="ones", input_shape=(4,)), Penalty()]
        )
        model.compile(pb.optimizers.SGD(0.0), "mean_squared_error")
        outputs = model.predict(X).numpy()
        expected = ((outputs - T) ** 2).mean() + 2 * (outputs**2).sum()
        history = model.fit(X, T, batch_size=50, verbose=False)
        assert history.history["loss"][0] == pytest.approx(expected, rel=1e-5)
        assert model.evaluate(X, T, batch_size=50, verbose=False)["loss"] == pytest.approx(
            expected, rel=1e-5
        )
        alone = pb.Sequential([pb.layers.Dense(1, input_shape=(4,)), Penalty()])
        alone.compile(pb.optimizers.SGD(0.001))
        history = alone.fit(X, epochs=30, verbose=False).history["loss"]
        assert history[-1] < history[0] / 2

    def test_a_regularizer(self):
        class Weighted(pb.layers.Layer):
            def build(self, input_shape):
                self.w = self.add_variable(
                    "w", (2,), initializer="ones", regularizer=lambda w: 0.5 * pb.sum(w * w)
                )

            def call(self, x):
                return x * self.w

        model = pb.Sequential([Weighted()])
        model.compile("sgd", lambda targets, outputs: pb.mean(targets - targets + outputs * 0))
        assert model.train_on_batch([[1.0, 1.0]], [[0.0, 0.0]])["loss"] == 1.0

    def test_stops_when_it_is_told_to(self):
        class Stop(pb.callbacks.Callback):
            def on_train_batch_end(self, batch, logs):
                if self.run.total == 9:
                    self.model.stop_training = True

        model = classifier()
        model.compile("sgd", CROSS_ENTROPY)
        history = model.fit(X, Y, epochs=9, batch_size=10, callbacks=[Stop()], verbose=False)
        assert history.epoch == [0, 1]
        assert model.compiled.optimizer.step == 9
        assert model.fit(X, Y, epochs=2, verbose=False).epoch == [0, 1]

    def test_initial_epoch(self):
        model = classifier()
        model.compile("sgd", CROSS_ENTROPY)
        assert model.fit(X, Y, initial_epoch=3, epochs=5, verbose=False).epoch == [3, 4]
        assert model.fit(X, Y, initial_epoch=5, epochs=5, verbose=False).epoch == []

    def test_nothing_is_left_behind(self):
        def alive():
            gc.collect()
            return sum(isinstance(thing, pb.Tensor) for thing in gc.get_objects())

        model = classifier(dropout=0.5)
        # Without a number that is another one in each step, of which dispatch keeps some.
        model.compile("sgd", CROSS_ENTROPY, ["accuracy", pb.metrics.F1Score(2)])
        model.fit(X, Y, epochs=2, batch_size=5, verbose=False, validation_data=(X, Y))
        before = alive()
        model.fit(X, Y, epochs=4, batch_size=5, verbose=False, validation_data=(X, Y))
        assert alive() == before

    def test_in_a_thread(self):
        model = classifier()
        model.compile("sgd", CROSS_ENTROPY)
        found = []
        thread = threading.Thread(target=lambda: found.append(model.fit(X, Y, verbose=False)))
        thread.start()
        thread.join()
        assert len(found[0].epoch) == 1

    def test_the_optimizer_is_not_part_of_the_model(self):
        model = classifier()
        model.compile(pb.optimizers.SGD(pb.Variable(0.1)), CROSS_ENTROPY, [pb.metrics.AUC(2)])
        model.fit(X, Y, verbose=False)
        names = ["layers/0/kernel", "layers/0/bias", "layers/2/kernel", "layers/2/bias"]
        assert list(named_variables(model)) == list(model.named_variables) == names
        assert not any("optimizer" in path for path in model.sublayers)


class TestWeights:
    def items(self, model):
        return CROSS_ENTROPY(Y, model(X), reduction="none").numpy()

    @pytest.mark.parametrize("kind", ["sample", "class", "both"])
    def test_loss(self, kind):
        sample = RNG.uniform(0, 2, 50).astype(np.float32) if kind != "class" else None
        classes = {1: 5.0} if kind != "sample" else None
        model = classifier()
        model.compile(pb.optimizers.SGD(0.0), CROSS_ENTROPY)
        history = model.fit(X, Y, sample_weight=sample, class_weight=classes, verbose=False)
        factor = np.ones(50) if sample is None else sample
        if classes is not None:
            factor = factor * np.where(Y == 1, 5.0, 1.0)
        expected = (factor * self.items(model)).mean()
        assert history.history["loss"][0] == pytest.approx(expected, rel=1e-5)

    def test_classes_of_one_hot_rows_and_of_sides(self):
        model = classifier()
        model.compile(pb.optimizers.SGD(0.0), "softmax_cross_entropy")
        rows = np.eye(2, dtype=np.float32)[Y]
        history = model.fit(X, rows, class_weight={0: 3.0}, verbose=False)
        expected = (np.where(Y == 0, 3.0, 1.0) * self.items(model)).mean()
        assert history.history["loss"][0] == pytest.approx(expected, rel=1e-5)

        model = line()
        model.compile(pb.optimizers.SGD(0.0), "sigmoid_cross_entropy")
        history = model.fit(X, Y[:, None].astype(np.float32), class_weight={1: 3.0}, verbose=False)
        expected = (np.where(Y == 1, 3.0, 1.0) * np.log(2)).mean()
        assert history.history["loss"][0] == pytest.approx(expected, rel=1e-5)

    def test_one_weight_for_several_losses_of_an_item(self):
        model = line()
        model.compile(pb.optimizers.SGD(0.0), "mean_squared_error")
        targets = RNG.normal(size=(50, 1)).astype(np.float32)
        weights = RNG.uniform(size=50)
        found = model.evaluate(X, targets, sample_weight=weights, verbose=False)["loss"]
        assert found == pytest.approx((weights * targets[:, 0] ** 2).mean(), rel=1e-5)

    def test_metrics_without_and_with(self):
        model = classifier()
        model.compile(
            pb.optimizers.SGD(0.0),
            CROSS_ENTROPY,
            [CROSS_ENTROPY],
            weighted_metrics=[pb.metrics.MeanOf(CROSS_ENTROPY, "weighted")],
        )
        weights = RNG.uniform(size=50)
        found = model.evaluate(X, Y, sample_weight=weights, verbose=False)
        items = self.items(model)
        assert found["sparse_softmax_cross_entropy"] == pytest.approx(items.mean(), rel=1e-5)
        assert found["weighted"] == pytest.approx(np.average(items, weights=weights), rel=1e-5)
        assert found["loss"] == pytest.approx((weights * items).mean(), rel=1e-5)

    def test_a_weight_of_0_is_no_gradient(self):
        model = line()
        model.compile("sgd", "mean_squared_error")
        before = values(model)
        model.fit(X, T, sample_weight=np.zeros(50), verbose=False)
        assert same(before, values(model))

    def test_a_loss_of_one_number_takes_none(self):
        model = line()
        model.compile("sgd", lambda t, p: pb.mean((t - p) ** 2))
        with pytest.raises(pb.errors.InputTypeError, match="one number for a batch"):
            model.fit(X, T, sample_weight=np.ones(50), verbose=False)
        model.compile("sgd", functools.partial(pb.losses.mean_squared_error, reduction="sum"))
        with pytest.raises(pb.errors.InputTypeError, match="mean_squared_error returns one number"):
            model.fit(X, T, sample_weight=np.ones(50), verbose=False)
        model.compile("sgd", lambda t, p: (t - p) ** 2)
        model.fit(X, T, sample_weight=np.ones(50), verbose=False)

    def test_of_another_shape(self):
        model = line()
        model.compile("sgd", "mean_squared_error")
        with pytest.raises(pb.errors.ShapeError, match=r"mean_squared_error: weights of shape"):
            model.train_on_batch(X, T, np.ones(7))
        with pytest.raises(pb.errors.ShapeError, match="numbers of items"):
            model.fit(X, T, sample_weight=np.ones(7), verbose=False)


class Loader:
    """A loader like those of other libraries: lists of arrays of its own kind, and a length."""

    class Array:
        def __init__(self, value):
            self.value = value

        def __array__(self, dtype=None, copy=None):
            return self.value

    def __len__(self):
        return 5

    def __iter__(self):
        for i in range(0, 50, 10):
            yield [self.Array(X[i : i + 10]), self.Array(Y[i : i + 10])]


BATCHES = [(X[i : i + 10], Y[i : i + 10]) for i in range(0, 50, 10)]
COLUMNS = [{"image": x.tolist(), "label": y.tolist(), "id": ["a"] * 10} for x, y in BATCHES]


class TestData:
    @pytest.mark.parametrize(
        ("data", "more"),
        [
            pytest.param(BATCHES, {}, id="list"),
            pytest.param(Loader(), {}, id="loader"),
            pytest.param(lambda: iter(BATCHES), {}, id="function"),
            pytest.param(
                pb.data.Dataset.from_tensor_slices((X, Y)).batch(10).prefetch(2), {}, id="dataset"
            ),
            pytest.param(COLUMNS, {"columns": ("image", "label")}, id="columns"),
            pytest.param(
                [{"x": x, "y": y, "w": np.ones(10)} for x, y in BATCHES],
                {"columns": ("x", "y", "w")},
                id="columns with weights",
            ),
            pytest.param([(x, y, np.ones(10)) for x, y in BATCHES], {}, id="weights"),
        ],
    )
    def test_batches(self, data, more):
        expected = classifier()
        expected.compile("adam", CROSS_ENTROPY)
        expected.fit(X, Y, batch_size=10, epochs=2, shuffle=False, verbose=False)
        model = classifier()
        model.compile("adam", CROSS_ENTROPY)
        model.fit(data, epochs=2, verbose=False, **more)
        assert same(values(model), values(expected))
        found = model.evaluate(data, verbose=False, **more)
        wanted = expected.evaluate(X, Y, batch_size=10, verbose=False)
        assert found["loss"] == pytest.approx(wanted["loss"], rel=1e-6)
        np.testing.assert_allclose(
            model.predict(data, **more).numpy(), expected.predict(X).numpy(), rtol=1e-5, atol=1e-6
        )

    def test_nested_lists(self):
        model = line()
        model.compile("sgd", "mean_squared_error")
        model.fit(X.tolist(), T.tolist(), verbose=False)
        assert model.predict(X.tolist()).shape == (50, 1)
        assert model.predict(X.tolist()).dtype == pb.float32

    def test_tensors(self):
        model = line()
        model.compile("sgd", "mean_squared_error")
        model.fit(pb.asarray(X), pb.asarray(T), verbose=False)

    def test_several_inputs(self):
        class Sum(pb.Model):
            def __init__(self):
                super().__init__()
                self.out = pb.layers.Dense(1)

            def call(self, parts):
                first, second = parts.values() if isinstance(parts, dict) else parts
                return self.out(first + second)

        for inputs in [(X, X), {"first": X, "second": X}]:
            model = Sum()
            model.compile("sgd", "mean_squared_error")
            model.fit(inputs, T, epochs=2, verbose=False, validation_split=0.2)
            assert model.predict(inputs).shape == (50, 1)

    def test_a_generator_lasts_for_one_epoch(self):
        model = classifier()
        model.compile("sgd", CROSS_ENTROPY)
        model.fit((batch for batch in BATCHES), verbose=False)
        with pytest.raises(pb.errors.TrainingError, match=r"epoch 2, after 0 steps.*one pass"):
            model.fit((batch for batch in BATCHES), epochs=2, verbose=False)

    def test_a_generator_in_parts(self):
        model = classifier()
        model.compile("sgd", CROSS_ENTROPY)
        steps = []

        class Steps(pb.callbacks.Callback):
            def on_epoch_end(self, epoch, logs):
                steps.append(self.run.total)

        generator = (BATCHES[i % 5] for i in range(7))
        model.fit(generator, epochs=2, steps_per_epoch=3, callbacks=[Steps()], verbose=False)
        assert steps == [3, 6]
        generator = (BATCHES[i % 5] for i in range(7))
        with pytest.raises(pb.errors.TrainingError, match="epoch 3, after 1 steps"):
            model.fit(generator, epochs=3, steps_per_epoch=3, verbose=False)

    def test_data_without_an_end(self):
        seen = []

        class Model(pb.Model):
            def train_step(self, inputs, targets, weights):
                seen.append(int(inputs[0]))

        dataset = pb.data.Dataset.range(5).repeat().batch(1)
        Model().fit(dataset, epochs=3, steps_per_epoch=4, verbose=False)
        assert seen == [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1]
        seen.clear()
        # A dataset that has an end begins again when it comes to it.
        dataset = pb.data.Dataset.range(5).batch(1)
        Model().fit(dataset, epochs=2, steps_per_epoch=4, verbose=False)
        assert seen == [0, 1, 2, 3, 4, 0, 1, 2]

    def test_a_dataset_is_shuffled_anew_in_each_epoch(self):
        seen = []

        class Model(pb.Model):
            def train_step(self, inputs, targets, weights):
                seen.append(inputs.tolist())

        Model().fit(pb.data.Dataset.range(40).shuffle(seed=1).batch(40), epochs=2, verbose=False)
        assert seen[0] != seen[1]

    def test_arguments_of_another_type(self):
        model = classifier()
        model.compile("sgd", CROSS_ENTROPY)
        with pytest.raises(pb.errors.InputTypeError, match="epochs: an integer is expected"):
            model.fit(X, Y, epochs="3", verbose=False)
        with pytest.raises(pb.errors.InputValueError, match="epochs must be at least 0, got -1"):
            model.fit(X, Y, epochs=-1, verbose=False)
        callback = pb.callbacks.TerminateOnNaN()
        for call in (model.fit, model.evaluate):
            with pytest.raises(pb.errors.InputTypeError, match=r"write callbacks=\[\.\.\.\]"):
                call(X, Y, callbacks=callback, verbose=False)
        with pytest.raises(pb.errors.InputTypeError, match=r"write callbacks=\[\.\.\.\]"):
            model.predict(X, callbacks=callback)
        with pytest.raises(pb.errors.ConversionError, match="neither numbers nor strings"):
            model.fit(X.astype(object), Y, verbose=False)

    def test_without_data(self):
        model = classifier()
        model.compile("sgd", CROSS_ENTROPY)
        for data in (X[:0], (X[:0], X[:0])):
            with pytest.raises(pb.errors.InputValueError, match="fit got no data"):
                model.fit(data, Y[:0], verbose=False)
        with pytest.raises(pb.errors.TrainingError, match="fit got no data"):
            model.fit(pb.data.Dataset.from_tensor_slices((X, Y)).batch(10).take(0), verbose=False)
        with pytest.raises(pb.errors.TrainingError, match="fit got no data"):
            model.fit(iter([]), steps_per_epoch=3, verbose=False)
        with pytest.raises(pb.errors.TrainingError, match="evaluation got no data"):
            model.evaluate(iter([]), verbose=False)
        with pytest.raises(pb.errors.TrainingError, match="predict got no data"):
            model.predict(iter([]))
        with pytest.raises(pb.errors.TrainingError, match=r"evaluation got no data.*one pass"):
            model.fit(BATCHES, validation_data=iter(BATCHES), epochs=2, verbose=False)

    def test_columns_that_there_are_not(self):
        model = classifier()
        model.compile("sgd", CROSS_ENTROPY)
        with pytest.raises(
            pb.errors.InputValueError, match="unknown column 'x'; a batch has 'image'"
        ):
            model.fit(COLUMNS, columns=("x", "label"), verbose=False)
        with pytest.raises(pb.errors.InputTypeError, match="got a tuple"):
            model.fit(BATCHES, columns=("x", "label"), verbose=False)

    def test_several_columns(self):
        from pullback.training.batches import split

        batch = split(COLUMNS[0], (["image", "id"], "label", None))
        assert batch.inputs["image"].shape == (10, 4)
        assert batch.targets.dtype == pb.int32
        assert batch.weights is None
        assert batch.size == 10

    def test_too_many_parts(self):
        model = classifier()
        model.compile("sgd", CROSS_ENTROPY)
        with pytest.raises(pb.errors.InputValueError, match="got 4 parts"):
            model.fit([(X, Y, Y, Y)], verbose=False)

    def test_arguments_for_arrays_only(self):
        model = classifier()
        model.compile("sgd", CROSS_ENTROPY)
        for more, message in [
            ({"batch_size": 3}, r"dataset\.batch\(3\)"),
            ({"y": Y}, "y is for arrays"),
            ({"sample_weight": Y}, "sample_weight is for arrays"),
            ({"validation_split": 0.5}, "validation_split is for arrays"),
        ]:
            with pytest.raises(pb.errors.InputValueError, match=message):
                model.fit(BATCHES, verbose=False, **more)
        with pytest.raises(pb.errors.InputValueError, match="at least 1"):
            model.fit(X, Y, batch_size=0)
        with pytest.raises(pb.errors.InputValueError, match="pass y as well"):
            model.fit(X, sample_weight=Y)
        with pytest.raises(pb.errors.ShapeError, match="numbers of items"):
            model.fit(X, Y[:-1], verbose=False)


class TestValidation:
    def test_with_arrays_datasets_and_shares(self):
        cut = slice(40, 50)
        for more in [
            {"validation_split": 0.2},
            {"validation_data": (X[cut], Y[cut])},
            {"validation_data": (X[cut], Y[cut], np.ones(10))},
            {"validation_data": BATCHES[4:]},
            {"validation_data": pb.data.Dataset.from_tensor_slices((X[cut], Y[cut])).batch(3)},
        ]:
            model = classifier()
            model.compile("adam", CROSS_ENTROPY, ["accuracy"])
            first = slice(0, 40 if "validation_split" not in more else 50)
            history = model.fit(X[first], Y[first], epochs=2, verbose=False, **more).history
            assert list(history) == ["loss", "accuracy", "val_loss", "val_accuracy"]
            expected = model.evaluate(X[cut], Y[cut], verbose=False)
            assert history["val_loss"][-1] == pytest.approx(expected["loss"], rel=1e-5)
            assert history["val_accuracy"][-1] == expected["accuracy"]

    def test_is_not_trained_on(self):
        seen = []

        class Model(pb.Model):
            def train_step(self, inputs, targets, weights):
                seen.extend(inputs.tolist())

            def test_step(self, inputs, targets, weights):
                return {"loss": pb.mean(inputs)}

        history = Model().fit(np.arange(10.0), validation_split=0.3, epochs=2, verbose=False)
        assert set(seen) == set(range(7))
        assert history.history["val_loss"] == [8.0, 8.0]

    def test_changes_nothing_of_training(self):
        results = []
        for more in ({}, {"validation_data": (X, Y)}):
            model = classifier(dropout=0.5)
            model.compile("adam", CROSS_ENTROPY, [pb.metrics.AUC(2)])
            results.append((model.fit(X, Y, epochs=2, verbose=False, **more), values(model)))
        (plain, first), (validated, second) = results
        assert same(first, second)
        assert plain.history["auc"] == validated.history["auc"]

    def test_every_other_epoch(self):
        model = classifier()
        model.compile("sgd", CROSS_ENTROPY)
        history = model.fit(
            X, Y, epochs=4, validation_data=(X, Y), validation_freq=2, verbose=False
        ).history
        assert [value is None for value in history["val_loss"]] == [True, False, True, False]

    def test_some_steps(self):
        steps = []

        class Model(pb.Model):
            def train_step(self, inputs, targets, weights):
                pass

            def test_step(self, inputs, targets, weights):
                steps.append(len(inputs))

        Model().fit(
            X, validation_data=(X,), validation_batch_size=8, validation_steps=2, verbose=False
        )
        assert steps == [8, 8]

    def test_shares_that_leave_nothing(self):
        model = classifier()
        model.compile("sgd", CROSS_ENTROPY)
        for share in (1.0, -0.1, 0.999):
            with pytest.raises(pb.errors.InputValueError, match="validation_split"):
                model.fit(X, Y, validation_split=share)
        with pytest.raises(pb.errors.InputValueError, match="leaves no validation items"):
            model.fit(X, Y, validation_split=0.001)
        with pytest.raises(pb.errors.InputValueError, match="not both"):
            model.fit(X, Y, validation_split=0.1, validation_data=(X, Y))


class Two(pb.Model):
    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        self.number = pb.layers.Dense(2)
        self.size = pb.layers.Dense(1)

    def call(self, x):
        if self.kind is dict:
            return {"number": self.number(x), "size": self.size(x)}
        return self.kind((self.number(x), self.size(x)))


class TestSeveralOutputs:
    @pytest.mark.parametrize("kind", [dict, tuple, list])
    def test_losses_and_metrics(self, kind):
        keys = ("number", "size") if kind is dict else (0, 1)
        targets = dict(zip(keys, (Y, T), strict=True)) if kind is dict else (Y, T)
        losses = dict(
            zip(keys, ("sparse_softmax_cross_entropy", "mean_squared_error"), strict=True)
        )
        model = Two(kind)
        model.compile(
            pb.optimizers.SGD(0.0),
            losses if kind is not list else list(losses.values()),
            {keys[0]: ["accuracy"], keys[1]: pb.metrics.MeanAbsoluteError("error")},
            loss_weights={keys[1]: 0.25},
        )
        found = model.evaluate(X, targets, verbose=False)
        a, b = keys
        assert set(found.keys()) == {
            "loss",
            f"{a}_loss",
            f"{b}_loss",
            f"{a}_accuracy",
            f"{b}_error",
        }
        outputs = model.predict(X)
        assert type(outputs) is kind
        expected = (
            CROSS_ENTROPY(Y, outputs[a]).item(),
            ((outputs[b].numpy() - T) ** 2).mean(),
        )
        assert found[f"{a}_loss"] == pytest.approx(expected[0], rel=1e-4)
        assert found[f"{b}_loss"] == pytest.approx(expected[1], rel=1e-4)
        assert found["loss"] == pytest.approx(expected[0] + 0.25 * expected[1], rel=1e-4)
        model.fit(X, targets, verbose=False)

    def test_an_output_without_a_loss(self):
        model = Two(dict)
        model.compile("sgd", {"number": CROSS_ENTROPY})
        assert list(model.fit(X, {"number": Y}, verbose=False).history) == ["loss"]

    def test_weights_of_outputs(self):
        model = Two(dict)
        model.compile("sgd", {"number": CROSS_ENTROPY, "size": "mean_squared_error"})
        before = model(X)["size"].numpy()
        weights = {"number": np.ones(50, np.float32), "size": np.zeros(50, np.float32)}
        model.train_on_batch(X, {"number": Y, "size": T}, weights)
        assert np.array_equal(model(X)["size"].numpy(), before)

    def test_outputs_that_there_are_not(self):
        model = Two(dict)
        model.compile("sgd", {"numbers": CROSS_ENTROPY})
        with pytest.raises(
            pb.errors.InputValueError, match=r"'numbers'.*targets.*'number', 'size'"
        ):
            model.train_on_batch(X, {"number": Y, "size": T})
        model = classifier()
        model.compile("sgd", {"number": CROSS_ENTROPY})
        with pytest.raises(pb.errors.InputValueError, match="predictions of this batch have one"):
            model.train_on_batch(X, {"number": Y})

    @pytest.mark.parametrize("data", [lambda: (X, Y), lambda: ([(X[:20], Y[:20]), (X, Y)],)])
    def test_weights_of_classes_that_do_not_occur(self, data):
        model = classifier()
        model.compile("sgd", CROSS_ENTROPY)
        fault = r"weight for 7, and the targets have the classes 0, 1; leave out"
        with pytest.raises(pb.errors.InputValueError, match=fault):
            model.fit(*data(), class_weight={0: 1.0, 7: 2.0}, verbose=False)
        model.fit(*data(), class_weight={0: 1.0, 1: 2.0}, verbose=False)

    def test_class_weights_are_for_one(self):
        model = Two(dict)
        model.compile("sgd", {"number": CROSS_ENTROPY})
        with pytest.raises(pb.errors.InputValueError, match="class_weight is for one"):
            model.fit(X, {"number": Y}, class_weight={0: 1.0}, verbose=False)


class TestCompile:
    def test_names(self):
        model = classifier()
        model.compile(
            "AdamW", "Sparse_Softmax_Cross_Entropy", ["Sparse_Top_K_Accuracy", "f1_score"]
        )
        assert type(model.compiled.optimizer) is pb.optimizers.AdamW
        names = [name for _, name, *_ in model.compiled.metrics]
        assert names == ["sparse_top_k_accuracy", "f1_score"]

    def test_accuracy_is_the_one_that_fits(self):
        for outputs, targets, expected in [
            ([[1.0, 2.0], [3.0, 1.0]], [1, 1], 0.5),
            ([[1.0, 2.0], [3.0, 1.0]], [[0, 1], [0, 1]], 0.5),
            ([[0.7], [0.7]], [[1.0], [0.0]], 0.5),
            ([0.7, 0.2, 0.9], [1.0, 0.0, 1.0], 1.0),
        ]:
            model = pb.Sequential([lambda x: x])
            model.compile("sgd", lambda t, p: pb.sum(p), ["accuracy"])
            assert model.test_on_batch(np.array(outputs), np.array(targets))["accuracy"] == expected

    def test_functions(self):
        model = line()
        model.compile("sgd", functools.partial(pb.losses.huber, delta=0.5), [pb.losses.log_cosh])
        found = model.evaluate(X, T, verbose=False)
        assert list(found.keys()) == ["loss", "log_cosh"]

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("adan", "huber"), "unknown optimizer 'adan'; did you mean .*'Adam'"),
            (
                ("adam", "mean_squared"),
                "unknown loss 'mean_squared'; did you mean 'mean_squared_error'",
            ),
            (("adam", "huber", ["acuracy"]), "unknown metric 'acuracy'"),
            (("adam", "huber", [pb.metrics.Mean(), pb.metrics.Mean()]), "two metrics .*'mean'"),
            (("adam", "huber", [pb.metrics.Mean("loss")]), "two metrics are called 'loss'"),
            ((pb.optimizers.Adam, "huber"), r"call it: pb\.optimizers\.Adam"),
            ((0.1, "huber"), "optimizer must be one of pb.optimizers"),
            (("adam", 3), "a loss must be a function"),
            (("adam", "huber", [pb.metrics.Mean]), "call it"),
            (("adam", "huber", [3]), "metrics must be of pb.metrics"),
        ],
    )
    def test_what_is_refused(self, arguments, message):
        with pytest.raises((pb.errors.InputValueError, pb.errors.InputTypeError), match=message):
            line().compile(*arguments)

    def test_comes_first(self):
        model = classifier()
        for call in (
            lambda: model.fit(X, Y),
            lambda: model.evaluate(X, Y),
            lambda: model.train_on_batch(X, Y),
            lambda: model.compiled,
        ):
            with pytest.raises(pb.errors.TrainingError, match=r"first call model\.compile"):
                call()
        assert model.predict(X).shape == (50, 2)

    def test_nothing_to_minimize(self):
        model = classifier()
        model.compile("sgd")
        with pytest.raises(pb.errors.TrainingError, match="nothing to minimize"):
            model.fit(X, Y, verbose=False)

    def test_no_targets(self):
        model = line()
        model.compile("sgd", "mean_squared_error")
        with pytest.raises(
            pb.errors.InputValueError, match=r"mean_squared_error needs targets.*pass y"
        ):
            model.fit(X, verbose=False)

    def test_an_error_says_where(self):
        model = line()
        model.compile("sgd", "mean_squared_error")
        with pytest.raises(pb.errors.ShapeError) as caught:
            model.fit(X, T[:, 0], batch_size=20, verbose=False)
        assert "must have one shape, got (20,) and (20, 1)" in str(caught.value)
        assert caught.value.__notes__ == [
            "in fit: epoch 1, step 1; inputs float32(20, 4), targets float32(20,)"
        ]


class TestOwnSteps:
    def test_figures_are_means_over_the_items(self):
        class Model(pb.Model):
            def train_step(self, inputs, targets, weights):
                return {"size": float(len(inputs)), "ones": pb.mean(pb.ones_like(inputs))}

        history = Model().fit(X, batch_size=20, verbose=False).history
        assert history == {"size": [(20 * 20 + 20 * 20 + 10 * 10) / 50], "ones": [1.0]}

    def test_two_optimizers(self):
        class Rivals(pb.Model):
            def __init__(self):
                super().__init__()
                self.first = pb.Variable(1.0)
                self.second = pb.Variable(1.0)
                self.up, self.down = pb.optimizers.SGD(0.5), pb.optimizers.SGD(0.25)

            def train_step(self, inputs, targets, weights):
                self.up.minimize(lambda: -self.first * self.second, [self.first])
                loss = self.down.minimize(lambda: self.second * self.second, [self.second])
                return {"loss": loss}

        model = Rivals()
        history = model.fit(np.zeros((2, 1)), batch_size=1, verbose=False)
        assert (float(model.first), float(model.second)) == (1.75, 0.25)
        assert history.history["loss"] == [(1 + 0.25) / 2]


class TestOnBatch:
    def test_figures_are_those_of_the_batch(self):
        model = classifier()
        model.compile(pb.optimizers.SGD(0.0), CROSS_ENTROPY, ["accuracy"])
        model.evaluate(X, Y, verbose=False)
        for part in (slice(0, 5), slice(5, 25)):
            found = model.train_on_batch(X[part], Y[part])
            assert found == model.test_on_batch(X[part], Y[part])
            logits = model(X[part])
            assert found["loss"] == pytest.approx(CROSS_ENTROPY(Y[part], logits).item(), rel=1e-6)
            expected = (logits.numpy().argmax(-1) == Y[part]).mean()
            assert found["accuracy"] == pytest.approx(expected)

    def test_takes_a_step(self):
        model = line()
        model.compile(pb.optimizers.SGD(0.1), "mean_squared_error")
        model.train_on_batch(X, T)
        np.testing.assert_allclose(model.layers[0].bias.numpy(), 0.2 * T.mean(0), rtol=1e-5)


class TestTurns:
    def test_of_fit(self):
        turns = Turns()
        model = classifier()
        model.compile("sgd", CROSS_ENTROPY)
        model.fit(X, Y, batch_size=30, validation_data=(X[:3], Y[:3]), callbacks=[turns],
                  verbose=False)  # fmt: skip
        assert turns.calls == [
            ("on_restore",),
            ("on_train_begin",),
            ("on_epoch_begin", 0),
            ("on_train_batch_begin", 0),
            ("on_train_batch_end", 0),
            ("on_train_batch_begin", 1),
            ("on_train_batch_end", 1),
            ("on_test_begin",),
            ("on_test_batch_begin", 0),
            ("on_test_batch_end", 0),
            ("on_test_end",),
            ("on_epoch_end", 0),
            ("on_train_end",),
        ]

    def test_of_predict(self):
        turns = Turns()
        classifier().predict(X, batch_size=50, callbacks=[turns])
        assert [name for name, *_ in turns.calls] == [
            "on_predict_begin",
            "on_predict_batch_begin",
            "on_predict_batch_end",
            "on_predict_end",
        ]

    def test_figures_are_computed_when_they_are_read(self):
        read = []

        class Counted(pb.metrics.Mean):
            def result(self):
                read.append(1)
                return super().result()

            def update(self, targets, predictions):
                super().update(1.0)

        class Looks(pb.callbacks.Callback):
            def on_train_batch_end(self, batch, logs):
                if batch == 1:
                    assert dict(logs).keys() == {"loss", "counted"}
                    assert logs["counted"] == 1.0
                    assert len(logs) == 2
                    assert "counted" in repr(logs)

        model = classifier()
        model.compile("sgd", CROSS_ENTROPY, [Counted()])
        model.fit(X, Y, batch_size=10, callbacks=[Looks()], verbose=False)
        assert len(read) == 4  # three times in the callback, once at the end

    def test_what_is_no_callback(self):
        model = classifier()
        model.compile("sgd", CROSS_ENTROPY)
        for wrong in (pb.callbacks.TerminateOnNaN, print):
            with pytest.raises(pb.errors.InputTypeError, match="callbacks must be of pb"):
                model.fit(X, Y, callbacks=[wrong], verbose=False)

    def test_files_are_closed_after_an_error(self):
        closed = []

        class Closes(pb.callbacks.Callback):
            def on_train_batch_end(self, batch, logs):
                raise RuntimeError("mine")

            def close(self):
                closed.append(1)

        model = classifier()
        model.compile("sgd", CROSS_ENTROPY)
        with pytest.raises(RuntimeError, match="mine"):
            model.fit(X, Y, callbacks=[Closes()], verbose=False)
        assert closed == [1]
