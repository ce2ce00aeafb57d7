"""Shapes: canonical forms and the rules that ops are defined with, against NumPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pullback import errors, shapes

SHAPE = st.lists(st.integers(0, 4), max_size=4).map(tuple)


# Normal forms ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "expected"),
    [(3, (3,)), ((), ()), ([], ()), ([2, 3], (2, 3)), ((0,), (0,)), (np.int64(2), (2,)),
     ((np.int8(2), True), (2, 1)), (np.array([4, 5]), (4, 5)), (range(3), (0, 1, 2))],
)  # fmt: skip
def test_as_shape(value, expected):
    found = shapes.as_shape(value)
    assert found == expected
    assert all(type(size) is int for size in found)


@pytest.mark.parametrize("value", [-1, (2, -1), [-3]])
def test_negative_sizes(value):
    with pytest.raises(errors.ShapeError, match="negative"):
        shapes.as_shape(value)


@pytest.mark.parametrize("value", [2.0, (2.5,), "ab", (None,), 1j])
def test_sizes_that_are_no_integers(value):
    with pytest.raises(errors.InputTypeError, match="integer"):
        shapes.as_shape(value)


@given(st.integers(0, 5), st.integers(-7, 7))
def test_canonical_axis(ndim, axis):
    if -ndim <= axis < ndim:
        assert shapes.canonical_axis(axis, ndim) == axis % ndim
    else:
        # NumPy's words, which callers look for.
        message = f"axis {axis} is out of bounds for array of dimension {ndim}"
        with pytest.raises(errors.AxisError, match=message):
            shapes.canonical_axis(axis, ndim)


def test_canonical_axes():
    assert shapes.canonical_axes(None, 3) is None
    assert shapes.canonical_axes(-1, 3) == (2,)
    assert shapes.canonical_axes((2, 0), 3) == (0, 2)
    assert shapes.canonical_axes([-1, -3], 3) == (0, 2)
    assert shapes.canonical_axes((), 3) == ()
    assert shapes.canonical_axes(np.int64(1), 3) == (1,)
    with pytest.raises(errors.AxisError, match="twice"):
        shapes.canonical_axes((0, -3), 3)
    with pytest.raises(errors.AxisError, match="3"):
        shapes.canonical_axes((0, 3), 3)
    with pytest.raises(errors.InputTypeError):
        shapes.canonical_axes(1.0, 3)
    with pytest.raises(errors.InputTypeError):
        shapes.canonical_axes("0", 3)


@given(SHAPE)
def test_size_of(shape):
    assert shapes.size_of(shape) == np.empty(shape).size


# Rules -------------------------------------------------------------------------------------------


@given(st.lists(SHAPE, min_size=1, max_size=3))
def test_broadcast_as_numpy_does(given_shapes):
    try:
        expected = np.broadcast_shapes(*given_shapes)
    except ValueError:
        with pytest.raises(errors.ShapeError, match="broadcast"):
            shapes.broadcast_shapes(*given_shapes)
    else:
        assert shapes.broadcast_shapes(*given_shapes) == expected
        assert shapes.broadcast(*given_shapes, None) == expected


@given(st.lists(st.integers(0, 3), max_size=4).map(tuple), st.data(), st.booleans())
def test_reduce_as_numpy_does(shape, data, keepdims):
    axes = data.draw(st.none() | st.sets(st.integers(0, max(len(shape) - 1, 0))))
    if axes is not None:
        axes = tuple(sorted(axis for axis in axes if axis < len(shape)))
    expected = np.empty(shape).sum(axis=axes, keepdims=keepdims).shape
    assert shapes.reduced(shape, axes, keepdims) == expected
    assert shapes.reduce(shape, axis=axes, keepdims=keepdims) == expected


@given(SHAPE, SHAPE)
def test_matmul_as_numpy_does(a, b):
    try:
        expected = (np.ones(a) @ np.ones(b)).shape
    except ValueError:
        with pytest.raises(errors.ShapeError):
            shapes.matmul(a, b)
    else:
        assert shapes.matmul(a, b) == expected


def test_matmul_says_which_sizes_differ():
    with pytest.raises(errors.ShapeError, match=r"\(2, 3\) @ \(4, 5\) \(3 and 4\)"):
        shapes.matmul((2, 3), (4, 5))


def test_the_others():
    assert shapes.first((2, 3), (4,)) == (2, 3)
    assert shapes.shape_attribute(shape=(2, 3)) == (2, 3)
    assert shapes.data_dependent((2, 3)) is None
    assert shapes.permuted((2, 3, 4), (2, 0, 1)) == (4, 2, 3)


@pytest.mark.parametrize("count", [0, 1, 5])
def test_error_names_every_shape(count):
    many = [(2,)] * count + [(3,), (4,)]
    with pytest.raises(errors.ShapeError, match=r"\(3,\) and \(4,\)"):
        shapes.broadcast_shapes(*many)
