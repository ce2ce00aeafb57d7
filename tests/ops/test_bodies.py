"""Bodies of elementwise ops, which backends without a kernel run, beside NumPy's functions."""

import warnings
from fractions import Fraction
from math import floor

import numpy as np
import pytest

import pullback as pb
from pullback._dispatch.bodies import run_body
from pullback.spec import OPS

INTEGERS = ["int8", "uint8", "int32", "uint32", "int64", "uint64"]
COMPLEX = {
    "expm1": np.expm1, "log2": np.log2, "log10": np.log10, "tan": np.tan, "asin": np.arcsin,
    "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "abs": np.abs, "round": np.round,
    "log1p": lambda z: np.log(1 + z), "sign": lambda z: z / np.abs(z),
}  # fmt: skip
#: Where a function is cut: both sides of the cut, told apart by the sign of a zero.
CUTS = {
    "asin": [2, -2], "acos": [2, -2], "atanh": [2, -2], "acosh": [0.5, -0.5, -2], "log2": [-2],
    "atan": [2j, -2j], "asinh": [2j, -2j],
}  # fmt: skip


def body(name, *inputs):
    """The result of an op's body; the ops in it run on NumPy."""
    tensors = [pb.asarray(one) for one in inputs]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return run_body(OPS[name], tensors, {}).numpy()


def near(found, expected, eps, ulps):
    distance = np.abs(found - expected) / (np.abs(expected) * eps)
    assert np.max(distance) < ulps, f"{np.max(distance):.3g} ulp"


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", COMPLEX)
def test_of_complex_numbers(name, dtype):
    rng = np.random.default_rng(0)
    parts = rng.normal(size=(2, 4000)) * 10.0 ** rng.uniform(-12, 1.2, (2, 4000))
    z = (parts[0] + 1j * parts[1]).astype(dtype)
    wide = z.astype(np.clongdouble)
    if name == "log1p":  # the reference has lost what is small
        z, wide = z[np.abs(z) > 0.1], wide[np.abs(z) > 0.1]
    with np.errstate(all="ignore"):
        expected = COMPLEX[name](wide)
    known = expected != 0
    near(body(name, z)[known], expected[known], np.finfo(dtype).eps, 4)


@pytest.mark.parametrize("name", CUTS)
def test_on_both_sides_of_a_cut(name):
    points = []
    for point in CUTS[name]:
        on_axis = complex(point)
        for zero in (0.0, -0.0):
            across = complex(zero, on_axis.imag) if on_axis.imag else complex(on_axis.real, zero)
            points.append(across)
    z = np.array(points)
    near(body(name, z), COMPLEX[name](z), np.finfo(np.float64).eps, 4)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_of_integers(dtype):
    info = np.iinfo(dtype)
    x = np.array([info.min, info.min + 1, 0, 1, 7, 100, info.max - 1, info.max], dtype)
    y = x[:, None]
    places = np.arange(info.bits).astype(dtype)
    for name, function in {
        "subtract": np.subtract, "maximum": np.maximum, "minimum": np.minimum,
        "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor, "less_equal": np.less_equal,
    }.items():  # fmt: skip
        np.testing.assert_array_equal(body(name, y, x), function(y, x), err_msg=name)
    for name, function in {
        "abs": np.abs, "sign": np.sign, "bitwise_invert": np.invert, "floor": np.floor,
        "round": np.round,
    }.items():  # fmt: skip
        found = body(name, x)
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, function(x), err_msg=name)
    for name, function in {
        "bitwise_left_shift": np.left_shift, "bitwise_right_shift": np.right_shift
    }.items():  # fmt: skip
        np.testing.assert_array_equal(body(name, y, places), function(y, places), err_msg=name)


def extremes(dtype, size=60):
    """The ends of a floating dtype, zeros, infinities, NaN, and what lies between."""
    info = np.finfo(dtype)
    wide = np.geomspace(float(info.tiny), float(info.max) / 2, size).astype(dtype)
    ends = [0, 0.5, 1.5, 2.5, info.smallest_subnormal, info.max, info.eps, np.inf]
    halves = np.array([0.5, 1, 2]) - np.array([[info.epsneg / 2], [info.epsneg]])
    found = np.concatenate([wide, np.array(ends, dtype), halves.ravel().astype(dtype)])
    return np.concatenate([found, -found, np.array([np.nan], dtype)])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_exact_ones_at_the_extremes(dtype):
    x = extremes(dtype)
    expected = {
        "abs": np.abs, "ceil": np.ceil, "floor": np.floor, "round": np.rint, "trunc": np.trunc,
        "negative": np.negative,
    }  # fmt: skip
    for name, function in expected.items():
        if OPS[name].primitive:
            continue
        found = body(name, x)
        np.testing.assert_array_equal(found, function(x), err_msg=name)
        known = ~np.isnan(x)
        signs = np.signbit(found), np.signbit(function(x))
        np.testing.assert_array_equal(signs[0][known], signs[1][known], err_msg=name)
    for name, function in {"maximum": np.maximum, "minimum": np.minimum}.items():
        np.testing.assert_array_equal(body(name, x[:, None], x), function(x[:, None], x))


def rounded(value, digits):
    """A whole number rounded to so many binary digits, of two equally near ones to the even."""
    size, places = abs(value), abs(value).bit_length() - digits
    if places > 0:
        quotient, rest = divmod(size, 1 << places)
        half = 1 << places - 1
        size = (quotient + (rest > half or (rest == half and quotient & 1))) << places
    return size if value >= 0 else -size


@pytest.mark.parametrize(("dtype", "digits"), [("float32", 24), ("float64", 53)])
def test_floor_divide_is_exact(dtype, digits):
    rng = np.random.default_rng(0)
    count = 3000
    x2 = (rng.uniform(0.5, 1, count) * 2.0 ** rng.integers(-3, 4, count)).astype(dtype)
    whole = np.floor(2.0 ** rng.uniform(0, digits + 4, count))
    near = (whole * x2.astype(np.float64)).astype(dtype)
    below = np.nextafter(near, np.zeros(1, dtype))
    x1, x2 = np.concatenate([near, below, -near, near]), np.concatenate([x2, x2, x2, -x2])
    expected = [
        float(rounded(floor(Fraction(a) / Fraction(b)), digits))
        for a, b in zip(x1.tolist(), x2.tolist(), strict=True)
    ]
    for found in (body("floor_divide", x1, x2), pb.floor_divide(x1, x2).numpy()):
        np.testing.assert_array_equal(found, np.array(expected, dtype))


def test_parts_of_real_numbers_need_no_complex_ones():
    x = pb.asarray([1.0, -2.0])
    for name in ("real", "imag", "conj", "angle"):
        with pb.GradientTape() as tape:
            tape.watch(x)
            body(name, x)
            y = OPS[name].function(x)
        assert tape.gradient(y, x) is not None
    np.testing.assert_array_equal(body("imag", np.array([1, 2], np.uint8)), [0, 0])
    np.testing.assert_array_equal(body("angle", x), np.float32([0, np.pi]))


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_positions_of_extremes(axis, keepdims):
    nan = np.nan
    x = np.array([[3.0, nan, 3.0], [5.0, 1.0, nan], [-np.inf, nan, np.inf]])
    whole = np.array([[3, -128, 3], [5, 127, -128]], np.int8)
    for name, function in {"argmax": np.argmax, "argmin": np.argmin}.items():
        for values in (x, whole, whole.astype(np.uint8)):
            found = run_body(OPS[name], [pb.asarray(values)], {"axis": axis, "keepdims": keepdims})
            expected = function(values, axis=axis, keepdims=keepdims)
            np.testing.assert_array_equal(found.numpy(), expected)
            assert found.dtype == np.int64


def test_nothing_is_scattered_into_booleans():
    found = run_body(
        OPS["scatter_multiply"],
        [pb.asarray([True, False]), pb.zeros(0, dtype="int64"), pb.zeros(0, dtype="bool")],
        {"axis": 0},
    )
    assert found.dtype == pb.bool
    assert found.tolist() == [True, False]


def test_statistics_of_16_bits_are_used_in_float32():
    rng = np.random.default_rng(0)
    given = [pb.asarray(rng.normal(size=shape), dtype="float32") for shape in ((5, 3), (5, 3))]
    small = [pb.asarray(rng.uniform(0.5, 2, 3), dtype="bfloat16") for _ in range(5)]
    attributes = {"axis": 1, "epsilon": 1e-3}

    def gradients(parameters):
        scale, mean, variance, mean_g, variance_g = parameters
        inputs = [given[0], scale, mean, variance, given[1], mean_g, variance_g]
        return run_body(OPS["batch_norm_gradient"], inputs, attributes)

    for one, wide in zip(
        gradients(small), gradients([x.astype("float32") for x in small]), strict=True
    ):
        np.testing.assert_allclose(one.numpy(), wide.numpy(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", [pb.float16, pb.bfloat16])
@pytest.mark.parametrize("name", ["fold", "max_pool_gradient"])
def test_overlapping_windows_of_16_bit_floats_are_added_in_float32(name, dtype):
    values = np.random.default_rng(0).uniform(0.5, 1, (1, 7, 3))[..., None].astype(np.float32)
    x = pb.asarray(values).astype(dtype)
    if name == "fold":
        how = {"size": (9,), "strides": (1,), "padding": ((0, 0),), "dilation": (1,)}
        inputs = [x]
    else:
        how = {"input_shape": (1, 9, 3), "window": (3,), "strides": (1,), "padding": ((0, 0),)}
        how |= {"dilation": (1,), "ceil_mode": False}
        places = pb.reshape(pb.asarray([2, 1, 0, 2, 1, 0, 2]), (1, 7, 1))
        inputs = [x[..., 0], pb.broadcast_to(places, (1, 7, 3))]
    how["data_format"] = "channels_last"
    found = run_body(OPS[name], inputs, how)
    wide = run_body(OPS[name], [inputs[0].astype("float32"), *inputs[1:]], how)
    assert found.dtype == dtype
    assert found.tolist() == wide.astype(dtype).tolist()


def test_inputs_come_first():
    # `run_body` gives them to the body by position.
    for op in OPS.values():
        code, names = op.body.__code__, tuple(one.name for one in op.inputs)
        if op.own and code.co_posonlyargcount <= len(names) <= code.co_argcount:
            assert code.co_varnames[: len(names)] == names, op.name


def test_attributes_before_inputs(define):
    @define(shape=lambda x, **_: x)
    def scaled(by: float, x: pb.Tensor) -> pb.Tensor:
        """An op of another author."""
        return x * by

    assert scaled(3.0, pb.asarray([2.0])).tolist() == [6.0]
