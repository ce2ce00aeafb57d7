"""Tensor: conversions, printing, indexing protocols, copies, and NumPy on both sides."""

import copy
import pickle

import numpy as np
import pytest

import pullback as pb
from pullback import dtypes, errors

DTYPES = pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)


def ones(*shape, dtype="float32"):
    return pb.asarray(np.ones(shape, dtype))


# What it is --------------------------------------------------------------------------------------


@DTYPES
def test_properties(dtype):
    x = pb.asarray(np.zeros((2, 3, 4), dtype))
    assert x.dtype == dtype
    assert x.shape == (2, 3, 4)
    assert type(x.shape) is tuple
    assert (x.ndim, x.size, x.nbytes) == (3, 24, 24 * dtype.itemsize)
    assert str(x.device) == "cpu:0"
    assert x.mT.shape == (2, 4, 3)


def test_transpose_needs_two_dimensions_at_most():
    for shape in ((), (2,), (2, 3)):
        assert ones(*shape).T.shape == shape[::-1]
    with pytest.raises(errors.ShapeError, match=r"mT|permute_dims"):
        _ = ones(2, 3, 4).T


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3)])
def test_scalars_and_empty(shape):
    x = ones(*shape)
    assert x.size == int(np.prod(shape))
    assert x.tolist() == np.ones(shape).tolist()
    assert repr(x)


# From host data ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "dtype", "shape"),
    [
        (True, "bool", ()), (3, "int32", ()), (3.0, "float32", ()), (3j, "complex64", ()),
        ([1, 2], "int32", (2,)), ([[1.0], [2]], "float32", (2, 1)), ([True, False], "bool", (2,)),
        ([1, 2j], "complex64", (2,)), ([True, 2], "int32", (2,)), ([], "float32", (0,)),
        ([[], []], "float32", (2, 0)), ((1, 2), "int32", (2,)), (2**40, "int64", ()),
        ([1, 2**40], "int64", (2,)), (2**63, "uint64", ()), (np.float64(2), "float64", ()),
        (np.int8(2), "int8", ()), ([np.float64(2)], "float64", (1,)), (np.ones(2), "float64", (2,)),
        (np.ones(2, ">f4"), "float32", (2,)), (range(3), "int32", (3,)),
    ],
)  # fmt: skip
def test_asarray(value, dtype, shape):
    x = pb.asarray(value)
    assert x.dtype.name == dtype
    assert x.shape == shape
    np.testing.assert_array_equal(x.numpy(), np.asarray(value))


@pytest.mark.parametrize(
    "value", [[1, [2, 3]], object(), {"a": 1}, None, [None], ["a", 1], 2**70, [2**70]]
)
def test_what_is_no_tensor(value):
    with pytest.raises(errors.PullbackError) as caught:
        pb.asarray(value)
    assert isinstance(caught.value, (TypeError, ValueError))


@pytest.mark.parametrize(("value", "dtype"), [(300, "int8"), ([300], "uint8"), (-1, "uint32")])
def test_integers_out_of_range(value, dtype):
    with pytest.raises(errors.ConversionError, match=dtype):
        pb.asarray(value, dtype=dtype)


def test_asarray_copies():
    source = np.ones(3)
    x = pb.asarray(source)
    source[0] = 5.0
    assert x.tolist() == [1.0, 1.0, 1.0]


def test_asarray_of_a_view_copies():
    source = np.arange(6.0).reshape(2, 3)
    for view in (source.T, source[:, ::2], source[::-1], np.broadcast_to(source, (2, 2, 3))):
        x = pb.asarray(view)
        expected = view.copy()
        source += 1
        np.testing.assert_array_equal(x.numpy(), expected)
        source -= 1


def test_asarray_without_a_copy_shares():
    source = np.ones(3)
    x = pb.asarray(source, copy=False)
    assert np.shares_memory(x.numpy(), source)
    with pytest.raises(errors.InputValueError, match="copy"):
        pb.asarray([1.0, 2.0], copy=False)
    with pytest.raises(errors.InputValueError, match="copy"):
        pb.asarray(source, dtype="float32", copy=False)


def test_asarray_of_a_tensor_is_the_tensor():
    x = ones(2)
    assert pb.asarray(x) is x
    other = pb.asarray(x, copy=True)
    assert other is not x
    other[0] = 5.0
    assert x.tolist() == [1.0, 1.0]


def test_lists_of_tensors_are_stacked():
    x = pb.asarray([ones(2), [3.0, 4.0]])
    assert x.tolist() == [[1.0, 1.0], [3.0, 4.0]]
    assert pb.asarray([pb.asarray(1.0), 2.0]).tolist() == [1.0, 2.0]


def test_gradient_flows_into_a_list_of_tensors():
    x = pb.asarray(2.0)
    with pb.GradientTape() as tape:
        tape.watch(x)
        y = pb.asarray([x, 3.0, x * x]) * 2.0
    assert float(tape.gradient(y, x)) == 2 + 8


def test_numbers_are_handles_of_their_own():
    x, y = pb.asarray(2.0), pb.asarray(2.0)
    assert x is not y
    x[...] = 3.0
    assert float(y) == 2.0
    assert float(pb.asarray(2.0)) == 2.0
    assert float(y * 2.0) == 4.0


# To the host -------------------------------------------------------------------------------------


@DTYPES
def test_numpy_gives_the_values_back(dtype):
    source = np.arange(6).reshape(2, 3).astype(dtype)
    back = pb.asarray(source).numpy()
    assert back.dtype == dtype
    np.testing.assert_array_equal(back, source)


def test_numpy_is_read_only():
    x = ones(3)
    view = x.numpy()
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 2.0
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(x)[0] = 2.0
    assert x.tolist() == [1.0, 1.0, 1.0]


def test_numpy_view_of_a_shared_array_is_read_only():
    source = np.ones(3)
    view = pb.asarray(source, copy=False).numpy()
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 2.0
    assert source.flags.writeable


def test_array_protocol():
    x = ones(3)
    assert np.shares_memory(np.asarray(x), x.numpy())
    assert not np.shares_memory(np.array(x), x.numpy())
    assert np.asarray(x, dtype="float64").dtype == np.float64
    with pytest.raises(ValueError, match="copy"):
        np.asarray(x, dtype="float64", copy=False)
    writable = np.array(x)
    writable[0] = 5.0
    assert x.tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("value", [True, 3, 2.5, 1 + 2j])
def test_item(value):
    for nested in (value, [value], [[value]]):
        item = pb.asarray(nested).item()
        assert item == value
        assert type(item) is type(value)
    for shape in ((2,), (0,)):
        with pytest.raises(errors.ShapeError, match="one element"):
            ones(*shape).item()


def test_python_numbers():
    x = pb.asarray(2.5)
    assert (bool(x), int(x), float(x), complex(x)) == (True, 2, 2.5, 2.5 + 0j)
    assert float(pb.asarray([[2.5]])) == 2.5
    assert round(float(pb.asarray(2.5, dtype="bfloat16")), 1) == 2.5
    assert not bool(pb.asarray(0))
    assert bool(pb.asarray(float("nan")))


@pytest.mark.parametrize("target", [bool, int, float, complex])
@pytest.mark.parametrize("shape", [(2,), (0,), (2, 3)])
def test_python_numbers_need_one_element(target, shape):
    with pytest.raises(errors.ShapeError, match="one element"):
        target(ones(*shape))


def test_truth_of_several_names_any_and_all():
    with pytest.raises(ValueError, match=r"pb\.any or pb\.all"):
        bool(ones(2) == 1)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_int_of_what_is_not_finite(value):
    with pytest.raises((ValueError, OverflowError)):
        int(pb.asarray(value))


def test_complex_is_no_float():
    with pytest.raises(TypeError):
        float(pb.asarray(1 + 2j))
    with pytest.raises(TypeError):
        int(pb.asarray(1 + 2j))


def test_index_protocol():
    n = pb.asarray(3)
    assert list(range(n)) == [0, 1, 2]
    assert "abcd"[n] == "d"
    assert hex(n) == "0x3"
    assert np.arange(5)[n] == 3
    for wrong in (pb.asarray(3.0), pb.asarray([3])):
        with pytest.raises(TypeError):
            range(wrong)
    with pytest.raises(TypeError):
        _ = [1, 2][pb.asarray(1.0)]


# As a sequence -----------------------------------------------------------------------------------


def test_len_and_iteration():
    x = pb.asarray([[1, 2], [3, 4], [5, 6]])
    assert len(x) == 3
    assert [row.tolist() for row in x] == [[1, 2], [3, 4], [5, 6]]
    first, *others = x
    assert first.tolist() == [1, 2]
    assert len(others) == 2
    assert [int(v) for v in x[0]] == [1, 2]
    assert list(ones(0)) == []
    assert [r.tolist() for r in reversed(x)] == [[5, 6], [3, 4], [1, 2]]


def test_a_number_has_no_length():
    with pytest.raises(TypeError, match="0-d"):
        len(pb.asarray(1.0))
    with pytest.raises(TypeError, match="0-d"):
        iter(pb.asarray(1.0))


def test_iteration_is_differentiated():
    x = pb.asarray([1.0, 2.0, 3.0])
    with pb.GradientTape() as tape:
        tape.watch(x)
        y = pb.asarray(0.0)
        for i, v in enumerate(x):
            y = y + v * float(i)
    assert tape.gradient(y, x).tolist() == [0.0, 1.0, 2.0]


def test_contains():
    x = pb.asarray([1, 2, 3])
    assert 2 in x
    assert 5 not in x
    assert 1 in pb.asarray(1)


# Printing ----------------------------------------------------------------------------------------


def test_str_and_repr():
    x = pb.asarray([[1, 2], [3, 4]])
    assert repr(x) == ("Tensor([[1, 2],\n        [3, 4]], shape=(2, 2), dtype=int32, device=cpu:0)")
    assert "[[1 2]\n [3 4]]" in str(x)
    for word in ("shape=(2, 2)", "dtype=int32", "device=cpu:0"):
        assert word in str(x)
    assert str(pb.asarray(4.0)) == "4.0"


@DTYPES
def test_every_dtype_prints(dtype):
    assert dtype.name in repr(pb.asarray(np.zeros(2, dtype)))
    assert dtype.name in str(pb.asarray(np.zeros((1,), dtype)))
    rng = np.random.default_rng(0)
    for number in (100 * rng.standard_normal(20)).astype(dtype):
        # A scalar in a text is its number, as NumPy's is; its repr has the rest.
        assert f"{pb.asarray(number)}" == str(pb.asarray(number)) == str(number)
        assert dtype.name in repr(pb.asarray(number))


def test_large_tensors_are_abridged():
    assert len(repr(ones(1000, 1000))) < 1000
    assert "..." in repr(ones(1000, 1000))


def test_printing_does_not_disturb_the_tape():
    x = pb.asarray([1.0, 2.0])
    with pb.GradientTape() as tape:
        tape.watch(x)
        y = x * x
        assert repr(y)
        assert str(y)
        assert f"{y}"
        y.numpy()
        float(y[0])
    assert tape.gradient(y, x).tolist() == [2.0, 4.0]


@pytest.mark.parametrize(
    ("value", "spec", "expected"),
    [
        (3.14159, ".3f", "3.142"), (3.14159, "8.2f", "    3.14"), (2.0, "e", "2.000000e+00"),
        (7, "d", "7"), (7, "04d", "0007"), (255, "x", "ff"), ([2.5], ".1f", "2.5"),
        (1 + 2j, ".1f", "1.0+2.0j"), (0.5, ".0%", "50%"),
    ],
)  # fmt: skip
def test_format(value, spec, expected):
    assert format(pb.asarray(value), spec) == expected
    assert f"{pb.asarray(value):{spec}}" == expected


def test_format_of_several_values():
    x = pb.asarray([1.0, 2.0])
    assert f"{x}" == str(x)
    with pytest.raises((ValueError, TypeError)):
        f"{x:.3f}"


# Copies ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [copy.copy, copy.deepcopy], ids=["copy", "deepcopy"])
def test_copies_are_other_handles(make):
    x = pb.asarray([1.0, 2.0])
    y = make(x)
    assert y is not x
    y[0] = 5.0
    assert x.tolist() == [1.0, 2.0]
    assert y.tolist() == [5.0, 2.0]


def test_copy_keeps_the_way_back():
    x = pb.asarray([1.0, 2.0])
    with pb.GradientTape() as tape:
        tape.watch(x)
        y = copy.deepcopy(x * x)
    assert tape.gradient(y, x).tolist() == [2.0, 4.0]


@DTYPES
def test_pickle(dtype):
    x = pb.asarray(np.arange(6).reshape(2, 3).astype(dtype))
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        y = pickle.loads(pickle.dumps(x, protocol))
        assert (y.dtype, y.shape, y.device) == (x.dtype, x.shape, x.device)
        np.testing.assert_array_equal(y.numpy(), x.numpy())


def test_pickle_of_a_recorded_tensor_is_its_value():
    x = pb.asarray(3.0)
    with pb.GradientTape() as tape:
        tape.watch(x)
        y = x * x
        z = pickle.loads(pickle.dumps(y))
    assert float(z) == 9.0
    assert z._node is None or tape.gradient(z, x) is None


def test_hash_is_by_identity():
    x, y = pb.asarray(1.0), pb.asarray(1.0)
    table = {x: "x", y: "y"}
    assert (table[x], table[y]) == ("x", "y")
    assert len({x, y, x}) == 2


# Assignment --------------------------------------------------------------------------------------


def test_setitem_changes_this_handle_only():
    x = pb.asarray([1.0, 2.0, 3.0])
    y = copy.copy(x)
    view = x.numpy()
    x[1] = 7.0
    assert x.tolist() == [1.0, 7.0, 3.0]
    assert y.tolist() == [1.0, 2.0, 3.0]
    assert view.tolist() == [1.0, 2.0, 3.0]


def test_setitem_is_differentiated():
    x, v = pb.asarray([1.0, 2.0, 3.0]), pb.asarray(4.0)
    with pb.GradientTape() as tape:
        tape.watch([x, v])
        y = x * x
        before = y * 1.0
        y[1] = v * v
        loss = y + before
    gx, gv = tape.gradient(loss, [x, v])
    assert gx.tolist() == [4.0, 4.0, 12.0]
    assert float(gv) == 8.0


def test_augmented_assignment_rebinds_the_name():
    x = pb.asarray([1.0, 2.0])
    y = x
    y += 1.0
    assert x.tolist() == [1.0, 2.0]
    assert y.tolist() == [2.0, 3.0]
