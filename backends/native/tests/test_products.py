"""Matrix products: within the rounding of their terms, for any layout and number of threads."""

import itertools

import numpy as np
import pytest

from pullback_native import INSTRUCTION_SETS, _native
from pullback_numpy.kernels import KERNELS as NUMPY_KERNELS
from pullback_numpy.threads import number_of_threads

rng = np.random.default_rng(0)


def normal(*shape):
    return rng.standard_normal(shape, np.float32)


def laid_out(x, layout):
    """x as a matrix that is transposed, strided, or reversed in memory."""
    if layout == "turned":
        return np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2)
    if layout == "strided":
        return np.repeat(x, 2, axis=-1)[..., ::2]
    if layout == "reversed":
        return np.ascontiguousarray(x[..., ::-1, :])[..., ::-1, :]
    return x


LAYOUTS = ("plain", "turned", "strided", "reversed")


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("layouts", [*itertools.product(LAYOUTS, LAYOUTS)], ids="-".join)
def test_matmul_within_the_rounding_of_its_terms(layouts, threads, instructions):
    sizes = [0, 1, 2, 5, 11, 12, 13, 24, 31, 32, 33, 48, 95, 97, 130, 257, 600]
    for _ in range(20):
        rows, inner, columns = rng.choice(sizes, 3)
        lead = [(), (), (2,), (3, 1, 2)][rng.integers(4)]
        x1 = laid_out(normal(*lead, rows, inner), layouts[0])
        x2 = laid_out(normal(*lead[: len(lead) * rng.integers(2)], inner, columns), layouts[1])
        with number_of_threads(threads):
            y = _native.matmul(x1, x2)
        wide = x1.astype(np.float64), x2.astype(np.float64)
        bound = np.matmul(*map(np.abs, wide)) * 2e-6
        assert y.shape == bound.shape
        assert y.dtype == np.float32
        assert (np.abs(y - np.matmul(*wide)) <= bound).all()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("instructions", INSTRUCTION_SETS[1:], indirect=True)
def test_a_row_does_not_depend_on_the_rows_beside_it(layout, instructions):
    """Products of 2 to 16 rows read x2 in another order than those of more, and add alike.

    The first set leaves products to BLAS, which promises less.
    """
    for inner, columns in itertools.product([1, 7, 8, 255, 257, 385, 800], [16, 33, 97, 500]):
        x1, x2, bias = normal(40, inner), laid_out(normal(inner, columns), layout), normal(columns)
        many = _native.linear(x1, x2, bias)
        for rows in (2, 3, 4, 5, 6, 7, 8, 9, 11, 15, 16, 17):
            for few in (x1[:rows], laid_out(x1[:rows], "turned")):
                np.testing.assert_array_equal(_native.linear(few, x2, bias), many[:rows])


@pytest.mark.parametrize("layouts", [*itertools.product(LAYOUTS, LAYOUTS)], ids="-".join)
def test_small_matrices(layouts, instructions):
    """Rows of a product that are written beyond their end are written again."""
    sizes = (1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33)
    for columns, inner in itertools.product(sizes, (1, 2, 5, 16, 32, 33, 64, 65)):
        rows = int(rng.choice([2, 3, 7, 8, 9, 10, 16, 48, 49, 100]))
        x1 = laid_out(normal(3, rows, inner), layouts[0])
        x2 = laid_out(normal(3, inner, columns), layouts[1])
        x1[1, -1, 0] = np.nan  # in one row alone
        y = _native.matmul(x1, x2)
        assert np.isnan(y[1, -1]).all()
        y[1, -1] = x1[1, -1] = 0
        wide = x1.astype(np.float64), x2.astype(np.float64)
        bound = np.matmul(*map(np.abs, wide)) * 2e-6
        assert (np.abs(y - np.matmul(*wide)) <= bound).all(), (rows, inner, columns)
        for threads in (2, 3):
            with number_of_threads(threads):
                found = _native.matmul(x1, x2)
            found[1, -1] = 0
            np.testing.assert_array_equal(found, y)


def test_products_do_not_depend_on_the_threads(instructions):
    sizes = (256, 784, 500), (1024, 300, 64), (33, 2000, 1000), (200, 3000, 3), (120, 3000, 9)
    for rows, inner, columns in sizes:
        x1, x2, bias, results = normal(rows, inner), normal(inner, columns), normal(columns), []
        for threads in (1, 2, 5):
            with number_of_threads(threads):
                results.append(_native.linear(x1, x2, bias))
        for other in results[1:]:
            if instructions == "base":  # these products are BLAS's, which promises less
                np.testing.assert_allclose(results[0], other, rtol=1e-6, atol=1e-4)
            else:
                np.testing.assert_array_equal(results[0], other)


def test_linear_adds_the_bias_to_every_form_of_product(instructions):
    for rows, inner, columns in [(7, 0, 5), (60, 9, 3), (300, 500, 40), (9, 700, 33), (13, 5, 16)]:
        x1, x2, bias = normal(rows, inner), normal(inner, columns), normal(columns)
        for turned in (x1, laid_out(x1, "turned")):
            y = _native.linear(turned, x2, bias)
            expected = x1.astype(np.float64) @ x2 + bias
            np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-4)


def test_matmul_keeps_infinities_and_nan_where_they_belong():
    x1, x2 = normal(40, 50), normal(50, 70)
    x1[3, 7], x1[5, 9], x2[20, 69] = np.inf, np.nan, -np.inf
    y = _native.matmul(x1, x2)
    bad = ~np.isfinite(y)
    expected = np.zeros_like(bad)
    expected[[3, 5]] = expected[:, 69] = True
    np.testing.assert_array_equal(bad, expected)


@pytest.mark.parametrize("shape", [(5, 7), (40, 300), (2, 3, 64), (1, 9), (0, 4), (3, 0)])
@pytest.mark.parametrize("biased", [False, True])
def test_linear(shape, biased):
    inputs = normal(*shape), normal(shape[-1], 70), normal(70) if biased else None
    ours, theirs = _native.linear(*inputs), NUMPY_KERNELS["linear"](*inputs)
    assert ours.shape == theirs.shape
    np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=1e-4)
