"""Quantiles by every method, and those without NaN, against NumPy's on random draws."""

import warnings

import numpy as np
import pytest

import pullback as pb
from pullback.ops.sorting import METHODS, place


@pytest.mark.each("method", METHODS)
def test_places_are_numpys(method):
    generator = np.random.default_rng(5)
    for count in [*range(1, 14), 100, 1001]:
        levels = [0.0, 1.0, 0.5, *generator.random(20), *(generator.integers(0, 65, 20) / 64)]
        # The position among the elements is the quantile of their positions.
        expected = np.quantile(np.arange(count), levels, method=method)
        found = [sum(place(float(level), count, method)) for level in levels]
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def draw(seed):
    """An array with ties, infinities and NaN, levels, and the axes of a call."""
    generator = np.random.default_rng(seed)
    shape = tuple(generator.integers(1, 6, generator.integers(1, 4)).tolist())
    x = generator.integers(-3, 4, shape) / 4 + 0.0
    x[generator.random(shape) < 0.2] = np.nan
    x[generator.random(shape) < 0.1] = np.inf
    x[generator.random(shape) < 0.1] = -np.inf
    axes = generator.permutation(len(shape))[: generator.integers(1, len(shape) + 1)].tolist()
    axis = (None, axes[0], tuple(axes))[generator.integers(3)]
    q = (generator.integers(0, 9) / 8, (generator.integers(0, 9, 3) / 8).tolist())[seed % 2]
    return x, q, axis, bool(generator.integers(2))


def without_nan(x, q, axis, method, keepdims):
    """np.nanquantile, which has no rule for two infinities of one sign: nothing is between them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        found, low, high = (
            np.nanquantile(x, q, axis, method=one, keepdims=keepdims)
            for one in (method, "lower", "higher")
        )
    return np.where(low == high, low, found)


@pytest.mark.parametrize("method", ["linear", "lower", "higher", "midpoint", "nearest"])
def test_those_without_nan_are_numpys(method):
    for seed in range(40):
        x, q, axis, keepdims = draw(seed)
        found = np.nanquantile(pb.asarray(x), q, axis, method=method, keepdims=keepdims)
        assert isinstance(found, pb.Tensor)
        np.testing.assert_allclose(found, without_nan(x, q, axis, method, keepdims), rtol=1e-12)
