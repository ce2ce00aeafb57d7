"""The NumPy backend's pooling kernels against loops over windows."""

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

from pullback_numpy import pooling, pooling_few
from pullback_numpy.kernels import KERNELS
from pullback_numpy.pooling import (
    avg_pool,
    avg_pool_gradient,
    max_pool,
    max_pool_gather,
    max_pool_gradient,
)

Array = np.ndarray[Any, Any]


def options(
    window: int = 2, stride: int = 2, pad: tuple[int, int] = (0, 0), rank: int = 2
) -> dict[str, Any]:
    return {"window": (window,) * rank, "strides": (stride,) * rank, "padding": (pad,) * rank}


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed + sum(shape)).standard_normal(shape)


def windows_of(
    x: Array, fill: Any, *, window: Any, strides: Any, padding: Any, dilation: Any = (1, 1, 1)
) -> Array:
    """(N, *out, taps, C), by loops."""
    padded = np.pad(x, [(0, 0), *padding, (0, 0)], constant_values=fill)
    out = [
        max(0, (p - (w - 1) * d - 1) // s + 1)
        for p, w, s, d in zip(padded.shape[1:-1], window, strides, dilation, strict=False)
    ]
    windows = np.zeros((x.shape[0], *out, prod(window), x.shape[-1]), x.dtype)
    for position in itertools.product(*map(range, out)):
        for index, tap in enumerate(itertools.product(*map(range, window))):
            at = tuple(
                p * s + t * d for p, s, t, d in zip(position, strides, tap, dilation, strict=False)
            )
            windows[(slice(None), *position, index)] = padded[(slice(None), *at)]
    return windows


@st.composite
def problems(draw: Any) -> tuple[Array, dict[str, Any]]:
    rank = draw(st.integers(1, 3))

    def each(low: int, high: int) -> tuple[int, ...]:
        return tuple(draw(st.lists(st.integers(low, high), min_size=rank, max_size=rank)))

    x = np.round(
        normal(draw(st.sampled_from([0, 1, 2, 5])), *each(1, 8), draw(st.integers(1, 4))), 1
    )
    if draw(st.booleans()):
        x = x[::-1, :, ..., ::-1]
    window = each(1, 4)
    pads = st.booleans().flatmap(lambda padded: st.integers(0, 2 if padded else 0))
    padding = tuple((min(draw(pads), w - 1), min(draw(pads), w - 1)) for w in window)
    strides = window if draw(st.booleans()) else each(1, 3)
    dilation = each(1, 3) if draw(st.booleans()) else (1,) * rank
    return x, {"window": window, "strides": strides, "padding": padding, "dilation": dilation}


@settings(max_examples=150, deadline=None)
@given(problems(), st.booleans(), st.booleans(), st.sampled_from(["float32", "float16", "int8"]))
def test_few_elements_have_the_results_of_many(
    problem: tuple[Array, dict[str, Any]], include: bool, first: bool, dtype: str
) -> None:
    """The kernels take all windows at once where they are few, with channels in both places."""
    x, attributes = problem
    x = (10 * x).astype(dtype)
    x.flat[:: max(1, x.size // 3)] = np.nan if x.dtype.kind == "f" else -128
    x = x.transpose(0, x.ndim - 1, *range(1, x.ndim - 1)) if first else x
    form = "channels_first" if first else "channels_last"
    found = []
    for few in (pooling_few._FEW, 0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pooling_few, "_FEW", few)
            pooling_few.plan_of.cache_clear()
            y, indices = KERNELS["max_pool"](x, data_format=form, **attributes)
            g = np.linspace(-1, 2, y.size, dtype=np.float32).reshape(y.shape)
            results = [y, indices]
            results += [
                KERNELS["max_pool_gather"](x, indices, data_format=form, **attributes),
                KERNELS["max_pool_gradient"](
                    g, indices, input_shape=x.shape, data_format=form, **attributes
                ),
            ]
            if x.dtype.kind == "f":
                attributes = {**attributes, "count_include_pad": include}
                results += [
                    KERNELS["avg_pool"](x, data_format=form, **attributes),
                    KERNELS["avg_pool_gradient"](
                        g, input_shape=x.shape, data_format=form, **attributes
                    ),
                ]
                attributes.pop("count_include_pad")
            found.append(results)
    pooling_few.plan_of.cache_clear()
    for place, (one, other) in enumerate(zip(*found, strict=True)):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        if place in (0, 1, 2):
            np.testing.assert_array_equal(one, other)
        else:
            bound = 1e-3 if one.dtype == np.float16 else 1e-6
            np.testing.assert_allclose(one, other, rtol=bound, atol=bound)


@settings(max_examples=150, deadline=None)
@given(problems(), st.booleans(), st.sampled_from([200, 3000, 1 << 19]))
def test_any_shape_in_blocks_of_any_size(
    problem: tuple[Array, dict[str, Any]], include: bool, block: int
) -> None:
    x, attributes = problem
    kept = x.copy()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pooling, "BLOCK_BYTES", block)
        y, indices = max_pool(x, **attributes)
        windows = windows_of(x, -np.inf, **attributes)
        assert indices.dtype == np.int32
        assert y.shape == indices.shape
        np.testing.assert_array_equal(y, windows.max(axis=-2))
        np.testing.assert_array_equal(indices, windows.argmax(axis=-2))

        g, u = normal(*y.shape, seed=1), normal(*x.shape, seed=2)
        dx = max_pool_gradient(g, indices, input_shape=x.shape, **attributes)
        picked = max_pool_gather(u, indices, **attributes)
        zeros = windows_of(u, 0, **attributes)
        np.testing.assert_array_equal(
            picked, np.take_along_axis(zeros, indices[..., None, :], -2)[..., 0, :]
        )
        assert dx.shape == x.shape
        np.testing.assert_allclose((dx * u).sum(), (g * picked).sum(), rtol=1e-9, atol=1e-9)

        mean = avg_pool(x, count_include_pad=include, **attributes)
        counts = 1 if include else windows_of(np.ones_like(x), 0, **attributes).mean(axis=-2)
        counts = np.where(counts, counts, 1)  # a dilated window in the padding alone: its mean is 0
        np.testing.assert_allclose(
            mean, windows_of(x, 0, **attributes).mean(axis=-2) / counts, atol=1e-12
        )
        shared = avg_pool_gradient(g, input_shape=x.shape, count_include_pad=include, **attributes)
        assert shared.shape == x.shape
        of_u = avg_pool(u, count_include_pad=include, **attributes)
        np.testing.assert_allclose((shared * u).sum(), (g * of_u).sum(), rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(x, kept)


def test_the_mean_of_a_window_in_the_padding_alone_is_0() -> None:
    x = np.array([-0.8, -1.3]).reshape(1, 2, 1, 1)
    how = {"window": (2, 1), "strides": (2, 1), "padding": ((1, 1), (0, 0)), "dilation": (3, 1)}
    assert avg_pool(x, count_include_pad=False, **how).tolist() == [[[[0.0]]]]
    g = np.ones((1, 1, 1, 1))
    shared = avg_pool_gradient(g, input_shape=x.shape, count_include_pad=False, **how)
    assert not shared.any()


def test_the_first_maximum_wins() -> None:
    x = np.array([[1.0, 3.0, 3.0], [3.0, 0.0, 3.0], [5.0, 5.0, 5.0]]).reshape(1, 3, 3, 1)
    y, indices = max_pool(x, **options(stride=1))
    assert y.ravel().tolist() == [3.0, 3.0, 5.0, 5.0]
    assert indices.ravel().tolist() == [1, 0, 2, 2]
    assert max_pool(np.zeros((1, 6, 6, 2)), **options(3, 3))[1].max() == 0


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16])
def test_nan_wins_and_the_first_nan_is_where_it_is(dtype: Any) -> None:
    x = np.zeros((1, 4, 4, 3), dtype)
    x[0, 0, 1, 0] = x[0, 1, 1, 0] = np.nan
    x[0, 1, 1, 2] = np.inf
    x[0, 1, 0, 2] = np.nan
    x[0, 0, 0, 1] = 2
    y, indices = max_pool(x, **options())
    assert np.isnan(y[0, 0, 0].astype(np.float64)).tolist() == [True, False, True]
    assert indices[0, 0, 0].tolist() == [1, 0, 2]
    assert y.dtype == np.dtype(dtype)


def test_infinite_gradients_stay_where_they_belong() -> None:
    x = np.arange(16, dtype=np.float32).reshape(1, 4, 4, 1)
    _, indices = max_pool(x, **options())
    dx = max_pool_gradient(
        np.full((1, 2, 2, 1), np.inf, np.float32), indices, input_shape=x.shape, **options()
    )
    assert np.isinf(dx).sum() == 4
    assert not np.isnan(dx).any()


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64, np.float32])
@pytest.mark.parametrize("pad", [(0, 0), (1, 0)])
def test_max_pool_dtypes(dtype: Any, pad: tuple[int, int]) -> None:
    x = np.random.default_rng(0).integers(0, 100, (2, 6, 6, 3)).astype(dtype)
    if np.dtype(dtype).kind != "u":
        x = -x
    least = -np.inf if np.dtype(dtype).kind == "f" else np.iinfo(dtype).min
    y, indices = max_pool(x, **options(3, 2, pad))
    windows = windows_of(x, least, **options(3, 2, pad))
    assert y.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(y, windows.max(axis=-2))
    np.testing.assert_array_equal(indices, windows.argmax(axis=-2))
    dx = max_pool_gradient(y, indices, input_shape=x.shape, **options(3, 2, pad))
    assert dx.dtype == np.dtype(dtype)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("stride", [1, 2])
def test_half_precision(dtype: Any, stride: int) -> None:
    x = normal(2, 6, 6, 3).astype(dtype)
    y, indices = max_pool(x, **options(2, stride))
    wide, wide_indices = max_pool(x.astype(np.float32), **options(2, stride))
    np.testing.assert_array_equal(y.astype(np.float32), wide)
    np.testing.assert_array_equal(indices, wide_indices)
    mean = avg_pool(x, count_include_pad=True, **options(2, stride))
    exact = avg_pool(x.astype(np.float32), count_include_pad=True, **options(2, stride)).astype(
        dtype
    )
    np.testing.assert_array_equal(mean.astype(np.float32), exact.astype(np.float32))
    attributes = {"input_shape": x.shape, **options(2, stride)}
    dtypes = {
        max_pool_gradient(y, indices, **attributes).dtype,
        max_pool_gather(x, indices, **options(2, stride)).dtype,
        avg_pool_gradient(y, count_include_pad=True, **attributes).dtype,
    }
    assert dtypes == {np.dtype(dtype)}


def test_large_windows() -> None:
    x = normal(1, 20, 20, 2)
    y, indices = max_pool(x, **options(18, 1))  # 324 taps: positions no longer fit in a byte
    windows = windows_of(x, -np.inf, **options(18, 1))
    np.testing.assert_array_equal(indices, windows.argmax(axis=-2))
    dx = max_pool_gradient(y, indices, input_shape=x.shape, **options(18, 1))
    np.testing.assert_allclose(dx.sum(), y.sum())


def test_a_mean_of_nothing_but_padding_is_zero() -> None:
    y = avg_pool(np.ones((1, 2, 2, 1)), count_include_pad=False, **options(1, 1, (1, 1)))
    assert y[0, ..., 0].tolist() == [[0, 0, 0, 0], [0, 1, 1, 0], [0, 1, 1, 0], [0, 0, 0, 0]]


def test_threads_do_not_share_scratch() -> None:
    inputs = [normal(4, 12, 12, c) for c in (3, 8, 31)]
    expected = [max_pool(x, **options(3, 2, (1, 1))) for x in inputs]
    gate = threading.Barrier(len(inputs))

    def repeats(index: int) -> bool:
        gate.wait()
        results = [max_pool(inputs[index], **options(3, 2, (1, 1))) for _ in range(30)]
        pairs = [pair for result in results for pair in zip(result, expected[index], strict=True)]
        return all(np.array_equal(ours, theirs) for ours, theirs in pairs)

    with ThreadPoolExecutor(len(inputs)) as pool:
        assert all(pool.map(repeats, range(len(inputs))))
