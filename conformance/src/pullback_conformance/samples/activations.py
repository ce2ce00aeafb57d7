"""Samples of the activation functions."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np

from pullback import errors
from pullback_conformance.draws import away, integers, normal
from pullback_conformance.sample import Sample, call, rough, suite, wrong

Array: TypeAlias = Any

_EDGES = np.array([0.0, -0.0, 1e-30, -1e-30, 1e4, -1e4, np.inf, -np.inf, np.nan])
_SMOOTH = (
    call(normal(3, 4) * 2),
    call(normal(2, 3, 4, seed=1) * 8, note="wide"),
    call(normal(seed=2), note="0-d"),
    call(normal(0, 3), note="empty"),
    call(np.linspace(-30.0, 30.0, 61), note="line"),
)
_KINKED = (
    call(away(3, 4) * 2),
    call(away(seed=2), note="0-d"),
    call(normal(0, 3), note="empty"),
    call(np.array([0.5, -0.5, 2.5, -2.5, 3.5, -3.5, 7.0, -7.0]), note="both sides"),
)
_FINITE_EDGES = rough(_EDGES[:6], note="edges")
_ALL_EDGES = rough(_EDGES, note="infinities and NaN")
_INTEGERS = call(integers(-9, 9, 3, 4), note="integers")


def _sigmoid(x: Array) -> Array:
    return np.where(x < 0, np.exp(np.minimum(x, 0)), 1) / (1 + np.exp(-np.abs(x)))


def _finite_below(x: Array) -> Array:
    """x, but no -inf, which would make NaN of a factor that is 0 there."""
    return np.maximum(x, -1e4)


def _softplus(x: Array) -> Array:
    return np.logaddexp(x, 0)


def _elu(x: Array, *, alpha: float = 1.0) -> Array:
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def _celu(x: Array, *, alpha: float = 1.0) -> Array:
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0) / alpha))


def _selu(x: Array) -> Array:
    return 1.0507009873554804934193349852946 * _elu(x, alpha=1.6732632423543772848170429916717)


def _leaky_relu(x: Array, *, negative_slope: float = 0.01) -> Array:
    return np.where(x > 0, x, negative_slope * x)


def _gelu(x: Array, *, approximate: Any = False) -> Array:
    if approximate in (True, "tanh"):
        return _finite_below(x) * _sigmoid(2 * np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))
    x = x.astype(np.float64)
    return 0.5 * _finite_below(x) * np.vectorize(math.erfc, otypes=[float])(-x * np.sqrt(0.5))


def _glu(x: Array, *, axis: int = -1) -> Array:
    a, b = np.split(x, 2, axis)
    return a * _sigmoid(b)


suite("relu", lambda x: np.maximum(x, 0), either_zero=True)(*_KINKED, _ALL_EDGES, _INTEGERS)
suite("relu_gradient", lambda g, out: np.where(out > 0, g, 0))(
    call(normal(3, 4), np.maximum(away(3, 4, seed=1), 0), note="of relu"),
    call(normal(seed=2), away(seed=3), note="0-d"),
    call(normal(0, 3), normal(0, 3), note="empty"),
    rough(_EDGES, np.zeros(9), note="infinities are dropped"),
)
suite("relu6", lambda x: np.clip(x, 0, 6), either_zero=True)(*_KINKED, _ALL_EDGES, _INTEGERS)
suite("hard_tanh", lambda x: np.clip(x, -1, 1))(*_KINKED, _ALL_EDGES, _INTEGERS)
suite("leaky_relu", _leaky_relu)(
    *_KINKED,
    _FINITE_EDGES,
    _INTEGERS,
    call(away(3, 4), negative_slope=0.2),
    call(away(3, 4), negative_slope=1.5, note="steeper"),
    call(away(3, 4), negative_slope=-0.5, note="bent back"),
)


def _pairs(*more: Sample, **attributes: Any) -> tuple[Sample, ...]:
    """Cotangents, and points where no slope jumps."""
    return (
        call(normal(3, 4, seed=1), away(3, 4), **attributes),
        call(normal(3, 1, seed=1), away(4), note="broadcast", **attributes),
        call(normal(seed=2), away(seed=3), note="0-d", **attributes),
        call(normal(0, 3), normal(0, 3), note="empty", **attributes),
        *more,
    )


suite(
    "leaky_relu_gradient",
    lambda g, x, *, negative_slope: np.where(x > 0, g, negative_slope * g),
)(
    *_pairs(negative_slope=0.2),
    *_pairs(negative_slope=-1.5),
    rough(_EDGES[4:], np.zeros(5), negative_slope=0.5, note="infinities and NaN"),
)
# Below -80 exp(x) is subnormal, with few digits: g has as many errors of its steps.
suite(
    "elu_gradient",
    lambda g, x, *, alpha: np.where(x > 0, g, g * alpha * np.exp(np.minimum(x, 0))),
    domain={"x": (-80, np.inf)},
    integer_domain={"x": (-80, 1 << 62)},
)(
    *_pairs(alpha=1.0),
    *_pairs(alpha=0.3),
    rough(np.ones(4), np.array([-1e4, 1e4, -np.inf, np.inf]), alpha=0.5, note="far"),
    rough(np.ones(2), np.array([0.0, -0.0]), alpha=0.5, note="the corner"),
)
suite("prelu", lambda x, slope: np.where(x > 0, x, x * slope))(
    call(away(3, 4), normal(3, 4, seed=1)),
    call(away(2, 3, 4), normal(4, seed=1), note="one slope a channel"),
    call(away(seed=1), normal(seed=1), note="0-d"),
    call(away(0, 3), normal(3), note="empty"),
)
suite("hard_sigmoid", lambda x: np.clip(x + 3, 0, 6) / 6)(*_KINKED, _FINITE_EDGES, _INTEGERS)
suite("hard_silu", lambda x: np.maximum(x, -3) * (np.clip(x + 3, 0, 6) / 6))(
    *_KINKED, _FINITE_EDGES, _INTEGERS
)
suite("elu", _elu, either_zero=True)(*_KINKED, _ALL_EDGES, call(away(3, 4), alpha=0.3))
suite("celu", _celu, either_zero=True)(*_KINKED, _ALL_EDGES, call(away(3, 4), alpha=0.3))
suite("selu", _selu, either_zero=True)(*_KINKED, _ALL_EDGES)
suite("sigmoid", _sigmoid)(*_SMOOTH, _ALL_EDGES, _INTEGERS)
suite("sigmoid_gradient", lambda g, out: g * out * (1 - out), domain={"out": (0, 1)})(
    call(normal(3, 4), _sigmoid(normal(3, 4, seed=1) * 3), note="of sigmoid"),
    call(normal(3, 1), _sigmoid(normal(4)), note="broadcast"),
    call(normal(seed=2), _sigmoid(normal(seed=3)), note="0-d"),
    call(normal(0, 3), normal(0, 3), note="empty"),
    call(normal(6), np.array([0.0, 1.0, 1e-20, 0.999, 0.001, 0.5]), note="flat"),
    rough(_EDGES[4:], np.full(5, 0.25), note="infinities and NaN"),
)
suite("softplus", _softplus)(*_SMOOTH, _ALL_EDGES, _INTEGERS)
suite("log_sigmoid", lambda x: -_softplus(-x))(*_SMOOTH, _ALL_EDGES, _INTEGERS)
suite("silu", lambda x: _finite_below(x) * _sigmoid(x))(*_SMOOTH, _FINITE_EDGES, _INTEGERS)
suite(
    "silu_gradient",
    lambda g, x: g * (_sigmoid(x) * (1 + np.clip(x, -1e4, 1e4) * _sigmoid(-x))),
    scale=lambda g, x: np.abs(g) * _sigmoid(x) * (1 + np.clip(np.abs(x), 0, 1e4)),
)(
    call(normal(3, 4, seed=1), normal(3, 4) * 4),
    call(normal(3, 1, seed=1), normal(4) * 4, note="broadcast"),
    call(normal(seed=1), normal(seed=2), note="0-d"),
    call(normal(0, 3), normal(0, 3), note="empty"),
    call(normal(61), np.linspace(-30.0, 30.0, 61), note="line"),
    rough(np.ones(5), np.array([1e6, -1e6, np.inf, -np.inf, np.nan])),
)
suite("mish", lambda x: _finite_below(x) * np.tanh(_softplus(x)))(
    *_SMOOTH, _FINITE_EDGES, _INTEGERS
)


def _mish_slope(x: Array) -> Array:
    t = np.tanh(_softplus(x))
    return t + np.clip(x, -1e4, 1e4) * _sigmoid(x) * (1 - t * t)


suite(
    "mish_gradient",
    lambda g, x: g * _mish_slope(x),
    scale=lambda g, x: np.abs(g) * _sigmoid(x) * (2 + np.clip(np.abs(x), 0, 1e4)),
)(
    *_pairs(),
    call(normal(61), np.linspace(-30.0, 30.0, 61), note="line"),
    rough(np.ones(5), np.array([1e6, -1e6, np.inf, -np.inf, np.nan])),
)
suite("softsign", lambda x: x / (1 + np.abs(x)))(*_KINKED, _FINITE_EDGES, _INTEGERS)
suite(
    "gelu",
    _gelu,
    scale=lambda x, **how: (
        np.abs(_gelu(x.astype(np.float64), **how)) * (1 + np.square(x, dtype=np.float64))
    ),
    domain={"x": (-12.0, np.inf)},
    integer_domain={"x": (-12, 2**63)},
)(
    call(normal(3, 4) * 2),
    call(normal(3, 4) * 2, approximate=True),
    call(normal(3, 4) * 2, approximate="tanh"),
    call(normal(3, 4) * 2, approximate="none"),
    call(normal(seed=2), note="0-d"),
    call(normal(0, 3), note="empty"),
    _FINITE_EDGES,
    wrong(errors.InputValueError, normal(3), approximate="erf"),
)


def _gelu_gradient(g: Array, x: Array, *, approximate: Any = False) -> Array:
    x = np.clip(x, -1e4, 1e4)
    if approximate in (True, "tanh"):
        s = _sigmoid(2 * np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))
        slope = 2 * np.sqrt(2 / np.pi) * (1 + 3 * 0.044715 * x**2)
        return g * (s + x * slope * s * (1 - s))
    x = x.astype(np.float64)
    normal_below = 0.5 * np.vectorize(math.erfc, otypes=[float])(-x * np.sqrt(0.5))
    return g * (normal_below + x * np.exp(-x * x / 2) / np.sqrt(2 * np.pi))


suite(
    "gelu_gradient",
    _gelu_gradient,
    scale=lambda g, x, **how: (
        np.abs(g)
        * (np.exp(-x * x / 2) * (1 + np.abs(x)) + np.where(x > -1, 1, 0))
        * (1 + x * x).astype(float)
    ),
)(
    call(normal(3, 4, seed=1), normal(3, 4) * 2),
    call(normal(3, 4, seed=1), normal(3, 4) * 2, approximate=True),
    call(normal(seed=1), normal(seed=2), note="0-d"),
    call(normal(0, 3), normal(0, 3), note="empty"),
    wrong(errors.InputValueError, normal(3), normal(3), approximate="erf"),
)
suite("glu", _glu)(
    call(normal(3, 4)),
    call(normal(4, 3), axis=0),
    call(normal(2, 6, 3), axis=-2),
    call(normal(0, 4), note="empty"),
    wrong(errors.ShapeError, normal(3)),
    wrong(errors.AxisError, normal(2), axis=1),
)
