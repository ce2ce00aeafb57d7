"""Infinities and NaN: where NumPy's kernels have them, and where they belong."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pullback_native import _native
from pullback_native.kernels import KERNELS
from pullback_numpy.kernels import KERNELS as NUMPY_KERNELS

INF, NAN = np.inf, np.nan
rng = np.random.default_rng(0)
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def normal(*shape):
    return rng.standard_normal(shape, np.float32)


def number(value):
    return np.array(value, np.float32)


def beside(name, *inputs, **attributes):
    """The results of the pack, which must be those of NumPy's kernel."""
    kernel = KERNELS.get(name) or getattr(_native, name)
    found = [one(*inputs, **attributes) for one in (kernel, NUMPY_KERNELS[name])]
    ours, theirs = (one if isinstance(one, tuple) else (one,) for one in found)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
    return ours


# Optimizers. ------------------------------------------------------------------------------------

START = np.float32([INF, -INF, 1, 1, 1, NAN, 0])
SLOPES = np.float32([1, 1, INF, -INF, NAN, 1, 0])


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_sgd(decay, instructions):
    beside("sgd_update", START, SLOPES, number(0.5), weight_decay=decay)


@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("nesterov", [False, True])
def test_momentum(nesterov, decay, instructions):
    how = {"momentum": 0.9, "nesterov": nesterov, "weight_decay": decay}
    slope = np.float32([1, 2, 3, 4, 5, 6, 7])
    for velocity in (np.ones(7, np.float32), START, SLOPES):
        beside("momentum_update", START, slope, velocity, number(0.5), **how)
        beside("momentum_update", slope, SLOPES, velocity, number(0.5), **how)


def test_without_a_weight_decay_an_infinite_parameter_leaves_the_velocity_alone():
    one, how = np.ones(1, np.float32), {"momentum": 0.9, "nesterov": False, "weight_decay": 0.0}
    parameter, velocity = _native.momentum_update(one * INF, one, one, number(0.5), **how)
    np.testing.assert_array_equal(parameter, INF)
    np.testing.assert_allclose(velocity, 1.9)


@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("step", [1, 0, -1, INF, NAN])
@pytest.mark.parametrize("beta1", [0.9, 0.0, 1.0])
def test_adam(beta1, step, decay, instructions):
    how = {"beta1": beta1, "beta2": 0.999, "epsilon": 1e-7, "weight_decay": decay}
    finite = np.float32([1, 2, -3, 4, 5, 6, 0])
    for first in (finite, START):
        beside("adam_update", first, SLOPES, finite, finite**2, number(0.5), number(step), **how)


def test_what_is_no_step_of_adam_gives_no_number():
    one, how = np.ones(3, np.float32), {"epsilon": 1e-7, "weight_decay": 0.0}
    for kernel in (_native.adam_update, NUMPY_KERNELS["adam_update"]):
        found = kernel(one, one, one, one, number(0.5), number(0), beta1=0.9, beta2=0.9, **how)
        assert np.isnan(found[0]).all()


# Normalization. ---------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [INF, -INF, NAN, 1e30, -3e38])
@pytest.mark.parametrize("shape", [(5, 4), (40_000, 3), (2, 3, 3, 20)])
def test_batch_norm(shape, value, instructions):
    for place in (0, shape[0] // 2, -1):
        x = normal(*shape)
        x[place, ..., 1] = value
        how = {"axis": len(shape) - 1, "epsilon": 1e-3}
        y, mean, variance = beside("batch_norm", x, None, None, **how)
        assert not np.isfinite(variance[1])
        assert np.isfinite(np.delete(y, 1, -1)).all()
        given = (x, None, mean, variance, normal(*shape), normal(shape[-1]), normal(shape[-1]))
        beside("batch_norm_gradient", *given, **how)


def test_squares_out_of_range_are_an_infinite_variance():
    x = np.float32([[1e30], [1], [2]])
    for kernel in (_native.batch_norm, NUMPY_KERNELS["batch_norm"]):
        y, _, variance = kernel(x, None, None, axis=1, epsilon=1e-3)
        np.testing.assert_array_equal(variance, INF)
        np.testing.assert_array_equal(y, 0)


# Attention. -------------------------------------------------------------------------------------

ATTENTION = "scaled_dot_product_attention"


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("masked", [None, bool, np.float32])
@pytest.mark.parametrize(("queries", "keys"), [(5, 5), (150, 150), (3, 90), (90, 3)])
def test_attention(queries, keys, masked, is_causal):
    how, mask = {"is_causal": is_causal, "scale": 0.3}, None
    if masked is not None:
        mask = rng.random((queries, keys)) < 0.7
        mask = mask if masked is bool else np.where(mask, 0, -INF).astype(np.float32)
    for value in (INF, -INF, NAN):
        for which in range(4):
            given = [normal(2, 4, queries, 8), normal(2, 2, keys, 8), normal(2, 2, keys, 12),
                     normal(2, 4, queries, 12)]  # fmt: skip
            given[which][0, 0, rng.integers(given[which].shape[2]), 2] = value
            *inputs, g = given
            y, normalizer = beside(ATTENTION, *inputs, mask, **how)
            beside(f"{ATTENTION}_gradient", *inputs, mask, y, normalizer, g, **how)


def test_the_score_of_a_key_that_is_hidden_does_not_count():
    q, k, v = normal(1, 4, 3), normal(1, 4, 3), normal(1, 4, 2)
    k[0, 3] = NAN
    for kernel in (KERNELS[ATTENTION], NUMPY_KERNELS[ATTENTION]):
        y, _ = kernel(q, k, v, None, is_causal=True, scale=1.0)
        np.testing.assert_array_equal(np.isnan(y[0, :, 0]), [False, False, False, True])


# Convolution. -----------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [INF, NAN])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("pad", [0, 1])
@pytest.mark.parametrize("shape", [(2, 9, 8, 3), (2, 20, 20, 20)])
def test_convolution(shape, pad, stride, value, instructions):
    how = {"strides": (stride, stride), "padding": ((pad, pad),) * 2, "groups": 1,
           "dilation": (1, 1), "data_format": "channels_last"}  # fmt: skip
    for which in range(3):
        given = [normal(*shape), normal(3, 3, shape[-1], 7)]
        given.append(normal(*NUMPY_KERNELS["conv"](*given, **how).shape))
        given[which].reshape(-1)[rng.integers(given[which].size)] = value
        x, kernel, g = given
        beside("conv", x, kernel, **how)
        beside("conv_input_gradient", g, kernel, input_shape=shape, **how)
        beside("conv_kernel_gradient", x, g, kernel_shape=kernel.shape, **how)


def test_what_is_no_number_stays_in_the_windows_that_see_it():
    x, kernel = normal(2, 5, 3), normal(3, 3, 4)
    x[0, 4, 0] = NAN
    how = {"strides": (1,), "padding": ((0, 0),), "groups": 1, "dilation": (1,),
           "data_format": "channels_last"}  # fmt: skip
    for conv in (KERNELS["conv"], NUMPY_KERNELS["conv"]):
        seen = np.isnan(conv(x, kernel, **how)).all(-1)
        np.testing.assert_array_equal(seen, [[False, False, True], [False, False, False]])


def test_no_gradient_comes_from_beyond_an_edge():
    """A tap that only sees padding: 0 times infinity is not a term of the sum."""
    g, kernel = np.ones((1, 1, 5, 1), np.float32), np.float32([INF, 1, 1]).reshape(1, 3, 1, 1)
    how = {"strides": (1, 1), "padding": ((0, 0), (1, 1)), "groups": 1, "dilation": (1, 1),
           "data_format": "channels_last", "input_shape": (1, 1, 5, 1)}  # fmt: skip
    for slope in (KERNELS["conv_input_gradient"], NUMPY_KERNELS["conv_input_gradient"]):
        np.testing.assert_array_equal(slope(g, kernel, **how)[0, 0, :, 0], [INF, INF, INF, INF, 2])


# Whatever else. ---------------------------------------------------------------------------------


def test_means_of_too_few_rows_go_to_numpys_kernels():
    """Shapes that no op has: the loops would read beyond the array."""
    x, few = normal(64, 8), np.ones((1, 1), np.float32)
    given = (x, None, few, few, x)
    beside("layer_norm_gradient", *given, axis=(1,))
    beside("rms_norm_gradient", x, None, few, x, axis=(1,))


@pytest.mark.parametrize("odd", [np.inf, -np.inf, np.nan])
@np.errstate(all="ignore")
def test_hidden_steps_do_not_meet_infinite_weights(odd):
    mask = np.array([[True, False, True], [False, False, False]])
    for name, gates, states in (("gru", 3, 1), ("lstm", 4, 2)):
        weights = normal(4, gates * 4)
        weights[1, 2] = odd
        inputs = (normal(2, 3, 5), *(normal(2, 4) for _ in range(states)),
                  normal(5, gates * 4), weights)  # fmt: skip
        results = NUMPY_KERNELS[name](*inputs, *[None] * (3 - states), mask, reverse=False)
        slopes = (normal(2, 3, 4), *(normal(2, 4) for _ in range(states)))
        given = (*inputs, mask, results[0], *results[1 + states :], *slopes)
        found = KERNELS[f"{name}_gradient"](*given, reverse=False)
        expected = NUMPY_KERNELS[f"{name}_gradient"](*given, reverse=False)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(np.isfinite(one), np.isfinite(other))


@pytest.mark.parametrize("seed", [0, 1])
def test_hostile_arrays(seed):
    fuzz = [sys.executable, str(Path(__file__).with_name("fuzz.py"))]
    found = subprocess.run(
        [*fuzz, "--calls=400", f"--seed={seed}"], capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stdout + found.stderr


@pytest.mark.slow
def test_many_hostile_arrays():
    fuzz = [sys.executable, str(Path(__file__).with_name("fuzz.py"))]
    found = subprocess.run(
        [*fuzz, "--calls=50000", "--seed=2"], capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stdout + found.stderr
