"""Samples of the optimizer updates."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from pullback import errors
from pullback_conformance.draws import normal
from pullback_conformance.sample import call, suite, wrong

Array: TypeAlias = Any

_P, _G, _M = normal(3, 4), normal(3, 4, seed=1), normal(3, 4, seed=2)
_V, _W = normal(3, 4, seed=3) ** 2 + 0.01, normal(3, 4, seed=4) ** 2 + 0.01
_RATE, _STEP = np.asarray(0.25), np.asarray(3.0)


def _magnitude(*inputs: Array, **_: object) -> Array:
    """What the terms of an update are made of, generously: they may cancel."""
    size = 1 + sum(np.max(np.abs(value), initial=0) for value in inputs)
    return np.full(np.shape(inputs[0]), size * size)


def _updates(
    name: str, reference: Any, slots: Any, numbers: Any, *how: dict[str, Any],
    without: Any = MappingProxyType({}),
) -> None:  # fmt: skip
    # The ops have no defaults for these.
    usual: dict[str, Any] = reference.__kwdefaults__
    flat, empty = [np.asarray(slot[0, 0]) for slot in slots], [slot[:0] for slot in slots]
    suite(name, reference, scale=_magnitude, without=without)(
        *(call(_P, _G, *slots, *numbers, **(usual | attributes)) for attributes in ({}, *how)),
        call(_P[0, 0], _G[0, 0], *flat, *numbers, **usual, note="0-d"),
        call(_P[:0], _G[:0], *empty, *numbers, **usual, note="empty"),
        wrong(errors.ShapeError, _P, _G[0], *slots, *numbers, **usual),
        wrong(errors.ShapeError, _P, _G, *slots, normal(3, 1), *numbers[1:], **usual),
    )


def _sgd(p: Array, g: Array, rate: Array, *, weight_decay: float = 0.0) -> Array:
    return p - rate * (g + weight_decay * p)


def _momentum(
    p: Array, g: Array, v: Array, rate: Array, *, momentum: float = 0.9, nesterov: bool = False,
    weight_decay: float = 0.0,
) -> Any:  # fmt: skip
    g = g + weight_decay * p
    v = momentum * v + g
    return p - rate * (g + momentum * v if nesterov else v), v


def _adam(
    p: Array, g: Array, m: Array, v: Array, rate: Array, step: Array, *, beta1: float = 0.9,
    beta2: float = 0.999, epsilon: float = 1e-7, weight_decay: float = 0.0,
) -> Any:  # fmt: skip
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g**2
    m_hat, v_hat = m / (1 - beta1**step), v / (1 - beta2**step)
    return p - rate * (m_hat / (np.sqrt(v_hat) + epsilon) + weight_decay * p), m, v


def _amsgrad(
    p: Array, g: Array, m: Array, v: Array, v_max: Array, rate: Array, step: Array, *,
    beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-7, weight_decay: float = 0.0,
) -> Any:  # fmt: skip
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g**2
    v_max = np.maximum(v_max, v)
    m_hat, v_hat = m / (1 - beta1**step), v_max / (1 - beta2**step)
    return p - rate * (m_hat / (np.sqrt(v_hat) + epsilon) + weight_decay * p), m, v, v_max


def _nadam(
    p: Array, g: Array, m: Array, v: Array, total: Array, rate: Array, step: Array, *,
    beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-7, momentum_decay: float = 0.004,
) -> Any:  # fmt: skip
    now, later = (beta1 * (1 - 0.5 * 0.96 ** (t * momentum_decay)) for t in (step, step + 1))
    product = (1 - total) * now
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g**2
    m_hat = later * m / (1 - product * later) + (1 - now) * g / (1 - product)
    return p - rate * m_hat / (np.sqrt(v / (1 - beta2**step)) + epsilon), m, v, 1 - product


def _adamax(
    p: Array, g: Array, m: Array, u: Array, rate: Array, step: Array, *, beta1: float = 0.9,
    beta2: float = 0.999, epsilon: float = 1e-7,
) -> Any:  # fmt: skip
    m = beta1 * m + (1 - beta1) * g
    u = np.maximum(beta2 * u, np.abs(g))
    return p - rate / (1 - beta1**step) * m / (u + epsilon), m, u


def _lion(
    p: Array, g: Array, m: Array, rate: Array, *, beta1: float = 0.9, beta2: float = 0.99,
    weight_decay: float = 0.0,
) -> Any:  # fmt: skip
    direction = np.sign(beta1 * m + (1 - beta1) * g)
    return p - rate * (direction + weight_decay * p), beta2 * m + (1 - beta2) * g


def _rmsprop(
    p: Array, g: Array, square: Array, rate: Array, *, rho: float = 0.9, epsilon: float = 1e-7,
    weight_decay: float = 0.0,
) -> Any:  # fmt: skip
    g = g + weight_decay * p
    square = rho * square + (1 - rho) * g**2
    return p - rate * g / (np.sqrt(square) + epsilon), square


def _rmsprop_momentum(
    p: Array, g: Array, square: Array, mean: Array, velocity: Array, rate: Array, *,
    rho: float = 0.9, epsilon: float = 1e-7, momentum: float = 0.9, centered: bool = False,
    weight_decay: float = 0.0,
) -> Any:  # fmt: skip
    g = g + weight_decay * p
    square = rho * square + (1 - rho) * g**2
    mean = rho * mean + (1 - rho) * g
    size = np.sqrt(np.maximum(square - mean**2, 0) if centered else square)
    velocity = momentum * velocity + g / (size + epsilon)
    return p - rate * velocity, square, mean, velocity


def _adagrad(
    p: Array, g: Array, total: Array, rate: Array, *, epsilon: float = 1e-7,
    weight_decay: float = 0.0,
) -> Any:  # fmt: skip
    g = g + weight_decay * p
    total = total + g**2
    return p - rate * g / (np.sqrt(total) + epsilon), total


def _adadelta(
    p: Array, g: Array, square: Array, change: Array, rate: Array, *, rho: float = 0.95,
    epsilon: float = 1e-7, weight_decay: float = 0.0,
) -> Any:  # fmt: skip
    g = g + weight_decay * p
    square = rho * square + (1 - rho) * g**2
    step = g * np.sqrt(change + epsilon) / np.sqrt(square + epsilon)
    return p - rate * step, square, rho * change + (1 - rho) * step**2


def _ftrl(
    p: Array, g: Array, total: Array, linear: Array, rate: Array, *, power: float = -0.5,
    l1: float = 0.0, l2: float = 0.0, beta: float = 0.0,
) -> Any:  # fmt: skip
    new = total + g**2
    sigma = (new**-power - total**-power) / rate
    linear = linear + g - sigma * p
    slope = (new**-power + beta) / rate + 2 * l2
    moved = np.where(np.abs(linear) > l1, (np.sign(linear) * l1 - linear) / slope, 0)
    return moved, new, linear


def _lamb(
    p: Array, g: Array, m: Array, v: Array, rate: Array, step: Array, *, beta1: float = 0.9,
    beta2: float = 0.999, epsilon: float = 1e-6, weight_decay: float = 0.0,
) -> Any:  # fmt: skip
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g**2
    change = m / (1 - beta1**step) / (np.sqrt(v / (1 - beta2**step)) + epsilon) + weight_decay * p
    size, length = np.linalg.norm(p), np.linalg.norm(change)
    ratio = size / length if size > 0 and length > 0 else 1.0
    return p - rate * ratio * change, m, v


def _root_mean_square(x: Array) -> Any:
    return np.sqrt(np.mean(x**2)) if x.size else 0.0


def _adafactor_step(p: Array, u: Array, rate: Array, step: Array, least: float, d: float) -> Any:
    u = u / max(1.0, _root_mean_square(u) / d)
    return p - min(rate, 1 / np.sqrt(step)) * max(least, _root_mean_square(p)) * u


def _adafactor(
    p: Array, g: Array, rows: Array, columns: Array, rate: Array, step: Array, *,
    decay: float = 0.8, epsilon: float = 1e-30, least: float = 1e-3, threshold: float = 1.0,
) -> Any:  # fmt: skip
    if not p.size:
        return p, rows, columns
    beta = 1 - step**-decay
    # Sums of rows and columns, as in the paper.
    n, m = p.shape[-2:]
    r = beta * rows * m + (1 - beta) * np.sum(g**2 + epsilon, -1)
    c = beta * columns * n + (1 - beta) * np.sum(g**2 + epsilon, -2)
    v = r[..., :, None] * c[..., None, :] / np.sum(r, -1)[..., None, None]
    return _adafactor_step(p, g / np.sqrt(v), rate, step, least, threshold), r / m, c / n


def _adafactor_vector(
    p: Array, g: Array, square: Array, rate: Array, step: Array, *, decay: float = 0.8,
    epsilon: float = 1e-30, least: float = 1e-3, threshold: float = 1.0,
) -> Any:  # fmt: skip
    beta = 1 - step**-decay
    square = beta * square + (1 - beta) * (g**2 + epsilon)
    return _adafactor_step(p, g / np.sqrt(square), rate, step, least, threshold), square


_DECAY = {"weight_decay": 0.1}
_BETAS = {"beta1": 0.5, "beta2": 0.75, "epsilon": 1e-3}
_updates("sgd_update", _sgd, (), (_RATE,), _DECAY)
_updates(
    "momentum_update", _momentum, (_M,), (_RATE,), {"nesterov": True}, {"momentum": 0.5, **_DECAY}
)
_updates("adam_update", _adam, (_M, _V), (_RATE, _STEP), _BETAS, _DECAY, {"beta1": 0.0})
_updates("amsgrad_update", _amsgrad, (_M, _V, _W), (_RATE, _STEP), _BETAS, _DECAY)
# The last slot is a number, as those behind it are.
_updates(
    "nadam_update", _nadam, (_M, _V), (np.asarray(0.5), _RATE, _STEP), _BETAS,
    {"momentum_decay": 1.0},
)  # fmt: skip
_updates("adamax_update", _adamax, (_M, _V), (_RATE, _STEP), _BETAS)
_updates(
    "lion_update", _lion, (_M,), (_RATE,), {"beta1": 0.5, "beta2": 0.75}, _DECAY,
    without={"random": "a rounding may decide a sign"},
)  # fmt: skip
_updates("rmsprop_update", _rmsprop, (_V,), (_RATE,), {"rho": 0.5, "epsilon": 0.1}, _DECAY)
# The variance of gradients is that of something where mean_square is more than mean squared.
_updates(
    "rmsprop_momentum_update", _rmsprop_momentum, (_M**2 + _V, _M, _W), (_RATE,),
    {"centered": True, "epsilon": 0.1}, {"momentum": 0.5, "rho": 0.5, **_DECAY},
    without={"random": "the digits of a variance may cancel"},
)  # fmt: skip
_updates("adagrad_update", _adagrad, (_V,), (_RATE,), {"epsilon": 0.1}, _DECAY)
_updates("adadelta_update", _adadelta, (_V, _W), (_RATE,), {"rho": 0.5, "epsilon": 0.1}, _DECAY)
_updates(
    "ftrl_update", _ftrl, (_V, _M), (_RATE,), {"l1": 0.5, "l2": 0.1}, {"beta": 1.0, "power": -1.0}
)
_updates("lamb_update", _lamb, (_M, _V), (_RATE, _STEP), _BETAS, _DECAY)
_FACTORS: dict[str, Any] = {"decay": 0.5, "epsilon": 1e-3, "least": 10.0, "threshold": 0.5}
_updates("adafactor_vector_update", _adafactor_vector, (_V,), (_RATE, _STEP), {}, _FACTORS)
_BLOCKS = normal(2, 3, 4), normal(2, 3, 4, seed=1), _W[:2, :3], _W[:2]
_USUAL = dict(_adafactor.__kwdefaults__ or {})
suite("adafactor_update", _adafactor, scale=_magnitude)(
    call(_P, _G, _V[:, 0], _V[0], _RATE, _STEP, **_USUAL),
    call(_P, _G, _V[:, 0], _V[0], _RATE, _STEP, **_FACTORS),
    call(_P, _G, _V[:, 0] * 0, _V[0] * 0, _RATE, np.asarray(1.0), **_USUAL, note="first"),
    call(*_BLOCKS, _RATE, _STEP, **_USUAL, note="blocks"),
    call(_P[:0], _G[:0], _V[:0, 0], _V[0], _RATE, _STEP, **_USUAL, note="empty"),
    wrong(errors.ShapeError, _P[0], _G[0], _V[0], _V[0], _RATE, _STEP, **_USUAL),
    wrong(errors.ShapeError, _P, _G[0], _V[:, 0], _V[0], _RATE, _STEP, **_USUAL),
    wrong(errors.ShapeError, _P, _G, _V[0], _V[:, 0], _RATE, _STEP, **_USUAL),
)


def _clip_by_norm(x: Array, *, max_norm: float, axis: Any = None) -> Array:
    axes = tuple(axis) if isinstance(axis, (tuple, list)) else axis
    norm = np.sqrt(np.sum(x * x, axis=axes, keepdims=True))
    return np.where(norm > max_norm, x * (max_norm / np.where(norm > max_norm, norm, 1)), x)


suite("clip_by_norm", _clip_by_norm)(
    call(normal(3, 4), max_norm=1.0),
    call(normal(3, 4), max_norm=100.0),
    call(normal(3, 4), max_norm=1.5, axis=0),
    call(normal(3, 4, 2), max_norm=1.5, axis=(0, -1)),
    call(np.asarray(3.0), max_norm=1.0, note="0-d"),
    call(normal(0, 3), max_norm=1.0, note="empty"),
    call(np.zeros((2, 3)), max_norm=1.0, note="zeros"),
)
