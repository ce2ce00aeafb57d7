"""Gradients of running extrema and running logarithms of sums, against their definitions."""

import numpy as np
import pytest

import pullback as pb


def slope(function, x, weights):
    x = pb.asarray(x)
    with pb.GradientTape() as tape:
        tape.watch(x)
        y = pb.sum(function(x) * weights)
    return tape.gradient(y, x).numpy()


@pytest.mark.parametrize("name", ["cumulative_max", "cumulative_min"])
def test_gradients_of_extrema_are_those_of_the_first_of_equals(name):
    draw = np.random.default_rng(0)
    for _ in range(40):
        shape = tuple(draw.integers(1, 12, 2))
        x = draw.integers(-3, 4, shape).astype("float64")
        for value in (np.nan, np.inf, -np.inf):
            if draw.random() < 0.3:
                x[draw.random(shape) < 0.1] = value
        axis = int(draw.integers(2))
        weights = draw.integers(1, 9, shape).astype("float64")
        found = slope(lambda v, axis=axis: getattr(pb, name)(v, axis=axis), x, weights)
        rows, given = np.moveaxis(x, axis, -1), np.moveaxis(weights, axis, -1)
        expected = np.zeros(rows.shape)
        better = np.greater if name == "cumulative_max" else np.less
        for row in np.ndindex(rows.shape[:-1]):
            first = 0
            for i, value in enumerate(rows[row]):
                best = rows[row][first]
                if best == best and (value != value or better(value, best)):
                    first = i
                expected[row][first] += given[row][i]
        np.testing.assert_array_equal(found, np.moveaxis(expected, -1, axis))


@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_gradients_of_running_logarithms_to_the_second_order(scale):
    draw = np.random.default_rng(1)
    for n in (1, 2, 9, 33):
        x, weights = draw.normal(size=n) * scale, draw.normal(size=n)
        # Row k has the softmax of the elements up to k, whose derivatives are known.
        seen = np.where(np.tri(n, dtype=bool), x, -np.inf)
        shares = np.exp(seen - np.logaddexp.accumulate(x)[:, None])
        found = slope(pb.cumulative_logsumexp, x, weights)
        np.testing.assert_allclose(found, weights @ shares, rtol=1e-11, atol=1e-13)
        along = draw.normal(size=n)

        def directional(v, weights=weights, along=along):
            with pb.GradientTape() as tape:
                tape.watch(v)
                y = pb.sum(pb.cumulative_logsumexp(v) * weights)
            return tape.gradient(y, v) * along

        second = slope(directional, x, np.ones(n))
        mean = shares @ along
        expected = weights @ (shares * along) - (weights * mean) @ shares
        np.testing.assert_allclose(second, expected, rtol=1e-10, atol=1e-12)
