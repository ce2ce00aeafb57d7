"""Attributes that layers of the framework read when they are called are compared."""

import inspect
import re

import numpy as np
import pytest

import pullback as pb

L = pb.layers

LAYERS = {
    "Dense": (lambda: L.Dense(3, activation="relu"), (2, 4)),
    "Embedding": (lambda: L.Embedding(5, 3), (2, 4)),
    "Rescaling": (lambda: L.Rescaling(0.5), (2, 4)),
    "Lambda": (lambda: L.Lambda(lambda x: x * 2), (2, 4)),
    "Activation": (lambda: L.Activation("tanh"), (2, 4)),
    "LeakyReLU": (L.LeakyReLU, (2, 4)),
    "Softmax": (L.Softmax, (2, 4)),
    "Conv2D": (lambda: L.Conv2D(2, 2), (2, 4, 4, 3)),
    "LayerNormalization": (L.LayerNormalization, (2, 4)),
    "GroupNormalization": (lambda: L.GroupNormalization(2), (2, 4, 4)),
    "BatchNormalization": (L.BatchNormalization, (2, 4)),
    "MaxPool2D": (lambda: L.MaxPool2D(2), (2, 4, 4, 3)),
    "Dropout": (lambda: L.Dropout(0.5), (2, 4)),
    "Flatten": (L.Flatten, (2, 4, 4)),
    "Reshape": (lambda: L.Reshape((2, 2)), (2, 4)),
    "ZeroPadding2D": (lambda: L.ZeroPadding2D(1), (2, 4, 4, 3)),
    "UpSampling2D": (lambda: L.UpSampling2D(2), (2, 4, 4, 3)),
    "LSTM": (lambda: L.LSTM(3), (2, 4, 3)),
    "Bidirectional": (lambda: L.Bidirectional(L.LSTM(3)), (2, 4, 3)),
    "Conv1D": (lambda: L.Conv1D(2, 2, padding="causal"), (2, 4, 3)),
    "Conv2DTranspose": (lambda: L.Conv2DTranspose(2, 2), (2, 4, 4, 3)),
    "DepthwiseConv2D": (lambda: L.DepthwiseConv2D(2), (2, 4, 4, 3)),
    "SeparableConv2D": (lambda: L.SeparableConv2D(2, 2), (2, 4, 4, 3)),
    "MultiHeadAttention": (lambda: L.MultiHeadAttention(2, 2), (2, 4, 4)),
    "GRU": (lambda: L.GRU(3, return_sequences=True), (2, 4, 3)),
    "SimpleRNN": (lambda: L.SimpleRNN(3), (2, 4, 3)),
    "SpatialDropout2D": (lambda: L.SpatialDropout2D(0.5), (2, 4, 4, 3)),
    "GlobalMaxPool2D": (L.GlobalMaxPool2D, (2, 4, 4, 3)),
    "AdaptiveMaxPool2D": (lambda: L.AdaptiveMaxPool2D(2), (2, 4, 4, 3)),
    "Cropping2D": (lambda: L.Cropping2D(1), (2, 4, 4, 3)),
    "Normalization": (lambda: L.Normalization(mean=0.5, variance=2.0), (2, 4)),
    "Discretization": (lambda: L.Discretization([0.5]), (2, 4)),
    "RandomFlip": (L.RandomFlip, (2, 4, 4, 3)),
    "RandomCrop": (lambda: L.RandomCrop(2, 2, padding=1), (2, 4, 4, 3)),
    "RandomZoom": (lambda: L.RandomZoom(0.5), (2, 4, 4, 3)),
    "RandomContrast": (lambda: L.RandomContrast(0.5), (2, 4, 4, 3)),
    "Sequential": (lambda: pb.Sequential([L.Dense(2)]), (2, 4)),
}


class Subclass(L.Dense):
    def call(self, x):
        return super().call(x) * 1


LAYERS["a subclass"] = lambda: Subclass(3, activation="relu"), (2, 4)


@pytest.mark.parametrize("name", LAYERS)
def test_each_attribute_that_a_call_reads_is_compared(name):
    """Another object in the place of any of them, and no program is for the call."""
    make, shape = LAYERS[name]
    layer = make()
    x = pb.asarray(np.ones(shape, np.int32 if name == "Embedding" else np.float32))
    captured = pb.function(lambda x: layer(x))
    for _ in range(3):
        captured(x)
    (program,) = captured._all()
    assert not program.unmet()
    kind = L.Dense if type(layer) is Subclass else type(layer)
    read = {*re.findall(r"\bself\.(\w+)", inspect.getsource(kind.call))} & {*vars(layer)}
    assert read or name == "Flatten"
    for attribute in read:
        before = vars(layer)[attribute]
        vars(layer)[attribute] = object()
        assert any(attribute in guard.what for guard in program.unmet()), attribute
        vars(layer)[attribute] = before
    assert not program.unmet()


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", LAYERS)
def test_an_attribute_that_matters_to_a_layer_is_compared(name, training):
    """Wherever below `call` it is read: a call without it fails, or gives something else."""
    make, shape = LAYERS[name]
    layer = make()
    x = pb.asarray(np.ones(shape, np.int32 if name == "Embedding" else np.float32))
    captured = pb.function(lambda x: layer(x, training=training))
    for _ in range(3):
        captured(x)
    (program,) = captured._all()
    for attribute in [name for name in vars(layer) if not name.startswith("_")]:
        before = {**vars(layer)}
        vars(layer)[attribute] = object()
        try:
            layer(x, training=training)
        except Exception:
            assert program.unmet(), attribute
        vars(layer).update(before)
    assert not program.unmet()


def test_each_item_of_a_list_that_a_call_reads_is_compared():
    model = pb.Sequential([L.Dense(2), L.Dense(2)])
    captured = pb.function(model)
    for _ in range(3):
        captured(pb.ones((1, 2)))
    model.layers[1] = L.Dense(2)
    assert captured(pb.ones((1, 2))).tolist() == model(pb.ones((1, 2))).tolist()


class Owner(L.Layer):
    """A layer that holds layers and variables in all ways."""

    def __init__(self):
        super().__init__()
        self.body, self.head = L.Dense(2), L.Dense(1)
        self.parts = [L.Dense(2), {"a": L.Dense(2)}]
        self.chain = pb.Sequential([L.Dense(2)])
        self.scale = pb.Variable(1.0)

    def call(self, x):
        return self.head(self.chain(self.body(self.parts[0](self.parts[1]["a"](x))))) * self.scale


def held():
    """A layer of its own with a variable."""
    return L.Dense(3, input_shape=(2,))


CHANGES = {
    "an attribute": lambda m: setattr(m, "scale", pb.Variable(5.0)),
    "a new attribute": lambda m: setattr(m, "more", pb.Variable(5.0)),
    "an attribute less": lambda m: delattr(m, "scale"),
    "a layer": lambda m: setattr(m, "head", held()),
    "a layer of a list": lambda m: m.parts.__setitem__(0, held()),
    "a layer more in a list": lambda m: m.parts.append(held()),
    "a layer of a dict": lambda m: m.parts[1].update(a=held()),
    "a layer more in a dict": lambda m: m.parts[1].update(b=held()),
    "a layer in Sequential": lambda m: m.chain.layers.append(held()),
    "a variable of a layer": lambda m: setattr(m.body, "bias", pb.Variable([7.0, 7.0])),
    "a list": lambda m: setattr(m, "more", [pb.Variable(5.0)]),
    "a frozen variable": lambda m: setattr(m.scale, "trainable", False),
    "a frozen layer": lambda m: setattr(m.body, "trainable", False),
    "a frozen model": lambda m: setattr(m, "trainable", False),
}
READS = {
    "variables": lambda m: m.variables,
    "trainable": lambda m: m.trainable_variables,
    "named": lambda m: [*pb.state.named_variables([m]).values()],
    "one by one": lambda m: [v for v in m.variables if v.trainable],
}


@pytest.mark.parametrize("calls", [False, True], ids=["", "called"])
@pytest.mark.parametrize("reads", READS.values(), ids=READS)
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_a_model_holds_is_compared_where_its_variables_are_read(change, reads, calls):
    model = Owner()
    x = pb.ones((1, 2))
    model(x)
    plain = pb.ones(())

    def f(x):
        if calls and hasattr(model, "scale"):
            x = model.body(x)
        return sum([pb.sum(v * v) for v in reads(model)], plain), pb.sum(x)

    captured = pb.function(f)
    for _ in range(4):
        captured(x)
    change(model)
    for _ in range(3):
        assert [y.tolist() for y in captured(x)] == [y.tolist() for y in f(x)]
