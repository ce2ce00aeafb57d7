"""Bessel and gamma functions in C, and channels that are moved behind, beside NumPy's kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pullback as pb
import pullback_native
from pullback_native import _native
from pullback_native.kernels import channels, pooling
from pullback_numpy.kernels import KERNELS as NUMPY_KERNELS

pytestmark = pytest.mark.usefixtures("instructions")

ODD = [0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, -1.0, 12.0, np.nextafter(12.0, 0), 20.0, 1e300]


def distance(found: Any, expected: Any) -> float:
    """The largest relative difference; infinities and NaN are in the same places."""
    fine = np.isfinite(expected)
    np.testing.assert_array_equal(found[~fine], expected[~fine])
    size = np.maximum(np.abs(expected[fine]), 1e-290)
    return float(np.max(np.abs(found[fine] - expected[fine]) / size, initial=0))


@np.errstate(over="ignore")
@pytest.mark.parametrize("n", [0, 1, 2, 3])
@pytest.mark.parametrize("scaled", [False, True])
def test_bessel(n: int, scaled: bool) -> None:
    draw = np.random.default_rng(n)
    x = np.concatenate([draw.uniform(-40, 40, 4000), draw.uniform(-720, 720, 500), ODD])
    found = _native.bessel_i(x, n=n, scaled=scaled)
    expected = NUMPY_KERNELS["bessel_i"](x, n=n, scaled=scaled)
    assert distance(found, expected) < 4e-15
    for dtype in ("float16", "float32"):
        short: Any = x.astype(dtype)
        found = _native.bessel_i(short[::2], n=n, scaled=scaled)
        expected = NUMPY_KERNELS["bessel_i"](short[::2], n=n, scaled=scaled)
        assert found.dtype == dtype
        assert distance(found.astype("f8"), expected.astype("f8")) < 2 * np.finfo(dtype).eps


def pairs() -> tuple[Any, Any]:
    """Arguments of all sizes, near one another where the functions change, and odd ones."""
    draw = np.random.default_rng(5)
    a = 10.0 ** draw.uniform(-6, 5, 6000)
    x = a * np.exp(draw.normal(0, 1, 6000) * draw.choice([0.01, 0.3, 2.0], 6000))
    odd = np.array(np.meshgrid(ODD, ODD)).reshape(2, -1)
    near = np.array(np.meshgrid([19.99, 20.0, 20.01, 1.0, 0.5, 0.99], [10.0, 21.0, 30.0, 1.5, 1.4]))
    return tuple(np.concatenate([one, *rest]) for one, *rest in zip(
        (a, x), odd, near.reshape(2, -1), strict=True
    ))  # fmt: skip


@np.errstate(all="ignore")
def test_incomplete_gamma() -> None:
    a, x = pairs()
    for name, options in (
        ("regularized_gamma", {"upper": False}), ("regularized_gamma", {"upper": True}),
        ("gamma_density", {}),
    ):  # fmt: skip
        found = getattr(_native, name)(a, x, **options)
        expected = NUMPY_KERNELS[name](a, x, **options)
        # Both have the error of exp(a log(x) - x - ...): that of the exponent, which is large.
        fine = np.isfinite(expected)
        np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
        np.testing.assert_array_equal(found[~fine], expected[~fine])
        bound = 1e-14 * (10 + np.abs(a[fine]) + np.abs(x[fine])).clip(max=1e4)
        close = np.abs(found - expected)[fine] <= bound * np.abs(expected[fine]) + 1e-290
        assert close.all(), (a[fine][~close][:5], x[fine][~close][:5])
        row: Any = a[:7, None].astype("f4")
        short = getattr(_native, name)(row, x[:5].astype("f4"), **options)
        wide = NUMPY_KERNELS[name](row, x[:5].astype("f4"), **options)
        np.testing.assert_allclose(short, wide, rtol=3e-7, atol=1e-37)


@np.errstate(invalid="ignore")
def test_sum_of_powers_of_2() -> None:
    draw = np.random.default_rng(6)
    x1 = np.concatenate([draw.normal(0, 30, 4000), np.repeat(ODD, len(ODD))])
    x2 = np.concatenate([draw.normal(0, 30, 4000), np.tile(ODD, len(ODD))])
    found, expected = _native.logaddexp2(x1, x2), np.logaddexp2(x1, x2)
    fine = np.isfinite(expected)
    np.testing.assert_array_equal(found[~fine], expected[~fine])
    size = np.maximum(np.abs(x1), np.abs(x2))[fine] + 1
    assert np.all(np.abs(found - expected)[fine] <= 1e-15 * size)


@pytest.mark.parametrize("shape", [(3, 4, 5, 6), (2, 3, 7), (4, 65), (8, 9, 227), (8, 9, 228)])
def test_batch_norm_of_any_axis(shape: tuple[int, ...]) -> None:
    draw = np.random.default_rng(7)
    assert channels._FEW == 16384
    for axis in range(len(shape)):
        width = shape[axis]
        x, g = (draw.standard_normal(shape).astype("f4") for _ in range(2))
        scale, offset, mean, mean_g, variance_g = (
            draw.standard_normal(width).astype("f4") for _ in range(5)
        )
        variance = draw.uniform(0.5, 2, width).astype("f4")
        options = {"axis": axis, "epsilon": 1e-3}
        for name, inputs in (
            ("batch_norm", (x, scale, offset)), ("batch_norm", (x, None, offset)),
            ("batch_norm_inference", (x, mean, variance, scale, None)),
            ("batch_norm_gradient", (x, scale, mean, variance, g, mean_g, variance_g)),
        ):  # fmt: skip
            found = getattr(_native, name)(*inputs, **options)
            expected = NUMPY_KERNELS[name](*inputs, **options)
            several = isinstance(expected, tuple)
            for one, other in zip(
                found if several else [found], expected if several else [expected], strict=True
            ):
                assert one.shape == other.shape
                assert one.dtype == other.dtype
                size = float(np.abs(other).max())
                np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5 * size)


@pytest.mark.parametrize("shape", [(2, 5, 8, 7), (3, 2, 30), (1, 16, 32, 32), (1, 17, 32, 32)])
def test_pooling_of_channels_in_front(shape: tuple[int, ...]) -> None:
    draw, rank = np.random.default_rng(8), len(shape) - 2
    assert pooling._FEW == 16384
    options: dict[str, Any] = {
        "window": (2,) * rank, "strides": (1,) * rank, "padding": ((1, 0),) * rank,
        "dilation": (1,) * rank, "data_format": "channels_first",
    }  # fmt: skip
    x = draw.standard_normal(shape).astype("f4")
    y, at = pooling.FALLBACKS["max_pool"](x, **options)
    expected, places = NUMPY_KERNELS["max_pool"](x, **options)
    np.testing.assert_array_equal(y, expected)
    np.testing.assert_array_equal(at, places)
    g = draw.standard_normal(y.shape).astype("f4")
    found = pooling.FALLBACKS["max_pool_gradient"](g, at, input_shape=shape, **options)
    expected = NUMPY_KERNELS["max_pool_gradient"](g, places, input_shape=shape, **options)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    for counted in (False, True):
        found = pooling.FALLBACKS["avg_pool"](x, count_include_pad=counted, **options)
        expected = NUMPY_KERNELS["avg_pool"](x, count_include_pad=counted, **options)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_scatter_nd_takes_the_kernels_of_the_pack() -> None:
    seen: dict[str, Any] = {}

    def register(name: str, kernel: Any, *, dtypes: Any = None, **_: Any) -> None:
        if name == "scatter_nd":
            seen.update(dict.fromkeys(dtypes, kernel))

    pullback_native.pullback_register_kernels(register)
    draw = np.random.default_rng(9)
    at = draw.integers(-4, 4, (6, 2))
    for dtype, kernel in seen.items():
        if dtype == "bfloat16":
            continue
        x, updates = ((draw.standard_normal(s) * 9).astype(dtype) for s in ((4, 4, 3), (6, 3)))
        for mode in ("add", "max", "min", "multiply", "update"):
            found = kernel(x, at, updates, mode=mode)
            expected = NUMPY_KERNELS["scatter_nd"](x, at, updates, mode=mode)
            assert found.dtype == x.dtype
            np.testing.assert_allclose(found, expected, rtol=2e-3, atol=1e-2)
    assert {"float32", "float64", "float16", "bfloat16"} <= seen.keys()


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_thresholds_and_reciprocals(dtype, instructions):
    """Values that a dtype does not hold are rounded once; NaN is not below a threshold."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.standard_normal(700), [np.nan, np.inf, -np.inf, 0.3, -0.0]])
    for layout in (x, x[::-2], x[:704].reshape(32, 22).T):
        given = pb.asarray(layout).astype(dtype)
        wide = given.astype("float64" if dtype == "float64" else "float32").numpy()
        for value in (2.0, 0.1, 1.00048828125000001, -1e5, np.nan):
            found = pb.threshold(given, threshold=0.3, value=value)
            below = wide <= wide.dtype.type(0.3)
            expected = pb.where(pb.asarray(below), pb.asarray(value, dtype=dtype), given)
            np.testing.assert_array_equal(
                found.astype("float64").numpy(), expected.astype("float64").numpy()
            )
        with np.errstate(divide="ignore"):
            expected = pb.asarray(1 / wide).astype(dtype)
        np.testing.assert_array_equal(
            pb.reciprocal(given).astype("float64").numpy(), expected.astype("float64").numpy()
        )
