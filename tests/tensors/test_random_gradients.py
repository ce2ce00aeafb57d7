"""Gradients of random numbers by the parameters of their distribution."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special

import pullback as pb
from pullback._distributions import _quantile_slope

CONCENTRATIONS = [1e-3, 0.05, 0.5, 1.0, 2.0, 19.5, 30.0, 3000.0]
COUNT = 20_000
#: alpha, x, and the derivative of the quantile x by alpha.
SLOPES = [
    (0.001, 1e-200, 4.599414466669988e-195),
    (0.001, 1e-17, 3.856837464908848e-13),
    (0.001, 0.5, 461.99216718924004),
    (0.05, 1e-30, 1.3715941559704301e-27),
    (0.05, 2.5, 16.649949173506513),
    (0.5, 0.58, 1.4441471195217381),
    (1, 1e-05, 0.00011935771978830515),
    (1, 3, 1.937911693824961),
    (2, 1.5, 0.9366390678772174),
    (2, 15, 2.5084649423444865),
    (19.9, 21, 1.0357874108933192),
    (30, 11, 0.583985809311205),
    (30, 29, 0.9886242460490694),
    (30, 70, 1.4908527076747715),
    (3000, 2900, 0.9831996174581251),
    (3000, 3100, 1.0165409787630846),
]


def drawn(alpha, count=200, **arguments):
    return pb.Generator(5).gamma((count,), alpha, dtype="float64", **arguments)


def probabilities(alpha, x):
    return scipy.special.gammainc(alpha, x), scipy.special.gammaincc(alpha, x)


def quantiles(alpha, numbers, shift):
    """The numbers that have the probability of the given ones, at another alpha."""
    low, high = probabilities(alpha, numbers)
    inverse, inverse_of_high = scipy.special.gammaincinv, scipy.special.gammainccinv
    return np.where(low < 0.5, inverse(alpha + shift, low), inverse_of_high(alpha + shift, high))


@pytest.mark.parametrize("alpha", CONCENTRATIONS)
@pytest.mark.parametrize("order", [1, 2])
def test_numbers_of_gamma_follow_their_quantile(alpha, order):
    def slope(a):
        return pb.grad(lambda a: pb.sum(drawn(a)))(a)

    given = pb.asarray(np.full(200, alpha))
    numbers = drawn(given).numpy()
    found = slope(given) if order == 1 else pb.grad(lambda a: pb.sum(slope(a)))(given)

    def difference(step):
        above, below = quantiles(alpha, numbers, step), quantiles(alpha, numbers, -step)
        if order == 1:
            return (above - below) / (2 * step)
        return (above - 2 * quantiles(alpha, numbers, 0.0) + below) / step**2

    step = alpha * (1e-4 if order == 1 else 2e-3)
    expected = difference(step)
    # What a difference leaves out falls to a quarter with half of the step. Of the errors of the
    # probability it has 1 / step**order: SciPy 1.17's are up to 140 eps beside 40 digits.
    left_out = np.abs(difference(2 * step) - expected)
    is_known = numbers > 1e-290
    x = np.where(is_known, numbers, 1)
    slope = np.exp((alpha - 1) * np.log(x) - x - scipy.special.gammaln(alpha))
    rounding = 200 * np.finfo(float).eps * np.minimum(*probabilities(alpha, x)) / slope
    rounding = (rounding + 4 * np.finfo(float).eps * x) / step**order
    error = np.abs(found.numpy() - expected)
    assert (error <= left_out + rounding)[is_known].all()
    assert is_known.sum() > (50 if alpha < 0.01 else 198)
    assert np.isfinite(found.numpy()).all()


def test_slopes_with_many_digits():
    # -F_a / F_x by mpmath with 60 digits.
    for alpha, x, expected in SLOPES:
        log_x = pb.log(pb.asarray(np.float64(x)))
        found = x * _quantile_slope(pb.asarray(np.float64(alpha)), log_x).item()
        assert found == pytest.approx(expected, rel=4e-13)


def near(gradients, expected):
    """Returns whether a mean is within five standard errors of what is expected."""
    gradients = np.asarray(gradients)
    spread = gradients.std() / np.sqrt(gradients.size)
    return abs(gradients.mean() - expected) <= 5 * spread and spread < 0.2 * abs(expected)


@pytest.mark.parametrize("alpha", [0.05, 0.5, 2.0, 30.0])
def test_means_of_gradients_are_gradients_of_means(alpha):
    given = pb.asarray(np.full(COUNT, alpha))

    def slope(f):
        return pb.grad(lambda a: pb.sum(f(drawn(a, COUNT))))(given).numpy()

    assert near(slope(lambda x: x), 1)
    assert near(slope(lambda x: x * x), 2 * alpha + 1)
    if alpha >= 0.5:
        assert near(slope(pb.log), scipy.special.polygamma(1, alpha))


@pytest.mark.parametrize(("alpha", "beta"), [(0.02, 0.05), (0.7, 3.0), (2.0, 2.0), (40.0, 9.0)])
def test_beta_and_dirichlet(alpha, beta):
    total = (alpha + beta) ** 2

    def of_beta(a, b):
        return pb.sum(pb.Generator(7).beta((COUNT,), a, b, dtype="float64"))

    def of_dirichlet(a):
        return pb.sum(pb.Generator(7).dirichlet(a, dtype="float64")[:, 0])

    each = [pb.asarray(np.full(COUNT, value)) for value in (alpha, beta)]
    by_alpha, by_beta = pb.grad(of_beta, argnums=(0, 1))(*each)
    assert near(by_alpha.numpy(), beta / total)
    assert near(by_beta.numpy(), -alpha / total)
    both = pb.grad(of_dirichlet)(pb.stack(each, axis=-1)).numpy()
    assert near(both[:, 0], beta / total)
    assert near(both[:, 1], -alpha / total)


def test_what_is_made_of_gamma():
    freedom = pb.asarray(np.full(COUNT, 12.0))
    noise = pb.Generator(3).normal((COUNT,), dtype="float64")

    def chi_square(n):
        return pb.sum(2 * drawn(n / 2, COUNT))

    def student(n):
        return pb.sum(noise**2 / (drawn(n / 2, COUNT) / (n / 2)))

    assert near(pb.grad(chi_square)(freedom).numpy(), 1)
    # The variance n / (n - 2).
    assert near(pb.grad(student)(freedom).numpy(), -2 / 10**2)


def test_probabilities_that_are_too_small_for_a_float_have_gradients():
    given = pb.asarray(np.full((1000, 3), 1e-3, np.float32))

    def first(a):
        return pb.Generator(1).dirichlet(a)[:, 0]

    assert (drawn(1e-3, 1000).numpy() == 0).any()
    found = pb.grad(lambda a: pb.sum(first(a)))(given).numpy()
    assert np.isfinite(found).all()
    assert found.any()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_dtypes_and_shapes(dtype):
    v = pb.Variable(pb.asarray([[0.5], [2.0]], dtype=dtype))
    scale = pb.asarray(3.0, dtype=dtype)
    with pb.GradientTape() as tape:
        tape.watch(scale)
        plain = pb.Generator(2).gamma((2, 7), v, dtype=dtype)
        numbers = pb.Generator(2).gamma((2, 7), v, scale, dtype=dtype)
        total = pb.sum(numbers)
    by_alpha, by_scale = tape.gradient(total, [v, scale])
    exactly = plain.astype("float64").numpy()
    alpha = np.array([[0.5], [2.0]])
    step = 1e-5
    slopes = quantiles(alpha, exactly, step) - quantiles(alpha, exactly, -step)
    expected = 3 * np.sum(slopes, axis=1, keepdims=True) / (2 * step)
    eps = {"float16": 2**-10, "bfloat16": 2**-7, "float32": 2**-23, "float64": 1e-9}[dtype]
    # A number, its slope, two products and a sum of seven.
    np.testing.assert_allclose(by_alpha.astype("float64").numpy(), expected, rtol=12 * eps)
    assert by_alpha.dtype == v.dtype
    assert by_scale.astype("float64").item() == pytest.approx(exactly.sum(), rel=12 * eps)


def test_a_tape_changes_no_numbers():
    alpha = pb.asarray([0.3, 1.0, 5.0])
    draws = (
        lambda a: pb.Generator(4).gamma((9, 3), a),
        lambda a: pb.Generator(4).beta((9, 3), a, 2.0),
        lambda a: pb.Generator(4).dirichlet(a, (9,)),
    )
    for draw in draws:
        with pb.GradientTape() as tape:
            tape.watch(alpha)
            recorded = draw(alpha)
        assert recorded.numpy().tobytes() == draw(alpha).numpy().tobytes()


def test_a_third_derivative_is_an_error_that_names_the_numbers():
    def f(a):
        return pb.Generator(1).gamma((), a)

    with pytest.raises(pb.errors.NotDifferentiableError, match=r"random\.gamma.*no third"):
        pb.grad(pb.grad(pb.grad(f)))(pb.asarray(2.0))


@pytest.mark.parametrize("p", [0.2, 0.7])
def test_integers_have_no_gradient(p):
    draws = (
        lambda x: pb.Generator(1).poisson((3,), x, dtype="float32"),
        lambda x: pb.Generator(1).binomial((3,), x, p, dtype="float32"),
        lambda x: pb.Generator(1).binomial((3,), 20, p * x / 20, dtype="float32"),
    )
    x = pb.asarray([7.0, 17.0, 300.0])
    for draw in draws[:2]:
        assert not pb.grad(lambda x, draw=draw: pb.sum(draw(x)) + 0 * pb.sum(x))(x).numpy().any()
    x = x[:2]
    assert not pb.grad(lambda x: pb.sum(draws[2](x[0])) + 0 * pb.sum(x))(x).numpy().any()
