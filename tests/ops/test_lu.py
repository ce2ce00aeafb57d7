"""LU factors beside SciPy's, of singular matrices too, and systems solved with them."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg

import pullback as pb


def values(*shape, seed=0, dtype="float64"):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("shape", [(1, 1), (6, 6), (50, 50), (70, 70), (70, 40), (40, 70), (0, 3)])
@pytest.mark.parametrize("factor", [pb.linalg.lu_factor, pb.linalg.lu_factor.spec.body])
def test_factors_are_those_of_scipy(shape, factor):
    x = values(*shape)
    lu, pivots = factor(pb.asarray(x))
    expected, places = scipy.linalg.lu_factor(x)
    np.testing.assert_allclose(lu.numpy(), expected, rtol=1e-10, atol=1e-12)
    assert pivots.tolist() == places.tolist()


def test_a_stack_is_factored_item_by_item():
    x = values(3, 2, 5, 4)
    lu, pivots = pb.linalg.lu_factor(x)
    for i in np.ndindex(3, 2):
        expected, places = scipy.linalg.lu_factor(x[i])
        np.testing.assert_allclose(lu.numpy()[i], expected, atol=1e-12)
        assert pivots.numpy()[i].tolist() == places.tolist()


@pytest.mark.parametrize("x", [[[1.0, 2.0], [2.0, 4.0]], [[0.0, 0.0], [0.0, 0.0]]])
def test_singular_matrices_have_factors_and_solve_nothing(x):
    lu, pivots = pb.linalg.lu_factor(x)
    assert np.isfinite(lu.numpy()).all()
    assert lu[1, 1].item() == 0.0
    with pytest.raises(pb.errors.InputValueError, match="ingular"):
        pb.linalg.lu_solve(lu, pivots, [1.0, 1.0])


@pytest.mark.parametrize("shape", [(4, 4), (2, 3, 3), (5, 3), (3, 5)])
def test_gradients_to_the_second_order(shape):
    x, w = pb.asarray(values(*shape)), pb.asarray(values(*shape, seed=1))

    def total(x):
        return pb.sum(pb.linalg.lu_factor(x).lu ** 2 * w)

    pb.check_gradients(total, x)
    pb.check_gradients(lambda x: pb.sum(pb.grad(total)(x) * w), x)


def test_many_systems_of_one_matrix_have_the_gradients_of_solve():
    x1, x2 = pb.asarray(values(4, 4)), pb.asarray(values(4, 3, seed=1))

    def by_factors(x1, x2):
        return pb.sum(pb.linalg.lu_solve(*pb.linalg.lu_factor(x1), x2) ** 2)

    def at_once(x1, x2):
        return pb.sum(pb.linalg.solve(x1, x2) ** 2)

    for found, expected in zip(
        pb.grad(by_factors, (0, 1))(x1, x2), pb.grad(at_once, (0, 1))(x1, x2), strict=True
    ):
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-10)
    np.testing.assert_allclose(
        pb.hessian(by_factors)(x1, x2).numpy(), pb.hessian(at_once)(x1, x2).numpy(), rtol=1e-8
    )


def test_transforms():
    x, b = pb.asarray(values(3, 4, 4)), pb.asarray(values(3, 4, seed=1))

    def solved(x, b):
        return pb.linalg.lu_solve(*pb.linalg.lu_factor(x), b)

    expected = np.linalg.solve(x.numpy(), b.numpy()[..., None])[..., 0]
    np.testing.assert_allclose(pb.vmap(solved)(x, b).numpy(), expected, rtol=1e-10)
    np.testing.assert_allclose(pb.function(solved)(x[0], b[0]).numpy(), expected[0], rtol=1e-10)
    assert pb.eval_shape(solved, x, pb.ones((3, 4, 2))) == pb.TensorSpec((3, 4, 2), "float64")
