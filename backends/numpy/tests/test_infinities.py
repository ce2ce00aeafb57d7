"""Infinities and NaN are where the op has them, and nowhere else; and both zeros are zero."""

import numpy as np
import pytest

from pullback_numpy.kernels import KERNELS

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
ONE = np.ones(3, np.float32)


def _number(value):
    return np.array(value, np.float32)


@pytest.mark.parametrize("step", [0, -1, np.nan])
def test_what_is_no_step_of_adam_gives_no_number(step):
    how = {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-7, "weight_decay": 0.0}
    new, m, v = KERNELS["adam_update"](ONE, ONE, ONE, ONE, _number(0.1), _number(step), **how)
    assert np.isnan(new).all()
    assert np.isfinite([m, v]).all()


def test_a_mean_that_forgets_nothing_is_divided_by_zero():
    how = {"beta1": 1.0, "beta2": 0.999, "epsilon": 1e-7, "weight_decay": 0.0}
    new, _, _ = KERNELS["adam_update"](ONE, ONE, ONE, ONE, _number(0.1), _number(1), **how)
    np.testing.assert_array_equal(new, -np.inf)


@pytest.mark.parametrize("rows", [3, 40_000])
def test_batch_norm_of_squares_out_of_range(rows):
    x = np.ones((rows, 3), np.float32)
    x[1, 0], x[-1, 1] = 1e30, np.inf
    y, mean, variance = KERNELS["batch_norm"](x, None, None, axis=1, epsilon=1e-3)
    np.testing.assert_array_equal(variance, [np.inf, np.nan, 0])
    np.testing.assert_array_equal(mean[1:], [np.inf, 1])
    np.testing.assert_array_equal(y, np.broadcast_to(_number([0, np.nan, 0]), x.shape))


def test_the_score_of_a_key_that_is_hidden_does_not_count():
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((1, 4, 3), np.float32) for _ in range(3))
    k[0, 3] = np.nan
    how = {"is_causal": True, "scale": 1.0}
    y, _ = KERNELS["scaled_dot_product_attention"](q, k, v, None, **how)
    np.testing.assert_array_equal(np.isnan(y[0]).all(1), [False, False, False, True])


def test_a_convolution_has_no_number_only_in_the_windows_that_see_it():
    x, kernel = np.ones((2, 5, 3), np.float32), np.ones((3, 3, 4), np.float32)
    x[0, 4, 0] = np.nan
    how = {"strides": (1,), "padding": ((0, 0),), "groups": 1, "dilation": (1,)}
    y = KERNELS["conv"](x, kernel, **how, data_format="channels_last")
    seen = np.isnan(y).all(-1)
    np.testing.assert_array_equal(seen, [[False, False, True], [False, False, False]])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("approximate", [False, True])
def test_the_slope_of_gelu_is_a_half_on_both_sides_of_zero(approximate, dtype):
    x = np.array([0.0, -0.0, 1e-30, -1e-30], dtype)
    slope = KERNELS["gelu_gradient"](np.ones_like(x), x, approximate=approximate)
    np.testing.assert_allclose(slope, 0.5)
