"""Lists of Python numbers beside a tensor are weak, as one number is: no digit is lost."""

# What looks like a sum of lists is one of a tensor and a list.
# ruff: noqa: RUF005

import numpy as np
import pytest

import pullback as pb

X64 = pb.asarray([0.3, 0.7], dtype="float64")
THIRD = 1 / 3


@pytest.mark.parametrize(
    "call",
    [
        lambda: X64 + [THIRD, THIRD],
        lambda: [THIRD, THIRD] + X64,
        lambda: X64 + [[THIRD], [THIRD]],
        lambda: X64 + (THIRD, THIRD),
        lambda: pb.add([THIRD], X64),
        lambda: pb.add(X64, [THIRD]),
        lambda: pb.Variable(X64) + [THIRD, THIRD],
        lambda: [THIRD, THIRD] + pb.Variable(X64),
    ],
)
def test_a_list_beside_float64_is_float64(call):
    result = call()
    assert result.dtype == pb.float64
    assert result.tolist() == np.broadcast_to(X64.numpy() + THIRD, result.shape).tolist()


def test_every_kind_of_op_takes_them():
    assert pb.where([True, False], [THIRD, 1.0], X64).tolist() == [THIRD, 0.7]
    assert pb.where([True, False], X64, [1.0, THIRD]).tolist() == [0.3, THIRD]
    assert pb.concat([[THIRD], X64]).tolist() == [THIRD, 0.3, 0.7]
    assert pb.concat([X64, [THIRD]]).tolist() == [0.3, 0.7, THIRD]
    assert pb.stack([X64, [THIRD, 1.0]]).tolist() == [[0.3, 0.7], [THIRD, 1.0]]
    assert (X64 @ [THIRD, 0.0]).item() == 0.3 * THIRD
    assert (X64 == [0.3, 0.7]).tolist() == [True, True]
    assert pb.clip(X64, [THIRD, 0.0], [1.0, THIRD]).tolist() == [THIRD, THIRD]
    assert np.add(X64, [THIRD, 0.0]).tolist() == [0.3 + THIRD, 0.7]


def test_nested_lists_with_a_tensor_among_them():
    nested = pb.asarray([[X64[0], THIRD], [THIRD, 0.1]])
    assert nested.dtype == pb.float64
    assert nested.tolist() == [[0.3, THIRD], [THIRD, 0.1]]


def test_writing_a_list_into_a_tensor():
    x = pb.zeros(3, dtype="float64")
    x[:2] = [THIRD, 0.1]
    x[[2]] = [0.7]
    assert x.tolist() == [THIRD, 0.1, 0.7]


def test_targets_of_a_loss():
    predictions = pb.asarray([THIRD, 0.1], dtype="float64")
    assert pb.losses.mean_squared_error([THIRD, 0.1], predictions).item() == 0.0


def test_complex_numbers():
    z = pb.asarray([1j], dtype="complex128")
    assert (z + [THIRD]).tolist() == [THIRD + 1j]
    assert (X64[:1] * [THIRD * 1j]).tolist() == [0.3 * (THIRD * 1j)]
    assert (X64 + [1j, 0]).dtype == pb.complex128


@pytest.mark.parametrize(
    ("dtype", "listed", "expected"),
    [
        ("uint8", [1, 2], "uint8"),
        ("uint8", [True, False], "uint8"),
        ("int64", [1, 2], "int64"),
        ("uint64", [1, 2**40], "uint64"),
        ("bfloat16", [0.5, 1.0], "bfloat16"),
        ("float16", [1, 2], "float16"),
        ("int64", [0.5, 1.0], "float32"),
        ("float32", [1j, 0.5], "complex64"),
    ],
)
def test_the_dtype_is_that_beside_one_number(dtype, listed, expected):
    x = pb.asarray([1, 2], dtype=dtype)
    number = max(listed, key=lambda one: [bool, int, float, complex].index(type(one)))
    assert (x + listed).dtype == (x + number).dtype == pb.dtypes.as_dtype(expected)


def test_integers_that_do_not_fit_are_data_of_a_dtype_of_their_own():
    x = pb.asarray([1, 2], dtype="uint8")
    assert (x + [1, 300]).tolist() == [2, 302]
    assert (x + [-1, 1]).tolist() == [0, 3]
    assert pb.isin(x, [300, 1]).tolist() == [True, False]
    assert (pb.asarray([1]) + [2**40]).tolist() == [1 + 2**40]


def test_arrays_keep_their_dtype_and_lists_follow_them():
    assert (X64 + np.asarray([0.1, 0.1], np.float32)).tolist() != (X64 + 0.1).tolist()
    assert pb.add(np.asarray([0.3]), [THIRD]).tolist() == [0.3 + THIRD]


def test_lists_alone_have_the_default_dtype():
    assert pb.add([0.5], [1]).dtype == pb.float32
    assert pb.add([0.5], 1.5).dtype == pb.float32
    assert pb.add([2**40], [1]).tolist() == [2**40 + 1]


def test_wrong_lists_are_errors_of_the_op():
    for wrong in ([[1], [1, 2]], ["a", "b"], [object()]):
        with pytest.raises(pb.errors.ConversionError, match="add: "):
            pb.add(X64, wrong)


def test_gradients_flow_beside_them():
    gradient = pb.grad(lambda x: pb.sum(x * [THIRD, 2.0]))(X64)
    assert gradient.tolist() == [THIRD, 2.0]
