"""Numbers of rows, triangles, and selection along any axis, beside NumPy in float64."""

import numpy as np
import pytest

from pullback_native import _native
from pullback_numpy.kernels import KERNELS as NUMPY_KERNELS

pytestmark = pytest.mark.usefixtures("instructions")
rng = np.random.default_rng(0)

#: Rows of 32,768 elements are the longest that the pack takes.
SHAPES = [
    (5,), (1,), (1, 1), (3, 4), (2, 3, 70), (3, 1, 5), (2, 511), (2, 513), (32_768,), (32_769,),
]  # fmt: skip
#: Of float64 the sums of NumPy's kernels are no more exact than the pack's.
CLOSE = {"float32": 3e-7, "float64": 3e-14}


def last_axes(ndim):
    return [None, *(tuple(range(i, ndim)) for i in range(ndim)), (0,)]


def with_extremes(x):
    """x, and x with a number that is not finite, and with a large mean."""
    yield x + x.dtype.type(rng.choice([0, 1000]))
    if x.size > 2000:
        return
    for odd in (np.inf, -np.inf, np.nan):
        y = x.copy()
        y.flat[y.size // 2] = odd
        yield y


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["var", "std"])
@np.errstate(all="ignore")
def test_variances(name, dtype):
    for shape in SHAPES:
        for x in with_extremes(np.asarray(rng.standard_normal(shape) * 3, dtype)):
            wide = x.astype(np.longdouble)
            for axis in last_axes(x.ndim):
                for correction, keepdims in ((0.0, False), (1.0, True), (1e9, False)):
                    found = getattr(_native, name)(
                        x, axis=axis, correction=correction, keepdims=keepdims
                    )
                    away = wide - wide.mean(axis, keepdims=True)
                    squares = (away * away).sum(axis, keepdims=keepdims)
                    left = max(0.0, x.size / max(1, squares.size) - correction)
                    exact = squares / left
                    exact = np.sqrt(exact) if name == "std" else exact
                    assert (found.dtype, found.shape) == (x.dtype, np.shape(exact))
                    # Whatever the mean: the squares of the first pass are corrected.
                    np.testing.assert_allclose(found, exact.astype(x.dtype), rtol=CLOSE[dtype])


def test_equal_elements_have_no_variance():
    for dtype in ("float32", "float64"):
        for value in (0.1, 1e30, 3e-39, -7.3):
            for n in (1, 3, 7, 513, 4000):
                x = np.full((2, n), value, dtype)
                found = _native.std(x, axis=(1,), correction=0.0, keepdims=False)
                assert np.all(found <= 1e-15 * abs(value))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@np.errstate(all="ignore")
def test_logsumexp(dtype):
    for shape in SHAPES:
        for x in with_extremes(np.asarray(rng.standard_normal(shape) * 30, dtype)):
            wide = x.astype(np.longdouble)
            for axis in last_axes(x.ndim):
                for keepdims in (False, True):
                    found = _native.logsumexp(x, axis=axis, keepdims=keepdims)
                    top = np.where(np.isinf(m := wide.max(axis, keepdims=True)), 0, m)
                    exact = np.log(np.exp(wide - top).sum(axis, keepdims=True)) + top
                    exact = exact if keepdims else exact.sum(axis)
                    assert (found.dtype, found.shape) == (x.dtype, np.shape(exact))
                    np.testing.assert_allclose(
                        found, exact.astype(x.dtype), rtol=CLOSE[dtype], atol=CLOSE[dtype]
                    )


def test_logsumexp_of_nothing_but_infinities():
    for value in (np.inf, -np.inf):
        for dtype in ("float32", "float64"):
            x = np.full((3, 5), value, dtype)
            np.testing.assert_array_equal(_native.logsumexp(x, axis=(1,), keepdims=False), value)


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i4", "i8", "u1", "?", "c8"])
def test_triangles(dtype):
    shapes = [(3, 4), (4, 3), (1, 5), (5, 1), (2, 3, 3), (0, 3), (3, 0), (2, 130, 90)]
    for shape in shapes:
        x = np.asarray(rng.standard_normal(shape) * 5).astype(dtype)
        for form in (x, x.swapaxes(-1, -2), np.broadcast_to(x[:1], shape)):
            for k in (-(10**9), -10, -2, -1, 0, 1, 2, 10, 10**30):
                if abs(k) > 10**20 and not form.size:
                    continue
                for name, numpy in (("tril", np.tril), ("triu", np.triu)):
                    found = getattr(_native, name)(form, k=k)
                    expected = numpy(form, max(-(10**4), min(k, 10**4)))
                    assert found.dtype == form.dtype
                    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
def test_top_k_along_any_axis(dtype):
    # Arrays of 100,000 elements are the largest that are turned around.
    for shape in [(6, 4), (6, 4, 5), (2, 3), (9, 1), (50, 40, 50), (3, 100, 334)]:
        x = np.round(rng.standard_normal(shape) * 3).astype(dtype)
        for axis in range(x.ndim):
            for k, largest in ((1, True), (min(2, shape[axis]), False)):
                found = _native.top_k(x, k=k, axis=axis, largest=largest)
                expected = NUMPY_KERNELS["top_k"](x, k=k, axis=axis, largest=largest)
                for one, other in zip(found, expected, strict=True):
                    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@np.errstate(all="ignore")
def test_prelu_and_xlogy(dtype):
    odd = np.array([0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 2.5, 1e-40, 3e38], dtype)
    some = np.asarray(rng.standard_normal(40), dtype)
    for x, y in (np.meshgrid(odd, odd), np.meshgrid(some, some), (some, dtype_of(0.25, dtype))):
        wide, other = x.astype(np.float64), np.abs(y).astype(np.float64)
        absent = (wide == 0) & ~np.isnan(y)
        logs = np.where(absent, 0, wide * np.log(np.where(absent, 1, other)))
        close = {"float32": 2.5e-7, "float64": 2e-15, "float16": 1e-3}[dtype]
        found = _native.xlogy(x, np.abs(y))
        np.testing.assert_allclose(found, logs.astype(dtype), rtol=close, atol=1e-45)
        np.testing.assert_array_equal(_native.prelu(x, y), np.where(x > 0, x, x * y))


def dtype_of(number, dtype):
    return np.asarray(number, dtype)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_floor_divide_by_a_number(dtype):
    x = rng.integers(-1000, 1000, (40, 30)).astype(dtype)
    for number in (1, 2, -3, 7, 1000, -1):
        by = np.asarray(number, dtype)
        np.testing.assert_array_equal(_native.floor_divide(x, by), x // number)
        full = np.full_like(x, number)
        np.testing.assert_array_equal(_native.floor_divide(x, full), x // number)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
def test_scattered_extremes(dtype):
    for shape, axis in [((7,), 0), ((5, 4), 0), ((5, 4), 1), ((3, 6, 2), 1), ((9, 1), 0)]:
        for count in (1, 3, 20):
            rest = (*shape[:axis], count, *shape[axis + 1 :])
            x = (rng.standard_normal(shape) * 9).astype(dtype)
            rows = (rng.standard_normal(rest) * 9).astype(dtype)
            if dtype.startswith("float"):
                x.flat[0], rows.flat[-1] = rng.choice([np.nan, np.inf, -0.0], 2)
            at = rng.integers(-shape[axis], shape[axis], count)
            for form in (x, np.asfortranarray(x), np.broadcast_to(x[:1], shape)):
                for name in ("scatter_max", "scatter_min"):
                    found = getattr(_native, name)(form, at, rows, axis=axis)
                    expected = NUMPY_KERNELS[name](form, at, rows, axis=axis)
                    assert (found.dtype, found.shape) == (expected.dtype, shape)
                    np.testing.assert_array_equal(found, expected)
                    with pytest.raises(IndexError):
                        getattr(_native, name)(form, at + 2 * shape[axis], rows, axis=axis)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_reductions_of_arrays_that_repeat_rows(dtype):
    base = (rng.standard_normal((1, 5, 1, 700)) + 2).astype(dtype)
    for x in (
        np.broadcast_to(base, (4, 5, 3, 700)),
        np.broadcast_to(base[:, :, :, ::7], (4, 5, 3, 100)),
        np.broadcast_to(base[:, :1, :, :1], (1, 6, 3, 2)),
    ):
        for axis in ((3,), (1,), (1, 3), (0, 3), (0,), (), None):
            for keepdims in (False, True):
                given = {"axis": axis, "keepdims": keepdims}
                wide = x.astype(np.float64)
                for name, more in (("sum", {"dtype": None}), ("max", {}), ("mean", {})):
                    found = getattr(_native, name)(x, **given, **more)
                    expected = getattr(np, name)(wide, axis=axis, keepdims=keepdims)
                    assert (found.dtype, found.shape) == (x.dtype, np.shape(expected))
                    close = 3e-7 if dtype == "float32" else 3e-14
                    np.testing.assert_allclose(found, expected, rtol=close, atol=700 * close)
                found = _native.vector_norm(x, **given, ord=2)
                expected = np.sqrt(np.sum(wide * wide, axis=axis, keepdims=keepdims))
                np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_other_axes_and_layouts():
    # Up to 4,096 elements are copied with the axes of the rows behind the others.
    for shape in [(4, 3), (3, 5, 2), (2, 3, 4, 5), (64, 64), (64, 65), (1, 4096), (4097, 1)]:
        for dtype in ("float32", "float64", "float16"):
            x = np.asarray(rng.standard_normal(shape) * 3, dtype)
            for form in (x, np.asfortranarray(x), np.repeat(x, 2, axis=0)[::2], x[::-1]):
                for axis in [(0,), (x.ndim - 2,), (0, x.ndim - 1), tuple(range(x.ndim)), None]:
                    for keepdims in (False, True):
                        for name, rest in (("std", {"correction": 0.0}), ("logsumexp", {})):
                            options = {"axis": axis, "keepdims": keepdims, **rest}
                            found = getattr(_native, name)(form, **options)
                            exact = NUMPY_KERNELS[name](form, **options)
                            assert (found.dtype, found.shape) == (x.dtype, np.shape(exact))
                            close = 3e-3 if dtype == "float16" else 10 * CLOSE[dtype]
                            np.testing.assert_allclose(found, exact, rtol=close, atol=close)
