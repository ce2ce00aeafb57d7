"""Recurrent layers: held against loops, and what their settings do."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb

L = pb.layers
RNG = np.random.default_rng(17)
X = RNG.standard_normal((4, 7, 3))
LENGTHS = np.array([7, 3, 1, 0])
MASK = np.arange(7) < LENGTHS[:, None]
KINDS = [L.SimpleRNN, L.LSTM, L.GRU]

kinds = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def reference(layer, x):
    """The outputs (batch, time, units) and the state, one step after another."""
    w, u, b = layer.kernel.numpy(), layer.recurrent_kernel.numpy(), layer.bias.numpy()
    h = c = np.zeros((len(x), layer.units))
    outputs = []
    for step in range(x.shape[1]):
        a = x[:, step] @ w + b
        if isinstance(layer, L.SimpleRNN):
            h = np.tanh(a + h @ u)
        elif isinstance(layer, L.LSTM):
            i, f, g, o = np.split(a + h @ u, 4, axis=1)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
        else:
            z, r, n = np.split(a, 3, axis=1)
            uz, ur, un = np.split(h @ u + layer.recurrent_bias.numpy(), 3, axis=1)
            z = sigmoid(z + uz)
            h = z * h + (1 - z) * np.tanh(n + sigmoid(r + ur) * un)
        outputs.append(h)
    return np.stack(outputs, axis=1), [h, c][: layer.state_count]


def close(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-12)


def make(kind, **settings):
    return kind(5, dtype="float64", bias_initializer="normal", **settings)


class TestValues:
    @kinds
    def test_against_a_loop(self, kind):
        layer = make(kind, return_sequences=True, return_state=True)
        outputs, *state = layer(X)
        expected, last = reference(layer, X)
        close(outputs, expected)
        assert len(state) == kind.state_count
        for part, value in zip(state, last, strict=True):
            close(part, value)

    @kinds
    def test_last_output_alone(self, kind):
        layer = make(kind)
        y = layer(X)
        assert y.shape == (4, 5)
        close(y, reference(layer, X)[0][:, -1])

    @kinds
    def test_reverse(self, kind):
        layer = make(kind, return_sequences=True, reverse=True)
        outputs = layer(X)
        close(outputs, reference(layer, X[:, ::-1])[0][:, ::-1])

    @kinds
    def test_mask_leaves_the_state_where_a_sequence_ends(self, kind):
        layer = make(kind, return_state=True)
        _, *state = layer(X, mask=MASK)
        for row, length in enumerate(LENGTHS):
            _, *alone = layer(X[row : row + 1, :length])
            for part, value in zip(state, alone, strict=True):
                close(part[row : row + 1], value)

    @kinds
    def test_state_is_handed_on(self, kind):
        layer = make(kind, return_sequences=True, return_state=True)
        whole, *_ = layer(X)
        first, *state = layer(X[:, :3])
        second, *_ = layer(X[:, 3:], initial_state=state)
        close(pb.concat([first, second], axis=1), whole)

    @kinds
    def test_gradients_reach_every_variable(self, kind):
        layer = make(kind)
        with pb.GradientTape() as tape:
            loss = pb.sum(layer(X) ** 2)
        found = tape.gradient(loss, layer.trainable_variables)
        for gradient, variable in zip(found, layer.trainable_variables, strict=True):
            direction = RNG.standard_normal(variable.shape)
            there = variable.numpy().copy()
            values = []
            for side in (1e-6, -1e-6):
                variable.assign(there + side * direction)
                values.append(float(pb.sum(layer(X) ** 2)))
            variable.assign(there)
            slope = (values[0] - values[1]) / 2e-6
            assert float(pb.sum(gradient * direction)) == pytest.approx(slope, rel=1e-6)


class TestSettings:
    @kinds
    def test_variables(self, kind):
        layer = kind(5, input_shape=(7, 3))
        shapes = {name: variable.shape for name, variable in layer.named_variables.items()}
        columns = 5 * kind.gates
        expected = {"kernel": (3, columns), "recurrent_kernel": (5, columns), "bias": (columns,)}
        if kind is L.GRU:
            expected["recurrent_bias"] = (15,)
        assert shapes == expected
        assert len(kind(5, use_bias=False, input_shape=(7, 3)).variables) == 2

    def test_forget_gate_begins_open(self):
        bias = L.LSTM(2, input_shape=(7, 3)).bias
        assert bias.tolist() == [0, 0, 1, 1, 0, 0, 0, 0]
        assert L.LSTM(1, forget_bias=0.0, input_shape=(7, 3)).bias.tolist() == [0, 0, 0, 0]

    def test_activation_of_the_simple_net(self):
        layer = L.SimpleRNN(5, "relu", return_sequences=True)
        assert float(pb.min(layer(X))) == 0
        with pytest.raises(pb.errors.InputValueError, match="gelu"):
            L.SimpleRNN(5, "gelu")(X)

    @pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
    def test_dtypes(self, dtype):
        assert L.LSTM(5, dtype=dtype)(X).dtype == getattr(pb, dtype)

    @kinds
    def test_inputs_of_integers(self, kind):
        assert kind(5)(np.ones((2, 3, 4), np.int32)).dtype == pb.float32

    @kinds
    def test_no_steps_and_no_sequences(self, kind):
        assert kind(5)(np.zeros((2, 0, 3))).tolist() == np.zeros((2, 5)).tolist()
        assert kind(5, return_sequences=True)(np.zeros((0, 4, 3))).shape == (0, 4, 5)

    def test_in_a_stack(self):
        model = pb.Sequential(
            [
                L.Embedding(10, 4),
                L.Bidirectional(L.LSTM(5, return_sequences=True)),
                L.GRU(3),
                L.Dense(2),
            ]
        )
        assert model([[1, 2, 3]]).shape == (1, 2)
        assert len(model.variables) == 1 + 6 + 4 + 2

    def test_errors(self):
        with pytest.raises(pb.errors.LayerError, match=r"sequences.*\(7, 3\).*x\[None\]"):
            L.LSTM(5)(X[0])
        with pytest.raises(pb.errors.LayerError, match=r"2 times \(4, 5\), got \(4, 5\)"):
            L.LSTM(5)(X, initial_state=pb.zeros((4, 5)))
        layer = L.LSTM(5)
        layer(X)
        with pytest.raises(pb.errors.LayerError, match=r"\(2, 7, 4\)"):
            layer(np.zeros((2, 7, 4)))
        with pytest.raises(pb.errors.LayerError, match="mask"):
            layer(X, mask=MASK[:, 1:])


class TestStateful:
    @kinds
    def test_calls_go_on_where_the_last_one_ended(self, kind):
        layer = make(kind, stateful=True, return_sequences=True)
        parts = [layer(X[:, :2]), layer(X[:, 2:])]
        close(pb.concat(parts, axis=1), reference(layer, X)[0])
        layer.reset_states()
        close(layer(X), reference(layer, X)[0])

    def test_state_is_not_trained_and_no_gradient_reaches_earlier_calls(self):
        layer = make(L.LSTM, stateful=True)
        with pb.GradientTape(persistent=True) as tape:
            first = layer(X[:, :3])
            second = layer(X[:, 3:])
        assert len(layer.trainable_variables) == 3
        assert len(layer.variables) == 5
        assert tape.gradient(first, layer.kernel) is not None
        copy = L.LSTM(5, dtype="float64", input_shape=(7, 3))
        for variable, value in zip(copy.variables, layer.trainable_variables, strict=True):
            variable.assign(value)
        _, state = reference(copy, X[:, :3])
        with pb.GradientTape() as alone:
            y = copy(X[:, 3:], initial_state=state)
        close(tape.gradient(second, layer.kernel), alone.gradient(y, copy.kernel))

    def test_another_size_of_batch(self):
        layer = L.GRU(5, stateful=True)
        layer(X)
        with pytest.raises(pb.errors.LayerError, match=r"\(4, 5\); call reset_states\(\)"):
            layer(X[:2])
        layer.reset_states()
        assert layer(X[:2]).shape == (2, 5)

    def test_model_resets_all(self):
        model = pb.Sequential(
            [L.LSTM(5, stateful=True, return_sequences=True, input_shape=(7, 3)), L.GRU(2)]
        )
        first = model(X).tolist()
        assert model(X).tolist() != first
        model.reset_states()
        assert model(X).tolist() == first

    def test_state_is_part_of_a_checkpoint(self, tmp_path):
        one, other = make(L.LSTM, stateful=True), make(L.LSTM, stateful=True)
        one(X[:, :3])
        path = pb.Checkpoint(layer=one).save(tmp_path)
        pb.Checkpoint(layer=other).restore(path)
        close(other(X[:, 3:]), one(X[:, 3:]))


class TestBidirectional:
    @kinds
    def test_values(self, kind):
        layer = L.Bidirectional(make(kind, return_sequences=True))
        y = layer(X)
        assert y.shape == (4, 7, 10)
        close(y[..., :5], reference(layer.forward, X)[0])
        close(y[..., 5:], reference(layer.backward, X[:, ::-1])[0][:, ::-1])
        assert layer.forward.kernel.tolist() != layer.backward.kernel.tolist()

    @pytest.mark.parametrize("merge", ["sum", "mean", "multiply", None])
    def test_merges(self, merge):
        layer = L.Bidirectional(make(L.GRU), merge=merge)
        y = layer(X, mask=MASK)
        a, b = layer.forward(X, mask=MASK).numpy(), layer.backward(X, mask=MASK).numpy()
        expected = {"sum": a + b, "mean": (a + b) / 2, "multiply": a * b, None: np.stack([a, b])}
        close(pb.stack(y) if merge is None else y, expected[merge])

    def test_states(self):
        y, *states = L.Bidirectional(L.LSTM(5, return_state=True))(X)
        assert [part.shape for part in (y, *states)] == [(4, 10)] + [(4, 5)] * 4

    def test_layers_with_sizes(self):
        layer = L.Bidirectional(L.LSTM(5, input_shape=(7, 3)))
        assert len(layer.variables) == 6

    @pytest.mark.parametrize("policy", ["mixed_bfloat16", "float64"])
    def test_the_layer_made_for_the_other_way_follows_the_policy(self, policy):
        with L.policy(policy):
            layer = L.Bidirectional(L.GRU(5))
        frozen = L.Bidirectional(L.GRU(5, dtype=policy, trainable=False))
        for one in (layer, frozen):
            assert one.backward.dtype == one.forward.dtype
            assert one.backward.compute_dtype == one.forward.compute_dtype
            assert one(X).dtype == one.forward.compute_dtype
        assert not frozen.trainable_variables

    def test_errors(self):
        with pytest.raises(pb.errors.InputValueError, match="same direction"):
            L.Bidirectional(L.LSTM(5), L.LSTM(5))
        with pytest.raises(pb.errors.InputValueError, match="return_sequences"):
            L.Bidirectional(L.LSTM(5), L.LSTM(5, reverse=True, return_sequences=True))
        with pytest.raises(pb.errors.InputValueError, match="average"):
            L.Bidirectional(L.LSTM(5), merge="average")
