"""Convolutions of each channel by itself, beside NumPy's kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pullback.shapes import output_sizes
from pullback_native.kernels import convolution, depthwise
from pullback_numpy.kernels import KERNELS as NUMPY_KERNELS
from pullback_numpy.threads import number_of_threads

pytestmark = pytest.mark.usefixtures("instructions")


def cases(draw: Any) -> Any:
    for rank in (1, 2):
        for _ in range(12):
            window, strides, dilation = (
                tuple(draw.integers(1, 4, rank).tolist()) for _ in range(3)
            )
            padding = tuple([tuple(draw.integers(0, 3, 2).tolist()) for _ in range(rank)])
            spatial = tuple(draw.integers(7, 14, rank).tolist())
            channels, many = int(draw.choice([2, 3, 8, 17, 70])), int(draw.choice([1, 1, 2, 3]))
            shape = (int(draw.integers(1, 4)), *spatial, channels)
            yield shape, (*window, 1, channels * many), {
                "strides": strides, "padding": padding, "dilation": dilation, "groups": channels,
                "data_format": "channels_last",
            }  # fmt: skip


def called(shape: Any, kernel_shape: Any, options: Any, draw: Any) -> Any:
    """Arguments of the three ops."""
    x, kernel = (draw.standard_normal(one).astype("f4") for one in (shape, kernel_shape))
    out = output_sizes(
        shape[1:-1], kernel_shape[:-2], options["strides"], options["padding"], options["dilation"]
    )
    g = draw.standard_normal((shape[0], *out, kernel_shape[-1])).astype("f4")
    yield "conv", (x, kernel), options
    yield "conv_input_gradient", (g, kernel), {**options, "input_shape": shape}
    yield "conv_kernel_gradient", (x, g), {**options, "kernel_shape": kernel_shape}


def test_beside_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(5)
    expected = NUMPY_KERNELS["conv"]

    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError("NumPy's kernel is called")

    for shape, kernel_shape, options in cases(draw):
        for name, inputs, given in called(shape, kernel_shape, options, draw):
            expected = NUMPY_KERNELS[name](*inputs, **given)
            with monkeypatch.context() as patched:
                patched.setattr(convolution, "_by_numpy", never)
                found = convolution.KERNELS[name](*inputs, **given)
                # Any layout.
                turned = [np.asfortranarray(one) for one in inputs]
                again = convolution.KERNELS[name](*turned, **given)
            assert (found.shape, found.dtype) == (expected.shape, np.float32)
            size = float(np.abs(expected).max())
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=2e-6 * size)
            np.testing.assert_array_equal(found, again)


def test_threads_change_no_bit() -> None:
    draw, options = np.random.default_rng(6), {
        "strides": (1, 1), "padding": ((1, 1), (1, 1)), "dilation": (1, 1), "groups": 24,
        "data_format": "channels_last",
    }  # fmt: skip
    for name, inputs, given in called((6, 40, 40, 24), (3, 3, 1, 24), options, draw):
        results = []
        for threads in (1, 2, 3):
            with number_of_threads(threads):
                results.append(convolution.KERNELS[name](*inputs, **given))
        np.testing.assert_array_equal(results[0], results[1])
        np.testing.assert_array_equal(results[0], results[2])


@pytest.mark.parametrize("odd", [np.inf, np.nan, 1e30])
def test_products_by_zeros_beyond_an_edge(odd: float) -> None:
    """NumPy's kernel has the result where a term is infinite times 0."""
    draw = np.random.default_rng(7)
    for shape, kernel_shape, options in cases(draw):
        for name, inputs, given in called(shape, kernel_shape, options, draw):
            for one in inputs:
                one.flat[draw.integers(one.size)] = odd
            with np.errstate(invalid="ignore"):
                found = convolution.KERNELS[name](*inputs, **given)
                expected = NUMPY_KERNELS[name](*inputs, **given)
            np.testing.assert_array_equal(np.isfinite(found), np.isfinite(expected))


def test_what_the_loops_do_not_take() -> None:
    x, kernel = np.ones((2, 5, 5, 4), np.float32), np.ones((3, 3, 1, 4), np.float32)
    assert depthwise.takes(x, kernel, 4, 4)
    assert not depthwise.takes(x, kernel, 4, 2)
    assert not depthwise.takes(x, kernel, 1, 1)
    assert not depthwise.takes(x.astype("f8"), kernel.astype("f8"), 4, 4)
    assert not depthwise.takes(np.ones((2, 5, 5, 5, 4), np.float32), kernel, 4, 4)
    assert not depthwise.takes(x[:0], kernel, 4, 4)
