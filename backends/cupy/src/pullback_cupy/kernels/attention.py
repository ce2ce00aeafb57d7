"""Attention: products of matrices, and one kernel between them for mask, softmax and normalizer.

cuDNN's fused attention takes over for 16-bit floats where it is installed; it keeps no scores.
"""

from __future__ import annotations

import math
from typing import Any

import cupy

from pullback.casting import compute_dtype
from pullback.plugins.records import Kernel, may_decline
from pullback_cupy import cudnn
from pullback_cupy.compile import contiguous, elementwise, over_rows
from pullback_cupy.typing import Array

_visible = elementwise(
    "attention_mask", "W s, M mask, int64 length, int64 others, int64 causal", "W y",
    "y = causal && i % others > i / others % length ? masked(s, false) : masked(s, mask);",
)  # fmt: skip


def _wide(x: Array) -> Array:
    return x.astype(compute_dtype(x.dtype), copy=False)


def _times_shared(x: Array, shared: Array) -> Array:
    """x times matrices that each serve a group of x's heads."""
    if x.shape[:-2] == shared.shape[:-2]:
        return cupy.matmul(x, shared)
    product = cupy.matmul(x.reshape(_split(x, shared)), shared[..., None, :, :])
    return product.reshape((*x.shape[:-1], shared.shape[-1]))


def _split(x: Array, shared: Array) -> Array:
    *batch, heads, length, depth = x.shape
    fewer = shared.shape[-3]
    return (*batch, fewer, heads // fewer if fewer else 1, length, depth)


def _onto_shared(x: Array, shared: Array) -> Array:
    if x.shape[:-2] == shared.shape[:-2]:
        return x
    return x.reshape(_split(x, shared)).sum(axis=-3)


def _scores(q: Array, k: Array, mask: Array | None, is_causal: bool, scale: float) -> Array:
    scores = _times_shared(q * q.dtype.type(scale), k.swapaxes(-1, -2))
    if mask is None and not is_causal:
        return scores
    seen = cupy.ones((), cupy.bool_) if mask is None else mask
    return _visible(scores, seen, *scores.shape[-2:], int(is_causal))


@may_decline
def _attention(
    query: Array, key: Array, value: Array, mask: Array | None, *, is_causal: bool, scale: float,
    softcap: float | None = None, window: Any = None,
) -> Any:  # fmt: skip
    if softcap is not None or window is not None:
        return NotImplemented
    if not key.shape[-2]:
        raise ValueError("there are no keys to attend to")
    results = cudnn.attention(query, key, value, mask, is_causal=is_causal, scale=scale)
    if results is not None:
        return results
    q, k, v = _wide(query), _wide(key), _wide(value)
    scores = contiguous(_scores(q, k, mask, is_causal, scale))
    weights, normalizer = cupy.empty_like(scores), cupy.empty((*scores.shape[:-1], 1), q.dtype)
    columns, rows = scores.shape[-1], math.prod(scores.shape[:-1])
    arguments = (scores, weights, normalizer, rows, columns)
    over_rows("rows", "softmax_and_normalizer", rows, columns, arguments,
              T=q.dtype, I=cupy.dtype("int32"), G=q.dtype)  # fmt: skip
    return _times_shared(weights, v).astype(query.dtype, copy=False), normalizer


_weights_of = elementwise(
    "attention_weights", "W s, W normalizer", "W y", "y = exp(s - normalizer)"
)
_slope_of = elementwise("attention_slope", "W dw, W inner, W w", "W y", "y = (dw - inner) * w")


@may_decline
def _attention_gradient(
    query: Array, key: Array, value: Array, mask: Array | None, out: Array,
    normalizer: Array, g: Array, *, is_causal: bool, scale: float,
    softcap: float | None = None, window: Any = None,
) -> Any:  # fmt: skip
    if softcap is not None or window is not None:
        return NotImplemented
    q, k, v, h = _wide(query), _wide(key), _wide(value), _wide(g)
    weights = _weights_of(_scores(q, k, mask, is_causal, scale), _wide(normalizer))
    dv = _onto_shared(cupy.matmul(weights.swapaxes(-1, -2), h), v)
    inner = (h * _wide(out)).sum(axis=-1, keepdims=True)
    slope = _slope_of(_times_shared(h, v.swapaxes(-1, -2)), inner, weights)
    number = q.dtype.type(scale)
    dq = _times_shared(slope, k) * number
    dk = _onto_shared(cupy.matmul(slope.swapaxes(-1, -2), q), k) * number
    return tuple(
        x.astype(like.dtype, copy=False) for x, like in ((dq, query), (dk, key), (dv, value))
    )


KERNELS: dict[str, Kernel] = {
    "scaled_dot_product_attention": _attention,
    "scaled_dot_product_attention_gradient": _attention_gradient,
}
