"""Pooling of few elements in C, beside NumPy's kernels."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback_native import _native
from pullback_native.kernels import pooling
from pullback_numpy.kernels import KERNELS as NUMPY_KERNELS

BOTH = ("max_pool", "avg_pool")
#: So many elements in all windows are the last that are few, for these kernels; means of eight
#: channels are many earlier.
FEW = [
    ((1, 4096, 1), 16384, BOTH), ((2, 8, 4, 32, 2), 16384, BOTH),
    ((1, 16, 16, 8), 2048, ("avg_pool",)), ((1, 16, 16, 8), 16384, ("max_pool",)),
]  # fmt: skip


def options_of(draw: Any, rank: int, data_format: str, window: Any = None) -> dict[str, Any]:
    window = window or tuple(draw.integers(1, 4, rank).tolist())
    dilation = tuple(draw.integers(1, 3, rank).tolist())
    reach = [d * (w - 1) + 1 for d, w in zip(dilation, window, strict=True)]
    return {
        "window": window,
        "strides": tuple(draw.integers(1, 4, rank).tolist()),
        "padding": tuple([tuple(draw.integers(0, r, 2).tolist()) for r in reach]),
        "dilation": dilation,
        "ceil_mode": False,
        "data_format": data_format,
    }


def laid(x: Any, layout: str) -> Any:
    """An array in another layout with the same numbers."""
    if layout == "other order":
        return np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)
    if layout == "backwards":
        return np.ascontiguousarray(x[..., ::-1])[..., ::-1]
    if layout == "second":
        return np.repeat(x, 2, axis=-1)[..., ::2]
    return x


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("data_format", ["channels_last", "channels_first"])
@pytest.mark.parametrize("layout", ["plain", "other order", "backwards", "second"])
def test_beside_numpy(dtype: Any, data_format: str, layout: str) -> None:
    draw = np.random.default_rng(3)
    for rank, turn in itertools.product((1, 2, 3), range(12)):
        spatial = tuple(draw.integers(5, 9, rank).tolist())
        sizes, channels = tuple(draw.integers(1, 3, 1).tolist()), int(draw.integers(1, 10))
        last = data_format == "channels_last"
        shape = (*sizes, *spatial, channels) if last else (*sizes, channels, *spatial)
        options = options_of(draw, rank, data_format)
        x = draw.integers(-3, 3, shape).astype(dtype)  # equal ones, too
        x[draw.random(shape) < 0.05 * (turn % 3)] = draw.choice([np.nan, np.inf, -np.inf])
        x = laid(x, layout)
        y, at = _native.max_pool(x, **options)
        expected, places = NUMPY_KERNELS["max_pool"](x, **options)
        np.testing.assert_array_equal(y, expected)
        np.testing.assert_array_equal(at, places)
        assert (y.dtype, at.dtype, y.flags.c_contiguous) == (x.dtype, np.int32, True)
        g = laid(draw.standard_normal(y.shape).astype(dtype), layout)
        at = laid(at, layout)
        size = 4 * np.finfo(dtype).eps
        found = _native.max_pool_gradient(g, at, input_shape=shape, **options)
        dx = NUMPY_KERNELS["max_pool_gradient"](g, places, input_shape=shape, **options)
        np.testing.assert_allclose(found, dx, rtol=size, atol=9 * size)
        assert found.dtype == x.dtype
        x = laid(draw.standard_normal(shape).astype(dtype), layout)
        for counted in (False, True):
            both = {**options, "count_include_pad": counted}
            found = _native.avg_pool(x, **both)
            mean = NUMPY_KERNELS["avg_pool"](x, **both)
            np.testing.assert_allclose(found, mean, rtol=size, atol=9 * size)
            assert found.dtype == x.dtype
            found = _native.avg_pool_gradient(g, input_shape=shape, **both)
            dx = NUMPY_KERNELS["avg_pool_gradient"](g, input_shape=shape, **both)
            np.testing.assert_allclose(found, dx, rtol=size, atol=9 * size)


@pytest.mark.parametrize(("shape", "limit", "kernels"), FEW)
@pytest.mark.parametrize("more", [0, 1])
def test_on_both_sides_of_few(shape: Any, limit: int, kernels: Any, more: int) -> None:
    """Many elements are handed over; both have the same numbers."""
    rank = len(shape) - 2
    window = (limit // int(np.prod(shape)),) + (1,) * (rank - 1)
    options: dict[str, Any] = {
        "window": window, "strides": (1,) * rank, "ceil_mode": False, "dilation": (1,) * rank,
        "padding": (
            (window[0] // 2 + more, window[0] - window[0] // 2 - 1), *[(0, 0)] * (rank - 1)
        ),
        "data_format": "channels_last",
    }  # fmt: skip
    asked: list[str] = []
    try:
        _native.prepare({**NUMPY_KERNELS, **{
            name: lambda *_, name=name, **__: asked.append(name) or (None, None)
            for name in ("max_pool", "max_pool_gradient", "avg_pool", "avg_pool_gradient")
        }}, lambda: 1)  # fmt: skip
        x = np.random.default_rng(4).standard_normal(shape).astype("f4")
        if "max_pool" in kernels:
            _native.max_pool(x, **options)
        if "avg_pool" in kernels:
            _native.avg_pool(x, count_include_pad=True, **options)
        assert asked == [*kernels] * more
    finally:
        from pullback.dtypes import bfloat16
        from pullback_native.kernels import FALLBACKS
        from pullback_numpy import threads

        _native.prepare(NUMPY_KERNELS | FALLBACKS, threads.threads, bfloat16)
    y, at = _native.max_pool(x, **options)
    expected, places = NUMPY_KERNELS["max_pool"](x, **options)
    np.testing.assert_array_equal(y, expected)
    np.testing.assert_array_equal(at, places)


@pytest.mark.parametrize("channels", [8, 17])
@pytest.mark.parametrize("window", [(2, 4), (3, 3)])
@pytest.mark.parametrize("images", [1, 40])
def test_gradients_of_windows_apart(channels: int, window: Any, images: int) -> None:
    """Each element is in one window at most: it has the bits of its share, that of -0 too."""
    shape = (images, 11, 16, channels)
    options: dict[str, Any] = {
        "window": window, "strides": (3, 4), "padding": ((1, 1), (0, 1)), "dilation": (1, 1),
        "ceil_mode": False, "data_format": "channels_last", "count_include_pad": False,
    }  # fmt: skip
    out = NUMPY_KERNELS["avg_pool"](np.zeros(shape, np.float32), **options).shape
    g = np.random.default_rng(5).standard_normal(out).astype(np.float32)
    g[0, 0, 0, :2] = -0.0, np.nan
    found = _native.avg_pool_gradient(g, input_shape=shape, **options)
    expected = NUMPY_KERNELS["avg_pool_gradient"](g, input_shape=shape, **options)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


def test_indices_outside_of_windows_are_refused() -> None:
    options: dict[str, Any] = {
        "window": (2,), "strides": (2,), "padding": ((0, 0),), "dilation": (1,),
        "ceil_mode": False, "data_format": "channels_last", "input_shape": (1, 4, 1),
    }  # fmt: skip
    g = np.ones((1, 2, 1), np.float32)
    for index in (2, -3, 2**31 - 1, -(2**31)):
        at = np.full((1, 2, 1), index, np.int32)
        try:
            found = _native.max_pool_gradient(g, at, **options)
        except (IndexError, ValueError):
            continue
        assert found.shape == (1, 4, 1)


@pytest.mark.parametrize("name", ["avg_pool", "max_pool"])
def test_odd_attributes_are_handed_over(name: str) -> None:
    """A rank, a format and sizes in lists or of other lengths are for the kernels in Python."""
    x = np.ones((1, 4, 4, 2), np.float32)
    options: dict[str, Any] = {
        "window": (2, 2), "strides": (2, 2), "padding": ((0, 0), (0, 0)), "dilation": (1, 1),
        "ceil_mode": False, "data_format": "channels_last",
    }  # fmt: skip
    if name == "avg_pool":
        options["count_include_pad"] = False
    compiled = getattr(_native, name)
    for odd in ({"window": [2, 2]}, {"window": (2,)}, {"padding": ((0,), (0, 0))}):
        try:
            compiled(x, **{**options, **odd})
        except (TypeError, ValueError, IndexError):
            continue
    assert pooling.KERNELS["avg_pool"](x, **{**options, "count_include_pad": False,
                                             "ceil_mode": True}) is NotImplemented  # fmt: skip


def adapted(x: Any, sizes: Any, first: int, reduce: Any) -> Any:
    """Pools x to sizes, one axis after the other: windows are products of intervals."""
    for axis, count in enumerate(sizes, start=first):
        size = x.shape[axis]
        parts = [
            reduce(x.take(range(i * size // count, -(-(i + 1) * size // count)), axis), axis)
            for i in range(count)
        ]
        x = np.stack(parts, axis)
    return x


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("data_format", ["channels_last", "channels_first"])
def test_adaptive_pooling(dtype: str, data_format: str) -> None:
    draw = np.random.default_rng(9)
    first, served = 1 if data_format == "channels_last" else 2, 0
    for _ in range(60):
        rank = int(draw.integers(1, 4))
        shape = tuple(draw.integers(1, 14, rank + 2).tolist())
        spatial = shape[first : first + rank]
        whole = tuple([int(draw.integers(1, size + 2)) for size in spatial])
        given: Any = tuple([None if n == s else n for n, s in zip(whole, spatial, strict=True)])
        given = whole[0] if len(set(whole)) == 1 else given
        x = draw.standard_normal(shape).astype(dtype)
        for name, reduce in (("adaptive_avg_pool", np.mean), ("adaptive_max_pool", np.max)):
            found = getattr(pb, name)(x, given, data_format=data_format).numpy()
            expected = adapted(x.astype("f8"), whole, first, reduce)
            assert (found.shape, found.dtype) == (expected.shape, x.dtype)
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
            own = pooling.KERNELS[name](x, output_size=given, data_format=data_format)
            served += own is not NotImplemented
    assert 20 < served < 110
