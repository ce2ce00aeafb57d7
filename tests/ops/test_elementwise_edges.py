"""Elementwise ops where it gets narrow: signed zeros, infinities, ties, kinks, the whole range."""

import math

import ml_dtypes
import numpy as np
import pytest

import pullback as pb
from pullback import errors

inf, nan = math.inf, math.nan
FLOATS = ["float16", "bfloat16", "float32", "float64"]


def same(tensor, expected):
    """Equal as numbers, NaN to NaN, and in the sign of zero."""
    found = tensor.numpy().astype(np.float64)
    expected = np.asarray(expected, np.float64)
    np.testing.assert_array_equal(found, expected)
    known = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found)[known], np.signbit(expected)[known])


def derivatives(function, *points):
    """The value, and first and second derivatives with respect to each of 0-d points."""
    xs = [pb.asarray(np.float64(point)) for point in points]
    with pb.GradientTape(persistent=True) as outer:
        outer.watch(xs)
        with pb.GradientTape() as inner:
            inner.watch(xs)
            y = function(*xs)
        firsts = inner.gradient(y, xs, unconnected_gradients="zero")
    seconds = [
        outer.gradient(first, xs, unconnected_gradients="zero") if first._node else [0.0] * len(xs)
        for first in firsts
    ]
    return float(y), [float(g) for g in firsts], [[float(h) for h in row] for row in seconds]


# Quotients ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    ("x1", "x2", "quotient", "rest"),
    [
        (7.0, 2.0, 3.0, 1.0),
        (-7.0, 2.0, -4.0, 1.0),
        (7.0, -2.0, -4.0, -1.0),
        (-7.0, -2.0, 3.0, -1.0),
        (0.0, 3.0, 0.0, 0.0),
        (-0.0, 3.0, -0.0, 0.0),
        (0.0, -3.0, -0.0, -0.0),
        (-0.0, -3.0, 0.0, -0.0),
        (0.0, 0.0, nan, nan),
        (1.0, 0.0, inf, nan),
        (1.0, -0.0, -inf, nan),
        (-1.0, 0.0, -inf, nan),
        (-1.0, -0.0, inf, nan),
        (inf, 2.0, inf, nan),
        (inf, -2.0, -inf, nan),
        (-inf, 2.0, -inf, nan),
        (-inf, -2.0, inf, nan),
        (inf, inf, nan, nan),
        (2.0, inf, 0.0, 2.0),
        (2.0, -inf, -0.0, -inf),
        (-2.0, inf, -0.0, inf),
        (-2.0, -inf, 0.0, -2.0),
        (nan, 1.0, nan, nan),
        (1.0, nan, nan, nan),
    ],
)
def test_floor_divide_and_remainder(dtype, x1, x2, quotient, rest):
    a, b = pb.asarray([x1], dtype=dtype), pb.asarray([x2], dtype=dtype)
    same(a // b, [quotient])
    same(a % b, [rest])
    assert (a // b).dtype == dtype


def test_floor_divide_and_remainder_of_integers():
    a, b = pb.asarray([7, -7, 7, -7, 5]), pb.asarray([2, 2, -2, -2, 0])
    assert (a // b).tolist() == [3, -4, -4, 3, 0]
    assert (a % b).tolist() == [1, 1, -1, -1, 0]
    assert (a // 2).dtype == pb.int32


# Powers -------------------------------------------------------------------------------------------


def test_powers_of_integers():
    assert (pb.asarray([2, -3, 0]) ** pb.asarray([3, 3, 0])).tolist() == [8, -27, 1]
    with pytest.raises(errors.InputValueError, match=r"pow.*negative.*astype"):
        pb.asarray([2, 3]) ** -1
    assert (pb.asarray([2, 4]) ** -1.0).tolist() == [0.5, 0.25]
    assert (2 ** pb.asarray([1, 2])).dtype == pb.int32


@pytest.mark.parametrize(
    ("x", "y", "first"),
    [
        (0.0, 0.0, (0.0, 0.0)),
        (0.0, 1.0, (1.0, 0.0)),
        (0.0, 2.0, (0.0, 0.0)),
        (0.0, 3.5, (0.0, 0.0)),
        (inf, 0.0, (0.0, inf)),
        (3.0, 0.0, (0.0, math.log(3.0))),
        (2.0, 3.0, (12.0, 8 * math.log(2.0))),
    ],
)
def test_gradients_of_pow(x, y, first):
    _, (dx, dy), _ = derivatives(pb.pow, x, y)
    assert (dx, dy) == pytest.approx(first)


def test_second_derivatives_of_pow_at_0_are_no_nan():
    for exponent, second in ((0, 0.0), (1, 0.0), (2, 2.0), (3, 0.0)):
        assert derivatives(lambda x, n=exponent: x**n, 0.0)[2] == [[second]]
    _, _, ((xx, xy), (yx, yy)) = derivatives(pb.pow, 2.0, 0.0)
    assert (xx, yy) == pytest.approx((0.0, math.log(2) ** 2))
    assert xy == yx == pytest.approx(0.5)


# Kinks, ties and singular points ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "points", "first"),
    [
        (pb.abs, (0.0,), (0.0,)),
        (pb.sign, (0.0,), (0.0,)),
        (pb.maximum, (1.0, 1.0), (0.5, 0.5)),
        (pb.minimum, (1.0, 1.0), (0.5, 0.5)),
        (pb.maximum, (2.0, 1.0), (1.0, 0.0)),
        (pb.minimum, (-inf, inf), (1.0, 0.0)),
        (pb.hypot, (0.0, 0.0), (0.0, 0.0)),
        (pb.hypot, (0.0, 2.0), (0.0, 1.0)),
        (pb.hypot, (inf, 2.0), (1.0, 0.0)),
        (pb.hypot, (3e200, 4e200), (0.6, 0.8)),
        (pb.atan2, (0.0, 0.0), (0.0, 0.0)),
        (pb.atan2, (1.0, inf), (0.0, 0.0)),
        (pb.atan2, (3e200, 4e200), (1.6e-201, -1.2e-201)),
        (pb.logaddexp, (-inf, -inf), (0.0, 0.0)),
        (pb.logaddexp, (inf, inf), (0.5, 0.5)),
        (pb.logaddexp, (inf, 1.0), (1.0, 0.0)),
        (pb.logaddexp, (-inf, 1.0), (0.0, 1.0)),
        (pb.logaddexp, (1.0, 1.0), (0.5, 0.5)),
        (pb.logaddexp, (1000.0, -1000.0), (1.0, 0.0)),
        (pb.copysign, (2.0, -1.0), (-1.0, 0.0)),
        (pb.copysign, (0.0, 1.0), (0.0, 0.0)),
        (pb.remainder, (7.0, 2.0), (1.0, -3.0)),
        (pb.remainder, (7.0, inf), (1.0, 0.0)),
        (pb.floor_divide, (7.0, 2.0), (0.0, 0.0)),
        (pb.xlogy, (0.0, 0.0), (0.0, 0.0)),
        (pb.xlogy, (0.0, 0.5), (math.log(0.5), 0.0)),
        (pb.floor, (1.5,), (0.0,)),
        (pb.round, (1.5,), (0.0,)),
        (pb.trunc, (-1.5,), (0.0,)),
        (pb.ceil, (1.5,), (0.0,)),
        (pb.atan, (1e200,), (0.0,)),
        (pb.atan, (inf,), (0.0,)),
        (pb.asinh, (1e200,), (1e-200,)),
        (pb.acosh, (1e200,), (1e-200,)),
        (pb.acosh, (inf,), (0.0,)),
        (pb.tanh, (1e3,), (0.0,)),
        (pb.erf, (inf,), (0.0,)),
        (pb.erfc, (-inf,), (0.0,)),
    ],
)
def test_gradients_at_singular_points(function, points, first):
    _, firsts, seconds = derivatives(function, *points)
    assert firsts == pytest.approx(list(first), rel=1e-12)
    assert not np.isnan(seconds).any()


@pytest.mark.parametrize(
    ("function", "point"),
    [
        (pb.sqrt, 0.0),
        (pb.log, 0.0),
        (pb.log2, 0.0),
        (pb.log10, 0.0),
        (pb.log1p, -1.0),
        (pb.asin, 1.0),
        (pb.acos, -1.0),
        (pb.acosh, 1.0),
        (pb.atanh, -1.0),
        (pb.erfinv, 1.0),
    ],
)
def test_infinite_slopes_pass_nothing_on_where_nothing_comes_in(function, point):
    _, firsts, _ = derivatives(function, point)
    assert math.isinf(firsts[0])
    _, firsts, seconds = derivatives(lambda x: 0.0 * function(x), point)
    if function(point) == function(point) and math.isfinite(float(function(point))):
        assert firsts == [0.0]
        assert seconds == [[0.0]]
    x = pb.asarray([point, 0.5])
    with pb.GradientTape() as tape:
        tape.watch(x)
        y = pb.where(pb.asarray([False, True]), function(x), 0)
    gradient = tape.gradient(y, x)
    assert gradient.tolist()[0] == 0


def test_the_slope_of_sqrt_is_infinite_at_0():
    assert derivatives(pb.sqrt, 0.0)[1] == [inf]


def test_where_keeps_nan_of_the_other_side_out():
    x = pb.asarray([-1.0, 4.0])
    with pb.GradientTape() as tape:
        tape.watch(x)
        safe = pb.where(x > 0, x, 1)
        y = pb.where(x > 0, pb.log(safe), 0)
    assert tape.gradient(y, x).tolist() == [0.0, 0.25]


@pytest.mark.parametrize(
    ("x", "low", "high", "slopes"),
    [
        (0.5, 0.0, 1.0, (1.0, 0.0, 0.0)),
        (0.0, 0.0, 1.0, (1.0, 0.0, 0.0)),
        (1.0, 0.0, 1.0, (1.0, 0.0, 0.0)),
        (-1.0, 0.0, 1.0, (0.0, 1.0, 0.0)),
        (2.0, 0.0, 1.0, (0.0, 0.0, 1.0)),
        (0.5, 1.0, 0.0, (0.0, 0.0, 1.0)),
    ],
)
def test_gradients_of_clip(x, low, high, slopes):
    assert derivatives(pb.clip, x, low, high)[1] == list(slopes)


def test_clip():
    x = pb.asarray([-5, 0, 5])
    assert pb.clip(x).tolist() == [-5, 0, 5]
    assert pb.clip(x, -1).tolist() == [-1, 0, 5]
    assert pb.clip(x, max=2).tolist() == [-5, 0, 2]
    mixed = pb.clip(x, -0.5, pb.asarray(1.5))
    assert mixed.dtype == pb.float32
    assert mixed.tolist() == [-0.5, 0.0, 1.5]
    assert pb.clip(x, 3, 1).tolist() == [1, 1, 1]
    same(pb.clip(pb.asarray([nan, 1.0, 1.0]), [0.0, nan, 0.0], [2.0, 2.0, nan]), [nan] * 3)


def test_a_tensor_and_its_positive_are_two_handles():
    x = pb.asarray([1.0, 2.0])
    y = +x
    y[0] = 5.0
    assert x.tolist() == [1.0, 2.0]
    z = pb.clip(x)
    z[0] = 5.0
    assert x.tolist() == [1.0, 2.0]


# Signs --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS)
def test_signs(dtype):
    x = pb.asarray([0.0, -0.0, 2.0, -2.0, inf, -inf, nan], dtype=dtype)
    assert pb.signbit(x).tolist()[:6] == [False, True, False, True, False, True]
    same(pb.sign(x), [0.0, 0.0, 1.0, -1.0, 1.0, -1.0, nan])
    same(pb.copysign(x, -1.0)[:6], [-0.0, -0.0, -2.0, -2.0, -inf, -inf])
    same(pb.copysign(3.0, x)[:6], [3.0, -3.0, 3.0, -3.0, 3.0, -3.0])
    same(pb.abs(x), [0.0, 0.0, 2.0, 2.0, inf, inf, nan])


def test_sign_and_size_of_complex_numbers():
    z = pb.asarray([3 + 4j, 0j, -2j])
    np.testing.assert_allclose(pb.sign(z).numpy(), [0.6 + 0.8j, 0, -1j], rtol=1e-6)
    assert pb.abs(z).dtype == pb.float32
    assert pb.abs(pb.asarray([3e30 + 4e30j])).tolist() == pytest.approx([5e30])
    assert pb.abs(pb.asarray([3 + 4j], dtype=pb.complex128)).dtype == pb.float64


def test_the_gradient_of_the_modulus_is_0_at_0():
    z = pb.asarray([0j, 3 + 4j], dtype=pb.complex128)
    with pb.GradientTape() as outer:
        outer.watch(z)
        with pb.GradientTape() as inner:
            inner.watch(z)
            y = pb.abs(z)
        first = inner.gradient(y, z)
        y = pb.sum(pb.real(first))
    np.testing.assert_allclose(first.numpy(), [0, 0.6 + 0.8j])
    assert np.isfinite(outer.gradient(y, z).numpy()).all()


@pytest.mark.parametrize("dtype", FLOATS)
def test_nextafter(dtype):
    info = ml_dtypes.finfo(dtype)
    one = pb.asarray([1.0, 1.0, 0.0, 2.0], dtype=dtype)
    found = pb.nextafter(one, pb.asarray([2.0, 0.0, 1.0, 2.0], dtype=dtype)).numpy()
    expected = [1 + info.eps, 1 - info.epsneg, info.smallest_subnormal, 2.0]
    np.testing.assert_array_equal(found.astype(np.float64), np.array(expected, np.float64))


# Extremes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS)
def test_nan_is_the_largest_and_the_smallest(dtype):
    a = pb.asarray([nan, 1.0, inf, -inf], dtype=dtype)
    b = pb.asarray([1.0, nan, 1.0, 1.0], dtype=dtype)
    same(pb.maximum(a, b), [nan, nan, inf, 1.0])
    same(pb.minimum(a, b), [nan, nan, 1.0, -inf])


@pytest.mark.parametrize("dtype", FLOATS)
def test_halves_round_to_even(dtype):
    x = pb.asarray([-2.5, -1.5, -0.5, -0.0, 0.5, 1.5, 2.5, inf, nan], dtype=dtype)
    same(pb.round(x), [-2.0, -2.0, -0.0, -0.0, 0.0, 2.0, 2.0, inf, nan])
    same(pb.ceil(x), [-2.0, -1.0, -0.0, -0.0, 1.0, 2.0, 3.0, inf, nan])
    same(pb.trunc(x), [-2.0, -1.0, -0.0, -0.0, 0.0, 1.0, 2.0, inf, nan])
    same(pb.floor(x), [-3.0, -2.0, -1.0, -0.0, 0.0, 1.0, 2.0, inf, nan])


def test_rounding_of_complex_numbers_and_integers():
    assert pb.round(pb.asarray([0.5 - 1.5j])).tolist() == [-2j]
    for function in (pb.floor, pb.ceil, pb.trunc, pb.round):
        assert function(pb.asarray([1, -2])).dtype == pb.int32


def test_hypot_and_abs_do_not_overflow():
    x = pb.asarray([3e37, 3e-38, 0.0, inf, nan])
    y = pb.asarray([4e37, 4e-38, -0.0, nan, inf])
    np.testing.assert_allclose(pb.hypot(x, y).numpy(), [5e37, 5e-38, 0.0, inf, inf], rtol=1e-6)


def test_logaddexp_of_extremes():
    x = pb.asarray([1e4, -1e4, inf, -inf, -inf, inf, nan])
    y = pb.asarray([1e4, -1e4, inf, -inf, 3.0, -inf, 0.0])
    expected = [1e4 + math.log(2), -1e4 + math.log(2), inf, -inf, 3.0, inf, nan]
    np.testing.assert_allclose(pb.logaddexp(x, y).numpy(), expected, rtol=1e-6)


def test_inverse_hyperbolic_functions_far_out():
    x = pb.asarray([-3000.0, 3000.0, 1e30, -1e-30])
    few = 4 * np.finfo(np.float32).eps  # the class of asinh
    np.testing.assert_allclose(
        pb.asinh(x).numpy(), np.arcsinh(x.numpy().astype(np.float64)), rtol=few
    )


# Dtypes -------------------------------------------------------------------------------------------


def test_integers_are_lifted_to_float32():
    for dtype in (pb.int8, pb.int32, pb.int64, pb.uint16):
        assert pb.exp(pb.asarray([1], dtype=dtype)).dtype == pb.float32
        assert pb.atan2(pb.asarray([1], dtype=dtype), 2).dtype == pb.float32


@pytest.mark.parametrize("name", ["add", "subtract", "pow", "floor_divide"])
def test_arithmetic_of_truth_values_raises(name):
    flag = pb.asarray([True, False])
    function = getattr(pb, name)
    with pytest.raises(errors.DTypeError, match=name):
        function(flag, flag)
    assert function(flag, pb.asarray([1.0, 2.0])).dtype == pb.float32
    assert function(flag, 2).dtype == pb.int32


@pytest.mark.parametrize("seed", range(5))
def test_a_product_of_booleans_is_true_where_both_are(seed):
    rng = np.random.default_rng(seed)
    a, b = rng.random((4, 1, 3)) < 0.5, rng.random((5, 3)) < 0.5
    x, y = pb.asarray(a), pb.asarray(b)
    expected = np.logical_and(a, b).tolist()
    both = pb.function(lambda x, y: (x * y, x * x, x * True))
    for found in (x * y, pb.multiply(x, y), pb.vmap(lambda row: row * y)(x), both(x, y)[0]):
        assert (found.dtype, found.tolist()) == (pb.bool, expected)
    assert [part.tolist() for part in both(x, y)[1:]] == [a.tolist()] * 2
    x *= False
    assert (x.dtype, x.tolist()) == (pb.bool, np.zeros_like(a).tolist())
    assert pb.eval_shape(pb.multiply, y, y) == pb.TensorSpec((5, 3), "bool")


def test_a_product_of_masks_selects_what_has_gradients():
    x = pb.asarray([1.0, 2.0, 3.0, 4.0])
    slopes = pb.grad(lambda x: pb.sum(pb.where((x > 1) * (x < 4), x * x, 0)))(x)
    assert slopes.tolist() == [0.0, 4.0, 6.0, 0.0]


@pytest.mark.parametrize(("name", "found"), [("maximum", [1, 1, 1, 0]), ("minimum", [1, 0, 0, 0])])
def test_truth_values_have_an_order(name, found):
    x1, x2 = pb.asarray([True, True, False, False]), pb.asarray([True, False, True, False])
    function = getattr(pb, name)
    assert function(x1, x2).dtype == pb.bool
    assert function(x1, x2).tolist() == [bool(one) for one in found]
    assert function(x1, 2).dtype == pb.int32


@pytest.mark.parametrize("dtype", FLOATS)
def test_python_numbers_are_weak(dtype):
    x = pb.asarray([1.0, 2.0], dtype=dtype)
    for y in (x**2, 2**x, x // 2, x % 0.5, pb.maximum(x, 0), pb.where(x > 1, x, 0), pb.hypot(x, 1)):
        assert y.dtype == dtype


def test_where_promotes_its_values_only():
    condition = pb.asarray([1, 0])
    assert pb.where(condition, pb.asarray([1, 2], dtype=pb.int8), 3).dtype == pb.int8
    assert pb.where(condition, pb.asarray([1, 2]), 0.5).dtype == pb.float32
    assert pb.where(condition, 1, 2).dtype == pb.int32
    assert pb.where(True, 1.0, 2).tolist() == 1.0


@pytest.mark.parametrize("dtype", [*FLOATS, "bool", "int8", "int64", "complex64", "complex128"])
def test_where_of_many_values(dtype):
    rng = np.random.default_rng(0)
    condition = rng.random((70, 80)) < 0.5
    x1, x2 = (pb.asarray(rng.integers(-9, 9, (70, 80)), dtype=dtype).numpy() for _ in "12")
    for a, b in ((x1, x2), (x1.T.copy().T, x2[:, ::-1]), (x1[0], x2[:, :1]), (x1, x2[0, 0])):
        found = pb.where(condition, a, b).numpy()
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, np.where(condition, a, b))
    np.testing.assert_array_equal(
        pb.where(condition[0], x1, x2).numpy()[:, 5], (x1, x2)[not condition[0, 5]][:, 5]
    )


def test_comparisons_of_mixed_numbers():
    assert (pb.asarray([1, 2, 3]) < pb.asarray([1.5, 1.5, 3.5])).tolist() == [True, False, True]
    assert (pb.asarray([1, 2]) == 2.0).tolist() == [False, True]
    assert not pb.isnan(pb.asarray([1, 2])).numpy().any()
    assert pb.isfinite(pb.asarray([1, 2])).numpy().all()
    same(pb.asarray([nan, 0.0]) == pb.asarray([nan, -0.0]), [False, True])


def test_truth_of_numbers():
    x = pb.asarray([0.0, -0.0, 2.0, nan])
    assert pb.logical_not(x).tolist() == [True, True, False, False]
    assert pb.logical_and(x, True).dtype == pb.bool
    assert pb.logical_xor(x, pb.asarray([1, 0, 1, 0])).tolist() == [True, False, False, True]


def test_shifts():
    x = pb.asarray([1, -8], dtype=pb.int8)
    assert (x << 2).tolist() == [4, -32]
    assert (x >> 1).tolist() == [0, -4]
    assert (x << 7).tolist() == [-128, 0]
    assert (~pb.asarray([True, False])).tolist() == [False, True]


def test_infinite_parts_stay_apart():
    z = pb.complex([inf, 1.0, -0.0], [1.0, -inf, nan])
    assert pb.real(z).tolist() == [inf, 1.0, 0.0]
    same(pb.imag(z), [1.0, -inf, nan])
    same(pb.imag(pb.conj(z)), [-1.0, inf, nan])
    assert pb.imag(pb.asarray([1.0, 2.0])).tolist() == [0.0, 0.0]
    assert pb.complex(pb.asarray([1], dtype=pb.float16), 2).dtype == pb.complex64


# The whole range ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        *("exp", "expm1", "log", "log1p", "log2", "log10", "sqrt", "erf"),
        *("sin", "cos", "tan", "asin", "acos", "atan"),
        *("sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
    ],
)
def test_float32_over_its_whole_range(name):
    bits = np.random.default_rng(0).integers(0, 2**32, 20000, dtype=np.uint64).astype(np.uint32)
    x = np.concatenate([bits.view(np.float32), np.linspace(-20, 20, 4001, dtype=np.float32)])
    x = x[np.isfinite(x)]
    wide = pb.asarray(x.astype(np.float64))
    function = getattr(pb, name)
    found, expected = function(pb.asarray(x)).numpy(), function(wide).numpy()
    with np.errstate(all="ignore"):
        rounded = expected.astype(np.float32)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(rounded))
    finite = np.isfinite(rounded)
    unit = np.spacing(np.abs(rounded[finite])).astype(np.float64)
    assert np.max(np.abs(found[finite] - expected[finite]) / unit) < 4.5
