"""Attention: all of it for some queries at a time, in C."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import NamedTuple

import numpy as np

from pullback.plugins.backend import Kernel
from pullback_native.loops import (
    FLOAT32,
    LOOPS,
    Array,
    Sizes,
    all_float32,
    empty,
    needs_numpy,
    plain,
    run,
)
from pullback_numpy.kernels import KERNELS as NUMPY_KERNELS

_FORWARD, _GRADIENT = LOOPS["attention"], LOOPS["attention_gradient"]
#: Queries of a block.
_QUERIES = 64
#: Multiplications a nanosecond, on one thread.
_SPEED = 50
_ROOM = "the scores of a few queries"


def _supports(q: Array, k: Array, v: Array, mask: Array | None) -> bool:
    """Returns whether the loops take these arrays: float32, and not empty."""
    return (
        all_float32(q, k, v)
        and bool(q.size and k.size and v.size)
        and (mask is None or mask.dtype in (bool, FLOAT32))
    )


def _in_rows(x: Array) -> Array:
    """x, or a copy of it, with the elements of a row next to each other."""
    steps = x.strides
    return x if steps[-1] == 4 and not any(s % 4 for s in steps) and x.flags.aligned else plain(x)


class _Layout(NamedTuple):
    """The layout of an array in memory; steps and size of an element are in bytes."""

    shape: tuple[int, ...]
    steps: tuple[int, ...]
    itemsize: int

    def offsets(self, heads: int = 1) -> Array:
        """The offsets of the matrices of a stack, in elements; each repeated `heads` times."""
        begins = np.zeros((), np.int64)
        for length, step in zip(self.shape[:-2], self.steps[:-2], strict=True):
            begins = begins[..., None] + np.arange(length) * (step // self.itemsize)
        return np.repeat(begins.reshape(-1), heads)


@lru_cache(maxsize=256)
def _plan(
    q: _Layout, k: _Layout, v: _Layout, mask: _Layout | None, is_causal: bool
) -> tuple[Sizes, Array, float]:
    """Sizes and offsets for the loops, and the nanoseconds for all of one head."""
    heads = prod(q.shape[:-2]) // prod(k.shape[:-2])
    stacks = [q.offsets(), k.offsets(heads), v.offsets(heads)]
    row_step = column_step = 0
    if mask is not None:
        stacks.append(mask.offsets())
        row_step, column_step = (step // mask.itemsize for step in mask.steps[-2:])
    (queries, depth), (keys, width) = q.shape[-2:], v.shape[-2:]
    sizes = {
        "keys": keys,
        "is_causal": is_causal,
        "queries": queries,
        "depth": depth,
        "value_depth": width,
        "query_step": q.steps[-2] // 4,
        "key_step": k.steps[-2] // 4,
        "value_step": v.steps[-2] // 4,
        "mask_row_step": row_step,
        "mask_column_step": column_step,
        "mask_is_boolean": mask is not None and mask.itemsize == 1,
        "items": prod(q.shape[:-2]),
        "block_queries": min(queries, _QUERIES),
        "heads": heads,
    }
    return sizes, np.concatenate(stacks), queries * keys * ((depth + width) / _SPEED + 1)


class _Inputs(NamedTuple):
    """Arrays in layouts that the loops take, with their plan."""

    query: Array
    key: Array
    value: Array
    mask: Array | None
    sizes: Sizes
    offsets: Array
    cost: float


def _prepared(q: Array, k: Array, v: Array, mask: Array | None, is_causal: bool) -> _Inputs:
    """The inputs as the loops take them."""
    q, k, v = _in_rows(q), _in_rows(k), _in_rows(v)
    layouts = [_Layout(x.shape, x.strides, 4) for x in (q, k, v)]
    mask_layout = None
    if mask is not None:
        mask = plain(mask)
        wide = np.broadcast_to(mask, (*q.shape[:-1], k.shape[-2]))
        mask_layout = _Layout(wide.shape, wide.strides, mask.itemsize)
    return _Inputs(q, k, v, mask, *_plan(*layouts, mask_layout, is_causal))


def _hides_infinities(query: Array, key: Array, is_causal: bool, *stacks: Array) -> bool:
    """Returns whether rows that no query sees have infinities or NaN: loops do not look there."""
    rows = query.shape[-2]
    if not is_causal or rows >= key.shape[-2]:
        return False
    return not all(np.isfinite(x[..., rows:, :]).all() for x in stacks)


def _attention(
    query: Array, key: Array, value: Array, mask: Array | None, *, is_causal: bool, scale: float
) -> tuple[Array, Array]:
    if _supports(query, key, value, mask) and not _hides_infinities(query, key, is_causal, value):
        y = empty((*query.shape[:-1], value.shape[-1]))
        normalizers = empty((*query.shape[:-1], 1))
        q, k, v, seen, sizes, offsets, cost = _prepared(query, key, value, mask, is_causal)
        blocks = -(-query.shape[-2] // _QUERIES)
        status = run(
            _FORWARD, prod(query.shape[:-2]) * blocks, 1, cost / blocks, sizes,
            query=q, key=k, value=v, mask=seen, y=y, normalizers=normalizers,
            offsets=offsets, scale=scale,
        )  # fmt: skip
        if not needs_numpy(status, _ROOM):
            return y, normalizers
    fallback = NUMPY_KERNELS["scaled_dot_product_attention"]
    out: tuple[Array, Array] = fallback(query, key, value, mask, is_causal=is_causal, scale=scale)
    return out


def _attention_gradient(
    query: Array, key: Array, value: Array, mask: Array | None,
    out: Array, normalizer: Array, g: Array, *, is_causal: bool, scale: float,
) -> tuple[Array, Array, Array]:  # fmt: skip
    if (
        _supports(query, key, value, mask)
        and all_float32(out, normalizer, g)
        and not _hides_infinities(query, key, is_causal, key, value)
    ):
        dquery, dkey, dvalue = empty(query.shape), empty(key.shape), empty(value.shape)
        q, k, v, seen, sizes, offsets, cost = _prepared(query, key, value, mask, is_causal)
        count = prod(key.shape[:-2])
        heads = prod(query.shape[:-2]) // count
        status = run(
            _GRADIENT, count, 1, 2.5 * heads * cost, sizes,
            query=q, key=k, value=v, mask=seen,
            y=plain(out), normalizers=plain(normalizer), g=plain(g),
            dquery=dquery, dkey=dkey, dvalue=dvalue, offsets=offsets, scale=scale,
        )  # fmt: skip
        if not needs_numpy(status, _ROOM):
            return dquery, dkey, dvalue
    fallback = NUMPY_KERNELS["scaled_dot_product_attention_gradient"]
    gradients: tuple[Array, Array, Array] = fallback(
        query, key, value, mask, out, normalizer, g, is_causal=is_causal, scale=scale
    )
    return gradients


KERNELS: dict[str, Kernel] = {
    "scaled_dot_product_attention": _attention,
    "scaled_dot_product_attention_gradient": _attention_gradient,
}
