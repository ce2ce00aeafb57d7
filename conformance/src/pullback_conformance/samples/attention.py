"""Samples of attention."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from pullback import errors
from pullback_conformance.draws import normal
from pullback_conformance.sample import call, suite, wrong

Array: TypeAlias = Any


def _weights(
    query: Array, key: Array, mask: Array, is_causal: bool = False, scale: float | None = None,
    softcap: float | None = None, window: Any = None,
) -> tuple[Array, Array]:  # fmt: skip
    """exp(scores - normalizer), and the normalizer; keys have as many heads as queries."""
    scores = query @ np.swapaxes(key, -1, -2)
    scores = scores * (1 / np.sqrt(max(query.shape[-1], 1)) if scale is None else scale)
    if softcap is not None:
        scores = softcap * np.tanh(scores / softcap)
    if window is not None:
        for i, j in np.ndindex(scores.shape[-2:]):
            far = [
                limit is not None and d > limit
                for d, limit in zip((i - j, j - i), window, strict=True)
            ]
            if any(far):
                scores[..., i, j] = -np.inf
    if is_causal:
        scores = np.where(np.tri(*scores.shape[-2:]) > 0, scores, -np.inf)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    top = np.max(scores, axis=-1, keepdims=True)
    top = np.where(top == -np.inf, 0, top)
    total = np.sum(np.exp(scores - top), axis=-1, keepdims=True)
    normalizer = top + np.log(np.where(total == 0, 1, total))
    return np.exp(scores - normalizer), normalizer


def _shared(x: Array, query: Array) -> Array:
    return x if x.ndim < 3 else np.repeat(x, query.shape[-3] // x.shape[-3], axis=-3)


def _attention(query: Array, key: Array, value: Array, mask: Array = None, **how: Any) -> Array:
    weights, _ = _weights(query, _shared(key, query), mask, **how)
    return weights @ _shared(value, query)


def _size(query: Array, key: Array, value: Array, mask: Array = None, **how: Any) -> Array:
    """The scores are rounded before exp makes relative errors of that."""
    scores = np.abs(query) @ np.swapaxes(np.abs(_shared(key, query)), -1, -2)
    worst = np.max(scores, initial=0) + 1
    if mask is not None and mask.dtype != bool:
        worst += np.max(np.abs(mask), initial=0)
    return _attention(query, key, np.abs(value), mask, **how) * worst * 2


_Q, _K, _V = normal(2, 4, 3, 5), normal(2, 4, 6, 5, seed=1), normal(2, 4, 6, 2, seed=2)
_BOOLEAN = np.arange(18).reshape(3, 6) % 4 != 1
_SHARED = _K[:, :2, :3], _V[:, :2, :3]
_LONG = normal(1, 4, 7, 3, seed=4)
_CASES: tuple[tuple[Any, dict[str, Any], str], ...] = (
    ((_Q, _K, _V, None), {}, "plain"),
    ((_Q, _K, _V, None), {"scale": 0.3}, "scale"),
    ((_Q, _K[:, :, :3], _V[:, :, :3], None), {"is_causal": True}, "causal"),
    ((_Q, _K, _V, _BOOLEAN), {}, "mask of truth values"),
    ((_Q, _K, _V, normal(2, 1, 3, 6)), {}, "mask of numbers"),
    ((_Q, _K, _V, np.arange(6) < np.array([[3], [0], [6]])), {}, "a query that looks nowhere"),
    ((_Q, *_SHARED, _BOOLEAN[:, :3]), {"is_causal": True}, "shared heads"),
    (
        (_Q, _K[:, :, :3], _V[:, :, :3], normal(2, 1, 3, 3, seed=8)),
        {"is_causal": True, "scale": 0.3},
        "causal, with a mask of numbers",
    ),
    ((_Q, _K, _V, None), {"softcap": 1.5}, "soft cap"),
    ((_Q, *_SHARED, _BOOLEAN[:, :3]), {"softcap": 0.7, "is_causal": True}, "soft cap, all else"),
    ((_Q, _Q, _V[:, :, :3], None), {"window": (1, 0)}, "window"),
    ((_LONG, _LONG[:, :2], _LONG[:, 2:], None), {"window": (2, 1)}, "window, shared heads"),
    ((_LONG, _LONG, _LONG, None), {"window": (None, 2), "softcap": 2.0}, "one end"),
    ((_LONG, _LONG, _LONG, None), {"window": (1, None), "is_causal": True}, "causal window"),
    (
        (_LONG, _LONG, _LONG, np.arange(7) > 2),
        {"window": (0, 1)},
        "a window that looks nowhere",
    ),
    ((_Q[0, 0], _K[0, 0], _V[0, 0], None), {}, "no heads"),
    ((_Q[:0], _K[:0], _V[:0], None), {}, "empty"),
)
_LARGE = {"large": "every query meets every key"}
suite("scaled_dot_product_attention", _attention, scale=_size, without=_LARGE)(
    *(call(*inputs, **how, note=note) for inputs, how, note in _CASES),
    wrong(errors.ShapeError, _Q, _K[..., :4], _V),
    wrong(errors.ShapeError, _Q, _K, _V[..., :5, :]),
    wrong(errors.ShapeError, _Q, _K[:, :3], _V[:, :3]),
    wrong(errors.ShapeError, _Q, _K[:1], _V[:1]),
    wrong(errors.ShapeError, _Q, _K, _V, normal(4, 6)),
    wrong(errors.ShapeError, _Q, _K, _V, is_causal=True),
    wrong(errors.ShapeError, _Q, _K, _V, window=(1, 1)),
    wrong(errors.InputTypeError, _LONG, _LONG, _LONG, window=3),
    wrong(errors.InputValueError, _LONG, _LONG, _LONG, window=(-1, 0)),
    wrong(errors.InputValueError, _Q, _K, _V, softcap=0.0),
)


def _weights_alone(query: Array, key: Array, mask: Array = None, **how: Any) -> Array:
    return _weights(query, _shared(key, query), mask, **how)[0]


def _weights_size(query: Array, key: Array, mask: Array = None, **how: Any) -> Array:
    return _weights_alone(query, key, mask, **how) * np.max(
        _size(query, key, np.ones((*key.shape[:-1], 1)), mask, **how), initial=0
    )


suite("attention_weights", _weights_alone, scale=_weights_size, without=_LARGE)(
    *(call(q, k, mask, **how, note=note) for (q, k, _, mask), how, note in _CASES),
    wrong(errors.ShapeError, _Q, _K[..., :4]),
    wrong(errors.ShapeError, _Q, _K, normal(4, 6)),
    wrong(errors.InputValueError, _Q, _K, softcap=-1.0),
)


def _sum_shared(x: Array, like: Array) -> Array:
    if x.ndim < 3:
        return x
    *batch, heads, length, depth = x.shape
    fewer = like.shape[-3]
    return x.reshape(*batch, fewer, heads // fewer, length, depth).sum(axis=-3)


def _gradient(
    query: Array, key: Array, value: Array, mask: Array, out: Array, normalizer: Array, g: Array,
    *, scale: float | None = None, softcap: float | None = None, **how: Any,
) -> tuple[Array, Array, Array]:  # fmt: skip
    factor = 1 / np.sqrt(max(query.shape[-1], 1)) if scale is None else scale
    k, v = _shared(key, query), _shared(value, query)
    own, found = _weights(query, k, mask, scale=scale, softcap=softcap, **how)
    weights = own * np.exp(found - normalizer)
    slope = weights * (g @ np.swapaxes(v, -1, -2) - np.sum(g * out, axis=-1, keepdims=True))
    if softcap is not None:
        slope = slope * (1 - np.tanh(query @ np.swapaxes(k, -1, -2) * factor / softcap) ** 2)
    dk = np.swapaxes(slope, -1, -2) @ query * factor
    dv = np.swapaxes(weights, -1, -2) @ g
    return slope @ k * factor, _sum_shared(dk, key), _sum_shared(dv, value)


def _gradient_scale(
    query: Array, key: Array, value: Array, mask: Array, out: Array, normalizer: Array, g: Array,
    **how: Any,
) -> tuple[Array, Array, Array]:  # fmt: skip
    parts = _gradient(query, key, value, mask, out, normalizer, g, **how)
    worst = 1.0
    for part in (query, key, value, out, g, normalizer):
        worst *= 2 + np.max(np.abs(part), initial=0)
    return tuple(np.full(part.shape, worst) for part in parts)  # type: ignore[return-value]


def _with_residuals(inputs: Any, how: dict[str, Any]) -> Any:
    query, key, value, mask = inputs
    _, normalizer = _weights(query, _shared(key, query), mask, **how)
    out = _attention(query, key, value, mask, **how)
    return (*inputs, out, normalizer, normal(*out.shape, seed=9))


suite("scaled_dot_product_attention_gradient", _gradient, scale=_gradient_scale, without=_LARGE)(
    *(call(*_with_residuals(inputs, how), **how, note=note) for inputs, how, note in _CASES)
)
