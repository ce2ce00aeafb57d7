"""Conversions to narrower dtypes: each value goes to the nearest, ties to even, in one rounding."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

import pullback as pb
from pullback import casting, dtypes
from pullback.array_api.narrowing import narrowing
from pullback.dtypes import bfloat16, complex64, complex128, float16, float32, float64

#: Bits of the fraction with the one ahead, and the exponent of the smallest normal number.
FORMATS = {bfloat16: (8, -126), float16: (11, -14), float32: (24, -126)}
LARGEST = {
    bfloat16: Fraction(255) * 2**120,
    float16: Fraction(65504),
    float32: Fraction(2**24 - 1) * 2**104,
}


def nearest(value, dtype) -> float:
    """`value`, a float or an int, as the nearest of `dtype`, ties to even, in exact arithmetic."""
    if isinstance(value, float) and (value != value or value in (np.inf, -np.inf)):
        return value
    bits, least = FORMATS[dtype]
    exact = Fraction(value)
    size = abs(exact)
    if not size:
        return float(value)
    power = size.numerator.bit_length() - size.denominator.bit_length()
    if Fraction(2) ** power > size:
        power -= 1
    unit = Fraction(2) ** (max(power, least) - bits + 1)
    # round() of a fraction goes to even.
    found = round(size / unit) * unit
    result = np.inf if found > LARGEST[dtype] else float(found)
    return result if exact > 0 else -result


def hard(dtype):
    """float64 beside the middles between two numbers of `dtype`, over its whole range."""
    bits, least = FORMATS[dtype]
    rng = np.random.default_rng(1)
    powers = [least - 2, least, -3, 0, 5, 14 if dtype == float16 else 126]
    found = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e300]
    for power in powers:
        for k in [2 ** (bits - 1), *rng.integers(2 ** (bits - 1), 2**bits, 20).tolist()]:
            middle = (k + 0.5) * 2.0 ** (power - bits + 1)
            found += [middle, middle * (1 + 2.0**-45), middle * (1 - 2.0**-45)]
            found += [np.nextafter(middle, np.inf), np.nextafter(middle, 0), middle * 1.000001]
    edge = float(LARGEST[dtype]) * (1 + 2.0 ** -(bits + 1))
    exact = float(LARGEST[dtype] + LARGEST[dtype] / (2**bits - 1) / 2)
    found += [edge, exact, np.nextafter(exact, 0), np.nextafter(exact, np.inf)]
    return np.array([*found, *(-x for x in found)])


def whole(kind):
    """Integers beside the middles between two of bfloat16 and of float32."""
    info = np.iinfo(kind)
    found = [0, 1, 2049, 2051, info.max, info.max - 1, info.min]
    for bits in (8, 11, 24):
        for power in range(bits + 1, info.bits - 1):
            for k in (2 ** (bits - 1), 2 ** (bits - 1) + 1, 2**bits - 1):
                middle = (2 * k + 1) << (power - bits)
                found += [middle, middle + 1, middle - 1]
    signed = [-x for x in found] if info.min else []
    return np.array([x for x in [*found, *signed] if info.min <= x <= info.max], kind)


def same(found, values, dtype):
    expected = np.array([nearest(value, dtype) for value in values.tolist()])
    found = np.asarray(found)
    assert found.dtype == dtype
    found = found.astype(float64)
    wrong = ~((found == expected) | (np.isnan(found) & np.isnan(expected)))
    assert not wrong.any(), (values[wrong][:3], found[wrong][:3], expected[wrong][:3])
    kept = ~np.isnan(expected)
    assert (np.signbit(found) == np.signbit(expected))[kept].all()


SHORT = pytest.mark.parametrize("dtype", [bfloat16, float16, float32], ids=str)
#: NumPy by the array API's names, with all that ml_dtypes does: bfloat16 by way of float32.
PLAIN = SimpleNamespace(
    **{name: getattr(np, name) for name in ("where", "isfinite", "isinf", "arange", "full")},
    **{dtype.name: dtype for dtype in dtypes.ALL if dtype.name != "bool"},
)


def by_float32(x, dtype):
    """A library's conversion that goes to all 16-bit floats by way of float32."""
    if dtype in (float16, bfloat16):
        x = x.astype(float32)
    return x.astype(dtype)


PLAIN.astype = by_float32

WAYS = {
    "astype": lambda x, dtype: pb.astype(pb.asarray(x), dtype).numpy(),
    "asarray of an array": lambda x, dtype: pb.asarray(x, dtype=dtype).numpy(),
    "asarray of a list": lambda x, dtype: pb.asarray(x.tolist(), dtype=dtype).numpy(),
    "asarray of numbers": lambda x, dtype: np.array(
        [pb.asarray(one, dtype=dtype).numpy() for one in x.tolist()], dtype
    ),
    "full": lambda x, dtype: np.array(
        [pb.full((1,), one, dtype=dtype).numpy()[0] for one in x.tolist()], dtype
    ),
    "__array__": lambda x, dtype: np.asarray(pb.asarray(x), dtype=dtype),
    "a number beside a tensor": lambda x, dtype: np.array(
        [pb.where(True, one, pb.zeros(1, dtype=dtype)).numpy()[0] for one in x.tolist()], dtype
    ),
    "array_api": lambda x, dtype: narrowing(PLAIN)(x, dtype),
}

#: One in so many values is tried where each takes a call of its own.
STEPS = {"asarray of numbers": 7, "full": 7, "a number beside a tensor": 7}


@SHORT
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:invalid:RuntimeWarning")
def test_of_float64(way, dtype):
    values = hard(dtype)[:: STEPS.get(way, 1)]
    same(WAYS[way](values, dtype), values, dtype)


@SHORT
@pytest.mark.parametrize("kind", ["int16", "uint16", "int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:invalid:RuntimeWarning")
def test_of_integers(way, kind, dtype):
    values = whole(kind)[:: STEPS.get(way, 1)]
    same(WAYS[way](values, dtype), values, dtype)


@pytest.mark.parametrize("way", [way for way in WAYS if way != "__array__"])
@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
def test_of_complex128(way):
    parts = hard(float32)
    values = np.empty(parts.size, complex128)
    values.real, values.imag = parts, parts[::-1]
    found = np.asarray(WAYS[way](values, complex64))
    same(found.real, parts, float32)
    same(found.imag, parts[::-1], float32)


@SHORT
def test_of_python_integers_of_any_length(dtype):
    values = [2**power + 2 ** (power - bits) + 1 for power in (60, 70, 120) for bits in (8, 24)]
    values += [-value for value in values]
    with np.errstate(over="ignore"):
        found = [casting.number(value, dtype).item() for value in values]
    assert found == [nearest(value, dtype) for value in values]
    with pytest.raises(OverflowError):
        casting.number(2**2000, dtype)


def test_integers_beside_floats_in_a_list():
    flat = [0.5, 2**60 + 2**36 + 1, 2**60 + 2**52 + 1, -0.0]
    nested = [flat[:2], flat[2:]]
    for dtype, found in (
        (float32, pb.asarray(nested)),
        (bfloat16, pb.asarray(nested, dtype="bfloat16")),
    ):
        assert found.tolist() == np.reshape([nearest(x, dtype) for x in flat], (2, 2)).tolist()


@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3)])
def test_shapes_and_layouts(shape):
    x = np.full(shape, 1 + 2.0**-8 + 2.0**-40).T
    found = casting.cast(x, bfloat16)
    assert found.shape == x.shape
    assert (found == ml_dtypes.bfloat16(1.0078125)).all()
    assert (x == 1 + 2.0**-8 + 2.0**-40).all()


def test_ranges():
    # Beyond 2**8 not all are numbers of bfloat16.
    start = 2**40 + 2**32 - 5
    expected = [nearest(value, bfloat16) for value in range(start, start + 10)]
    assert pb.arange(start, start + 10, dtype="bfloat16").tolist() == expected
    found = pb.arange(1 + 2.0**-8 + 2.0**-40, 2.0, 0.5, dtype="bfloat16")
    assert found.tolist()[0] == 1.0078125
