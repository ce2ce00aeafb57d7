"""Sums of many float32, whatever the axis and the order in memory."""

import itertools

import numpy as np
import pytest

import pullback as pb

SHAPES = [
    (300_000,),
    (100_000, 3),
    (30_000, 10),
    (600, 500),
    (3, 100_000),
    (67, 67, 67),
    (2, 5, 30_000),
]
LAYOUTS = {
    "C": lambda x: x,
    "Fortran": np.asfortranarray,
    "reversed": lambda x: x[::-1],
    "strided": lambda x: np.repeat(x, 2, axis=-1)[..., ::2],
    "broadcast": lambda x: np.broadcast_to(x[..., :1], x.shape),
    "middle": lambda x: np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 0, -1)), -1, 0),
}


def check(shape, layout, tolerance):
    x = LAYOUTS[layout](np.random.default_rng(0).random(shape, dtype=np.float32) + np.float32(0.1))
    t = pb.asarray(x, copy=False)
    for count in range(1, len(shape) + 1):
        for axes in itertools.combinations(range(len(shape)), count):
            exact = np.sum(x, axis=axes, dtype=np.float64)
            for keepdims in (False, True):
                found = pb.sum(t, axis=axes, keepdims=keepdims).numpy()
                assert found.dtype == np.float32
                wanted = np.sum(x, axis=axes, dtype=np.float64, keepdims=keepdims)
                assert found.shape == wanted.shape
                assert np.max(np.abs(found - wanted) / wanted) < tolerance
            terms = x.size / exact.size
            mean = pb.mean(t, axis=axes).numpy()
            assert np.max(np.abs(mean - exact / terms) / (exact / terms)) < tolerance


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_sums_are_accurate_along_every_axis(shape, layout):
    check(shape, layout, 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "shape", [(10_000_000,), (3_333_333, 3), (3162, 3162), (215, 215, 215)], ids=str
)
def test_ten_million_numbers(shape, layout):
    check(shape, layout, 1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_short_floats_are_summed_in_float32(dtype):
    x = pb.astype(pb.ones((4096, 3)), dtype)
    assert pb.sum(x, axis=0).tolist() == [4096.0] * 3
    assert pb.mean(pb.astype(pb.full((3000,), 100.0), dtype)).item() == 100.0


def test_running_sums_are_accurate():
    x = np.random.default_rng(0).random((3, 200_000), dtype=np.float32)
    exact = np.cumsum(x, axis=1, dtype=np.float64)
    assert np.max(np.abs(pb.cumulative_sum(x, axis=1).numpy() - exact) / exact) < 1e-6
