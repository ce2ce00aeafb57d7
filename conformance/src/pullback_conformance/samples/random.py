"""Samples of the random ops: NumPy's Philox is the reference."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from pullback import dtypes, errors
from pullback_conformance.draws import normal
from pullback_conformance.sample import Sample, call, rough, suite, wrong

Array: TypeAlias = Any

_WIDE: dict[str, Any] = {"key": 2**128 - 5, "counter": 2**256 - 3}
#: Where one of the first words of 32 bits is so near to 2**32, or to 0, as one of 30 million is.
_RARE: dict[str, dict[str, Any]] = {
    "a word near 2**32": {"key": 5, "counter": 1702942},
    "a word near 0": {"key": 5, "counter": 2605638},
}


def _bits(
    shape: Any, *, key: int, counter: int, dtype: Any = "uint32", device: object = None
) -> Array:
    size = int(np.prod(shape))
    words = np.random.Philox(key=key, counter=counter).random_raw(size)
    numbers = [int(word) for word in words]
    if np.dtype(dtype) == np.uint32:
        numbers = [half for word in numbers for half in (word & 0xFFFFFFFF, word >> 32)]
    return np.array(numbers[:size], dtype).reshape(shape)


def _uniform(
    shape: object, *, key: int, counter: int, dtype: Any = "float32", device: object = None
) -> Array:
    kind = dtypes.as_dtype(dtype)
    if kind == np.float64:
        return (_bits(shape, key=key, counter=counter, dtype="uint64") >> np.uint64(11)) * 2.0**-53
    digits = {"float32": 24, "float16": 11, "bfloat16": 8}[kind.name]
    halves = _bits(shape, key=key, counter=counter)
    return (halves >> np.uint32(32 - digits)).astype(np.float64) * 2.0**-digits


def _polar(shape: Any, key: int, counter: int, dtype: Any) -> tuple[int, Array, Array]:
    wide = "float64" if dtypes.as_dtype(dtype) == np.float64 else "float32"
    size = int(np.prod(shape))
    half = (size + 1) // 2
    u = _uniform((2 * half,), key=key, counter=counter, dtype=wide)
    return size, np.sqrt(-2 * np.log1p(-u[:half])), 2 * np.pi * u[half:]


def _normal(
    shape: object, *, key: int, counter: int, dtype: object = "float32", device: object = None
) -> Array:
    size, radius, angle = _polar(shape, key, counter, dtype)
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:size].reshape(shape)


def _normal_size(
    shape: object, *, key: int, counter: int, dtype: object = "float32", device: object = None
) -> Array:
    """The angle is rounded before its cosine is taken."""
    size, radius, angle = _polar(shape, key, counter, dtype)
    terms = radius * (1 + angle)
    return np.concatenate([terms, terms])[:size].reshape(shape)


def _drawn(*dtypes_: str) -> list[Sample]:
    samples = [
        call(shape=shape, key=5, counter=7, dtype=dtype)
        for dtype in dtypes_
        for shape in ((), (1,), (3,), (4,), (3, 5), (0, 2))
    ]
    samples += [
        call(shape=(size,), **state, dtype=dtype, note=f"{note}, {size} as {dtype}")
        for note, state in _RARE.items()
        for dtype in dtypes_
        for size in (9, 2131)
    ]
    return [*samples, call(shape=(9,), **_WIDE, dtype=dtypes_[0], note="largest")]


_STATE = [
    wrong(errors.InputValueError, shape=(2,), key=-1, counter=0),
    wrong(errors.InputValueError, shape=(2,), key=2**128, counter=0),
    wrong(errors.InputValueError, shape=(2,), key=0, counter=2**256),
    wrong(errors.InputTypeError, shape=(2,), key=0, counter=0.5),
    wrong(errors.ShapeError, shape=(-2,), key=0, counter=0),
]

suite("random_bits", _bits)(
    *_drawn("uint32", "uint64"),
    *_STATE,
    wrong(errors.DTypeError, shape=(2,), key=0, counter=0, dtype="int32"),
)
suite("random_uniform", _uniform)(
    *_drawn("float32", "float64", "float16", "bfloat16"),
    *_STATE,
    wrong(errors.DTypeError, shape=(2,), key=0, counter=0, dtype="int32"),
)
suite("random_normal", _normal, scale=_normal_size)(
    *_drawn("float32", "float64", "float16", "bfloat16"), *_STATE
)


def _dropout(x: Array, *, rate: float, key: int, counter: int, noise_shape: Any = None) -> Array:
    shape = tuple(
        n if one is None else one
        for one, n in zip(noise_shape or (None,) * x.ndim, x.shape, strict=True)
    )
    kept = _uniform(shape, key=key, counter=counter) >= np.float32(rate)
    return np.where(kept, x / (1 - rate) if rate < 1 else 0 * x, 0)


suite("dropout", _dropout)(
    call(normal(4, 5), rate=0.5, key=5, counter=7),
    call(normal(4, 5), rate=0.75, key=5, counter=7, noise_shape=(None, 1)),
    call(normal(2, 3, 4), rate=0.25, key=1, counter=0, noise_shape=(1, 3, 4)),
    call(normal(), rate=0.5, key=5, counter=7, note="0-d"),
    call(normal(0, 3), rate=0.5, key=5, counter=7, note="empty"),
    call(normal(4), rate=0, key=5, counter=7, note="all"),
    call(normal(4), rate=1.0, key=5, counter=7, note="none"),
    *(
        rough(normal(9), rate=rate, **state, note=f"{note}, rate {rate}")
        for (note, state), rate in zip(_RARE.items(), (1 - 2.0**-24, 2.0**-30), strict=True)
    ),
    rough(np.full(9, np.inf), rate=0.5, key=5, counter=7),
    wrong(errors.InputValueError, normal(3), rate=1.5, key=0, counter=0),
    wrong(errors.InputValueError, normal(3), rate=0.5, key=0, counter=-1),
    wrong(errors.ShapeError, normal(3), rate=0.5, key=0, counter=0, noise_shape=(2,)),
    wrong(errors.ShapeError, normal(3), rate=0.5, key=0, counter=0, noise_shape=(1, 3)),
)
