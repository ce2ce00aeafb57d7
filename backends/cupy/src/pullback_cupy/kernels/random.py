"""Random numbers, drawn on the device by Philox, which defines the ops."""

from __future__ import annotations

import math
from typing import Any

import cupy
import numpy as np

from pullback.dtypes import DType, name_of
from pullback.plugins.records import Kernel
from pullback.shapes import Shape
from pullback_cupy.compile import elementwise, over_elements
from pullback_cupy.typing import Array

_STATE = np.dtype([("key", np.uint64, 2), ("counter", np.uint64, 4)])
_WORD = (1 << 64) - 1
#: The number of random bits in a number of each dtype.
_DIGITS = {"float32": 24, "float16": 11, "bfloat16": 8}


def _state(key: int, counter: int) -> Any:
    """The struct State of philox.cu."""
    state = np.zeros((), _STATE)
    state["key"] = [key & _WORD, key >> 64]
    state["counter"] = [counter >> shift & _WORD for shift in (0, 64, 128, 192)]
    return state


def _draw(name: str, shape: Shape, dtype: DType, key: int, counter: int, *more: Any) -> Array:
    y = cupy.empty(shape, dtype)
    size = math.prod(shape)
    typed = np.dtype(np.float32) if dtype.kind in "bu" else dtype
    over_elements("philox", name, size, (y, size, _state(key, counter), *more), T=typed)
    return y


def _random_bits(*, shape: Shape, key: int, counter: int, dtype: DType, device: Any) -> Array:
    with device:
        return _draw(f"bits{8 * dtype.itemsize}", shape, dtype, key, counter)


def _random_uniform(*, shape: Shape, key: int, counter: int, dtype: DType, device: Any) -> Array:
    with device:
        if dtype.itemsize == 8:
            return _draw("uniform64", shape, dtype, key, counter)
        return _draw("uniform32", shape, dtype, key, counter, _DIGITS[name_of(dtype)])


def _random_normal(*, shape: Shape, key: int, counter: int, dtype: DType, device: Any) -> Array:
    with device:
        return _draw("normal", shape, dtype, key, counter)


_scaled_where = elementwise(
    "dropout", "T x, bool kept, float64 scale", "T y",
    "typedef typename wide_of<T>::type W; y = kept ? T(W(x) * W(scale)) : T(0);",
)  # fmt: skip


def _dropout(
    x: Array, *, rate: float, key: int, counter: int, noise_shape: Any
) -> tuple[Array, ...]:
    kept = _draw("kept", noise_shape, np.dtype(np.bool_), key, counter, rate)
    return _scaled_where(x, kept, 1 / (1 - rate) if rate < 1 else 0.0), kept


KERNELS: dict[str, Kernel] = {
    "dropout": _dropout,
    "random_bits": _random_bits,
    "random_normal": _random_normal,
    "random_uniform": _random_uniform,
}
