"""Elementwise ops and reductions from the smallest subnormal to the largest number.

Each result, of the kernel and of a composite's body, is compared with the reference of the op's
conformance suite, computed in float64 (in extended precision for float64), and must be as near as
the op's class of accuracy says.
"""

import math
import warnings
from fractions import Fraction

import numpy as np
import pytest

import pullback as pb
from pullback.devices import as_device
from pullback.spec import OPS
from pullback_conformance import checks
from pullback_conformance.accuracy import EXTENDED
from pullback_conformance.case import Case
from pullback_conformance.sample import Sample
from pullback_conformance.samples import load

SUITES = load()
CPU = as_device("cpu")
DTYPES = ["float32", "float64"] if EXTENDED else ["float32"]

UNARY = [
    *("abs", "negative", "positive", "reciprocal", "sign", "square", "sqrt"),
    *("exp", "exp2", "expm1", "log", "log10", "log1p", "log2", "cbrt", "frexp"),
    *("sin", "cos", "tan", "asin", "acos", "atan"),
    *("sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
    *("ceil", "floor", "trunc", "round", "signbit", "isnan", "isinf", "isfinite"),
    *("erf", "erfc", "erfinv"),
    *("relu", "relu6", "hard_tanh", "hard_sigmoid", "hard_silu", "leaky_relu", "elu", "celu"),
    *("selu", "sigmoid", "softplus", "log_sigmoid", "softsign"),
]
BINARY = [
    *("add", "subtract", "multiply", "divide", "remainder", "fmod", "pow"),
    *("maximum", "minimum", "hypot", "atan2", "logaddexp", "logaddexp2", "copysign", "heaviside"),
    *("equal", "less", "less_equal", "greater", "greater_equal", "not_equal"),
    *("absolute_error", "squared_error", "huber_loss", "hinge_loss", "log_cosh_loss"),
]


def sizes(dtype, count):
    """Sizes over the whole range of the dtype, subnormal numbers and its limits among them."""
    info = np.finfo(dtype)
    rng = np.random.default_rng(count)
    wide = np.geomspace(float(info.tiny), float(info.max) / 2, count)
    near_one = rng.uniform(0.1, 10, count // 2)
    usual = 10.0 ** rng.uniform(-30, 30, count)
    ends = [info.smallest_subnormal, 3 * info.smallest_subnormal, info.tiny, info.max, info.eps, 1]
    return np.concatenate([wide, near_one, usual, np.asarray(ends, np.float64)]).astype(dtype)


def values(dtype, count):
    """Both signs of `sizes`, zeros, infinities and NaN."""
    found = sizes(dtype, count)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan], dtype)
    return np.concatenate([found, -found, special]).astype(np.float64)


def check(name, dtype, *inputs, **attributes):
    """The op on these inputs is as near to its reference as its class of accuracy says."""
    sample = Sample(tuple(inputs), attributes, gradient=False)
    case = Case(OPS[name], SUITES[name], sample, CPU, np.dtype(dtype))
    with warnings.catch_warnings():
        # References are NumPy's and SciPy's, which warn of 1/0.
        warnings.simplefilter("ignore")
        checks.value(case)
        if not case.op.primitive:
            checks.body(case)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", UNARY)
def test_unary(name, dtype):
    check(name, dtype, values(dtype, 400))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", BINARY)
def test_binary(name, dtype):
    x = values(dtype, 24)
    check(name, dtype, x[:, None], x)


@pytest.mark.parametrize("name", ["gelu", "mish", "silu"])
def test_products_with_a_sigmoid(name):
    # A subnormal product has lost digits in its factors.
    x = values("float32", 400)
    check(name, "float32", x[~((x < -80) & (x > -110))])


@pytest.mark.parametrize("name", ["lgamma", "digamma"])
def test_gamma_functions(name):
    # Their references add decimal digits: from 1e-30 to 1e30 only, above 0.
    rng = np.random.default_rng(0)
    check(name, "float32", 10.0 ** rng.uniform(-30, 5, 40))


def test_xlogy():
    x = values("float32", 24)
    check("xlogy", "float32", x[:, None], x[~np.isnan(x)])


def test_floor_divide():
    # Beyond 2**20 the quotient that is rounded down is itself a rounded one.
    x = values("float32", 60)
    x1, x2 = (one.reshape(-1) for one in np.meshgrid(x, x))
    with np.errstate(all="ignore"):
        kept = np.abs(x1 / x2) < 2**20
    check("floor_divide", "float32", x1[kept], x2[kept])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_ldexp(dtype):
    # Exact, or rounded once: Python's integers say what is right, whatever the exponent.
    dtype = pb.asarray(0.0, dtype=dtype).numpy().dtype
    bits = np.random.default_rng(1).integers(0, 2 ** (8 * dtype.itemsize), 4000, dtype=np.uint64)
    x = bits.astype(f"u{dtype.itemsize}").view(dtype)
    with np.errstate(invalid="ignore"):  # NumPy's casts of some NaN
        x = x[np.isfinite(x.astype(np.float64))]
    far = 2200 if dtype.itemsize == 8 else 320
    n = np.random.default_rng(2).integers(-far, far, x.size)
    n[::2] //= 16
    n[::97] *= 2**40
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = np.array([scaled(*pair) for pair in zip(x, n.tolist(), strict=True)]).astype(
            dtype
        )
        for ldexp in (pb.ldexp, pb.ldexp.spec.body):
            found = ldexp(pb.asarray(x), pb.asarray(n)).numpy()
            np.testing.assert_array_equal(found.astype(np.float64), expected.astype(np.float64))
            np.testing.assert_array_equal(np.signbit(found), np.signbit(x))


def scaled(x, n):
    """x * 2**n in float64, from which the 16 and 32 bits are rounded once."""
    exact = Fraction(float(x)) * Fraction(2) ** max(-5000, min(n, 5000))
    try:
        return math.copysign(float(exact), float(x))
    except OverflowError:
        return math.copysign(math.inf, float(x))


def test_cross_entropy_of_wide_logits():
    x = values("float32", 60)
    labels = np.array([0.0, 1e-30, 0.25, 0.5, 1.0])
    check("sigmoid_cross_entropy_with_logits", "float32", x[np.isfinite(x)][:, None], labels)


def test_a_nan_spoils_nothing_beside_it():
    x = np.array([np.nan, -92.0, -88.0, 3.0], np.float32)
    for name in UNARY:
        op = OPS[name]
        together, alone = op.function(x), op.function(x[1:])
        if len(op.outputs) == 1:
            together, alone = [together], [alone]
        for whole, part in zip(together, alone, strict=True):
            np.testing.assert_array_equal(whole.numpy()[1:], part.numpy(), err_msg=name)


# Reductions -------------------------------------------------------------------------------------


def spread(*shape, low=-30.0, high=30.0, seed=0):
    """Both signs, with sizes from 10**low to 10**high, evenly in their logarithms."""
    rng = np.random.default_rng([seed, *shape])
    return rng.choice([-1.0, 1.0], shape) * 10.0 ** rng.uniform(low, high, shape)


@pytest.mark.parametrize("axis", [0, 1, None])
@pytest.mark.parametrize("name", ["sum", "mean", "max", "min", "logsumexp", "vector_norm"])
def test_reductions(name, axis):
    check(name, "float32", spread(31, 257), axis=axis)
    check(name, "float32", spread(31, 257, low=-45, high=-37), axis=axis)


@pytest.mark.parametrize("name", ["var", "std"])
def test_variance(name):
    check(name, "float32", spread(31, 257, low=-15, high=15), axis=1)
    check(name, "float32", 1e6 + spread(31, 257, low=-3, high=1), axis=1)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@pytest.mark.parametrize("axis", [0, 1])
def test_softmax(name, axis):
    check(name, "float32", spread(31, 257), axis=axis)
    check(name, "float32", spread(31, 257, low=-30, high=1.5), axis=axis)
    check(name, "float32", 1e4 + spread(31, 257, low=-3, high=1), axis=axis)


@pytest.mark.parametrize("name", ["layer_norm", "rms_norm"])
def test_normalization(name):
    x = spread(31, 257, low=-15, high=15)
    check(name, "float32", x, None, None) if name == "layer_norm" else check(
        name, "float32", x, None
    )


def laid(x, layout):
    """The values of x in another order of memory."""
    if layout == "F":
        return np.asfortranarray(x)
    if layout == "turned":
        return x.T
    if layout == "every other":
        return np.repeat(x, 2, axis=-1)[..., ::2]
    return np.flip(x) if layout == "backwards" else x


def near_the_sum(name, x, axis):
    """Within 1e-6 of the sum (mean) of the sizes."""
    found = getattr(pb, name)(pb.asarray(x, copy=False), axis=axis).numpy()
    wide = np.asarray(x, np.float64)
    goal, scale = getattr(wide, name)(axis=axis), getattr(np.abs(wide), name)(axis=axis)
    distance = np.abs(found - goal) / np.where(scale == 0, 1, scale)
    assert found.dtype == np.float32
    assert np.max(distance) < 1e-6, f"{np.max(distance):.3g} of the sum of sizes"


@pytest.mark.parametrize("name", ["sum", "mean"])
@pytest.mark.parametrize("layout", ["C", "F", "turned", "every other", "backwards"])
@pytest.mark.parametrize("shape", [(100, 1000, 3), (3, 100_000), (100_000, 3), (300_000,)])
def test_sums_of_many(name, layout, shape):
    x = laid(np.random.default_rng(0).uniform(0, 1, shape).astype(np.float32), layout)
    for axis in (None, *range(x.ndim)):
        near_the_sum(name, x, axis)
    near_the_sum(name, np.full_like(x, 0.1), 0)


@pytest.mark.parametrize("layout", ["C", "F", "turned", "every other", "backwards"])
def test_sums_of_equal_rows(layout):
    """Added one by one they are rounded to one side: of any number of rows, within the class."""
    rng = np.random.default_rng(1)
    for rows in (2, 16, 33, 63, 64, 65, 100, 128, 129, 200, 300, 511, 700, 1023, 1025, 3000):
        for columns in (1, 2, 3, 9):
            row = rng.uniform(1, 2, columns)
            x = laid(np.broadcast_to(row, (rows, columns)).copy(), layout)
            axis = 1 if layout == "turned" else 0
            exact = rows * np.longdouble(row[::-1] if layout == "backwards" else row)
            found = pb.sum(pb.asarray(x, copy=False), axis=axis).numpy()
            bound = 2 * np.log2(rows * columns) * np.finfo(np.float64).eps
            assert np.all(np.abs(found - exact) <= bound * exact), (rows, columns)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sum", "mean"])
@pytest.mark.parametrize("layout", ["C", "F", "turned", "every other", "backwards"])
@pytest.mark.parametrize(
    "shape", [(10_000_000,), (10_000_000, 1), (2, 5_000_000), (5_000_000, 2), (100, 1000, 100)]
)
def test_sums_of_ten_millions(name, layout, shape):
    x = laid(np.random.default_rng(0).uniform(0, 1, shape).astype(np.float32), layout)
    for axis in (None, *range(x.ndim)):
        near_the_sum(name, x, axis)
