"""Attention: all of it for some queries at a time, in C."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from pullback.plugins.records import Kernel, may_decline
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

_Shape: TypeAlias = tuple[int, ...]


def _supports(q: Array, k: Array, v: Array, mask: Array | None) -> bool:
    """Returns whether the loops take these arrays: float32, and not empty."""
    return (
        all_float32(q, k, v)
        and bool(q.size and k.size and v.size)
        and (mask is None or mask.dtype in (bool, FLOAT32))
    )


def _in_rows(x: Array) -> Array:
    """x, or a copy of it, with the elements of a row next to each other."""
    flags = x.flags
    if flags.c_contiguous and flags.aligned:
        return x
    steps = x.strides
    return x if steps[-1] == 4 and not any(s % 4 for s in steps) and flags.aligned else plain(x)


def _offsets(shape: _Shape, steps: _Shape, itemsize: int, heads: int = 1) -> Array:
    """The offsets of the matrices of a stack, in elements; each repeated `heads` times."""
    begins = np.zeros((), np.int64)
    for length, step in zip(shape[:-2], steps[:-2], strict=True):
        begins = begins[..., None] + np.arange(length) * (step // itemsize)
    return np.repeat(begins.reshape(-1), heads)


class _Plan(NamedTuple):
    """Values that follow from the layouts of the arrays."""

    sizes: Sizes
    offsets: Array
    #: The shapes of the result and of its normalizers.
    out: _Shape
    normalizers: _Shape
    #: Forward: the number of blocks, and the nanoseconds for each; then those of the gradient.
    blocks: int
    block_cost: float
    groups: int
    group_cost: float


@lru_cache(maxsize=256)
def _plan(
    q: _Shape, q_steps: _Shape, k: _Shape, k_steps: _Shape, v: _Shape, v_steps: _Shape,
    mask: tuple[_Shape, _Shape, int] | None, is_causal: bool,
) -> _Plan:  # fmt: skip
    """The plan for arrays of these shapes; steps, and the size of an element, are in bytes."""
    items, groups = prod(q[:-2]), prod(k[:-2])
    heads = items // groups
    stacks = [
        _offsets(q, q_steps, 4),
        _offsets(k, k_steps, 4, heads),
        _offsets(v, v_steps, 4, heads),
    ]
    row_step = column_step = 0
    if mask is not None:
        stacks.append(_offsets(*mask))
        row_step, column_step = (step // mask[2] for step in mask[1][-2:])
    (queries, depth), (keys, width) = q[-2:], v[-2:]
    sizes = {
        "keys": keys,
        "is_causal": is_causal,
        "queries": queries,
        "depth": depth,
        "value_depth": width,
        "query_step": q_steps[-2] // 4,
        "key_step": k_steps[-2] // 4,
        "value_step": v_steps[-2] // 4,
        "mask_row_step": row_step,
        "mask_column_step": column_step,
        "mask_is_boolean": mask is not None and mask[2] == 1,
        "items": items,
        "block_queries": min(queries, _QUERIES),
        "heads": heads,
    }
    cost = queries * keys * ((depth + width) / _SPEED + 1)
    blocks = -(-queries // _QUERIES)
    return _Plan(
        sizes, np.concatenate(stacks), (*q[:-1], width), (*q[:-1], 1),
        items * blocks, cost / blocks, groups, 2.5 * heads * cost,
    )  # fmt: skip


def _prepared(
    q: Array, k: Array, v: Array, mask: Array | None, is_causal: bool
) -> tuple[Array, Array, Array, Array | None, _Plan]:
    """The inputs in layouts that the loops take, and their plan."""
    q, k, v = _in_rows(q), _in_rows(k), _in_rows(v)
    layout = None
    if mask is not None:
        mask = plain(mask)
        wide = np.broadcast_to(mask, (*q.shape[:-1], k.shape[-2]))
        layout = wide.shape, wide.strides, mask.itemsize
    plan = _plan(q.shape, q.strides, k.shape, k.strides, v.shape, v.strides, layout, is_causal)
    return q, k, v, mask, plan


def _hides_infinities(query: Array, key: Array, is_causal: bool, *stacks: Array) -> bool:
    """Returns whether rows that no query sees have infinities or NaN: loops do not look there."""
    rows = query.shape[-2]
    if not is_causal or rows >= key.shape[-2]:
        return False
    return not all(np.isfinite(x[..., rows:, :]).all() for x in stacks)


@may_decline
def _attention(
    query: Array, key: Array, value: Array, mask: Array | None, *, is_causal: bool, scale: float,
    softcap: float | None = None, window: Any = None,
) -> Any:  # fmt: skip
    if softcap is not None or window is not None:
        return NotImplemented
    if _supports(query, key, value, mask) and not _hides_infinities(query, key, is_causal, value):
        q, k, v, seen, plan = _prepared(query, key, value, mask, is_causal)
        y, normalizers = empty(plan.out), empty(plan.normalizers)
        status = run(
            _FORWARD, plan.blocks, 1, plan.block_cost, plan.sizes,
            query=q, key=k, value=v, mask=seen, y=y, normalizers=normalizers,
            offsets=plan.offsets, scale=scale,
        )  # fmt: skip
        if not needs_numpy(status, _ROOM):
            return y, normalizers
    fallback = NUMPY_KERNELS["scaled_dot_product_attention"]
    out: tuple[Array, Array] = fallback(query, key, value, mask, is_causal=is_causal, scale=scale)
    return out


@may_decline
def _attention_gradient(
    query: Array, key: Array, value: Array, mask: Array | None,
    out: Array, normalizer: Array, g: Array, *, is_causal: bool, scale: float,
    softcap: float | None = None, window: Any = None,
) -> Any:  # fmt: skip
    if softcap is not None or window is not None:
        return NotImplemented
    if (
        _supports(query, key, value, mask)
        and all_float32(out, normalizer, g)
        # NumPy broadcasts others; the loops take a number for each query.
        and normalizer.shape == (*query.shape[:-1], 1)
        and out.shape == g.shape == (*query.shape[:-1], value.shape[-1])
        and not _hides_infinities(query, key, is_causal, key, value)
    ):
        dquery, dkey, dvalue = empty(query.shape), empty(key.shape), empty(value.shape)
        q, k, v, seen, plan = _prepared(query, key, value, mask, is_causal)
        status = run(
            _GRADIENT, plan.groups, 1, plan.group_cost, plan.sizes,
            query=q, key=k, value=v, mask=seen,
            y=plain(out), normalizers=plain(normalizer), g=plain(g),
            dquery=dquery, dkey=dkey, dvalue=dvalue, offsets=plan.offsets, scale=scale,
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
