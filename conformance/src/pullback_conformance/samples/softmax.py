"""Samples of softmax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from pullback import errors
from pullback_conformance.draws import integers, normal
from pullback_conformance.sample import Sample, call, rough, suite, wrong

Array: TypeAlias = Any


def _softmax(x: Array, *, axis: int = -1) -> Array:
    if not x.size:
        return x
    e = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return e / np.sum(e, axis=axis, keepdims=True)


def _log_softmax(x: Array, *, axis: int = -1) -> Array:
    if not x.size:
        return x
    shifted = x - np.max(x, axis=axis, keepdims=True)
    return shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True))


def _terms(x: Array, *, axis: int = -1) -> Array:
    """What cancels: the distance from the largest, and the logarithm."""
    if not x.size:
        return x
    size = np.where(np.isfinite(x), np.abs(x), 0)
    return np.max(size, axis=axis, keepdims=True) + size + np.log(x.shape[axis])


_SAMPLES = (
    call(normal(3, 5)),
    call(normal(3, 5) * 10, axis=0),
    call(normal(2, 3, 4), axis=-2),
    call(normal(2, 100, seed=3) * 5, note="many classes"),
    call(normal(64, 10, seed=4), note="short rows"),
    call(normal(1), note="one class"),
    call(normal(0, 3), note="no rows"),
    call(normal(3, 0), note="no classes"),
    call(integers(-5, 5, 2, 3), note="integers"),
    rough(np.array([[300.0, -300.0, 0.0], [300.0] * 3]), note="large"),
    rough(
        np.array([[1e4, -1e4, 0.0], [1e4, 1e4, 1e4]]),
        dtypes=("float32", "float16", "bfloat16"),
        note="larger",
    ),
    rough(np.array([[0.5, -np.inf, 1.5]]), note="masked"),
    rough(np.array([[np.nan, 1.0], [1.0, 2.0]]), note="NaN"),
)
_ERRORS = [wrong(errors.AxisError, normal(2, 3), axis=2)]


def _weighted(x: Array, *, axis: int = -1) -> Array:
    """What the rounding of x - max makes of the result."""
    if not x.size:
        return x
    return _softmax(x, axis=axis) * (1 + np.max(x, axis=axis, keepdims=True) - x)


suite("softmax", _softmax, scale=_weighted)(*_SAMPLES, *_ERRORS)
suite("log_softmax", _log_softmax, scale=_terms)(*_SAMPLES, *_ERRORS)


# Their gradients, given g and the result. -------------------------------------------------------


def _softmax_gradient(g: Array, out: Array, *, axis: int = -1) -> Array:
    return out * (g - np.sum(g * out, axis=axis, keepdims=True))


def _softmax_gradient_terms(g: Array, out: Array, *, axis: int = -1) -> Array:
    return out * (np.abs(g) + np.sum(np.abs(g * out), axis=axis, keepdims=True))


def _log_softmax_gradient(g: Array, out: Array, *, axis: int = -1) -> Array:
    return g - np.exp(out) * np.sum(g, axis=axis, keepdims=True)


def _log_softmax_gradient_terms(g: Array, out: Array, *, axis: int = -1) -> Array:
    # What is rounded in `out` becomes a relative error of its exponential.
    total = np.sum(np.abs(g), axis=axis, keepdims=True)
    return np.abs(g) + np.exp(out) * (1 + np.abs(out)) * total


def _with_cotangents(forward: Callable[..., Array]) -> tuple[Sample, ...]:
    """What goes in: cotangents, and results for the inputs of some samples."""
    chosen = [one for one in _SAMPLES if one.gradient and one.note != "integers"]
    pairs = [
        call(
            normal(*one.inputs[0].shape, seed=9),
            forward(one.inputs[0], **one.attributes),
            **one.attributes,
            note=one.note,
        )
        for one in chosen
    ]
    masked = forward(np.array([[0.5, -np.inf, 1.5]]))
    return *pairs, rough(normal(1, 3), masked, note="masked")


_GRADIENT_ERRORS = [
    wrong(errors.AxisError, normal(2, 3), normal(2, 3), axis=2),
    wrong(errors.ShapeError, normal(3), normal(2, 3)),
]
suite("softmax_gradient", _softmax_gradient, scale=_softmax_gradient_terms)(
    *_with_cotangents(_softmax), *_GRADIENT_ERRORS
)
suite(
    "log_softmax_gradient",
    _log_softmax_gradient,
    scale=_log_softmax_gradient_terms,
    without={"exceptional": "out is the logarithm of a probability"},
)(*_with_cotangents(_log_softmax), *_GRADIENT_ERRORS)
