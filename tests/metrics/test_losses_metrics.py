"""Losses against independent formulas, metrics over batches."""

from __future__ import annotations

import itertools
from typing import ClassVar

import numpy as np
import pytest
import scipy.stats
from sklearn.metrics import mean_pinball_loss

import pullback as pb
from pullback import array_api

RNG = np.random.default_rng(7)
LOGITS = RNG.normal(size=(6, 5)) * 4
CLASSES = RNG.integers(0, 5, 6)
ROWS = RNG.dirichlet(np.ones(5), 6)
X, Y = RNG.normal(size=(2, 6, 3))
PROBABILITIES = RNG.uniform(size=(6, 3))


def log_softmax(x):
    return (
        x
        - x.max(-1, keepdims=True)
        - np.log(np.exp(x - x.max(-1, keepdims=True)).sum(-1, keepdims=True))
    )


def huber(d, delta):
    return np.where(abs(d) <= delta, d**2 / 2, delta * (abs(d) - delta / 2))


def norm(x):
    return np.sqrt((x**2).sum(-1))


def focal(labels, logits, gamma=2.0, alpha=None):
    p = 1 / (1 + np.exp(-logits))
    right = labels * p + (1 - labels) * (1 - p)
    cross_entropy = -labels * np.log(p) - (1 - labels) * np.log(1 - p)
    balance = 1 if alpha is None else alpha * labels + (1 - alpha) * (1 - labels)
    return balance * (1 - right) ** gamma * cross_entropy


def info_nce(keys, queries, temperature=0.1, symmetric=False):
    cosines = queries @ keys.T / norm(keys) / norm(queries)[:, None] / temperature
    found = [-log_softmax(way).diagonal() for way in (cosines, cosines.T)]
    return np.mean(found, 0) if symmetric else found[0]


COUNTS = RNG.poisson(2.0, (6, 3)).astype(float)
MASKS = np.where(RNG.uniform(size=(6, 3)) < 0.5, 1.0, 0.0)
RATES, NEGATIVES = RNG.uniform(0.5, 3.0, size=(2, 6, 3))
#: What a loss takes after targets and predictions.
THIRD = {"triplet_margin": NEGATIVES, "gaussian_negative_log_likelihood": RATES}


def loss_of(name):
    function = getattr(pb.losses, name)
    if name not in THIRD:
        return function
    third = THIRD[name]
    return lambda x, y, *rest, **settings: function(x, y, third, *rest, **settings)


# Each loss with its two arguments and the losses of the items, written anew.
CASES = {
    "softmax_cross_entropy": (ROWS, LOGITS, -(ROWS * log_softmax(LOGITS)).sum(-1)),
    "sparse_softmax_cross_entropy": (CLASSES, LOGITS, -log_softmax(LOGITS)[range(6), CLASSES]),
    "sigmoid_cross_entropy": (
        PROBABILITIES,
        X,
        -PROBABILITIES * np.log(1 / (1 + np.exp(-X)))
        - (1 - PROBABILITIES) * np.log(1 - 1 / (1 + np.exp(-X))),
    ),
    "hinge": (np.sign(Y), X, np.maximum(0, 1 - np.sign(Y) * X)),
    "kl_divergence": (ROWS, ROWS[::-1].copy(), (ROWS * np.log(ROWS / ROWS[::-1])).sum(-1)),
    "mean_squared_error": (Y, X, (X - Y) ** 2),
    "mean_absolute_error": (Y, X, abs(X - Y)),
    "huber": (Y, X, huber(X - Y, 1.0)),
    "log_cosh": (Y, X, np.log(np.cosh(X - Y))),
    "cosine_distance": (
        Y, X,
        1 - (X * Y).sum(-1) / np.linalg.norm(X, axis=-1) / np.linalg.norm(Y, axis=-1),
    ),
    "negative_log_likelihood": (
        CLASSES, log_softmax(LOGITS), -log_softmax(LOGITS)[range(6), CLASSES],
    ),
    "sigmoid_focal_cross_entropy": (PROBABILITIES, X, focal(PROBABILITIES, X)),
    "squared_hinge": (np.sign(Y), X, np.maximum(0, 1 - np.sign(Y) * X) ** 2),
    "dice": (
        MASKS, PROBABILITIES,
        1 - (2 * (MASKS * PROBABILITIES).sum(-1) + 1e-7)
        / ((MASKS + PROBABILITIES).sum(-1) + 1e-7),
    ),
    "poisson": (COUNTS, RATES, RATES - COUNTS * np.log(RATES)),
    "gaussian_negative_log_likelihood": (Y, X, -scipy.stats.norm(X, RATES**0.5).logpdf(Y)),
    "pinball": (Y, X, abs(X - Y) / 2),
    "info_nce": (Y, X, info_nce(Y, X)),
    "triplet_margin": (Y, X, np.maximum(0, norm(Y - X) - norm(Y - NEGATIVES) + 1)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
class TestLosses:
    def test_is_listed(self, name):
        assert sorted(CASES) == sorted(pb.losses.__all__)

    def test_items(self, name):
        targets, predictions, expected = CASES[name]
        got = loss_of(name)(targets, predictions, reduction="none")
        assert got.dtype == pb.float64
        np.testing.assert_allclose(got.numpy(), expected, rtol=1e-12)

    def test_reductions(self, name):
        targets, predictions, expected = CASES[name]
        loss = loss_of(name)
        assert loss(targets, predictions).item() == pytest.approx(expected.mean(), rel=1e-12)
        total = loss(targets, predictions, reduction="sum")
        assert total.item() == pytest.approx(expected.sum(), rel=1e-12)
        with pytest.raises(pb.errors.InputValueError, match=f"{name}: reduction.*'average'"):
            loss(targets, predictions, reduction="average")

    def test_weights(self, name):
        targets, predictions, expected = CASES[name]
        loss = loss_of(name)
        weights = RNG.uniform(size=expected.shape)
        got = loss(targets, predictions, weights)
        assert got.item() == pytest.approx((weights * expected).mean(), rel=1e-12)
        assert loss(targets, predictions, 0).item() == 0.0
        first = np.zeros(expected.shape[:1] + (1,) * (expected.ndim - 1))
        first[0] = 1
        got = loss(targets, predictions, first, reduction="sum").item()
        assert got == pytest.approx(expected[0].sum(), rel=1e-12)
        with pytest.raises(pb.errors.ShapeError, match="weights"):
            loss(targets, predictions, np.ones((7, *expected.shape)))

    def test_shapes_must_fit(self, name):
        targets, predictions, _ = CASES[name]
        with pytest.raises(pb.errors.ShapeError):
            loss_of(name)(targets[:-1], predictions)
        if np.ndim(targets) == np.ndim(predictions):
            # These would broadcast, to a wrong number.
            with pytest.raises(pb.errors.ShapeError):
                loss_of(name)(targets[:, :1], predictions)

    def test_gradient(self, name):
        targets, predictions, _ = CASES[name]
        loss = loss_of(name)
        got = pb.grad(loss, 1)(targets, predictions).numpy()
        step = 1e-6
        for index in [(0, 0), (3, 1), (5, 2)]:
            ahead, behind = predictions.copy(), predictions.copy()
            ahead[index] += step
            behind[index] -= step
            slope = (loss(targets, ahead).item() - loss(targets, behind).item()) / (2 * step)
            assert got[index] == pytest.approx(slope, abs=1e-7)


@pytest.mark.parametrize(
    ("name", "settings", "targets", "predictions", "expected"),
    [
        ("sigmoid_focal_cross_entropy", {"gamma": 0.0}, MASKS, X, focal(MASKS, X, 0)),
        ("sigmoid_focal_cross_entropy", {"gamma": 0.5, "alpha": 0.25}, MASKS, X,
         focal(MASKS, X, 0.5, 0.25)),
        ("poisson", {"log_input": True}, COUNTS, X, np.exp(X) - COUNTS * X),
        ("pinball", {"quantile": 0.9}, Y, X, mean_pinball_loss(Y.T, X.T, alpha=0.9,
         multioutput="raw_values")),
        ("info_nce", {"temperature": 2.0, "symmetric": True}, Y, X, info_nce(Y, X, 2.0, True)),
        ("triplet_margin", {"margin": 3.0}, Y, X,
         np.maximum(0, norm(Y - X) - norm(Y - NEGATIVES) + 3)),
    ],
)  # fmt: skip
def test_settings(name, settings, targets, predictions, expected):
    loss = loss_of(name)
    got = loss(targets, predictions, reduction="none", **settings).numpy()
    got = got.mean(-1) if got.ndim > expected.ndim else got
    np.testing.assert_allclose(got, expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        ("sigmoid_focal_cross_entropy", {"gamma": -1.0}),
        ("sigmoid_focal_cross_entropy", {"alpha": 1.5}),
        ("pinball", {"quantile": 1.5}),
        ("info_nce", {"temperature": 0.0}),
    ],
)
def test_wrong_settings(name, setting):
    with pytest.raises(pb.errors.InputValueError, match=f"{name}: {next(iter(setting))}"):
        loss_of(name)(Y, X, **setting)


def test_poisson_of_no_counts_that_are_expected_with_certainty():
    loss = pb.losses.poisson
    assert loss([0.0, 0.0], [0.0, 1.0], reduction="none").tolist() == [0.0, 1.0]
    assert pb.grad(loss, 1)([0.0, 0.0], [0.0, 1.0]).tolist() == [0.5, 0.5]


@pytest.mark.parametrize("name", ["sigmoid_focal_cross_entropy", "triplet_margin", "dice", "nll"])
def test_gradients_are_finite_where_a_factor_is_0(name):
    logits = np.asarray([[1e4, -1e4, 0.0]], np.float32)
    zeros = np.zeros((1, 3), np.float32)
    loss, predictions = {
        "sigmoid_focal_cross_entropy": (
            lambda x: pb.losses.sigmoid_focal_cross_entropy([[1.0, 0.0, 1.0]], x, gamma=0.5),
            logits,
        ),
        "triplet_margin": (lambda x: pb.losses.triplet_margin(zeros, x, x), zeros),
        "dice": (lambda x: pb.losses.dice(zeros, x), zeros),
        "nll": (lambda x: pb.losses.negative_log_likelihood([1], pb.log_softmax(x)), logits),
    }[name]
    assert np.isfinite(pb.grad(loss)(predictions).numpy()).all()


def test_labels_outside_the_classes_have_no_likelihood():
    loss = pb.losses.negative_log_likelihood
    found = loss([0, 2, -1], np.log([[0.5, 0.5]] * 3), reduction="none").numpy()
    np.testing.assert_allclose(found, [np.log(2), np.nan, np.nan])
    with pytest.raises(pb.errors.DTypeError, match="integers"):
        loss([0.0], [[1.0, 2.0]])


@pytest.mark.parametrize("name", ["poisson", "squared_hinge", "pinball", "dice", "nll", "info_nce"])
def test_fit_captures_losses_by_name(name):
    pb.random.seed(0)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(32, 4))
    activation = {"poisson": "softplus", "dice": "sigmoid"}.get(name)
    model = pb.Sequential([pb.layers.Dense(3, activation=activation)])
    targets = rng.integers(0, 3, 32) if name == "nll" else rng.uniform(size=(32, 3))
    model.compile(pb.optimizers.SGD(0.01), loss=name, capture=True)
    losses = model.fit(x, targets, epochs=6, batch_size=32, verbose=False).history["loss"]
    assert losses[-1] < losses[0]


class TestStability:
    def test_logits_of_1e4(self):
        logits = np.asarray([[1e4, -1e4, 0.0]], np.float32)
        assert pb.losses.sparse_softmax_cross_entropy([0], logits).item() == 0.0
        assert pb.losses.sparse_softmax_cross_entropy([1], logits).item() == 2e4
        assert pb.losses.softmax_cross_entropy([[0.0, 0.0, 1.0]], logits).item() == 1e4
        assert pb.losses.sigmoid_cross_entropy(
            [[1.0, 0.0, 0.5]], logits, reduction="sum"
        ).item() == (pytest.approx(np.log(2.0)))
        for labels, loss in [
            ([1], pb.losses.sparse_softmax_cross_entropy),
            ([[0.0, 1.0, 0.0]], pb.losses.softmax_cross_entropy),
            ([[0.0, 1.0, 0.0]], pb.losses.sigmoid_cross_entropy),
        ]:
            assert np.isfinite(pb.grad(loss, 1)(labels, logits).numpy()).all()

    def test_small_losses_of_large_logits_keep_their_digits(self):
        class Bodies(pb.Backend):
            """NumPy without kernels of composites."""

            name = "bodies"
            dtypes: ClassVar = {d: np.dtype(d) for d in pb.dtypes.ALL}
            kernels: ClassVar = array_api.kernels(np)

            def from_host(self, array, device, *, copy):
                return np.array(array)

            def to_host(self, array):
                return array

            def native(self, value):
                return np.asarray(value)

        pb.register_backend(Bodies(), replace=True)
        expected = pytest.approx(np.log1p(np.exp(-10)), rel=2e-3)
        for device in ("bodies", "cpu"):
            with pb.device(device):
                logits = pb.asarray([[100.0, 90.0]])
                assert pb.losses.sparse_softmax_cross_entropy([0], logits).item() == expected
                assert pb.losses.softmax_cross_entropy([[1.0, 0.0]], logits).item() == expected

    def test_label_smoothing(self):
        smooth = ROWS * 0.9 + 0.1 / 5
        expected = -(smooth * log_softmax(LOGITS)).sum(-1).mean()
        got = pb.losses.softmax_cross_entropy(ROWS, LOGITS, label_smoothing=0.1)
        assert got.item() == pytest.approx(expected)


class TestMetrics:
    def test_guides_example(self):
        m = pb.metrics.Mean("loss")
        m(0)
        m(5)
        assert m.result() == 2.5
        m([8, 9])
        assert m.result() == 5.5
        assert m.name == "loss"
        m.reset()
        assert m.result() == 0.0

    def test_weights(self):
        m = pb.metrics.Mean()
        m([1.0, 2.0], weights=[3.0, 1.0])
        m(10.0, 0.0)
        assert m.result() == 1.25
        with pytest.raises(pb.errors.ShapeError, match="mean: weights"):
            m([1.0], [1.0, 2.0])

    def test_does_not_depend_on_the_batches(self):
        values = RNG.normal(size=1000).astype(np.float32)
        whole, parts = pb.metrics.Mean(), pb.metrics.Mean()
        whole(values)
        for part in np.split(values, 100):
            parts(part)
        assert parts.result() == pytest.approx(whole.result(), rel=1e-14)

    def test_large_sums_do_not_saturate(self):
        m = pb.metrics.Sum()
        for _ in range(3):
            m(np.full(2**20, 16.0, np.float16))
        m(1.0)
        assert m.result() == 3 * 2**24 + 1

    @pytest.mark.parametrize(
        ("make", "targets", "predictions", "expected"),
        [
            (pb.metrics.Accuracy, [1, 2, 3], [1, 0, 3], 2 / 3),
            (pb.metrics.SparseCategoricalAccuracy, [0, 1], [[2.0, 1.0], [2.0, 1.0]], 0.5),
            (pb.metrics.CategoricalAccuracy, [[1, 0], [0, 1]], [[2.0, 1.0], [2.0, 1.0]], 0.5),
            (lambda: pb.metrics.SparseTopKAccuracy(2), [0, 2], [[3.0, 2.0, 1.0]] * 2, 0.5),
            (pb.metrics.BinaryAccuracy, [1.0, 0.0, 1.0], [0.9, 0.2, 0.4], 2 / 3),
            (pb.metrics.MeanSquaredError, [1.0, 3.0], [1.0, 1.0], 2.0),
            (pb.metrics.MeanAbsoluteError, [1.0, 3.0], [1.0, 1.0], 1.0),
        ],
    )
    def test_pairs(self, make, targets, predictions, expected):
        m = make()
        m(targets, predictions)
        m(pb.asarray(targets), pb.asarray(predictions))
        assert m.result() == pytest.approx(expected)
        weighted = make()
        weighted(targets, predictions, [1.0] + [0.0] * (len(targets) - 1))
        alone = make()
        alone(targets[:1], predictions[:1])
        assert weighted.result() == alone.result()
        with pytest.raises(pb.errors.ShapeError, match="do not fit"):
            m(targets[:1], predictions)

    def test_no_tape_hears(self):
        w = pb.Variable(2.0)
        m = pb.metrics.Mean()
        with pb.GradientTape() as tape:
            loss = w * w
            m(loss)
        assert tape.gradient(loss, w).item() == 4.0

    def test_repr(self):
        m = pb.metrics.Mean("loss")
        m(2.0)
        assert repr(m) == "<Mean 'loss': 2.0>"

    def test_state(self):
        m, other = pb.metrics.Mean(), pb.metrics.Mean()
        m([1.0, 2.0])
        other.restore_state(m.checkpoint_state())
        m(9.0)
        other(9.0)
        assert other.result() == m.result() == 4.0


def test_no_step_is_taken_from_a_label_outside_the_classes():
    logits = pb.asarray([[1.0, 2.0], [0.5, -0.5]])
    with pb.GradientTape() as tape:
        tape.watch(logits)
        losses = pb.sparse_softmax_cross_entropy_with_logits(logits, pb.asarray([0, 2]))
    gradient = tape.gradient(losses, logits).numpy()
    assert np.isnan(gradient[1]).all()
    assert np.isfinite(gradient[0]).all()


def by_places(logits, labels, blank):
    """-log of the sum over all ways through blank, label, blank, ..., label, blank."""
    scores = logits - np.log(np.sum(np.exp(logits), axis=-1, keepdims=True))
    path = [blank, *(one for label in labels for one in (label, blank))]
    total = 0.0
    for way in itertools.product(range(len(path)), repeat=len(logits)):
        fits = way[0] < 2 and way[-1] >= len(path) - 2
        for before, here in itertools.pairwise(way):
            step = here - before
            fits &= step in (0, 1) or (step == 2 and path[here] != path[before])
        if fits:
            total += np.exp(sum(scores[t, path[place]] for t, place in enumerate(way)))
    return -np.log(total)


@pytest.mark.parametrize("blank", [0, 2])
def test_ctc_loss_with_the_blank_among_the_labels(blank):
    logits = (np.arange(24, dtype=np.float64).reshape(2, 4, 3) - 12) / 100
    labels = np.array([[1, 2, 1], [blank, 1, blank]])
    found = pb.ctc_loss(logits, labels, [4, 4], [3, 3], blank=blank)
    expected = [by_places(*each, blank) for each in zip(logits, labels, strict=True)]
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)


def test_ctc_loss_is_that_of_pytorch_and_keras():
    logits = (np.arange(24, dtype=np.float32).reshape(2, 4, 3) - 12) / 100
    found = pb.ctc_loss(logits, [[1, 2, 1, 0], [1, 2, 0, 2]], [4, 4], [3, 3])
    # PyTorch 2.13's F.ctc_loss; the mean is in the tests of Keras's CTC.
    np.testing.assert_allclose(found.numpy(), [2.4429, 2.4544], atol=5e-5)
    np.testing.assert_allclose(found.numpy().mean(), 2.448645, atol=1e-6)
