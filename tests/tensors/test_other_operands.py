"""Operators of tensors beside values of other libraries, which have their own way with them."""

from decimal import Decimal
from fractions import Fraction
from unittest import mock

import numpy as np
import pytest

import pullback as pb
from pullback import errors
from pullback._dispatch import definition
from pullback._operators import INFIX
from pullback.spec import OPS


class Unit:
    """As of a library of units: no array, and with a higher priority than arrays."""

    __array_priority__ = 17

    def __mul__(self, other):
        return ("units", other)

    __rmul__ = __mul__


class Quantity:
    """As of a library of units: it takes ufuncs in its own way."""

    def __array__(self, dtype=None, copy=None):
        return np.ones(2)

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        return f"quantity's {ufunc.__name__}"

    def __radd__(self, other):
        return "quantity's radd"

    def __gt__(self, other):
        return "quantity's gt"

    def __eq__(self, other):
        return "quantity's eq"

    __hash__ = None


class Labelled:
    """An array with labels, as of a library of tables."""

    __array_priority__ = 50

    def __array__(self, dtype=None, copy=None):
        return np.ones(2)

    def __rsub__(self, other):
        return "labels"

    def __rmatmul__(self, other):
        return "labels"


class OptedOut:
    """A class that wants no ufuncs."""

    __array_ufunc__ = None

    def __rtruediv__(self, other):
        return "its own"


class Plain:
    """An array of another library, which exchanges memory, with a priority and operators."""

    __array_priority__ = 1000

    def __array__(self, dtype=None, copy=None):
        return np.ones(2, np.float32)

    def __dlpack__(self, **_):
        raise NotImplementedError

    def __radd__(self, other):
        return NotImplemented


class SubArray(np.ndarray):
    """A subclass of NumPy's array with a higher priority."""

    __array_priority__ = 15

    def __radd__(self, other):
        return "the subclass"


OURS = {"tensor": pb.asarray([1.0, 2.0]), "variable": pb.Variable([1.0, 2.0])}


@pytest.fixture(params=OURS)
def x(request):
    return OURS[request.param]


def test_units(x):
    assert x * Unit() == ("units", x)
    assert Unit() * x == ("units", x)
    with pytest.raises(TypeError, match="unsupported operand"):
        x + Unit()


def test_what_takes_ufuncs_in_its_own_way(x):
    assert x + Quantity() == "quantity's radd"
    assert (x < Quantity()) == "quantity's gt"
    assert (x == Quantity()) == "quantity's eq"
    # It has no method for it, and can be converted.
    assert (x * Quantity()).tolist() == [1.0, 2.0]


def test_arrays_with_labels(x):
    assert x - Labelled() == "labels"
    assert x @ Labelled() == "labels"
    assert (x + Labelled()).tolist() == [2.0, 3.0]
    # A function of pullback gives a tensor.
    assert pb.subtract(x, Labelled()).tolist() == [0.0, 1.0]


def test_classes_that_opt_out(x):
    assert x / OptedOut() == "its own"
    for call in (lambda: x + OptedOut(), lambda: OptedOut() + x, lambda: x < OptedOut()):
        with pytest.raises(TypeError, match=r"not supported|unsupported"):
            call()


def test_plain_arrays_of_other_libraries_are_converted(x):
    assert (x + Plain()).tolist() == [2.0, 3.0]


def test_subclasses_of_arrays_with_a_higher_priority(x):
    assert x + np.ones(2).view(SubArray) == "the subclass"
    assert (x * np.ones(2).view(SubArray)).tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    "other", [object(), None, "text", b"text", {"a": 1.0}, {1.0}, Decimal(1), Fraction(1), len]
)
def test_what_is_no_array(x, other):
    assert (x == other) is False
    assert (x != other) is True
    for call in (
        lambda: x + other, lambda: x @ other, lambda: other - x, lambda: x < other,
        lambda: other >= x, lambda: x & other,
    ):  # fmt: skip
        with pytest.raises(TypeError, match=r"not supported between|unsupported operand"):
            call()


def test_equality_is_asked_of_the_other(x):
    assert x == mock.ANY
    assert x in [mock.ANY]


def test_arrays_that_do_not_fit_say_why(x):
    with pytest.raises(errors.ShapeError, match="broadcast"):
        x + np.ones(3)
    with pytest.raises(errors.ConversionError, match="nested lists of unequal lengths"):
        x * [[1.0], [1.0, 2.0]]
    with pytest.raises(errors.ConversionError, match="not an array of numbers"):
        x + np.array(["a", "b"])
    with pytest.raises(errors.ConversionError, match="out of range"):
        pb.asarray([1], dtype="int8") + 1000


def test_buffers_and_sequences_are_converted(x):
    for other in (memoryview(np.ones(2)), range(1, 3), (1.0, 1.0), np.float32(1.0)):
        assert isinstance(x + other, pb.Tensor)
        assert isinstance(other + x, pb.Tensor)


def test_operators_run_the_code_of_the_ops(x):
    # What costs time where all operands are tensors or numbers is the same.
    assert (x + 1).tolist() == pb.add(x, 1).tolist()
    assert vars(INFIX)["add"].__code__ is pb.add.__code__


def test_operators_follow_an_op_whose_code_is_made_anew(x):
    definition._forget(OPS["add"])
    assert (x + 1).tolist() == [2.0, 3.0]
    assert x + Quantity() == "quantity's radd"
    assert vars(INFIX)["add"].__code__ is pb.add.__code__


def test_divmod_and_round(x):
    quotient, rest = divmod(x, 2)
    assert quotient.tolist() == [0.0, 1.0]
    assert rest.tolist() == [1.0, 0.0]
    quotient, rest = divmod(5, x)
    assert quotient.tolist() == [5.0, 2.0]
    assert rest.tolist() == [0.0, 1.0]
    assert round(x * 1.26, 1).tolist() == pytest.approx([1.3, 2.5])
    assert round(x * 1.26).tolist() == [1.0, 3.0]
