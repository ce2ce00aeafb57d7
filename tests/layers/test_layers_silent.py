"""Habits from elsewhere that would change nothing, or something else, without a word."""

from __future__ import annotations

import copy
import pickle
import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback as pb

L = pb.layers


# ---------------------------------------------------------------------------------------------
# A value in the place of a variable.


@pytest.mark.parametrize(
    "value",
    [pb.zeros((3, 2)), np.zeros((3, 2)), [[0.0, 0.0]] * 3, 0.0],
    ids=["tensor", "array", "list", "number"],
)
def test_a_value_does_not_replace_a_variable(value: object) -> None:
    dense = L.Dense(2, input_shape=(3,))
    kernel = dense.kernel
    with pytest.raises(pb.errors.LayerError, match=r"write layer.kernel.assign\(value\)"):
        dense.kernel = value  # type: ignore[assignment]
    assert dense.kernel is kernel


def test_the_error_shows_the_name_and_how_to_replace_a_variable_all_the_same() -> None:
    dense = L.Dense(2, input_shape=(3,))
    with pytest.raises(pb.errors.LayerError, match="kernel is a variable") as caught:
        dense.kernel = dense.kernel * 2  # type: ignore[assignment]
    assert "del layer.kernel" in str(caught.value)
    value = dense.kernel * 2
    del dense.kernel
    dense.kernel = value  # type: ignore[assignment]
    assert dense([[1.0, 0.0, 0.0]]).tolist() == [value[0].tolist()]
    assert list(dense.named_variables) == ["bias"]


def test_variables_layers_and_none_replace_a_variable() -> None:
    dense = L.Dense(2, input_shape=(3,))
    dense.kernel = pb.Variable(pb.ones((3, 2)))
    dense.bias = None
    assert dense([[1.0, 2.0, 3.0]]).tolist() == [[6.0, 6.0]]
    dense.kernel = copy.copy(dense.kernel)
    assert pickle.loads(pickle.dumps(dense)).kernel.shape == (3, 2)


def test_a_variable_in_a_model_of_ones_own_is_not_replaced_either() -> None:
    class Scale(pb.Model):
        def __init__(self) -> None:
            super().__init__()
            self.factor = pb.Variable(1.0)

    model = Scale()
    with pytest.raises(pb.errors.LayerError, match=r"write layer.factor.assign\(value\)"):
        model.factor = model.factor - 0.1  # type: ignore[assignment]


# ---------------------------------------------------------------------------------------------
# The mode of a layer.


@pytest.mark.parametrize("make", [lambda: L.Dense(2), lambda: pb.Sequential([L.Dense(2)])])
def test_the_mode_of_a_layer_cannot_be_set(make: Callable[[], Any]) -> None:
    with pytest.raises(AttributeError, match=re.escape("write `layer(x, training=True)`")):
        make().training = True


def test_a_class_may_have_a_mode_of_its_own() -> None:
    class Moody(pb.Model):
        training = False

    model = Moody()
    model.training = True
    assert model.training


# ---------------------------------------------------------------------------------------------
# A loop by hand that does not say that it trains.

ACTIVE_IN_TRAINING = [
    L.Dropout(0.5),
    L.SpatialDropout1D(0.5),
    L.GaussianNoise(0.1),
    L.BatchNormalization(),
]


def named(layer: Any) -> str:
    return type(layer).__name__


def step(model: Any, **arguments: bool) -> None:
    with pb.GradientTape() as tape:
        loss = pb.sum(model(pb.ones((2, 4, 3)), **arguments))
    tape.gradient(loss, model.trainable_variables)


@pytest.mark.parametrize("layer", ACTIVE_IN_TRAINING, ids=named)
def test_a_recorded_call_that_says_nothing_of_training_warns(layer: Any) -> None:
    model = pb.Sequential([L.Dense(3), layer])
    with pytest.warns(UserWarning, match=r"training=True") as caught:
        step(model)
    assert "training=False" in str(caught[0].message)
    # At the line that calls the model.
    assert caught[0].filename == __file__


@pytest.mark.parametrize("layer", ACTIVE_IN_TRAINING, ids=named)
@pytest.mark.parametrize("training", [True, False])
def test_a_call_that_says_it_does_not_warn(layer: Any, training: bool) -> None:
    model = pb.Sequential([L.Dense(3), layer])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        step(model, training=training)


@pytest.mark.parametrize("layer", ACTIVE_IN_TRAINING, ids=named)
def test_nothing_warns_without_a_tape(layer: Any) -> None:
    model = pb.Sequential([L.Dense(3), layer])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model(pb.ones((2, 4, 3)))
        with pb.GradientTape() as tape, tape.stop_recording():
            model(pb.ones((2, 4, 3)))


def test_layers_that_are_the_same_in_training_do_not_warn() -> None:
    frozen = L.BatchNormalization(trainable=False)
    model = pb.Sequential([L.Dense(3), L.Dropout(0.0), L.GaussianNoise(0.0), frozen])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        step(model)


def test_a_model_of_many_layers_warns_once() -> None:
    class Deep(pb.Model):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = [L.Dense(3), *ACTIVE_IN_TRAINING]

        def call(self, x: Any) -> Any:
            for block in self.blocks:
                x = block(x)
            return x

    model = Deep()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            step(model)
    assert len(caught) == 1


def test_gradients_of_inputs_and_fit_do_not_warn() -> None:
    model = pb.Sequential([L.Dense(3), L.Dropout(0.5)])
    model.compile("sgd", "mean_squared_error")
    data = np.ones((4, 4), "float32"), np.ones((4, 3), "float32")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pb.grad(lambda x: pb.sum(model(x)))(pb.ones((2, 4)))
        model.fit(*data, epochs=1, verbose=0, validation_data=data)
        model.evaluate(*data, verbose=0)


def test_a_captured_step_that_says_nothing_of_training_warns() -> None:
    model = pb.Sequential([L.Dense(3), L.Dropout(0.5)])
    with pytest.warns(UserWarning, match="training=True"):
        pb.function(lambda: step(model))()


# ---------------------------------------------------------------------------------------------
# Lists for layers in double precision.


@pytest.mark.parametrize(
    "make",
    [
        lambda: L.Dense(1, dtype="float64", kernel_initializer="ones"),
        lambda: pb.Sequential([L.Dense(1, dtype="float64", kernel_initializer="ones")]),
        lambda: pb.Sequential([L.ReLU(), L.Dense(1, dtype="float64", kernel_initializer="ones")]),
    ],
    ids=["layer", "model", "later"],
)
@pytest.mark.parametrize("calls", [1, 2])
def test_lists_have_the_digits_of_a_layer_in_float64(make: Any, calls: int) -> None:
    layer = make()
    for _ in range(calls):
        result = layer([[0.1]])
    assert result.dtype == pb.float64
    assert result.tolist() == [[0.1]]


def test_lists_for_a_variable_of_float64_have_its_digits() -> None:
    class Scale(pb.layers.Layer):
        def __init__(self) -> None:
            self.factor = pb.Variable(np.ones(1))

        def call(self, x: Any) -> Any:
            return x * self.factor

    assert Scale()([0.1]).tolist() == [0.1]
    assert Scale()(0.1).tolist() == [0.1]


def test_lists_keep_their_dtype_where_it_is_not_a_float() -> None:
    table = L.Embedding(3, 2, dtype="float64")
    assert table([[0, 2]]).shape == (1, 2, 2)
    assert L.Dense(1)([[0.1]]).dtype == pb.float32
    half = L.Dense(1, dtype="bfloat16", kernel_initializer="ones")
    assert half([[0.1]]).dtype == pb.bfloat16


@pytest.mark.parametrize("padding", ["valid", "same"])
def test_images_with_channels_first_are_noticed(padding):
    with pytest.warns(UserWarning, match="looks like channels first") as caught:
        pb.layers.Conv2D(2, 3, padding=padding)(pb.ones((4, 3, 32, 32)))
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pb.layers.Conv2D(2, 3, data_format="channels_first")(pb.ones((4, 3, 32, 32)))
        pb.layers.Conv2D(2, 3, padding="same")(pb.ones((4, 32, 32, 3)))
        pb.layers.Conv2D(2, (1, 3))(pb.ones((4, 3, 32, 16)))
