"""Operators of tensors, and NumPy's functions on them, against NumPy."""

import numpy as np
import pytest

import pullback as pb
from pullback import errors

# Operators ---------------------------------------------------------------------------------------

BINARY = [
    ("+", lambda a, b: a + b), ("-", lambda a, b: a - b), ("*", lambda a, b: a * b),
    ("/", lambda a, b: a / b), ("//", lambda a, b: a // b), ("%", lambda a, b: a % b),
    ("**", lambda a, b: a**b), ("<", lambda a, b: a < b), ("<=", lambda a, b: a <= b),
    (">", lambda a, b: a > b), (">=", lambda a, b: a >= b), ("==", lambda a, b: a == b),
    ("!=", lambda a, b: a != b),
]  # fmt: skip


@pytest.mark.parametrize(("name", "f"), BINARY, ids=[name for name, _ in BINARY])
def test_operators_against_numpy(name, f):
    a, b = np.array([5.0, -7.0, 2.0], np.float32), np.array([2.0, 3.0, 2.0], np.float32)
    expected = f(a, b)
    for left, right in (
        (pb.asarray(a), pb.asarray(b)),
        (pb.asarray(a), b),
        (a, pb.asarray(b)),
        (a.tolist(), pb.asarray(b)),
        (pb.asarray(a), b.tolist()),
    ):
        found = f(left, right)
        assert isinstance(found, pb.Tensor)
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize(("name", "f"), BINARY[:7], ids=[name for name, _ in BINARY[:7]])
def test_operators_with_python_numbers(name, f):
    a = np.array([5.0, 7.0, 2.0], np.float32)
    for number in (2, 2.0):
        for found, expected in (
            (f(pb.asarray(a), number), f(a, np.float32(number))),
            (f(number, pb.asarray(a)), f(np.float32(number), a)),
        ):
            assert found.dtype == np.float32
            np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)


def test_bitwise_operators():
    a, b = np.array([5, -7, 2], np.int32), np.array([2, 3, 1], np.int32)
    x, y = pb.asarray(a), pb.asarray(b)
    for f in (
        lambda a, b: a & b, lambda a, b: a | b, lambda a, b: a ^ b,
        lambda a, b: a << b, lambda a, b: a >> b,
    ):  # fmt: skip
        np.testing.assert_array_equal(f(x, y).numpy(), f(a, b))
        np.testing.assert_array_equal(f(x, 1).numpy(), f(a, 1))
        np.testing.assert_array_equal(f(6, y).numpy(), f(6, b))
    np.testing.assert_array_equal((~x).numpy(), ~a)


def test_unary_operators():
    x = pb.asarray([1.0, -2.0])
    assert (-x).tolist() == [-1.0, 2.0]
    assert (+x).tolist() == [1.0, -2.0]
    assert abs(x).tolist() == [1.0, 2.0]


def test_matmul_operator():
    a, b = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
    x, y = pb.asarray(a), pb.asarray(b)
    for found in (x @ y, a @ y, x @ b):
        assert isinstance(found, pb.Tensor)
        np.testing.assert_allclose(found.numpy(), a @ b)


# NumPy's functions -------------------------------------------------------------------------------


def test_ufuncs_run_our_ops():
    x = pb.asarray([1.0, 4.0])
    with pb.GradientTape(persistent=True) as tape:
        tape.watch(x)
        products = [np.multiply(x, x), np.multiply(x, np.array([1.0, 4.0], np.float32))]
        root = np.sqrt(x)
    assert all(isinstance(one, pb.Tensor) for one in [*products, root])
    assert tape.gradient(products[0], x).tolist() == [2.0, 8.0]
    assert tape.gradient(products[1], x).tolist() == [1.0, 4.0]
    assert tape.gradient(root, x).tolist() == [0.5, 0.25]


@pytest.mark.parametrize(
    ("ufunc", "count"),
    [
        (np.absolute, 1), (np.arccos, 1), (np.arcsin, 1), (np.arctan, 1), (np.arctan2, 2),
        (np.power, 2), (np.true_divide, 2), (np.divide, 2), (np.exp, 1), (np.log1p, 1),
        (np.maximum, 2), (np.less, 2), (np.floor_divide, 2), (np.negative, 1), (np.isnan, 1),
        (np.conjugate, 1), (np.hypot, 2), (np.logaddexp, 2), (np.copysign, 2), (np.remainder, 2),
        (np.matmul, 2), (np.fmod, 2), (np.rint, 1),
    ],
)  # fmt: skip
def test_ufuncs_by_their_numpy_names(ufunc, count):
    values = [np.array([0.25, -0.5], np.float32), np.array([0.5, 0.75], np.float32)][:count]
    with np.errstate(invalid="ignore"):  # a root of -0.5
        expected = ufunc(*values)
    found = ufunc(*[pb.asarray(v) for v in values])
    assert isinstance(found, pb.Tensor)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)


def test_array_on_the_left_gives_a_tensor():
    x = pb.asarray([1.0, 2.0])
    for found in (np.array([3.0, 4.0]) * x, np.float32(3.0) * x, np.array(3.0) + x):
        assert isinstance(found, pb.Tensor)


def test_numpy_functions_take_tensors_as_arrays():
    x = pb.asarray([1.0, 2.0])
    assert np.sum(np.asarray(x)) == 3.0
    assert np.concatenate([np.asarray(x), np.ones(1)]).tolist() == [1.0, 2.0, 1.0]


def test_dlpack():
    x = pb.asarray([[1.0, 2.0], [3.0, 4.0]])
    back = np.from_dlpack(x)
    np.testing.assert_array_equal(back, x.numpy())
    assert not back.flags.writeable
    assert x.__dlpack_device__()[0] == 1


def test_namespace():
    x = pb.asarray([1.0, 1.0])
    assert x.__array_namespace__() is pb
    assert x.__array_namespace__(api_version="2024.12") is pb
    with pytest.raises(errors.PullbackError):
        x.__array_namespace__(api_version="1999.01")
