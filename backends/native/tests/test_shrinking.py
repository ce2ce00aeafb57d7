"""Shrinking, roots and derivatives of digamma in C, beside the bodies of their ops."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.special

from pullback_native import _native
from pullback_native.kernels.declining import KERNELS as DECLINING
from pullback_numpy.kernels import KERNELS as NUMPY_KERNELS

pytestmark = pytest.mark.usefixtures("instructions")

ODD = [0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, -1e-310, 0.5, -0.5, 1e300, -1e300]
EPS = {"float32": 6e-8, "float64": 1.2e-16, "float16": 5e-4}


def numbers(dtype: str, spread: float = 2.0) -> Any:
    draw = np.random.default_rng(1)
    with np.errstate(over="ignore"):
        return np.concatenate([draw.normal(0, spread, 2000), ODD]).astype(dtype)


@np.errstate(all="ignore")
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("threshold", [0.0, 0.5, 1.0, math.inf])
def test_shrinking(dtype: str, threshold: float) -> None:
    for x in (numbers(dtype), numbers(dtype)[::3], numbers(dtype)[:2000].reshape(40, 50).T):
        limit = np.float32(threshold) if dtype == "float16" else np.dtype(dtype).type(threshold)
        wide = x.astype("f4") if dtype == "float16" else x
        hard = np.where(np.abs(wide) <= limit, 0, wide).astype(dtype)
        found = _native.hard_shrink(x, threshold=threshold)
        np.testing.assert_array_equal(found, hard)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(hard))
        less = np.where(wide < -limit, wide + limit, wide * 0)
        soft = np.where(wide > limit, wide - limit, less).astype(dtype)
        found = DECLINING["soft_shrink"](x, threshold=threshold)
        np.testing.assert_array_equal(found, soft)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(soft))
        assert found.dtype == x.dtype


@np.errstate(all="ignore")
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_roots_and_celu(dtype: str) -> None:
    x = numbers(dtype)
    for one in (x, np.abs(x), x[::2]):
        wide = one.astype("f4") if dtype == "float16" else one
        expected = (1 / np.sqrt(wide)).astype(dtype)
        np.testing.assert_array_equal(DECLINING["rsqrt"](one), expected)
        for alpha in (0.5, 1.0, 2.0):
            found = _native.celu(one, alpha=alpha)
            smooth = np.where(
                one > 0, one, alpha * np.expm1(np.minimum(one, 0).astype("f8") / alpha)
            )
            np.testing.assert_allclose(
                found.astype("f8"),
                smooth.astype(dtype).astype("f8"),
                rtol=4 * EPS[dtype],
                atol=1e-40,
            )


@np.errstate(all="ignore")
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_polygamma(n: int) -> None:
    draw = np.random.default_rng(n)
    positive = np.concatenate([10.0 ** draw.uniform(-30, 30, 3000), draw.uniform(0, 20, 2000)])
    found = _native.polygamma(positive, n=n)
    expected = scipy.special.polygamma(n, positive)
    fine = np.isfinite(expected) & (np.abs(expected) > 1e-290)
    np.testing.assert_allclose(found[fine], expected[fine], rtol=6e-15)
    x = np.concatenate([draw.uniform(-30, 20, 4000), -(10.0 ** draw.uniform(-9, 3, 1000)), ODD,
                        np.arange(-5.0, 5), positive])  # fmt: skip
    found, expected = _native.polygamma(x, n=n), NUMPY_KERNELS["polygamma"](x, n=n)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    fine = np.isfinite(expected)
    np.testing.assert_array_equal(found[~fine], expected[~fine])
    # Near its zeros it is a difference of terms of this size.
    terms = np.abs(1 / (x - np.rint(x)))[fine] ** (n + 1) * math.factorial(n) + np.abs(
        expected[fine]
    )
    assert np.all(
        np.abs(found - expected)[fine]
        <= 1e-14 * np.where(x[fine] < 0, terms, np.abs(expected[fine])) + 1e-290
    )
    for dtype in ("float32", "float16"):
        short = x[np.abs(x) < 1e4].astype(dtype)
        wide = NUMPY_KERNELS["polygamma"](short.astype("f8"), n=n).astype(dtype)
        np.testing.assert_allclose(
            _native.polygamma(short, n=n).astype("f8"), wide.astype("f8"), rtol=4 * EPS[dtype]
        )


def test_high_orders_are_handed_over() -> None:
    x = np.array([0.5, 3.0, -1.5])
    for n in (0, 5, 20):
        np.testing.assert_array_equal(_native.polygamma(x, n=n), NUMPY_KERNELS["polygamma"](x, n=n))
