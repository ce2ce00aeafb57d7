"""Precision: dtypes of variables and of what layers compute, mixed precision, loss scaling."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import pullback as pb

L, O = pb.layers, pb.optimizers  # noqa: E741
X = np.random.default_rng(2).normal(size=(4, 6, 3)).astype(np.float32)


class TestPolicies:
    @pytest.mark.parametrize(
        ("given", "variables", "compute"),
        [
            ("float64", pb.float64, pb.float64),
            (np.float32, pb.float32, pb.float32),
            ("mixed_bfloat16", pb.float32, pb.bfloat16),
            ("mixed_float16", pb.float32, pb.float16),
            ("float64/float32", pb.float64, pb.float32),
            (L.Policy("float32", pb.float16), pb.float32, pb.float16),
        ],
    )
    def test_names(self, given, variables, compute):
        layer = L.Dense(2, dtype=given)
        assert (layer.dtype, layer.compute_dtype) == (variables, compute)
        y = layer(X)
        assert layer.kernel.dtype == variables
        assert y.dtype == compute

    def test_unknown(self):
        for wrong in ("mixed_float8", "float8", "float32/float8", "mixed_", "mixed_int8"):
            with pytest.raises(pb.errors.DTypeError):
                L.Dense(2, dtype=wrong)

    def test_in_force_for_layers_made_inside(self):
        before = L.Dense(2)
        with L.policy("mixed_bfloat16"):
            inside, own = L.Dense(2), L.Dense(2, dtype="float32")
            with L.policy("float64"):
                deeper = L.Dense(2)
            with L.policy(None):
                same = L.Dense(2)
        after = L.Dense(2)
        found = [one(X).dtype for one in (before, inside, own, deeper, same, after)]
        wanted = [pb.float32, pb.bfloat16, pb.float32, pb.float64, pb.bfloat16, pb.float32]
        assert found == wanted

    def test_is_undone_after_an_error(self):
        with pytest.raises(KeyError), L.policy("float64"):
            raise KeyError
        assert L.Dense(2).dtype == pb.float32

    def test_reaches_parts(self):
        layer = L.SeparableConv1D(2, 3, dtype="mixed_bfloat16")
        assert layer(X).dtype == pb.bfloat16
        attention = L.MultiHeadAttention(2, 4, dtype="mixed_bfloat16")
        assert attention(X).dtype == pb.bfloat16
        both = L.Bidirectional(L.LSTM(3, dtype="mixed_bfloat16"))
        assert both(X).dtype == pb.bfloat16
        for one in (layer, attention, both):
            assert {variable.dtype for variable in one.variables} == {pb.float32}


class TestMixed:
    @pytest.mark.parametrize(
        "make",
        [
            lambda: L.Conv1D(4, 3, dtype="mixed_float16"),
            lambda: L.BatchNormalization(dtype="mixed_float16"),
            lambda: L.LayerNormalization(dtype="mixed_float16"),
            lambda: L.GRU(4, dtype="mixed_float16"),
            lambda: L.SimpleRNN(4, stateful=True, dtype="mixed_float16"),
        ],
    )
    def test_float32_variables_have_float32_gradients(self, make):
        layer = make()
        layer(X)
        with pb.GradientTape() as tape:
            y = layer(X, training=True)
        assert y.dtype == pb.float16
        trained = layer.trainable_variables
        assert trained
        for variable, gradient in zip(trained, tape.gradient(y, trained), strict=True):
            assert variable.dtype == gradient.dtype == pb.float32
            assert np.isfinite(gradient.numpy()).all()

    def test_own_layers_read_their_variables_in_the_dtype_to_compute_in(self):
        class Own(L.Layer):
            def build(self, input_shape):
                self.w = self.add_variable("w", input_shape[-1:])
                self.wide = self.add_variable("wide", (), autocast=False)

            def call(self, x):
                assert self.w.value.dtype == pb.float16
                assert self.wide.value.dtype == pb.float32
                return x * self.w

        layer = Own(dtype="mixed_float16")
        assert layer(X).dtype == pb.float16
        assert layer.w.value.dtype == pb.float32
        assert copy.deepcopy(layer)(X).dtype == pb.float16

    def test_weights_that_another_layer_uses(self):
        class Tied(pb.Model):
            def __init__(self):
                super().__init__()
                self.table = L.Dense(3, use_bias=False)

            def call(self, x):
                return pb.matmul(self.table(x), self.table.kernel.mT)

        with L.policy("mixed_bfloat16"):
            model = Tied()
        assert model(X).dtype == pb.bfloat16

    def test_embedding_rows(self):
        layer = L.Embedding(5, 3, dtype="mixed_bfloat16")
        assert layer([1, 2]).dtype == pb.bfloat16
        assert layer.embeddings.dtype == pb.float32

    def test_what_is_small_is_not_lost_in_the_variables(self):
        # 1 + 2**-10 is 1 in bfloat16; a thousand of them are not.
        layer = L.Dense(1, use_bias=False, kernel_initializer="ones", dtype="mixed_bfloat16")
        x = pb.ones((1, 1))
        layer(x)
        optimizer = O.SGD(2.0**-10)
        for _ in range(1024):
            optimizer.minimize(lambda: -layer(x))
        assert layer.kernel.item() == 2.0

    def test_regularizers_see_the_variables(self):
        layer = L.Dense(1, kernel_regularizer=L.regularizers.l2(), dtype="mixed_float16")
        layer(X)
        assert layer.losses[0].dtype == pb.float32

    def test_checkpoints_hold_the_variables(self, tmp_path):
        layer = L.Dense(2, dtype="mixed_bfloat16")
        layer(X)
        path = pb.Checkpoint(layer=layer).save(tmp_path)
        other = L.Dense(2)
        pb.Checkpoint(layer=other).restore(path)
        other(X)
        assert other.kernel.tolist() == layer.kernel.tolist()


class TestLossScale:
    def test_scaled_steps_are_those_of_the_optimizer(self):
        plain, scaled = pb.Variable([1.0, 2.0]), pb.Variable([1.0, 2.0])
        one, two = O.Adam(0.1), O.LossScale(O.Adam(0.1), 1024.0)
        for _ in range(5):
            one.minimize(lambda: (plain**4.0).sum())
            loss = two.minimize(lambda: (scaled**4.0).sum())
        assert scaled.tolist() == plain.tolist()
        assert loss.item() < 17
        assert two.step == 5

    def test_small_gradients_survive(self):
        layer = L.Dense(1, use_bias=False, kernel_initializer="ones", dtype="mixed_float16")
        x = pb.full((1, 1), 1e-4)
        layer(x)

        def loss():
            return layer(x).astype("float32").sum() * 1e-5

        with pb.GradientTape() as tape:
            value = loss()
        # 1e-5 is subnormal in float16, and 1e-9 is 0.
        assert tape.gradient(value, layer.kernel).item() == 0
        optimizer = O.LossScale(O.SGD(1.0), 2.0**15)
        with pb.GradientTape() as tape:
            value = optimizer.scaled(loss())
        found = tape.gradient(value, layer.kernel).item() / optimizer.scale
        assert found == pytest.approx(1e-9, rel=0.01)

    def test_overflow_leaves_the_step_out_and_the_scale_falls(self):
        v = pb.Variable([1.0, 2.0])
        optimizer = O.LossScale(O.SGD(0.5, 0.9), 8.0, growth_steps=2)
        bad = [(pb.asarray([1.0, float("nan")]), v)]
        optimizer.apply_gradients(bad)
        assert (v.tolist(), optimizer.scale, optimizer.step) == ([1.0, 2.0], 4.0, 0)
        for _ in range(5):
            optimizer.apply_gradients(bad)
        assert (optimizer.scale, optimizer.skipped) == (1.0, 6)
        good = [(pb.asarray([1.0, 1.0]), v)]
        optimizer.apply_gradients(good)
        assert optimizer.scale == 1.0
        optimizer.apply_gradients(good)
        assert (optimizer.scale, optimizer.step) == (2.0, 2)

    def test_the_scale_settles_by_itself(self):
        pb.random.seed(1)
        model = pb.Sequential(
            [L.Dense(16, "tanh", dtype="mixed_float16"), L.Dense(1, dtype="float32")]
        )
        y = X.sum(-1, keepdims=True)
        optimizer = O.LossScale(O.Adam(0.01), 2.0**40)
        losses = [
            float(optimizer.minimize(lambda: pb.losses.mean_squared_error(y, model(X))))
            for _ in range(150)
        ]
        assert optimizer.skipped > 5
        assert losses[-1] < 0.1 * losses[0]
        assert all(np.isfinite(v.numpy()).all() for v in model.variables)

    def test_is_restored_with_the_optimizer_inside(self, tmp_path):
        v = pb.Variable([1.0])
        optimizer = O.LossScale(O.Adam(0.1), 8.0, growth_steps=10)
        optimizer.apply_gradients([(pb.asarray([float("inf")]), v)])
        optimizer.apply_gradients([(pb.asarray([1.0]), v)])
        path = pb.Checkpoint(v=v, optimizer=optimizer).save(tmp_path)
        other, w = O.LossScale(O.Adam(0.1), 8.0, growth_steps=10), pb.Variable([0.0])
        pb.Checkpoint(v=w, optimizer=other).restore(path).assert_complete()
        assert (other.scale, other.skipped, other.step) == (4.0, 1, 1)
        for one, at in ((optimizer, v), (other, w)):
            one.apply_gradients([(pb.asarray([1.0]), at)])
        assert w.tolist() == v.tolist()

    def test_the_rate_is_that_of_the_optimizer_inside(self):
        optimizer = O.LossScale(O.SGD(0.5))
        optimizer.learning_rate = 0.25
        assert optimizer.optimizer.learning_rate == optimizer.learning_rate == 0.25

    def test_bad_settings(self):
        for wrong in ({"initial_scale": 0.5}, {"factor": 1.0}, {"growth_steps": 0}):
            with pytest.raises(pb.errors.InputValueError, match="initial_scale must be 1 or more"):
                O.LossScale(O.SGD(0.1), **wrong)
