"""`pb.functional_call`: a model with other values, beside a model that has them."""

import numpy as np
import pytest

import pullback as pb
from pullback.state import named_variables

X = np.random.default_rng(0).standard_normal((6, 4)).astype("f")


class Captured(pb.layers.Layer):
    """A layer that calls a captured function of another layer."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer
        self.run = pb.function(layer)

    def call(self, x):
        return self.run(x)


def made(kind, seed):
    pb.random.seed(seed)
    model = pb.Sequential(
        [
            pb.layers.Dense(8, activation="tanh"),
            pb.layers.BatchNormalization(),
            pb.layers.Dropout(0.5),
            pb.layers.Dense(1),
        ]
    )
    model = Captured(model) if kind == "captured" else model
    for _ in range(3):
        model(pb.asarray(X))
    for variable in named_variables(model).values():
        variable.assign(variable + pb.random.uniform(variable.shape))
    return model


def values_of(model):
    return {path: variable.value for path, variable in named_variables(model).items()}


def call(model, values, kind, x):
    f = lambda values, x: pb.functional_call(model, values, x)  # noqa: E731
    if kind == "function":
        f = pb.function(f)
        f(values, x), f(values, x)
    return f(values, x)


@pytest.mark.parametrize("kind", ["eager", "captured", "function"])
def test_results_are_those_of_a_model_with_the_values(kind):
    one, other, x = made(kind, 1), made(kind, 2), pb.asarray(X)
    before = {path: value.numpy().copy() for path, value in values_of(one).items()}
    found = call(one, values_of(other), kind, x)
    np.testing.assert_allclose(found.numpy(), other(x).numpy(), rtol=1e-6)
    for path, value in values_of(one).items():
        np.testing.assert_array_equal(value.numpy(), before[path])
    some = {"layers/0/bias": pb.zeros(8)} if kind != "captured" else {}
    pb.functional_call(one, some, x)


def test_gradients_flow_to_the_values_alone():
    model, x = made("eager", 1), pb.asarray(X)
    values = values_of(model)

    def loss(values):
        return pb.mean(pb.functional_call(model, values, x, training=False) ** 2)

    with pb.GradientTape() as tape:
        direct = pb.mean(model(x, training=False) ** 2)
    expected = tape.gradient(direct, model.trainable_variables)
    found = pb.grad(loss)(values)
    paths = {id(v): path for path, v in named_variables(model).items()}
    for variable, gradient in zip(model.trainable_variables, expected, strict=True):
        np.testing.assert_allclose(found[paths[id(variable)]], gradient, rtol=1e-5, atol=1e-7)
    by_list = pb.grad(loss)([v.value for v in model.trainable_variables])
    for one, other in zip(by_list, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)
    with pb.GradientTape() as tape:
        target = loss(values)
    assert tape.gradient(target, model.trainable_variables) == [None] * len(expected)


def test_what_the_call_assigns_is_seen_by_the_call():
    model, x = made("eager", 1), pb.asarray(X)
    values, before = values_of(model), values_of(model)
    pb.random.seed(7)
    result, after = pb.functional_call(model, values, x, training=True, assigned=True)
    for path, value in values_of(model).items():
        np.testing.assert_array_equal(value.numpy(), before[path].numpy())
    pb.random.seed(7)
    np.testing.assert_array_equal(model(x, training=True).numpy(), result.numpy())
    for path, value in values_of(model).items():
        np.testing.assert_array_equal(after[path].numpy(), value.numpy())
    assert {path for path in after if (after[path] != before[path]).numpy().any()} == {
        "layers/1/moving_mean",
        "layers/1/moving_variance",
    }


def test_an_ensemble_trains_as_its_members_do():
    model, x = made("eager", 1), pb.asarray(X)
    members = [values_of(model), {k: v * 0.5 for k, v in values_of(model).items()}]
    stacked = {path: pb.stack([m[path] for m in members]) for path in members[0]}

    def step(values):
        def loss(values):
            out, after = pb.functional_call(model, values, x, training=False, assigned=True)
            return pb.mean(out**2), after

        slopes, after = pb.grad(loss, has_aux=True)(values)
        return {path: after[path] - 0.1 * slopes[path] for path in values}

    found = pb.vmap(step)(stacked)
    for i, member in enumerate(members):
        for path, value in step(member).items():
            np.testing.assert_allclose(found[path][i], value, rtol=1e-5, atol=1e-6)


def test_errors_name_the_path_and_what_to_write():
    model, x = made("eager", 1), pb.asarray(X)
    cases = {
        "no variable has the path 'layers/0/kernl'; there are 'layers/0/kernel'": (
            {"layers/0/kernl": 0.0},
            ValueError,
        ),
        "1 values for 6 trainable variables": ([pb.zeros(1)], ValueError),
        r"value of 'layers/0/bias' has \(3,\)": ({"layers/0/bias": pb.zeros(3)}, ValueError),
        "value of 'layers/0/bias' has int32": (
            {"layers/0/bias": pb.zeros(8, dtype="int32")},
            TypeError,
        ),
        "a dict by path or a list": (3, TypeError),
    }
    for message, (values, kind) in cases.items():
        with pytest.raises(kind, match=message):
            pb.functional_call(model, values, x)
    with pytest.raises(ValueError, match="has no variables yet; call it once"):
        pb.functional_call(pb.layers.Dense(2), {"kernel": pb.zeros((2, 2))}, x)
    with pytest.raises(TypeError, match="a model that can be called"):
        pb.functional_call(3, {}, x)
    stepping = Stepping(model, pb.optimizers.SGD(0.1))
    with pytest.raises(ValueError, match="steps the variable itself"):
        pb.functional_call(stepping, {"model/layers/3/bias": pb.zeros(1)}, x)


class Stepping:
    """A model that trains a variable when it is called."""

    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer

    def __call__(self, x):
        self.optimizer.apply_gradients([(pb.zeros(1), self.model.layers[3].bias)])
        return self.model(x)
