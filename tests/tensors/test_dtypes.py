"""Dtypes: their names, promotion, and the rules that ops are defined with."""

import copy
import itertools
import pickle

import ml_dtypes
import numpy as np
import pytest

import pullback as pb
from pullback import dtypes as dt
from pullback import errors

PAIRS = list(itertools.product(dt.ALL, dt.ALL))


# Names -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", dt.ALL, ids=str)
def test_every_dtype_by_itself_and_by_name(dtype):
    assert dt.as_dtype(dtype) is dtype or dt.as_dtype(dtype) == dtype
    assert dt.as_dtype(dtype.name) == dtype
    assert dt.as_dtype(dtype.type) == dtype


@pytest.mark.parametrize("dtype", dt.ALL, ids=str)
def test_the_namespace_s_dtype_is_the_dtype_in_all_but_none(dtype):
    named = getattr(pb, dtype.name)
    assert named == dtype
    assert dtype == named
    assert (named != dtype) is False
    assert {named: 1}[dtype] == {dtype: 1}[named] == 1
    assert dt.as_dtype(named) is dtype
    assert np.zeros(2, named).dtype == dtype
    assert np.dtype(named) is dtype
    # A tensor shows the namespace's: its name is stored, and it is one of NumPy's to `isinstance`.
    assert pb.zeros(2, dtype=named).dtype is named
    assert pb.Variable(np.zeros(2, dtype), trainable=False).dtype is named
    assert type(named).name.__class__.__name__ == "member_descriptor"
    assert isinstance(named, np.dtype)
    assert np.issubdtype(named, dtype.type)
    assert pickle.loads(pickle.dumps(named)) is copy.deepcopy(named) is named
    assert (named.name, named.itemsize, str(named), repr(named)) == (
        dtype.name, dtype.itemsize, str(dtype), repr(dtype),
    )  # fmt: skip
    assert pickle.loads(pickle.dumps(named)) is copy.deepcopy(named) is named
    for other in (None, "no dtype", 3, *set(dt.ALL) - {dtype}):
        assert named != other
        assert other != named
    for other in dt.ALL:
        assert (named == getattr(pb, other.name)) == (dtype == other)


def test_python_types():
    assert dt.as_dtype(bool) == dt.bool_
    assert dt.as_dtype(int) == dt.int32
    assert dt.as_dtype(float) == dt.float32
    assert dt.as_dtype(complex) == dt.complex64
    assert dt.as_dtype(ml_dtypes.bfloat16) == dt.bfloat16


def test_byte_order_is_made_native():
    assert dt.as_dtype(">f4") == dt.float32
    assert dt.as_dtype(">f4").isnative


@pytest.mark.parametrize("value", ["float8", "S3", object, "datetime64[s]", None, 3, [], "U", ""])
def test_what_is_no_dtype(value):
    with pytest.raises(errors.DTypeError, match="float32"):
        dt.as_dtype(value)


# Promotion ---------------------------------------------------------------------------------------


@pytest.mark.each("pair", PAIRS)
def test_promotion_is_symmetric_and_above_both(pair):
    a, b = pair
    if {a, b} in [{dt.uint64, signed} for signed in dt.SIGNED]:
        with pytest.raises(errors.DTypeError, match="astype"):
            dt.promote_types(a, b)
        return
    joint = dt.promote_types(a, b)
    assert joint == dt.promote_types(b, a)
    assert joint == dt.promote_types(joint, a) == dt.promote_types(joint, b)
    if dt.kind(a) == dt.kind(b):
        # Inside one kind nothing is lost.
        assert np.can_cast(a, joint) or {a, b} & {dt.bfloat16}


@pytest.mark.parametrize("a", dt.INTEGER, ids=str)
@pytest.mark.parametrize("b", dt.FLOATING, ids=str)
def test_width_of_an_index_never_widens_the_data(a, b):
    assert dt.promote_types(a, b) == b


@pytest.mark.parametrize("dtype", dt.ALL, ids=str)
def test_bool_is_below_everything(dtype):
    assert dt.promote_types(dt.bool_, dtype) == dtype


def test_promotion_is_associative_where_it_is_defined():
    for a, b, c in itertools.product(dt.ALL, repeat=3):
        try:
            left = dt.promote_types(dt.promote_types(a, b), c)
            right = dt.promote_types(a, dt.promote_types(b, c))
        except errors.DTypeError:
            continue
        sixteen = {dt.float16, dt.bfloat16} <= {a, b, c}
        assert left == right or sixteen, (a, b, c)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("float16", "bfloat16", "float32"),
        ("int8", "uint8", "int16"),
        ("int32", "uint32", "int64"),
        ("int64", "uint32", "int64"),
        ("float64", "complex64", "complex128"),
        ("float32", "complex64", "complex64"),
        ("int64", "complex64", "complex64"),
        ("bfloat16", "complex64", "complex64"),
    ],
)
def test_promotion_of(a, b, expected):
    assert dt.promote_types(dt.as_dtype(a), dt.as_dtype(b)) == dt.as_dtype(expected)


@pytest.mark.parametrize(
    ("operands", "expected"),
    [
        ([dt.float32, float], dt.float32),
        ([dt.float16, float], dt.float16),
        ([dt.bfloat16, int], dt.bfloat16),
        ([dt.int8, int], dt.int8),
        ([dt.int8, float], dt.float32),
        ([dt.uint8, bool], dt.uint8),
        ([dt.bool_, int], dt.int32),
        ([dt.bool_, bool], dt.bool_),
        ([dt.bool_, float], dt.float32),
        ([dt.float64, complex], dt.complex128),
        ([dt.float16, complex], dt.complex64),
        ([dt.int64, complex], dt.complex64),
        ([int, float], dt.float32),
        ([int, bool], dt.int32),
        ([complex, float], dt.complex64),
        ([float, dt.int8, dt.float64], dt.float64),
        ([int, dt.float16, dt.float32], dt.float32),
    ],
)
def test_python_numbers_are_weak(operands, expected):
    assert dt.promote(operands) == expected
    assert dt.promote(operands[::-1]) == expected


# Kinds -------------------------------------------------------------------------------------------


def test_kinds():
    assert [dt.kind(d) for d in (dt.bool_, dt.uint8, dt.bfloat16, dt.complex64)] == [0, 1, 2, 3]
    assert [dt.kind(t) for t in (bool, int, float, complex)] == [0, 1, 2, 3]
    assert [d for d in dt.ALL if dt.is_floating(d)] == list(dt.FLOATING)
    assert [d for d in dt.ALL if dt.is_complex(d)] == list(dt.COMPLEX)


def test_parts_of_complex_numbers():
    assert dt.real_of(dt.complex64) == dt.float32
    assert dt.real_of(dt.complex128) == dt.float64
    assert dt.real_of(dt.bfloat16) == dt.bfloat16
    assert dt.complex_of(dt.float64) == dt.complex128
    assert dt.complex_of(dt.float16) == dt.complex64


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        ("bool", "int32"), ("int8", "int32"), ("int16", "int32"), ("int32", "int32"),
        ("int64", "int64"), ("uint8", "uint32"), ("uint32", "uint32"), ("uint64", "uint64"),
        ("float16", "float16"), ("bfloat16", "bfloat16"), ("complex64", "complex64"),
    ],
)  # fmt: skip
def test_dtype_of_a_sum(dtype, expected):
    assert dt.accumulated(dt.as_dtype(dtype)) == dt.as_dtype(expected)


# Rules -------------------------------------------------------------------------------------------


def test_promoting_rule():
    found = dt.numeric((dt.int8, dt.float32, None))
    assert found.inputs == (dt.float32, dt.float32, None)
    assert found.outputs == (dt.float32,)
    assert dt.numeric.uniform


@pytest.mark.parametrize("dtype", dt.ALL, ids=str)
@pytest.mark.parametrize(
    ("rule", "taken"),
    [
        (dt.same, dt.ALL),
        (dt.numeric, (*dt.INTEGER, *dt.FLOATING)),
        (dt.real, (*dt.INTEGER, *dt.REAL_FLOATING)),
        (dt.floating, dt.ALL),
        (dt.real_floating, (dt.bool_, *dt.INTEGER, *dt.REAL_FLOATING)),
        (dt.complex_, dt.COMPLEX),
        (dt.integer, dt.INTEGER),
        (dt.integer_or_boolean, (dt.bool_, *dt.INTEGER)),
        (dt.boolean, (dt.bool_,)),
        (dt.predicate, dt.ALL),
    ],
)
def test_what_a_rule_takes(rule, taken, dtype):
    if dtype in taken:
        assert rule((dtype,)).inputs[0] in dt.ALL
    else:
        with pytest.raises(errors.DTypeError, match="astype"):
            rule((dtype,))


def test_integers_are_lifted_to_the_default_float():
    assert dt.floating((dt.int64,)).outputs == (dt.float32,)
    assert dt.floating((dt.bool_,)).inputs == (dt.float32,)
    assert dt.floating((dt.bfloat16,)).outputs == (dt.bfloat16,)


def test_predicates_keep_their_inputs():
    found = dt.predicate((dt.int8, dt.float16))
    assert found.inputs == (dt.float16, dt.float16)
    assert found.outputs == (dt.bool_,)


def test_each_input_by_itself():
    rule = dt.each("floating", "integer")
    assert rule((dt.float16, dt.int8)).inputs == (dt.float16, dt.int8)
    assert rule((dt.float16, dt.int8)).outputs == (dt.float16,)
    # The last class serves all further inputs, None stays None.
    assert rule((dt.float16, dt.int8, None, dt.int64)).inputs[2:] == (None, dt.int64)
    with pytest.raises(errors.DTypeError, match="integer"):
        rule((dt.float16, dt.float16))
    assert dt.each("any", "any", result=1)((dt.float16, dt.int8)).outputs == (dt.int8,)
    assert dt.each("any", result=dt.bool_)((dt.float16,)).outputs == (dt.bool_,)


def test_the_names_of_dtypes_are_not_made_anew():
    """NumPy makes `dtype.name` in Python, in several microseconds, at each look."""
    for dtype in dt.ALL:
        assert dt.name_of(dtype) == dtype.name
        assert dt.name_of(dtype) is dt.name_of(np.zeros(1, dtype).dtype)
        named = dt.named(dtype.name)
        assert (named.name, named.kind, named.itemsize) == (dtype.name, dtype.kind, dtype.itemsize)
        assert named.name is named.name
        again = pickle.loads(pickle.dumps(named))
        assert again is named
