"""Kernels on both sides of each size at which they take another way, with random values."""

import numpy as np
import pytest

import pullback as pb
from pullback_native import _native
from pullback_native.kernels.halves import LEADS, large_in_float32

pytestmark = pytest.mark.usefixtures("instructions")
rng = np.random.default_rng(0)

ODD = [np.inf, -np.inf, np.nan, -0.0, 1e-40, 2.0**24, -(2.0**23) - 1]


def some(shape, dtype, scale=1.0):
    """Random values; of every other array some are not finite, or near a limit."""
    x = (rng.standard_normal(shape) * scale).astype(dtype)
    if x.size and rng.random() < 0.5:
        at = rng.integers(0, x.size, 5)
        x.reshape(-1)[at] = rng.choice(ODD, 5)
    return x


@pytest.mark.parametrize("n", [2047, 2048, 2049])
@np.errstate(all="ignore")
def test_what_is_left_by_1(n):
    for scale in (1, 1e3, 1e9):
        for by in (1.0, -1.0, 2.0):
            x = some(n, np.float32, scale)
            found = _native.remainder(x, np.asarray(by, np.float32))
            np.testing.assert_array_equal(found, np.remainder(x, np.float32(by)))


def softmax(x, axis):
    wide = x.astype(np.float64)
    e = np.exp(wide - wide.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_softmax(dtype):
    close = 1e-6 if dtype == "float32" else 1e-13
    # Sums of 4,096 rows, and 16,384 elements of rows that are turned.
    for shape, axis in [
        ((4096, 3), 0), ((4097, 3), 0), ((2, 4096, 2), 1), ((2, 4097, 2), 1), ((128, 128), 1),
        ((128, 129), 1), ((4, 4096), 1), ((3, 4097), 1), ((5, 127), 0), ((5, 128), 0),
        ((5, 129), 0),
    ]:  # fmt: skip
        x = (rng.standard_normal(shape) * 4).astype(dtype)
        y, g = softmax(x, axis), rng.standard_normal(shape).astype(dtype)
        np.testing.assert_allclose(_native.softmax(x, axis=axis), y, rtol=10 * close, atol=1e-12)
        # Two numbers as large as x are subtracted.
        bound = 2 * np.finfo(dtype).eps * np.abs(x).max()
        found = _native.log_softmax(x, axis=axis)
        np.testing.assert_allclose(found, np.log(y), rtol=close, atol=bound)
        slope = y * (g - (g * y).sum(axis, keepdims=True))
        found = _native.softmax_gradient(g, y.astype(dtype), axis=axis)
        np.testing.assert_allclose(found, slope, rtol=1e3 * close, atol=30 * close)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_selection_of_most_elements(dtype):
    # 128 elements of a row are the most.
    for k in (127, 128, 129):
        for n in (k, k + 1, 300):
            x = np.round(some((3, n), dtype, 9))
            values, places = _native.top_k(x, k=k, axis=1, largest=True)
            np.testing.assert_array_equal(np.take_along_axis(x, places, 1), values)
            order = np.sort(np.where(np.isnan(x), np.inf, x), 1)[:, ::-1][:, :k]
            np.testing.assert_array_equal(np.where(np.isnan(values), np.inf, values), order)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_at_positions(dtype):
    # Rows of 4 elements, one position in 8, and 32 numbers for one segment.
    for segments in (1, 31, 33, 64):
        for count in (1, segments // 8, segments // 8 + 1, 31, 32, 33, 64, 65):
            for inner in (1, 3, 4, 5):
                if not count:
                    continue
                x = rng.standard_normal((segments, inner)).astype(dtype)
                rows = rng.standard_normal((count, inner)).astype(dtype)
                at = rng.integers(-segments, segments, count)
                start = x.astype(np.longdouble)
                exact, size = start.copy(), np.abs(start)
                np.add.at(exact, at, rows.astype(np.longdouble))
                np.add.at(size, at, np.abs(rows).astype(np.longdouble))
                # float32 is rounded once; of float64 33 numbers may be added one by one.
                bound = np.finfo(dtype).eps * size * (1 if dtype == "float32" else 16)
                found = _native.scatter_add(x, at, rows, axis=0)
                assert np.all(np.abs(found - exact) <= bound)
                found = _native.segment_sum(rows, at, num_segments=segments, axis=0)
                assert np.all(np.abs(found - (exact - start)) <= bound)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_of_short_and_long_rows(dtype):
    # Rows of 16, 48, 512 and 1,024 elements, and pieces of 32,768.
    limits = (16, 48, 256, 512, 1024, 32_768)
    for n in sorted({limit + one for limit in limits for one in (-1, 0, 1)}):
        for shape, axes in (((3, n), (1,)), ((n, 3), (0,)), ((2, n, 2), (0, 2)), ((n,), None)):
            x = some(shape, dtype)
            with np.errstate(all="ignore"):
                exact = np.sum(x.astype(np.longdouble), axis=axes)
                size = np.sum(np.abs(x.astype(np.longdouble)), axis=axes)
                found = _native.sum(x, axis=axes, keepdims=False, dtype=None)
                fine = np.isfinite(exact)
                assert np.array_equal(np.isfinite(found), fine)
                # float64 is added in groups of 64 numbers or 85, and then one group to the other.
                bound = (1.2e-7 if dtype == "float32" else 160 * 2.0**-53) * size
                assert np.all((np.abs(found - exact) <= bound) | ~fine)
                most = np.max(x, axis=axes)
                np.testing.assert_array_equal(_native.max(x, axis=axes, keepdims=False), most)


@pytest.mark.parametrize("n", [4095, 4096, 70_001])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@np.errstate(all="ignore")
def test_where_loops_of_numpy_lead(n, dtype):
    close = 1e-6 if dtype == "float32" else 1e-14
    for _ in range(4):
        x, y = some(n, dtype, 5), some(n, dtype, 5)
        for name in ("logaddexp", "logaddexp2"):
            expected = getattr(np, name)(x.astype(np.float64), y.astype(np.float64))
            found = getattr(_native, name)(x, y)
            assert found.dtype == dtype
            # Around a result of 0 the larger term is what is rounded.
            size = np.maximum(np.abs(x), np.abs(y)).astype(np.float64)
            away = np.abs(found - expected) <= close * np.where(np.isfinite(size), size + 1, 1)
            assert (away | (found == expected) | np.isnan(expected) & np.isnan(found)).all()
        wide = np.maximum(x.astype(np.float64), -100)
        soft = np.maximum(wide, 0) + np.log1p(np.exp(-np.abs(wide)))
        expected, found = np.where(x < -100, 0, x * np.tanh(soft)), _native.mish(x)
        np.testing.assert_allclose(found, expected, rtol=3 * close, atol=1e-30)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("n", [LEADS - 1, LEADS, 3 * LEADS + 5])
@np.errstate(all="ignore")
def test_powers_of_16_bit_floats(n, dtype):
    kernel = large_in_float32("pow", _native.pow)
    dtype = getattr(pb, dtype)
    x, y = np.abs(some(n, np.float32)).astype(dtype), some(n, np.float32, 3).astype(dtype)
    for shape in ((n,), (n, 1)):
        for a, b in ((x.reshape(shape), y.reshape(shape)), (x.reshape(shape), y[:1])):
            exact = np.power(a.astype(np.float64), b.astype(np.float64))
            expected, found = exact.astype(dtype), kernel(a, b)
            assert found.dtype == dtype
            assert found.shape == expected.shape
            bits = found.view(np.int16).astype(int) - expected.view(np.int16)
            assert ((np.abs(bits) <= 1) | (np.isnan(exact) & (found != found))).all()


@pytest.mark.parametrize("wide", [np.int32, np.int64])
@pytest.mark.parametrize("count", [1, 7, 1000, 200_001])
def test_numbers_of_a_vector(wide, count):
    x = rng.standard_normal(5000).astype(np.float32)
    at = rng.integers(-5000, 5000, count).astype(wide)
    np.testing.assert_array_equal(_native.take(x, at, axis=0), x[at])
    rows = rng.standard_normal((3, 400)).astype(np.float32)
    at = rng.integers(-400, 400, count).astype(wide)
    np.testing.assert_array_equal(_native.take(rows, at, axis=1), rows[:, at])
    for beyond in (5000, -5001):
        with pytest.raises(IndexError):
            _native.take(x, np.append(at, beyond).astype(wide), axis=0)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "float16"])
@pytest.mark.parametrize("n", [1023, 1024, 4097, 100_003])
def test_whole_arrays_are_one_block(n, dtype):
    """And arrays beside them that are gathered, in blocks."""
    x, y = ((rng.random(n) * 200 - 100).astype(dtype) for _ in range(2))
    steps = np.repeat(y, 2)[::2]
    for other in (y, steps, y[0]):
        for name in ("add", "multiply", "maximum", "less", "equal"):
            found = getattr(_native, name)(x, np.asarray(other))
            np.testing.assert_array_equal(found, getattr(np, name)(x, other))
    for name in ("abs", "negative", "square"):
        np.testing.assert_array_equal(getattr(_native, name)(x), getattr(np, name)(x))
