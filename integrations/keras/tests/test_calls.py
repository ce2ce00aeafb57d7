"""Tests of the short ways of calls: each gives what Keras's own code gives, bit for bit."""

from __future__ import annotations

import copy

import keras
import numpy as np
import pytest
from keras import layers, ops

import pullback as pb
from keras_pullback.src import layer as layer_module
from keras_pullback.src.optimizer import hasten

SEEDS = range(12)


def array(rng, *shape):
    return ops.convert_to_tensor(rng.standard_normal(shape).astype("float32"))


def results(layer, call, x):
    """The output of a call, and the gradients of its input and of the layer's weights."""
    with pb.GradientTape() as tape:
        tape.watch(x)
        y = call(layer, x)
        total = ops.sum(ops.cast(y, "float32") * ops.cos(ops.reshape(ops.arange(y.size), y.shape)))
    sources = [x, *(v._value for v in layer.trainable_weights)]
    return [np.asarray(ops.cast(v, "float32")) for v in (y, *tape.gradient(total, sources))]


def assert_as_keras(layer, x):
    """A call is one of Keras's own, with the same bits and dtype."""
    layer(x)
    found, want = results(layer, type(layer).call, x), results(layer, own(type(layer)), x)
    for i, (one, other) in enumerate(zip(found, want, strict=True)):
        np.testing.assert_array_equal(one, other, err_msg=str(i))
    assert layer(x).dtype.name == layer.compute_dtype


def own(cls):
    return cls.call.__wrapped__


@pytest.mark.parametrize("cls", [layers.Dense, layers.EinsumDense])
def test_the_short_way_is_there(cls):
    assert own(cls) is not cls.call


@pytest.mark.parametrize("seed", SEEDS)
def test_dense_layers(seed):
    rng = np.random.default_rng(seed)
    keras.utils.set_random_seed(seed)
    shape = [int(n) for n in rng.integers(1, 20, rng.integers(2, 5))]
    layer = layers.Dense(
        int(rng.integers(1, 20)),
        activation=[None, "relu", "gelu"][seed % 3],
        use_bias=seed % 4 > 0,
        bias_initializer="normal",
        dtype=["float32", "float32", "float16", "mixed_bfloat16"][seed // 3],
    )
    assert_as_keras(layer, array(rng, *shape))


EQUATIONS = [
    ("abc,cde->abde", (3, 4, 5), (None, 2, 6), "de"),
    ("abc,cde->abde", (3, 4, 5), (None, 2, 6), "e"),
    ("abcd,cde->abe", (2, 3, 4, 5), (None, 6), "e"),
    ("xyz,zw->xyw", (2, 3, 4), (None, 5), "w"),
    ("abc,bd->adc", (2, 3, 4), (5, None), "d"),
    ("ab,bc->ac", (3, 4), (5,), None),
]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(("equation", "shape", "sizes", "bias"), EQUATIONS)
def test_dense_layers_by_equations(equation, shape, sizes, bias, dtype):
    layer = layers.EinsumDense(
        equation, sizes, bias_axes=bias, bias_initializer="normal", dtype=dtype
    )
    assert_as_keras(layer, array(np.random.default_rng(0), *shape))


def test_kernels_that_are_made_anew():
    class Doubled(layers.Dense):
        @property
        def kernel(self):
            return 2 * super().kernel

    rng = np.random.default_rng(0)
    x = array(rng, 3, 4)
    assert_as_keras(Doubled(5), x)
    layer = layers.Dense(5, bias_initializer="normal")
    layer(x)
    layer.enable_lora(2)
    layer.lora_kernel_b.assign(array(rng, 2, 5))
    assert_as_keras(layer, x)
    layer = layers.Dense(8, bias_initializer="normal")
    want = layer(x)
    layer.quantize("int8")
    np.testing.assert_allclose(layer(x), want, atol=0.1)


def test_calls_of_other_tensors():
    layer = layers.Dense(5)
    x = np.arange(8.0).reshape(2, 4)
    want = np.asarray(layer(x))
    assert np.array_equal(layer(ops.convert_to_tensor(x, "float16")), want)
    assert layers.Dense(5)(keras.Input((4,))).shape == (None, 5)
    with pytest.raises(ValueError, match="incompatible with the layer"):
        layer(ops.ones((2, 3)))


# Graphs ------------------------------------------------------------------------------------------


class Split(layers.Layer):
    """Returns a dictionary, and notes how it was called."""

    def call(self, x, scale=1.0, training=None):
        self.training = training
        return {"half": x * 0.5, "scaled": x * scale}


def random_graph(rng):
    """A model of layers with one input and several, of ops, of shared layers and of models."""
    inputs = [keras.Input((3,), name=f"in{i}") for i in range(int(rng.integers(1, 4)))]
    shared, split = layers.Dense(3), Split()
    inner = keras.Sequential([keras.Input((3,)), layers.Dense(3, activation="tanh")])
    known = list(inputs)

    def one():
        return known[int(rng.integers(len(known)))]

    for kind in rng.integers(0, 7, 8):
        if kind == 0:
            known.append(shared(one()))
        elif kind == 1:
            known.append(one() + one())
        elif kind == 2:
            known.append(layers.Concatenate()([one(), one()])[:, :3])
        elif kind == 3:
            known.extend(split(one(), scale=float(rng.random())).values())
        elif kind == 4:
            known.append(inner(one()))
        elif kind == 5:
            known.append(layers.BatchNormalization()(one()))
        else:
            known.append(layers.Average()([one(), one(), one()]))
    outputs = known[-3:]
    kind = int(rng.integers(3))
    named = dict(zip("abc", outputs, strict=True))
    outputs = [outputs[-1], outputs, named][kind]
    return keras.Model(inputs[0] if len(inputs) == 1 else inputs, outputs), split


@pytest.mark.parametrize("seed", SEEDS)
def test_graphs(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    keras.utils.set_random_seed(seed)
    model, split = random_graph(rng)
    cls = next(c for c in type(model).__mro__ if "_run_through_graph" in vars(c))
    x = [array(rng, 4, 3) for _ in model.inputs]
    x = x[0] if len(x) == 1 else x
    for training in (False, True, None):
        start = [v.numpy() for v in model.weights]
        found = model(x, training=training)
        noted, moved = getattr(split, "training", None), [v.numpy() for v in model.weights]
        for v, value in zip(model.weights, start, strict=True):
            v.assign(value)
        with monkeypatch.context() as patch:
            patch.setattr(cls, "_run_through_graph", cls._run_through_graph.__wrapped__)
            want = model(x, training=training)
        keras.tree.assert_same_structure(found, want)
        for a, b in zip(keras.tree.flatten(found), keras.tree.flatten(want), strict=True):
            assert np.array_equal(a, b)
        assert getattr(split, "training", None) is noted
        for v, value in zip(model.weights, moved, strict=True):
            assert np.array_equal(v, value)


def test_copies_of_a_graph_that_was_called():
    rng = np.random.default_rng(0)
    model, _ = random_graph(rng)
    x = [array(rng, 4, 3) for _ in model.inputs]
    x = x[0] if len(x) == 1 else x
    model(x)
    custom = {"Split": Split}
    with keras.saving.custom_object_scope(custom):
        made = [copy.deepcopy(model), keras.models.clone_model(model)]
    made[1].set_weights(model.get_weights())
    for other in made:
        for a, b in zip(*(keras.tree.flatten(m(x)) for m in (model, other)), strict=True):
            assert np.array_equal(a, b)


def test_graphs_of_graphs_and_symbols():
    x = keras.Input((3,))
    model = keras.Model(x, layers.Dense(2)(x))
    model(ops.ones((2, 3)))
    outer = keras.Model(x, model(x * 2))
    assert outer(ops.ones((4, 3))).shape == (4, 2)
    assert model.compute_output_shape((7, 3)) == (7, 2)


def test_arguments_of_nodes_that_are_none():
    """A layer whose node has `mask=None` goes the short way, and the long one with a mask."""
    x = keras.Input((4,), dtype="int32")
    for zero in (False, True):
        embedding = layers.Embedding(5, 3, mask_zero=zero)
        model = keras.Model(x, layers.GlobalAveragePooling1D()(embedding(x)))
        tokens = ops.convert_to_tensor([[1, 2, 0, 0], [3, 4, 1, 0]], "int32")
        rows = np.asarray(embedding(tokens))
        want = rows.mean(1)
        if zero:
            want = np.stack([rows[0, :2].mean(0), rows[1, :3].mean(0)])
        for _ in range(3):
            np.testing.assert_allclose(model(tokens), want, rtol=1e-6)


def test_steps_follow_the_variables_they_are_given():
    rng = np.random.default_rng(0)
    for name in ("adam", "sgd", "lion"):
        pairs = []
        for short in (True, False):
            keras.utils.set_random_seed(0)
            variables = [keras.Variable(np.ones(n, "float32")) for n in (2, 3, 4)]
            optimizer = keras.optimizers.get(name)
            optimizer.build(variables)
            if short:
                hasten(optimizer)
            pairs.append((optimizer, variables))
        for chosen in ([0, 1, 2], [2, 0], [0, 1, 2], [1], [1, 2]):
            gradients = [array(rng, n + 2) for n in chosen]
            for optimizer, variables in pairs:
                optimizer.apply(gradients, [variables[i] for i in chosen])
        for one, other in zip(*(variables for _, variables in pairs), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6)


def test_defaults_of_training_reach_what_they_reach_in_keras(monkeypatch):
    class Default(layers.Layer):
        def call(self, x, training=True):
            return x

    class Noted(layers.Layer):
        def call(self, x, training=None):
            self.noted = training
            return x

    class Around(layers.Layer):
        def __init__(self):
            super().__init__()
            self.first, self.second = Default(), Noted()

        def call(self, x):
            return self.second(self.first(x))

    x, noted, around = keras.Input((3,)), Noted(), Around()
    model = keras.Model(x, noted(Default()(x)))
    found = []
    for short in (True, False):
        if not short:
            monkeypatch.setattr(layer_module, "_is_short", lambda *_: False)
        for training in (None, True, False):
            model(ops.ones((2, 3)), training=training)
            around(ops.ones((2, 3)), training=training)
            found.append((noted.noted, around.second.noted))
    assert found[:3] == found[3:]


def test_losses_and_what_clears_them():
    class Adds(layers.Layer):
        def call(self, x):
            self.add_loss(ops.sum(x))
            return x

    x = keras.Input((3,))
    dense = layers.Dense(3, kernel_regularizer="l2", activity_regularizer="l2")
    model = keras.Model(x, Adds()(dense(x)))
    for _ in range(3):
        model(ops.ones((2, 3)))
        assert len(model.losses) == 3
    model._clear_losses()
    assert len(model.losses) == 1
