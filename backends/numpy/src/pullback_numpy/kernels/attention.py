"""Attention in NumPy: the scores in place, all else in BLAS.

Scores have the axis of the keys before that of the queries: a maximum or a sum over keys then runs
over rows, several at a time. Along the last axis NumPy would start a loop for every query.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from pullback.plugins.records import Kernel, may_decline
from pullback_numpy import threads
from pullback_numpy.half import narrowed, widened
from pullback_numpy.kernels.reductions import tree_sum
from pullback_numpy.typing import Array
from pullback_numpy.windows import even_ranges


def _by_group(x: Array, shared: Any) -> Array:
    """Matrices of x's heads, with an axis for those that share one of `shared`."""
    *batch, heads, rows, columns = x.shape
    fewer = shared.shape[-3]
    return x.reshape(*batch, fewer, heads // fewer if fewer else 1, rows, columns)


def _times_shared(x: Array, shared: Any) -> Any:
    """x times matrices that each serve a group of x's heads."""
    if x.shape[:-2] == shared.shape[:-2]:
        return np.matmul(x, shared)
    product = np.matmul(_by_group(x, shared), shared[..., None, :, :])
    return product.reshape((*x.shape[:-1], shared.shape[-1]))


def _shared_times(shared: Any, x: Array) -> Any:
    """Matrices that each serve a group of x's heads, times x."""
    if x.shape[:-2] == shared.shape[:-2]:
        return np.matmul(shared, x)
    product = np.matmul(shared[..., None, :, :], _by_group(x, shared))
    return product.reshape((*x.shape[:-2], shared.shape[-2], x.shape[-1]))


def _onto_shared(x: Array, shared: Any) -> Any:
    if x.shape[:-2] == shared.shape[:-2]:
        return x
    return np.add.reduce(_by_group(x, shared), -3)


def _scores(q: Array, k: Array, mask: Array | None, unseen: Array | None, scale: float) -> Any:
    """The scores, (..., keys, queries)."""
    scores = _shared_times(k, (q * q.dtype.type(scale)).swapaxes(-1, -2))
    if unseen is not None:
        # Not added: the score of a hidden key may be NaN.
        np.copyto(scores, scores.dtype.type(-np.inf), where=unseen)
    if mask is not None:
        mask = mask.swapaxes(-1, -2) if mask.ndim > 1 else mask[..., None]
        if mask.dtype == np.bool_:
            np.copyto(scores, scores.dtype.type(-np.inf), where=~mask)
        else:
            scores += mask
    return scores


def _unseen(q: Array, k: Array, is_causal: bool) -> Array | None:
    """A mask of the keys that a query may not attend to; None if there are none."""
    if not is_causal:
        return None
    keys, queries = k.shape[-2], q.shape[-2]
    build = _triangle if keys * queries <= threads.PIECE else _triangle.__wrapped__
    return build(keys, queries)


@lru_cache(maxsize=16)
def _triangle(keys: int, queries: int) -> Array:
    return np.tri(keys, queries, -1, np.bool_)


#: A part of the first axis, and the mask for it.
Item: TypeAlias = "tuple[slice, Array | None]"


def _items(q: Array, k: Array, mask: Array | None) -> list[Item]:
    """The parts of the first axis: several if it is a batch and the work is large."""
    if q.ndim < 4 or q.size * k.shape[-2] < _LARGE:
        return [(slice(None), mask)]
    parts = [slice(*part) for part in even_ranges(q.shape[0], 8)]
    if mask is None or mask.ndim < q.ndim or mask.shape[0] == 1:
        return [(part, mask) for part in parts]
    return [(part, mask[part]) for part in parts]


#: Products of fewer terms are not worth a second thread.
_LARGE = 1 << 20


@may_decline
def _attention(
    query: Array, key: Array, value: Array, mask: Array | None, *, is_causal: bool, scale: float,
    softcap: float | None = None, window: Any = None,
) -> Any:  # fmt: skip
    if softcap is not None or window is not None:
        return NotImplemented
    q, k, v = widened(query), widened(key), widened(value)
    if not k.shape[-2]:
        raise ValueError("there are no keys to attend to")
    unseen = _unseen(q, k, is_causal)
    y = np.empty((*q.shape[:-1], v.shape[-1]), q.dtype)
    normalizer = np.empty((*q.shape[:-1], 1), q.dtype)

    def work(item: Item) -> None:
        part, its_mask = item
        weights = _scores(q[part], k[part], its_mask, unseen, scale)
        keys = weights.ndim - 2
        top = np.maximum.reduce(weights, keys, keepdims=True)
        top = np.where(top == -np.inf, top.dtype.type(0), top)
        weights -= top
        np.exp(weights, out=weights)
        total = tree_sum(weights, (keys,), True)
        total += total == 0  # a query that may attend to no key
        weighted = _times_shared(weights.swapaxes(-1, -2), v[part])
        np.divide(weighted, total.swapaxes(-1, -2), out=y[part])
        top += np.log(total)
        normalizer[part] = top.swapaxes(-1, -2)

    threads.run_with_blas(work, _items(q, k, mask))
    return narrowed(y, query), normalizer


@may_decline
def _attention_gradient(
    query: Array, key: Array, value: Array, mask: Array | None, out: Array,
    normalizer: Array, g: Array, *, is_causal: bool, scale: float,
    softcap: float | None = None, window: Any = None,
) -> Any:  # fmt: skip
    if softcap is not None or window is not None:
        return NotImplemented
    q, k, v, h, y = widened(query), widened(key), widened(value), widened(g), widened(out)
    unseen = _unseen(q, k, is_causal)
    dq, dk, dv = (np.empty(a.shape, a.dtype) for a in (q, k, v))
    factor = q.dtype.type(scale)

    def work(item: Item) -> None:
        part, its_mask = item
        weights = _scores(q[part], k[part], its_mask, unseen, scale)
        weights -= normalizer[part].swapaxes(-1, -2)
        np.exp(weights, out=weights)
        dv[part] = _onto_shared(np.matmul(weights, h[part]), v[part])
        slope = _shared_times(v[part], h[part].swapaxes(-1, -2))
        slope -= np.vecdot(h[part], y[part])[..., None, :]
        slope *= weights
        np.multiply(_times_shared(slope.swapaxes(-1, -2), k[part]), factor, out=dq[part])
        by_key = _onto_shared(np.matmul(slope, q[part]), k[part])
        np.multiply(by_key, factor, out=dk[part])

    threads.run_with_blas(work, _items(q, k, mask))
    return narrowed(dq, query), narrowed(dk, key), narrowed(dv, value)


KERNELS: dict[str, Kernel] = {
    "scaled_dot_product_attention": _attention,
    "scaled_dot_product_attention_gradient": _attention_gradient,
}
