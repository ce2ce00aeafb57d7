"""Sequential as a list, usual names of arguments, and layers of one op."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

import pullback as pb

L = pb.layers


def test_sequential_is_like_a_list() -> None:
    first, second = L.Dense(4), L.Dense(2)
    model = pb.Sequential([first, pb.relu, second])
    assert len(model) == 3
    assert model[0] is first
    assert model[-1] is second
    assert [*model] == [first, pb.relu, second]
    assert second in model
    part = model[:2]
    assert isinstance(part, pb.Sequential)
    x = pb.ones((1, 3))
    model(x)
    assert part(x).tolist() == pb.relu(first(x)).tolist()
    assert list(part.named_variables) == ["layers/0/kernel", "layers/0/bias"]
    assert bool(pb.Sequential())


def test_sequential_of_a_sequential_copies_the_list() -> None:
    model = pb.Sequential([L.Dense(2), L.Dense(3)])
    assert [*pb.Sequential(model)] == [*model]


def test_sequential_of_one_layer_says_what_to_write() -> None:
    with pytest.raises(pb.errors.InputTypeError, match=r"write pb.Sequential\(\[...\]\)"):
        pb.Sequential(L.Dense(3))  # type: ignore[arg-type]


def test_sequential_shows_its_layers() -> None:
    model = pb.Sequential([L.Dense(1000, input_shape=(3,)), pb.relu])
    assert repr(model) == "<Sequential 'sequential', 4,000 parameters: [Dense, relu]>"


@pytest.mark.parametrize("name", ["l1", "l2", "l1_l2"])
def test_regularizers_by_name(name: str) -> None:
    layer = L.Dense(2, kernel_regularizer=name)
    layer(pb.ones((1, 3)))
    expected = getattr(L.regularizers, name)()(layer.kernel)
    assert [loss.item() for loss in layer.losses] == [expected.item()]


def test_wrong_regularizers_name_the_layer() -> None:
    x = pb.ones((1, 3))
    with pytest.raises(pb.errors.InputValueError, match=r"dense \(Dense\): unknown regularizer"):
        L.Dense(2, kernel_regularizer="l3")(x)
    with pytest.raises(pb.errors.InputTypeError, match=r"write pb.layers.regularizers.l2\(0.01\)"):
        L.Dense(2, kernel_regularizer=0.01)(x)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("usual", "own"),
    [
        ("kaiming_uniform", "he_uniform"),
        ("kaiming_normal", "he_normal"),
        ("xavier_uniform", "glorot_uniform"),
        ("xavier_normal", "glorot_normal"),
    ],
)
def test_initializers_by_usual_names(usual: str, own: str) -> None:
    made = []
    for name in (usual, own):
        pb.random.seed(1)
        made.append(L.initializers.get(name)((3, 2), pb.float32).tolist())
    assert made[0] == made[1]


@pytest.mark.parametrize(
    ("usual", "own"),
    [("swish", "silu"), ("hardswish", "hard_silu"), ("hardtanh", "hard_tanh")],
)
def test_activations_by_usual_names(usual: str, own: str) -> None:
    x = pb.asarray([-2.0, 0.5, 3.0])
    assert L.Activation(usual)(x).tolist() == getattr(pb, own)(x).tolist()


def test_an_unknown_activation_suggests_one() -> None:
    with pytest.raises(pb.errors.InputValueError, match="did you mean 'sigmoid'"):
        L.Dense(2, "sigmoyd")


def test_layers_of_one_op() -> None:
    x = pb.asarray([[-2.0, 0.5, 3.0]])
    assert L.ReLU()(x).tolist() == pb.relu(x).tolist()
    assert L.LeakyReLU(0.3)(x).tolist() == pb.leaky_relu(x, negative_slope=0.3).tolist()
    assert L.Softmax()(x).tolist() == pb.softmax(x).tolist()
    scaled = L.Rescaling(1 / 127.5, -1)(np.asarray([0, 255], "uint8"))
    assert scaled.tolist() == [-1.0, 1.0]


def test_batch_normalization_follows_the_batches_in_a_short_training() -> None:
    layer = L.BatchNormalization()
    assert layer.momentum == 0.9
    x = np.random.default_rng(0).normal(5, 2, (64, 3)).astype("float32")
    for _ in range(50):
        layer(x, training=True)
    assert np.abs(layer(x).numpy().mean()) < 0.05


def test_a_model_whose_class_was_made_by_exec_has_its_variables() -> None:
    source = """
class Net(pb.Model):
    def __init__(self):
        super().__init__()
        self.body = [pb.layers.Dense(3)]
    def call(self, x):
        return self.body[0](x)
"""
    names: dict[str, Any] = {"pb": pb}  # no __name__: the class is of the module "builtins"
    exec(source, names)
    net = names["Net"]()
    net(pb.ones((1, 2)))
    assert type(net).__module__ == "builtins"
    assert net.parameter_count == 9


@pytest.mark.parametrize("nested", [False, True])
def test_an_error_about_what_is_in_the_inputs_stays_that(nested: bool) -> None:
    x = pb.ones((2, 3))
    for part, inputs, kind in (
        (operator.itemgetter("zz"), {"a": x}, KeyError),
        (operator.itemgetter(2), [x, x], IndexError),
    ):
        model = pb.Sequential([pb.Sequential([part]) if nested else part])
        with pytest.raises(kind) as raised:
            model(inputs)
        assert "called with" in "".join(raised.value.__notes__)


@pytest.mark.parametrize("wrong", [object(), None, {1, 2}, "text", [["text"]]])
def test_inputs_of_another_kind_are_named(wrong: Any) -> None:
    for make in (lambda: L.Embedding(3, 2), lambda: L.LSTM(2)):
        for layer in (make(), pb.Sequential([make()])):
            with pytest.raises(pb.errors.InputTypeError, match="takes tensors or arrays of number"):
                layer(wrong)
