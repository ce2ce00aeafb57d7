"""Elementwise kernels where NumPy's ufuncs are not the whole answer."""

from __future__ import annotations

import math

import numpy as np
import pytest

import pullback as pb
from pullback_numpy.kernels import KERNELS
from pullback_numpy.typing import Array


@pytest.mark.parametrize("dtype", [pb.complex64, pb.complex128])
@pytest.mark.parametrize("other", [0.5, 2.0, 1e30, -0.5, -2.0, -1e30, 0.0, -0.0])
@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("shape", [(), (3,)])
def test_tangents_of_infinite_parts_have_the_zero_of_the_standard(
    dtype: object, other: float, sign: float, shape: tuple[int, ...]
) -> None:
    z = np.full(shape, complex(sign * math.inf, other))
    result = pb.tanh(pb.asarray(z, dtype=dtype)).numpy()
    assert (result.real == sign).all()
    assert (result.imag == 0).all()
    assert (np.signbit(result.imag) == (math.copysign(1, other) < 0)).all()
    z = np.full(shape, complex(other, sign * math.inf))
    result = pb.tan(pb.asarray(z, dtype=dtype)).numpy()
    assert (result.imag == sign).all()
    assert (result.real == 0).all()
    assert (np.signbit(result.real) == (math.copysign(1, other) < 0)).all()


_EDGES = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 1e30, -1e30, 3.0])


def _many(draw: np.random.Generator, dtype: str, size: int) -> Array:
    """Numbers of all sizes, the edges among them in some."""
    count = size if draw.random() < 0.5 else 1
    x: Array = draw.normal(size=size) * 10.0 ** draw.integers(-9, 9, count)
    x = np.round(x) if draw.random() < 0.3 else x
    if draw.random() < 0.3:
        x[draw.integers(0, size, 64)] = draw.permutation(np.tile(_EDGES, 8))
    return x.astype(dtype)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("seed", range(12))
def test_remainders_have_the_bits_of_numpys(seed: int) -> None:
    draw = np.random.default_rng(seed)
    x, y = (_many(draw, "float32", 70_000) for _ in range(2))
    for x1, x2 in ((x, y), (x, y[7]), (x[7], y), (x[::2], y[1::2]), (x * 0, y), (y * 4, y)):
        x1, x2 = np.asarray(x1), np.asarray(x2)
        found, expected = KERNELS["remainder"](x1, x2), np.remainder(x1, x2)
        same = found.view(np.int32) == expected.view(np.int32)
        assert (same | (np.isnan(found) & np.isnan(expected))).all()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["logaddexp", "logaddexp2"])
def test_sums_of_powers(name: str, dtype: str) -> None:
    draw = np.random.default_rng(0)
    for _ in range(10):
        x, y = (_many(draw, dtype, 5000) for _ in range(2))
        x[:64], y[:64] = np.repeat(_EDGES, 8), np.tile(_EDGES, 8)
        found = KERNELS[name](x, y)
        exact = getattr(np, name)(x.astype(np.longdouble), y.astype(np.longdouble))
        assert (np.isnan(found) == np.isnan(exact)).all()
        finite = np.isfinite(exact)
        assert (found == exact)[np.isinf(exact)].all()
        # What cancels keeps the error of the larger number.
        size = np.maximum(np.abs(x), np.abs(y))[finite].astype(np.float64) + 1
        assert (np.abs(found - exact)[finite] <= 2 * np.finfo(dtype).eps * size).all()


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8"])
def test_bounds_that_are_numbers(dtype: str) -> None:
    draw = np.random.default_rng(0)
    x = (draw.normal(size=(200, 300)) * 50 + 100).astype(dtype)
    bounds = [90, 110]
    if x.dtype.kind == "f":
        x.reshape(-1)[: _EDGES.size] = _EDGES
        bounds += [math.nan, math.inf, -math.inf]
    for array in (x, x.T, x[::-1, ::2]):
        for bound in bounds:
            number = np.asarray(bound, dtype)
            for name in ("maximum", "minimum"):
                expected = getattr(np, name)(array, np.full_like(array, bound))
                for inputs in ((array, number), (number, array)):
                    np.testing.assert_array_equal(KERNELS[name](*inputs), expected)
            other = np.asarray(bounds[0], dtype)
            for least, most in ((number, other), (other, number), (None, number), (number, None)):
                low = array if least is None else np.maximum(array, np.full_like(array, least))
                expected = low if most is None else np.minimum(low, np.full_like(low, most))
                np.testing.assert_array_equal(KERNELS["clip"](array, least, most), expected)
