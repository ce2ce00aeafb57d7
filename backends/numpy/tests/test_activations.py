"""Activations and their gradients on large arrays: piece by piece they are what they are in one."""

import ml_dtypes
import numpy as np
import pytest

from pullback_numpy import threads
from pullback_numpy.kernels import KERNELS

ROWS = threads.LARGE // 512
OF_ONE = ("sigmoid", "silu", "softplus", "log_sigmoid")
OF_TWO = ("relu_gradient", "tanh_gradient", "sigmoid_gradient", "silu_gradient")
ALONG_ROWS = ("softmax", "log_softmax")


def large(dtype, seed=0):
    x = np.random.default_rng(seed).standard_normal((ROWS, 512), np.float32) * 4
    x[::97, 3] = -120.0  # where the exponential of -x overflows
    x[5, 5], x[6, 6] = np.inf, np.nan
    return x.astype(dtype)


def by_rows(kernel, *inputs, **attributes):
    """The kernel on a few rows at a time: too few to be split."""
    parts = zip(*(np.split(one, ROWS // 64) for one in inputs), strict=True)
    return np.concatenate([kernel(*part, **attributes) for part in parts])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("name", [*OF_ONE, *OF_TWO])
def test_elementwise(name, dtype):
    inputs = [large(dtype, seed) for seed in range(2 if name in OF_TWO else 1)]
    expected = by_rows(KERNELS[name], *inputs)
    with threads.number_of_threads(2):
        found = KERNELS[name](*inputs)
        strided = KERNELS[name](*(np.asfortranarray(one) for one in inputs))
    assert found.dtype == strided.dtype == dtype
    # What the slopes of silu cancel to is no more accurate than their terms.
    eps = float(ml_dtypes.finfo(dtype).eps)
    atol = 64 * eps if name == "silu_gradient" else 0
    np.testing.assert_allclose(np.float64(found), np.float64(expected), 4 * eps, atol)
    np.testing.assert_array_equal(np.float64(strided), np.float64(found))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", [*OF_ONE, "mish"])
def test_as_exact_as_promised_at_many_numbers(name):
    # One number in 50,000 was further off: loops for AVX-512 have an exponential of 2.5 ulp.
    x = np.random.default_rng(0).uniform(-80, 5, 1 << 19).astype(np.float32)
    x[:6] = -83.476135, -85.0, -86.5, -6.7692294, -3.33593, -7.593991
    expected = KERNELS[name](x.astype(np.float64))
    unit = np.spacing(np.abs(expected).astype(np.float32)).astype(np.float64)
    assert np.max(np.abs(KERNELS[name](x) - expected) / unit) <= 4.5  # ops of 4 ulp, rounded


@pytest.mark.parametrize("name", OF_TWO)
def test_a_gradient_that_repeats_one_number(name):
    x = large(np.float32)
    g = np.broadcast_to(np.float32(2.5), x.shape)
    np.testing.assert_array_equal(KERNELS[name](g, x), KERNELS[name](g.copy(), x))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
def test_where(dtype):
    a, b = large(dtype), large(dtype, 1)
    with np.errstate(invalid="ignore"):  # comparisons of NaN
        condition, number = a > b, np.array(-0.0, dtype)
    for first, second in ((a, b), (a, number), (number, b), (number, number), (a.T.copy().T, b)):
        found = KERNELS["where"](condition, first, second)
        expected = np.where(condition, first, second)
        assert found.dtype == expected.dtype == dtype
        assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize("name", ALONG_ROWS)
def test_gradients_along_rows(name, dtype):
    rng = np.random.default_rng(0)
    x, g = rng.standard_normal((2, ROWS, 512)).astype(dtype)
    out = KERNELS[name](x, axis=1)
    kernel = KERNELS[f"{name}_gradient"]
    expected = by_rows(kernel, g, out, axis=1)
    eps = float(np.finfo(dtype).eps)
    np.testing.assert_allclose(kernel(g, out, axis=1), expected, rtol=0, atol=8 * eps)
    across = kernel(np.asfortranarray(g.T), np.asfortranarray(out.T), axis=0)
    np.testing.assert_allclose(across.T, expected, rtol=0, atol=64 * eps)
    with pytest.raises(ValueError, match="shapes differ"):
        kernel(g[:1], out, axis=1)
