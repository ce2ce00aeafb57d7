"""Branches and loops of captured functions, as `jax.lax` has them: one program for the whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from pullback.plugins.compiling import Control, Nested


def _choose(
    choice: jax.Array, operands: Sequence[jax.Array], *, branches: Sequence[Nested], **_: Any
) -> tuple[Any, ...]:
    """The results of one branch: of two, the first for true; of several, the nearest by number."""
    if choice.dtype == bool:
        number = jnp.where(choice, 0, 1)
    else:
        number = jnp.clip(choice, 0, len(branches) - 1)
    results: tuple[Any, ...] = lax.switch(
        number.astype(jnp.int32), [_all_arrays(branch) for branch in branches], *operands
    )
    return results


def _all_arrays(function: Nested) -> Callable[..., tuple[jax.Array, ...]]:
    """The function with an array as its last result, which may be Python's True."""

    def called(*operands: jax.Array) -> tuple[jax.Array, ...]:
        *results, held = function(*operands)
        return *results, jnp.asarray(held, bool)

    return called


def _scan(
    constants: Sequence[jax.Array],
    init: Sequence[jax.Array],
    arrays: Sequence[jax.Array],
    *,
    body: Nested,
    carries: int,
    length: int,
    reverse: bool,
    **_: Any,
) -> tuple[Any, ...]:
    def step(state: Any, elements: Any) -> Any:
        carry, held = state
        *results, holds = body(*constants, *carry, *elements)
        return (tuple(results[:carries]), held & holds), tuple(results[carries:])

    start = tuple(init), jnp.asarray(True)
    (carry, held), stacked = lax.scan(step, start, tuple(arrays), length=length, reverse=reverse)
    return *carry, *stacked, held


def _while_loop(
    constants: Sequence[jax.Array],
    init: Sequence[jax.Array],
    *,
    test: Nested,
    body: Nested,
    maximum: int | None,
    **_: Any,
) -> tuple[Any, ...]:
    def tested(carry: Sequence[jax.Array], count: Any, held: Any) -> Any:
        """The state before a step, or after the last one."""
        goes_on, holds = test(*constants, *carry)
        held = held & holds
        # With values that a kernel rejects, the loop may have no end.
        goes_on = goes_on & held
        if maximum is not None:
            goes_on = goes_on & (count < maximum)
        return tuple(carry), count, held, goes_on

    def step(state: Any) -> Any:
        carry, count, held, _ = state
        *carry, holds = body(*constants, *carry)
        return tested(carry, count + 1, held & holds)

    state = tested(init, jnp.asarray(0, jnp.int64), jnp.asarray(True))
    carry, _, held, _ = lax.while_loop(lambda state: state[-1], step, state)
    return *carry, held


def _barrier(x: jax.Array, after: jax.Array, **_: Any) -> tuple[Any, ...]:
    """x once more, which XLA does not take for x itself."""
    return lax.optimization_barrier((x, after))[0], True


CONTROL: Mapping[str, Control] = {
    "barrier": _barrier,
    "cond": _choose,
    "scan": _scan,
    "switch": _choose,
    "while_loop": _while_loop,
}
