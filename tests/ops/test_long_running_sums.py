"""Running sums over any array API namespace, whose own may add one element after another."""

import math

import array_api_strict
import numpy as np
import pytest

from pullback import array_api
from pullback.array_api.cumulative import LONG


def kernel(xp):
    return array_api.kernels(xp)["cumulative_sum"]


@pytest.mark.parametrize("n", [LONG - 1, LONG, LONG + 1, 65_535, 1_000_000])
def test_sums_are_as_near_as_promised(n):
    # What is added one after another has 5 to 7 times this bound at a million.
    x = (np.random.default_rng(0).random(n) + 0.5).astype(np.float64) / 3
    found = kernel(np)(x, axis=0, dtype=None, include_initial=False)
    places = np.linspace(0, n - 1, 50).astype(int)
    for place in places:
        exact = math.fsum(x[: place + 1])
        assert abs(found[place] - exact) <= 2 * math.log2(n) * np.finfo(np.float64).eps * exact


@pytest.mark.parametrize("xp", [np, array_api_strict], ids=["numpy", "strict"])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("include_initial", [False, True])
def test_rows_along_any_axis(xp, axis, include_initial):
    shape = (LONG + 37, 2) if axis == 0 else (2, LONG + 37)
    x = np.random.default_rng(1).integers(-9, 9, shape).astype(np.float64)
    found = kernel(xp)(xp.asarray(x), axis=axis, dtype=None, include_initial=include_initial)
    expected = np.cumulative_sum(x, axis=axis, include_initial=include_initial)
    np.testing.assert_array_equal(np.asarray(found), expected)


def test_infinities_and_zeros_stay():
    x = np.full(LONG, -0.0)
    assert np.signbit(kernel(np)(x, axis=0, dtype=None, include_initial=False)).all()
    x[500], x[5000] = np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        found = kernel(np)(x, axis=0, dtype=None, include_initial=False)
        np.testing.assert_array_equal(found, np.cumsum(x))


def test_integers_wrap_around():
    x = np.full(LONG + 5, 2**61)
    found = kernel(np)(x, axis=0, dtype=None, include_initial=False)
    np.testing.assert_array_equal(found, np.cumsum(x))
