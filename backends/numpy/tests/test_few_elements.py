"""Kernels for few elements, beside those for many, on both sides of their limits."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest

from pullback.shapes import output_sizes
from pullback_numpy import convolution
from pullback_numpy.kernels import KERNELS, elementwise, factors, linalg


def test_convolution(monkeypatch: pytest.MonkeyPatch) -> None:
    draw, few = np.random.default_rng(0), convolution._few
    taken = set()
    for dtype in ("float32", "float64") * 40:
        rank = int(draw.integers(1, 4))
        window = tuple(draw.integers(1, 4, rank).tolist())
        strides = tuple(draw.integers(1, 3, rank).tolist())
        dilation = tuple(draw.integers(1, 3, rank).tolist())
        padding = tuple((int(a), int(b)) for a, b in draw.integers(0, 3, (rank, 2)))
        groups = channels = int(draw.integers(1, 9))
        features = channels
        if draw.random() < 0.7:
            groups, features = 1, int(draw.integers(1, 9))
        spatial = draw.integers(3, 40 if rank == 1 else 9, rank)
        x = draw.standard_normal((int(draw.integers(1, 4)), *spatial, channels)).astype(dtype)
        kernel = draw.standard_normal((*window, channels // groups, features)).astype(dtype)
        options: dict[str, Any] = {
            "strides": strides, "padding": padding, "dilation": dilation, "groups": groups,
        }  # fmt: skip
        out = output_sizes(x.shape[1:-1], window, strides, padding, dilation)
        if min(out) < 1:
            continue
        g = draw.standard_normal((len(x), *out, features)).astype(dtype)
        # As an image that is a view, and one that is not.
        views = [x, np.ascontiguousarray(x.swapaxes(0, 1)).swapaxes(0, 1)]
        found, wide = [], (x.astype("f8"), kernel.astype("f8"), g.astype("f8"))
        for image in views:
            found.append((
                convolution.conv(image, kernel, **options),
                convolution.conv_kernel_gradient(image, g, kernel_shape=kernel.shape, **options),
                convolution.conv_input_gradient(g, kernel, input_shape=x.shape, **options),
            ))  # fmt: skip
        taken.add(few(x.shape, window, strides, padding, dilation, groups, features) is not None)
        monkeypatch.setattr(convolution, "_few", lambda *_: None)
        expected = (
            convolution.conv(*wide[:2], **options),
            convolution.conv_kernel_gradient(
                wide[0], wide[2], kernel_shape=kernel.shape, **options
            ),
            convolution.conv_input_gradient(wide[2], wide[1], input_shape=x.shape, **options),
        )
        monkeypatch.setattr(convolution, "_few", few)
        terms = prod(window) * channels * len(x) * prod(out)
        for results in found:
            for y, exact in zip(results, expected, strict=True):
                assert y.dtype == dtype
                assert y.shape == exact.shape
                bound = 8 * np.finfo(dtype).eps * np.sqrt(terms) + 1e-12
                np.testing.assert_allclose(y, exact, rtol=bound, atol=10 * bound)
    assert taken == {True, False}


def _placed(x: Any, window: Any, strides: Any, padding: Any, dilation: Any) -> Any:
    """The maxima and their pixels of images with the channels last, one window at a time."""
    spatial = x.shape[1:-1]
    out = output_sizes(spatial, window, strides, padding, dilation)
    values = np.empty((len(x), *out, x.shape[-1]), x.dtype)
    pixels = np.empty(values.shape, np.int64)
    for at in np.ndindex(*values.shape):
        best: Any = None
        for tap in np.ndindex(*window):
            place = [
                i * s - p[0] + t * d
                for i, s, p, t, d in zip(at[1:-1], strides, padding, tap, dilation, strict=True)
            ]
            if all(0 <= i < n for i, n in zip(place, spatial, strict=True)):
                value = x[(at[0], *place, at[-1])]
                if best is None or value > best:
                    best = value
                    pixels[at] = np.ravel_multi_index(place, spatial)
        values[at] = best
    return values, pixels


@pytest.mark.parametrize("dtype", ["float16", "float32", "int32"])
def test_max_pool_with_indices(dtype: str) -> None:
    draw = np.random.default_rng(1)
    for _ in range(25):
        rank = int(draw.integers(1, 3))
        window = tuple(draw.integers(1, 4, rank).tolist())
        strides = tuple(draw.integers(1, 3, rank).tolist())
        dilation = tuple(draw.integers(1, 3, rank).tolist())
        # No window lies in the padding alone: its maximum is a matter of the conformance kit.
        padding = tuple((int(draw.integers(0, 2)) if w > 1 else 0, 0) for w in window)
        spatial = draw.integers(6, 9, rank)
        x: Any = draw.permutation(2 * 3 * prod(spatial)).reshape(2, *spatial, 3).astype(dtype)
        options = {"window": window, "strides": strides, "padding": padding, "dilation": dilation}
        values, pixels = _placed(x, window, strides, padding, dilation)
        for data_format in ("channels_last", "channels_first"):
            first = data_format == "channels_first"
            images = np.moveaxis(x, -1, 1) if first else x
            found = KERNELS["max_pool_with_indices"](
                images, data_format=data_format, ceil_mode=False, **options
            )
            y, at = [np.moveaxis(one, 1, -1) if first else one for one in found[:2]]
            np.testing.assert_array_equal(y, values)
            np.testing.assert_array_equal(at, pixels)
            assert at.dtype == np.int64


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_lu_factor(dtype: str) -> None:
    draw = np.random.default_rng(2)
    for m, n in [(1, 1), (3, 3), (6, 6), (9, 4), (4, 9), (6, 7), (7, 6), (2, 5)] * 3:
        x: Any = draw.standard_normal((m, n)).astype(dtype)
        if draw.random() < 0.3:
            x[:, 0] = 0
        lu, pivots = KERNELS["lu_factor"](x)
        expected, places = KERNELS["lu_factor"](np.stack([x, x]))
        np.testing.assert_array_equal(pivots, places[0])
        np.testing.assert_allclose(lu, expected[0], rtol=1e-4 if dtype == "float32" else 1e-12)
        assert lu.dtype == x.dtype
        assert pivots.dtype == np.int32
    for odd in (np.nan, np.inf):
        x = draw.standard_normal((3, 3)).astype(dtype)
        x[1, 2] = odd
        for found, one in zip(
            KERNELS["lu_factor"](x), KERNELS["lu_factor"](np.stack([x, x])), strict=True
        ):
            np.testing.assert_array_equal(found, one[0])
    assert factors._FEW == 36


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "int64", "uint64"])
def test_what_integers_leave_by_one(dtype: str) -> None:
    draw, info = np.random.default_rng(3), np.iinfo(dtype)
    numbers = [1, 2, 3, 7, 10, info.max, info.max - 1, *([-1, -3, info.min] if info.min else [])]
    for n in (elementwise._DIVIDED - 1, elementwise._DIVIDED, 1000):
        x = draw.integers(info.min, info.max, n, dtype=dtype, endpoint=True)
        x[:2] = info.min, info.max
        for number in numbers:
            by = np.asarray(number, dtype)
            found = KERNELS["remainder"](x, by)
            assert found.dtype == x.dtype
            # Python's integers neither wrap around nor are rounded.
            expected = [int(one) % number for one in x]
            np.testing.assert_array_equal(found, np.array(expected, dtype))


@pytest.mark.parametrize("dtype", ["float16", "float32", "complex64", "int64"])
def test_cross(dtype: str) -> None:
    draw, limit = np.random.default_rng(4), linalg._FEW_IN_VECTORS // 3
    for shape, axis in [
        ((3,), -1), ((4, 3), -1), ((3, 4), -2), ((2, 3, 5), -2), ((limit, 3), -1),
        ((limit + 1, 3), -1),
    ]:  # fmt: skip
        x1, x2 = [(draw.standard_normal(shape) * 9).astype(dtype) for _ in range(2)]
        y = KERNELS["cross"](x1, x2, axis=axis)
        wide = "complex128" if dtype == "complex64" else "float64"
        exact = np.cross(x1.astype(wide), x2.astype(wide), axis=axis)
        assert y.dtype == x1.dtype
        assert y.flags.c_contiguous
        np.testing.assert_allclose(y, exact, rtol=2e-3, atol=0.3 if dtype == "float16" else 1e-4)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_hard_shrink(dtype: str) -> None:
    x: Any = np.array([-np.inf, -2, -0.5, -0.25, -0.0, 0, 0.5, 0.75, np.inf, np.nan], dtype)
    for shape in ((10,), (2, 5), (1,) * 3 + (10,)):
        y = KERNELS["hard_shrink"](x.reshape(shape), threshold=0.5)
        expected = np.where(np.abs(x) <= 0.5, 0, x).reshape(shape)
        np.testing.assert_array_equal(y, expected)
        assert y.dtype == x.dtype


def test_bitcast() -> None:
    x = np.arange(24, dtype=np.int32).reshape(4, 6)
    for one in (x, x.T, x[::-1, ::2]):
        flat = np.ascontiguousarray(one)
        same = KERNELS["bitcast"](one, dtype=np.dtype("f4"), parts=1, whole=1)
        np.testing.assert_array_equal(same, flat.view("f4"))
        parts = KERNELS["bitcast"](one, dtype=np.dtype("i2"), parts=2, whole=1)
        np.testing.assert_array_equal(parts, flat[..., None].view("i2"))
        back = KERNELS["bitcast"](parts, dtype=np.dtype("i4"), parts=1, whole=2)
        np.testing.assert_array_equal(back, one)
    scalar = KERNELS["bitcast"](np.array(1.0, "f4"), dtype=np.dtype("u4"), parts=1, whole=1)
    assert scalar.shape == ()
    assert int(scalar) == 0x3F800000
