"""Beam search: the exact answer over all paths, the same search written with a dict, Keras's."""

import itertools
from collections import defaultdict

import numpy as np
import pytest

import pullback as pb
from pullback_conformance.samples import load

REFERENCE = load()["ctc_beam_search"].reference


def shares(logits):
    odds = np.exp(logits)
    return odds / odds.sum(-1, keepdims=True)


def by_all_paths(logits, blank):
    """The probability of each labeling: the sum over all paths that collapse to it."""
    found = defaultdict(float)
    chances = shares(logits)
    for path in itertools.product(range(logits.shape[1]), repeat=len(logits)):
        merged = [label for label, _ in itertools.groupby(path)]
        labels = tuple(label for label in merged if label != blank)
        found[labels] += np.prod([chances[t, label] for t, label in enumerate(path)])
    return sorted(found.items(), key=lambda pair: -pair[1])


def listed(result, item):
    """The labelings of probability above 0, as (labels, log probability)."""
    labels, lengths, scores = (x.numpy()[item] for x in result)
    for row, length, score in zip(labels, lengths, scores, strict=True):
        assert (row[length:] == -1).all()
        assert (row[:length] >= 0).all()
        assert score > -np.inf or length == 0
    return [
        (tuple(row[:length].tolist()), score)
        for row, length, score in zip(labels, lengths, scores, strict=True)
        if score > -np.inf
    ]


@pytest.mark.parametrize("seed", range(12))
def test_a_wide_beam_has_the_exact_answer(seed):
    rng = np.random.default_rng(seed)
    frames, classes = int(rng.integers(1, 6)), int(rng.integers(1, 4))
    blank = int(rng.integers(classes))
    logits = rng.normal(size=(2, frames, classes)) * 2
    lengths = rng.integers(0, frames + 1, 2)
    result = pb.ctc_beam_search(logits, lengths, beam_width=400, top_paths=400, blank=blank)
    for item, length in enumerate(lengths.tolist()):
        expected = by_all_paths(logits[item, :length], blank)
        found = listed(result, item)
        assert [labels for labels, _ in found] == [labels for labels, _ in expected]
        np.testing.assert_allclose(
            np.exp([score for _, score in found]), [chance for _, chance in expected], rtol=1e-12
        )


@pytest.mark.parametrize("seed", range(40))
def test_a_narrow_beam_is_that_of_a_dict(seed):
    rng = np.random.default_rng(seed)
    batch, frames, classes, width = (int(n) for n in rng.integers((1, 1, 2, 1), (4, 12, 6, 14)))
    blank, paths = int(rng.integers(classes)), int(rng.integers(1, width + 1))
    # Of large and small differences between classes: few and many prefixes come back.
    logits = rng.normal(size=(batch, frames, classes)) * rng.choice([0.3, 1, 4])
    lengths = rng.integers(0, frames + 1, batch)
    options = {"beam_width": width, "top_paths": paths, "blank": blank}
    found = pb.ctc_beam_search(logits, lengths, **options)
    labels, counts, scores = REFERENCE(logits, lengths, **options)
    np.testing.assert_array_equal(found[0].numpy(), labels)
    np.testing.assert_array_equal(found[1].numpy(), counts)
    np.testing.assert_allclose(found[2].numpy(), scores, rtol=1e-10, atol=1e-14)


def test_a_prefix_that_fell_out_comes_back():
    """The parent of a kept labeling grows from its grandparent again: both are one."""
    again = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        logits = rng.normal(size=(1, 7, 3)) * 3
        before = listed(pb.ctc_beam_search(logits, [5], beam_width=3, top_paths=3), 0)
        after = listed(pb.ctc_beam_search(logits, [6], beam_width=3, top_paths=3), 0)
        names, later = {labels for labels, _ in before}, [labels for labels, _ in after]
        assert len(set(later)) == len(later)
        again += any(
            labels[:-1] in later and labels[:-1] not in names for labels in names & set(later)
        )
    assert again


def test_scores_are_those_of_the_loss():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(2, 4, 3))
    labels, counts, scores = pb.ctc_beam_search(logits, [4, 3], beam_width=100, top_paths=4)
    for place in range(4):
        loss = pb.ctc_loss(logits, pb.maximum(labels[:, place], 0), [4, 3], counts[:, place])
        np.testing.assert_allclose(-loss.numpy(), scores[:, place].numpy(), rtol=1e-12)


def test_numbers_of_keras():
    """Those of Keras's own test of `ctc_decode`, where classes have equal scores."""
    logits = [
        [[0.1, 0.4, 0.2, 0.4], [0.3, -0.3, 0.4, 0.2], [0.3, 0.2, 0.4, 0.3]],
        [[0.7, 0.4, 0.3, 0.2], [0.3, 0.3, 0.4, 0.1], [0.6, -0.1, 0.1, 0.5]],
        [[0.1, 0.4, 0.2, 0.7], [0.3, 0.3, -0.2, 0.7], [0.3, 0.2, 0.4, 0.1]],
    ]
    labels, counts, scores = pb.ctc_beam_search(logits, [3, 3, 1], beam_width=4, top_paths=2)
    assert labels[:, 0].tolist() == [[1, 2, -1], [2, -1, -1], [3, -1, -1]]
    assert labels[:, 1].tolist() == [[2, -1, -1], [3, -1, -1], [1, -1, -1]]
    assert counts.tolist() == [[2, 1], [1, 1], [1, 1]]
    expected = [[-2.426537, -2.435596], [-2.127681, -2.182338], [-1.063386, -1.363386]]
    np.testing.assert_allclose(scores.numpy(), expected, atol=1e-6)


def test_padding_does_not_count():
    rng = np.random.default_rng(1)
    logits = rng.normal(size=(1, 9, 4)).astype(np.float32)
    short = pb.ctc_beam_search(logits[:, :6], [6], beam_width=5, top_paths=5)
    long = pb.ctc_beam_search(logits, [6], beam_width=5, top_paths=5)
    assert (long[0][:, :, :6].numpy() == short[0].numpy()).all()
    assert all((a.numpy() == b.numpy()).all() for a, b in zip(short[1:], long[1:], strict=True))


def test_nan_gives_nan():
    labels, counts, scores = pb.ctc_beam_search([[[0.0, float("nan")]]], [1], beam_width=2)
    assert np.isnan(scores.numpy()).all()
    assert (counts.tolist(), labels.tolist()) == ([[0]], [[[-1]]])


def test_captured_and_mapped():
    rng = np.random.default_rng(2)
    logits = pb.asarray(rng.normal(size=(3, 2, 6, 4)).astype(np.float32))

    def decode(x):
        return pb.ctc_beam_search(x, [6, 4], beam_width=4, top_paths=2)

    eager = [decode(x) for x in logits]
    program = pb.function(decode)
    mapped = pb.vmap(decode)(logits)
    for i, expected in enumerate(eager):
        for found in (program(logits[i]), [x[i] for x in mapped]):
            assert all((a.numpy() == b.numpy()).all() for a, b in zip(found, expected, strict=True))


def test_gradient_is_that_of_the_loss():
    rng = np.random.default_rng(3)
    logits = rng.normal(size=(2, 4, 3))
    logits[0, 1, 2] = -np.inf
    labels, counts, _ = pb.ctc_beam_search(logits, [4, 3], beam_width=100)

    def score(x):
        return pb.sum(pb.ctc_beam_search(x, [4, 3], beam_width=100)[2])

    def negative_loss(x):
        return -pb.sum(pb.ctc_loss(x, pb.maximum(labels[:, 0], 0), [4, 3], counts[:, 0]))

    found, expected = (pb.grad(f)(logits).numpy() for f in (score, negative_loss))
    np.testing.assert_allclose(found, expected, atol=1e-14)
