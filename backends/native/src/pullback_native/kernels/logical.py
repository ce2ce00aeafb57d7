"""Truth of many floats, by comparisons with 0: NumPy's logical functions have no vectors for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pullback.plugins.records import Kernel, converts
from pullback_native import _native
from pullback_native.loops import Array

#: Of fewer elements NumPy's one call takes less time.
_FEW = 4096


def _beside_zero(compare: Callable[..., Any], x: Array) -> Any:
    return compare(x, np.zeros((), x.dtype))


def _is_slow(x: Array) -> bool:
    return x.size >= _FEW and x.dtype.kind not in "biu"


def _logical_not(x: Array) -> Any:
    return _beside_zero(_native.equal, x) if _is_slow(x) else np.logical_not(x)


def _of_two(function: np.ufunc) -> Callable[..., Any]:
    def kernel(*arrays: Array) -> Any:
        truths = [_beside_zero(_native.not_equal, x) if _is_slow(x) else x for x in arrays]
        return function(*truths)

    return kernel


KERNELS: dict[str, Kernel] = {
    "logical_not": converts(_logical_not),
    **{
        name: converts(_of_two(getattr(np, name)))
        for name in ("logical_and", "logical_or", "logical_xor")
    },
}
