"""Optimizers against their papers' formulas, written anew; steps, slots, schedules, restoring."""

from __future__ import annotations

import gc
import runpy
from pathlib import Path

import numpy as np
import pytest

import pullback as pb

REFERENCE = Path(__file__).parents[2] / "tests" / "reference"
PROBLEM = runpy.run_path(str(REFERENCE / "problem.py"))
SHAPE, START, GRADIENTS = (PROBLEM[name] for name in ("SHAPE", "START", "GRADIENTS"))
#: Where PyTorch's optimizers come to; `tests/reference/make_optimizers.py` made them.
PYTORCH = np.load(REFERENCE / "optimizers.npz")


def sgd(lr=0.1, decay=0.0):
    p = START.copy()
    for g in GRADIENTS:
        p -= lr * (g + decay * p)
    return p


def momentum(lr=0.1, mu=0.9, nesterov=False, decay=0.0):
    p, v = START.copy(), np.zeros(SHAPE)
    for g in GRADIENTS:
        g = g + decay * p
        v = mu * v + g
        p = p - lr * (g + mu * v if nesterov else v)
    return p


def adam(lr=0.01, b1=0.9, b2=0.999, eps=1e-8, decay=0.0, amsgrad=False):
    p, m, v, largest = START.copy(), np.zeros(SHAPE), np.zeros(SHAPE), np.zeros(SHAPE)
    for t, g in enumerate(GRADIENTS, 1):
        p = p - lr * decay * p
        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * g**2
        largest = np.maximum(largest, v)
        first = m / (1 - b1**t)
        second = (largest if amsgrad else v) / (1 - b2**t)
        p = p - lr * first / (np.sqrt(second) + eps)
    return p


def nadam(lr=0.01, b1=0.9, b2=0.999, eps=1e-8, decay=0.004):
    p, m, v, product = START.copy(), np.zeros(SHAPE), np.zeros(SHAPE), 1.0
    for t, g in enumerate(GRADIENTS, 1):
        now, later = (b1 * (1 - 0.5 * 0.96 ** (i * decay)) for i in (t, t + 1))
        product *= now
        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * g**2
        first = later * m / (1 - product * later) + (1 - now) * g / (1 - product)
        p = p - lr * first / (np.sqrt(v / (1 - b2**t)) + eps)
    return p


def lamb(lr=0.01, b1=0.9, b2=0.999, eps=1e-6, decay=0.0):
    p, m, v = START.copy(), np.zeros(SHAPE), np.zeros(SHAPE)
    for t, g in enumerate(GRADIENTS, 1):
        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * g**2
        r = (m / (1 - b1**t)) / (np.sqrt(v / (1 - b2**t)) + eps) + decay * p
        p = p - lr * np.linalg.norm(p) / np.linalg.norm(r) * r
    return p


def adafactor(lr=0.05, c=0.8, eps1=1e-30, eps2=1e-3, d=1.0):
    p, rows, columns = START.copy(), np.zeros((SHAPE[0], 1)), np.zeros((1, SHAPE[1]))
    for t, g in enumerate(GRADIENTS, 1):
        beta = 1 - t**-c
        rows = beta * rows + (1 - beta) * (g**2 + eps1).sum(1, keepdims=True)
        columns = beta * columns + (1 - beta) * (g**2 + eps1).sum(0, keepdims=True)
        u = g / np.sqrt(rows * columns / rows.sum())
        u = u / max(1, np.sqrt((u**2).mean()) / d)
        p = p - max(eps2, np.sqrt((p**2).mean())) * min(lr, 1 / np.sqrt(t)) * u
    return p


def decoupled(step, lr, decay):
    """Repeats `step` on a parameter, each time after weight decay."""
    p = START.copy()
    for g in GRADIENTS:
        p = step(p * (1 - lr * decay), g)
    return p


def adamax(lr=0.01, b1=0.9, b2=0.999, eps=1e-8):
    p, m, u = START.copy(), np.zeros(SHAPE), np.zeros(SHAPE)
    for t, g in enumerate(GRADIENTS, 1):
        m = b1 * m + (1 - b1) * g
        u = np.maximum(b2 * u, abs(g))
        p = p - lr / (1 - b1**t) * m / (u + eps)
    return p


def lion(lr=0.01, b1=0.9, b2=0.99, decay=0.0):
    p, m = START.copy(), np.zeros(SHAPE)
    for g in GRADIENTS:
        p = p - lr * (np.sign(b1 * m + (1 - b1) * g) + decay * p)
        m = b2 * m + (1 - b2) * g
    return p


def rmsprop(lr=0.01, rho=0.9, eps=1e-8, mu=0.0, centered=False):
    p, s, m, v = START.copy(), np.zeros(SHAPE), np.zeros(SHAPE), np.zeros(SHAPE)
    for g in GRADIENTS:
        s = rho * s + (1 - rho) * g**2
        m = rho * m + (1 - rho) * g
        v = mu * v + g / (np.sqrt(s - m**2 if centered else s) + eps)
        p = p - lr * v
    return p


def adagrad(lr=0.1, eps=1e-10):
    p, s = START.copy(), np.zeros(SHAPE)
    for g in GRADIENTS:
        s = s + g**2
        p = p - lr * g / (np.sqrt(s) + eps)
    return p


def adadelta(lr=1.0, rho=0.95, eps=1e-6):
    p, s, d = START.copy(), np.zeros(SHAPE), np.zeros(SHAPE)
    for g in GRADIENTS:
        s = rho * s + (1 - rho) * g**2
        change = np.sqrt(d + eps) / np.sqrt(s + eps) * g
        d = rho * d + (1 - rho) * change**2
        p = p - lr * change
    return p


O = pb.optimizers  # noqa: E741
CASES = {
    "sgd": (lambda: O.SGD(0.1), sgd()),
    "sgd decay": (lambda: O.SGD(0.1, weight_decay=0.01), sgd(decay=0.01)),
    "momentum": (lambda: O.SGD(0.1, 0.9), momentum()),
    "nesterov": (lambda: O.SGD(0.1, 0.9, nesterov=True), momentum(nesterov=True)),
    "momentum decay": (lambda: O.SGD(0.1, 0.5, weight_decay=0.1), momentum(mu=0.5, decay=0.1)),
    "adam": (lambda: O.Adam(0.01), adam()),
    "adam betas": (lambda: O.Adam(0.1, 0.5, 0.9, 1e-3), adam(0.1, 0.5, 0.9, 1e-3)),
    "amsgrad": (lambda: O.Adam(0.01, amsgrad=True), adam(amsgrad=True)),
    "adamw": (lambda: O.AdamW(0.01, weight_decay=0.1), adam(decay=0.1)),
    "nadam": (lambda: O.Nadam(0.01), nadam()),
    "nadam decay": (lambda: O.Nadam(0.01, momentum_decay=0.5), nadam(decay=0.5)),
    "adamax": (lambda: O.Adamax(0.01), adamax()),
    "rmsprop": (lambda: O.RMSprop(0.01), rmsprop()),
    "rmsprop momentum": (lambda: O.RMSprop(0.01, momentum=0.9), rmsprop(mu=0.9)),
    "rmsprop centered": (
        lambda: O.RMSprop(0.01, momentum=0.5, centered=True),
        rmsprop(mu=0.5, centered=True),
    ),
    "adagrad": (lambda: O.Adagrad(0.1), adagrad()),
    "adadelta": (lambda: O.Adadelta(), adadelta()),
    "lamb": (lambda: O.LAMB(0.01), lamb()),
    "lamb decay": (lambda: O.LAMB(0.01, weight_decay=0.1), lamb(decay=0.1)),
    "adafactor": (lambda: O.Adafactor(0.05), adafactor()),
    "adafactor settings": (
        lambda: O.Adafactor(0.5, 0.5, 1e-3, 10.0, 0.3),
        adafactor(0.5, 0.5, 1e-3, 10.0, 0.3),
    ),
    "sgd decoupled": (
        lambda: O.SGD(0.1, decoupled_weight_decay=0.2),
        decoupled(lambda p, g: p - 0.1 * g, 0.1, 0.2),
    ),
    "lion": (lambda: O.Lion(0.01, weight_decay=0.1), lion(decay=0.1)),
}


#: Optimizers, or settings of them, that PyTorch does not have.
NOT_IN_PYTORCH = {
    "adafactor settings", "lamb", "lamb decay", "lion", "momentum decay", "nadam decay",
    "sgd decoupled",
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
class TestFormulas:
    def run(self, make, dtype):
        optimizer, variable = make(), pb.Variable(START.astype(np.float64), dtype=dtype)
        for g in GRADIENTS:
            optimizer.apply_gradients([(pb.asarray(g, dtype=dtype), variable)])
        assert optimizer.step == 100
        assert variable.dtype == dtype
        return variable.numpy().astype(np.float64)

    def test_float64(self, name):
        make, expected = CASES[name]
        np.testing.assert_allclose(self.run(make, pb.float64), expected, rtol=1e-11, atol=1e-12)

    def test_pytorch(self, name):
        if name not in PYTORCH:
            assert name in NOT_IN_PYTORCH
            return
        got = self.run(CASES[name][0], pb.float64)
        np.testing.assert_allclose(got, PYTORCH[name], rtol=1e-7, atol=1e-9)

    def test_float32(self, name):
        make, expected = CASES[name]
        np.testing.assert_allclose(self.run(make, pb.float32), expected, rtol=2e-4, atol=2e-5)

    def test_slots_of_bfloat16_are_wide(self, name):
        optimizer, variable = CASES[name][0](), pb.Variable([1.0, 2.0], dtype=pb.bfloat16)
        optimizer.apply_gradients([(pb.asarray([1.0, -1.0], dtype=pb.bfloat16), variable)])
        slots = list(optimizer.slot_variables())
        kept = [slot_name for _, slot_name, _ in slots]
        assert kept == (["mean_square"] if "adafactor" in name else list(optimizer.slot_names))
        assert all(slot.dtype == pb.float32 and not slot.trainable for _, _, slot in slots)
        assert variable.dtype == pb.bfloat16
        assert variable.tolist() != [1.0, 2.0]

    def test_resumed_steps_are_the_same_bit_for_bit(self, name, tmp_path):
        make, _ = CASES[name]

        def steps(optimizer, variable, gradients):
            for g in gradients:
                optimizer.apply_gradients([(g.astype(np.float32), variable)])

        start = START.astype(np.float32)
        straight, one = make(), pb.Variable(start)
        steps(straight, one, GRADIENTS)
        first, two = make(), pb.Variable(start)
        steps(first, two, GRADIENTS[:37])
        path = pb.Checkpoint(v=two, optimizer=first).save(tmp_path)
        second, three = make(), pb.Variable(np.zeros(SHAPE, np.float32))
        pb.Checkpoint(v=three, optimizer=second).restore(path).assert_complete()
        assert second.step == 37
        steps(second, three, GRADIENTS[37:])
        assert three.numpy().tobytes() == one.numpy().tobytes()


class TestSteps:
    def test_minimize_is_gradient_and_apply(self):
        def loss(w, b):
            return pb.sum((w * 3.0 + b - 1.0) ** 2)

        one = [pb.Variable([1.0, 2.0]), pb.Variable(0.5)]
        two = [pb.Variable([1.0, 2.0]), pb.Variable(0.5)]
        first, second = O.Adam(0.1), O.Adam(0.1)
        for _ in range(5):
            value = first.minimize(lambda: loss(*one))
            pairs = pb.implicit_gradients(lambda: loss(*two))()
            assert value.item() == loss(*two).item()
            second.apply_gradients(pairs)
        assert [v.tolist() for v in one] == [v.tolist() for v in two]
        assert first.step == second.step == 5

    def test_minimize_some_variables(self):
        a, b = pb.Variable(1.0), pb.Variable(1.0, trainable=False)
        O.SGD(0.1).minimize(lambda: a * b, [b])
        assert (float(a), round(float(b), 6)) == (1.0, 0.9)

    def test_minimize_takes_a_function(self):
        v = pb.Variable(1.0)
        with pytest.raises(pb.errors.InputTypeError, match="lambda"):
            O.SGD(0.1).minimize(v * v)

    def test_linear_fit(self):
        # The guides' one: 3x + 2 with noise.
        generator = pb.Generator(0)
        x = generator.normal((2000,))
        y = x * 3.0 + 2.0 + generator.normal((2000,))
        w, b = pb.Variable(5.0), pb.Variable(10.0)
        optimizer = O.SGD(0.01)

        def loss():
            return pb.losses.mean_squared_error(y, w * x + b)

        assert 60 < float(loss()) < 80
        for _ in range(300):
            optimizer.minimize(loss)
        assert 0.8 < float(loss()) < 1.2
        assert abs(float(w) - 3) < 0.1
        assert abs(float(b) - 2) < 0.1

    def test_pairs_without_gradient_are_left_out(self):
        a, b = pb.Variable(1.0), pb.Variable(1.0)
        O.SGD(0.5).apply_gradients([(None, a), (pb.asarray(1.0), b)])
        assert (float(a), float(b)) == (1.0, 0.5)
        with pytest.raises(pb.errors.InputValueError, match="none of 1 variables has a gradient"):
            O.SGD(0.5).apply_gradients([(None, a)])
        with pytest.raises(pb.errors.InputValueError, match="no variables"):
            O.SGD(0.5).apply_gradients([])

    def test_bad_pairs_change_nothing(self):
        a, b = pb.Variable(1.0), pb.Variable([1.0], name="b")
        optimizer, one = O.SGD(0.5), pb.asarray(1.0)
        with pytest.raises(pb.errors.ShapeError, match=r"gradient of b has shape \(\).*\(1,\)"):
            optimizer.apply_gradients([(one, a), (one, b)])
        with pytest.raises(pb.errors.InputValueError, match="two pairs"):
            optimizer.apply_gradients([(one, a), (one, a)])
        with pytest.raises(pb.errors.InputTypeError, match="Tensor for a variable"):
            optimizer.apply_gradients([(one, a), (a, one)])
        assert (float(a), optimizer.step) == (1.0, 0)

    def test_no_tape_hears_a_step(self):
        w = pb.Variable(3.0)
        with pb.GradientTape() as tape:
            loss = w * w
            O.Adam(0.1).apply_gradients([(pb.asarray(1.0), w)])
        assert tape.gradient(loss, w).item() == 6.0

    def test_bad_settings(self):
        for make in (
            lambda: O.SGD(-1.0),
            lambda: O.SGD(float("nan")),
            lambda: O.SGD(0.1, momentum=1.0),
            lambda: O.SGD(0.1, nesterov=True),
            lambda: O.Adam(beta1=1.5),
        ):
            with pytest.raises(pb.errors.InputValueError):
                make()

    def test_rates_that_are_no_numbers(self):
        for wrong in ([pb.Variable(1.0)], "0.1", None, {}):
            with pytest.raises(pb.errors.InputTypeError, match="a learning rate must be a number"):
                O.Adam(wrong)

    def test_own_optimizer(self):
        class SignDescent(O.Optimizer):
            def update(self, variable, gradient, rate, step):
                variable.assign_sub(pb.sign(gradient) * rate)

        v = pb.Variable([1.0, 1.0])
        SignDescent(0.5).apply_gradients([(pb.asarray([3.0, -2.0]), v)])
        assert v.tolist() == [0.5, 1.5]


class TestLearningRates:
    def test_may_be_a_variable(self):
        rate, v = pb.Variable(0.5, trainable=False), pb.Variable(1.0)
        optimizer = O.SGD(rate)
        optimizer.apply_gradients([(1.0, v)])
        rate.assign(0.25)
        optimizer.apply_gradients([(1.0, v)])
        assert float(v) == 0.25

    def test_may_be_set(self):
        v, optimizer = pb.Variable(1.0), O.SGD(0.5)
        optimizer.learning_rate = 0.25
        optimizer.apply_gradients([(1.0, v)])
        assert float(v) == 0.75

    def test_schedules_get_the_steps_taken(self):
        seen, v = [], pb.Variable(1.0)
        optimizer = O.SGD(lambda step: seen.append(step) or 0.5)
        for _ in range(3):
            optimizer.apply_gradients([(1.0, v)])
        assert seen == [0, 1, 2]


class TestSlots:
    def test_freed_with_their_variable(self):
        optimizer, v = O.Adam(0.1), pb.Variable([1.0])
        optimizer.apply_gradients([([1.0], v)])
        assert len(list(optimizer.slot_variables())) == 2
        del v
        gc.collect()
        assert list(optimizer.slot_variables()) == []

    def test_saved_under_the_path_of_their_variable(self, tmp_path):
        model = {"layers": [{"kernel": pb.Variable([1.0])}]}
        optimizer = O.Adam(0.1)
        optimizer.apply_gradients([([1.0], model["layers"][0]["kernel"])])
        contents = pb.Checkpoint(model=model, optimizer=optimizer).contents()
        assert sorted(contents.arrays) == [
            "model/layers/0/kernel",
            "optimizer/slots/m/model/layers/0/kernel",
            "optimizer/slots/v/model/layers/0/kernel",
        ]
        assert contents.states["optimizer"]["value"] == {"step": 1}

    def test_variables_that_are_not_in_the_checkpoint(self, tmp_path):
        optimizer, v = O.Adam(0.1), pb.Variable([1.0], name="w")
        optimizer.apply_gradients([([1.0], v)])
        with pytest.raises(pb.errors.CheckpointError, match=r"has trained.*'w'.*model=model"):
            pb.Checkpoint(optimizer=optimizer).save(tmp_path)

    def test_restored_before_there_are_variables(self, tmp_path):
        x, y = np.ones((2, 3), np.float32), np.ones((2, 1), np.float32)

        def make():
            pb.random.seed(0)
            return pb.Sequential([pb.layers.Dense(4), pb.layers.Dense(1)]), O.Adam(0.1)

        def train(model, optimizer):
            for _ in range(3):
                optimizer.minimize(lambda: pb.losses.mean_squared_error(y, model(x)))

        model, optimizer = make()
        train(model, optimizer)
        path = pb.Checkpoint(model=model, optimizer=optimizer).save(tmp_path)
        train(model, optimizer)
        other, other_optimizer = make()
        status = pb.Checkpoint(model=other, optimizer=other_optimizer).restore(path)
        train(other, other_optimizer)
        status.assert_complete()
        for a, b in zip(model.variables, other.variables, strict=True):
            assert a.numpy().tobytes() == b.numpy().tobytes()

    def test_other_optimizer_is_refused(self, tmp_path):
        v, optimizer = pb.Variable([1.0]), O.Adam(0.1)
        optimizer.apply_gradients([([1.0], v)])
        path = pb.Checkpoint(v=v, optimizer=optimizer).save(tmp_path)
        with pytest.raises(pb.errors.CheckpointError, match="slot 'm', and SGD keeps velocity"):
            pb.Checkpoint(v=v, optimizer=O.SGD(0.1, 0.9)).restore(path)

    def test_learning_rate_variables_are_saved(self, tmp_path):
        rate, v = pb.Variable(0.5, trainable=False), pb.Variable(1.0)
        path = pb.Checkpoint(v=v, optimizer=O.SGD(rate)).save(tmp_path)
        rate.assign(0.0)
        pb.Checkpoint(v=v, optimizer=O.SGD(rate)).restore(path)
        assert float(rate) == 0.5
