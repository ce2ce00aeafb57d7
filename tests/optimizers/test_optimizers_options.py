"""Options of every optimizer: clipping, decay masks, averages, accumulation, resuming."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb

L, O = pb.layers, pb.optimizers  # noqa: E741
RNG = np.random.default_rng(6)


def moved(optimizer, *gradients):
    """By how much plain descent of rate 1 moves variables, each with its gradient."""
    variables = [pb.Variable(np.zeros_like(g, np.float32)) for g in gradients]
    optimizer.apply_gradients(zip(gradients, variables, strict=True))
    return [-v.numpy() for v in variables]


class TestClipping:
    A, B = np.asarray([3.0, -4.0], np.float32), np.asarray([[12.0]], np.float32)

    def test_by_value(self):
        a, b = moved(O.SGD(1.0, clip_value=3.5), self.A, self.B)
        assert (a.tolist(), b.tolist()) == ([3.0, -3.5], [[3.5]])

    def test_by_norm(self):
        a, b = moved(O.SGD(1.0, clip_norm=10.0), self.A, self.B)
        assert (a.tolist(), b.tolist()) == ([3.0, -4.0], [[10.0]])
        a, b = moved(O.SGD(1.0, clip_norm=1.0), self.A, self.B)
        np.testing.assert_allclose(a, [0.6, -0.8], rtol=1e-6)
        np.testing.assert_allclose(b, [[1.0]], rtol=1e-6)

    def test_by_global_norm(self):
        a, b = moved(O.SGD(1.0, clip_global_norm=6.5), self.A, self.B)
        np.testing.assert_allclose(a, self.A / 2, rtol=1e-6)
        np.testing.assert_allclose(b, self.B / 2, rtol=1e-6)
        a, b = moved(O.SGD(1.0, clip_global_norm=13.5), self.A, self.B)
        assert (a.tolist(), b.tolist()) == (self.A.tolist(), self.B.tolist())

    def test_refused(self):
        for wrong in ({"clip_value": 0.0}, {"clip_norm": -1.0}, {"clip_norm": 1, "clip_value": 1}):
            with pytest.raises(pb.errors.InputValueError, match="set only one of"):
                O.Adam(**wrong)


class TestDecay:
    @pytest.mark.parametrize(
        "make",
        [
            lambda **rest: O.AdamW(0.1, weight_decay=0.5, **rest),
            lambda **rest: O.LAMB(0.1, weight_decay=0.5, **rest),
            lambda **rest: O.Lion(0.1, weight_decay=0.5, **rest),
            lambda **rest: O.SGD(0.1, weight_decay=0.5, **rest),
            lambda **rest: O.RMSprop(0.1, decoupled_weight_decay=0.5, **rest),
            lambda **rest: O.Adafactor(0.1, decoupled_weight_decay=0.5, **rest),
        ],
    )
    def test_exclusions(self, make):
        def run(optimizer, *variables):
            for _ in range(3):
                optimizer.apply_gradients([(pb.full(v.shape, 0.25), v) for v in variables])
            return [v.tolist() for v in variables]

        def two():
            return pb.Variable([[2.0, 3.0]], name="kernel"), pb.Variable([2.0, 3.0], name="bias")

        decayed = run(make(), *two())
        plain = run(make(no_decay=lambda v: True), *two())
        assert decayed[0] != plain[0]
        assert decayed[1] != plain[1]
        assert run(make(no_decay=lambda v: v.ndim < 2), *two()) == [decayed[0], plain[1]]
        kernel, bias = two()
        assert run(make(no_decay=[kernel]), kernel, bias) == [plain[0], decayed[1]]

    def test_excluded_variables_stay_where_they_are_in_a_checkpoint(self, tmp_path):
        model = pb.Sequential([L.Dense(2, input_shape=(3,))])
        optimizer = O.AdamW(no_decay=[model.layers[0].bias])
        checkpoint = pb.Checkpoint(optimizer=optimizer, model=model)
        assert "model/layers/0/bias" in checkpoint.contents().arrays

    def test_decoupled_decay_of_the_rate_of_the_step(self):
        v = pb.Variable(1.0)
        optimizer = O.SGD(
            O.schedules.piecewise_constant([1], [0.5, 0.25]), decoupled_weight_decay=1
        )
        optimizer.apply_gradients([(0.0, v)])
        assert float(v) == 0.5
        optimizer.apply_gradients([(0.0, v)])
        assert float(v) == 0.375


class TestAverage:
    def test_values(self):
        v = pb.Variable([1.0, 2.0])
        optimizer = O.SGD(0.5, ema_decay=0.75)
        average, value = np.asarray([1.0, 2.0]), np.asarray([1.0, 2.0])
        for _ in range(5):
            g = RNG.integers(-4, 5, size=2).astype(np.float32)
            optimizer.apply_gradients([(g, v)])
            value = value - 0.5 * g
            average = 0.75 * average + 0.25 * value
        with optimizer.averaged():
            np.testing.assert_allclose(v.numpy(), average, rtol=1e-6)
        np.testing.assert_array_equal(v.numpy(), value)

    def test_values_come_back_after_an_error(self):
        v = pb.Variable(1.0)
        optimizer = O.SGD(1.0, ema_decay=0.5)
        optimizer.apply_gradients([(1.0, v)])
        with pytest.raises(KeyError), optimizer.averaged():
            raise KeyError
        assert float(v) == 0.0

    def test_variables_without_a_gradient_are_averaged_on(self):
        a, b = pb.Variable(0.0), pb.Variable(0.0)
        optimizer = O.SGD(1.0, ema_decay=0.5)
        optimizer.apply_gradients([(-1.0, a), (-1.0, b)])
        optimizer.apply_gradients([(None, a), (-1.0, b)])
        with optimizer.averaged():
            assert (float(a), float(b)) == (0.75, 1.25)

    def test_averages_of_narrow_variables_are_wide(self):
        v = pb.Variable([256.0], dtype=pb.bfloat16)
        optimizer = O.SGD(1.0, ema_decay=0.999)
        for _ in range(100):
            optimizer.apply_gradients([(pb.asarray([-2.0], dtype=pb.bfloat16), v)])
        (slot,) = [slot for _, name, slot in optimizer.slot_variables() if name == "ema"]
        assert slot.dtype == pb.float32
        assert 256 < slot.item() < 300

    def test_refused(self):
        with pytest.raises(pb.errors.InputValueError, match=r"ema_decay must be in \[0, 1\)"):
            O.SGD(ema_decay=1.0)
        with (
            pytest.raises(pb.errors.InputValueError, match="make it with ema_decay"),
            O.SGD().averaged(),
        ):
            pass


class TestAccumulation:
    @pytest.mark.parametrize("make", [O.SGD, O.Adam, O.Adafactor])
    def test_a_step_is_that_of_the_mean(self, make):
        gradients = RNG.normal(size=(3, 4, 2, 3)).astype(np.float32)
        one, many = (
            pb.Variable(np.ones((2, 3), np.float32)),
            pb.Variable(np.ones((2, 3), np.float32)),
        )
        whole, parts = make(0.1), make(0.1, accumulate_steps=4)
        for four in gradients:
            whole.apply_gradients([(four.mean(0), one)])
            for g in four:
                before = many.tolist()
                parts.apply_gradients([(g, many)])
                assert parts.step in (whole.step - 1, whole.step)
            assert many.tolist() != before
        assert parts.step == 3
        np.testing.assert_allclose(many.numpy(), one.numpy(), rtol=1e-5)

    def test_the_sum_is_clipped_not_its_parts(self):
        v = pb.Variable(0.0)
        optimizer = O.SGD(1.0, accumulate_steps=2, clip_value=1.0)
        optimizer.apply_gradients([(5.0, v)])
        optimizer.apply_gradients([(-4.0, v)])
        assert float(v) == -0.5

    def test_variables_that_had_a_gradient_in_some_calls(self):
        a, b, c = (pb.Variable(0.0) for _ in range(3))
        optimizer = O.Adam(1.0, accumulate_steps=2)
        optimizer.apply_gradients([(1.0, a), (None, b), (None, c)])
        optimizer.apply_gradients([(None, a), (1.0, b), (None, c)])
        assert float(a) == float(b) != 0
        assert float(c) == 0
        assert {name for _, name, _ in optimizer.slot_variables()} == {"m", "v"}

    def test_narrow_gradients_are_summed_wide(self):
        v = pb.Variable([0.0], dtype=pb.float16)
        optimizer = O.SGD(2.0**-4, accumulate_steps=4)
        for _ in range(4):
            optimizer.apply_gradients([(pb.asarray([60000.0], dtype=pb.float16), v)])
        assert v.item() == -3750

    def test_refused(self):
        with pytest.raises(pb.errors.InputValueError, match="accumulate_steps=0"):
            O.SGD(accumulate_steps=0)


@pytest.mark.parametrize("cut", [1, 5, 6, 10])
@pytest.mark.parametrize(
    "make",
    [
        lambda: O.Adam(
            0.1, accumulate_steps=3, ema_decay=0.9, clip_norm=0.5, decoupled_weight_decay=0.1
        ),
        lambda: O.LossScale(O.Nadam(0.1, accumulate_steps=2), 2.0**4, growth_steps=3),
        lambda: O.Adafactor(O.schedules.cosine_restarts(0.1, 4), ema_decay=0.5),
    ],
    ids=["adam", "loss scale", "adafactor"],
)
def test_resumed_in_the_middle_of_anything(make, cut, tmp_path):
    gradients = RNG.normal(size=(12, 2, 3)).astype(np.float32)

    def steps(optimizer, v, b, some):
        for i, g in enumerate(some):
            optimizer.apply_gradients([(g, v), (g[0] if i % 2 else None, b)])

    def fresh():
        return make(), pb.Variable(np.ones((2, 3), np.float32)), pb.Variable(pb.ones(3))

    straight = fresh()
    steps(*straight, gradients)
    optimizer, v, b = fresh()
    steps(optimizer, v, b, gradients[:cut])
    path = pb.Checkpoint(v=v, b=b, optimizer=optimizer).save(tmp_path)
    # Into one that has gone elsewhere in between.
    other, w, c = fresh()
    steps(other, w, c, gradients[3:8])
    pb.Checkpoint(v=w, b=c, optimizer=other).restore(path).assert_complete()
    # The rest begins with an even or an odd step, as it would have.
    rest = gradients[cut:]
    if cut % 2:
        other.apply_gradients([(rest[0], w), (rest[0][0], c)])
        rest = rest[1:]
    steps(other, w, c, rest)
    assert w.numpy().tobytes() == straight[1].numpy().tobytes()
    assert c.numpy().tobytes() == straight[2].numpy().tobytes()
    assert other.step == straight[0].step
