"""x[key] and x[key] = value, held against NumPy; gradients through both."""

from __future__ import annotations

from itertools import product, starmap

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pullback as pb
from pullback import errors

KINDS = ["end", "none", "dots", "flag", "slice", "slice", "int", "index", "index", "mask"]
SHAPES = st.lists(st.integers(0, 4), max_size=4).map(tuple)


@st.composite
def slices(draw, size):
    bound = st.none() | st.integers(-size - 2, size + 2)
    step = st.none() | st.sampled_from([-3, -2, -1, 1, 2, 3])
    return slice(draw(bound), draw(bound), draw(step))


@st.composite
def keys(draw, shape):
    """A key for an array of `shape`, of entries of every kind that NumPy takes."""
    common = draw(st.lists(st.integers(1, 3), max_size=2).map(tuple))
    key, axis, ellipsis = [], 0, False
    while True:
        kind = draw(
            st.sampled_from(
                ["end", "none", "dots", "flag", "slice", "slice", "int", "index", "index", "mask"]
            )
        )
        if kind == "none":
            key.append(None)
        elif kind == "dots" and not ellipsis:
            key.append(...)
            ellipsis = True
            axis += draw(st.integers(0, 2))
        elif kind == "flag":
            key.append(draw(st.booleans()))
        elif kind == "end" or axis >= len(shape):
            return tuple(key)
        elif kind == "slice":
            key.append(draw(slices(shape[axis])))
            axis += 1
        elif shape[axis] == 0:
            return tuple(key)
        elif kind == "int":
            key.append(draw(st.integers(-shape[axis], shape[axis] - 1)))
            axis += 1
        elif kind == "index":
            own = tuple(draw(st.sampled_from([1, size])) for size in common)
            own = own[draw(st.integers(0, len(own))) :]
            seed = draw(st.integers(0, 99))
            rng = np.random.default_rng(seed)
            key.append(rng.integers(-shape[axis], shape[axis], own))
            axis += 1
        elif kind == "mask":
            width = draw(st.integers(1, len(shape) - axis))
            seed = draw(st.integers(0, 99))
            key.append(np.random.default_rng(seed).random(shape[axis : axis + width]) < 0.5)
            axis += width
        else:
            return tuple(key)


@st.composite
def cases(draw):
    shape = draw(SHAPES)
    return shape, draw(keys(shape)), draw(st.sampled_from([list, pb.asarray, np.asarray]))


def spelled(key, form):
    """The arrays of a key as lists, tensors or arrays; empty lists say nothing of their dtype."""
    return tuple(
        (one.tolist() if form is list and one.size else form(one) if form is not list else one)
        if isinstance(one, np.ndarray)
        else one
        for one in key
    )


def values(shape):
    return np.random.default_rng(5).standard_normal(shape)


@settings(deadline=None, max_examples=300)
@given(cases())
def test_getitem_is_numpys(case):
    shape, key, form = case
    x = values(shape)
    try:
        expected = x[key]
    except IndexError:
        with pytest.raises(IndexError):
            pb.asarray(x)[spelled(key, form)]
        return
    try:
        result = pb.asarray(x)[spelled(key, form)]
    except IndexError:
        assert not expected.size  # NumPy looks only at indices that select something
        return
    assert result.shape == expected.shape
    np.testing.assert_array_equal(result.numpy(), expected)


@pytest.mark.parametrize(
    ("shape", "key"),
    [
        ((4, 3), (False, 0, np.array(5))),
        ((4, 3), (np.array([], int), np.array(5))),
        ((1, 0), (..., False, np.array(0))),
        ((4, 3), (np.array([], int), np.array(-4))),
    ],
)
def test_a_single_index_outside_its_axis_is_an_error_where_nothing_is_taken(shape, key):
    with pytest.raises(IndexError):
        np.ones(shape)[key]
    with pytest.raises(errors.IndexingError, match="outside an axis"):
        pb.ones(shape)[key]


@settings(deadline=None, max_examples=300)
@given(cases(), st.data())
def test_setitem_is_numpys(case, data):
    shape, key, form = case
    x = values(shape)
    try:
        part = x[key].shape
    except IndexError:
        with pytest.raises(IndexError):
            pb.asarray(x)[spelled(key, form)] = 1.0
        return
    own = tuple(data.draw(st.sampled_from([1, size])) for size in part)
    value = values(own[data.draw(st.integers(0, len(own))) :])
    expected, result = x.copy(), pb.asarray(x)
    before = result[...]
    if value.size > 1 and np.unique(np.arange(x.size).reshape(shape)[key]).size < np.size(x[key]):
        return  # a position named twice: which value stays is left open
    expected[key] = value
    try:
        result[spelled(key, form)] = value
    except IndexError:
        assert not np.size(x[key])
    np.testing.assert_array_equal(result.numpy(), expected)
    np.testing.assert_array_equal(before.numpy(), x)  # another handle on the old array


ENTRIES = (1, slice(1, None), slice(None), None, ..., np.array([1, 0]), np.array([True, False]))


@pytest.mark.parametrize("form", [list, pb.asarray, np.asarray])
@pytest.mark.parametrize("length", [1, 2, 3])
def test_entries_of_every_kind_beside_one_another(length, form):
    x = values((2, 2, 2, 2))
    ours = pb.asarray(x)
    for key in product(ENTRIES, repeat=length):
        if sum(one is ... for one in key) < 2:
            np.testing.assert_array_equal(ours[spelled(key, form)].numpy(), x[key], str(key))


@pytest.mark.parametrize("size", [0, 1, 3])
def test_every_slice(size):
    x, bounds = values((size,)), (None, *range(-size - 2, size + 3))
    ours = pb.asarray(x)
    for key in starmap(slice, product(bounds, bounds, (-2, -1, 1, 2))):
        np.testing.assert_array_equal(ours[key].numpy(), x[key], str(key))


class TestKeys:
    X = np.arange(24.0).reshape(2, 3, 4)

    @pytest.mark.parametrize(
        "key",
        [
            2,
            -3,
            (0, 3),
            (0, 0, 0, 0),
            (..., ...),
            (0, [0, 3]),
            [2],
            (slice(None), [[0, -4]]),
            np.array([5]),
            "a",
            1.0,
            [0.5],
            slice("a"),
            np.float64(1),
            [True],
            np.ones((2, 2), np.bool_),
            ([0, 1], [0, 1, 2]),
        ],
        ids=str,
    )
    def test_what_is_no_index_raises(self, key):
        x = pb.asarray(self.X)
        with pytest.raises(IndexError) as raised:
            x[key]
        assert isinstance(raised.value, errors.IndexingError)
        with pytest.raises(errors.IndexingError):
            x[key] = 0.0

    @pytest.mark.parametrize("shape", [(3,), (5,), (4, 5), (3, 6), (4, 6, 1)])
    def test_a_mask_of_another_shape(self, shape):
        x = pb.asarray(np.arange(24).reshape(4, 6))
        with pytest.raises(errors.IndexingError):
            x[pb.ones(shape, dtype="bool")]

    @pytest.mark.parametrize("other", [slice(None, 2), slice(1, None), slice(None, None, 2)])
    def test_a_tensor_beside_a_part_of_an_axis(self, other):
        x, index = np.arange(24).reshape(4, 6), np.array([2, 0, -1])
        for key in ((index, other), (other, index), (index, slice(None)), (slice(None), index)):
            found = pb.asarray(x)[tuple(pb.asarray(e) if e is index else e for e in key)]
            np.testing.assert_array_equal(found.numpy(), x[key])

    def test_out_of_bounds_names_the_axis(self):
        with pytest.raises(errors.IndexingError, match=r"index 3 is outside axis 1 of size 3"):
            pb.asarray(self.X)[0, 3]

    def test_of_a_0d_tensor(self):
        x = pb.asarray(5.0)
        assert x[()].shape == () == x[...].shape
        assert x[None].shape == (1,)
        assert x[True].tolist() == [5.0]
        assert x[False].shape == (0,)
        with pytest.raises(errors.IndexingError):
            x[0]

    @pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int32, np.int64])
    def test_integers_of_every_kind(self, kind):
        x = pb.asarray(self.X)
        np.testing.assert_array_equal(x[kind(1)].numpy(), self.X[1])
        index = np.array([1, 0], kind)
        np.testing.assert_array_equal(x[index].numpy(), self.X[index])

    def test_uint64_is_refused_with_the_fix(self):
        with pytest.raises(errors.IndexingError, match="astype"):
            pb.asarray(self.X)[np.array([1], np.uint64)]

    def test_0d_tensors_in_slices_and_as_indices(self):
        x = pb.asarray(self.X)
        one = pb.asarray(1)
        assert x[one].shape == (3, 4)
        assert x[:, one:, 0].shape == (2, 2)

    def test_a_variable_is_an_index(self):
        v = pb.Variable([0, 1, 1])
        assert pb.asarray([1.0, 2.0])[v].tolist() == [1.0, 2.0, 2.0]

    def test_iteration(self):
        assert [row.tolist() for row in pb.asarray([[1, 2], [3, 4]])] == [[1, 2], [3, 4]]


class TestAssignment:
    def test_only_this_handle_changes(self):
        x = pb.zeros(3)
        y, view = x.__copy__(), x[0:2]
        x[0] = 5.0
        assert x.tolist() == [5.0, 0.0, 0.0]
        assert y.tolist() == [0.0, 0.0, 0.0]
        assert view.tolist() == [0.0, 0.0]

    def test_the_dtype_stays(self):
        x = pb.zeros(2, dtype="float16")
        x[0] = np.float64(1.5)
        x[1] = 2
        assert x.dtype == pb.float16
        assert x.tolist() == [1.5, 2.0]

    @pytest.mark.parametrize("key", [0, slice(0, 1), [0], np.array([True, False])], ids=str)
    def test_what_the_dtype_does_not_hold_raises(self, key):
        x = pb.asarray([1, 2])
        for value in (0.5, np.array(0.5), pb.asarray(1j)):
            with pytest.raises(errors.DTypeError, match="astype"):
                x[key] = value
        with pytest.raises(errors.ConversionError):
            x[key] = 2**40

    @pytest.mark.parametrize("key", [slice(0, 2), [0, 1], np.array([True, True, False])], ids=str)
    def test_a_value_that_does_not_fit_raises(self, key):
        x = pb.zeros(3)
        with pytest.raises(errors.ShapeError):
            x[key] = [1.0, 2.0, 3.0]

    def test_in_place_operators_rebind(self):
        x = pb.zeros(3)
        y = x
        y += 1
        assert x.tolist() == [0.0, 0.0, 0.0]
        x[1:] += 2
        assert x.tolist() == [0.0, 2.0, 2.0]

    def test_of_a_masked_infinity(self):
        x = pb.asarray([1.0, np.inf, np.nan])
        x[pb.logical_not(pb.isfinite(x))] = 0.0
        assert x.tolist() == [1.0, 0.0, 0.0]


def numeric(f, x, eps=1e-6):
    g = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[place] += eps
        down[place] -= eps
        g[place] = (f(up) - f(down)) / (2 * eps)
    return g


KEYS = [
    1,
    (0, 2),
    (slice(None, None, -2), None, 1),
    [0, 1, 0],
    (slice(None), [0, 2, 2]),
    ([0, 1, 1], slice(None), [0, 0, 3]),
    (0, slice(None), [1, 1]),
    np.array([[True, False, True], [False, False, True]]),
    (slice(None), np.array([True, False, True]), [0, 3]),
]


class TestGradients:
    X = values((2, 3, 4))

    @pytest.mark.parametrize("key", KEYS, ids=str)
    def test_of_getitem_to_second_order(self, key):
        weights = values(self.X[key].shape) + 2

        def loss(x):
            part = x[key]
            return pb.sum(pb.asarray(weights) * part * part * part)

        x = pb.asarray(self.X)
        with pb.GradientTape() as outer:
            outer.watch(x)
            with pb.GradientTape() as inner:
                inner.watch(x)
                y = loss(x)
            first = inner.gradient(y, x)
            z = pb.sum(first * first)
        expected = numeric(lambda a: float((weights * a[key] ** 3).sum()), self.X)
        np.testing.assert_allclose(first.numpy(), expected, atol=1e-6)

        def squared(a):
            total = np.zeros_like(a)
            np.add.at(total, key, weights * 3 * a[key] ** 2)
            return float((total**2).sum())

        second = outer.gradient(z, x)
        np.testing.assert_allclose(second.numpy(), numeric(squared, self.X), atol=1e-5)

    @pytest.mark.parametrize("key", KEYS, ids=str)
    def test_of_setitem_in_both(self, key):
        shape = self.X[key].shape
        weights = values((2, 3, 4)) + 2
        value = values(shape[1:])  # broadcast along the first axis

        def loss(x, v):
            y = x * 1.0
            y[key] = v * v
            return pb.sum(pb.asarray(weights) * y * y)

        def reference(x, v):
            y = x.copy()
            y[key] = v * v
            return float((weights * y * y).sum())

        x, v = pb.asarray(self.X), pb.asarray(value)
        with pb.GradientTape() as tape:
            tape.watch([x, v])
            y = loss(x, v)
        gx, gv = tape.gradient(y, [x, v])
        assert float(y) == pytest.approx(reference(self.X, value))
        np.testing.assert_allclose(
            gx.numpy(), numeric(lambda a: reference(a, value), self.X), atol=1e-6
        )
        np.testing.assert_allclose(
            gv.numpy(), numeric(lambda a: reference(self.X, a), value), atol=1e-6
        )

    def test_duplicates_accumulate(self):
        x = pb.asarray([1.0, 2.0])
        with pb.GradientTape() as tape:
            tape.watch(x)
            y = pb.sum(x[[0, 0, 1, 0]])
        assert tape.gradient(y, x).tolist() == [3.0, 1.0]

    def test_only_the_value_that_stays_has_a_gradient(self):
        v = pb.asarray([1.0, 2.0, 3.0])
        with pb.GradientTape() as tape:
            tape.watch(v)
            x = pb.zeros(2)
            x[[0, 0, 1]] = v
            y = pb.sum(x)
        g = tape.gradient(y, v).numpy()
        assert g[2] == 1.0
        assert sorted(g[:2]) == [0.0, 1.0]
        assert float(y) == g @ [1.0, 2.0, 3.0]

    def test_of_an_embedding(self):
        table, rows = pb.asarray(values((5, 3))), np.array([[0, 4], [4, 4]])
        with pb.GradientTape() as tape:
            tape.watch(table)
            y = pb.sum(pb.embedding(table, rows))
        g = tape.gradient(y, table)
        np.testing.assert_array_equal(g.numpy()[:, 0], [1, 0, 0, 0, 3])

    def test_of_complex_parts(self):
        z = pb.asarray([1 + 2j, 3 - 1j])
        with pb.GradientTape() as tape:
            tape.watch(z)
            y = pb.real(z[0] * z[1])
        g = tape.gradient(y, z).numpy()
        np.testing.assert_allclose(g, np.conj([3 - 1j, 1 + 2j]))


@pytest.mark.parametrize("op", ["scatter_add", "scatter_update"])
def test_sums_of_many_lose_no_digits(op):
    """Half a million values of 0.1 in one place: a plain sum in float32 would be off by 1 %."""
    if op == "scatter_update":
        x = pb.scatter_update(pb.zeros(2), [1], [0.1])
        assert x.tolist() == [0.0, pytest.approx(0.1)]
        return
    total = pb.scatter_add(pb.zeros(1), np.zeros(500_000, np.int64), np.full(500_000, 0.1, "f4"))
    assert total.tolist() == [pytest.approx(50_000, rel=1e-6)]
