"""Kernels by position, recurrences and distances: what is exact, and what is left to NumPy."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pullback as pb
from pullback_native import _native
from pullback_numpy.kernels import KERNELS as NUMPY_KERNELS


def _normal(*shape: int, dtype: Any = np.float64) -> Any:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(dtype)


class TestCrowds:
    """Sums of many numbers into one place keep what additions lose."""

    x = _normal(100_000) * 1e6

    def test_segment_sum(self) -> None:
        ids = np.zeros(self.x.size, np.int64)
        (total,) = _native.segment_sum(self.x, ids, num_segments=1, axis=0)
        assert abs(total - math.fsum(self.x)) <= np.spacing(abs(total))

    def test_place_along_axis(self) -> None:
        ids = np.zeros((1, self.x.size), np.int64)
        total = _native.place_along_axis(self.x[None], ids, shape=(1, 1), axis=1)[0, 0]
        assert abs(total - math.fsum(self.x)) <= np.spacing(abs(total))

    def test_linear_recurrence(self) -> None:
        ones = np.ones_like(self.x)
        sums = _native.linear_recurrence(ones, self.x, axis=0, reverse=False)
        assert abs(sums[-1] - math.fsum(self.x)) <= 2 * np.spacing(abs(sums[-1]))

    @pytest.mark.parametrize("more", [np.inf, -np.inf, np.nan])
    def test_infinities_stay(self, more: float) -> None:
        x = self.x.copy()
        x[5] = more
        ids = np.zeros(x.size, np.int64)
        ones = np.ones_like(x)
        (total,) = _native.segment_sum(x, ids, num_segments=1, axis=0)
        sums = _native.linear_recurrence(ones, x, axis=0, reverse=False)
        assert np.isfinite(sums[:5]).all()
        np.testing.assert_equal([total, *sums[[5, -1]]], [more] * 3)


class TestTakeAlongAxis:
    @pytest.mark.parametrize("bad", [7, -8, 2**40])
    def test_a_position_out_of_range_is_an_error(self, bad: int) -> None:
        ids, x = np.array([[0], [bad]]), np.zeros((2, 7), np.float32)
        with pytest.raises(IndexError):
            _native.take_along_axis(x, ids, axis=1)
        with pytest.raises((IndexError, ValueError)):
            _native.place_along_axis(x[:, :1], ids, shape=(2, 7), axis=1)

    @pytest.mark.parametrize("dtype", ["bool", "int8", "float16", "float64", "complex128"])
    def test_all_layouts(self, dtype: str) -> None:
        x = _normal(6, 5, 4, dtype=dtype)
        ids = np.random.default_rng(0).integers(-5, 5, (1, 3, 4))
        for one in (x, x[::-1], np.asfortranarray(x), np.broadcast_to(x[:1], x.shape)):
            for positions in (ids, ids.astype(np.int32), ids[..., ::-1]):
                ours = _native.take_along_axis(one, positions, axis=1)
                theirs = NUMPY_KERNELS["take_along_axis"](one, positions, axis=1)
                np.testing.assert_array_equal(ours, theirs, strict=True)

    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_one_of_each_vector(self, dtype: str) -> None:
        draw = np.random.default_rng(2)
        for lead in ((7,), (3, 4), ()):
            values = _normal(*lead, 1, dtype=dtype)
            values.reshape(-1)[0] = -0.0
            for ids in (draw.integers(-5, 5, (*lead, 1)), np.full((*lead, 1), -1, np.int32)):
                for positions in (ids, np.repeat(ids, 2, axis=-1)[..., ::2]):
                    given = {"shape": (*lead, 5), "axis": len(lead)}
                    ours = _native.place_along_axis(values, positions, **given)
                    expected = np.zeros((*lead, 5), dtype)
                    np.put_along_axis(expected, ids.astype(np.int64), values + 0, -1)
                    np.testing.assert_array_equal(ours, expected, strict=True)
                    assert not np.signbit(ours.reshape(-1)[ours.reshape(-1) == 0]).any()


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "int64", "float16", "bfloat16", "float32", "float64", "complex64"]
)
@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 1.0])
def test_what_is_not_zero(dtype: str, share: float) -> None:
    draw = np.random.default_rng(5)
    for shape in ((4, 5), (30, 8), (3, 2, 17), (60, 70), (0, 3), (2, 0), (2, 2, 2, 9), (5000,), ()):
        x = np.where(draw.random(shape) < share, draw.integers(1, 9, shape), 0)
        x = np.asarray(x).astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
        if "float" in dtype and x.size:
            x.reshape(-1)[[0, -1]] = np.nan, -0.0
        for one in (x, x.T, x[..., ::-1] if x.ndim else x, x[::2] if x.ndim else x):
            found = _native.argwhere(one)
            np.testing.assert_array_equal(found, np.argwhere(one), strict=True)
            assert found.dtype == np.int64


class TestDistances:
    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    @pytest.mark.parametrize("size", [2, 15, 16, 100, 2000])
    def test_near_each_other_and_far_from_0(self, dtype: str, size: int) -> None:
        a = (_normal(70, size) + 1000).astype(dtype)
        b = (a[:9].astype(np.float64) * (1 + 1e-6)).astype(dtype)
        away = a[:, None].astype(np.longdouble) - b[None]
        wanted = np.sqrt(np.square(away).sum(-1))
        found = _native.cdist(a, b, p=2)
        near = np.finfo(dtype).eps
        assert np.abs(found - wanted).max() <= 20 * near * wanted.max()
        assert (np.abs(found - wanted) <= 20 * near * wanted).all()

    @pytest.mark.parametrize("scale", [1e-30, 1e-37, 1e25, 1e30])
    def test_squares_that_leave_the_range(self, scale: float) -> None:
        x = _normal(20, 30, dtype=np.float32) * np.float32(scale)
        wide = x.astype(np.float64)
        wanted = np.sqrt(np.square(wide[:, None] - wide[None]).sum(-1))
        np.testing.assert_allclose(_native.cdist(x, x, p=2), wanted, rtol=1e-5)

    def test_float64_out_of_range_is_numpys(self) -> None:
        for scale in (1e-200, 1e200):
            x = _normal(20, 30) * scale
            np.testing.assert_allclose(
                _native.cdist(x, x, p=2), NUMPY_KERNELS["cdist"](x, x, p=2), rtol=1e-13
            )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_reductions_of_16_bits_read_pieces(dtype: str) -> None:
    for shape in ((3, 5000), (5000, 3), (6, 2048, 9), (20_000, 4)):
        x = pb.asarray(_normal(*shape, dtype=np.float32), dtype=dtype)
        wide = x.astype("float32")
        for axis in (None, 0, 1, (0, len(shape) - 1)):
            for op in (pb.sum, pb.mean, pb.max, pb.min, pb.linalg.vector_norm):
                ours, wanted = op(x, axis=axis), op(wide, axis=axis).astype(dtype)
                assert ours.dtype == x.dtype
                size = 2.0**-10 if dtype == "float16" else 2.0**-7
                np.testing.assert_allclose(
                    np.asarray(ours.astype("float32")), np.asarray(wanted.astype("float32")),
                    rtol=size,
                )  # fmt: skip
