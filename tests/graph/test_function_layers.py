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


def test_each_item_of_a_list_that_a_call_reads_is_compared():
    model = pb.Sequential([L.Dense(2), L.Dense(2)])
    captured = pb.function(model)
    for _ in range(3):
        captured(pb.ones((1, 2)))
    model.layers[1] = L.Dense(2)
    assert captured(pb.ones((1, 2))).tolist() == model(pb.ones((1, 2))).tolist()
