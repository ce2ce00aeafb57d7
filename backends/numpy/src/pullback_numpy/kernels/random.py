"""Random numbers: the ops are defined by Philox as NumPy has it."""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np

from pullback import dtypes
from pullback.plugins.records import Kernel
from pullback_numpy import threads
from pullback_numpy.kernels.activations import masked
from pullback_numpy.typing import Array, DType, Sizes

_MOST_KEY, _MOST_COUNTER = (1 << 128) - 1, (1 << 256) - 1


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
    # Words of 64 bits, the lowest first. An array of Python's integers takes three times as long.
    state["state"] = {
        "counter": np.frombuffer((counter & _MOST_COUNTER).to_bytes(32, "little"), "<u8"),
        "key": np.frombuffer((key & _MOST_KEY).to_bytes(16, "little"), "<u8"),
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
    radius, angle, both = u[:half], u[half:], np.empty_like(u)
    first, second = both[:half], both[half:]

    def work(piece: slice) -> None:
        size, turn = radius[piece], angle[piece]
        np.negative(size, out=size)
        np.log1p(size, out=size)
        size *= -2
        np.sqrt(size, out=size)
        turn *= wide.type(2 * math.pi)
        np.sin(turn, out=second[piece])
        np.cos(turn, out=first[piece])
        first[piece] *= size
        second[piece] *= size

    threads.over(work, half)
    return both[:size].reshape(shape).astype(dtype, copy=False)


_TRUE = np.ones((), np.bool_)


def _dropout(
    x: Array, *, rate: float, key: int, counter: int, noise_shape: Any
) -> tuple[Array, ...]:
    if not rate:
        return x, np.broadcast_to(_TRUE, noise_shape)
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
