"""Arrays with the same values in other orders of memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def _columns_first(x: Any) -> Any:
    return np.asfortranarray(x) if x.ndim else x


def _strided(x: Any) -> Any:
    if not x.ndim:
        return x
    wide = np.zeros((*x.shape[:-1], 2 * x.shape[-1]), x.dtype)
    wide[..., ::2] = x
    return wide[..., ::2]


def _reversed(x: Any) -> Any:
    turned = tuple(slice(None, None, -1) for _ in x.shape)
    return np.ascontiguousarray(x[turned])[turned] if x.ndim else x


def _repeated(x: Any) -> Any:
    """The first item repeated along the last axis, with a stride of 0. The values are others."""
    return np.broadcast_to(x[..., :1], x.shape) if x.ndim and x.shape[-1] else x


def _unaligned(x: Any) -> Any:
    store = np.zeros(x.nbytes + 1, np.uint8)
    there = np.ndarray(x.shape, x.dtype, store.data, offset=1)
    there[...] = x
    return there


def _arrays_only(lay: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: lay(x) if isinstance(x, np.ndarray) else x


#: By name; each leaves what is no array as it is.
LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "column-major": _arrays_only(_columns_first),
    "strided": _arrays_only(_strided),
    "reversed": _arrays_only(_reversed),
    "unaligned": _arrays_only(_unaligned),
    "repeated": _arrays_only(_repeated),
}
