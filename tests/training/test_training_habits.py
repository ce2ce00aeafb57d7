"""Habits from other frameworks: what works, and what the error says to write."""

from __future__ import annotations

import json
import pickle
from typing import Any

import numpy as np
import pytest

import pullback as pb

X = np.random.default_rng(0).standard_normal((12, 3)).astype("float32")
Y = (X.sum(axis=1) > 0).astype("int32")
CROSS_ENTROPY = "sparse_softmax_cross_entropy"


def compiled(loss: Any = CROSS_ENTROPY, metrics: Any = ("accuracy",)) -> pb.Model:
    model = pb.Sequential([pb.layers.Dense(2)])
    model.compile("adam", loss, list(metrics))
    return model


# -------------------------------------------------------------------------------------------------
# The result of evaluate.


def test_evaluation_is_unpacked_into_values() -> None:
    result = compiled().evaluate(X, Y, verbose=False)
    loss, accuracy = result
    assert isinstance(loss, float)
    assert (loss, accuracy) == (result["loss"], result["accuracy"])
    assert (result[0], result[1]) == (result.loss, result.accuracy)
    with pytest.raises(ValueError, match="unpack"):
        (loss,) = result


def test_evaluation_is_a_mapping_to_others() -> None:
    result = compiled().evaluate(X, Y, verbose=False)
    assert dict(result) == {**result} == {"loss": result.loss, "accuracy": result.accuracy}
    assert result == dict(result)
    assert "accuracy" in result
    assert "loss=" in repr(result)
    assert json.loads(json.dumps(dict(result))) == dict(result)
    assert pickle.loads(pickle.dumps(result)) == result
    assert list(result.keys()) == ["loss", "accuracy"]
    assert [name for name, _ in result.items()] == ["loss", "accuracy"]
    with pytest.raises(AttributeError, match="there is no metric 'acc'; there are loss, accuracy"):
        result.acc  # noqa: B018


def test_one_batch_has_the_same_kind_of_result() -> None:
    loss, accuracy = compiled().train_on_batch(X, Y)
    assert loss > 0
    assert 0 <= accuracy <= 1


# -------------------------------------------------------------------------------------------------
# Names.


@pytest.mark.parametrize(
    ("usual", "own"), [("mse", "mean_squared_error"), ("MAE", "mean_absolute_error")]
)
def test_usual_names_of_losses(usual: str, own: str) -> None:
    model = compiled(usual, [])
    assert model.compiled.losses[0][1].function is getattr(pb.losses, own)


@pytest.mark.parametrize(
    ("usual", "own"),
    [
        ("acc", "accuracy"),
        ("mse", "mean_squared_error"),
        ("mae", "mean_absolute_error"),
        ("rmse", "root_mean_squared_error"),
        ("mape", "mean_absolute_percentage_error"),
    ],
)
def test_usual_names_of_metrics(usual: str, own: str) -> None:
    assert list(compiled("mse", [usual]).compiled.named_metrics) == [own]


@pytest.mark.parametrize(
    ("loss", "metric", "message"),
    [
        ("sparse_categorical_crossentropy", "acc", "sparse_softmax_cross_entropy"),
        ("binary_crossentropy", "acc", "without sigmoid in the model"),
        ("mean_sqared_error", "acc", "did you mean 'mean_squared_error'"),
        ("mse", "precison", "did you mean 'Precision'"),
        ("mse", "roc_auc_score", "pb.metrics.AUC"),
        ("mse", "xyzzy", "there are AUC, "),
    ],
)
def test_other_names_say_what_there_is(loss: str, metric: str, message: str) -> None:
    with pytest.raises(pb.errors.InputValueError, match=message):
        compiled(loss, [metric])


def test_the_optimizer_of_a_model() -> None:
    model = compiled()
    assert model.optimizer is model.compiled.optimizer
    with pytest.raises(pb.errors.TrainingError, match="has not been compiled"):
        pb.Sequential([]).optimizer  # noqa: B018

    class Own(pb.Model):
        def __init__(self) -> None:
            super().__init__()
            self.optimizer = pb.optimizers.SGD(0.5)

    assert Own().optimizer.learning_rate == 0.5


# -------------------------------------------------------------------------------------------------
# Data.


def test_unequal_lengths_name_the_arguments() -> None:
    with pytest.raises(
        pb.errors.ShapeError, match="fit: the numbers of items differ: x has 12, y has 5; pass"
    ):
        compiled().fit(X, Y[:5], verbose=False)


@pytest.mark.parametrize("one_hot", [False, True])
def test_weights_of_unknown_classes_are_refused(one_hot: bool) -> None:
    model = compiled("softmax_cross_entropy" if one_hot else CROSS_ENTROPY)
    targets = np.eye(2, dtype="f4")[Y] if one_hot else Y
    with pytest.raises(
        pb.errors.InputValueError, match="has a weight for 7, and the targets have the classes 0, 1"
    ):
        model.fit(X, targets, class_weight={0: 1.0, 7: 2.0}, verbose=False)
    model.fit(X, targets, class_weight={1: 2.0}, verbose=False)


def test_a_loss_of_nan_is_explained_once() -> None:
    with pytest.warns(RuntimeWarning, match="labels outside 0, ..., classes - 1") as caught:
        compiled(CROSS_ENTROPY).fit(X, Y + 1, epochs=3, verbose=False)
    assert len([w for w in caught if "the loss is NaN" in str(w.message)]) == 1
    assert caught[0].filename == __file__


def test_a_list_of_inputs_is_one_array() -> None:
    with pytest.raises(pb.errors.ShapeError, match="give several inputs as a tuple"):
        compiled().fit([X, X], Y, verbose=False)


class Optional(pb.Model):
    """A model whose second input has a default."""

    def __init__(self, first: pb.layers.Layer) -> None:
        super().__init__()
        self.first = first

    def call(self, image: Any, text: Any = None) -> Any:
        return self.first(image)


@pytest.mark.parametrize("loop", ["fit", "evaluate", "predict", "train_on_batch"])
@pytest.mark.parametrize(
    "first",
    [pb.layers.Dense(1), pb.layers.Conv1D(1, 2), pb.layers.BatchNormalization(), pb.layers.LSTM(1),
     pb.layers.Flatten(), pb.Sequential([pb.layers.Dense(1)])],
    ids=lambda first: first.name,
)  # fmt: skip
def test_a_tuple_for_an_optional_input_says_what_to_write(first: Any, loop: str) -> None:
    model = Optional(first)
    model.compile("sgd", "mse")
    given = ((X, X),) if loop == "predict" else ((X, X), Y)
    with pytest.raises(pb.errors.PullbackError, match=r"write def call\(self, image, text\)"):
        getattr(model, loop)(*given)


def test_zip_of_a_tuple_says_what_to_write() -> None:
    data = pb.data.Dataset.range(3)
    with pytest.raises(pb.errors.InputTypeError, match="without a tuple around them"):
        pb.data.Dataset.zip((data, data))  # type: ignore[arg-type]


def test_map_with_a_seed_says_what_the_function_takes() -> None:
    def add(x: pb.Tensor) -> pb.Tensor:
        return x

    with pytest.raises(pb.errors.InputTypeError, match="give add a parameter of that name"):
        pb.data.Dataset.range(3).map(add, seed=1)


def test_swapped_labels_and_logits() -> None:
    logits, labels = np.zeros((4, 3), "f4"), np.zeros(4, "i4")
    with pytest.raises(pb.errors.DTypeError, match="swapped: labels come first; got labels float"):
        pb.losses.sparse_softmax_cross_entropy(logits, labels)
    with pytest.raises(pb.errors.DTypeError, match=r"labels must be integers; write labels.astype"):
        pb.losses.sparse_softmax_cross_entropy(labels.astype("f4"), logits)
    with pytest.raises(pb.errors.ShapeError, match=r"^sparse_softmax_cross_entropy: "):
        pb.losses.sparse_softmax_cross_entropy(labels[:3], logits)


NAMES = ["cat", "dog", "cat", "emu"]


@pytest.mark.parametrize("labels", [NAMES, np.asarray(NAMES), pb.StringTensor(NAMES)])
@pytest.mark.parametrize("loss", ["sparse_softmax_cross_entropy", "softmax_cross_entropy"])
def test_names_as_labels_say_how_to_number_them(loss: str, labels: Any) -> None:
    wanted = r"names, labels = np.unique\(x, return_inverse=True\)"
    logits = np.zeros((4, 3), "f4")
    with pytest.raises(pb.errors.ConversionError, match=rf"^{loss}: labels: .*{wanted}"):
        getattr(pb.losses, loss)(labels, logits)
    with pytest.raises(pb.errors.ConversionError, match=wanted):
        compiled(loss).fit(logits, labels, verbose=False)
    _, numbers = np.unique(labels, return_inverse=True)
    assert numbers.tolist() == [0, 1, 0, 2]
    assert pb.losses.sparse_softmax_cross_entropy(numbers, logits) > 0
    with pytest.raises(pb.errors.ConversionError, match=rf"^{loss}: logits: "):
        getattr(pb.losses, loss)(numbers, NAMES)


# -------------------------------------------------------------------------------------------------
# Steps of one's own.


class OneArgument(pb.Model):
    def train_step(self, data: Any) -> Any:
        return {}


class OwnStep(pb.Model):
    def train_step(self, inputs: Any, targets: Any, weights: Any) -> Any:
        return {"loss": 1.0}


def test_a_step_with_one_parameter_says_which_there_are() -> None:
    with pytest.raises(
        pb.errors.TrainingError, match=r"write def train_step\(self, inputs, targets, weights\)"
    ):
        OneArgument().fit(X, Y, verbose=False)


def test_validation_with_a_step_of_ones_own_asks_for_test_step() -> None:
    with pytest.raises(pb.errors.TrainingError, match="write def test_step"):
        OwnStep().fit(X, Y, validation_data=(X, Y), verbose=False)
    model = OwnStep()
    model.compile("adam")
    model.call = lambda x: x  # type: ignore[method-assign]
    with pytest.raises(pb.errors.TrainingError, match="test_step for validations"):
        model.fit(X, Y, validation_data=(X, Y), verbose=False)


# -------------------------------------------------------------------------------------------------
# Logits.


@pytest.mark.parametrize(
    ("activation", "loss"), [("softmax", CROSS_ENTROPY), ("sigmoid", "sigmoid_cross_entropy")]
)
def test_a_loss_of_logits_warns_of_an_activation_before_it(activation: str, loss: str) -> None:
    model = pb.Sequential([pb.layers.Dense(2, activation)])
    model.compile("adam", loss)
    targets = Y if activation == "softmax" else np.stack([Y, Y], axis=1).astype("f4")
    with pytest.warns(UserWarning, match=f"ends in {activation}, and {loss} takes logits") as seen:
        model.fit(X, targets, epochs=2, verbose=False)
    assert len(seen) == 1


@pytest.mark.parametrize("last", ["log_softmax", None])
def test_logits_are_no_reason_to_warn(last: str | None, recwarn: pytest.WarningsRecorder) -> None:
    model = pb.Sequential([pb.layers.Dense(2, last)])
    model.compile("adam", CROSS_ENTROPY)
    model.fit(X, Y, verbose=False)
    assert not recwarn


class TestDevices:
    """A model on another device than the active one, on which batches are made."""

    @pytest.fixture
    def model(self, minimal):
        with minimal:
            model = pb.Sequential([pb.layers.Dense(1, input_shape=(2,))])
            model.compile("sgd", "mean_squared_error")
            model.fit([[1.0, 2.0]], [[1.0]], verbose=False)
        return model

    @pytest.mark.parametrize(
        ("method", "call"),
        [
            ("fit", lambda model: model.fit([[1.0, 2.0]], [[1.0]], verbose=False)),
            ("evaluate", lambda model: model.evaluate([[1.0, 2.0]], [[1.0]], verbose=False)),
            ("predict", lambda model: model.predict([[1.0, 2.0]])),
            ("train_on_batch", lambda model: model.train_on_batch([[1.0, 2.0]], [[1.0]])),
        ],
    )
    def test_the_error_says_what_to_write(self, model, minimal, method, call):
        with pb.device("cpu:0"), pytest.raises(pb.errors.DeviceError) as caught:
            call(model)
        advice = caught.value.__notes__[-1]
        assert f'`with pb.device("{minimal}"):` around {method}' in advice
        with minimal:
            call(model)


class TestJSON:
    def test_metrics_are_numbers_of_python(self):
        class Mixed(pb.Model):
            """A model whose step returns every kind of number."""

            def train_step(self, inputs, targets, weights):
                return {"tensor": pb.asarray(0.5), "numpy": np.float32(0.25), "number": 2}

        class Largest(pb.metrics.Metric):
            """A metric whose result is NumPy's."""

            def update(self, targets, predictions, weights=None):
                pass

            def result(self):
                return np.float32(0.5)

            def reset(self):
                pass

        history = Mixed().fit(X, Y, verbose=False).history
        assert json.loads(json.dumps(history)) == {"tensor": [0.5], "numpy": [0.25], "number": [2]}
        model = compiled(metrics=[Largest()])
        for values in (
            model.fit(X, Y, verbose=False).history,
            dict(model.evaluate(X, Y, verbose=False)),
            dict(model.train_on_batch(X, Y)),
        ):
            assert values["largest"] in ([0.5], 0.5)
            assert json.loads(json.dumps(values)) == values

    @pytest.mark.parametrize("x", [pb.asarray([1.0, 2.0]), pb.Variable([1.0, 2.0])])
    def test_tensors_by_a_default(self, x):
        assert json.dumps({"x": x}, default=pb.Tensor.tolist) == '{"x": [1.0, 2.0]}'


def test_inputs_in_a_form_that_does_not_fit():
    class Two(pb.Model):
        def __init__(self):
            super().__init__()
            self.dense = pb.layers.Dense(1)

        def call(self, title, tags):
            return self.dense(title) + self.dense(tags)

    x, y = np.ones((6, 4), np.float32), np.ones((6, 1), np.float32)
    two = Two()
    two.compile("sgd", "mean_squared_error")
    with pytest.raises(pb.errors.InputValueError, match="'title', 'tags', got one Tensor"):
        two.fit(x, y, verbose=False)
    one = pb.Sequential([pb.layers.Dense(1)])
    one.compile("sgd", "mean_squared_error")
    with pytest.raises(pb.errors.InputValueError, match="give several inputs as a tuple"):
        one.fit([x, x[:, :2]], y, verbose=False)
    with pytest.raises(pb.errors.ConversionError, match="pass one of the arrays that it holds"):
        one.fit(x, {"out": y}, verbose=False)
