"""Samples of the ops that make tensors and change their dtype."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from pullback import dtypes, errors
from pullback.casting import HALF, cast
from pullback_conformance.derived.values import roundings, whole_roundings
from pullback_conformance.draws import booleans, cnormal, integers, normal
from pullback_conformance.sample import Array, Sample, call, reachable, rough, suite, wrong


def _full(shape: object, fill_value: object, dtype: Any = None) -> Any:
    if dtype is None:
        dtype = dtypes.promote([type(fill_value)])
        if isinstance(fill_value, int):
            np.asarray(fill_value, dtypes.as_dtype(dtype))  # raises for what it does not hold
    # NumPy rounds to bfloat16 by way of float32.
    return cast(np.full(shape, fill_value), dtypes.as_dtype(dtype))


suite("full", _full)(
    call(shape=(2, 3), fill_value=1.5),
    call(shape=3, fill_value=7),
    call(shape=(), fill_value=True),
    call(shape=(0, 2), fill_value=0),
    call(shape=(2,), fill_value=1 - 2j),
    call(shape=(2,), fill_value=-3, dtype="bfloat16"),
    call(shape=(2,), fill_value=255, dtype="uint8"),
    call(shape=(2,), fill_value=0, dtype="bool"),
    call(shape=(2,), fill_value=float("nan")),
    *(
        call(shape=(2,), fill_value=sign * (1 + unit / 2 + 2.0**-40), dtype=name, note="near a tie")
        for name, unit in (("float16", 2.0**-10), ("bfloat16", 2.0**-7))
        for sign in (1, -1)
    ),
    # Equal as keys of what a library keeps, and not the same.
    call(shape=(2,), fill_value=0.0),
    call(shape=(2,), fill_value=-0.0),
    call(shape=(2,), fill_value=0.0, note="the first zero again"),
    call(shape=(2,), fill_value=2**53 + 1, dtype="int64"),
    call(shape=(2,), fill_value=2**64 - 1, dtype="uint64"),
    call(shape=(2,), fill_value=float("-inf"), dtype="float16"),
    wrong(errors.ShapeError, shape=(-1,), fill_value=0),
    wrong(errors.ConversionError, shape=(2,), fill_value=256, dtype="uint8"),
    wrong(errors.DTypeError, shape=(2,), fill_value=1j, dtype="float32"),
    wrong(errors.DTypeError, shape=(2,), fill_value=1, dtype="quaternion"),
)


def _arange(start: object, stop: Any = None, step: Any = 1, dtype: Any = None) -> Any:
    if stop is None:
        start, stop = 0, start
    if dtype is None:
        dtype = dtypes.promote([type(start), type(stop), type(step)])
    if isinstance(start, int):
        np.asarray(start, dtypes.as_dtype(dtype))  # raises if the dtype does not hold it
    length = max(0, int(np.ceil((stop - start) / step)))
    return cast(start + np.arange(length) * step, dtypes.as_dtype(dtype))


suite("arange", _arange)(
    call(start=5),
    call(start=0),
    call(start=-3, stop=4),
    call(start=10, stop=-5, step=-4),
    call(start=3, stop=3),
    call(start=5, stop=3),
    call(start=5.0, stop=3.0),
    call(start=5, dtype="float64"),
    call(start=200, dtype="bfloat16", note="bfloat16, rounded once"),
    call(start=5, dtype="uint8"),
    call(start=2**53 + 1, stop=2**53 + 4, dtype="int64"),
    call(start=2131, dtype="float32"),
    call(start=0, stop=200, step=0.1, note="2,000 elements, rounded once"),
    call(start=0.0, stop=1.0, step=0.1, note="ten elements, not eleven"),
    call(start=1.0, stop=0.0, step=-0.25),
    call(start=0, stop=100.0, step=0.7, dtype="float64"),
    call(start=1, stop=2, step=0.25, dtype="float16"),
    wrong(errors.InputValueError, start=1, stop=2, step=0),
    wrong(errors.InputValueError, start=1, stop=float("inf")),
    wrong(errors.DTypeError, start=2, dtype="bool"),
)


def _astype(x: Any, dtype: object) -> Any:
    return cast(x, reachable(x, dtype))


_VALUES = np.array([0.0, -0.5, 1.5, -2.5, 3.75, 100.25])


def _rounded_once() -> Iterator[Sample]:
    """Midpoints in float64; those that are subnormal in float32 alone, as some libraries are."""
    for dtype in sorted(HALF, key=str):
        x = roundings(dtype)
        small = np.abs(x) < np.finfo(np.float32).tiny
        for some, note in ((~small, "rounded once"), (small, "subnormal, rounded once")):
            if some.any():
                yield rough(x[some], dtype=dtype.name, dtypes=("float64",), note=note)


_ROUNDED_ONCE = tuple(_rounded_once())
suite("astype", _astype)(
    *(
        # Differences of what is rounded to a narrower dtype say nothing of the gradient.
        (call if name in ("float64", "complex128") else rough)(_VALUES, dtype=name)
        for name in ("float16", "bfloat16", "float32", "float64", "complex64", "complex128")
    ),
    rough(_VALUES, dtype="int32", note="towards zero"),
    rough(_VALUES, dtype="bool"),
    call(integers(-9, 9, 2, 3), dtype="float32"),
    call(integers(-9, 9, 2, 3), dtype="int8"),
    call(integers(0, 9, 2, 3), dtype="uint64"),
    call(booleans(5), dtype="float64"),
    call(cnormal(2, 3), dtype="complex128"),
    call(normal(), dtype="float64", note="0-d"),
    call(normal(0, 3), dtype="float64", note="empty"),
    rough(
        np.array([np.inf, -np.inf, np.nan, 1e-40, -0.0]),
        dtype="float32",
        note="infinities, NaN, subnormal numbers",
    ),
    *_ROUNDED_ONCE,
    *(
        rough(whole_roundings(dtype), dtype="bfloat16", note=f"{dtype}, rounded once")
        for dtype in dtypes.INTEGER
        if dtype.itemsize > 1
    ),
    wrong(errors.DTypeError, normal(2), dtype="quaternion"),
)


def _bits(x: Array, *, dtype: str, parts: int, whole: int) -> Array:
    found = np.frombuffer(x.tobytes(), dtypes.as_dtype(dtype))
    return found.reshape(x.shape[:-1] if whole > 1 else (*x.shape, *[parts] * (parts > 1)))


_WORDS = integers(0, 1000, 2, 3)
_SAME: dict[str, Any] = {"parts": 1, "whole": 1}
_AS_BITS = dict.fromkeys(
    ("exceptional", "large", "shared", "equal"), "values of another dtype have other bits"
)
suite("bitcast", _bits, without=_AS_BITS)(
    call(_WORDS.astype(np.int32), dtype="float32", **_SAME),
    call(_WORDS.astype(np.int32), dtype="uint32", **_SAME),
    call(_WORDS.astype(np.int32), dtype="uint8", parts=4, whole=1),
    call(_WORDS.astype(np.int32), dtype="bfloat16", parts=2, whole=1),
    call(_WORDS.astype(np.uint8)[:, :2], dtype="int16", parts=1, whole=2),
    call(np.asfortranarray(_WORDS[:, :2].astype(np.int32)), dtype="int64", parts=1, whole=2),
    call(np.array(7, np.int16), dtype="int8", parts=2, whole=1, note="0-d"),
    call(np.zeros((0, 2), np.int16), dtype="int32", parts=1, whole=2, note="empty"),
    wrong(errors.DTypeError, booleans(3), dtype="int8", **_SAME),
    wrong(errors.DTypeError, cnormal(3), dtype="int64", parts=2, whole=1),
    wrong(errors.ShapeError, _WORDS.astype(np.int16), dtype="int32", parts=1, whole=2),
)
suite("to_device", lambda x: x)(call(normal(2, 3)), call(integers(0, 9, 3)), call(cnormal(2)))
