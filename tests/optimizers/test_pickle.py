"""Pickled and copied models, optimizers, tensors and variables, which go on as the original."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback as pb

X = np.linspace(-1, 1, 32, dtype=np.float32).reshape(8, 4)
Y = X[:, :1] * 2 - 1


def pickled(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


COPIES = pytest.mark.parametrize("duplicate", [pickled, copy.deepcopy])
Duplicate = Callable[[Any], Any]


def network() -> Any:
    model = pb.Sequential(
        [
            pb.layers.Dense(3, activation="relu"),
            pb.layers.BatchNormalization(),
            pb.layers.Dropout(0.5, generator=pb.Generator(3)),
            pb.layers.Dense(1),
        ]
    )
    model(X)
    return model


def step(model: Any, optimizer: Any) -> float:
    with pb.GradientTape() as tape:
        loss = pb.mean((model(X, training=True) - Y) ** 2)
    variables = model.trainable_variables
    optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
    return float(loss)


@COPIES
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "bfloat16", "float32", "complex64"])
def test_tensors(duplicate: Duplicate, dtype: str) -> None:
    x = pb.ones((2, 3), dtype=dtype, device="cpu:0")
    y = duplicate(x)
    assert (y.dtype, y.tolist(), y.device) == (x.dtype, x.tolist(), x.device)
    # Dispatch compares dtypes by identity.
    assert y._array.dtype is x._array.dtype
    part = duplicate(x[0])
    part[0] = False
    assert x.tolist() == y.tolist()


@COPIES
def test_variables(duplicate: Duplicate) -> None:
    v = pb.Variable([1.0, 2.0], name="v", trainable=True)
    v.frozen = True
    w = duplicate(v)
    assert (w.name, w.trainable, w.frozen, w.tolist()) == ("v", False, True, [1, 2])
    assert w._array.dtype is v._array.dtype
    w.assign([3.0, 4.0])
    assert v.tolist() == [1, 2]
    both = duplicate([v, v])
    assert both[0] is both[1]


@COPIES
def test_a_layer_of_mixed_precision(duplicate: Duplicate) -> None:
    with pb.layers.policy("mixed_bfloat16"):
        layer = pb.layers.Dense(2, input_shape=(4,))
    other = duplicate(layer)
    assert type(other.kernel) is type(layer.kernel)
    assert other(X).dtype == "bfloat16"
    assert other(X).tolist() == layer(X).tolist()


@COPIES
@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop"])
def test_training_goes_on(duplicate: Duplicate, name: str) -> None:
    given = {"momentum": 0.9} if name == "SGD" else {}
    model, optimizer = network(), getattr(pb.optimizers, name)(0.01, **given)
    for _ in range(3):
        step(model, optimizer)
    other, twin = duplicate((model, optimizer))
    assert twin.step == 3
    mine = [(v.name, slot.tolist()) for v, _, slot in optimizer.slot_variables()]
    theirs = [(v.name, slot.tolist()) for v, _, slot in twin.slot_variables()]
    assert mine == theirs
    assert mine
    for _ in range(3):
        assert step(model, optimizer) == step(other, twin)


@COPIES
def test_what_is_excluded_from_weight_decay(duplicate: Duplicate) -> None:
    model = network()
    excluded = [v for v in model.variables if v.name == "bias"]
    optimizer = pb.optimizers.AdamW(0.01, weight_decay=0.5, no_decay=excluded)
    step(model, optimizer)
    other, twin = duplicate((model, optimizer))
    for _ in range(2):
        assert step(model, optimizer) == step(other, twin)
    for a, b in zip(model.variables, other.variables, strict=True):
        assert a.tolist() == b.tolist()


@COPIES
def test_a_compiled_model(duplicate: Duplicate) -> None:
    model = network()
    model.compile("adam", "mean_squared_error", metrics=["mean_absolute_error"])
    model.fit(X, Y, epochs=2, verbose=False, shuffle=False)
    other = duplicate(model)
    assert other.evaluate(X, Y, verbose=False) == model.evaluate(X, Y, verbose=False)
    again = [m.fit(X, Y, verbose=False, shuffle=False).history for m in (model, other)]
    assert again[0] == again[1]


@COPIES
@pytest.mark.parametrize(
    "layer",
    [
        lambda: pb.layers.LSTM(3),
        lambda: pb.layers.MultiHeadAttention(2, 2),
        lambda: pb.layers.Dense(3, kernel_initializer=pb.layers.initializers.he_normal()),
    ],
)
def test_layers_before_and_after_their_first_call(
    duplicate: Duplicate, layer: Callable[[], Any]
) -> None:
    made = layer()
    x = X.reshape(2, 4, 4)
    unbuilt = duplicate(made)
    assert not unbuilt.variables
    unbuilt(x)
    y = made(x)
    assert duplicate(made)(x).tolist() == y.tolist()


def test_schedules_initializers_and_regularizers() -> None:
    schedule = pb.optimizers.schedules.cosine_decay(0.1, 10)
    optimizer = pickled(pb.optimizers.Adam(schedule))
    assert optimizer.schedule(3) == schedule(3)
    assert copy.deepcopy(schedule) is schedule
    penalty = pickled(pb.layers.regularizers.l2(0.5))
    assert penalty(pb.Variable([1.0, -2.0])).item() == 2.5
    made = pickled(pb.layers.initializers.constant(3.0))
    assert made((2,), pb.float32).tolist() == [3.0, 3.0]


def test_a_model_in_a_process_that_has_imported_nothing() -> None:
    model = network()
    call = f"pickle.load(sys.stdin.buffer)({X.tolist()!r}).tolist()"
    text = f"import pickle, sys; print({call})"
    found = subprocess.run(
        [sys.executable, "-c", text], input=pickle.dumps(model), capture_output=True, check=True
    )
    assert found.stdout.decode().strip() == repr(model(X.tolist()).tolist())
