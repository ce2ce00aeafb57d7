"""The incomplete gamma functions beside SciPy's, and their gradients."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special

import pullback as pb

PAIRS = {"gammainc": scipy.special.gammainc, "gammaincc": scipy.special.gammaincc}

#: a, x, P and Q.
DIGITS = [
    # SciPy 1.17 has 1.2797e-06 here.
    (7074444.966898052, 7061952.583478418, 1.3045695004382651e-06, 1 - 1.3045695004382651e-06),
    (1e-06, 1.4, 0.9999998837805387, 1.162194612888669e-07),
    (0.015, 0.5, 0.9915384572773788, 0.008461542722621283),
    (0.3, 1e-05, 0.03523536061556258, 0.9647646393844375),
    (1.5, 1.2, 0.506365377288272, 0.49363462271172803),
    (1.5, 30.0, 0.9999999999994121, 5.878230727906912e-13),
    (19.5, 42.0, 0.9999614125555809, 3.858744441908907e-05),
    (25.0, 8.0, 1.172193727780341e-06, 0.9999988278062723),
    (50.0, 75.0, 0.9990960679576459, 0.0009039320423540091),
    (50.0, 30.0, 0.0005188914625480343, 0.999481108537452),
    (400.0, 700.0, 1.0, 2.2298626671578877e-35),
    (10000.0, 10200.0, 0.9767126778664011, 0.023287322133598805),
    (10000.0, 9700.0, 0.001234175584468492, 0.9987658244155315),
]


def drawn(low, high, count=400, seed=0):
    """a over orders of magnitude, and x far from it and near it."""
    rng = np.random.default_rng(seed)
    a = np.exp(rng.uniform(np.log(low), np.log(high), count))
    near = np.abs(a + 3 * np.sqrt(a) * rng.standard_normal(count))
    return a, np.where(rng.random(count) < 0.5, a * np.exp(rng.uniform(-3, 2, count)), near)


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize(
    ("low", "high", "rtol"), [(1e-6, 1, 5e-14), (1, 30, 2e-13), (15, 1e3, 3e-12), (1e3, 2e4, 1e-9)]
)
def test_values_are_those_of_scipy(name, low, high, rtol):
    # SciPy's own error grows with a: it is the larger one of the two beside 40 digits.
    a, x = drawn(low, high)
    found = getattr(pb, name)(a, x).numpy()
    np.testing.assert_allclose(found, PAIRS[name](a, x), rtol=rtol, atol=1e-300)


def test_values_with_many_digits():
    # By mpmath with 40 digits.
    for a, x, low, high in DIGITS:
        np.testing.assert_allclose(pb.gammainc(a, np.float64(x)).item(), low, rtol=2e-13)
        np.testing.assert_allclose(pb.gammaincc(a, np.float64(x)).item(), high, rtol=1e-13)


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_edges(name, dtype):
    values = np.array([0.0, 1.0, 1e-30, 1e30, np.inf, -1.0, np.nan])
    a, x = np.meshgrid(values, values)
    found = getattr(pb, name)(pb.asarray(a, dtype=dtype), pb.asarray(x, dtype=dtype))
    near = {"float64": 1e-12, "float32": 1e-6}.get(dtype, 1e-2)
    rounded = pb.asarray(values, dtype=dtype).astype("float64").numpy()
    expected = PAIRS[name](*np.meshgrid(rounded, rounded))
    np.testing.assert_allclose(found.astype("float64").numpy(), expected, rtol=near, atol=near)


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize(("low", "high"), [(0.05, 3), (3, 60)])
def test_gradients_by_x_to_the_second_order(name, low, high):
    a, x = (pb.asarray(v) for v in drawn(low, high, 30, seed=1))
    op = getattr(pb, name)
    x = pb.maximum(x, 0.5)
    pb.check_gradients(lambda x: pb.sum(op(a, x)), x)
    pb.check_gradients(lambda x: pb.sum(pb.grad(lambda x: pb.sum(op(a, x)))(x)), x)


@pytest.mark.parametrize("name", PAIRS)
def test_the_gradient_by_a_is_an_error_that_says_so(name):
    op = getattr(pb, name)
    with pytest.raises(pb.errors.NotDifferentiableError, match="gradient by x alone"):
        pb.grad(lambda a: op(a, 2.0))(pb.asarray(1.5))
    slope = pb.grad(lambda x: op(pb.stop_gradient(x), x))(pb.asarray(1.5))
    assert abs(slope.item()) == pytest.approx(1.5**0.5 * np.exp(-1.5) / scipy.special.gamma(1.5))


def test_the_slope_of_the_density_by_a():
    a, x = (pb.asarray(v) for v in drawn(0.3, 40, 30, seed=2))
    pb.check_gradients(lambda a, x: pb.sum(pb.ops.gamma_density(a, x)), a, pb.maximum(x, 0.1))


def test_transforms():
    a, x = (pb.asarray(v) for v in drawn(0.1, 50, 12))
    expected = scipy.special.gammainc(a.numpy(), x.numpy())
    np.testing.assert_allclose(pb.vmap(pb.gammainc)(a, x).numpy(), expected, rtol=1e-11)
    np.testing.assert_allclose(pb.function(pb.gammainc)(a, x).numpy(), expected, rtol=1e-11)
    assert pb.eval_shape(pb.gammaincc, pb.ones((3, 1)), pb.ones(4)) == pb.TensorSpec(
        (3, 4), "float32"
    )
