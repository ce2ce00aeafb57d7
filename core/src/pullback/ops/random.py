"""Random numbers as functions of a key and a counter.

All of them come from Philox 4x64-10 (Salmon et al., 2011, Parallel random numbers: as easy as 1, 2,
3): a block cipher that turns a counter of 256 bits, under a key of 128, into four words of 64 bits.
There is no state between calls, so a call gives the same numbers on every machine and at any time;
`pullback.random.Generator` advances the counter.

The mapping, bit by bit. An op called with `counter` uses the blocks of counter + 1, counter + 2 and
so on, each whole: the words of `numpy.random.Philox(key=key, counter=counter)`, which counts before
it draws. Elements take words in C order. Numbers of 32 bits take the low half of a word first. With
u such a number, float64 is (u64 >> 11) * 2**-53, float32 is (u32 >> 8) * 2**-24, and the 16-bit
floats are the top 11 (float16) or 8 (bfloat16) bits of u32.
"""

from __future__ import annotations

import math
from typing import Any

from pullback import dtypes, errors
from pullback._dispatch import op
from pullback._symbols import DrawnInt
from pullback.devices import DeviceLike
from pullback.dtypes import DType, DTypeLike, Operands, Resolution, float32, float64, uint32, uint64
from pullback.ops.creation import full
from pullback.ops.exponential import log1p, sqrt
from pullback.ops.joining import concat
from pullback.ops.manipulation import reshape
from pullback.ops.selection import where
from pullback.ops.trigonometric import cos, sin
from pullback.shapes import (
    Shape,
    ShapeLike,
    as_shape,
    broadcast_shapes,
    first,
    shape_attribute,
    size_of,
)
from pullback.spec import ACCUMULATED, EXACT, ROUNDED
from pullback.tensor import Tensor

__all__ = ["dropout", "random_bits", "random_normal", "random_uniform"]

_KEY_LIMIT = 1 << 128
_COUNTER_LIMIT = 1 << 256
_INTS = (int, DrawnInt)
#: The bits of a random number that each floating dtype uses.
_DIGITS = {dtypes.float64: 53, dtypes.float32: 24, dtypes.float16: 11, dtypes.bfloat16: 8}


def words_of(size: int, dtype: DType) -> int:
    """The number of 64-bit words for `size` uniform numbers of `dtype`."""
    return size if dtype in (float64, uint64) else -(-size // 2)


def _as_asked(operands: Operands, dtype: DType, **_: object) -> Resolution:
    """The requested dtype."""
    return Resolution((), (dtype,))


def check_state(key: int, counter: int) -> None:
    """Raises InputValueError unless key and counter are integers of 128 and 256 bits."""
    if type(key) not in _INTS or not 0 <= key < _KEY_LIMIT:
        raise errors.InputValueError(f"key must be an int in [0, 2**128), got {key!r}")
    if type(counter) not in _INTS or not 0 <= counter < _COUNTER_LIMIT:
        raise errors.InputValueError(f"counter must be an int in [0, 2**256), got {counter!r}")


def _normalize_bits(shapes: tuple[Shape, ...], **attributes: Any) -> dict[str, object]:
    check_state(attributes["key"], attributes["counter"])
    if attributes["dtype"] is None:
        attributes["dtype"] = dtypes.DEFAULT_FLOAT
    if attributes["dtype"] not in (uint32, uint64):
        raise errors.DTypeError(f"random bits must be uint32 or uint64, got {attributes['dtype']}")
    return attributes


@op(
    shape=shape_attribute,
    dtype=_as_asked,
    accuracy=EXACT,
    differentiable=False,
    normalize=_normalize_bits,
    primitive="Philox multiplies to 128 bits in ten rounds: hundreds of ops on 32-bit words.",
)
def random_bits(
    shape: ShapeLike,
    *,
    key: int,
    counter: int,
    dtype: DTypeLike = uint32,
    device: DeviceLike | None = None,
) -> Tensor:
    """Words of Philox 4x64-10; the same on every backend (see the top of this module).

    Args:
        shape: the shape of the result.
        key: an integer of 128 bits.
        counter: an integer of 256 bits; the first block is that of counter + 1.
        dtype: uint64, or uint32 for the halves of the words, low half first.
        device: the device of the tensor; the active device if not given.

    Raises:
        InputValueError: for a key or counter out of range.
        DTypeError: for another dtype.

    >>> pb.random_bits(3, key=5, counter=7, dtype=pb.uint32).tolist() == (
    ...     np.random.Philox(key=5, counter=7).random_raw(2).view(np.uint32)[:3].tolist())
    True
    """


def _normalize_floats(shapes: tuple[Shape, ...], **attributes: Any) -> dict[str, object]:
    check_state(attributes["key"], attributes["counter"])
    if attributes["dtype"] is None:
        attributes["dtype"] = dtypes.DEFAULT_FLOAT
    if attributes["dtype"] not in _DIGITS:
        raise errors.DTypeError(
            f"random numbers must have a real floating dtype, got {attributes['dtype']}"
        )
    return attributes


@op(
    shape=shape_attribute,
    dtype=_as_asked,
    accuracy=EXACT,
    differentiable=False,
    normalize=_normalize_floats,
)
def random_uniform(
    shape: ShapeLike,
    *,
    key: int,
    counter: int,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
) -> Tensor:
    """Uniform numbers in [0, 1); the same on every backend.

    Args:
        shape: the shape of the result.
        key: an integer of 128 bits.
        counter: an integer of 256 bits; the first block is that of counter + 1.
        dtype: a real floating dtype; the default one if not given.
        device: the device of the tensor; the active device if not given.

    Raises:
        InputValueError: for a key or counter out of range.
        DTypeError: for another dtype.

    >>> pb.random_uniform((2,), key=5, counter=7).tolist() == (
    ...     np.random.Generator(np.random.Philox(key=5, counter=7)).random(2, np.float32).tolist())
    True
    """
    dtype = dtypes.as_dtype(float32 if dtype is None else dtype)
    width = uint64 if dtype == float64 else uint32
    bits = random_bits(shape, key=key, counter=counter, dtype=width, device=device)
    digits = _DIGITS[dtype]
    return (bits >> (8 * width.itemsize - digits)).astype(dtype) * 2.0**-digits


# ACCUMULATED: the rounded angle has a sine and a cosine that may be near 0.
@op(
    shape=shape_attribute,
    dtype=_as_asked,
    accuracy=ACCUMULATED,
    differentiable=False,
    normalize=_normalize_floats,
)
def random_normal(
    shape: ShapeLike,
    *,
    key: int,
    counter: int,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
) -> Tensor:
    """Standard normal numbers (Box and Muller, 1958); the same on every backend within rounding.

    For n elements, the first m = ceil(n / 2) uniform numbers u give the radii r =
    sqrt(-2 log(1 - u)), and m more the angles a = 2 pi u. The result is the first n elements of
    r cos(a) followed by r sin(a). 16-bit dtypes are rounded from float32.

    Args:
        shape: the shape of the result.
        key: an integer of 128 bits.
        counter: an integer of 256 bits; the first block is that of counter + 1.
        dtype: a real floating dtype; the default one if not given.
        device: the device of the tensor; the active device if not given.

    Raises:
        InputValueError: for a key or counter out of range.
        DTypeError: for another dtype.

    >>> pb.random_normal((2, 3), key=5, counter=7).shape
    (2, 3)
    """
    dtype = dtypes.as_dtype(float32 if dtype is None else dtype)
    wide = float64 if dtype == float64 else float32
    size = size_of(as_shape(shape))
    half = -(-size // 2)
    u = random_uniform((2 * half,), key=key, counter=counter, dtype=wide, device=device)
    radius = sqrt(log1p(-u[:half]) * -2)
    angle = u[half:] * (2 * math.pi)
    pairs = concat([radius * cos(angle), radius * sin(angle)])
    return reshape(pairs[:size], shape).astype(dtype)  # type: ignore[arg-type]


# Dropout ---------------------------------------------------------------------------------------


def _normalize_dropout(
    shapes: tuple[Shape, ...], *, rate: float, noise_shape: Any, key: int, counter: int
) -> dict[str, object]:
    check_state(key, counter)
    if not 0 <= rate <= 1:
        raise errors.InputValueError(f"rate must be in [0, 1], got {rate!r}")
    x = noise = shapes[0]
    if noise_shape is not None:
        sizes = tuple(noise_shape)
        noise = tuple(n if size is None else size for size, n in zip(sizes, x, strict=False))
        if len(sizes) != len(x) or broadcast_shapes(x, noise) != x:
            raise errors.ShapeError(f"noise_shape {noise_shape} does not broadcast to {x}")
    return {"rate": rate, "noise_shape": noise, "key": key, "counter": counter}


@op(
    shape=first,
    dtype=dtypes.real_floating,
    accuracy=ROUNDED,
    residuals=("kept",),
    normalize=_normalize_dropout,
)
def dropout(
    x: Tensor,
    *,
    rate: float,
    key: int,
    counter: int,
    noise_shape: tuple[int | None, ...] | None = None,
) -> Tensor:
    """x with elements set to 0 at random, the others divided by 1 - rate (Srivastava et al., 2014).

    An element is kept if its float32 number from `random_uniform` is at least rate; at rate 0 that
    is each one, and no number is drawn.

    Args:
        x: real floating values.
        rate: the fraction of elements set to 0.
        key: as for `random_uniform`.
        counter: as for `random_uniform`.
        noise_shape: the shape of the mask, which broadcasts to x: with size 1, all elements along
            an axis share it (spatial dropout, Tompson et al., 2015); None is the size of x.

    Raises:
        InputValueError: for a rate outside [0, 1], a key or a counter out of range.
        ShapeError: if noise_shape does not broadcast to x.

    >>> sorted(set(pb.dropout(pb.ones(100), rate=0.5, key=1, counter=0).tolist()))
    [0.0, 2.0]
    """
    if not rate:
        return x, full(noise_shape, True, device=x.device)  # type: ignore[arg-type,return-value]
    noise = random_uniform(
        noise_shape,  # type: ignore[arg-type]
        key=key,
        counter=counter,
        dtype=float32,
        device=x.device,
    )
    kept = noise >= rate
    return where(kept, x * _scale(rate), 0), kept  # type: ignore[return-value]


def _scale(rate: float) -> float:
    return 1 / (1 - rate) if rate < 1 else 0.0


dropout.vjp(x=lambda g, kept, rate: where(kept, g * _scale(rate), 0) if rate else g)
