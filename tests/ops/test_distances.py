"""Distances between rows beside SciPy's, and reciprocal roots."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.spatial.distance import cdist

import pullback as pb

RNG = np.random.default_rng(5)
NAMES = {0: "hamming", 1: "cityblock", 2: "euclidean", math.inf: "chebyshev"}


@pytest.mark.parametrize("p", [0, 0.5, 1, 1.7, 2, 3, math.inf])
def test_values_are_those_of_scipy(p):
    for _ in range(5):
        n, m, size = RNG.integers(1, 9, 3)
        x, y = RNG.standard_normal((n, size)), RNG.standard_normal((m, size))
        if p == 0:
            x, y = np.round(x), np.round(y)
        more = {} if p in NAMES else {"p": p}
        expected = cdist(x, y, NAMES.get(p, "minkowski"), **more) * (size if p == 0 else 1)
        np.testing.assert_allclose(pb.cdist(x, y, p=p).numpy(), expected, rtol=1e-13, atol=1e-14)


def test_small_distances_far_from_zero_keep_their_digits():
    x = 1e4 + RNG.integers(0, 8, (20, 3)) * 2.0**-8
    found = pb.cdist(x.astype("float32"), x.astype("float32")).numpy()
    np.testing.assert_allclose(found, cdist(x, x), rtol=1e-6)


def test_stacks_broadcast_and_views_are_read():
    x, y = RNG.standard_normal((2, 1, 4, 3)), RNG.standard_normal((5, 6, 3))
    found = pb.cdist(x, y).numpy()
    assert found.shape == (2, 5, 4, 6)
    for i, j in np.ndindex(2, 5):
        np.testing.assert_allclose(found[i, j], cdist(x[i, 0], y[j]), rtol=1e-13)
    turned = pb.cdist(pb.asarray(x)[..., ::-1, :], pb.asarray(np.asfortranarray(y)))
    np.testing.assert_array_equal(turned.numpy(), found[..., ::-1, :])


@pytest.mark.parametrize("p", [1, 1.5, 2, 3])
def test_gradients_to_the_second_order(p):
    x, y = pb.asarray(RNG.standard_normal((3, 2))), pb.asarray(RNG.standard_normal((4, 2)))

    def total(x, y):
        return pb.sum(pb.cdist(x, y, p=p) ** 2)

    pb.check_gradients(total, x, y)
    pb.check_gradients(lambda x, y: pb.sum(pb.grad(total)(x, y) ** 3), x, y)


def slopes(x, y, g, p=2.0):
    """The gradients of `cdist`, by all differences in float64."""
    away = x[:, None].astype(np.float64) - y.astype(np.float64)
    size = np.abs(away)
    norm = np.linalg.norm(away, p, axis=-1, keepdims=True)
    ratio = np.where(size == 0, 0, size / np.where(norm == 0, 1, norm))
    each = np.sign(away) * ratio ** (p - 1) * g[..., None]
    return each.sum(1), -each.sum(0)


def gradients(x, y, g, p=2):
    def total(x, y):
        return pb.sum(pb.cdist(x, y, p=p) * g)

    return [found.numpy() for found in pb.grad(total, (0, 1))(pb.asarray(x), pb.asarray(y))]


@pytest.mark.parametrize("size", [1, 2, 64])
@pytest.mark.parametrize("kind", ["normal", "far", "equal", "near", "clusters"])
def test_gradients_of_many_rows_keep_their_digits(kind, size):
    x = RNG.standard_normal((300, size))
    y = RNG.standard_normal((200, size))
    if kind == "far":
        x, y = x + 1e4, y + 1e4
    elif kind == "equal":
        y = x[50:250].copy()
    elif kind == "near":
        y[:100] = x[:100] * (1 + 10.0 ** RNG.uniform(-7, -1, (100, 1)))
    elif kind == "clusters":
        x, y = (np.round(v) + 1e-6 * RNG.standard_normal(v.shape) for v in (x, y))
    x, y = x.astype("float32"), y.astype("float32")
    g = RNG.standard_normal((300, 200)).astype("float32")
    terms = np.abs(g)
    for found, expected, axis in zip(gradients(x, y, g), slopes(x, y, g), (1, 0), strict=True):
        bound = 3e-7 * terms.sum(axis)[:, None]
        assert (np.abs(found - expected) <= bound).all(), np.abs(found - expected).max()


@pytest.mark.parametrize("p", [1, 1.5, 2, 3])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gradients_of_every_order(p, dtype):
    x, y = (RNG.standard_normal(shape).astype(dtype) for shape in ((90, 3), (70, 3)))
    g = RNG.standard_normal((90, 70)).astype(dtype)
    rtol = 1e-5 if dtype == "float32" else 1e-12
    for found, expected in zip(gradients(x, y, g, p), slopes(x, y, g, float(p)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol * 10)


def test_gradients_by_one_pair_that_is_infinite():
    x = RNG.standard_normal((80, 3)).astype("float32")
    y = x[:70] + 1
    g = np.ones((80, 70), "float32")
    g[3, 4] = np.inf
    g1, g2 = gradients(x, y, g)
    assert np.isinf(g1[3]).all()
    assert np.isinf(g2[4]).all()
    assert np.isfinite(np.delete(g1, 3, 0)).all()
    x[5, 1] = np.inf
    g1, _ = gradients(x, y, np.ones((80, 70), "float32"))
    np.testing.assert_array_equal(g1[5], [0, 70, 0])
    assert np.isfinite(g1).all()


def test_equal_rows_have_no_gradient():
    x = pb.asarray([[1.0, 2.0], [1.0, 2.0], [3.0, 2.0]])
    np.testing.assert_array_equal(
        pb.grad(lambda x: pb.sum(pb.cdist(x, x)))(x).numpy(), [[-2.0, 0], [-2.0, 0], [4.0, 0]]
    )


def test_a_batch_a_program_and_the_shape():
    x, y = pb.asarray(RNG.standard_normal((5, 4, 3))), pb.asarray(RNG.standard_normal((6, 3)))
    expected = pb.cdist(x, y).numpy()
    batch = pb.vmap(pb.cdist, in_axes=(0, None))(x, y)
    np.testing.assert_allclose(batch.numpy(), expected, rtol=1e-14)
    np.testing.assert_allclose(pb.function(pb.cdist)(x, y).numpy(), expected, rtol=1e-14)
    spec = pb.eval_shape(pb.cdist, pb.TensorSpec((5, 4, 3), "float16"), y)
    assert spec.shape == (5, 4, 6)


def test_reciprocal_roots():
    x = np.concatenate([10.0 ** RNG.uniform(-300, 300, 50), [0.0, -0.0, np.inf, -1.0, np.nan]])
    with np.errstate(all="ignore"):
        expected = 1 / np.sqrt(x)
    np.testing.assert_allclose(pb.rsqrt(x).numpy(), expected, rtol=1e-15)
    positive = pb.asarray(RNG.uniform(0.1, 3.0, 5))
    pb.check_gradients(lambda x: pb.sum(pb.rsqrt(x)), positive)
    pb.check_gradients(pb.grad(lambda x: pb.sum(pb.rsqrt(x))), positive)
    z = pb.asarray(RNG.standard_normal(5) + 1j * RNG.standard_normal(5))
    np.testing.assert_allclose(pb.rsqrt(z).numpy(), 1 / np.sqrt(z.numpy()), rtol=1e-14)
    # A zero that is not selected does no harm.
    x = pb.asarray([0.0, 4.0])
    slope = pb.grad(lambda x: pb.sum(pb.where(x > 0, pb.rsqrt(x), 0.0)))(x)
    np.testing.assert_array_equal(slope.numpy(), [0.0, -0.0625])
