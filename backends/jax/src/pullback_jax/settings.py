"""JAX's settings in the calls of the backend, without changing those of the process."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import jax

_F = TypeVar("_F", bound=Callable[..., Any])

#: Settings that change results, and what the kernels are written for. They are rarely set.
_OTHERS = (
    ("jax_numpy_rank_promotion", "allow", jax.numpy_rank_promotion),
    ("jax_numpy_dtype_promotion", "standard", jax.numpy_dtype_promotion),
    ("jax_debug_nans", False, jax.debug_nans),
)


def settings() -> AbstractContextManager[Any]:
    """Has JAX compute as the backend needs it in a `with` block, in this thread alone.

    Numbers may have 64 bits, shapes and dtypes are promoted, and NaN is a value like others.
    """
    config = jax.config
    for name, value, _ in _OTHERS:
        if getattr(config, name) != value:
            return _all()
    wide: AbstractContextManager[Any] = jax.enable_x64(True)
    return wide


def _all() -> contextlib.ExitStack:
    with contextlib.ExitStack() as stack:
        stack.enter_context(jax.enable_x64(True))
        for _, value, context in _OTHERS:
            stack.enter_context(context(value))
        return stack.pop_all()


def with_settings(function: _F) -> _F:
    """The function, called with `settings`."""

    @functools.wraps(function)
    def called(*arguments: Any, **attributes: Any) -> Any:
        with settings():
            return function(*arguments, **attributes)

    return called  # type: ignore[return-value]
