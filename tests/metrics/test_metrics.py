"""Metrics against scikit-learn, over batches, with weights, and through their states."""

from __future__ import annotations

import json
import weakref
from itertools import pairwise

import numpy as np
import pytest
import sklearn.metrics as reference
from scipy import special, stats

import pullback as pb
from pullback._dispatch.recording import CONSTANT
from pullback.checkpoint.encoding import decode, encode

RNG = np.random.default_rng(11)
ITEMS, CLASSES = 200, 4
#: One batch is empty, one has a single item, and in one all weights are 0.
CUTS = (0, 0, 1, 60, 70, ITEMS)
BATCHES = [slice(a, b) for a, b in pairwise(CUTS)]

SIDES = RNG.integers(0, 2, ITEMS)
# Rounded, so that scores meet.
SCORES = np.round(np.clip(SIDES * 0.3 + RNG.uniform(size=ITEMS) * 0.7, 0, 1), 2)
NUMBERS = RNG.integers(0, CLASSES, ITEMS)
ROWS = RNG.dirichlet(np.ones(CLASSES), ITEMS) + 0.5 * np.eye(CLASSES)[NUMBERS]
ROWS /= ROWS.sum(-1, keepdims=True)
GUESSES = ROWS.argmax(-1)
ONE_HOT = np.eye(CLASSES)[NUMBERS]
LABELS = RNG.integers(0, 2, (ITEMS, 3))
LABEL_SCORES = RNG.uniform(size=(ITEMS, 3))
TRUE = RNG.normal(size=ITEMS) * 3 + 1e4
GUESSED = TRUE + RNG.normal(size=ITEMS)
TRUE2, GUESSED2 = RNG.normal(size=(2, ITEMS, 3)) * [1.0, 10.0, 0.1] + [0.0, 5.0, 1e3]
POSITIVE, POSITIVE_GUESS = RNG.uniform(0.1, 9, size=(2, ITEMS))
WEIGHTS = RNG.uniform(0, 3, ITEMS)
WEIGHTS[60:70] = 0

m = pb.metrics


def by_columns(function, **settings):
    return lambda t, p, sample_weight=None: function(t, p, sample_weight=sample_weight, **settings)


def iou(t, p, sample_weight=None):
    return reference.jaccard_score(t, p, average="macro", sample_weight=sample_weight)


def pearson(t, p, sample_weight=None):
    if sample_weight is None:
        return stats.pearsonr(t, p).statistic
    c = np.cov(t, p, aweights=sample_weight)
    return c[0, 1] / np.sqrt(c[0, 0] * c[1, 1])


def cosine(t, p, sample_weight=None):
    cosines = (t * p).sum(-1) / np.linalg.norm(t, axis=-1) / np.linalg.norm(p, axis=-1)
    return np.average(cosines, weights=sample_weight)


def perplexity(t, p, sample_weight=None):
    return np.exp(reference.log_loss(t, special.softmax(p, -1), sample_weight=sample_weight))


def one_against_rest(average, curve):
    area = reference.roc_auc_score if curve == "ROC" else reference.average_precision_score

    def areas(t, p, sample_weight=None):
        return area(np.eye(CLASSES)[t], p, average=average, sample_weight=sample_weight)

    return areas


def detections(name, classes, **settings):
    """A metric with its function, over the settings of both."""
    ours = {"Precision": m.Precision, "Recall": m.Recall, "F1Score": m.F1Score}[name]
    theirs = {
        "Precision": reference.precision_score,
        "Recall": reference.recall_score,
        "F1Score": reference.f1_score,
    }[name]
    cases = {}
    for average in ("macro", "micro", "weighted", None):
        cases[f"{name} classes {average}"] = (
            lambda average=average: ours(classes, average=average),
            NUMBERS,
            ROWS,
            lambda t, p, sample_weight=None, average=average: theirs(
                t, p.argmax(-1), average=average, sample_weight=sample_weight, zero_division=0
            ),
        )
        cases[f"{name} labels {average}"] = (
            lambda average=average: ours(num_labels=3, average=average),
            LABELS,
            LABEL_SCORES,
            lambda t, p, sample_weight=None, average=average: theirs(
                t, p > 0.5, average=average, sample_weight=sample_weight, zero_division=0
            ),
        )
    cases[f"{name} of two"] = (
        lambda: ours(threshold=0.4),
        SIDES,
        SCORES,
        lambda t, p, sample_weight=None: theirs(t, p > 0.4, sample_weight=sample_weight),
    )
    return cases


def top(k):
    return by_columns(reference.top_k_accuracy_score, k=k)


# Each metric with its targets, its predictions, and what says what it must be.
CASES = {
    "Accuracy": (m.Accuracy, NUMBERS, GUESSES, reference.accuracy_score),
    "BinaryAccuracy": (
        lambda: m.BinaryAccuracy(0.6),
        SIDES,
        SCORES,
        lambda t, p, sample_weight=None: reference.accuracy_score(
            t, p > 0.6, sample_weight=sample_weight
        ),
    ),
    "SparseCategoricalAccuracy": (m.SparseCategoricalAccuracy, NUMBERS, ROWS, top(1)),
    "CategoricalAccuracy": (
        m.CategoricalAccuracy,
        ONE_HOT,
        ROWS,
        lambda t, p, sample_weight=None: top(1)(t.argmax(-1), p, sample_weight),
    ),
    "SparseTopKAccuracy": (lambda: m.SparseTopKAccuracy(2), NUMBERS, ROWS, top(2)),
    "TopKAccuracy": (
        lambda: m.TopKAccuracy(3),
        ONE_HOT,
        ROWS,
        lambda t, p, sample_weight=None: top(3)(t.argmax(-1), p, sample_weight),
    ),
    "ConfusionMatrix": (
        lambda: m.ConfusionMatrix(CLASSES), NUMBERS, GUESSES, reference.confusion_matrix,
    ),
    "MeanIoU": (lambda: m.MeanIoU(CLASSES), NUMBERS, GUESSES, iou),
    "MatthewsCorrelation": (
        lambda: m.MatthewsCorrelation(CLASSES), NUMBERS, GUESSES, reference.matthews_corrcoef,
    ),
    "FBetaScore": (
        lambda: m.FBetaScore(beta=2.0),
        SIDES,
        SCORES,
        lambda t, p, sample_weight=None: reference.fbeta_score(
            t, p > 0.5, beta=2.0, sample_weight=sample_weight
        ),
    ),
    "AUC ROC": (m.AUC, SIDES, SCORES, reference.roc_auc_score),
    "AUC PR": (lambda: m.AUC(curve="PR"), SIDES, SCORES, reference.average_precision_score),
    **{
        f"AUC {curve} {average}": (
            lambda average=average, curve=curve: m.AUC(CLASSES, curve=curve, average=average),
            NUMBERS,
            ROWS,
            one_against_rest(average, curve),
        )
        for curve in ("ROC", "PR")
        for average in ("macro", "weighted", None)
    },
    "MeanSquaredError": (m.MeanSquaredError, TRUE, GUESSED, reference.mean_squared_error),
    "RootMeanSquaredError": (
        m.RootMeanSquaredError, TRUE, GUESSED, reference.root_mean_squared_error,
    ),
    "MeanAbsoluteError": (m.MeanAbsoluteError, TRUE, GUESSED, reference.mean_absolute_error),
    "MeanAbsolutePercentageError": (
        m.MeanAbsolutePercentageError, TRUE, GUESSED, reference.mean_absolute_percentage_error,
    ),
    "MeanSquaredLogarithmicError": (
        m.MeanSquaredLogarithmicError, POSITIVE, POSITIVE_GUESS, reference.mean_squared_log_error,
    ),
    "R2Score": (m.R2Score, TRUE, GUESSED, reference.r2_score),
    "R2Score uniform": (m.R2Score, TRUE2, GUESSED2, reference.r2_score),
    "R2Score variance": (
        lambda: m.R2Score("variance"),
        TRUE2,
        GUESSED2,
        by_columns(reference.r2_score, multioutput="variance_weighted"),
    ),
    "R2Score each": (
        lambda: m.R2Score(None),
        TRUE2,
        GUESSED2,
        by_columns(reference.r2_score, multioutput="raw_values"),
    ),
    "ExplainedVariance": (
        m.ExplainedVariance, TRUE, GUESSED + 0.5, reference.explained_variance_score,
    ),
    "ExplainedVariance each": (
        lambda: m.ExplainedVariance(None),
        TRUE2,
        GUESSED2,
        by_columns(reference.explained_variance_score, multioutput="raw_values"),
    ),
    "CosineSimilarity": (m.CosineSimilarity, TRUE2, GUESSED2, cosine),
    "Perplexity": (m.Perplexity, NUMBERS, 4 * ROWS, perplexity),
    "PearsonCorrelation": (m.PearsonCorrelation, TRUE, GUESSED, pearson),
    "MeanOf": (
        lambda: m.MeanOf(pb.losses.mean_squared_error),
        TRUE,
        GUESSED,
        reference.mean_squared_error,
    ),
    **detections("Precision", CLASSES),
    **detections("Recall", CLASSES),
    **detections("F1Score", CLASSES),
}  # fmt: skip


def value_of(metric):
    found = metric.result()
    return found.numpy() if isinstance(found, pb.Tensor) else np.asarray(found)


@pytest.mark.parametrize("name", CASES)
class TestValues:
    def test_in_batches(self, name):
        make, targets, predictions, expected = CASES[name]
        metric = make()
        for batch in BATCHES:
            metric(targets[batch], predictions[batch])
        np.testing.assert_allclose(value_of(metric), expected(targets, predictions), rtol=1e-9)

    def test_with_weights(self, name):
        make, targets, predictions, expected = CASES[name]
        metric = make()
        for batch in BATCHES:
            metric(targets[batch], pb.asarray(predictions[batch]), WEIGHTS[batch])
        wanted = expected(targets, predictions, sample_weight=WEIGHTS)
        np.testing.assert_allclose(value_of(metric), wanted, rtol=1e-9)

    def test_a_state_goes_through_a_checkpoint(self, name):
        make, targets, predictions, _ = CASES[name]
        first, second = make(), make()
        for batch in BATCHES[:3]:
            first(targets[batch], predictions[batch])
        arrays = {}
        saved = json.loads(json.dumps(encode(dict(first.checkpoint_state()), arrays, "metric")))
        second(targets[:9], predictions[:9])
        second.restore_state(decode(saved, arrays))
        for batch in BATCHES[3:]:
            first(targets[batch], predictions[batch])
            second(targets[batch], predictions[batch])
        np.testing.assert_array_equal(value_of(first), value_of(second))

    def test_reset(self, name):
        make, targets, predictions, _ = CASES[name]
        metric, fresh = make(), make()
        metric(targets[:50], predictions[:50])
        metric.reset()
        np.testing.assert_array_equal(value_of(metric), value_of(fresh))
        metric(targets, predictions)
        fresh(targets, predictions)
        np.testing.assert_array_equal(value_of(metric), value_of(fresh))

    def test_nothing_is_0(self, name):
        make, targets, predictions, _ = CASES[name]
        metric = make()
        assert not value_of(metric).any()
        metric(targets[:0], predictions[:0])
        assert name in repr(metric) or type(metric).__name__ in repr(metric)

    def test_shapes_must_fit(self, name):
        make, targets, predictions, _ = CASES[name]
        if name != "MeanOf":
            with pytest.raises(pb.errors.ShapeError, match=make().name):
                make()(targets[:3], predictions[:2])
        with pytest.raises(pb.errors.ShapeError, match=r"weights of shape \(3,\)"):
            make()(targets[:4], predictions[:4], [1.0, 2.0, 3.0])

    def test_no_tape_hears(self, name):
        make, targets, predictions, _ = CASES[name]
        scores = pb.asarray(predictions.astype(float))
        with pb.GradientTape() as tape:
            tape.watch(scores)
            make()(targets, scores)
            loss = pb.sum(scores)
        assert tape.gradient(loss, scores).shape == scores.shape


def test_every_metric_is_held_against_something():
    covered = {type(make()).__name__ for make, *_ in CASES.values()}
    assert covered | {"Mean", "Metric", "Sum"} == set(m.__all__)


def test_perplexity_of_labels_that_are_improbable_or_none():
    perplexity = m.Perplexity()
    perplexity([1], [[1e4, 0.0]])
    assert perplexity.result() == np.inf
    perplexity.reset()
    perplexity([0, 7], [[0.0, 0.0], [0.0, 0.0]])
    assert np.isnan(perplexity.result())


def test_names():
    assert m.SparseTopKAccuracy().name == "sparse_top_k_accuracy"
    assert m.MeanIoU(2).name == "mean_iou"
    assert m.R2Score().name == "r2_score"
    assert m.AUC().name == "auc"
    assert m.SparseCategoricalAccuracy().name == "sparse_categorical_accuracy"
    assert m.F1Score(3, name="f1").name == "f1"


class TestWeights:
    def test_are_of_the_first_axes(self):
        values = RNG.normal(size=(4, 4, 2))
        mean = m.Mean()
        mean(values, [1.0, 0.0, 2.0, 0.0])
        assert mean.result() == pytest.approx((values[0].mean() + 2 * values[2].mean()) / 3)
        mean = m.Mean()
        mean(values, np.eye(4))
        assert mean.result() == pytest.approx(values[range(4), range(4)].mean())
        mean = m.Mean()
        mean(values, np.ones((1, 1, 2)) * [1.0, 3.0])
        assert mean.result() == pytest.approx(np.average(values, weights=values * 0 + [1, 3]))

    def test_of_a_number_for_each_batch(self):
        error = m.MeanOf(lambda t, p: pb.mean(abs(t - p)), name="error")
        error(pb.asarray([1.0, 1.0, 1.0]), pb.asarray([0.0, 0.0, 0.0]))
        error(pb.asarray([3.0]), pb.asarray([0.0]))
        assert error.result() == 1.5
        with pytest.raises(pb.errors.InputTypeError, match="error returns one number"):
            error(pb.asarray([1.0]), pb.asarray([0.0]), [1.0])


class TestAUC:
    def test_bins_come_close(self):
        for curve, expected in [
            ("ROC", reference.roc_auc_score),
            ("PR", reference.average_precision_score),
        ]:
            exact = expected(SIDES, SCORES)
            # Scores are multiples of 0.01: each has a bin of its own.
            area = m.AUC(curve=curve, bins=1000)
            for batch in BATCHES:
                area(SIDES[batch], SCORES[batch])
            assert area.result() == pytest.approx(exact, abs=1e-12)
            coarse = m.AUC(curve=curve, bins=20)
            coarse(SIDES, SCORES)
            assert coarse.result() == pytest.approx(exact, abs=0.03)

    def test_bins_of_classes_with_weights(self):
        area = m.AUC(CLASSES, bins=10_000, average=None)
        area(NUMBERS, ROWS, WEIGHTS)
        expected = one_against_rest(None, "ROC")(NUMBERS, ROWS, sample_weight=WEIGHTS)
        np.testing.assert_allclose(area.result(), expected, atol=1e-3)

    def test_what_is_of_one_kind_has_no_area(self):
        area = m.AUC()
        area([1, 1], [0.2, 0.3])
        assert np.isnan(area.result())

    def test_a_matter_of_order_only(self):
        area = m.AUC()
        area(SIDES, np.exp(50 * SCORES))
        assert area.result() == pytest.approx(reference.roc_auc_score(SIDES, SCORES), rel=1e-12)

    def test_logits_in_bins_are_refused(self):
        with pytest.raises(pb.errors.InputValueError, match=r"auc: with bins.*sigmoid"):
            m.AUC(bins=10)([1], [1.5])


class TestEdges:
    def test_a_constant_target(self):
        for guess in ([2.0, 2.0], [2.0, 3.0]):
            score = m.R2Score()
            score([2.0, 2.0], guess)
            assert score.result() == reference.r2_score([2.0, 2.0], guess)

    def test_large_numbers_do_not_cancel_out(self):
        targets = 1e9 + RNG.normal(size=1000)
        guesses = targets + 0.1 * RNG.normal(size=1000)
        score = m.R2Score()
        for part in range(0, 1000, 7):
            score(targets[part : part + 7], guesses[part : part + 7])
        assert score.result() == pytest.approx(reference.r2_score(targets, guesses), abs=1e-6)

    def test_a_class_that_never_occurs(self):
        recall = m.Recall(3, average=None)
        recall([0, 1], [0, 1])
        assert recall.result() == [1.0, 1.0, 0.0]

    @pytest.mark.parametrize("make", [m.ConfusionMatrix, m.Precision, m.AUC])
    def test_a_class_that_there_is_not(self, make):
        rows = np.zeros((2, 3))
        with pytest.raises(
            pb.errors.InputValueError, match="must be classes from 0 to 2, got 0 to 3"
        ):
            make(3)([0, 3], rows)

    def test_wrong_settings(self):
        for make in [
            lambda: m.Precision(average="mean"),
            lambda: m.Recall(3, num_labels=2),
            lambda: m.Precision(0),
            lambda: m.FBetaScore(beta=0.0),
            lambda: m.AUC(curve="roc"),
            lambda: m.AUC(average="micro"),
            lambda: m.AUC(bins=1),
            lambda: m.R2Score("mean"),
            lambda: m.ConfusionMatrix(1),
            lambda: m.SparseTopKAccuracy(0),
        ]:
            with pytest.raises(pb.errors.InputValueError):
                make()

    @pytest.mark.parametrize("metric", [m.Mean, m.Sum])
    def test_values_keep_no_graph(self, metric):
        kept, x = metric(), pb.ones(3)
        for loss in (pb.sum, pb.exp, lambda x: x[0]):
            with pb.GradientTape() as tape:
                tape.watch(x)
                value = loss(pb.exp(x))
                node = weakref.ref(value._node)
                kept(value, 2.0)
            assert node() is not CONSTANT
            del tape, value
            assert node() is None

    @pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float16", "bfloat16", "float32"])
    def test_a_number_counts_as_an_array_of_it(self, dtype):
        rng = np.random.default_rng(1)
        several, single = m.Mean(), m.Mean()
        for weight in (None, 2, 0.1, True):
            x = pb.asarray(rng.normal(size=3) * 9 > 0 if dtype == "bool" else rng.uniform(0, 9, 3))
            x = x.astype(dtype)
            several(x, weight)
            for i in range(3):
                single(x[i], weight)
        assert single.weight == pytest.approx(several.weight, rel=1e-14)
        assert single.total == pytest.approx(several.total, rel=1e-14)

    def test_many_batches_are_summed_in_between(self):
        mean = m.Mean()
        for number in range(1000):
            mean(float(number))
            assert len(mean._pending) < 64
        assert mean.result() == 499.5
