"""Arrays with the same values in other memory layouts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pullback_conformance.sample import Array


def _columns_first(x: Array) -> Array:
    return np.asfortranarray(x) if x.ndim else x


def _strided(x: Array) -> Array:
    if not x.ndim:
        return x
    wide = np.zeros((*x.shape[:-1], 2 * x.shape[-1]), x.dtype)
    wide[..., ::2] = x
    return wide[..., ::2]


def _reversed(x: Array) -> Array:
    backwards = tuple(slice(None, None, -1) for _ in x.shape)
    return np.ascontiguousarray(x[backwards])[backwards] if x.ndim else x


def _repeated(x: Array) -> Array:
    """The first item repeated along the last axis, with a stride of 0. This changes the values."""
    return np.broadcast_to(x[..., :1], x.shape) if x.ndim and x.shape[-1] else x


def _parts_of_rows(x: Array) -> Array:
    """Rows with more elements between them, as of some columns of a wider matrix."""
    if not x.ndim:
        return x
    wide = np.zeros((*x.shape[:-1], x.shape[-1] + 3), x.dtype)
    wide[..., 1:-2] = x
    return wide[..., 1:-2]


def _every_second(x: Array) -> Array:
    if not x.ndim:
        return x
    wide = np.zeros((2 * x.shape[0], *x.shape[1:]), x.dtype)
    wide[::2] = x
    return wide[::2]


def _exchanged(x: Array) -> Array:
    """The second axis last in memory, as of images with channels at axis 1."""
    if x.ndim < 3:
        return x
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)


def _rows_repeated(x: Array) -> Array:
    """The first item for all, with a stride of 0 along the first axis. This changes the values."""
    return np.broadcast_to(x[:1], x.shape) if x.ndim > 1 and x.shape[0] else x


def _unaligned(x: Array) -> Array:
    store = np.zeros(x.nbytes + 1, np.uint8)
    unaligned: Array = np.ndarray(x.shape, x.dtype, store.data, offset=1)
    unaligned[...] = x
    return unaligned


def _arrays_only(lay: Callable[[Array], Array]) -> Callable[[object], object]:
    return lambda x: lay(x) if isinstance(x, np.ndarray) else x


#: The layouts that change values.
REPEATED = ("repeated", "rows repeated")
#: Layouts by name; other values than arrays are returned as they are.
LAYOUTS: dict[str, Callable[[object], object]] = {
    "column-major": _arrays_only(_columns_first),
    "strided": _arrays_only(_strided),
    "reversed": _arrays_only(_reversed),
    "unaligned": _arrays_only(_unaligned),
    "repeated": _arrays_only(_repeated),
    "parts of rows": _arrays_only(_parts_of_rows),
    "every second item": _arrays_only(_every_second),
    "axes exchanged": _arrays_only(_exchanged),
    "rows repeated": _arrays_only(_rows_repeated),
}
