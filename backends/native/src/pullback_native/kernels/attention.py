"""Attention: products in BLAS, a few items of the batch at a time, and all else in one pass.

Causal masks are not made: a row of scores is read as far as its query may look.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.backend import Kernel
from pullback_native.loops import FLOAT32, LOOPS, all_float32, plain, run
from pullback_numpy import threads
from pullback_numpy.kernels import KERNELS as NUMPYS
from pullback_numpy.windows import even_ranges

_WEIGHTS, _AGAIN = LOOPS["attention_weights"], LOOPS["attention_weights_again"]
_GRADIENT = LOOPS["attention_scores_gradient"]
#: Products of fewer terms are not worth a second thread.
_LARGE = 1 << 20


def _fits(q: Any, k: Any, v: Any, *others: Any) -> bool:
    """Whether every query has a head of its own in keys and values, and all is there."""
    return (
        all_float32(q, k, v, *others)
        and q.ndim >= 2
        and q.shape[:-2] == k.shape[:-2] == v.shape[:-2]
        and bool(q.size and k.size and v.size)
    )


def _parts(q: Any, k: Any, mask: Any) -> list[Any]:
    """Slices of the first axis with their masks, several where that is a batch and worth it."""
    if q.ndim < 3 or q.size * k.shape[-2] < _LARGE:
        return [(..., mask)]
    shared = mask is None or mask.ndim < q.ndim or mask.shape[0] == 1
    parts = [slice(*one) for one in even_ranges(q.shape[0], 8)]
    return [(part, mask if shared else mask[part]) for part in parts]


def _product(x: Any, y: Any) -> Any:
    """x @ y.T in C order, which NumPy keeps to only where it is told."""
    return np.matmul(x, y.swapaxes(-1, -2), out=np.empty((*x.shape[:-1], y.shape[-2]), FLOAT32))


def _scores(q: Any, k: Any, mask: Any, scale: float) -> Any:
    scores = _product(q * np.float32(scale), k)
    if mask is not None:
        if mask.dtype == np.bool_:
            np.copyto(scores, np.float32(-np.inf), where=~mask)
        else:
            scores += mask
    return scores


def _rows(scores: Any) -> tuple[int, int, float]:
    """How many rows there are, how many make a piece, and what each costs."""
    width = scores.shape[-1]
    return scores.size // width, 1 + 32768 // width, 20 + 0.6 * width


def _attention(
    query: Any, key: Any, value: Any, mask: Any, *, is_causal: bool, scale: float
) -> Any:
    if not _fits(query, key, value) or (mask is not None and mask.dtype not in (bool, FLOAT32)):
        return NUMPYS["scaled_dot_product_attention"](
            query, key, value, mask, is_causal=is_causal, scale=scale
        )
    y = np.empty((*query.shape[:-1], value.shape[-1]), FLOAT32)
    normalizer = np.empty((*query.shape[:-1], 1), FLOAT32)

    def work(item: Any) -> None:
        part, its_mask = item
        scores = _scores(query[part], key[part], its_mask, scale)
        numbers = (scores.shape[-1], is_causal, scores.shape[-2])
        run(_WEIGHTS, *_rows(scores), (scores, normalizer[part]), numbers, ())
        np.matmul(scores, value[part], out=y[part])

    threads.run_with_blas(work, _parts(query, key, mask))
    return y, normalizer


def _attention_gradient(
    query: Any, key: Any, value: Any, mask: Any, out: Any, normalizer: Any, g: Any,
    *, is_causal: bool, scale: float,
) -> Any:  # fmt: skip
    others = (out, normalizer, g)
    if not _fits(query, key, value, *others) or (
        mask is not None and mask.dtype not in (bool, FLOAT32)
    ):
        return NUMPYS["scaled_dot_product_attention_gradient"](
            query, key, value, mask, *others, is_causal=is_causal, scale=scale
        )
    out, normalizer, g = map(plain, others)
    dq, dk, dv = (np.empty(a.shape, FLOAT32) for a in (query, key, value))

    def work(item: Any) -> None:
        part, its_mask = item
        q, k, h = query[part], key[part], g[part]
        weights = _scores(q, k, its_mask, scale)
        numbers = (weights.shape[-1], is_causal, weights.shape[-2], h.shape[-1])
        run(_AGAIN, *_rows(weights), (weights, normalizer[part]), numbers, ())
        np.matmul(weights.swapaxes(-1, -2), h, out=dv[part])
        slope = _product(h, value[part])
        run(_GRADIENT, *_rows(weights), (slope, weights, h, out[part]), numbers, (scale,))
        np.matmul(slope, k, out=dq[part])
        np.matmul(slope.swapaxes(-1, -2), q, out=dk[part])

    threads.run_with_blas(work, _parts(query, key, mask))
    return dq, dk, dv


KERNELS: dict[str, Kernel] = {
    "scaled_dot_product_attention": _attention,
    "scaled_dot_product_attention_gradient": _attention_gradient,
}
