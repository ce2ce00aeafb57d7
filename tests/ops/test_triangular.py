"""Triangular systems, which are solved in halves from some size on, against SciPy's."""

import numpy as np
import pytest
import scipy.linalg

import pullback as pb


@pytest.mark.parametrize("n", [1, 64, 65, 129, 200])
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("unit", [False, True])
def test_solutions_and_gradients_are_scipys(n, upper, unit):
    generator = np.random.default_rng(n)
    a = generator.standard_normal((n, n)) / n + 2 * np.eye(n)
    b, w = generator.standard_normal((2, n, 3))

    def solved(a, b):
        return pb.linalg.solve_triangular(a, b, upper=upper, unit_diagonal=unit)

    def scipys(b, trans=0):
        return scipy.linalg.solve_triangular(a, b, trans, lower=not upper, unit_diagonal=unit)

    x = scipys(b)
    np.testing.assert_allclose(solved(a, b), x, rtol=1e-11, atol=1e-13)
    by_a, by_b = pb.grad(lambda a, b: pb.sum(solved(a, b) * w), argnums=(0, 1))(a, b)
    np.testing.assert_allclose(by_b, scipys(w, 1), rtol=1e-11, atol=1e-13)
    whole = -scipys(w, 1) @ x.T
    part = np.triu(whole, int(unit)) if upper else np.tril(whole, -int(unit))
    np.testing.assert_allclose(by_a, part, rtol=1e-11, atol=1e-13)


def test_what_is_not_read_does_not_matter():
    a = np.array([[2.0, np.nan], [1.0, 4.0]])
    np.testing.assert_allclose(pb.linalg.solve_triangular(a, [2.0, 9.0]), [1.0, 2.0])
    a = np.array([[np.inf, 0.0], [1.0, np.nan]])
    found = pb.linalg.solve_triangular(a, [2.0, 9.0], unit_diagonal=True)
    np.testing.assert_allclose(found, [2.0, 7.0])
