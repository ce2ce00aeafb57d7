"""The special functions at their poles, far out, many derivatives deep, and in large arrays."""

import math
from decimal import Decimal

import numpy as np
import pytest

import pullback as pb

inf, nan = math.inf, math.nan
FLOATS = ["float16", "bfloat16", "float32", "float64"]


def same(tensor, expected):
    """Equal as numbers, NaN to NaN, and in the sign of zero."""
    found = tensor.numpy().astype(np.float64)
    expected = np.asarray(expected, np.float64)
    np.testing.assert_array_equal(found, expected)
    known = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found)[known], np.signbit(expected)[known])


@pytest.mark.parametrize("dtype", FLOATS)
def test_special_functions_at_special_points(dtype):
    x = pb.asarray([0.0, -0.0, inf, -inf, nan], dtype=dtype)
    same(pb.erf(x), [0.0, -0.0, 1.0, -1.0, nan])
    same(pb.erfc(x), [1.0, 1.0, 0.0, 2.0, nan])
    same(
        pb.erfinv(pb.asarray([0.0, -0.0, 1.0, -1.0, 1.5], dtype=dtype)), [0.0, -0.0, inf, -inf, nan]
    )
    same(pb.lgamma(x), [inf, inf, inf, inf, nan])
    same(pb.digamma(x), [-inf, inf, inf, nan, nan])
    same(pb.lgamma(pb.asarray([-1.0, -2.0], dtype=dtype)), [inf, inf])
    same(pb.digamma(pb.asarray([-1.0, -2.0], dtype=dtype)), [nan, nan])
    same(pb.polygamma(pb.asarray([0.0, -1.0, inf], dtype=dtype), 1), [inf, inf, 0.0])


def test_gamma_functions_over_the_whole_range():
    assert float(pb.lgamma(pb.asarray(1e306))) == inf
    x = pb.asarray(np.array([1e-300, 1e200, 171.0]))
    np.testing.assert_allclose(
        pb.lgamma(x).numpy(), [math.lgamma(v) for v in x.tolist()], rtol=1e-15
    )
    np.testing.assert_allclose(
        pb.polygamma(pb.asarray(np.array([1e200, 1e-100])), 1).numpy(), [1e-200, 1e200], rtol=1e-15
    )


@pytest.mark.parametrize("n", [1, 2, 3, 4, 6])
def test_polygamma_of_large_numbers_is_small_and_not_zero(n):
    x = 10.0 ** (np.array([308.0 if n == 1 else 320.0, 300.0]) / n)
    found = pb.polygamma(pb.asarray(x), n).numpy()
    expected = [(-1) ** (n + 1) * math.factorial(n - 1) / Decimal(v) ** n for v in x.tolist()]
    np.testing.assert_allclose(found, np.array(expected, np.float64), rtol=1e-13, atol=2e-323)


def test_lgamma_is_differentiable_many_times():
    # The fourth derivative at 1 is polygamma(3, 1) = pi**4 / 15.
    x = pb.asarray(np.float64(1.0))
    found = pb.grad(pb.grad(pb.grad(pb.grad(pb.lgamma))))(x)
    assert float(found) == pytest.approx(math.pi**4 / 15, rel=1e-12)


def test_large_arrays_are_computed_block_by_block():
    x = np.linspace(-6, 6, 40001).reshape(1, -1)
    expected = np.array([math.erf(v) for v in x.ravel()]).reshape(x.shape)
    few = 5 * np.finfo(float).eps  # the class of erf, and an ulp of what it is compared with
    np.testing.assert_allclose(pb.erf(x).numpy(), expected, rtol=few)
    turned = np.asfortranarray(np.stack([x[0], x[0][::-1]]))
    np.testing.assert_allclose(pb.erf(turned).numpy()[1], expected[0, ::-1], rtol=few)
