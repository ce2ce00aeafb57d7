"""Captured training steps: the bits of eager ones, over twenty steps."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback.graph.graph import check
from pullback.graph.passes.simplify import simplify

L, O = pb.layers, pb.optimizers  # noqa: E741
RNG = np.random.default_rng(3)
ROWS = RNG.standard_normal((8, 5), np.float32)
IMAGES = RNG.standard_normal((4, 8, 8, 2), np.float32)
SEQUENCES = RNG.standard_normal((4, 5, 3), np.float32)


def mlp():
    return pb.Sequential([L.Dense(16, activation="relu"), L.Dropout(0.3), L.Dense(3)])


def cnn():
    return pb.Sequential(
        [
            L.Conv2D(4, 3, padding="same"), L.BatchNormalization(), L.ReLU(), L.MaxPool2D(2),
            L.Flatten(), L.Dense(3, kernel_regularizer="l2"),
        ]
    )  # fmt: skip


def lstm():
    return pb.Sequential([L.LSTM(6), L.Dense(3)])


class Attention(pb.Model):
    """Self-attention with dropout, and a residual connection around it."""

    def __init__(self):
        super().__init__()
        self.attention = L.MultiHeadAttention(2, 4, dropout=0.2)
        self.norm, self.dropout, self.head = L.LayerNormalization(), L.Dropout(0.1), L.Dense(3)

    def call(self, x):
        y = self.norm(x + self.dropout(self.attention(x)))
        return self.head(pb.mean(y, axis=1))


def trained(make, optimizer, inputs, captured, steps=20):
    """Everything that twenty steps leave, and the step."""
    pb.random.seed(5)
    model, optimizer, metric = make(), optimizer(), pb.metrics.Mean("loss")
    x, y = pb.asarray(inputs), pb.asarray(np.arange(len(inputs)) % 3)

    def step(x, y):
        with pb.GradientTape() as tape:
            loss = pb.losses.sparse_softmax_cross_entropy(y, model(x, training=True))
            loss = loss + sum(model.losses, pb.zeros(()))
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        metric(loss)
        return {"loss": loss, "norm": pb.sqrt(pb.sum(loss * loss))}

    step = pb.function(step) if captured else step
    results = []
    for _ in range(steps):
        results += [value.numpy().tobytes() for value in step(x, y).values()]
    results += [v.numpy().tobytes() for v in (*model.variables, *optimizer.variables)]
    results += [optimizer.step, metric.result(), pb.random.default_generator.state]
    return results, step


@pytest.mark.parametrize(
    ("make", "optimizer", "inputs"),
    [
        (mlp, O.Adam, ROWS),
        (cnn, lambda: O.SGD(0.1, 0.9), IMAGES),
        (lstm, O.Adam, SEQUENCES),
        (Attention, lambda: O.AdamW(0.01, weight_decay=0.1), SEQUENCES),
    ],
    ids=["mlp", "cnn", "lstm", "attention"],
)
def test_captured_steps_have_the_bits_of_eager_ones(make, optimizer, inputs):
    expected, _ = trained(make, optimizer, inputs, captured=False)
    found, step = trained(make, optimizer, inputs, captured=True)
    assert found == expected
    (program,) = step._all()
    check(program.graph)
    assert len(simplify(program.graph).calls) == len(program.graph.calls)


OPTIMIZERS = {
    "schedule": lambda: O.AdamW(lambda step: 0.1 / (step + 1), weight_decay=0.1),
    "averages": lambda: O.SGD(0.1, 0.9, ema_decay=0.9, clip_global_norm=1.0),
    "accumulated": lambda: O.SGD(0.1, 0.9, accumulate_steps=3),
    "decay": lambda: O.SGD(lambda step: 0.1 / (step + 1), decoupled_weight_decay=0.1),
    "scales": lambda: O.Nadam(0.1, rate_scale=lambda v: 0.5 if v.ndim < 2 else 1.0),
    "Adafactor": O.Adafactor,
    "LAMB": O.LAMB,
    "Adagrad": O.Adagrad,
    "Adadelta": O.Adadelta,
    "RMSprop": lambda: O.RMSprop(momentum=0.5, centered=True),
    "AMSGrad": lambda: O.Adam(amsgrad=True),
    "variable": lambda: O.SGD(pb.Variable(0.1)),
}


@pytest.mark.parametrize("optimizer", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_captured_steps_of_every_optimizer(optimizer):
    expected, _ = trained(mlp, optimizer, ROWS, captured=False, steps=8)
    found, step = trained(mlp, optimizer, ROWS, captured=True, steps=8)
    assert found == expected
    assert step._all()


def test_mixed_precision_and_other_dtypes():
    with L.policy("mixed_bfloat16"):
        expected, _ = trained(mlp, O.Adam, ROWS, captured=False)
        found, _ = trained(mlp, O.Adam, ROWS, captured=True)
    assert found == expected
    with L.policy("float64"):
        expected, _ = trained(mlp, lambda: O.SGD(0.1, 0.9), ROWS, captured=False)
        found, _ = trained(mlp, lambda: O.SGD(0.1, 0.9), ROWS, captured=True)
    assert found == expected


def test_second_order_and_custom_gradients_inside():
    v = pb.Variable(2.0)

    @pb.custom_gradient
    def doubled(x):
        return pb.exp(x) * v, lambda g, variables: (g * 2 * x, [g.sum()])

    def step(x):
        with pb.GradientTape() as outer:
            outer.watch(x)
            with pb.GradientTape(persistent=True) as inner:
                inner.watch(x)
                y = pb.sin(x) * x * v
                z = doubled(x)
            first = inner.gradient(y, x)
            other = inner.gradient(z, [x, v])
        return outer.gradient(first, [x, v]), other, pb.hessian(lambda x: (x**3).sum())(x)

    captured, x = pb.function(step), pb.asarray([0.3, 2.0])
    for _ in range(4):
        found, expected = captured(x), step(x)
        for one, other in zip(found[0] + found[1], expected[0] + expected[1], strict=True):
            assert one.numpy().tobytes() == other.numpy().tobytes()
        assert found[2].numpy().tobytes() == expected[2].numpy().tobytes()
        v.assign_add(0.5)


def test_a_generator_of_its_own_and_shared_ones():
    first, second = pb.Generator(7), pb.Generator(7)

    def step(x):
        a = first.normal((3,)) + second.uniform((3,), -1, 1)
        return first.dropout(x, 0.5), a, second.integers((2,), 9), first.bernoulli((3,), 0.3)

    captured = pb.function(step)
    results = [[r.tolist() for r in captured(pb.ones(5))] for _ in range(5)]
    first.state = second.state = (7, 0)
    assert results == [[r.tolist() for r in step(pb.ones(5))] for _ in range(5)]
    # The streams need not stay alike.
    second.state = (9, 4)
    before = first.state, second.state
    found = [r.tolist() for r in captured(pb.ones(5))]
    first.state, second.state = before
    assert found == [r.tolist() for r in step(pb.ones(5))]
