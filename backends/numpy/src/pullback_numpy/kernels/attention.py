"""Attention in NumPy: the scores in place, all else in BLAS."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.backend import Kernel
from pullback_numpy.kernels.precision import like, wide
from pullback_numpy.kernels.softmax import row_max, row_sum


def _times_shared(x: Any, shared: Any) -> Any:
    """x times matrices that each serve a group of x's heads."""
    if x.shape[:-2] == shared.shape[:-2]:
        return np.matmul(x, shared)
    product = np.matmul(x.reshape(_split(x, shared)), shared[..., None, :, :])
    return product.reshape((*x.shape[:-1], shared.shape[-1]))


def _split(x: Any, shared: Any) -> Any:
    *batch, heads, length, depth = x.shape
    fewer = shared.shape[-3]
    return (*batch, fewer, heads // fewer if fewer else 1, length, depth)


def _onto_shared(x: Any, shared: Any) -> Any:
    if x.shape[:-2] == shared.shape[:-2]:
        return x
    return np.add.reduce(x.reshape(_split(x, shared)), -3)


def _scores(q: Any, k: Any, mask: Any, is_causal: bool, scale: float) -> Any:
    scores = _times_shared(q * q.dtype.type(scale), k.swapaxes(-1, -2))
    if is_causal:
        length, others = scores.shape[-2:]
        scores[..., ~np.tri(length, others, dtype=np.bool_)] = -np.inf
    if mask is not None:
        if mask.dtype == np.bool_:
            np.copyto(scores, scores.dtype.type(-np.inf), where=~mask)
        else:
            scores += mask
    return scores


def _attention(
    query: Any, key: Any, value: Any, mask: Any, *, is_causal: bool, scale: float
) -> Any:
    q, k, v = wide(query), wide(key), wide(value)
    scores = _scores(q, k, mask, is_causal, scale)
    if not scores.shape[-1]:
        raise ValueError("there is nothing to look at")
    top = row_max(scores, scores.ndim - 1)
    scores -= top
    np.exp(scores, out=scores)
    total = row_sum(scores, scores.ndim - 1)
    y = _times_shared(scores, v)
    y /= total
    return like(y, query), top + np.log(total)


def _attention_gradient(
    query: Any, key: Any, value: Any, mask: Any, out: Any, normalizer: Any, g: Any,
    *, is_causal: bool, scale: float,
) -> Any:  # fmt: skip
    q, k, v, h = wide(query), wide(key), wide(value), wide(g)
    weights = _scores(q, k, mask, is_causal, scale)
    weights -= normalizer
    np.exp(weights, out=weights)
    dv = _onto_shared(np.matmul(weights.swapaxes(-1, -2), h), v)
    slope = _times_shared(h, v.swapaxes(-1, -2))
    slope -= np.add.reduce(h * wide(out), -1, keepdims=True)
    slope *= weights
    dq = _times_shared(slope, k)
    dq *= dq.dtype.type(scale)
    dk = _onto_shared(np.matmul(slope.swapaxes(-1, -2), q), k)
    dk = dk * dk.dtype.type(scale)
    return like(dq, query), like(dk, key), like(dv, value)


KERNELS: dict[str, Kernel] = {
    "scaled_dot_product_attention": _attention,
    "scaled_dot_product_attention_gradient": _attention_gradient,
}
