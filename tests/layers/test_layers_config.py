"""Configurations: layers, optimizers, initializers and schedules are made again from plain data."""

from __future__ import annotations

import json
import math
import re

import numpy as np
import pytest

import pullback as pb
from pullback.layers import initializers, regularizers

L, O = pb.layers, pb.optimizers  # noqa: E741


def double(x):
    return x * 2.0


class Residual(pb.Model):
    """A model of the user's: arguments by position, by name, and with layers among them."""

    def __init__(self, units, /, *inner, scale=1.0, **rest):
        super().__init__(**rest)
        self.units, self.inner, self.scale = units, list(inner), scale
        self.last = L.Dense(units)

    def call(self, x):
        y = x
        for layer in self.inner:
            y = layer(y)
        return self.last(x + y * self.scale)


class Bare(L.Layer):
    """A layer whose constructor calls no other."""

    def __init__(self, factor):
        self.factor = factor

    def call(self, x):
        return x * self.factor


# Each kind of layer, and the shape of an input.
MADE = {
    "Activation": (lambda: L.Activation("relu"), (2, 3)),
    "ActivityRegularization": (lambda: L.ActivityRegularization(0.1, 0.2), (2, 3)),
    "AlphaDropout": (lambda: L.AlphaDropout(0.5, seed=3), (2, 3)),
    "EinsumDense": (
        lambda: L.EinsumDense("abc,cde->abde", (None, 3, 2), "relu", bias_axes="d"),
        (2, 4, 5),
    ),
    "GaussianDropout": (lambda: L.GaussianDropout(0.5, seed=3), (2, 3)),
    "UnitNormalization": (lambda: L.UnitNormalization(), (2, 3)),
    "AdaptiveAveragePool1D": (lambda: L.AdaptiveAveragePool1D(2), (2, 5, 3)),
    "LeakyReLU": (lambda: L.LeakyReLU(0.3), (2, 3)),
    "RandomBrightness": (lambda: L.RandomBrightness(0.3, seed=3), (2, 5, 6, 3)),
    "RandomContrast": (lambda: L.RandomContrast((-0.3, 1), seed=3), (2, 5, 6, 3)),
    "RandomCrop": (lambda: L.RandomCrop(3, 4, padding=1, seed=3), (2, 5, 6, 3)),
    "RandomFlip": (lambda: L.RandomFlip("vertical", seed=3), (2, 5, 6, 3)),
    "RandomRotation": (lambda: L.RandomRotation(0.1, fill_mode="wrap", seed=3), (2, 5, 6, 3)),
    "RandomTranslation": (lambda: L.RandomTranslation(0.1, (0, 0.2), seed=3), (2, 5, 6, 3)),
    "RandomZoom": (lambda: L.RandomZoom(0.3, interpolation="nearest", seed=3), (2, 5, 6, 3)),
    "ReLU": (L.ReLU, (2, 3)),
    "Rescaling": (lambda: L.Rescaling(2.0, -1), (2, 3)),
    "Softmax": (lambda: L.Softmax(axis=0), (2, 3)),
    "AdaptiveAveragePool2D": (lambda: L.AdaptiveAveragePool2D((2, 3)), (2, 5, 6, 3)),
    "AdaptiveAveragePool3D": (lambda: L.AdaptiveAveragePool3D(2), (2, 5, 5, 5, 3)),
    "AdaptiveMaxPool1D": (lambda: L.AdaptiveMaxPool1D(2), (2, 5, 3)),
    "AdaptiveMaxPool2D": (lambda: L.AdaptiveMaxPool2D(2), (2, 5, 6, 3)),
    "AdaptiveMaxPool3D": (lambda: L.AdaptiveMaxPool3D(2), (2, 5, 5, 5, 3)),
    "AveragePool1D": (lambda: L.AveragePool1D(2, 1, "same"), (2, 5, 3)),
    "AveragePool2D": (lambda: L.AveragePool2D((2, 1)), (2, 5, 6, 3)),
    "AveragePool3D": (lambda: L.AveragePool3D(), (2, 4, 4, 4, 3)),
    "BatchNormalization": (lambda: L.BatchNormalization(momentum=0.5), (4, 3)),
    "Bidirectional": (lambda: L.Bidirectional(L.GRU(3), merge="sum"), (2, 4, 3)),
    "Conv1D": (lambda: L.Conv1D(4, 3, padding="causal"), (2, 5, 3)),
    "Conv1DTranspose": (lambda: L.Conv1DTranspose(4, 3, 2), (2, 5, 3)),
    "Conv2D": (lambda: L.Conv2D(4, (2, 3), groups=2, data_format="channels_first"), (2, 4, 5, 6)),
    "Conv2DTranspose": (lambda: L.Conv2DTranspose(4, 3, 2, 1, output_padding=1), (2, 5, 6, 3)),
    "Conv3D": (lambda: L.Conv3D(4, 2, activation=pb.relu), (2, 3, 3, 3, 2)),
    "Conv3DTranspose": (lambda: L.Conv3DTranspose(4, 2), (2, 3, 3, 3, 2)),
    "ConvLSTM1D": (lambda: L.ConvLSTM1D(4, 2, dilation=2, use_bias=False), (2, 3, 5, 2)),
    "ConvLSTM2D": (lambda: L.ConvLSTM2D(4, (3, 2), return_sequences=True), (2, 3, 5, 4, 2)),
    "ConvLSTM3D": (lambda: L.ConvLSTM3D(2, 2, reverse=True), (2, 3, 3, 3, 3, 2)),
    "Cropping1D": (lambda: L.Cropping1D((1, 2)), (2, 5, 3)),
    "Cropping2D": (lambda: L.Cropping2D(((1, 0), 1)), (2, 5, 6, 3)),
    "Cropping3D": (lambda: L.Cropping3D(1), (2, 5, 5, 5, 3)),
    "Dense": (lambda: L.Dense(4, kernel_initializer=initializers.he_normal()), (2, 3)),
    "DepthwiseConv1D": (lambda: L.DepthwiseConv1D(3, depth_multiplier=2), (2, 5, 3)),
    "DepthwiseConv2D": (lambda: L.DepthwiseConv2D(3), (2, 5, 6, 3)),
    "Discretization": (lambda: L.Discretization([-0.5, 0.0, 0.5]), (2, 3)),
    "Dropout": (lambda: L.Dropout(0.5, seed=3), (2, 3)),
    "Embedding": (lambda: L.Embedding(2, 3), (2, 4)),
    "Flatten": (lambda: L.Flatten(), (2, 3, 4)),
    "GRU": (lambda: L.GRU(3, return_sequences=True), (2, 4, 3)),
    "GaussianNoise": (lambda: L.GaussianNoise(0.5, seed=3), (2, 3)),
    "GlobalAveragePool1D": (lambda: L.GlobalAveragePool1D(keepdims=True), (2, 5, 3)),
    "GlobalAveragePool2D": (lambda: L.GlobalAveragePool2D(), (2, 5, 6, 3)),
    "GlobalAveragePool3D": (lambda: L.GlobalAveragePool3D(), (2, 4, 4, 4, 3)),
    "GlobalMaxPool1D": (lambda: L.GlobalMaxPool1D(), (2, 5, 3)),
    "GlobalMaxPool2D": (lambda: L.GlobalMaxPool2D(), (2, 5, 6, 3)),
    "GlobalMaxPool3D": (lambda: L.GlobalMaxPool3D(), (2, 4, 4, 4, 3)),
    "GroupNormalization": (lambda: L.GroupNormalization(2), (2, 5, 4)),
    "InstanceNormalization": (lambda: L.InstanceNormalization(), (2, 5, 4)),
    "LSTM": (lambda: L.LSTM(3, forget_bias=0.5, reverse=True), (2, 4, 3)),
    "Lambda": (lambda: L.Lambda(pb.tanh), (2, 3)),
    "LayerNormalization": (lambda: L.LayerNormalization((1, 2)), (2, 5, 4)),
    "Masking": (lambda: L.Masking(0.5), (2, 5, 3)),
    "MaxPool1D": (lambda: L.MaxPool1D(2), (2, 5, 3)),
    "MaxPool2D": (lambda: L.MaxPool2D(2), (2, 5, 6, 3)),
    "MaxPool3D": (lambda: L.MaxPool3D(2), (2, 4, 4, 4, 3)),
    "MultiHeadAttention": (lambda: L.MultiHeadAttention(4, 2, num_kv_heads=2), (2, 5, 6)),
    "Normalization": (lambda: L.Normalization(mean=[1.0, 2.0], variance=[0.5, 4.0]), (3, 2)),
    "Permute": (lambda: L.Permute((2, 1)), (2, 5, 3)),
    "RMSNormalization": (lambda: L.RMSNormalization(), (2, 5, 4)),
    "RepeatVector": (lambda: L.RepeatVector(3), (2, 5)),
    "Reshape": (lambda: L.Reshape((3, -1)), (2, 6)),
    "RotaryEmbedding": (lambda: L.RotaryEmbedding(100.0, interleaved=True), (2, 5, 4)),
    "SeparableConv1D": (lambda: L.SeparableConv1D(4, 3), (2, 5, 3)),
    "SeparableConv2D": (lambda: L.SeparableConv2D(4, 3, depth_multiplier=2), (2, 5, 6, 3)),
    "Sequential": (lambda: pb.Sequential([L.Dense(3), pb.relu, L.Dense(2)]), (2, 4)),
    "SimpleRNN": (lambda: L.SimpleRNN(3, activation="relu"), (2, 4, 3)),
    "SpatialDropout1D": (lambda: L.SpatialDropout1D(0.5, seed=3), (2, 5, 3)),
    "SpatialDropout2D": (lambda: L.SpatialDropout2D(0.5, seed=3), (2, 5, 6, 3)),
    "SpatialDropout3D": (lambda: L.SpatialDropout3D(0.5, seed=3), (2, 4, 4, 4, 3)),
    # One output, so that calls in training leave u as it is.
    "SpectralNormalization": (lambda: L.SpectralNormalization(L.Dense(1), 2), (3, 4)),
    "TimeDistributed": (lambda: L.TimeDistributed(L.Dense(3)), (2, 4, 3)),
    "WeightNormalization": (lambda: L.WeightNormalization(L.Conv1DTranspose(3, 2)), (2, 4, 3)),
    "UpSampling1D": (lambda: L.UpSampling1D(3), (2, 5, 3)),
    "UpSampling2D": (lambda: L.UpSampling2D((2, 3), "bilinear"), (2, 5, 6, 3)),
    "UpSampling3D": (lambda: L.UpSampling3D(), (2, 4, 4, 4, 3)),
    "ZeroPadding1D": (lambda: L.ZeroPadding1D((1, 2)), (2, 5, 3)),
    "ZeroPadding2D": (lambda: L.ZeroPadding2D(((1, 0), 2)), (2, 5, 6, 3)),
    "ZeroPadding3D": (lambda: L.ZeroPadding3D(1), (2, 4, 4, 4, 3)),
}
# They take a pair, and have tests of their own.
PAIRS = ("CutMix", "MixUp")
# Integers and texts, as well.
CATEGORIES = (
    "CategoryEncoding", "Hashing", "IntegerLookup", "StringLookup", "TextVectorization"
)  # fmt: skip
MERGES = ("Add", "Average", "Concatenate", "Dot", "Maximum", "Minimum", "Multiply", "Subtract")
# Bases that subclasses are made of.
BASES = {
    "AdaptivePool", "Augmentation", "Conv", "ConvLSTM", "ConvTranspose", "Cropping",
    "DepthwiseConv", "GlobalPool", "Layer", "LayerOptions", "Masked", "Merge", "Model", "Policy",
    "Pool", "Recurrent", "SeparableConv", "SpatialDropout", "UpSampling", "ZeroPadding",
    "policy", "uninitialized",
}  # fmt: skip


def again(layer):
    """Made anew, by way of JSON."""
    text = json.dumps(layer.get_config())
    made = type(layer).from_config(json.loads(text))
    assert json.dumps(made.get_config()) == text
    return made


def test_every_layer_is_tried():
    public = {name for name in L.__all__ if isinstance(getattr(L, name), type)}
    assert public - BASES == {*MADE, *MERGES, *PAIRS, *CATEGORIES}


@pytest.mark.parametrize("name", MADE)
def test_layers(name):
    make, shape = MADE[name]
    x = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    if name == "Embedding":
        x = (x > 0).astype(np.int32)
    layer = make()
    other = again(layer)
    assert type(other) is type(layer)
    y = pb.tree.leaves(layer(x, training=True))
    # Made again it has other first values of variables; with the same ones it does the same.
    other(x)
    assert list(other.named_variables) == list(layer.named_variables)
    for to, of in zip(other.variables, layer.variables, strict=True):
        assert (to.shape, to.dtype, to.trainable) == (of.shape, of.dtype, of.trainable)
        to.assign(of)
    found = pb.tree.leaves(other(x, training=True))
    for one, part in zip(found, y, strict=True):
        np.testing.assert_array_equal(one.numpy(), part.numpy())


@pytest.mark.parametrize("built", [False, True])
@pytest.mark.parametrize("name", MADE)
def test_errors_name_the_path_and_the_shape(name, built):
    make, shape = MADE[name]

    def inputs(shape):
        return np.ones(shape, np.int32 if name == "Embedding" else np.float32)

    larger = tuple(size + 1 for size in shape)
    for wrong in [(), (3,), (2, 3), (2, 3, 4), (2, *larger[1:]), (2, 3, 4, 5, 6, 7)]:
        model = pb.Sequential([make()])
        if built:
            model(inputs(shape))
        # Some layers take shapes of many kinds. No error but ours comes up.
        said = ""
        try:
            model(inputs(wrong), training=True)
        except pb.errors.PullbackError as error:
            said = str(error)
        assert not said or re.match(r"layers/0(/\w+)* \(\w+\): ", said)
        # A layer inside may say it of the steps that it gets.
        steps = (math.prod(wrong[:2]), *wrong[2:]) if name == "TimeDistributed" else wrong
        assert not said or str(wrong) in said or str(steps) in said


@pytest.mark.parametrize("name", MADE)
def test_what_is_no_tensor_is_an_error_that_names_the_layer(name):
    make, _ = MADE[name]
    for value in ("title", None, {"a": 1}, object()):
        with pytest.raises(pb.errors.PullbackError, match=r"^[\w/]+ \(\w+\)"):
            make()(value, training=True)


# What the mask of a sequence is for.
USES_MASKS = {
    "Bidirectional", "ConvLSTM1D", "ConvLSTM3D", "GlobalAveragePool1D", "GlobalMaxPool1D", "GRU",
    "LSTM", "SimpleRNN",
}  # fmt: skip


@pytest.mark.parametrize("name", MADE)
def test_no_layer_loses_a_mask(name):
    """Each takes it, hands it on and computes steps by themselves, or raises."""
    make, shape = MADE[name]
    rng = np.random.default_rng(1)
    x = rng.normal(size=shape if len(shape) > 2 else (2, 4, *shape[1:])).astype(np.float32)
    x = (x > 0).astype(np.int32) if name == "Embedding" else x
    mask, layer = pb.asarray(rng.random(x.shape[:2]) < 0.7), make()
    if name == "Lambda":
        layer = L.Lambda(lambda x: L.Masked(pb.tanh(x.values), x.mask))
    elif name == "Sequential":
        layer = pb.Sequential([L.Dense(3), L.Dense(2)])
    try:
        y = layer(L.Masked(pb.asarray(x), mask))
    except pb.errors.LayerError as error:
        said = str(error)
    else:
        said = ""
    if said:
        assert "the mask of the inputs would be lost" in said
        return
    other = x.copy()
    other[~mask.numpy()] = 1 if name == "Embedding" else 7
    changed = layer(L.Masked(pb.asarray(other), mask))
    if type(y) is L.Masked:
        assert y.mask is mask
        y, changed = (part.values[mask] for part in (y, changed))
    else:
        assert name in USES_MASKS
    np.testing.assert_allclose(changed.numpy(), y.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", MERGES)
def test_merges(name):
    layer = getattr(L, name)(*[1] * (name == "Dot"), name="here")
    x = [pb.ones((2, 3)), pb.full((2, 3), 2.0)]
    other = again(layer)
    assert other.name == "here"
    assert other(x).tolist() == layer(x).tolist()


class TestModels:
    def test_own_model(self):
        model = Residual(3, L.Dense(3), L.Activation("tanh"), scale=0.5, name="body")
        other = again(model)
        assert (other.units, other.scale, other.name) == (3, 0.5, "body")
        assert [type(one) for one in other.inner] == [L.Dense, L.Activation]
        other(pb.ones((1, 3)))
        assert next(iter(other.named_variables)) == "inner/0/kernel"

    def test_no_super_init_needed(self):
        assert again(Bare(3)).factor == 3

    def test_shared_layers_stay_shared(self):
        shared = L.Dense(3)
        model = pb.Sequential([shared, pb.Sequential([pb.relu, shared]), L.Dense(1)])
        other = again(model)
        assert other.layers[0] is other.layers[1].layers[1]
        other(pb.ones((1, 3)))
        assert len(other.variables) == 4

    def test_layers_added_later(self):
        model = pb.Sequential()
        model.add(L.Dense(2, input_shape=(3,)))
        other = again(model)
        assert other.layers[0].kernel.shape == (3, 2)

    def test_frozen_layers(self):
        model = pb.Sequential([L.Dense(2, input_shape=(3,)), L.Dense(1, trainable=False)])
        model.layers[0].trainable = False
        other = again(model)
        assert other.trainable_variables == []
        assert other.trainable

    def test_dtypes(self):
        with L.policy("mixed_bfloat16"):
            model = pb.Sequential([L.Dense(2), L.Flatten(), L.Dense(1, dtype=pb.float32)])
        other = again(model)
        kinds = [(one.dtype, one.compute_dtype) for one in other.layers]
        assert kinds == [(one.dtype, one.compute_dtype) for one in model.layers]
        assert kinds[0] == (pb.float32, pb.bfloat16)
        assert other(pb.ones((1, 3))).dtype == pb.float32

    def test_any_class_is_found_from_the_base(self):
        assert type(L.Layer.from_config(Bare(2).get_config())) is Bare


class TestArguments:
    def test_functions_by_name(self):
        layer = L.Lambda(double)
        config = json.loads(json.dumps(layer.get_config()))
        with pytest.raises(pb.errors.InputValueError, match=r"unknown op '.*double'.*custom="):
            L.Lambda.from_config(config)
        made = L.Lambda.from_config(config, custom={"double": double})
        assert made([1.0]).tolist() == [2.0]

    def test_lambdas_are_refused(self):
        model = pb.Sequential([L.Dense(1), L.Lambda(lambda x: x)])
        with pytest.raises(pb.errors.InputValueError, match=r"layers/1/function: .*cannot be in a"):
            model.get_config()

    def test_initializers_and_regularizers(self):
        layer = L.Dense(
            4, kernel_initializer=initializers.uniform(2.0, 3.0), bias_initializer=0.5,
            kernel_regularizer=regularizers.l1_l2(0.1, l2=0.2),
        )  # fmt: skip
        other = again(layer)
        other(pb.ones((1, 3)))
        kernel = other.kernel.numpy()
        assert ((kernel >= 2) & (kernel < 3)).all()
        assert other.bias.tolist() == [0.5] * 4
        expected = 0.1 * abs(kernel).sum() + 0.2 * (kernel**2).sum()
        assert other.losses[0].item() == pytest.approx(expected, rel=1e-5)

    @pytest.mark.parametrize(
        "name", [name for name in initializers.__all__ if name not in ("get", "constant")]
    )
    def test_every_initializer(self, name):
        made = getattr(initializers, name)()
        other = again(L.Dense(3, kernel_initializer=made, input_shape=(4,))).kernel_initializer
        pb.random.seed(1)
        expected = made((4, 3), pb.float32).tolist()
        pb.random.seed(1)
        assert other((4, 3), pb.float32).tolist() == expected

    @pytest.mark.parametrize(
        "schedule",
        [
            O.schedules.constant(0.1, warmup_steps=3),
            O.schedules.exponential_decay(0.1, 3, 0.5),
            O.schedules.step_decay(0.1, 3, 0.5),
            O.schedules.polynomial_decay(0.1, 9, power=2),
            O.schedules.cosine_decay(0.1, 9, warmup_steps=3),
            O.schedules.cosine_restarts(0.1, 3, t_mul=2.0),
            O.schedules.inverse_root_decay(0.1, 4),
            O.schedules.piecewise_constant([2, 4], [0.1, 0.2, 0.3]),
        ],
        ids=lambda one: one.recipe[0].rpartition(".")[2],
    )
    def test_every_schedule(self, schedule):
        other = again(O.SGD(schedule)).schedule
        assert [other(step) for step in range(12)] == [schedule(step) for step in range(12)]

    def test_generators_go_on_from_their_state(self):
        generator = pb.Generator(4)
        layer = L.Dropout(0.5, generator=generator)
        x = pb.ones((40,))
        layer(x, training=True)
        other = again(layer)
        assert other(x, training=True).tolist() == layer(x, training=True).tolist()

    def test_another_class(self):
        with pytest.raises(pb.errors.InputValueError, match="of a Conv2D, got that of a Dense"):
            L.Conv2D.from_config(L.Dense(1).get_config())

    def test_unknown_classes_are_not_imported(self):
        with pytest.raises(pb.errors.InputValueError, match=r"unknown class 'subprocess.Popen'"):
            L.Layer.from_config({"class": "subprocess.Popen", "args": ["true"]})
        with pytest.raises(pb.errors.InputValueError, match="is not a configuration"):
            L.Layer.from_config({"units": 3})


@pytest.mark.parametrize(
    "optimizer",
    [
        O.SGD(0.1, 0.9, nesterov=True, clip_norm=1.0),
        O.Adam(O.schedules.cosine_decay(0.1, 100, warmup_steps=10), amsgrad=True, ema_decay=0.9),
        O.AdamW(pb.Variable(0.5), weight_decay=0.1, accumulate_steps=4),
        O.LAMB(O.schedules.piecewise_constant([3], [0.1, 0.2]), decoupled_weight_decay=0.1),
        O.Adafactor(),
        O.LossScale(O.RMSprop(0.5), 8.0, growth_steps=3),
    ],
    ids=lambda one: type(one).__name__,
)
def test_optimizers(optimizer):
    other = again(optimizer)
    values = []
    for one in (optimizer, other):
        v = pb.Variable([1.0, 2.0])
        for _ in range(8):
            one.apply_gradients([(pb.asarray([0.5, -3.0]), v)])
        values.append(v.tolist())
    assert values[0] == values[1]


def test_rate_that_was_set_since():
    optimizer = O.SGD(0.1)
    optimizer.learning_rate = 0.5
    assert again(optimizer).learning_rate == 0.5


# Variables before the first call ------------------------------------------------------------------


@pytest.mark.parametrize("name", MADE)
def test_a_layer_is_built_before_its_first_call(name):
    make, shape = MADE[name]
    pb.random.seed(7)
    called = make()
    dtype = "int32" if name == "Embedding" else "float32"
    called(pb.zeros(shape, dtype=dtype))
    for sizes in (shape, (None, *shape[1:])):
        pb.random.seed(7)
        layer = make()
        layer.build(sizes)
        values = {path: one.numpy() for path, one in layer.named_variables.items()}
        assert sorted(values) == sorted(called.named_variables)
        for path, value in values.items():
            np.testing.assert_array_equal(value, called.named_variables[path].numpy())
        layer.build(sizes)
        layer(pb.zeros(shape, dtype=dtype))
        for path, variable in layer.named_variables.items():
            np.testing.assert_array_equal(variable.numpy(), values[path])


class Nested(pb.Model):
    """Its `build` builds one part, and leaves the other to the call."""

    def __init__(self, *parts):
        super().__init__()
        self.parts = [*parts]
        self.last = L.Dense(2)

    def build(self, input_shape):
        self.parts[0].build(input_shape)
        self.factor = self.add_variable("factor", ())

    def call(self, x):
        for part in self.parts:
            x = part(x)
        return self.last(x) * self.factor


@pytest.mark.parametrize("before", [True, False])
def test_parts_that_a_build_builds(before):
    model = Nested(Nested(L.Dense(3)), pb.Sequential([L.Dense(4), L.LayerNormalization()]))
    if before:
        model.build((None, 5))
        assert model.parameter_count == (18 + 8 + 1) + (12 + 8) + 10 + 1
    assert model(pb.zeros((2, 5))).shape == (2, 2)
    assert all(part.built for part in (model, *model.sublayers.values()))


def test_a_structure_of_shapes():
    class Two(pb.Model):
        def __init__(self):
            super().__init__()
            self.rows, self.words = L.Dense(3), L.Dense(3)

        def call(self, x):
            return self.rows(x["rows"]) + self.words(x["pair"][1])

    model = Two()
    model.build({"rows": (None, 2), "pair": [(None, 1), (None, 4)]})
    assert model.parameter_count == 9 + 15


@pytest.mark.parametrize("added", [False, True])
def test_an_input_before_the_first_layer(added):
    parts = [pb.Input((None,), dtype="int32"), L.Embedding(10, 3), L.LSTM(4), L.Dense(1)]
    model = pb.Sequential() if added else pb.Sequential(parts)
    for part in parts if added else ():
        model.add(part)
    assert (len(model), model.parameter_count) == (3, 30 + 128 + 5)
    assert model(pb.zeros((2, 7), dtype="int32")).shape == (2, 1)
    sized = pb.Sequential([pb.Input((4,)), L.Dense(2)])
    assert again(sized).parameter_count == sized.parameter_count == 10
    for wrong in ([L.Dense(2), pb.Input((4,))], [pb.Input((4,)) * 2, L.Dense(2)]):
        with pytest.raises(pb.errors.InputTypeError, match=r"a pb\.Input before the first"):
            pb.Sequential(wrong)


def test_a_shape_that_the_layers_do_not_fit():
    model = pb.Sequential([L.Embedding(4, 3), L.Conv2D(3, 3)])
    with pytest.raises(pb.errors.LayerError, match=r"layers/1 \(Conv2D\): inputs must have 4 axes"):
        model.build((None, 4))
