"""Masks and lengths: padded sequences give what each gives alone, and no mask is lost unseen."""

from __future__ import annotations

import copy
import json
import pickle

import numpy as np
import pytest

import pullback as pb

L = pb.layers
E = pb.errors


def close(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-11)


def drawn(rng):
    """A recurrent layer with settings at random, whose outputs of all steps are returned."""
    kind = [L.SimpleRNN, L.LSTM, L.GRU][rng.integers(3)]
    how = {"use_bias": bool(rng.integers(2)), "reverse": bool(rng.integers(2))}
    with L.policy("float64"):
        layer = kind(
            int(rng.integers(1, 4)), bias_initializer="normal", return_sequences=True, **how
        )
        if rng.integers(2):
            merge = ["concat", "sum", "mean", "multiply"][rng.integers(4)]
            return L.Bidirectional(layer, merge=merge)
        return layer


def spelled(way, x, lengths):
    """The arguments of a call in one of the ways to say what exists."""
    mask = np.arange(x.shape[1]) < lengths[:, None]
    if way == "lengths":
        return (x,), {"lengths": [int(n) for n in lengths]}
    if way == "mask":
        return (x,), {"mask": mask}
    return (L.Masked(x, pb.asarray(mask)),), {}


@pytest.mark.parametrize("capture", [False, True], ids=["eager", "captured"])
@pytest.mark.parametrize("seed", range(8))
def test_padded_sequences_give_what_each_gives_alone(seed, capture):
    rng = np.random.default_rng(seed)
    batch, time, features = rng.integers(1, 5), rng.integers(1, 7), rng.integers(1, 4)
    lengths = rng.integers(0, time + 1, batch)
    x = pb.asarray(rng.standard_normal((batch, time, features)))
    first, second = drawn(rng), drawn(rng)
    way = ["lengths", "mask", "masked"][seed % 3]

    def run(x, weights, args, how):
        with pb.GradientTape() as tape:
            tape.watch(x)
            args = (L.Masked(x, args[0].mask),) if way == "masked" and args else (x,)
            y = second(first(*args, **how), **how)
            y = y.values if type(y) is L.Masked else y
            loss = pb.sum(y * weights)
        variables = first.trainable_variables + second.trainable_variables
        return y, *tape.gradient(loss, [x, *variables])

    second(first(x))
    weights = rng.standard_normal((batch, time, second(first(x)).shape[-1]))
    exists = np.arange(time) < lengths[:, None]
    padded = pb.function(run) if capture else run
    y, dx, *gradients = padded(
        x, pb.asarray(weights * exists[..., None]), *spelled(way, x, lengths)
    )
    assert not dx.numpy()[~exists].any()
    sums = [0.0] * len(gradients)
    for row, length in enumerate(lengths):
        if not length:
            continue
        alone, dalone, *parts = run(
            x[row : row + 1, :length], weights[row : row + 1, :length], (), {}
        )
        close(y[row : row + 1, :length], alone)
        close(dx[row : row + 1, :length], dalone)
        sums = [total + part.numpy() for total, part in zip(sums, parts, strict=True)]
    for gradient, total in zip(gradients, sums, strict=True):
        close(gradient, np.broadcast_to(total, gradient.shape))


@pytest.mark.parametrize("zero", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("kind", [L.SimpleRNN, L.LSTM, L.GRU], ids=lambda kind: kind.__name__)
def test_holes_carry_the_state_over(kind, reverse, zero):
    rng = np.random.default_rng(3)
    x, mask = rng.standard_normal((1, 9, 3)), rng.random((1, 9)) < 0.5
    layer = kind(
        4, dtype="float64", return_sequences=True, return_state=True, reverse=reverse,
        zero_output_for_mask=zero,
    )  # fmt: skip
    y, *state = layer(x, mask=mask)
    without, *last = layer(x[:, mask[0]])
    for one, other in zip(state, last, strict=True):
        close(one, other)
    close(y[:, mask[0]], without)
    expected = np.zeros(4)
    for step in range(9)[:: -1 if reverse else 1]:
        if mask[0, step]:
            expected = y[0, step].numpy()
        close(y[0, step], 0 if zero and not mask[0, step] else expected)


def test_wrong_lengths():
    layer, x = L.GRU(3), np.zeros((2, 4, 3), "f")
    for wrong in ([1.0, 2.0], [1], [[1, 2]]):
        with pytest.raises(E.LayerError, match=r"gru \(GRU\): lengths must be integers"):
            layer(x, lengths=wrong)
    with pytest.raises(E.LayerError, match="mask and lengths"):
        L.Bidirectional(layer)(x, mask=np.ones((2, 4), bool), lengths=[1, 2])
    with pytest.raises(E.LayerError, match=r"x\.values"):
        layer(L.Masking()(x), lengths=[1, 2])
    assert layer(x, lengths=np.array([1, 2], "uint8")).shape == (2, 3)


IDS = np.array([[3, 1, 4, 0, 0], [1, 5, 9, 2, 6], [2, 0, 0, 0, 0]], "int32")
MASK = IDS != 0
BODIES = {
    "last": lambda: [
        L.Dropout(0.5),
        L.LSTM(4, return_sequences=True),
        L.Dense(3, "relu"),
        L.GRU(2),
    ],
    "mean": lambda: [L.LayerNormalization(), L.Activation("tanh"), L.GlobalAveragePool1D()],
    "largest": lambda: [L.Bidirectional(L.GRU(3, return_sequences=True)), L.GlobalMaxPool1D()],
    "attention": lambda: [L.MultiHeadAttention(2, 3), L.GRU(3)],
    "steps": lambda: [L.Bidirectional(L.LSTM(3, return_sequences=True)), L.Dense(2)],
}


def alone(y, row, mask):
    """The part of one item of a result, without padding."""
    return y.values[row][mask[row]] if type(y) is L.Masked else y[row]


@pytest.mark.parametrize("body", BODIES)
def test_masks_flow_through_models(body, tmp_path):
    with L.policy("float64"):
        table = L.Embedding(10, 4, mask_zero=True)
        layers = BODIES[body]()

    class Mine(pb.Model):
        def __init__(self):
            super().__init__()
            self.table, self.body = table, layers

        def call(self, ids):
            x = self.table(ids)
            for layer in self.body:
                x = layer(x)
            return x

    sequence, x = pb.Sequential([table, *layers]), pb.Input((None,), dtype="int32")
    y = sequence(IDS)
    for row in range(3):
        one = sequence(IDS[row : row + 1, : MASK[row].sum()])
        close(alone(y, row, MASK), alone(one, 0, np.ones((1, MASK[row].sum()), bool)))
    out = table(x)
    for layer in layers:
        out = layer(out)
    model = pb.Model(x, out)
    again = pb.Model.from_config(json.loads(json.dumps(model.get_config())))
    for mine, other in zip(again.variables, model.variables, strict=True):
        mine.assign(other)
    pb.checkpoint.save_model(sequence, tmp_path / "model")
    others = [
        Mine(), pb.function(sequence), pb.function(Mine()), model, again, copy.deepcopy(model),
        pickle.loads(pickle.dumps(sequence)), pb.checkpoint.load_model(tmp_path / "model"),
        pb.Sequential([table, *layers], remat=True),
    ]  # fmt: skip
    for other in others:
        found = other(IDS)
        assert type(found) is type(y)
        for one, part in zip(pb.tree.leaves(found), pb.tree.leaves(y), strict=True):
            close(one, part)


def test_masking_finds_the_steps_that_are_padding():
    x = np.array([[[1.0, 7.0], [7.0, 7.0], [0.0, 0.0]]])
    values, mask = L.Masking(7.0)(x)
    assert mask.tolist() == [[True, False, True]]
    assert values.tolist() == [[[1.0, 7.0], [0.0, 0.0], [0.0, 0.0]]]
    assert L.Masking()(pb.ones((2, 3, 4, 5))).mask.shape == (2, 3, 4)


def test_merges_join_masks():
    rng = np.random.default_rng(0)
    a, b = (
        L.Masked(pb.asarray(rng.random((2, 4, 3))), pb.asarray(rng.random((2, 4)) < 0.6))
        for _ in range(2)
    )
    both = a.mask.numpy() & b.mask.numpy()
    for merge in (L.Add(), L.Multiply(), L.Maximum(), L.Concatenate()):
        assert (merge([a, b]).mask.numpy() == both).all()
        assert (merge([a, b.values]).mask.numpy() == a.mask.numpy()).all()
        close(merge([a, b]).values, merge([a.values, b.values]))
    joined = L.Concatenate(1)([a, b.values]).mask.numpy()
    assert (joined == np.concatenate([a.mask, np.ones((2, 4), bool)], 1)).all()
    assert L.Add()([a, a]).mask is a.mask


def test_attention_leaves_out_padding():
    rng = np.random.default_rng(0)
    x, z = rng.standard_normal((2, 3, 6)), rng.standard_normal((2, 5, 6))
    mask = np.arange(5) < np.array([[4], [2]])
    layer = L.MultiHeadAttention(2, 3, dtype="float64")
    keys = L.Masked(pb.asarray(z), pb.asarray(mask))
    expected = layer(x, z, key_mask=mask)
    close(layer(x, keys), expected)
    also = rng.random((2, 5)) < 0.7
    close(layer(x, z, keys, key_mask=also), layer(x, z, z, key_mask=mask & also))
    y, weights = layer(L.Masked(pb.asarray(x), pb.ones((2, 3), dtype="bool")), keys,
                       return_weights=True)  # fmt: skip
    close(y.values, expected)
    assert not weights.numpy()[..., 4].any()


@pytest.mark.parametrize("capture", [False, True], ids=["eager", "captured"])
@pytest.mark.parametrize("weighted", [False, True])
def test_losses_and_metrics_leave_out_padding(capture, weighted):
    rng = np.random.default_rng(1)
    targets, weights = rng.standard_normal((3, 5, 2)).astype("f"), rng.random(3).astype("f")
    model = pb.Sequential([L.Embedding(10, 4, mask_zero=True), L.Dense(2)])
    model.compile(pb.optimizers.SGD(0.0), "mse", ["mae"], weighted_metrics=["mse"], capture=capture)
    found = model.evaluate(IDS, targets, sample_weight=weights if weighted else None, verbose=False)
    error = (model(IDS).values.numpy() - targets)[MASK]
    own = np.broadcast_to(weights[:, None] if weighted else 1.0, MASK.shape)[MASK]
    squares = (error**2).mean(-1)
    close = pytest.approx
    assert found["loss"] == close((squares * own).mean(), rel=1e-5)
    assert found["mean_absolute_error"] == close(abs(error).mean(), rel=1e-5)
    assert found["mean_squared_error"] == close((squares * own).sum() / own.sum(), rel=1e-5)
    before = model.variables[1].numpy().copy()
    model.compile("sgd", "mse", capture=capture)
    model.fit(IDS, targets, verbose=False, sample_weight=weights if weighted else None)
    assert (model.variables[1].numpy() != before).any()
    assert model.predict(IDS, batch_size=2).mask.tolist() == MASK.tolist()


@pytest.mark.parametrize("capture", [False, True], ids=["eager", "captured"])
@pytest.mark.parametrize("padding", [-1, 99, 0])
def test_labels_of_padding_are_any_number(capture, padding):
    model = pb.Sequential([L.Embedding(10, 4, mask_zero=True), L.Dense(5)])
    model.compile("sgd", "sparse_softmax_cross_entropy", ["accuracy"], capture=capture)
    model.fit(IDS, np.where(MASK, IDS % 5, padding), verbose=False)
    found = model.evaluate(IDS, np.where(MASK, IDS % 5, padding), verbose=False)
    logits, labels = model(IDS).values.numpy()[MASK], (IDS % 5)[MASK]
    logs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    expected = -logs[np.arange(len(labels)), labels].mean()
    assert found["loss"] == pytest.approx(expected, rel=1e-5)
    assert found["accuracy"] == pytest.approx((logits.argmax(-1) == labels).mean())


class TestNoMaskIsLost:
    X = L.Embedding(10, 4, mask_zero=True)(IDS)

    @pytest.mark.parametrize(
        "f",
        [
            pb.relu,
            lambda x: x + 1,
            lambda x: 2 * x,
            lambda x: x + x,
            lambda x: pb.ones((3, 5, 4)) * x,
            lambda x: pb.ones((3, 5, 4)) - x,
            lambda x: x @ pb.ones((4, 2)),
            lambda x: pb.concat([x, x]),
            lambda x: pb.mean(x, axis=1),
            lambda x: pb.losses.mean_squared_error(x, x),
            pb.Sequential([pb.relu]),
            L.Lambda(pb.tanh),
        ],
    )
    def test_functions_raise(self, f):
        with pytest.raises(E.InputTypeError, match=r"x\.values.*x\.mask"):
            f(self.X)

    def test_attributes_say_what_to_write(self):
        with pytest.raises(AttributeError, match=r"no 'shape': compute with x\.values"):
            _ = self.X.shape
        assert not hasattr(self.X, "nothing")

    def test_layers_of_your_own_say_what_they_do(self):
        class Mine(L.Layer):
            def call(self, x):
                return x * 2

        with pytest.raises(E.LayerError, match=r"mine \(Mine\).*pb.layers.keep_mask"):
            Mine()(self.X)
        Mine.call_masked = L.keep_mask
        assert Mine()(self.X).mask is self.X.mask
        Mine.call_masked = L.pass_mask
        with pytest.raises(E.InputTypeError, match=r"x\.values"):
            Mine()(self.X)

    @pytest.mark.parametrize("axis", [1, -2, (1, 2)])
    def test_what_normalizes_over_time_would_lose_it(self, axis):
        for layer in (L.LayerNormalization(axis), L.RMSNormalization(axis)):
            with pytest.raises(E.LayerError, match="mask"):
                layer(self.X)
