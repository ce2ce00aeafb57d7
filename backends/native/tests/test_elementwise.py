"""Elementwise functions: their errors over all floats, and shapes and layouts of any kind."""

import re
from pathlib import Path

import numpy as np
import pytest
import scipy.special

from pullback_native import _native
from pullback_numpy.kernels import gelu

rng = np.random.default_rng(0)


def normal(*shape):
    return rng.standard_normal(shape, np.float32)


def everywhere():
    """Floats of all sizes and signs, and those between which most functions change."""
    bits = np.arange(-(2**31), 2**31, 2**16 + 1, dtype=np.int64).astype(np.uint32)
    special = np.float32([0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45])
    return np.concatenate(
        [bits.view(np.float32), np.linspace(-110, 110, 30001, dtype=np.float32), special]
    )


def ulps(y, reference):
    """The largest error in units of the last place; infinite where only one number is finite."""
    single = reference.astype(np.float32)
    finite = np.isfinite(single)
    same = (np.isnan(single) & np.isnan(y)) | (single == y)
    if not same[~finite].all():
        return np.inf
    error = np.abs(y[finite].astype(np.float64) - reference[finite])
    return (error / np.spacing(np.abs(single[finite])).astype(np.float64)).max()


def _log1p_exp(x):
    return np.log1p(np.exp(-np.abs(x)))


REFERENCES = {
    "exp": np.exp,
    "expm1": np.expm1,
    "sqrt": np.sqrt,
    "tanh": np.tanh,
    "sigmoid": scipy.special.expit,
    "silu": lambda x: np.where(np.isneginf(x), 0, x * scipy.special.expit(x)),
    "softplus": lambda x: np.maximum(x, 0) + _log1p_exp(x),
    "log_sigmoid": lambda x: np.minimum(x, 0) - _log1p_exp(x),
    "relu": lambda x: np.maximum(x, 0),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", REFERENCES)
def test_within_three_ulp_over_all_floats(name, instructions):
    x = everywhere()
    assert ulps(getattr(_native, name)(x), REFERENCES[name](x.astype(np.float64))) <= 3


SLOPES = {
    "tanh_gradient": lambda y: (1 - y) * (1 + y),
    "sigmoid_gradient": lambda y: y * (1 - y),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", SLOPES)
def test_gradients_within_three_ulp_over_all_results(name, instructions):
    y = everywhere()
    dx = getattr(_native, name)(np.ones_like(y), y)
    assert ulps(dx, SLOPES[name](y.astype(np.float64))) <= 3


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_the_gradient_of_silu_over_all_floats(instructions):
    x = everywhere()
    dx = _native.silu_gradient(np.full_like(x, 2), x)
    wide = np.clip(x.astype(np.float64), -1e4, 1e4)
    s, rest = scipy.special.expit(wide), scipy.special.expit(-wide)
    terms = 2 * s * (1 + np.abs(wide) * rest)
    error = np.abs(dx - 2 * s * (1 + wide * rest))
    assert (error[~np.isnan(x)] <= 3 * 2.0**-23 * terms[~np.isnan(x)] + 2.0**-147).all()
    assert np.isnan(dx[np.isnan(x)]).all()


@pytest.mark.parametrize("x", [normal(5, 4).T, normal(9)[::2], normal(3)[::-1], np.ones(3)])
def test_what_is_not_contiguous_float32_goes_to_numpy(x):
    np.testing.assert_allclose(_native.tanh(x), np.tanh(x), rtol=1e-6)
    np.testing.assert_allclose(_native.add(x, x), x + x)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("shape", [(7, 5000), (3,), ()])
def test_where(shape):
    special = np.float32([0.0, -0.0, np.inf, np.nan])
    a, b = (
        np.asarray(values, np.float32) for values in (rng.choice(special, shape), normal(*shape))
    )
    chosen, number = np.asarray(rng.random(shape) < 0.5), np.array(-0.0, np.float32)
    for inputs in ((a, b), (a, number), (number, b), (number, number)):
        result, expected = _native.where(chosen, *inputs), np.where(chosen, *inputs)
        np.testing.assert_array_equal(result.view(np.int32), expected.view(np.int32))


def test_where_of_shapes_that_broadcast():
    a, b = normal(3), normal(4, 1)
    for chosen in (a > 0, b > 0, np.zeros((0, 1), bool), np.True_[...]):
        inputs = (chosen, a, b[: chosen.shape[0]] if chosen.ndim == 2 else b)
        np.testing.assert_array_equal(_native.where(*inputs), np.where(*inputs))


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide"])
@pytest.mark.parametrize("value", [1.0, -2.5, 0.0, np.nan])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_an_array_that_repeats_one_number(name, value):
    x, kernel = np.float32([[0.0, -0.0, np.inf], [np.nan, 3.0, -7.0]]), getattr(_native, name)
    for number in (np.float32(value), np.float32([[value]]), np.full((1, 3), value, np.float32)):
        repeated = np.broadcast_to(number[..., :1] if number.ndim else number, x.shape)
        for inputs in (
            (repeated, x),
            (x, repeated),
            (repeated, repeated),
            (repeated[0], x),
            (x, repeated[0]),
        ):
            expected = getattr(np, name)(*inputs)
            np.testing.assert_array_equal(kernel(*inputs), expected)
            np.testing.assert_array_equal(np.signbit(kernel(*inputs)), np.signbit(expected))
    assert kernel(np.broadcast_to(np.float32(1), (0, 3)), np.ones((0, 3), np.float32)).size == 0


def test_one_polynomial_for_both_tails():
    """The tail of GELU in C has the coefficients of NumPy's kernel."""
    source = (Path(__file__).parents[1] / "c" / "math32.h").read_text()
    body = source[
        source.index("normal_tail(") : source.index("#endif", source.index("normal_tail("))
    ]
    slope = re.search(r"size \* ([\d.]+)f \+ 1\.0f", body)
    assert slope is not None
    assert np.float32(slope[1]) == np.float32(gelu._SLOPE * gelu._ROOT_HALF)
    first = re.search(r"float q = (-?[\d.]+)f;", body)
    assert first is not None
    rest = re.findall(r"q = q \* t ([+-]) ([\d.]+)f;", body)
    coefficients = [first[1], *(sign + number for sign, number in rest)]
    np.testing.assert_array_equal(np.float32(coefficients), np.float32(gelu._TAIL[::-1]))
