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


class ResetBefore(L.GRU):
    """A GRU with the reset before the product."""

    def __init__(self, units, **settings):
        super().__init__(units, **{"reset_after": False, **settings})


KINDS = [L.SimpleRNN, L.LSTM, L.GRU, ResetBefore]

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
        elif not layer.reset_after:
            z, r, n = np.split(a, 3, axis=1)
            uz, ur, un = np.split(u, 3, axis=1)
            z, r = sigmoid(z + h @ uz), sigmoid(r + h @ ur)
            h = z * h + (1 - z) * np.tanh(n + (r * h) @ un)
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


def windows(x, kernel, strides, padding):
    """The convolution of one item in NumPy: (*spatial, channels), window by window."""
    n, size = x.ndim - 1, kernel.shape[:-2]
    if padding == "same":
        counts = [-(-have // step) for have, step in zip(x.shape, strides, strict=False)]
        total = [
            max((m - 1) * s + k - have, 0)
            for m, s, k, have in zip(counts, strides, size, x.shape, strict=False)
        ]
        x = np.pad(x, [*[(t // 2, t - t // 2) for t in total], (0, 0)])
    else:
        counts = [(have - k) // s + 1 for have, k, s in zip(x.shape, size, strides, strict=False)]
    y = np.zeros((*counts, kernel.shape[-1]))
    for place in np.ndindex(*counts):
        part = x[
            tuple(slice(i * s, i * s + k) for i, s, k in zip(place, strides, size, strict=True))
        ]
        y[place] = np.tensordot(part, kernel, n + 1)
    return y


def images_in_time(layer, x, mask):
    """The outputs and the state of a `ConvLSTM` in NumPy, item by item and step by step."""
    of_inputs, of_state = layer.kernel.numpy(), layer.recurrent_kernel.numpy()
    outputs, hs, cs = [], [], []
    for item, there in zip(x, mask, strict=True):
        first = windows(item[0], of_inputs, layer.strides, layer.padding)
        h = c = np.zeros((*first.shape[:-1], layer.units))
        made = {}
        for step in range(len(item))[:: -1 if layer.reverse else 1]:
            if there[step]:
                z = windows(item[step], of_inputs, layer.strides, layer.padding)
                z = z + layer.bias.numpy() + windows(h, of_state, (1,) * (z.ndim - 1), "same")
                i, f, g, o = np.split(z, 4, axis=-1)
                c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
                h = sigmoid(o) * np.tanh(c)
            made[step] = h
        outputs.append(np.stack([made[step] for step in range(len(item))]))
        hs.append(h)
        cs.append(c)
    return np.stack(outputs), np.stack(hs), np.stack(cs)


class TestConvolutional:
    @pytest.mark.parametrize("masked", [False, True])
    @pytest.mark.parametrize("data_format", ["channels_last", "channels_first"])
    @pytest.mark.parametrize(
        ("n", "how"),
        [
            (1, {"kernel_size": 3, "padding": "same", "reverse": True}),
            (1, {"kernel_size": 2, "strides": 2}),
            (2, {"kernel_size": (2, 3), "strides": (2, 1)}),
            (3, {"kernel_size": 2, "padding": "SAME"}),
        ],
    )
    def test_against_numpy(self, n, how, data_format, masked):
        layer = getattr(L, f"ConvLSTM{n}D")(
            2, dtype="float64", bias_initializer="normal", return_sequences=True,
            return_state=True, data_format=data_format, **how,
        )  # fmt: skip
        x = RNG.standard_normal((2, 3, *(5, 4, 3)[:n], 2))
        mask = RNG.random((2, 3)) < 0.6 if masked else np.ones((2, 3), bool)
        last = data_format == "channels_last"
        results = layer(x if last else np.moveaxis(x, -1, 2), mask=mask if masked else None)
        expected = images_in_time(layer, x, mask)
        for found, right, axis in zip(results, expected, (2, 1, 1), strict=True):
            close(found if last else np.moveaxis(found.numpy(), axis, -1), right)

    @pytest.mark.parametrize("capture", [False, True], ids=["eager", "captured"])
    def test_gradients_lengths_and_states(self, capture):
        x = pb.asarray(RNG.standard_normal((3, 4, 5, 2)))
        layer = L.ConvLSTM1D(2, 3, dtype="float64", return_state=True)

        def run(x, lengths):
            with pb.GradientTape() as tape:
                tape.watch(x)
                y, _, c = layer(x, lengths=lengths)
                loss = pb.sum(y * y + c)
            return loss, *tape.gradient(loss, [x, *layer.trainable_variables])

        layer(x)
        lengths, f = np.array([4, 1, 2]), pb.function(run) if capture else run
        loss, dx, *gradients = f(x, lengths)
        alone = [run(x[i : i + 1, :n], [n]) for i, n in enumerate(lengths)]
        close(loss, sum(float(one[0]) for one in alone))
        for i, n in enumerate(lengths):
            close(dx[i : i + 1, :n], alone[i][1])
            assert not dx[i, n:].numpy().any()
        for j, gradient in enumerate(gradients):
            close(gradient, sum(one[2 + j].numpy() for one in alone))
            variable, direction = layer.trainable_variables[j], RNG.standard_normal(gradient.shape)
            there, ends = variable.numpy().copy(), []
            for side in (1e-5, -1e-5):
                variable.assign(there + side * direction)
                ends.append(float(run(x, lengths)[0]))
            variable.assign(there)
            slope = (ends[0] - ends[1]) / 2e-5
            assert float(pb.sum(gradient * direction)) == pytest.approx(slope, rel=1e-6)
        whole = layer(x)
        _, *state = layer(x[:, :2])
        close(layer(x[:, 2:], initial_state=state)[2], whole[2])

    def test_settings(self):
        x = RNG.standard_normal((2, 3, 6, 2)).astype("f")
        layer = L.ConvLSTM1D(3, 2, stateful=True, forget_bias=2.0)
        first = layer(x)
        assert (layer(x).numpy() != first.numpy()).any()
        layer.reset_states()
        np.testing.assert_array_equal(layer(x), first)
        assert layer.bias.tolist() == [0.0] * 3 + [2.0] * 3 + [0.0] * 6
        both = L.Bidirectional(L.ConvLSTM1D(3, 2, return_sequences=True))
        assert both(x).shape == (2, 3, 5, 6)
        assert L.ConvLSTM1D(3, 2, padding="same", return_sequences=True)(x[:, :0]).shape == (
            2,
            0,
            6,
            3,
        )
        assert L.ConvLSTM2D(3, 2, input_shape=(4, 5, 5, 2)).kernel.shape == (2, 2, 2, 12)
        ends = pb.Input((None, 6, 2))
        assert L.ConvLSTM1D(3, 2, return_sequences=True)(ends).shape == (None, None, 5, 3)
        with pytest.raises(pb.errors.LayerError, match=r"\(batch, time, width, channels\)"):
            layer(x[0])
        with pytest.raises(pb.errors.LayerError, match=r"\(2, 3, 6, 1\)"):
            layer(x[..., :1])
        with pytest.raises(pb.errors.InputTypeError, match="ConvLSTM2D"):
            L.ConvLSTM(3, 2)
