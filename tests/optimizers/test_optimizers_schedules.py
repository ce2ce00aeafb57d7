"""Schedules of learning rates: values at their corners, and rejected arguments."""

from __future__ import annotations

import math

import numpy as np
import pytest

import pullback as pb

S = pb.optimizers.schedules


class TestValues:
    def test_constant(self):
        schedule = S.constant(0.1)
        assert [schedule(0), schedule(10**9)] == [0.1, 0.1]
        assert S.constant(0.1, warmup_steps=4)(1) == 0.025

    def test_exponential(self):
        schedule = S.exponential_decay(0.1, 10, 0.5)
        assert [schedule(0), schedule(10)] == [0.1, 0.05]
        assert schedule(5) == pytest.approx(0.1 * math.sqrt(0.5))

    def test_steps(self):
        schedule = S.step_decay(0.1, 10, 0.5)
        assert [schedule(9), schedule(10), schedule(19), schedule(20)] == [0.1, 0.05, 0.05, 0.025]

    def test_polynomial(self):
        schedule = S.polynomial_decay(1.0, 100, 0.2, 2.0, warmup_steps=20)
        assert [schedule(0), schedule(10), schedule(20)] == [0.0, 0.5, 1.0]
        assert schedule(60) == pytest.approx(0.2 + 0.8 * 0.25)
        assert schedule(100) == schedule(1000) == 0.2

    def test_cosine(self):
        schedule = S.cosine_decay(1.0, 100, final=0.1)
        assert schedule(0) == 1.0
        assert schedule(50) == pytest.approx(0.55)
        assert schedule(100) == schedule(1000) == pytest.approx(0.1)

    def test_cosine_with_restarts(self):
        schedule = S.cosine_restarts(1.0, 10, final=0.1)
        for step in range(100):
            share = step % 10 / 10
            expected = 0.1 + 0.9 * (1 + math.cos(math.pi * share)) / 2
            assert schedule(step) == pytest.approx(expected)

    @pytest.mark.parametrize("longer", [1.0, 1.5, 2.0, 3.0])
    def test_longer_and_lower_restarts(self, longer):
        schedule = S.cosine_restarts(1.0, 7, t_mul=longer, m_mul=0.5, final=0.01, warmup_steps=5)
        assert [schedule(0), schedule(4)] == [0.0, 0.8]
        begin, length, top = 0.0, 7.0, 1.0
        for step in range(400):
            while step >= begin + length:
                begin, length, top = begin + length, length * longer, max(top / 2, 0.01)
            share = (step - begin) / length
            expected = 0.01 + (top - 0.01) * (1 + math.cos(math.pi * share)) / 2
            assert schedule(step + 5) == pytest.approx(expected, abs=1e-12), step

    def test_inverse_root(self):
        schedule = S.inverse_root_decay(0.1, 100)
        assert [schedule(0), schedule(50), schedule(100)] == [0.0, 0.05, 0.1]
        assert schedule(2500) == pytest.approx(0.02)

    def test_pieces(self):
        schedule = S.piecewise_constant([2, 5], [1.0, 0.5, 0.25])
        assert [schedule(i) for i in range(7)] == [1, 1, 0.5, 0.5, 0.5, 0.25, 0.25]

    def test_pytorch_s_numbers(self):
        # torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(T_0=4, T_mult=2, eta_min=0.1) of 1.0.
        stored = [
            1.0, 0.8681980515339463, 0.55, 0.23180194846605364, 1.0, 0.9657457896300792,
            0.8681980515339463, 0.7222075445642904, 0.55, 0.3777924554357097, 0.23180194846605364,
            0.13425421036992097, 1.0,
        ]  # fmt: skip
        schedule = S.cosine_restarts(1.0, 4, t_mul=2.0, final=0.1)
        np.testing.assert_allclose([schedule(i) for i in range(13)], stored, rtol=1e-12)


class TestUse:
    def test_an_optimizer_asks_for_the_rate_of_the_steps_taken(self):
        v, seen = pb.Variable(0.0), []
        optimizer = pb.optimizers.SGD(S.polynomial_decay(1.0, 4))
        for _ in range(5):
            before = float(v)
            optimizer.apply_gradients([(1.0, v)])
            seen.append(before - float(v))
        assert seen == [1.0, 0.75, 0.5, 0.25, 0.0]


@pytest.mark.parametrize(
    "make",
    [
        lambda: S.constant(0.1, warmup_steps=-1),
        lambda: S.exponential_decay(0.1, 0, 0.5),
        lambda: S.step_decay(0.1, 0, 0.5),
        lambda: S.polynomial_decay(0.1, 0),
        lambda: S.polynomial_decay(0.1, 5, warmup_steps=5),
        lambda: S.cosine_decay(0.1, 10, warmup_steps=10),
        lambda: S.cosine_restarts(0.1, 0),
        lambda: S.cosine_restarts(0.1, 10, t_mul=0.5),
        lambda: S.inverse_root_decay(0.1, 0),
        lambda: S.piecewise_constant([2, 1], [1.0, 2.0, 3.0]),
        lambda: S.piecewise_constant([1], [1.0]),
    ],
)
def test_refused(make):
    with pytest.raises(pb.errors.InputValueError):
        make()
