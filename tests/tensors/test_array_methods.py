"""Methods of tensors and variables that NumPy's arrays have, against NumPy."""

import numpy as np
import pytest

import pullback as pb
from pullback import errors

X = np.array([[0.3, -1.7, 2.5], [1.2, 0.4, -0.6]])

#: Calls with NumPy's names and order of arguments.
CALLS = {
    "all": lambda x: x.all(1),
    "any": lambda x: x.any(axis=0, keepdims=True),
    "argmax": lambda x: x.argmax(1),
    "argmax of all": lambda x: x.argmax(),
    "argmin": lambda x: x.argmin(0, keepdims=True),
    "argsort": lambda x: x.argsort(0),
    "astype": lambda x: x.astype("float32"),
    "clip": lambda x: x.clip(0, 1),
    "clip, one bound": lambda x: x.clip(max=0.5),
    "conj": lambda x: x.conj(),
    "copy": lambda x: x.copy(),
    "cumprod": lambda x: x.cumprod(0),
    "cumsum": lambda x: x.cumsum(),
    "cumsum, dtype": lambda x: x.cumsum(1, "float32"),
    "diagonal": lambda x: x.diagonal(1),
    "divmod": lambda x: divmod(x, 0.7)[1],
    "dot": lambda x: x.dot(X.T),
    "flatten": lambda x: x.flatten(),
    "imag": lambda x: x.imag,
    "max": lambda x: x.max(1),
    "mean": lambda x: x.mean(0),
    "mean, dtype": lambda x: x.mean(0, np.float32, keepdims=True),
    "min": lambda x: x.min(-1),
    "nonzero": lambda x: x.nonzero()[1],
    "prod": lambda x: x.prod(1),
    "ravel": lambda x: x.ravel(),
    "real": lambda x: x.real,
    "repeat": lambda x: x.repeat(2),
    "repeat, axis": lambda x: x.repeat(2, 1),
    "reshape": lambda x: x.reshape(3, 2),
    "round": lambda x: x.round(),
    "round, decimals": lambda x: (x * 1.234).round(1),
    "squeeze": lambda x: x[None].squeeze(0),
    "std": lambda x: x.std(0),
    "std, ddof": lambda x: x.std(1, ddof=1),
    "sum": lambda x: x.sum(1),
    "sum, dtype": lambda x: x.sum(dtype="float32"),
    "swapaxes": lambda x: x.swapaxes(0, 1),
    "take": lambda x: x.take([1, 4]),
    "take, axis": lambda x: x.take([1, 0], 1),
    "tobytes": lambda x: np.frombuffer(x.tobytes(), np.float64),
    "trace": lambda x: x.trace(),
    "transpose": lambda x: x.transpose(),
    "transpose, axes": lambda x: x[None].transpose(2, 0, 1),
    "transpose, a sequence": lambda x: x[None].transpose((2, 0, 1)),
    "var": lambda x: x.var(0, keepdims=True),
}


@pytest.mark.parametrize("kind", [pb.asarray, pb.Variable])
@pytest.mark.parametrize("name", CALLS)
def test_methods_against_numpy(name, kind):
    found, expected = CALLS[name](kind(X)), CALLS[name](X)
    assert name == "tobytes" or type(found) is pb.Tensor
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-6)


def test_sort_returns_what_it_sorts():
    # NumPy's sorts in place, which no tensor can.
    x = pb.asarray(X)
    np.testing.assert_array_equal(x.sort(0).numpy(), np.sort(X, 0))
    np.testing.assert_array_equal(x.numpy(), X)


@pytest.mark.parametrize("kind", [pb.asarray, pb.Variable])
def test_methods_stay_on_the_tape(kind):
    x = kind(X)
    with pb.GradientTape() as tape:
        tape.watch(x)
        y = (x.clip(-1, 1).transpose().cumsum(0) * x.flatten().round(1)[0]).std(ddof=1)
    assert (tape.gradient(y, x).numpy() != 0).any()


@pytest.mark.parametrize("x", [pb.asarray([True, False]), pb.asarray([1, 2])], ids=["bool", "int"])
def test_parts_of_real_numbers(x):
    assert x.real.dtype == x.imag.dtype == x.dtype
    assert x.real.tolist() == x.tolist()
    assert x.imag.tolist() == [0, 0]


@pytest.mark.parametrize("kind", [pb.asarray, pb.Variable])
def test_arrays_of_numpy_are_read_only_views_and_writable_copies(kind):
    for values in (X, X[:, ::-1], X[0, 0], np.zeros((0, 2)), np.array([True]), np.array([1j])):
        x = kind(values)
        # NumPy would take it before `__array__`, and convert to bfloat16 by rounding twice.
        assert not hasattr(x, "__array_interface__")
        np.testing.assert_array_equal(np.asarray(x), values)
        assert not np.asarray(x).flags.writeable
        assert np.array(x).flags.writeable


def test_values_outlive_the_tensor_that_lent_them():
    array = np.asarray(pb.flip(pb.arange(1000)))
    assert array.tolist() == list(range(999, -1, -1))


def test_wrong_axes_name_the_op():
    with pytest.raises(errors.AxisError, match="sum: "):
        pb.asarray(X).sum(2)


def test_two_axes_for_a_transposition_of_three_say_what_exchanges_two():
    x = pb.ones((2, 3, 4))
    with pytest.raises(pb.errors.AxisError, match=r"x\.swapaxes\(a, b\) exchanges two"):
        x.transpose(1, 2)
    assert x.swapaxes(1, 2).shape == (2, 4, 3)
