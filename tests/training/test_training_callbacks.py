"""The callbacks that come with fit: what they stop, change, write and save."""

from __future__ import annotations

import csv
import math
import pickle

import numpy as np
import pytest

import pullback as pb
from pullback import callbacks

RNG = np.random.default_rng(5)
X = RNG.normal(size=(48, 4)).astype(np.float32)
Y = (X[:, 0] + X[:, 1] > 0).astype(np.int32)


def scripted(values, name="val_loss"):
    """A model whose metric takes these values, epoch by epoch, and whose variable counts epochs."""

    class Model(pb.Model):
        def __init__(self):
            super().__init__()
            self.w = pb.Variable(-1.0)
            self.compile("sgd")

        def train_step(self, inputs, targets, weights):
            self.w.assign_add(1.0)
            return {name: values[int(self.w)]}

    return Model()


def run(model, *more, epochs):
    return model.fit(np.zeros((1, 1)), epochs=epochs, callbacks=more, verbose=False)


def classifier():
    pb.random.seed(2)
    model = pb.Sequential(
        [
            pb.layers.Dense(8, activation="tanh"),
            pb.layers.BatchNormalization(),
            pb.layers.Dropout(0.4),  # draws from the default generator
            pb.layers.Dense(2),
        ]
    )
    schedule = pb.optimizers.schedules.cosine_decay(0.05, 40)
    model.compile(
        pb.optimizers.Adam(schedule),
        "sparse_softmax_cross_entropy",
        ["accuracy", pb.metrics.AUC(2)],
    )
    return model


def values(model):
    return {path: variable.numpy().copy() for path, variable in model.named_variables.items()}


def same(first, second):
    return first.keys() == second.keys() and all(np.array_equal(first[k], second[k]) for k in first)


class TestEarlyStopping:
    @pytest.mark.parametrize(
        ("figures", "settings", "epochs"),
        [
            ([3, 2, 1, 1, 1], {}, 4),
            ([3, 2, 2, 1, 2, 2, 2], {"patience": 2}, 6),
            ([3, 2.9, 2.8, 2.7], {"min_delta": 0.5}, 2),
            ([1, 2, 3, 2, 1], {"mode": "max"}, 4),
            ([1, math.nan, 0, 5, 4], {"patience": 2}, 5),
            ([9, 9, 9, 9, 9], {"start_from_epoch": 2}, 4),
            ([5, 4, 3, 2, 1], {}, 5),
        ],
    )
    def test_stops(self, figures, settings, epochs):
        model = scripted(figures)
        history = run(model, callbacks.EarlyStopping(**settings), epochs=len(figures))
        assert len(history.epoch) == epochs

    def test_more_accuracy_is_better(self):
        model = scripted([0.1, 0.2, 0.3, 0.2, 0.1], "accuracy")
        history = run(model, callbacks.EarlyStopping("accuracy"), epochs=5)
        assert len(history.epoch) == 4

    @pytest.mark.parametrize("epochs", [3, 9])
    def test_puts_the_best_back(self, epochs):
        model = scripted([3, 1, 2, 2, 2])
        stop = callbacks.EarlyStopping(patience=3, restore_best_weights=True)
        run(model, stop, epochs=min(epochs, 5))
        assert float(model.w) == stop.best_epoch == 1

    def test_a_figure_that_there_is_not(self):
        model = scripted([1.0], "loss")
        with pytest.raises(
            pb.errors.InputValueError,
            match=r"unknown metric 'val_loss'; there are loss; pass validation_data",
        ):
            run(model, callbacks.EarlyStopping(), epochs=1)

    def test_epochs_without_a_validation_do_not_count(self):
        model = classifier()
        model.compile(pb.optimizers.SGD(0.0), "sparse_softmax_cross_entropy")
        history = model.fit(
            X, Y, epochs=20, validation_data=(X, Y), validation_freq=3, verbose=False,
            callbacks=[
                callbacks.EarlyStopping(min_delta=1.0, patience=2),
                callbacks.ReduceLearningRateOnPlateau(),
            ],
        )  # fmt: skip
        assert len(history.epoch) == 9

    def test_wrong_settings(self):
        for make in (
            lambda: callbacks.EarlyStopping(patience=0),
            lambda: callbacks.EarlyStopping(mode="best"),
            lambda: callbacks.ReduceLearningRateOnPlateau(factor=1.0),
            lambda: callbacks.ReduceLearningRateOnPlateau(patience=0),
            lambda: callbacks.Checkpoint("x", every_steps=0),
            lambda: callbacks.TensorBoard("x", every_steps=0),
            lambda: callbacks.TensorBoard("x", histograms_every=-1),
        ):
            with pytest.raises(pb.errors.InputValueError):
                make()
        with pytest.raises(pb.errors.InputTypeError, match="function of the number of the epoch"):
            callbacks.LearningRateSchedule(0.1)


class TestRates:
    def rates(self, callback, figures, rate=1.0):
        model = scripted(figures)
        model.compiled.optimizer.learning_rate = rate
        seen = []

        class Looks(callbacks.Callback):
            order = 1

            def on_epoch_end(self, epoch, logs):
                seen.append(float(model.compiled.optimizer.learning_rate))

        run(model, callback, Looks(), epochs=len(figures))
        return seen

    def test_of_the_epoch(self):
        schedule = callbacks.LearningRateSchedule(lambda epoch: 0.5**epoch)
        assert self.rates(schedule, [0, 0, 0]) == [1.0, 0.5, 0.25]

    def test_of_the_rate_before(self):
        schedule = callbacks.LearningRateSchedule(lambda epoch, rate: rate / 2)
        assert self.rates(schedule, [0, 0, 0]) == [0.5, 0.25, 0.125]
        assert self.rates(schedule, [0, 0], pb.Variable(4.0)) == [2.0, 1.0]

    def test_on_a_plateau(self):
        lower = callbacks.ReduceLearningRateOnPlateau
        assert self.rates(lower(factor=0.5, patience=2), [3, 3, 3, 3, 3, 2]) == [
            1, 1, 0.5, 0.5, 0.25, 0.25,
        ]  # fmt: skip
        assert self.rates(lower(factor=0.5, patience=1, cooldown=2), [3] * 6) == [
            1, 0.5, 0.5, 0.5, 0.25, 0.25,
        ]  # fmt: skip
        assert self.rates(lower(factor=0.5, patience=1, min_rate=0.4), [3] * 4) == [
            1,
            0.5,
            0.4,
            0.4,
        ]


class TestTerminateOnNaN:
    @pytest.mark.parametrize("value", [math.nan, math.inf])
    def test_raises(self, value):
        model = scripted([1.0, value, 1.0], "loss")
        with pytest.raises(pb.errors.TrainingError, match=r"became (nan|inf) in epoch 2, step 1"):
            run(model, callbacks.TerminateOnNaN(), epochs=3)
        assert float(model.w) == 1

    def test_passes_others(self):
        assert len(run(scripted([1, 2], "x"), callbacks.TerminateOnNaN(), epochs=2).epoch) == 2


class TestCSVLogger:
    def rows(self, path):
        with open(path, newline="") as file:
            return list(csv.DictReader(file))

    def test_lines(self, tmp_path):
        path = tmp_path / "folder" / "log.csv"
        run(scripted([3, 2.5]), callbacks.CSVLogger(path), epochs=2)
        assert path.read_text().split() == ["epoch,val_loss", "0,3.0", "1,2.5"]
        run(scripted([1]), callbacks.CSVLogger(path, separator=";"), epochs=1)
        assert path.read_text().split() == ["epoch;val_loss", "0;1.0"]

    def test_appends(self, tmp_path):
        path = tmp_path / "log.csv"
        log = callbacks.CSVLogger(path, append=True)
        for value in (1, 2):
            run(scripted([value]), log, epochs=1)
        assert [row["val_loss"] for row in self.rows(path)] == ["1.0", "2.0"]

    def test_figures_that_begin_later(self, tmp_path):
        path = tmp_path / "log.csv"
        model = classifier()
        model.fit(
            X, Y, epochs=3, validation_data=(X, Y), validation_freq=2,
            callbacks=[callbacks.CSVLogger(path)], verbose=False,
        )  # fmt: skip
        rows = self.rows(path)
        assert [bool(row["val_loss"]) for row in rows] == [False, True, False]
        assert all(float(row["loss"]) > 0 for row in rows)

    def test_lines_are_there_at_once(self, tmp_path):
        path = tmp_path / "log.csv"

        class Looks(callbacks.Callback):
            order = 1

            def on_epoch_end(self, epoch, logs):
                assert path.read_text().count("\n") == epoch + 2

        run(scripted([1, 2]), callbacks.CSVLogger(path), Looks(), epochs=2)


class Stop(callbacks.Callback):
    """Ends the program, as if it had been killed, after some steps."""

    order = 2000

    def __init__(self, total):
        self.total = total

    def on_train_batch_end(self, batch, logs):
        if self.run.total == self.total:
            raise RuntimeError("killed")

    on_epoch_end = on_train_batch_end


def fit(model, *more, epochs=4, data=None):
    data = {"x": X, "y": Y} if data is None else {"x": data}
    if "y" in data:
        data["batch_size"] = 8
    return model.fit(
        **data, epochs=epochs, validation_data=(X[:9], Y[:9]), callbacks=more, verbose=False
    )


def batches():
    for begin in range(0, 48, 8):
        yield X[begin : begin + 8], Y[begin : begin + 8]


SOURCES = {
    "arrays": lambda: None,
    "dataset": lambda: (
        pb.data.Dataset.from_tensor_slices((X, Y)).shuffle(20, seed=3).batch(8).prefetch(3)
    ),
    "list": lambda: list(batches()),
    "function": lambda: batches,
}


class TestCheckpoint:
    @pytest.mark.parametrize(
        ("source", "kills"),
        [("arrays", (1, 6, 23)), ("dataset", (9, 14)), ("list", (8,)), ("function", (12, 13))],
    )
    def test_goes_on_as_if_it_had_not_been_stopped(self, tmp_path, source, kills):
        def others(folder):
            return (
                callbacks.EarlyStopping("val_loss", patience=30, restore_best_weights=True),
                callbacks.CSVLogger(folder / "log.csv"),
            )

        straight = classifier()
        (tmp_path / "straight").mkdir()
        history = fit(straight, *others(tmp_path / "straight"), data=SOURCES[source]())
        for total in (*kills, None):
            model = classifier()
            save = callbacks.Checkpoint(tmp_path / "ckpt", resume=True, every_steps=1)
            more = (save, *others(tmp_path))
            if total is None:
                resumed = fit(model, *more, data=SOURCES[source]())
            else:
                with pytest.raises(RuntimeError, match="killed"):
                    fit(model, *more, Stop(total), data=SOURCES[source]())
        assert same(values(model), values(straight))
        assert resumed.history == history.history
        assert resumed.epoch == history.epoch
        assert (tmp_path / "log.csv").read_text() == (tmp_path / "straight" / "log.csv").read_text()

    def test_an_endless_dataset(self, tmp_path):
        def train(model, *more):
            data = pb.data.Dataset.from_tensor_slices((X, Y)).shuffle(seed=3).repeat().batch(7)
            return model.fit(data, epochs=3, steps_per_epoch=5, callbacks=more, verbose=False)

        straight, model = classifier(), classifier()
        history = train(straight)
        for stop in (7, 10):
            model = classifier()
            save = callbacks.Checkpoint(tmp_path, resume=True, every_steps=1)
            with pytest.raises(RuntimeError, match="killed"):
                train(model, save, Stop(stop))
        model = classifier()
        resumed = train(model, callbacks.Checkpoint(tmp_path, resume=True))
        assert same(values(model), values(straight))
        assert resumed.history == history.history

    def test_rates_that_callbacks_have_set(self, tmp_path):
        def train(model, *more):
            model.compiled.optimizer.learning_rate = 0.1
            halve = callbacks.LearningRateSchedule(lambda epoch, rate: rate * 0.5)
            lower = callbacks.ReduceLearningRateOnPlateau("loss", patience=1, min_delta=10.0)
            return fit(model, halve, lower, *more)

        straight = classifier()
        train(straight)
        model = classifier()
        with pytest.raises(RuntimeError, match="killed"):
            train(model, callbacks.Checkpoint(tmp_path, every_steps=1), Stop(15))
        model = classifier()
        train(model, callbacks.Checkpoint(tmp_path, resume=True))
        assert same(values(model), values(straight))
        rates = [m.compiled.optimizer.learning_rate for m in (model, straight)]
        assert rates[0] == rates[1]

    def test_what_is_there_is_not_overwritten_without_a_word(self, tmp_path):
        fit(classifier(), callbacks.Checkpoint(tmp_path), epochs=1)
        save = callbacks.Checkpoint(tmp_path)
        for _ in range(2):
            with pytest.raises(pb.errors.CheckpointError, match=r"earlier run.*=True.*resume="):
                fit(classifier(), save, epochs=2)
        history = fit(classifier(), callbacks.Checkpoint(tmp_path, resume=True), epochs=2)
        assert history.epoch == [0, 1]
        history = fit(classifier(), callbacks.Checkpoint(tmp_path, resume=False), epochs=1)
        assert history.epoch == [0]
        assert [path.name for path in tmp_path.iterdir()] == ["ckpt-6"]

    def test_a_run_that_is_done_stays_done(self, tmp_path):
        def train():
            model = scripted([3, 2, 2, 1, 1])
            save = callbacks.Checkpoint(tmp_path, resume=True)
            return model, run(model, callbacks.EarlyStopping(patience=1), save, epochs=5)

        for _ in range(2):
            model, history = train()
            assert history.epoch == [0, 1, 2]
            assert float(model.w) == 2

    def test_a_second_fit_with_the_same_callback(self, tmp_path):
        model = classifier()
        save = callbacks.Checkpoint(tmp_path, keep=None)
        fit(model, save, epochs=2)
        fit(model, save, epochs=1)
        names = sorted(path.name for path in tmp_path.iterdir())
        assert names == ["ckpt-12", "ckpt-18", "ckpt-6"]
        model = classifier()
        fit(model, callbacks.Checkpoint(tmp_path, keep=None, resume=True), epochs=2)
        assert sorted(path.name for path in tmp_path.iterdir())[-2:] == ["ckpt-24", "ckpt-6"]

    def test_how_often_and_how_many(self, tmp_path):
        fit(classifier(), callbacks.Checkpoint(tmp_path, every_epochs=3, keep=None), epochs=5)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["ckpt-18", "ckpt-30"]
        again = tmp_path / "again"
        fit(classifier(), callbacks.Checkpoint(again, every_steps=2, keep=3), epochs=2)
        assert sorted(path.name for path in again.iterdir()) == ["ckpt-10", "ckpt-12", "ckpt-8"]

    def test_the_best(self, tmp_path):
        for name, figures, mode in [
            ("val_loss", [4, 1, 3, 2, 5], "auto"),
            ("accuracy", [0.1, 0.9, 0.5, 0.7, 0.2], "auto"),
            ("x", [1, 9, 5, 7, 2], "max"),
        ]:
            folder = tmp_path / name
            save = callbacks.Checkpoint(folder, keep=1, keep_best=2, monitor=name, mode=mode)
            run(scripted(figures, name), save, epochs=5)
            assert sorted(path.name for path in folder.iterdir()) == ["ckpt-2", "ckpt-4", "ckpt-5"]
            assert save.best.endswith("ckpt-2")
            assert save.latest.endswith("ckpt-5")
        for wrong in ({"keep_best": 1}, {"monitor": "loss"}):
            with pytest.raises(pb.errors.InputValueError, match="pass both, or neither"):
                callbacks.Checkpoint(tmp_path, **wrong)

    def test_in_the_background(self, tmp_path):
        save = callbacks.Checkpoint(tmp_path, background=2, every_steps=1, keep=None)
        model = classifier()
        history = fit(model, save, epochs=2)
        assert len(list(tmp_path.glob("ckpt-*"))) == 12
        other = classifier()
        resumed = fit(other, callbacks.Checkpoint(tmp_path, resume=True, background=1), epochs=2)
        assert same(values(other), values(model))
        assert resumed.history == history.history

    def test_of_another_model(self, tmp_path):
        fit(classifier(), callbacks.Checkpoint(tmp_path), epochs=1)
        model = pb.Sequential([pb.layers.Dense(2), pb.layers.Dense(3), pb.layers.Dense(2)])
        model.compile("sgd", "sparse_softmax_cross_entropy")
        with pytest.raises(pb.errors.CheckpointError, match=r"does not fit|of another"):
            fit(model, callbacks.Checkpoint(tmp_path, resume=True), epochs=2)

    def test_other_objects(self, tmp_path):
        extra = pb.Variable(1.0)
        fit(classifier(), callbacks.Checkpoint(tmp_path, extra=extra), epochs=1)
        extra.assign(7.0)
        fit(classifier(), callbacks.Checkpoint(tmp_path, resume=True, extra=extra), epochs=1)
        assert float(extra) == 1.0

    def test_the_model_alone_can_be_read(self, tmp_path):
        model = classifier()
        fit(model, callbacks.Checkpoint(tmp_path), epochs=1)
        other = classifier()
        other(X)
        pb.Checkpoint(model=other).restore(pb.latest_checkpoint(tmp_path))
        assert same(values(model), values(other))

    def test_data_that_have_become_fewer(self, tmp_path):
        save = callbacks.Checkpoint(tmp_path, every_steps=1)
        with pytest.raises(RuntimeError, match="killed"):
            fit(classifier(), save, Stop(4), data=list(batches()))
        save = callbacks.Checkpoint(tmp_path, resume=True)
        with pytest.raises(pb.errors.TrainingError, match=r"end after 2 .*saved after 4"):
            fit(classifier(), save, data=list(batches())[:2])


class TestLogs:
    @pytest.mark.parametrize("capture", [False, True])
    def test_each_batch_reads_the_metrics_of_the_epoch_so_far(self, capture):
        model, seen, losses = classifier(), [], []
        model.compile("adam", "sparse_softmax_cross_entropy", ["accuracy"], capture=capture)

        class Reads(callbacks.Callback):
            def on_train_batch_end(self, batch, logs):
                assert list(logs) == ["loss", "accuracy"]
                assert len(logs) == 2
                assert "val_loss" not in logs
                seen.append((batch, logs["loss"], logs["accuracy"]))

            def on_test_batch_end(self, batch, logs):
                assert list(logs) == ["val_loss", "val_accuracy"]
                losses.append(logs["val_loss"])
                with pytest.raises(KeyError, match="loss"):
                    logs["loss"]

        history = model.fit(
            X, Y, epochs=2, batch_size=20, shuffle=False, verbose=False, callbacks=[Reads()],
            validation_data=(X, Y),
        )  # fmt: skip
        assert [batch for batch, _, _ in seen] == [0, 1, 2] * 2
        for name, column in (("loss", 1), ("accuracy", 2)):
            assert history.history[name] == [seen[2][column], seen[5][column]]
        assert history.history["val_loss"] == [losses[2], losses[5]]
        assert len({loss for _, loss, _ in seen}) == 6


class TestHistory:
    def test_is_pickled_without_the_run(self):
        model = pb.Sequential([pb.layers.Dense(1)])
        model.compile("sgd", "mean_squared_error")
        history = model.fit(
            pb.data.Dataset.from_tensor_slices(([[1.0]], [[1.0]])).batch(1), epochs=2, verbose=False
        )
        other = pickle.loads(pickle.dumps(history))
        assert (other.epoch, other.history) == (history.epoch, history.history)
        assert other.model is None
        assert repr(other) == repr(history)

    def test_state(self):
        history = callbacks.History()
        history.on_epoch_end(0, {"loss": 1.0})
        history.on_epoch_end(1, {"loss": 2.0, "val_loss": 3.0})
        history.on_epoch_end(2, {"loss": 4.0})
        other = callbacks.History()
        other.restore_state(history.checkpoint_state())
        assert other.epoch == [0, 1, 2]
        assert other.history == {"loss": [1.0, 2.0, 4.0], "val_loss": [None, 3.0, None]}
        assert repr(other) == "<History of 3 epochs: loss, val_loss>"
