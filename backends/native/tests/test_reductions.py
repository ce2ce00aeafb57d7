"""Reductions, running sums and selection: every axis and layout, sizes around those of blocks."""

import itertools

import numpy as np
import pytest

from pullback_native import _native
from pullback_numpy.kernels import KERNELS as NUMPY_KERNELS
from pullback_numpy.threads import number_of_threads

pytestmark = pytest.mark.usefixtures("instructions")
rng = np.random.default_rng(0)
EPS = {np.float32: 2.0**-24, np.float64: 2.0**-53}
DTYPES = [np.float32, np.float64]

REDUCTIONS = {
    "sum": (np.sum, {"dtype": None}),
    "mean": (np.mean, {}),
    "prod": (np.prod, {"dtype": None}),
    "max": (np.max, {}),
    "min": (np.min, {}),
    "vector_norm": (lambda x, **how: np.sqrt(np.sum(x * x, **how)), {"ord": 2}),
}
SHAPES = [
    (5,), (), (1, 4), (2, 1, 4), (7, 33, 65), (3, 1025, 7), (2, 40_000), (40_000, 3), (5, 20, 1030),
    (2, 3, 4, 5), (40, 47), (40, 48), (17, 511), (17, 512), (3, 641), (300, 2), (300, 3, 5),
    (2, 31, 47), (2, 31, 48), (2, 31, 49), (2, 5, 511),
]  # fmt: skip


def layouts(x):
    """x, and arrays with axes in another order, with gaps, backward and of repeated numbers."""
    return [x, x.T, x[..., ::-1], x[::2], np.broadcast_to(x[:1], x.shape)] if x.ndim else [x]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_every_axis_and_layout(name, dtype):
    reference, options = REDUCTIONS[name]
    for shape in SHAPES:
        for x in layouts(np.exp(rng.standard_normal(shape) / 1e4).astype(dtype)):
            wide = x.astype(np.longdouble)
            every = [c for n in range(x.ndim + 1) for c in itertools.combinations(range(x.ndim), n)]
            for axis, keepdims in itertools.product([None, *every], (False, True)):
                how = {"axis": axis, "keepdims": keepdims}
                exact = reference(wide, **how)
                found = np.asarray(getattr(_native, name)(x, **how, **options))
                assert (found.dtype, found.shape) == (dtype, exact.shape)
                # Rounded once, or as the class ACCUMULATED allows; products at each factor. What
                # NumPy does, some hundred rows one after the other, may err at each of them.
                steps = 4 * np.log2(max(x.size, 2)) if dtype == np.float64 else 2
                steps = steps if x.flags.forc and (name, dtype) != ("prod", np.float64) else x.size
                bound = EPS[dtype] * steps * np.abs(exact)
                assert np.all(np.abs(found - exact) <= bound), (shape, x.strides, axis)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_what_is_no_number(name, dtype):
    reference, options = REDUCTIONS[name]
    for shape in ((3,), (5, 47), (5, 700), (70, 9), (2, 3000)):
        for values in (
            (np.nan,),
            (np.inf,),
            (-np.inf, np.inf),
            (0.0, np.inf),
            (-0.0,),
            (np.nan, 1),
        ):
            x = np.ones(shape, dtype)
            x.flat[rng.integers(0, x.size, len(values))] = values
            for axis in (None, (0,), (x.ndim - 1,)):
                with np.errstate(all="ignore"):
                    expected = reference(x, axis=axis, keepdims=False)
                    found = getattr(_native, name)(x, axis=axis, keepdims=False, **options)
                np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("value", [0.0, -0.0])
def test_sums_of_zeros_keep_their_sign(value, dtype):
    for shape in ((3,), (20, 60), (700,), (33, 2), (3, 5000)):
        for axis in (None, (0,)):
            found = _native.sum(np.full(shape, value, dtype), axis=axis, dtype=None, keepdims=False)
            assert not found.any()
            assert np.all(np.signbit(found) == np.signbit(value))


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("scale", [1e-300, 1e-170, 1e160, 1e300])
def test_norms_whose_squares_leave_the_range(scale):
    x = np.array([[3.0, 4.0], [0.0, 0.0]])
    found = _native.vector_norm(x * scale, axis=(1,), keepdims=False, ord=2)
    np.testing.assert_allclose(found, [5 * scale, 0], rtol=1e-15)


RUNS = [
    (5,), (1,), (255,), (256,), (257,), (4000,), (3, 4), (17, 40), (9, 600), (25, 1, 7), (600, 5),
    (4, 300, 130), (2, 1300, 3), (3, 2, 129),
]  # fmt: skip


@pytest.mark.parametrize("initial", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["cumulative_sum", "cumulative_prod"])
def test_running(name, dtype, initial):
    reference, first = (np.cumsum, 0) if name == "cumulative_sum" else (np.cumprod, 1)
    for shape in RUNS:
        for axis in range(len(shape)):
            whole = np.exp(rng.standard_normal(shape) / 60).astype(dtype)
            for x in (*layouts(whole)[:4], np.flip(whole, axis)):
                axis = min(axis, x.ndim - 1)
                exact = reference(x.astype(np.longdouble), axis=axis)
                if initial:
                    pad = [(int(a == axis), 0) for a in range(x.ndim)]
                    exact = np.pad(exact, pad, constant_values=first)
                found = getattr(_native, name)(x, axis=axis, dtype=None, include_initial=initial)
                assert (found.dtype, found.shape) == (dtype, exact.shape)
                steps = 1 if dtype == np.float32 else x.shape[axis] + 1
                bound = 2 * EPS[dtype] * steps * np.abs(exact)
                assert np.all(np.abs(found - exact) <= bound), (shape, x.strides, axis)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_running_extremes(name, dtype):
    """With NaN, from which on all is NaN, and equal and infinite numbers, in any layout."""
    kernel = getattr(_native, f"cumulative_{name[:3]}")
    for shape in RUNS:
        whole = np.round(rng.standard_normal(shape) * 9).astype(dtype)
        few = rng.random(shape)
        whole[few < 0.01], whole[few > 0.99] = np.inf, -np.inf
        for x in (*layouts(whole), np.where(few > 1 - 2 / whole.size, np.nan, whole)):
            for axis in range(x.ndim):
                for view in (x, np.flip(x, axis)):
                    expected = getattr(np, name).accumulate(view, axis)
                    np.testing.assert_array_equal(kernel(view, axis=axis), expected)


def test_running_over_what_is_no_number():
    for n in (7, 300, 1000):
        x = np.ones(n, np.float32)
        x[n // 3], x[n // 2] = np.inf, -np.inf
        for name, reference in (("cumulative_sum", np.cumsum), ("cumulative_prod", np.cumprod)):
            with np.errstate(invalid="ignore"):
                expected = reference(x)
            found = getattr(_native, name)(x, axis=0, dtype=None, include_initial=False)
            np.testing.assert_array_equal(found, expected)
    # What has underflowed stays 0: no later factor makes NaN of it.
    x = np.full(1000, 1e-300)
    x[500:] = 1e300
    found = _native.cumulative_prod(x, axis=0, dtype=None, include_initial=False)
    np.testing.assert_array_equal(found, np.cumprod(x))


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
def test_top_k(dtype, largest):
    for shape in ((5,), (3, 64), (3, 65), (2, 3, 1000), (400,)):
        x = np.round(rng.standard_normal(shape) * 3)
        many = np.sort(x), -np.sort(x), x, x * 1000 + rng.standard_normal(shape)
        for values in many:
            row = values.astype(dtype)
            if row.dtype.kind == "f":
                row.flat[::37], row.flat[1], row.flat[2], row.flat[3] = np.nan, 0.0, -0.0, -np.inf
            row = row if len(shape) > 1 else np.repeat(row, 2)[::2]
            for k in {1, 4, min(shape[-1], 128), min(shape[-1], 129)}:
                how = {"k": k, "axis": row.ndim - 1, "largest": largest}
                order = NUMPY_KERNELS["argsort"](row, axis=-1, descending=largest, stable=True)
                for kernel in (_native.top_k, NUMPY_KERNELS["top_k"]):
                    found, indices = kernel(row, **how)
                    np.testing.assert_array_equal(indices, order[..., :k])
                    taken = np.take_along_axis(row, order[..., :k], -1)
                    np.testing.assert_array_equal(found, taken)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax_along_any_axis(name, dtype, instructions):
    """And its gradient, of any layout, with NaN and infinities, beside extended precision."""
    for shape in (
        (5,),
        (3, 1),
        (1, 7),
        (40, 130),
        (700, 3),
        (3, 65, 129),
        (2, 3, 64, 2),
        (9, 4097),
    ):
        numbers = rng.standard_normal(shape) * 5
        for x in layouts(numbers.astype(dtype)):
            special = np.array(x)
            special[(0,) * x.ndim], special[(-1,) * x.ndim] = np.nan, -np.inf
            for axis in range(x.ndim):
                power = np.exp(x.astype(np.longdouble) - x.max(axis, keepdims=True))
                exact = power / power.sum(axis, keepdims=True)
                g = rng.standard_normal(x.shape).astype(dtype)
                if name == "softmax":
                    slope = exact * (g - (g * exact).sum(axis, keepdims=True))
                else:
                    slope = g - exact * g.sum(axis, keepdims=True)
                    exact = np.log(exact)
                y = getattr(_native, name)(x, axis=axis)
                bound = 64 * EPS[dtype]
                np.testing.assert_allclose(y, exact, rtol=bound, atol=bound)
                found = getattr(_native, f"{name}_gradient")(g, y, axis=axis)
                assert (found.dtype, found.shape, y.dtype) == (dtype, x.shape, dtype)
                most = bound * np.abs(g).sum(axis, keepdims=True).max()
                np.testing.assert_allclose(found, slope, rtol=bound, atol=most)
                with np.errstate(all="ignore"):
                    expected = NUMPY_KERNELS[name](special, axis=axis)
                result = getattr(_native, name)(special, axis=axis)
                np.testing.assert_array_equal(np.isnan(result), np.isnan(expected))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_rows_with_an_odd_end(name, dtype):
    """Finds NaN and infinities wherever they are in a row, and in no row beside it."""
    _, options = REDUCTIONS[name]
    for size in (1, 2, 5, 8, 15, 16, 17, 31, 47, 48, 49, 63, 64, 65, 500, 511, 512, 515):
        for place in {0, size // 2, max(size - 16, 0), size - 1}:
            for bad in (np.nan, np.inf):
                x = np.ones((3, 2, size), dtype)
                x[1, 1, place] = bad
                y = getattr(_native, name)(x, axis=(2,), keepdims=False, **options)
                if name == "min" and bad > 0 and size > 1:
                    bad = 1
                assert np.isfinite(np.delete(y.reshape(-1), 3)).all()
                np.testing.assert_equal(float(y[1, 1]), bad)
                # The rows' results are taken together after them, and the other way round.
                both = getattr(_native, name)(x, axis=(0, 2), keepdims=False, **options)
                assert np.isfinite(both[0])
                if name != "min":
                    np.testing.assert_equal(float(both[1]), bad)


def test_the_threads_do_not_matter():
    x = rng.standard_normal((300, 1000)).astype(np.float32)
    run = {"dtype": None, "include_initial": False}
    calls = [
        *(lambda n=n, a=a: getattr(_native, n)(x, axis=a, keepdims=False, **REDUCTIONS[n][1])
          for n in REDUCTIONS for a in (None, (0,), (1,))),
        *(lambda n=n, a=a: getattr(_native, n)(x, axis=a, **run)
          for n in ("cumulative_sum", "cumulative_prod") for a in (0, 1)),
        lambda: _native.top_k(x, k=20, axis=1, largest=True)[1],
    ]  # fmt: skip
    for call in calls:
        with number_of_threads(1):
            expected = call()
        for threads in (2, 3):
            with number_of_threads(threads):
                np.testing.assert_array_equal(call(), expected)


def test_running_sums_of_arrays_as_they_lie():
    """Axes in every order and direction, with gaps; integers wrap around."""
    for shape in [(3, 4, 5), (300, 7), (2, 1, 600), (1, 1), (5, 260, 130)]:
        x = rng.integers(-(2**62), 2**62, shape)
        for order in itertools.permutations(range(len(shape))):
            for turned in (slice(None), slice(None, None, -1), slice(None, None, 2)):
                y = x.transpose(order)[..., turned]
                for axis, initial in itertools.product(range(y.ndim), (False, True)):
                    found = _native.cumulative_sum(
                        y, axis=axis, dtype=None, include_initial=initial
                    )
                    expected = np.cumsum(y, axis=axis)
                    if initial:
                        zeros = np.zeros_like(np.take(expected, [0], axis))
                        expected = np.concatenate([zeros, expected], axis)
                    np.testing.assert_array_equal(found, expected)
                    floats = _native.cumulative_sum(
                        (y % 64).astype(np.float32), axis=axis, dtype=None, include_initial=False
                    )
                    np.testing.assert_array_equal(floats, np.cumsum(y % 64, axis=axis))


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
@pytest.mark.parametrize("op", ["scatter_max", "scatter_min"])
def test_extremes_of_16_bit_floats_are_those_of_float32(op, name):
    """By their bits: every number with every other of a sample, NaN and zeros among them."""
    dtype = np.dtype(name)
    some = rng.integers(0, 2**16, 400).astype(np.uint16)
    some[:8] = [0, 0x8000, 0x7C00, 0xFC00, 0x7F80, 0xFF80, 0x7FFF, 0xFFFF]
    x = np.repeat(some, 400).view(dtype)
    updates = np.tile(some, 400).view(dtype)
    ids = np.arange(x.size)
    found = getattr(_native, op)(x, ids, updates, axis=0)
    expected = getattr(_native, op)(
        x.astype(np.float32), ids, updates.astype(np.float32), axis=0
    ).astype(dtype)
    nan = np.isnan(expected.astype(np.float32))
    np.testing.assert_array_equal(np.isnan(found.astype(np.float32)), nan)
    np.testing.assert_array_equal(found.view(np.uint16)[~nan], expected.view(np.uint16)[~nan])
