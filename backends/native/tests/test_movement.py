"""Sums and moved elements equal those of NumPy's kernels, for all axes and strides."""

import itertools

import numpy as np
import pytest

import pullback as pb
from pullback_native import _native
from pullback_native.kernels import halves
from pullback_numpy.kernels import KERNELS as NUMPY_KERNELS

pytestmark = pytest.mark.usefixtures("instructions")
rng = np.random.default_rng(0)


def normal(*shape):
    return rng.standard_normal(shape, np.float32)


SHAPES = [
    (5,), (1,), (3, 4), (1, 4), (4, 1), (2, 1, 4), (7, 33, 65), (100, 1000), (1000, 10),
    (3, 1025, 7), (2, 70_000), (70_000, 3), (5, 200, 1030), (1, 1, 1), (2, 3, 4, 5), (40, 15),
    (40, 16),
]  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_sums_over_all_axes(shape):
    x = normal(*shape)
    every = [c for n in range(x.ndim + 1) for c in itertools.combinations(range(x.ndim), n)]
    for axis, keepdims in itertools.product([None, *every], (False, True)):
        exact = np.sum(x, axis=axis, keepdims=keepdims, dtype=np.float64)
        size = np.sum(np.abs(x), axis=axis, keepdims=keepdims, dtype=np.float64)
        found = _native.sum(x, axis=axis, dtype=None, keepdims=keepdims)
        count = x.size // max(1, exact.size)
        mean = _native.mean(x, axis=axis, keepdims=keepdims)
        assert (found.dtype, found.shape, mean.shape) == (np.float32, exact.shape, exact.shape)
        assert np.all(np.abs(found - exact) <= 1e-7 * size)
        assert np.all(np.abs(mean - exact / count) <= 1e-7 * size / count)


@pytest.mark.parametrize("shape", [(10**7,), (10**6, 10), (10, 10**6)], ids=str)
def test_long_sums(shape):
    x = rng.random(shape, np.float32)
    for axis in (None, (0,)):
        exact = np.sum(x, axis=axis, dtype=np.float64)
        found = _native.sum(x, axis=axis, dtype=None, keepdims=False)
        assert np.all(np.abs(found - exact) <= 1e-7 * exact)


@pytest.mark.parametrize("shape", [(4,), (3, 100), (100, 3), (100, 64)], ids=str)
def test_sums_of_zeros_and_of_what_is_no_number(shape):
    for axis in (None, (0,)):
        for value in (-0.0, 0.0, np.inf, np.nan):
            found = _native.sum(
                np.full(shape, value, np.float32), axis=axis, dtype=None, keepdims=False
            )
            np.testing.assert_array_equal(found, np.float32(value))
            assert np.all(np.signbit(found) == np.signbit(np.float32(value)))
    both = np.float32([[np.inf, 1.0], [-np.inf, 2.0]])
    found = _native.sum(both, axis=(0,), dtype=None, keepdims=False)
    np.testing.assert_array_equal(found, [np.nan, 3.0])


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize(
    ("segments", "ids", "behind", "axis"),
    [
        (10, (50,), (7,), 0), (1000, (8, 12), (256,), 0), (5, (3, 4), (), 0), (6, (9,), (1030,), 1),
        (3, (0,), (4,), 0), (4, (5,), (2, 3), 2), (1, (2000,), (3,), 0), (7, (), (3,), 0),
    ],
)  # fmt: skip
def test_rows_by_number(segments, ids, behind, axis, dtype):
    numbers = rng.integers(-segments, segments, ids).astype(dtype)
    before = (3, 2)[:axis]
    data, table = normal(*before, *ids, *behind), normal(*before, segments, *behind)
    how = {"num_segments": segments, "axis": axis}
    np.testing.assert_array_equal(
        _native.segment_sum(data, numbers, **how),
        NUMPY_KERNELS["segment_sum"](data, numbers, **how),
    )
    repeated = np.broadcast_to(data[..., :1], data.shape)
    np.testing.assert_allclose(
        _native.segment_sum(repeated, numbers, **how),
        NUMPY_KERNELS["segment_sum"](repeated, numbers, **how),
        rtol=1e-6,
        atol=1e-6,
    )
    for rows in (data.astype(np.float64), repeated.astype(np.float64)):
        found = _native.segment_sum(rows, numbers, **how)
        expected = NUMPY_KERNELS["segment_sum"](rows, numbers, **how)
        np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-13)
        start = expected[..., ::-1] if behind else expected
        np.testing.assert_allclose(
            _native.scatter_add(start, numbers, rows, axis=axis)
            if len(ids) == 1
            else start + found,
            start + expected,
            rtol=1e-13,
            atol=1e-13,
        )
    updates = table[(*[slice(None)] * axis, numbers)]
    np.testing.assert_array_equal(
        _native.scatter_add(table, numbers, updates, axis=axis),
        NUMPY_KERNELS["scatter_add"](table, numbers, updates, axis=axis),
    )
    np.testing.assert_array_equal(
        _native.take(table, numbers, axis=axis), NUMPY_KERNELS["take"](table, numbers, axis=axis)
    )


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("name", ["scatter_add", "scatter_max", "scatter_min"])
def test_few_positions_have_the_bits_of_many(name, dtype, axis):
    """Copies all that nothing is added to; positions repeat, and count from the end, too."""
    scatter = getattr(_native, name)
    if dtype in ("float16", "bfloat16"):
        scatter = halves.scatter_in_float32(name, scatter)
    join = {"scatter_add": np.add, "scatter_max": np.maximum, "scatter_min": np.minimum}[name]
    rng = np.random.default_rng(axis)
    for _ in range(20):
        shape = rng.integers(1, 6, 3)
        shape[axis] = size = rng.integers(200, 400)
        x = rng.standard_normal(shape).astype(dtype)
        ids = rng.integers(-size, size, rng.integers(1, size // 8 - 1))
        ids[rng.integers(0, ids.size, 3)] = ids[0]
        shape[axis] = ids.size
        updates = (rng.standard_normal(shape) * 100).astype(dtype)
        before = x.copy()
        found = scatter(x, ids, updates, axis=axis)
        # In double, in the order of the positions, and rounded as far as the kernels do.
        wide = np.moveaxis(x.astype(np.float64), axis, 0)
        for at, row in zip(ids, np.moveaxis(updates.astype(np.float64), axis, 0), strict=True):
            wide[at] = join(wide[at], row)
        rounded = wide if dtype == "float64" else wide.astype(np.float32)
        np.testing.assert_array_equal(found, np.moveaxis(rounded.astype(dtype), 0, axis))
        np.testing.assert_array_equal(x, before)
        assert found.dtype == x.dtype
    for wrong in (size, -size - 1):
        ids[-1] = wrong
        with pytest.raises(IndexError, match="outside an axis of size"):
            scatter(x, ids, updates, axis=axis)


@pytest.mark.parametrize("number", [5, -6])
def test_numbers_outside(number):
    with pytest.raises(pb.errors.IndexingError, match="take"):
        pb.take(normal(5, 3), [0, number])
    with pytest.raises(pb.errors.IndexingError, match="segment_sum"):
        pb.segment_sum(normal(2, 3), [0, number], 5)


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))), ids=str)
def test_reshape_of_axes_in_another_order(order):
    x = normal(8, 16, 5, 48).transpose(order)
    for y in (x, x[1:], x[:, ::2], x[..., 1:], x[::-1], np.broadcast_to(x[:1], x.shape)):
        for shape in ((y.size,), (*y.shape[:2], -1)):
            known = np.empty(y.shape).reshape(shape).shape
            np.testing.assert_array_equal(_native.reshape(y, shape=known), y.reshape(known))


def test_reshape_copies_only_where_it_must():
    x = normal(64, 3, 512)
    for y in (x, x[:, 1], x[:, :, :256], x[::2]):
        assert np.shares_memory(_native.reshape(y, shape=(*y.shape, 1)), y)
    with pytest.raises(ValueError, match="reshape"):
        _native.reshape(x, shape=(7,))


@pytest.mark.parametrize(
    ("shapes", "axis"),
    [
        ([(2, 3), (4, 3)], 0), ([(2, 3), (2, 0), (2, 5)], 1), ([(5,)], 0), ([(0, 3), (0, 3)], 0),
        ([(3, 1, 4), (3, 2, 4)], 1), ([(3000,), (5,), (7777,)], 0),
        ([(200, 1, 65), (200, 2, 65)], 1), ([(40_000,), (90_000,)], 0), ([(2, 3), (4,)], None),
    ],
)  # fmt: skip
def test_concat(shapes, axis):
    parts = [normal(*shape) for shape in shapes]
    np.testing.assert_array_equal(
        _native.concat(parts, axis=axis), NUMPY_KERNELS["concat"](parts, axis=axis)
    )


@pytest.mark.parametrize("shapes", [[(2, 3), (4, 2)], [(3,), (3, 1)], [(), ()]])
def test_concat_of_shapes_that_differ(shapes):
    with pytest.raises(ValueError, match="dimension"):
        _native.concat([normal(*shape) for shape in shapes], axis=0)
