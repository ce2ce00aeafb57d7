"""The values that a dtype has, from the smallest to the largest: zeros, subnormals, NaN."""

from __future__ import annotations

from functools import cache

import ml_dtypes
import numpy as np

from pullback import dtypes
from pullback.dtypes import DType
from pullback_conformance.sample import Array

#: The number of distinct values of a derived sample: a prime, so that repeats of them meet every
#: position of a vector or a block.
PERIOD = 251
#: Large enough for vectors and their tails, blocks of 2**16, and 16-bit offsets.
LARGE = 2**16 + 77
#: Enough of 16-bit floats that a kernel converts them with loops of its own.
CONVERTED = 2**14 + 77
#: Beyond every size at which libraries change their way, and no multiple of a vector.
HUGE = 2**20 + 7
#: The checks of so many: a kernel of its own for them may save memory where it must not.
HUGE_CHECKS = ("value", "unchanged_many")
#: Large enough for vectors, their tails, and most blocks.
MEDIUM = 2**11 + 83


@cache
def floats(dtype: DType, *, seed: int = 0) -> Array:
    """PERIOD values of a floating dtype, as float64: both signs, every magnitude, no numbers.

    >>> from pullback import dtypes
    >>> values = floats(dtypes.float16)
    >>> bool(np.isnan(values).any() and np.isinf(values).any() and np.signbit(values).any())
    True
    """
    info = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    tiny, eps = float(info.smallest_normal), float(info.eps)
    smallest, largest = float(info.smallest_subnormal), float(info.max)
    positive = [
        *(smallest, 3 * smallest, tiny - smallest, tiny, tiny * (1 + eps), tiny / 2),
        *(eps / 2, eps, np.sqrt(tiny), np.sqrt(eps), 1e-3, 0.1, 0.25, 0.5 - eps / 4, 0.5),
        *(0.5 + eps / 2, 1 - eps / 2, 1.0, 1 + eps, 1.5, 2.0, 2.5, 3.0, 3.5, 10.0, 100.0),
        *(np.pi / 4, np.pi / 2, np.pi, 3 * np.pi / 2, 20.0, 88.0, 1 / eps - 0.5, 1 / eps),
        *(1 / eps + 1, 2 / eps, np.sqrt(largest), largest / 2, largest),
    ]
    special = [0.0, np.inf, np.nan, *positive]
    special += [-value for value in special]
    rng = np.random.default_rng([seed, 6])
    rest = PERIOD - len(special)
    lowest, highest = np.log2(smallest), np.log2(largest)
    anywhere = np.exp2(rng.uniform(lowest, highest, rest // 4))
    near = np.exp2(rng.uniform(-12, 5, rest - rest // 4))
    drawn = np.concatenate([anywhere, near]) * rng.choice([-1.0, 1.0], rest)
    values = rng.permutation(np.concatenate([special, drawn]))
    with np.errstate(over="ignore"):
        return values.astype(dtype).astype(np.float64)


@cache
def integers(dtype: DType, *, seed: int = 0) -> Array:
    """PERIOD values of an integer dtype: its limits, and neighbors that no float64 tells apart."""
    info = np.iinfo(dtype)
    exact = [0, 1, 2, 3, 7, 100, 2**15, 2**24, 2**24 + 1, 2**31 - 1, 2**31, 2**32, 2**53]
    exact += [2**53 + 1, 2**53 + 2, 2**62, 2**62 + 1, info.max - 1, info.max]
    both = [*exact, *(-value for value in exact), info.min, info.min + 1]
    special = sorted({value for value in both if info.min <= value <= info.max})
    rng = np.random.default_rng([seed, 7])
    rest = PERIOD - len(special)
    near = rng.integers(max(info.min, -9), 10, rest // 2, dtype=dtype)
    anywhere = rng.integers(info.min, info.max, rest - rest // 2, dtype=dtype, endpoint=True)
    return rng.permutation(np.concatenate([np.array(special, dtype), near, anywhere]))


@cache
def neighbors(dtype: DType) -> Array:
    """Integers beside others that are one float64, the larger in between, from both ends."""
    info = np.iinfo(dtype)
    low, high = int(info.min), int(info.max)
    exact = [high - 1, high, high - 2, high - 1, 2**53 + 1, 2**53, 2**53 + 2, low + 1, low]
    exact += [low + 2, 2**62 + 1, 2**62, 2**24 + 1, 2**24, -(2**53) - 1, -(2**53), 0, 1, 0, 2]
    return np.array([value for value in exact if low <= value <= high], dtype)


@cache
def ties(dtype: DType) -> Array:
    """Integers half-way between two float32, or beside that."""
    high = int(np.iinfo(dtype).max)
    exact = [2**e + 2 ** (e - 24) + more for e in range(25, 64) for more in (-1, 0, 1)]
    return np.array([value for value in exact if value <= high], dtype)


@cache
def roundings(dtype: DType) -> Array:
    """float64 numbers half-way between two 16-bit floats, and so near to that that float32 is.

    Those of the largest number decide what is infinite.

    >>> from pullback import dtypes
    >>> x = roundings(dtypes.float16)
    >>> [65520 * (1 - 2.0**-40) in x, 65520.0 in x, 1 + 2.0**-11 + 2.0**-40 in x]
    [True, True, True]
    """
    info = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    eps, least, largest = float(info.eps), float(info.smallest_subnormal), float(info.max)
    halves = np.arange(8) + 0.5
    last = largest / (2 - eps) * eps
    ties = [2.0**e * (1 + eps * halves) for e in (-9, -1, 0, 3, 14)]
    exact = np.concatenate([*ties, least * halves, [largest - last / 2, largest + last / 2]])
    near = np.concatenate([exact * (1 + step) for step in (0, 2.0**-40, -(2.0**-40))])
    return np.concatenate([near, -near])


@cache
def whole_roundings(dtype: DType) -> Array:
    """Integers half-way between two bfloat16, or so near to that that float32 is."""
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    ties = [2**e + k * 2 ** (e - 8) for e in range(8, 64) for k in (1, 3)]
    every = [sign * (tie + more) for sign in (1, -1) for tie in ties for more in (-1, 0, 1)]
    return np.array([value for value in every if low <= value <= high], dtype)


@cache
def booleans(*, seed: int = 0) -> Array:
    """PERIOD booleans."""
    return np.random.default_rng([seed, 8]).integers(0, 2, PERIOD).astype(np.bool_)


def of(dtype: DType, *, seed: int = 0) -> Array:
    """The values of a real dtype; those of floating dtypes as float64."""
    if dtype == dtypes.bool_:
        return booleans(seed=seed)
    return integers(dtype, seed=seed) if dtype in dtypes.INTEGER else floats(dtype, seed=seed)


def inside(x: Array, limits: tuple[float, float] | None) -> Array:
    """The values inside the domain, repeated in place of the others."""
    if limits is None:
        return x
    low, high = limits
    size = x.astype(np.float64)
    kept = x[np.isnan(size) | ((size >= low) & (size <= high))]
    return np.resize(kept, x.size)


def special(dtype: DType) -> Array:
    """The values at which functions branch, few enough for all pairs."""
    info = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    smallest, tiny = float(info.smallest_subnormal), float(info.smallest_normal)
    largest = float(info.max)
    exact = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, -2.0, 3.0]
    return np.array([*exact, smallest, -smallest, tiny, largest, -largest])
