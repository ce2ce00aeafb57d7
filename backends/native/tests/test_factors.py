"""LU factors and systems of triangles in C, beside NumPy's kernels and LAPACK."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback_native import _native
from pullback_native.kernels import declining
from pullback_numpy.kernels import KERNELS as NUMPY_KERNELS

SHAPES = [
    (1, 1),
    (3, 3),
    (4, 7),
    (7, 4),
    (5, 6, 6),
    (2, 3, 4, 4),
    (128, 128),
    (129, 129),
    (0, 3, 3),
]


def laid(x: Any, layout: str) -> Any:
    if layout == "transposed":
        return np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2)
    return np.repeat(x, 2, axis=-1)[..., ::2] if layout == "second" else x


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("layout", ["plain", "transposed", "second"])
@pytest.mark.parametrize("shape", SHAPES)
def test_lu_factor(shape: Any, layout: str, dtype: Any) -> None:
    draw, eps = np.random.default_rng(1), np.finfo(dtype).eps
    x = laid(draw.standard_normal(shape).astype(dtype), layout)
    before = x.copy()
    lu, pivots = _native.lu_factor(x)
    np.testing.assert_array_equal(x, before)
    expected, places = NUMPY_KERNELS["lu_factor"](x)
    np.testing.assert_array_equal(pivots, places)
    assert (lu.dtype, pivots.dtype, lu.shape) == (x.dtype, np.int32, x.shape)
    m, n = shape[-2:]
    np.testing.assert_allclose(lu, expected, rtol=0, atol=200 * max(m, n) * eps)
    if not x.size:
        return
    lower = np.tril(lu[..., : min(m, n)], -1).astype("f8") + np.eye(m, min(m, n))
    order = NUMPY_KERNELS["row_order"](pivots, rows=m)
    product = lower @ np.triu(lu[..., : min(m, n), :]).astype("f8")
    rows = np.take_along_axis(x, order[..., None], axis=-2)
    assert np.abs(product - rows).max() <= 8 * max(m, n) * eps * np.abs(x).max()


def test_odd_matrices_have_factors() -> None:
    """NaN is the largest pivot, and the first of equal ones is taken, as by NumPy's kernel."""
    draw = np.random.default_rng(2)
    for _ in range(200):
        x = draw.choice(
            [0.0, 1.0, -1.0, 2.0, np.nan, np.inf], (4, 4), p=[0.4, 0.2, 0.2, 0.1, 0.05, 0.05]
        )
        with np.errstate(all="ignore"):
            lu, pivots = _native.lu_factor(x)
            expected, places = NUMPY_KERNELS["lu_factor"](x[None])
        np.testing.assert_array_equal(pivots, places[0])
        np.testing.assert_array_equal(np.isfinite(lu), np.isfinite(expected[0]))
        fine = np.isfinite(lu)
        np.testing.assert_allclose(lu[fine], expected[0][fine], rtol=1e-14, atol=1e-15)


def test_nan_spreads_as_in_numpys_kernel() -> None:
    draw = np.random.default_rng(4)
    for _ in range(200):
        x = draw.standard_normal((2, *draw.integers(1, 7, 2)))
        x.reshape(-1)[draw.integers(x.size, size=2)] = draw.choice([np.inf, -np.inf, np.nan], 2)
        with np.errstate(all="ignore"):
            for one, other in zip(_native.lu_factor(x), NUMPY_KERNELS["lu_factor"](x), strict=True):
                np.testing.assert_array_equal(np.isnan(one), np.isnan(other))


#: Systems, and whether they are solved in C.
SYSTEMS = [
    ((3, 3), (3,), True), ((3, 3), (3, 2), True), ((3, 3), (4, 3, 2), True),
    ((4, 3, 3), (4, 3, 2), True), ((4, 3, 3), (3, 2), True), ((2, 4, 3, 3), (2, 4, 3, 1), True),
    ((128, 128), (128, 3), True), ((129, 129), (129, 3), False), ((2, 1, 3, 3), (4, 3, 2), False),
    ((1, 3, 3), (4, 3, 2), False), ((0, 0), (0, 2), False),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("layout", ["plain", "transposed", "second"])
@pytest.mark.parametrize(("matrices", "sides", "served"), SYSTEMS)
def test_systems(matrices: Any, sides: Any, served: bool, layout: str, dtype: Any) -> None:
    draw, eps = np.random.default_rng(3), np.finfo(dtype).eps
    n = matrices[-1]
    x1 = laid((draw.standard_normal(matrices) + 2 * np.sqrt(n) * np.eye(n)).astype(dtype), layout)
    x2 = draw.standard_normal(sides).astype(dtype)
    x2 = laid(x2, layout) if x2.ndim > 1 else x2
    columns = x2[:, None] if x2.ndim == 1 else x2
    kernel: Any = declining.KERNELS["solve_triangular"]
    for upper in (False, True):
        for unit in (False, True):
            y = kernel(x1, x2, upper=upper, unit_diagonal=unit)
            assert (y is not NotImplemented) == served
            if not served:
                continue
            triangle = (np.triu if upper else np.tril)(x1).astype("f8")
            if unit:
                triangle = np.where(np.eye(n, dtype=bool), 1, triangle)
            if unit and n > 4:
                continue  # badly conditioned
            wide = np.linalg.solve(
                triangle,
                np.broadcast_to(
                    columns,
                    (*y.shape[: y.ndim - 2], *columns.shape[-2:]) if x2.ndim > 1 else columns.shape,
                ).astype("f8"),
            )
            wide = wide[..., 0] if x2.ndim == 1 else wide
            assert (y.shape, y.dtype) == (wide.shape, x2.dtype)
            scale = np.linalg.cond(triangle).max() * np.abs(wide).max()
            np.testing.assert_allclose(y, wide, rtol=0, atol=8 * n * eps * scale)
    kernel = declining.KERNELS["lu_solve"]
    lu, pivots = NUMPY_KERNELS["lu_factor"](x1)
    y = kernel(lu, pivots, x2)
    assert (y is not NotImplemented) == served
    if served:
        back = x1 @ (y[:, None] if x2.ndim == 1 else y)
        np.testing.assert_allclose(back, np.broadcast_to(columns, back.shape), atol=64 * n * eps)


def test_what_no_kernel_solves() -> None:
    """A 0 on the diagonal and a pivot that is not a row are for the bodies, which say so."""
    singular, side = np.array([[1.0, 2.0], [3.0, 0.0]]), np.ones(2)
    options = {"upper": True, "unit_diagonal": False}
    assert declining.KERNELS["solve_triangular"](singular, side, **options) is NotImplemented
    with pytest.raises(pb.errors.InputValueError):
        pb.linalg.solve_triangular(singular, side, upper=True)
    pivots = np.array([0, 1], np.int32)
    assert declining.KERNELS["lu_solve"](singular, pivots, side) is NotImplemented
    with pytest.raises(pb.errors.InputValueError):
        pb.linalg.lu_solve(singular, pivots, side)
    for odd in ([0, 2], [-1, 1], [0, 2**31 - 1]):
        found = declining.KERNELS["lu_solve"](np.eye(2), np.array(odd, np.int32), side)
        assert found is NotImplemented
    unit: Any = declining.KERNELS["solve_triangular"](
        singular, side, upper=True, unit_diagonal=True
    )
    np.testing.assert_allclose(unit, [-1, 1])
