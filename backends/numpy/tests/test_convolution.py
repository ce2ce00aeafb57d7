"""The NumPy backend's convolution kernels against sums written out as loops, in float64."""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from math import prod
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pullback_numpy import convolution, depthwise, windows
from pullback_numpy.convolution import conv, conv_input_gradient, conv_kernel_gradient

Array = np.ndarray[Any, Any]


def naive(
    x: Array, kernel: Array, *, strides: Any, padding: Any, dilation: Any, groups: int
) -> Array:
    """The definition: a loop over outputs and taps."""
    spatial = x.ndim - 2
    padded = np.pad(x, [(0, 0), *padding, (0, 0)])
    window = kernel.shape[:spatial]
    out = [
        max(0, (size - d * (w - 1) - 1) // s + 1)
        for size, w, s, d in zip(padded.shape[1:-1], window, strides, dilation, strict=True)
    ]
    features = kernel.shape[-1]
    inputs, outputs = x.shape[-1] // groups, features // groups
    y = np.zeros((x.shape[0], *out, features), np.result_type(x, kernel))
    for position in itertools.product(*map(range, out)):
        for tap in itertools.product(*map(range, window)):
            at = tuple(
                p * s + t * d for p, s, t, d in zip(position, strides, tap, dilation, strict=True)
            )
            pixels = padded[(slice(None), *at)]
            for j in range(groups):
                o = slice(j * outputs, (j + 1) * outputs)
                y[(slice(None), *position, o)] += (
                    pixels[:, j * inputs : (j + 1) * inputs] @ kernel[(*tap, slice(None), o)]
                )
    return y


def options(
    rank: int = 2,
    stride: int = 1,
    pad: tuple[int, int] = (0, 0),
    dilation: int = 1,
    groups: int = 1,
) -> dict[str, Any]:
    return {
        "strides": (stride,) * rank,
        "padding": (pad,) * rank,
        "dilation": (dilation,) * rank,
        "groups": groups,
    }


def normal(*shape: int, dtype: Any = np.float64, seed: int = 0) -> Array:
    values = np.random.default_rng(seed + sum(shape)).standard_normal(shape)
    return values.astype(dtype)


def check(x: Array, kernel: Array, **attributes: Any) -> None:
    """Value, shape, dtype, that the gradients are the adjoints, and that no input is written."""
    kept = x.copy(), kernel.copy()
    y = conv(x, kernel, **attributes)
    expected = naive(x, kernel, **attributes)
    assert y.shape == expected.shape
    assert y.dtype == x.dtype
    np.testing.assert_allclose(y, expected, atol=1e-10)
    # The map is linear in x for a fixed kernel: gradients with respect to random directions fix it.
    g = normal(*y.shape, seed=7)
    dx = conv_input_gradient(g, kernel, input_shape=x.shape, **attributes)
    dk = conv_kernel_gradient(x, g, kernel_shape=kernel.shape, **attributes)
    assert (dx.shape, dk.shape) == (x.shape, kernel.shape)
    for seed in range(2):
        u, v = normal(*x.shape, seed=seed), normal(*kernel.shape, seed=seed)
        np.testing.assert_allclose(
            (dx * u).sum(), (naive(u, kernel, **attributes) * g).sum(), rtol=1e-9, atol=1e-9
        )
        np.testing.assert_allclose(
            (dk * v).sum(), (naive(x, v, **attributes) * g).sum(), rtol=1e-9, atol=1e-9
        )
    assert np.array_equal(x, kept[0])
    assert np.array_equal(kernel, kept[1])


@st.composite
def problems(draw: Any) -> tuple[Array, Array, dict[str, Any]]:
    rank = draw(st.integers(1, 3))

    def each(low: int, high: int) -> tuple[int, ...]:
        return tuple(draw(st.lists(st.integers(low, high), min_size=rank, max_size=rank)))

    groups = draw(st.sampled_from([1, 1, 2, 3]))
    inputs, outputs = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    x = normal(draw(st.sampled_from([0, 1, 2, 5])), *each(1, 8), groups * inputs)
    kernel = normal(*each(1, 4), inputs, groups * outputs)
    if draw(st.booleans()):
        x = x[::-1, ::-1]
    if draw(st.booleans()):
        x, kernel = np.asfortranarray(x), kernel[::-1]
    padded = draw(st.booleans())
    padding = tuple(zip(each(0, 3), each(0, 3), strict=True)) if padded else ((0, 0),) * rank
    dilation = each(1, 2) if draw(st.booleans()) else (1,) * rank
    return (
        x,
        kernel,
        {"strides": each(1, 3), "padding": padding, "dilation": dilation, "groups": groups},
    )


@settings(max_examples=150, deadline=None)
@given(problems(), st.sampled_from([300, 4000, 1 << 20]))
def test_any_shape_in_blocks_of_any_size(
    problem: tuple[Array, Array, dict[str, Any]], block: int
) -> None:
    x, kernel, attributes = problem
    with pytest.MonkeyPatch.context() as patch:
        for name in ("FORWARD_BYTES", "GRADIENT_BYTES", "SCATTER_BYTES"):
            patch.setattr(convolution, name, block)
        patch.setattr(depthwise, "BLOCK_BYTES", block // 4)
        check(x, kernel, **attributes)


@pytest.mark.parametrize(
    ("size", "channels", "window", "features", "stride"),
    [
        (28, 1, 5, 8, 1),
        (12, 3, 3, 8, 1),
        (12, 3, 3, 8, 2),
        (13, 3, 3, 8, 1),
        (6, 32, 3, 4, 1),
        (6, 8, 1, 8, 1),
        (6, 8, 1, 8, 2),
        (6, 8, 3, 5, 2),
        (9, 2, 3, 3, 4),
    ],
)
def test_the_shapes_networks_use(
    size: int, channels: int, window: int, features: int, stride: int
) -> None:
    pad = (window // 2, window // 2)
    check(
        normal(2, size, size, channels),
        normal(window, window, channels, features),
        **options(stride=stride, pad=pad),
    )


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("multiplier", [1, 3])
def test_depthwise(rank: int, stride: int, multiplier: int) -> None:
    x, kernel = normal(2, *(7, 6, 5)[:rank], 4), normal(*(3, 2, 3)[:rank], 1, 4 * multiplier)
    check(x, kernel, **options(rank, stride, (2, 1), groups=4))


def test_many_windows_take_the_flipped_convolution() -> None:
    check(normal(9, 8, 8, 6), normal(3, 3, 6, 3), **options(pad=(1, 1)))
    check(normal(9, 8, 8, 12), normal(3, 3, 6, 4), **options(pad=(1, 1), groups=2))


def test_windows_larger_than_the_input_give_nothing() -> None:
    x, kernel = normal(2, 3, 9, 2), normal(4, 2, 2, 5)
    assert conv(x, kernel, **options()).shape == (2, 0, 8, 5)
    g = np.zeros((2, 0, 8, 5))
    assert not conv_input_gradient(g, kernel, input_shape=x.shape, **options()).any()
    assert not conv_kernel_gradient(x, g, kernel_shape=kernel.shape, **options()).any()


def test_empty_channels_sum_to_zero() -> None:
    y = conv(np.ones((2, 4, 4, 0)), np.ones((3, 3, 0, 5)), **options())
    assert y.shape == (2, 2, 2, 5)
    assert not y.any()


@pytest.mark.parametrize(
    "dtype", [np.float32, np.complex64, np.complex128, np.int8, np.int32, np.int64, np.uint8]
)
@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("stride", [1, 2])
def test_dtypes(dtype: Any, groups: int, stride: int) -> None:
    random = np.random.default_rng(0)
    x, kernel, g = (
        random.integers(0, 3, shape).astype(dtype)
        for shape in [(2, 6, 6, 4), (3, 3, 4 // groups, 8), (2, 6 // stride, 6 // stride, 8)]
    )
    if np.dtype(dtype).kind == "c":
        x, kernel, g = x * dtype(1 + 2j), kernel * dtype(2 - 1j), g * dtype(1j)
    attributes = options(stride=stride, pad=(1, 1), groups=groups)
    y = conv(x, kernel, **attributes)
    dx = conv_input_gradient(g, kernel, input_shape=x.shape, **attributes)
    dk = conv_kernel_gradient(x, g, kernel_shape=kernel.shape, **attributes)
    assert y.dtype == dx.dtype == dk.dtype == np.dtype(dtype)
    # Small integers are exact in every dtype.
    np.testing.assert_array_equal(y, naive(x, kernel, **attributes))
    wide = np.complex128 if np.dtype(dtype).kind == "c" else np.float64
    total = (naive(x.astype(wide), kernel.astype(wide), **attributes) * g).sum()
    if np.dtype(dtype).itemsize > 1:  # the small integers wrap around
        assert (dx.astype(wide) * x).sum() == total == (dk.astype(wide) * kernel).sum()


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_half_precision_is_rounded_once(dtype: Any) -> None:
    x, kernel, g = (normal(*s).astype(dtype) for s in [(2, 6, 6, 4), (3, 3, 4, 8), (2, 6, 6, 8)])
    attributes = options(pad=(1, 1))
    wide = [a.astype(np.float32) for a in (x, kernel, g)]
    for got, expected in [
        (conv(x, kernel, **attributes), conv(wide[0], wide[1], **attributes)),
        (
            conv_input_gradient(g, kernel, input_shape=x.shape, **attributes),
            conv_input_gradient(wide[2], wide[1], input_shape=x.shape, **attributes),
        ),
        (
            conv_kernel_gradient(x, g, kernel_shape=kernel.shape, **attributes),
            conv_kernel_gradient(wide[0], wide[2], kernel_shape=kernel.shape, **attributes),
        ),
    ]:
        assert got.dtype == np.dtype(dtype)
        np.testing.assert_array_equal(
            got.astype(np.float32), expected.astype(dtype).astype(np.float32)
        )


def test_float32_is_as_accurate_as_a_matmul() -> None:
    x, kernel = normal(4, 16, 16, 32, dtype=np.float32), normal(3, 3, 32, 16, dtype=np.float32)
    exact = naive(x.astype(np.float64), kernel.astype(np.float64), **options(pad=(1, 1)))
    scale = naive(
        np.abs(x).astype(np.float64), np.abs(kernel).astype(np.float64), **options(pad=(1, 1))
    )
    error = np.abs(conv(x, kernel, **options(pad=(1, 1))) - exact) / scale
    assert error.max() < 2 * np.finfo(np.float32).eps * np.log2(prod(kernel.shape[:-1]))


def test_read_only_inputs_and_fresh_outputs() -> None:
    x, kernel = normal(2, 6, 6, 4), normal(1, 1, 4, 4)
    x.flags.writeable = kernel.flags.writeable = False
    for stride in (1, 2):
        y = conv(x, kernel, **options(stride=stride))
        assert y.flags.writeable
        assert y.flags.c_contiguous
        first = y.copy()
        conv(x + 1, kernel, **options(stride=stride))
        np.testing.assert_array_equal(y, first)  # the result is not scratch memory
    kernel = normal(3, 3, 4, 4)
    dx = conv_input_gradient(y, normal(1, 1, 4, 4), input_shape=x.shape, **options(stride=2))
    dk = conv_kernel_gradient(
        x, conv(x, kernel, **options()), kernel_shape=kernel.shape, **options()
    )
    kept = dx.copy(), dk.copy()
    conv(x, kernel, **options(pad=(1, 1)))
    assert np.array_equal(dx, kept[0])
    assert np.array_equal(dk, kept[1])


def test_threads_do_not_share_scratch() -> None:
    problems = [(normal(3, 12, 12, c), normal(3, 3, c, 8)) for c in (2, 5, 16, 33)]
    expected = [conv(x, kernel, **options(pad=(1, 1))) for x, kernel in problems]
    gate = threading.Barrier(len(problems))

    def repeats(index: int) -> bool:
        gate.wait()
        results = [conv(*problems[index], **options(pad=(1, 1))) for _ in range(30)]
        return all(np.array_equal(y, expected[index]) for y in results)

    with ThreadPoolExecutor(len(problems)) as pool:
        assert all(pool.map(repeats, range(len(problems))))


def test_scratch_for_one_huge_call_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "KEPT_BYTES", 1 << 12)
    monkeypatch.setattr(windows, "_scratch", windows._Scratch())
    check(normal(2, 9, 9, 3), normal(3, 3, 3, 4), **options(pad=(1, 1)))
    assert windows._scratch.buffer.size <= 1 << 12


def test_the_same_call_gives_the_same_bits() -> None:
    x, kernel = normal(8, 16, 16, 16, dtype=np.float32), normal(3, 3, 16, 16, dtype=np.float32)
    runs = {conv(x, kernel, **options(pad=(1, 1))).tobytes() for _ in range(5)}
    assert len(runs) == 1
