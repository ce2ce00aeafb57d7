"""Random numbers: the ops are defined by Philox as NumPy has it."""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np

from pullback import dtypes
from pullback.plugins.records import Kernel
from pullback_numpy.kernels.activations import masked
from pullback_numpy.typing import Array, DType, Sizes

_WORD = (1 << 64) - 1


class _Local(threading.local):
    """A bit generator for each thread: it takes 16 us to make, and 1 us to set its state."""

    def __init__(self) -> None:
        self.bits = np.random.Philox(key=0, counter=0)
        self.floats = np.random.Generator(self.bits)
        self.state: Any = dict(self.bits.state)


_LOCAL = _Local()


def _at(key: int, counter: int) -> _Local:
    """This thread's generators, as those of np.random.Philox(key=key, counter=counter)."""
    state = _LOCAL.state
    state["state"] = {
        "counter": np.array([(counter >> shift) & _WORD for shift in (0, 64, 128, 192)], np.uint64),
        "key": np.array([key & _WORD, key >> 64], np.uint64),
    }
    _LOCAL.bits.state = state
    return _LOCAL


def _random_bits(*, shape: Sizes, key: int, counter: int, dtype: DType, device: None) -> Array:
    size = math.prod(shape)
    words = size if dtype.itemsize == 8 else -(-size // 2)
    drawn = _at(key, counter).bits.random_raw(words)
    if dtype.itemsize == 4:
        drawn = drawn.astype("<u8", copy=False).view("<u4")[:size].astype(np.uint32, copy=False)
    return drawn.reshape(shape)


def _random_uniform(*, shape: Sizes, key: int, counter: int, dtype: DType, device: None) -> Array:
    if dtype.itemsize > 2:
        # NumPy's own uniform numbers are made of the same bits in the same way.
        return _at(key, counter).floats.random(shape, dtype)
    bits = _random_bits(
        shape=shape, key=key, counter=counter, dtype=np.dtype(np.uint32), device=device
    )
    digits = 11 if dtype == dtypes.float16 else 8
    scaled = (bits >> np.uint32(32 - digits)).astype(np.float32) * np.float32(2.0**-digits)
    return np.asarray(scaled.astype(dtype))


def _random_normal(*, shape: Sizes, key: int, counter: int, dtype: DType, device: None) -> Array:
    wide = np.dtype(np.float64 if dtype == np.float64 else np.float32)
    size = math.prod(shape)
    half = -(-size // 2)
    u = _random_uniform(shape=(2 * half,), key=key, counter=counter, dtype=wide, device=device)
    radius, angle = u[:half], u[half:]
    np.negative(radius, out=radius)
    np.log1p(radius, out=radius)
    radius *= -2
    np.sqrt(radius, out=radius)
    angle *= wide.type(2 * math.pi)
    sine = np.sin(angle)
    np.cos(angle, out=angle)
    angle *= radius
    radius *= sine
    both = np.concatenate([angle, radius])[:size].reshape(shape)
    return both.astype(dtype, copy=False)


def _dropout(
    x: Array, *, rate: float, key: int, counter: int, noise_shape: Any
) -> tuple[Array, ...]:
    noise = _at(key, counter).floats.random(noise_shape, np.float32)
    kept = np.greater_equal(noise, np.float32(rate))
    scale = 1 / (1 - rate) if rate < 1 else 0.0
    short = x.dtype.itemsize == 2
    wide = x.astype(np.float32) if short else x
    y = masked(wide * wide.dtype.type(scale), kept)
    return (y.astype(x.dtype) if short else y), kept


KERNELS: dict[str, Kernel] = {
    "dropout": _dropout,
    "random_bits": _random_bits,
    "random_normal": _random_normal,
    "random_uniform": _random_uniform,
}
