"""Kernels that take and put elements: JAX's arrays cannot be assigned to."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from pullback.plugins.compiling import require
from pullback.plugins.records import Kernel


def _in_range(indices: jax.Array, size: int) -> jax.Array:
    """The indices as a vector, none negative."""
    flat = jnp.reshape(indices, (-1,)).astype(jnp.int64)
    within = jnp.all((flat >= -size) & (flat < size))
    # JAX itself takes the nearest element for an index out of range.
    require(within, IndexError(f"an index is outside an axis of size {size}"))
    return jnp.where(flat < 0, flat + size, flat)


def _take(x: jax.Array, indices: jax.Array, *, axis: int) -> jax.Array:
    flat = _in_range(indices, x.shape[axis])
    shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
    if not x.shape[axis]:
        return jnp.zeros(shape, x.dtype)
    return jnp.reshape(jnp.take(x, flat, axis=axis, mode="clip"), shape)


def _by_index(
    x: jax.Array, indices: jax.Array, updates: jax.Array, axis: int
) -> tuple[jax.Array, jax.Array]:
    """The indices as a vector, and the updates with an axis of as many in front."""
    flat = _in_range(indices, x.shape[axis])
    shape = (*x.shape[:axis], flat.shape[0], *x.shape[axis + 1 :])
    return flat, jnp.moveaxis(jnp.reshape(updates, shape), axis, 0)


def _scatter_update(
    x: jax.Array, indices: jax.Array, updates: jax.Array, *, axis: int
) -> jax.Array:
    flat, updates = _by_index(x, indices, updates, axis)
    if not flat.shape[0]:
        return x
    # Of several updates of an index the last one counts, which XLA does not promise.
    last = jnp.full(x.shape[axis], -1, jnp.int64).at[flat].max(jnp.arange(flat.shape[0]))
    chosen = jnp.moveaxis(jnp.take(updates, last, axis=0, mode="clip"), 0, axis)
    shape = [1] * x.ndim
    shape[axis] = -1
    return jnp.where(jnp.reshape(last >= 0, shape), chosen, x)


def _scatter_add(x: jax.Array, indices: jax.Array, updates: jax.Array, *, axis: int) -> jax.Array:
    flat, updates = _by_index(x, indices, updates, axis)
    moved = jnp.moveaxis(x, axis, 0)
    if x.dtype in (jnp.float64, jnp.complex64, jnp.complex128):
        result = _added_in_pairs(moved, flat, updates)
    else:
        # XLA adds one after the other.
        work = jnp.float64 if jnp.issubdtype(x.dtype, jnp.floating) else x.dtype
        result = moved.astype(work).at[flat].add(updates.astype(work)).astype(x.dtype)
    return jnp.moveaxis(result, 0, axis)


def _added_in_pairs(x: jax.Array, flat: jax.Array, updates: jax.Array) -> jax.Array:
    """x with updates added along the first axis: those of one index first, in pairs of sums."""
    if not flat.shape[0]:
        return x
    order = jnp.argsort(flat, stable=True)
    flat, updates = flat[order], updates[order]
    begins = jnp.concatenate([jnp.ones(1, bool), flat[1:] != flat[:-1]])
    ends = jnp.concatenate([begins[1:], jnp.ones(1, bool)])
    column = (-1, *[1] * (updates.ndim - 1))

    def joined(left: Any, right: Any) -> Any:
        (begun, total), (begins_here, value) = left, right
        kept = jnp.reshape(begins_here, column)
        return begun | begins_here, jnp.where(kept, value, total + value)

    _, sums = jax.lax.associative_scan(joined, (begins, updates))
    # The last sum of each index is that of all; the others fall off the end.
    return x.at[jnp.where(ends, flat, x.shape[0])].add(sums, mode="drop")


def _strided_slice(x: jax.Array, *, key: tuple[Any, ...]) -> jax.Array:
    return x[key]


def _strided_update(x: jax.Array, value: jax.Array, *, key: tuple[Any, ...]) -> jax.Array:
    # Where something is put, None has no meaning.
    present = tuple(entry for entry in key if entry is not None)
    if len(present) < len(key):
        target = jax.eval_shape(lambda x: x[key], x).shape
        inside = jax.eval_shape(lambda x: x[present], x).shape
        value = jnp.reshape(jnp.broadcast_to(value, target), inside)
    return x.at[present].set(value)


def _searchsorted(
    x1: jax.Array, x2: jax.Array, sorter: jax.Array | None, *, side: str
) -> jax.Array:
    if sorter is not None:
        if sorter.shape != x1.shape:
            raise ValueError(f"the sorter has the shape {sorter.shape}, not {x1.shape}")
        x1 = jnp.take(x1, _in_range(sorter, x1.shape[0]), mode="clip")
    return jnp.searchsorted(x1, x2, side=side).astype(jnp.int64)


KERNELS: dict[str, Kernel] = {
    "scatter_add": _scatter_add,
    "scatter_update": _scatter_update,
    "searchsorted": _searchsorted,
    "strided_slice": _strided_slice,
    "strided_update": _strided_update,
    "take": _take,
}
