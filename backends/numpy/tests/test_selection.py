"""Selection of the largest elements, against a stable sort and against reductions of NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pullback_numpy.kernels import KERNELS
from pullback_numpy.typing import Array


def drawn(draw: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    """Random elements: many or few are equal, some infinite and some NaN."""
    levels = int(draw.choice([1, 2, 10, 1000, 10**9]))
    x: Array = draw.integers(0, levels, shape).astype(dtype)  # infinities of float16 too
    if x.dtype.kind == "f":
        for value in (np.inf, -np.inf, np.nan):
            if draw.random() < 0.3:
                x[draw.random(shape) < draw.choice([0.01, 0.5])] = value
    return x


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "uint8", "int64"])
def test_top_k(dtype: str) -> None:
    draw = np.random.default_rng(0)
    for _ in range(60):
        shape = (int(draw.integers(1, 40)), int(draw.integers(8, 600)))
        x, axis, largest = drawn(draw, shape, dtype), int(draw.integers(2)), bool(draw.integers(2))
        k = int(draw.integers(1, min(shape[axis], 20) + 1))
        values, indices = KERNELS["top_k"](x, k=k, axis=axis, largest=largest)
        expected: Any = KERNELS["argsort"](x, axis=axis, descending=largest, stable=True)
        expected = expected.take(range(k), axis)
        assert (indices == expected).all(), (shape, axis, k, largest)
        assert np.array_equal(
            values, np.take_along_axis(x, expected, axis), equal_nan=x.dtype.kind == "f"
        )


def test_top_k_of_equal_extremes() -> None:
    # What fills a row of candidates up is equal to the elements themselves.
    for dtype, value in (("int32", np.iinfo("int32").min), ("float64", -np.inf)):
        x = np.full((64, 256), value, dtype)
        x[::2, 100] = 1
        indices = KERNELS["top_k"](x, k=3, axis=-1, largest=True)[1]
        assert (indices[::2] == [100, 0, 1]).all()
        assert (indices[1::2] == [0, 1, 2]).all()


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "uint8"])
def test_extrema_over_short_axes(dtype: str) -> None:
    draw = np.random.default_rng(0)
    shapes = [(1500, 4), (4, 1500), (9000, 1), (1, 5000), (300, 2, 17), (5, 1030, 3), (3, 2000)]
    for shape in [*shapes, (7, 700, 33), (1200, 32), (2, 5000, 1), (6000,), (0, 5000), (5000, 0)]:
        x = drawn(draw, shape, dtype)
        for axis in range(x.ndim):
            if not x.shape[axis]:
                continue
            for keepdims in (False, True):
                for name, ufunc in (("max", np.maximum), ("min", np.minimum)):
                    found = KERNELS[name](x, axis=(axis,), keepdims=keepdims)
                    expected = ufunc.reduce(x, axis, keepdims=keepdims)
                    assert found.dtype == x.dtype
                    np.testing.assert_array_equal(found, expected)
