"""Samples of the losses."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from pullback import errors
from pullback_conformance.draws import away, integers, normal, uniform
from pullback_conformance.sample import call, rough, suite, wrong

Array: TypeAlias = Any


def _distribution(*shape: int, axis: int = -1, seed: int = 0) -> Array:
    p = uniform(0.1, 1.0, *shape, seed=seed)
    return p / p.sum(axis=axis, keepdims=True)


def _log_softmax(x: Array, axis: int) -> Array:
    shifted = x - np.max(x, axis=axis, keepdims=True)
    return shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True))


def _cross_entropy(
    logits: Array, labels: Array, *, axis: int = -1, label_smoothing: float = 0.0
) -> Array:
    target = labels * (1 - label_smoothing) + label_smoothing / labels.shape[axis]
    terms = np.where(target == 0, 0, -target * _log_softmax(logits, axis))
    return np.sum(terms, axis=axis)


def _sparse_cross_entropy(
    logits: Array,
    labels: Array,
    *,
    axis: int = -1,
    label_smoothing: float = 0.0,
    ignore_label: int | None = None,
) -> Array:
    rows = np.moveaxis(_log_softmax(logits, axis), axis, -1)
    classes = rows.shape[-1]
    loss = np.full(labels.shape, np.nan, rows.dtype)
    for place in np.ndindex(labels.shape):
        label = labels[place]
        if label == ignore_label:
            loss[place] = 0
        elif 0 <= label < classes:
            loss[place] = -(1 - label_smoothing) * rows[place][label]
            if label_smoothing:
                loss[place] -= label_smoothing * rows[place].mean()
    return loss


def _size(logits: Array, labels: Array, *, axis: int = -1, **_: object) -> Array:
    """What the terms of a cross entropy are made of."""
    finite = np.where(np.isfinite(logits), np.abs(logits), 0)
    return 2 * np.max(finite, axis=axis, initial=0) + np.log(logits.shape[axis])


def _sparse_gradient(
    logits: Array,
    labels: Array,
    normalizer: Array,
    g: Array,
    *,
    axis: int = -1,
    label_smoothing: float = 0.0,
    ignore_label: int | None = None,
) -> Array:
    rows = np.moveaxis(logits, axis, -1)
    p = np.exp(rows - np.moveaxis(normalizer, axis, -1))
    classes = rows.shape[-1]
    for place in np.ndindex(labels.shape):
        p[place] -= label_smoothing / classes
        if 0 <= labels[place] < classes:
            p[place][labels[place]] -= 1 - label_smoothing
            p[place] *= g[place]
        elif labels[place] != ignore_label:
            p[place] = np.nan
        if labels[place] == ignore_label:
            p[place] = 0
    return np.moveaxis(p, -1, axis)


suite("softmax_cross_entropy_with_logits", _cross_entropy, scale=_size)(
    call(normal(4, 5) * 3, _distribution(4, 5)),
    call(normal(4, 5), _distribution(4, 5), label_smoothing=0.1),
    call(normal(4, 5), _distribution(4, 5, axis=0), axis=0),
    call(normal(2, 3, 4), _distribution(2, 3, 4, axis=1), axis=-2),
    call(normal(3), _distribution(3), note="one row"),
    call(normal(3, 4), normal(3, 4, seed=1), note="labels of any sum"),
    call(normal(0, 3), normal(0, 3), note="empty"),
    rough(np.array([[1e4, 0.0, -1e4], [-1e4, 1e4, 1e4]]), np.eye(3)[[2, 1]], note="large"),
    rough(np.array([[0.5, -np.inf, 1.5]]), np.array([[0.25, 0.0, 0.75]]), note="masked"),
    wrong(errors.ShapeError, normal(2, 3), normal(2, 4)),
    wrong(errors.ShapeError, normal(1, 1), normal(8, 8)),
)
suite("sparse_softmax_cross_entropy_with_logits", _sparse_cross_entropy, scale=_size)(
    call(normal(4, 5) * 3, integers(0, 5, 4)),
    call(normal(4, 5), integers(0, 5, 4), label_smoothing=0.1),
    call(normal(4, 5), integers(0, 4, 5), axis=0),
    call(normal(2, 3, 4), integers(0, 3, 2, 4), axis=-2),
    call(normal(5), np.asarray(3, np.int32), note="one row"),
    call(normal(4, 5), np.array([1, -1, 4, -1], np.int64), ignore_label=-1),
    call(normal(4, 5), np.array([1, 2, 4, 0], np.uint8), ignore_label=2, label_smoothing=0.2),
    call(normal(0, 3), integers(0, 3, 0), note="empty"),
    rough(normal(3, 4), np.array([0, 4, -1], np.int32), note="outside is NaN"),
    rough(np.array([[1e4, 0.0, -1e4], [-1e4, 1e4, 1e4]]), np.array([2, 1], np.int32), note="large"),
    rough(np.array([[0.5, -np.inf, 1.5]]), np.array([2], np.int32), note="masked"),
    wrong(errors.ShapeError, normal(2, 3), integers(0, 3, 3)),
    wrong(errors.DTypeError, normal(2, 3), normal(2)),
)


def _picked(log_probabilities: Array, labels: Array, *, axis: int = -1) -> Array:
    rows = np.moveaxis(log_probabilities, axis, -1)
    losses = np.full(labels.shape, np.nan, rows.dtype)
    for at in np.ndindex(*labels.shape):
        if 0 <= labels[at] < rows.shape[-1]:
            losses[at] = -rows[(*at, int(labels[at]))]
    return losses


suite("negative_log_likelihood_of_classes", _picked)(
    call(normal(4, 5), integers(0, 5, 4)),
    call(normal(2, 3, 4), integers(0, 3, 2, 4), axis=-2),
    call(normal(4, 5), np.array([1, 2, 4, 0], np.uint8), note="without a sign"),
    call(normal(5), np.asarray(3, np.int32), note="one row"),
    call(normal(0, 3), integers(0, 3, 0), note="empty"),
    rough(normal(3, 4), np.array([0, 4, -1], np.int32), note="outside is NaN"),
    wrong(errors.ShapeError, normal(2, 3), integers(0, 3, 3)),
    wrong(errors.DTypeError, normal(2, 3), normal(2)),
)
#: Logits, and what the op gives for them and gets for its result.
_LOGITS, _FROM_LOSS = normal(4, 5), (normal(4, 1, seed=1) + 3, normal(4, seed=2))
suite(
    "sparse_softmax_cross_entropy_gradient",
    _sparse_gradient,
    scale=lambda logits, labels, normalizer, g, **_: (
        np.exp(np.max(np.abs(logits), initial=0) + 4) * (1 + np.max(np.abs(g), initial=0))
    ),
    without={"exceptional": "the inputs are results of the op"},
)(
    call(_LOGITS, integers(0, 5, 4), *_FROM_LOSS),
    call(_LOGITS, np.array([1, -1, 2, 0]), *_FROM_LOSS, label_smoothing=0.1, ignore_label=-1),
    rough(_LOGITS, np.array([1, -1, 9, 2]), *_FROM_LOSS, ignore_label=2, note="outside is NaN"),
    call(normal(4, 5), integers(0, 4, 5), normal(1, 5, seed=1) + 3, normal(5, seed=2), axis=0),
    call(normal(0, 3), integers(0, 3, 0), normal(0, 1), normal(0), note="empty"),
)


def _sigmoid_cross_entropy(logits: Array, labels: Array) -> Array:
    yes, no = np.logaddexp(0, -logits), np.logaddexp(0, logits)
    return np.where(labels == 0, 0, labels * yes) + np.where(labels == 1, 0, (1 - labels) * no)


_UNIT = {"domain": {"labels": (0, 1)}, "integer_domain": {"labels": (0, 1)}}
suite("sigmoid_cross_entropy_with_logits", _sigmoid_cross_entropy, **_UNIT)(
    call(away(3, 4) * 3, uniform(0.1, 0.9, 3, 4)),
    call(away(3, 4), uniform(0.1, 0.9, 4), note="broadcast"),
    call(away(seed=1), uniform(0.1, 0.9), note="0-d"),
    call(normal(0, 3), normal(0, 3), note="empty"),
    rough(np.array([1e4, -1e4, 1e4, -1e4, 0.0]), np.array([1.0, 0.0, 0.0, 1.0, 0.5]), note="large"),
    rough(np.array([np.inf, -np.inf, np.nan]), np.array([1.0, 0.0, 0.0]), note="certain"),
)

_PAIRS = (
    call(away(3, 4) + 2, away(3, 4, seed=1) - 2),
    call(normal(3, 1, seed=2), normal(4, seed=3), note="broadcast"),
    call(normal(seed=4), normal(seed=5), note="0-d"),
    call(normal(0, 3), normal(1, 3), note="empty"),
    call(integers(-5, 5, 3, 2), integers(-5, 5, 3, 2, seed=1), note="integers"),
)


def _huber(predictions: Array, targets: Array, *, delta: float = 1.0) -> Array:
    size = np.abs(predictions - targets)
    return np.where(size <= delta, size**2 / 2, delta * (size - delta / 2))


def _log_cosh(predictions: Array, targets: Array) -> Array:
    size = np.abs(predictions - targets)
    near = np.minimum(size, 1)
    far = size + np.log1p(np.expm1(-2 * size) / 2)
    return np.where(size < 1, np.log1p(2 * np.sinh(near / 2) ** 2), far)


suite("squared_error", lambda p, t: (p - t) ** 2)(*_PAIRS)
suite("absolute_error", lambda p, t: np.abs(p - t))(*_PAIRS)
suite("huber_loss", _huber)(*_PAIRS, call(normal(3, 4), normal(3, 4, seed=1), delta=0.4))
suite("log_cosh_loss", _log_cosh, scale=lambda p, t: 2 * _log_cosh(p, t))(
    *_PAIRS, call(normal(3, 4) / 64, normal(3, 4, seed=1) / 64, note="near each other")
)
suite(
    "hinge_loss",
    lambda p, t: np.maximum(1 - p * t, 0),
    without=dict.fromkeys(
        ("broadcasting", "shared", "random"), "terms cancel for targets but -1 and 1"
    ),
)(
    call(uniform(-0.9, 0.9, 3, 4), np.sign(away(3, 4))),
    call(normal(3, 4) * 9, normal(4, seed=1), note="broadcast"),
    call(np.array(3.0), np.array(1.0), note="0-d"),
    call(normal(0, 3), normal(0, 3), note="empty"),
)


def _kl(targets: Array, predictions: Array, *, axis: int = -1) -> Array:
    safe = np.where(targets == 0, 1, targets)
    terms = np.where(targets == 0, 0, targets * (np.log(safe) - np.log(predictions)))
    return np.sum(terms, axis=axis)


suite(
    "kl_divergence",
    _kl,
    scale=lambda p, q, *, axis=-1: (
        np.sum(
            np.abs(p * np.log(np.where(p > 0, p, 1))) + np.abs(p * np.log(np.where(q > 0, q, 1))),
            axis=axis,
        )
        + np.sum(np.abs(p), axis=axis)
    ),
)(
    call(_distribution(3, 4), _distribution(3, 4, seed=1)),
    call(_distribution(3, 4, axis=0), _distribution(3, 4, axis=0, seed=1), axis=0),
    call(_distribution(4), _distribution(4, seed=1), note="one"),
    call(normal(0, 3), normal(0, 3), note="empty"),
    rough(np.array([[0.0, 1.0], [0.5, 0.5]]), np.array([[0.0, 1.0], [0.25, 0.75]]), note="zeros"),
    wrong(errors.ShapeError, normal(2, 3), normal(3)),
)


def _cosine(x1: Array, x2: Array, *, axis: int = -1, epsilon: float = 1e-12) -> Array:
    norms = [np.sqrt(np.maximum(np.sum(v * v, axis=axis), epsilon)) for v in (x1, x2)]
    return np.sum(x1 * x2, axis=axis) / norms[0] / norms[1]


suite("cosine_similarity", _cosine)(
    call(normal(3, 4), normal(3, 4, seed=1)),
    call(normal(3, 4), normal(3, 4, seed=1), axis=0),
    call(normal(4), normal(4, seed=1), epsilon=1e-3),
    call(normal(0, 3), normal(0, 3), note="empty"),
    rough(np.zeros((2, 3)), normal(2, 3), note="zero"),
    wrong(errors.ShapeError, normal(2, 3), normal(3)),
)
