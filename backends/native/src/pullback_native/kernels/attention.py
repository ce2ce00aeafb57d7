"""Attention: all of it for some queries at a time, in C."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from pullback.plugins.backend import Kernel
from pullback_native.loops import FLOAT32, LOOPS, all_float32, empty, plain, run_with_room
from pullback_numpy.kernels import KERNELS as NUMPYS

_FORWARD, _GRADIENT = LOOPS["attention"], LOOPS["attention_gradient"]
#: Queries of a block.
_QUERIES = 64
#: Multiplications a nanosecond, on one thread.
_SPEED = 50


def _fits(q: Any, k: Any, v: Any, mask: Any) -> bool:
    """Whether the loops are for it: float32, and something to look at."""
    return (
        all_float32(q, k, v)
        and bool(q.size and k.size and v.size)
        and (mask is None or mask.dtype in (bool, FLOAT32))
    )


def _in_rows(x: Any) -> Any:
    """x, or a copy of it, with the elements of a row next to each other."""
    steps = x.strides
    return x if steps[-1] == 4 and not any(s % 4 for s in steps) and x.flags.aligned else plain(x)


class _Layout(NamedTuple):
    """How an array lies in memory; steps and size of an element are in bytes."""

    shape: tuple[int, ...]
    steps: tuple[int, ...]
    itemsize: int

    def offsets(self, heads: int = 1) -> Any:
        """Where the matrices of a stack begin, in elements; each `heads` times in a row."""
        places = np.zeros((), np.int64)
        for length, step in zip(self.shape[:-2], self.steps[:-2], strict=True):
            places = places[..., None] + np.arange(length) * (step // self.itemsize)
        return np.repeat(places.reshape(-1), heads)


@lru_cache(maxsize=256)
def _plan(
    q: _Layout, k: _Layout, v: _Layout, mask: _Layout | None, is_causal: bool
) -> tuple[tuple[int, ...], Any, float]:
    """Numbers and offsets for the loops, and the nanoseconds for all of one head."""
    heads = prod(q.shape[:-2]) // prod(k.shape[:-2])
    stacks = [q.offsets(), k.offsets(heads), v.offsets(heads)]
    across = (0, 0)
    if mask is not None:
        stacks.append(mask.offsets())
        across = (mask.steps[-2] // mask.itemsize, mask.steps[-1] // mask.itemsize)
    (queries, depth), (keys, width) = q.shape[-2:], v.shape[-2:]
    numbers = (
        *(keys, is_causal, queries, depth, width, *(x.steps[-2] // 4 for x in (q, k, v)), *across),
        *(mask is not None and mask.itemsize == 1, prod(q.shape[:-2])),
        *(min(queries, _QUERIES), heads),
    )
    return numbers, np.concatenate(stacks), queries * keys * ((depth + width) / _SPEED + 1)


def _prepared(
    q: Any, k: Any, v: Any, mask: Any, is_causal: bool
) -> tuple[tuple[Any, ...], tuple[int, ...], Any, float]:
    """Arrays, numbers and offsets for the loops, and the nanoseconds for all of one head."""
    q, k, v = map(_in_rows, (q, k, v))
    layouts = [_Layout(x.shape, x.strides, 4) for x in (q, k, v)]
    seen = None
    if mask is not None:
        mask = plain(mask)
        wide = np.broadcast_to(mask, (*q.shape[:-1], k.shape[-2]))
        seen = _Layout(wide.shape, wide.strides, mask.itemsize)
    return ((q,), (k,), (v,), mask), *_plan(*layouts, seen, is_causal)


def _looks_away(query: Any, key: Any, is_causal: bool, *stacks: Any) -> bool:
    """Whether there are infinities or NaN in rows that no query sees: loops do not look there."""
    rows = query.shape[-2]
    if not is_causal or rows >= key.shape[-2]:
        return False
    return not all(np.isfinite(x[..., rows:, :]).all() for x in stacks)


def _run(loop: int, count: int, cost: float, arrays: Any, numbers: Any, scale: float) -> bool:
    room = "the scores of a few queries"
    return run_with_room(loop, count, 1, cost, arrays, numbers, (scale,), room=room)


def _attention(
    query: Any, key: Any, value: Any, mask: Any, *, is_causal: bool, scale: float
) -> Any:
    def numpys() -> Any:
        return NUMPYS["scaled_dot_product_attention"](
            query, key, value, mask, is_causal=is_causal, scale=scale
        )

    if not _fits(query, key, value, mask) or _looks_away(query, key, is_causal, value):
        return numpys()
    y = empty((*query.shape[:-1], value.shape[-1]))
    normalizer = empty((*query.shape[:-1], 1))
    given, numbers, offsets, cost = _prepared(query, key, value, mask, is_causal)
    blocks = -(-query.shape[-2] // _QUERIES)
    count = prod(query.shape[:-2]) * blocks
    arrays = (*given, y, normalizer, offsets)
    left = _run(_FORWARD, count, cost / blocks, arrays, numbers, scale)
    return numpys() if left else (y, normalizer)


def _attention_gradient(
    query: Any, key: Any, value: Any, mask: Any, out: Any, normalizer: Any, g: Any,
    *, is_causal: bool, scale: float,
) -> Any:  # fmt: skip
    others = (out, normalizer, g)

    def numpys() -> Any:
        return NUMPYS["scaled_dot_product_attention_gradient"](
            query, key, value, mask, *others, is_causal=is_causal, scale=scale
        )

    fits = _fits(query, key, value, mask) and all_float32(*others)
    if not fits or _looks_away(query, key, is_causal, key, value):
        return numpys()
    slopes = tuple(empty(x.shape) for x in (query, key, value))
    given, numbers, offsets, cost = _prepared(query, key, value, mask, is_causal)
    count = prod(key.shape[:-2])
    heads = prod(query.shape[:-2]) // count
    arrays = (*given, *map(plain, others), *slopes, offsets)
    left = _run(_GRADIENT, count, 2.5 * heads * cost, arrays, numbers, scale)
    return numpys() if left else slopes


KERNELS: dict[str, Kernel] = {
    "scaled_dot_product_attention": _attention,
    "scaled_dot_product_attention_gradient": _attention_gradient,
}
