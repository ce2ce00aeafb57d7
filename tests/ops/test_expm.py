"""The exponential of matrices beside SciPy's, far from 0 too, and its gradients."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg

import pullback as pb

RNG = np.random.default_rng(3)


def drawn(n, size, kind="float64"):
    x = RNG.standard_normal((n, n))
    if kind == "complex128":
        x = x + 1j * RNG.standard_normal((n, n))
    return x * size / max(1.0, np.abs(x).sum(axis=0).max(initial=0.0))


@pytest.mark.parametrize("kind", ["float64", "complex128"])
@pytest.mark.parametrize("size", [1e-9, 0.1, 3.0, 20.0])
def test_values_are_those_of_scipy(kind, size):
    for n in (1, 2, 3, 5, 12):
        x = drawn(n, size, kind)
        found = pb.linalg.expm(x).numpy()
        # The condition is at least the norm.
        np.testing.assert_allclose(
            found, scipy.linalg.expm(x), rtol=0, atol=1e-14 * max(1, size) * np.abs(found).max()
        )


@pytest.mark.parametrize("size", [1e2, 1e4, 3e5])
def test_far_out_it_is_that_of_the_eigenvalues(size):
    x = drawn(6, 1.0)
    x = -(x @ x.T) - 1e-3 * np.eye(6)
    x *= size / np.abs(x).sum(axis=0).max()
    values, vectors = np.linalg.eigh(x)
    expected = (vectors * np.exp(values)) @ vectors.T
    np.testing.assert_allclose(pb.linalg.expm(x).numpy(), expected, rtol=0, atol=1e-15 * size)


def test_a_stack_is_taken_matrix_by_matrix():
    x = np.stack([drawn(3, size) for size in (1e-3, 1.0, 30.0, 5.0)]).reshape(2, 2, 3, 3)
    found = pb.linalg.expm(pb.asarray(x)).numpy()
    for i in np.ndindex(2, 2):
        np.testing.assert_array_equal(found[i], pb.linalg.expm(x[i]).numpy())
    # Another order in memory, too.
    turned = pb.linalg.expm(pb.asarray(np.asfortranarray(x)).mT).numpy()
    np.testing.assert_allclose(turned, np.swapaxes(found, -2, -1), rtol=1e-12)


def test_what_is_too_large_is_nan_and_harms_no_other():
    x = np.stack([np.eye(2), np.eye(2) * 1e6, np.full((2, 2), np.nan), np.diag([np.inf, 0.0])])
    x = pb.asarray(x)
    found, gradient = pb.value_and_grad(lambda x: pb.sum(pb.linalg.expm(x)[0]))(x)
    np.testing.assert_allclose(found.item(), 2 * np.e, rtol=1e-14)
    assert np.isfinite(gradient.numpy()).all()
    assert np.isnan(pb.linalg.expm(x).numpy()[1:]).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_lower_precision(dtype):
    x = pb.asarray(drawn(4, 2.0)).astype(dtype)
    found = pb.linalg.expm(x)
    assert found.dtype == x.dtype
    expected = scipy.linalg.expm(x.astype("float64").numpy())
    eps = pb.finfo(dtype).eps
    np.testing.assert_allclose(
        found.astype("float64").numpy(), expected, rtol=0, atol=4 * eps * np.abs(expected).max()
    )


@pytest.mark.parametrize("size", [0.5, 12.0])
def test_gradients_to_the_second_order(size):
    x, w = pb.asarray(drawn(3, size)), pb.asarray(drawn(3, 1.0))

    def total(x):
        return pb.sum(pb.linalg.expm(x) * w)

    pb.check_gradients(total, x)
    pb.check_gradients(lambda x: pb.sum(pb.grad(total)(x) * w), x)
    # The derivative of Al-Mohy and Higham, transposed.
    expected = scipy.linalg.expm_frechet(x.numpy().T, w.numpy(), compute_expm=False)
    found = pb.grad(total)(x).numpy()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


def test_a_batch_a_program_and_the_shape():
    x = pb.asarray(np.stack([drawn(3, size) for size in (0.1, 4.0, 40.0)]))
    expected = pb.linalg.expm(x).numpy()
    np.testing.assert_allclose(pb.vmap(pb.linalg.expm)(x).numpy(), expected, rtol=1e-13)
    program = pb.function(pb.grad(lambda x: pb.sum(pb.linalg.expm(x))))
    for item in x:  # another number of squarings each
        eager = pb.grad(lambda x: pb.sum(pb.linalg.expm(x)))(item)
        np.testing.assert_allclose(program(item).numpy(), eager.numpy(), rtol=1e-12)
    spec = pb.eval_shape(pb.linalg.expm, pb.TensorSpec((2, 3, 3), "complex64"))
    assert (spec.shape, spec.dtype) == ((2, 3, 3), pb.complex64)
