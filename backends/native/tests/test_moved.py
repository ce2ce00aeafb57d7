"""Stacks, padding, products by position and vectors in C, beside NumPy's kernels."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from pullback_native import _native
from pullback_native.kernels import halves
from pullback_numpy.kernels import KERNELS as NUMPY_KERNELS

DTYPES = ["bool", "int8", "float16", "float32", "int64", "complex64", "complex128", "bfloat16"]
LAYOUTS = ["plain", "transposed", "second", "swapped"]


def made(draw: Any, shape: Any, dtype: str, layout: str = "plain") -> Any:
    kind: Any = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    x = draw.integers(-9, 9, shape).astype(kind)
    if layout == "transposed":
        return np.ascontiguousarray(x.T).T
    if layout == "second":
        return np.repeat(x, 2, axis=-1)[..., ::2]
    if layout == "swapped" and dtype != "bfloat16":
        return x.astype(x.dtype.newbyteorder())
    return x


def same(found: Any, expected: Any) -> None:
    assert found.shape == expected.shape
    assert found.dtype in (expected.dtype, expected.dtype.newbyteorder())
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_joins(dtype: str, layout: str) -> None:
    draw = np.random.default_rng(1)
    for shape, count in itertools.product(
        [(4,), (3, 5), (2, 3, 4), (2, 0, 3), (2, 3000)], (1, 2, 20)
    ):
        arrays = [made(draw, shape, dtype, layout) for _ in range(count)]
        for axis in range(len(shape) + 1):
            same(_native.stack(arrays, axis=axis), np.stack(arrays, axis))
        for axis in range(len(shape)):
            other = made(draw, (*shape[:axis], 7, *shape[axis + 1 :]), dtype, layout)
            same(
                _native.concat([*arrays, other], axis=axis), np.concatenate([*arrays, other], axis)
            )
        same(_native.concat(arrays, axis=None), np.concatenate(arrays, None))
    number = made(draw, (), dtype)
    same(_native.stack([number, number], axis=0), np.stack([number, number]))


def test_what_cannot_be_joined() -> None:
    """Shapes and dtypes that differ are for NumPy's kernel, which says what is wrong."""
    for arrays in ([np.ones((2, 3)), np.ones((2, 4))], [np.ones(3), np.ones((1, 3))]):
        with pytest.raises(ValueError, match="shapes differ"):
            _native.stack(arrays, axis=0)
    with pytest.raises(ValueError, match="must match exactly"):
        _native.concat([np.ones((2, 3)), np.ones((3, 4))], axis=0)
    mixed = _native.concat([np.ones(3), np.ones(2, np.int32)], axis=0)
    assert mixed.dtype == np.float64


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_pads(dtype: str, layout: str) -> None:
    draw = np.random.default_rng(2)
    for mode in ("edge", "reflect", "symmetric", "wrap", "constant"):
        for shape in [(1,), (5,), (3, 4), (1, 4), (2, 3, 1, 4)]:
            for _ in range(4):
                widths = tuple([tuple(draw.integers(0, 8, 2).tolist()) for _ in shape])
                x = made(draw, shape, dtype, layout)
                value: Any = True if dtype == "bool" else 3
                found = _native.pad(x, pad_width=widths, mode=mode, constant_values=value)
                if mode == "constant":
                    same(found, NUMPY_KERNELS["pad"](x, pad_width=widths, mode=mode,
                                                     constant_values=value))  # fmt: skip
                else:
                    same(found, np.pad(x, widths, mode=mode))


@pytest.mark.parametrize("size", [65534, 65535])
def test_pads_of_many(size: int) -> None:
    x = np.arange(size, dtype=np.int32)
    found = _native.pad(x, pad_width=((1, 1),), mode="edge", constant_values=0)
    same(found, np.pad(x, 1, mode="edge"))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_products_by_position(dtype: str, layout: str) -> None:
    draw = np.random.default_rng(3)
    size = 2 * np.finfo(dtype).eps if dtype.startswith("f") else 0
    for shape, axis in [((6,), 0), ((5, 4), 0), ((5, 4), 1), ((2, 5, 3), 1)]:
        for kind in (np.int32, np.int64):
            many = shape[axis]
            at = draw.integers(-many, many, 9).astype(kind)
            rows = (*shape[:axis], 9, *shape[axis + 1 :])
            x, updates = made(draw, shape, dtype, layout), made(draw, rows, dtype, layout)
            for name in ("scatter_multiply", "scatter_add", "scatter_max", "scatter_min"):
                found = getattr(_native, name)(x, at, updates, axis=axis)
                expected = NUMPY_KERNELS[name](x, at, updates, axis=axis)
                assert found.shape == expected.shape
                np.testing.assert_allclose(found, expected, rtol=size)
            for segments in (many, 3 * many):
                found = _native.segment_prod(updates, at % many, num_segments=segments, axis=axis)
                expected = NUMPY_KERNELS["segment_prod"](
                    updates, at % many, num_segments=segments, axis=axis
                )
                assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
                np.testing.assert_allclose(found, expected, rtol=size)
            for outside in (many, -many - 1, 2**31 - 1):
                for name in ("scatter_multiply", "scatter_add"):
                    with pytest.raises(IndexError):
                        getattr(_native, name)(x, np.full(9, outside, kind), updates, axis=axis)


def test_products_are_rounded_once_and_integers_cut() -> None:
    x, at = np.ones(1, np.float32), np.zeros(3, np.int64)
    updates = np.array([1e30, 1e30, 1e-30], np.float32)
    assert _native.scatter_multiply(x, at, updates, axis=0) == np.float32(1e30)
    assert _native.segment_prod(updates, at, num_segments=1, axis=0) == np.float32(1e30)
    large = np.array([2**31 - 1], np.int32)
    for name in ("scatter_multiply", "scatter_add"):
        found = getattr(_native, name)(large, at, np.full(3, 2**31 - 1, np.int32), axis=0)
        same(found, NUMPY_KERNELS[name](large, at, np.full(3, 2**31 - 1, np.int32), axis=0))


def test_products_of_16_bits() -> None:
    draw = np.random.default_rng(4)
    kernel = halves.scatter_in_float32("scatter_multiply", _native.scatter_multiply)
    for dtype in ("float16", "bfloat16"):
        for size in (4, 300):
            x, updates = made(draw, (size, 3), dtype), made(draw, (5, 3), dtype)
            at = draw.integers(-size, size, 5)
            same(kernel(x, at, updates, axis=0),
                 NUMPY_KERNELS["scatter_multiply"](x, at, updates, axis=0))  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(3,), (7, 3), (2, 4, 3), (0, 3), (21846, 3)])
def test_cross(shape: Any, layout: str, dtype: str) -> None:
    draw = np.random.default_rng(5)
    a, b = (made(draw, shape, dtype, layout) / 7 for _ in range(2))
    a, b = (x.astype(dtype) for x in (a, b))
    same(_native.cross(a, b, axis=-1), NUMPY_KERNELS["cross"](a, b, axis=-1))
    same(_native.cross(a, b[..., :1, :] if len(shape) > 1 else b, axis=-1),
         NUMPY_KERNELS["cross"](a, b[..., :1, :] if len(shape) > 1 else b, axis=-1))  # fmt: skip
    turned = [np.moveaxis(x, -1, 0) for x in (a, b)]
    same(
        _native.cross(*turned, axis=-len(shape)), NUMPY_KERNELS["cross"](*turned, axis=-len(shape))
    )
