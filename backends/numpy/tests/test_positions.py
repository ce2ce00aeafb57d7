"""Elements by position: gathered, placed and rolled, against NumPy's own functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pullback_numpy.kernels import KERNELS, indexing, pointwise


def shape_of(draw: np.random.Generator, most: int, axes: int = 3) -> tuple[int, ...]:
    return tuple(int(n) for n in draw.integers(1, most, draw.integers(1, axes + 1)))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "complex64"])
def test_place_along_axis(dtype: str) -> None:
    draw = np.random.default_rng(0)
    sizes = set()
    for _ in range(80):
        shape = shape_of(draw, int(draw.choice([3, 9])))
        axis = int(draw.integers(len(shape)))
        taken = (*shape[:axis], int(draw.integers(1, 12)), *shape[axis + 1 :])
        indices = draw.integers(-shape[axis], shape[axis], taken)
        values: Any = draw.standard_normal(taken).astype(dtype)
        expected = np.zeros(shape, np.complex128)
        for place in np.ndindex(*taken):
            to = (*place[:axis], indices[place], *place[axis + 1 :])
            expected[to] += values[place]
        found = KERNELS["place_along_axis"](values, indices, shape=shape, axis=axis)
        assert found.dtype == values.dtype
        np.testing.assert_allclose(found, expected, rtol=2e-3, atol=2e-3)
        sizes.add(values.size > indexing._FEW)
    assert sizes == {True, False}
    with pytest.raises(IndexError):
        KERNELS["place_along_axis"](values, indices + 100, shape=shape, axis=axis)


def test_gather_nd() -> None:
    draw = np.random.default_rng(1)
    for _ in range(60):
        shape = shape_of(draw, 5)
        count = int(draw.integers(1, len(shape) + 1))
        places = shape_of(draw, 4, 2)
        each = [draw.integers(-n, n, places) for n in shape[:count]]
        x = draw.standard_normal(shape)
        found = KERNELS["gather_nd"](x, np.stack(each, -1))
        assert isinstance(found, np.ndarray)
        np.testing.assert_array_equal(found, x[tuple(each)])
        one = KERNELS["gather_nd"](x, np.array([each_[(0,) * len(places)] for each_ in each]))
        assert isinstance(one, np.ndarray)
    for empty in (np.zeros((0, 3)), np.zeros((3, 0))):
        with pytest.raises(IndexError):
            KERNELS["gather_nd"](empty, np.array([[5]]))


def test_roll_over_several_axes() -> None:
    draw = np.random.default_rng(2)
    for _ in range(60):
        shape = shape_of(draw, 6)
        axes = tuple(int(a) for a in draw.integers(0, len(shape), draw.integers(1, 4)))
        shift = tuple(int(s) for s in draw.integers(-9, 9, len(axes)))
        x = draw.standard_normal(shape)
        found = KERNELS["roll"](x, shift=shift, axis=axes)
        np.testing.assert_array_equal(found, np.roll(x, shift, axes))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_celu_of_few_elements(dtype: str) -> None:
    draw = np.random.default_rng(3)
    for size in (1, 10, pointwise._FEW):
        x = 10 * draw.standard_normal(size).astype(dtype)
        for alpha in (0.5, 1.0, 3.0):
            wide = x.astype(np.float64)
            expected = np.where(wide > 0, wide, alpha * np.expm1(np.minimum(wide, 0) / alpha))
            found = KERNELS["celu"](x, alpha=alpha)
            assert found.dtype == x.dtype
            np.testing.assert_allclose(found, expected, rtol=1e-6)
    edges = np.array([np.inf, -np.inf, np.nan, -0.0, 0.0], dtype)
    np.testing.assert_array_equal(
        KERNELS["celu"](edges, alpha=2.0), np.array([np.inf, -2, np.nan, 0, 0], dtype)
    )
    for other in (np.zeros(pointwise._FEW + 1, dtype), np.zeros((), dtype)):
        assert KERNELS["celu"](other, alpha=1.0) is NotImplemented


@pytest.mark.parametrize("data_format", ["channels_last", "channels_first"])
@pytest.mark.parametrize("size", [4, 40])
def test_maxima_alone_are_those_with_their_places(data_format: str, size: int) -> None:
    x = np.random.default_rng(4).standard_normal((2, size, size, 3)).astype(np.float32)
    x[0, 1, 1] = np.nan
    options: Any = {
        "window": (2, 2), "strides": (2, 2), "padding": ((0, 0), (1, 1)),
        "data_format": data_format,
    }  # fmt: skip
    y, _ = KERNELS["max_pool"](x, **options)
    np.testing.assert_array_equal(KERNELS["max_pool"](x, residuals=False, **options), y)


@pytest.mark.parametrize("dtype", ["float32", "int64", "complex64"])
def test_put_along_axis(dtype: str) -> None:
    draw = np.random.default_rng(8)
    for _ in range(80):
        shape = shape_of(draw, 6)
        axis = int(draw.integers(len(shape)))
        taken = (*shape[:axis], int(draw.integers(1, 7)), *shape[axis + 1 :])
        beside = [1 if draw.random() < 0.3 else n for n in taken]
        beside[axis] = taken[axis]
        x = draw.standard_normal(shape).astype(dtype)
        indices = draw.integers(-shape[axis], shape[axis], beside)
        values: Any = draw.standard_normal([1 if draw.random() < 0.3 else n for n in taken])
        values = values.astype(dtype)
        expected, every = x.copy(), np.broadcast_to(values, taken)
        wide = np.broadcast_to(indices, taken)
        for place in np.ndindex(*taken):  # of equal indices the last one in C order is kept
            expected[(*place[:axis], wide[place], *place[axis + 1 :])] = every[place]
        for back in (False, True):
            given: list[Any] = [x, indices, values]
            if back:  # the same values in reversed memory
                given = [np.flip(np.ascontiguousarray(np.flip(one))) for one in given]
            found = KERNELS["put_along_axis"](*given, axis=axis)
            np.testing.assert_array_equal(found, expected)
    for wrong in (np.zeros((3, 2), np.int64), np.zeros((1, 2, 1), np.int64)):
        with pytest.raises((ValueError, IndexError)):
            KERNELS["put_along_axis"](np.zeros((1, 4)), wrong, np.zeros(wrong.shape), axis=1)


@pytest.mark.parametrize("mode", ["update", "add", "multiply", "max", "min"])
def test_scatter_nd(mode: str) -> None:
    draw = np.random.default_rng(9)
    combine = {
        "update": lambda _, b: b, "add": np.add, "multiply": np.multiply, "max": np.maximum,
        "min": np.minimum,
    }[mode]  # fmt: skip
    for _ in range(40):
        shape = shape_of(draw, 5)
        count = int(draw.integers(1, len(shape) + 1))
        places = shape_of(draw, 4, 2)
        at = np.stack([draw.integers(-n, n, places) for n in shape[:count]], -1)
        x = draw.standard_normal(shape)
        updates = draw.standard_normal((*places, *shape[count:]))
        expected = x.copy()
        for place in np.ndindex(*places):
            key = tuple(at[place])
            expected[key] = combine(expected[key], updates[place])
        found = KERNELS["scatter_nd"](x, at, updates, mode=mode)
        np.testing.assert_allclose(found, expected, rtol=1e-13)
    with pytest.raises(ValueError, match="fit"):
        KERNELS["scatter_nd"](x, at, updates[..., None], mode=mode)
    with pytest.raises(IndexError):
        KERNELS["scatter_nd"](x, at + 100, updates, mode=mode)
