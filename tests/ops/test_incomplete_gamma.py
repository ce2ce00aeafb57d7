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


#: a, x and the derivative of P by a.
SLOPES = [
    (0.001, 0.0001, -8.560635309048715),
    (0.001, 1.2, -0.15877620157062672),
    (0.001, 1.6, -0.08654729389260062),
    (0.001, 30.0, -3.0458488566425612e-15),
    (0.05, 3.0, -0.015620284327717263),
    (0.3, 0.02, -1.287834046396631),
    (0.9, 1.8, -0.24207437087212808),
    (1.5, 1.2, -0.3702955065445884),
    (1.5, 30.0, -1.9971258273873265e-12),
    (4.0, 5.1, -0.15829317442174298),
    (12.0, 3.0, -0.00010343522281419971),
    (19.9, 21.0, -0.08488544924623274),
    (19.9, 60.0, -6.524191146183787e-10),
    (20.0, 9.9, -0.0023681326077225453),
    (20.0, 20.0, -0.08957920553912253),
    (20.0, 30.1, -0.010586645949776183),
    (25.0, 8.0, -1.3778397673677634e-06),
    (50.0, 75.0, -0.00040581341446410603),
    (400.0, 700.0, -1.2579758320802333e-35),
    (400.0, 400.5, -0.019932586564877418),
    (10000.0, 10200.0, -0.00054881723498989),
    (10000.0, 9700.0, -4.1039141078842434e-05),
    (10000.0, 10000.0, -0.003989456049453668),
    (10000.0, 5200.0, -0.0),
]


def test_gradients_by_a_with_many_digits():
    # By mpmath, a difference with 120 digits.
    a, x, expected = np.array(SLOPES).T
    for name, sign in (("gammainc", 1), ("gammaincc", -1)):
        op = getattr(pb, name)
        found = pb.grad(lambda a, op=op: pb.sum(op(a, x)))(pb.asarray(a))
        np.testing.assert_allclose(found.numpy(), sign * expected, rtol=2e-13)


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize(("low", "high"), [(0.05, 3), (3, 60), (60, 2000)])
def test_gradients_by_a_and_the_second_ones(name, low, high):
    a, x = (pb.asarray(v) for v in drawn(low, high, 6, seed=3))
    op = getattr(pb, name)
    x = pb.maximum(x, 0.3)
    pb.check_gradients(lambda a: pb.sum(op(a, x)), a, order=2)
    pb.check_gradients(lambda x: pb.sum(pb.grad(lambda a: pb.sum(op(a, x)))(a)), x, order=1)
    pb.check_gradients(lambda a: pb.sum(pb.grad(lambda x: pb.sum(op(a, x)))(x)), a, order=1)


def test_a_gradient_by_a_at_the_edges():
    def slope(a, x):
        return pb.grad(lambda a: pb.gammainc(a, x))(pb.asarray(np.float64(a))).item()

    # At a = 0 the derivative is that from above, the exponential integral.
    assert slope(0.0, np.float64(0.5)) == pytest.approx(-scipy.special.exp1(0.5), rel=1e-14)
    assert slope(0.0, np.float64(9.0)) == pytest.approx(-scipy.special.exp1(9.0), rel=1e-13)
    assert [slope(2.0, x) for x in (0.0, np.inf)] == [0.0, 0.0]
    assert np.isnan([slope(-1.0, 1.0), slope(2.0, -1.0), slope(np.nan, 1.0)]).all()


@pytest.mark.parametrize("name", PAIRS)
def test_the_third_derivative_by_a_is_an_error_that_says_so(name):
    op = getattr(pb, name)
    second = pb.grad(pb.grad(lambda a: op(a, 2.0)))
    with pytest.raises(pb.errors.NotDifferentiableError, match="no third derivative by a"):
        pb.grad(second)(pb.asarray(1.5))


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
