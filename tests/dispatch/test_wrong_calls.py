"""Wrong calls of every op: each ends in an error that names the op, or in a right answer.

The calls are those of the conformance suites with one or two things in them replaced: an input of
another rank, size or dtype, or an object that is not an array; an attribute of another type or out
of range. Whatever comes of it, nothing of NumPy's or Python's own reaches the caller.
"""

import datetime
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pullback as pb
from pullback import errors
from pullback._dispatch.convert import (
    align_inputs,
    from_any,
    sequence_lengths,
    unflatten,
)
from pullback._dispatch.host_data import SCALAR_TYPES, numbers_of
from pullback.devices import as_device
from pullback.spec import OPS, Arity
from pullback_conformance.case import bind, leaves, resolve, to_tensor
from pullback_conformance.samples import load

SUITES = load()
CPU = as_device("cpu")

# What stands for an attribute of a wrong type or value. Sizes are tiny or absurd: none is such that
# a result of it would fit into memory and take long.
_ATTRIBUTES = [
    None, True, False, 0, 1, -1, 2, 3, 7, -9, 2**63, -(2**63) - 1, 10**20,
    0.0, 0.5, 1.5, -2.0, float("nan"), float("inf"), 1j,
    np.int64(0), np.int8(-1), np.int64(9), np.uint8(1), np.float32(1.0), np.bool_(True),
    "", "x", "same", "float32", "cpu:7", b"x",
    (), [], (0,), (0, 0), (0, 1), (1, 0), (-1, -2), (0, -1), [2, 3], (9,), (1.0,), (1.5, 2),
    (None,), (0, None), ("a",), ((0, 1), (1, 2)), ((1,),), (-1,), (10**20,), (2, -1), [[1, 2], [3]],
    np.array([0, 1]), np.array(1), np.array([0.5]), np.zeros((2, 2)),
    {}, {0: 1}, {1, 2}, object(), len, int, float, np.float32, np.dtype("U3"), slice(0, 1), ...,
    range(2),
]  # fmt: skip

# What stands where a tensor should.
_INPUTS = [
    None, True, 2, -3, 0.5, 1j, float("nan"), 10**20, 10**400, "x", "", b"x", "1.5",
    [], (), [[]], [[1, 2], [3]], [1, "a"], [None], [1, None], ["a", "b"], [1, [2, 3]], [10**30, 1],
    {}, {"a": 1}, {1, 2}, object(), len, int, ..., slice(None), range(3), range(0),
    np.array(["a"]), np.array([None]), np.array([1, "a"], dtype=object), np.array([b"x"]),
    np.array([datetime.datetime(2020, 1, 1)], dtype="datetime64[s]"), np.zeros(2, "i4,f4"),
    np.float32(1.5), np.int64(2), np.bool_(True), np.str_("a"), np.array(2.0), np.array(True),
    np.zeros(3, ">f4"), np.zeros(2, np.longdouble), np.zeros((2, 2), np.clongdouble),
    np.ma.masked_array([1.0, 2.0], [True, False]),
    np.zeros(3), np.ones((2, 3)), np.zeros((2, 0)), np.arange(4), np.ones((1, 1, 1, 1, 1)),
    [0.5, 1.5], [[1, 2], [3, 4]], [True], np.full(3, np.nan), np.full((3, 3), np.inf),
    np.array([-1, 100]), np.array([2**31 - 1, -(2**31)]),
]  # fmt: skip

_DTYPES = [
    "bool", "int8", "int32", "int64", "uint8", "uint64", "float16", "float32", "float64",
    "complex64", "complex128", "U2", "object", "S1", "longdouble",
]  # fmt: skip

_RESHAPED = {
    "one axis more in front": lambda x: x[None],
    "one axis more behind": lambda x: x[..., None],
    "one axis less": lambda x: x[0] if x.ndim and len(x) else x.reshape(-1),
    "last axis less": lambda x: x[..., 0] if x.ndim and x.shape[-1] else x.reshape(-1),
    "flat": lambda x: x.reshape(-1),
    "0-d": lambda x: x.reshape(-1)[0] if x.size else np.zeros((), x.dtype),
    "twice as long": lambda x: np.concatenate([x, x]) if x.ndim else np.stack([x, x]),
    "shorter in front": lambda x: x[1:] if x.ndim else x[None],
    "shorter behind": lambda x: x[..., :-1] if x.ndim else x[None],
    "longer behind": lambda x: np.concatenate([x, x], -1) if x.ndim else x[None, None],
    "empty": lambda x: x[:0] if x.ndim else x[None][:0],
    "empty behind": lambda x: x[..., :0] if x.ndim else x[None][:0],
    "turned": lambda x: x.T,
    "negative": lambda x: -1 - x if x.dtype.kind in "ifc" else x,
    "large": lambda x: x * x.dtype.type(100) if x.dtype.kind in "ifc" else x,
    "NaN": lambda x: np.full_like(x, np.nan) if x.dtype.kind in "fc" else x,
    "inf": lambda x: np.full_like(x, np.inf) if x.dtype.kind in "fc" else x,
    "nested lists": lambda x: x.tolist(),
}
_LISTED = {
    "no tensors": lambda xs: [],
    "one tensor": lambda xs: xs[:1],
    "one more": lambda xs: [*xs, np.ones((7, 2))],
    "one is None": lambda xs: [*xs, None],
    "one is text": lambda xs: [*xs, "x"],
    "one is a number": lambda xs: [*xs, 2],
    "not a list": lambda xs: xs[0] if xs else None,
    "a generator": lambda xs: (x for x in xs),
    "a dict": lambda xs: dict(enumerate(xs)),
    "ranks differ": lambda xs: [*xs, *[x[None] for x in xs[:1]]],
}

CALLS = [
    (name, sample.inputs, sample.attributes)
    for name, suite in sorted(SUITES.items())
    # Of collectives tests/distributed draws wrong calls.
    if name in OPS and OPS[name].on_any_device is None
    for sample in suite.samples
    if sum(leaf.size for leaf in leaves(sample.inputs)) < 5000
]
BY_OP = {}
for _call in CALLS:
    BY_OP.setdefault(_call[0], []).append(_call)


def wrong_array(draw, x):
    """Another array in the place of the array x, or something that is none."""
    way = draw(st.sampled_from(["shape", "shape", "dtype", "other"]))
    if way == "other" or not isinstance(x, np.ndarray) or x.dtype.kind not in "biufcV":
        return draw(st.sampled_from(_INPUTS))
    if way == "dtype" and x.dtype.names is None:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return x.astype(draw(st.sampled_from(_DTYPES)))
    with np.errstate(all="ignore"):
        return _RESHAPED[draw(st.sampled_from(sorted(_RESHAPED)))](x)


def draw_call(draw, names=None):
    """An op, inputs and attributes, one or two of them replaced."""
    name = draw(st.sampled_from(names or sorted(BY_OP)))
    _, inputs, attributes = draw(st.sampled_from(BY_OP[name]))
    op = OPS[name]
    inputs, attributes = list(inputs), dict(attributes)
    # A canonical key is made by x[key] alone; the ops take it at its word.
    parameters = [one.name for one in (*op.inputs, *op.attributes) if one.name != "key"]
    if not parameters:
        return name, inputs, attributes
    for place in draw(st.lists(st.sampled_from(parameters), min_size=1, max_size=2)):
        position = parameters.index(place)
        if position >= len(op.inputs):
            attributes[place] = draw(st.sampled_from(_ATTRIBUTES))
        elif position < len(inputs):
            given_ = inputs[position]
            if op.inputs[position].arity is Arity.MANY and isinstance(given_, list):
                if draw(st.booleans()) or not given_:
                    inputs[position] = _LISTED[draw(st.sampled_from(sorted(_LISTED)))](given_)
                else:
                    i = draw(st.integers(0, len(given_) - 1))
                    changed = wrong_array(draw, given_[i])
                    inputs[position] = [*given_[:i], changed, *given_[i + 1 :]]
            else:
                inputs[position] = wrong_array(draw, given_)
    return name, inputs, attributes


def described(value):
    """A value of a call in a few characters."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{list(value.shape)}"
    if isinstance(value, list):
        return "[" + ", ".join(map(described, value)) + "]"
    return repr(value)[:40]


def _tensors(value):
    """Arrays that a tensor can hold as tensors, the rest as it is."""
    if isinstance(value, list):
        return [_tensors(item) for item in value]
    if isinstance(value, np.ndarray) and value.dtype in CPU.backend.dtypes:
        return to_tensor(value, CPU)
    return value


def check(name, inputs, attributes, *, as_tensors, taped):
    """One call; raises AssertionError if it ends in anything but our error or a right result."""
    op = OPS[name]
    who = ", ".join([*map(described, inputs), *(f"{k}={v!r}" for k, v in attributes.items())])
    who = f"{name}({who})"
    if as_tensors:
        inputs = [_tensors(value) for value in inputs]
    try:
        bound = bind(op, inputs, attributes)
    except TypeError:
        return None  # a keyword that the signature does not have
    if any(hasattr(value, "__next__") for value in inputs):
        taped = False
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        # What the plugin asks for when it is imported: 1/0 is inf, and no event.
        warnings.filterwarnings("ignore", category=RuntimeWarning, module="pullback")
        try:
            if taped:
                with pb.GradientTape() as tape:
                    sources = [
                        t
                        for value in inputs
                        for t in (value if isinstance(value, list) else [value])
                        if isinstance(t, pb.Tensor) and t.dtype in pb.dtypes.FLOATING
                    ]
                    tape.watch(sources)
                    result = op.function(*bound.args, **bound.kwargs)
            else:
                result = op.function(*bound.args, **bound.kwargs)
        except errors.PullbackError as error:
            outcome = error
        except Exception as error:
            raise AssertionError(f"{who}: raised {error!r}") from error
        else:
            outcome = None
    assert not heard, f"{who}: warned {heard[0].message!r}"
    if outcome is not None:
        assert name in str(outcome), f"{who}: the message does not name the op: {outcome!r}"
        assert not isinstance(outcome, errors.BackendError), f"{who}: {outcome!r}"
    elif not any(hasattr(value, "__next__") for value in inputs):
        as_the_rules_say(op, inputs, attributes, result, who)
    return outcome and type(outcome)


def _as_dispatch_sees(op, inputs):
    """Host data as tensors; Python numbers and None stay."""

    def one(value):
        if value is None or type(value) in SCALAR_TYPES or numbers_of(value) is not None:
            return value
        return from_any(value)

    many = [each.arity is Arity.MANY for each in op.inputs]
    seen = [
        [one(item) for item in value] if listed else one(value)
        for value, listed in zip(inputs, many, strict=False)
    ]
    # Lists of numbers have the dtype that they get beside the others.
    values = (*seen, *[None] * (len(op.inputs) - len(seen)))
    flat, _ = align_inputs(op, values)
    aligned = unflatten(flat, sequence_lengths(op, values))
    return [
        [a if isinstance(v, (list, tuple)) else v for v, a in zip(value, tensors, strict=True)]
        if listed
        else (tensors if isinstance(value, (list, tuple)) else value)
        for value, tensors, listed in zip(seen, aligned, many, strict=False)
    ]


def as_the_rules_say(op, inputs, attributes, result, who):
    """The result has the shapes and dtypes of the op's rules."""
    if op.joined and isinstance(attributes.get(op.joined, -1), (tuple, list, type(None))):
        # Several axes are one that has their elements: rules see that one alone.
        attributes = {**attributes, op.joined: -1}
    try:
        expected = resolve(op, _as_dispatch_sees(op, inputs), attributes)
    except Exception as error:
        raise AssertionError(f"{who}: a result, where the rules say {error!r}") from error
    several = result if isinstance(result, (tuple, list)) else [result]
    for one, shape, dtype in zip(several, expected.shapes, expected.dtypes, strict=True):
        assert type(one) is pb.Tensor, f"{who}: {one!r}"
        assert shape is None or one.shape == tuple(shape), f"{who}: {one.shape}, rule {shape}"
        assert one.dtype == dtype, f"{who}: {one.dtype}, rule {dtype}"
        assert one.numpy().shape == one.shape


_CALLS = st.composite(draw_call)()
_COMMON = {"deadline": None, "suppress_health_check": list(HealthCheck), "database": None}


@settings(max_examples=800, derandomize=True, **_COMMON)
@given(_CALLS, st.booleans(), st.booleans())
def test_wrong_calls_of_ops(call, as_tensors, taped):
    check(*call, as_tensors=as_tensors, taped=taped)


@pytest.mark.campaign
@settings(max_examples=10_000, **_COMMON)
@given(_CALLS, st.booleans(), st.booleans())
def test_ten_thousand_wrong_calls_of_ops(call, as_tensors, taped):
    check(*call, as_tensors=as_tensors, taped=taped)


@pytest.mark.each("name", sorted(BY_OP))
def test_every_op_takes_no_tensor_for_text(name):
    """Text in place of each input in turn."""
    _, inputs, attributes = BY_OP[name][0]
    for position, value in enumerate(inputs):
        many = OPS[name].inputs[position].arity is Arity.MANY
        for wrong in ("x", ["a", "b"], [[1, 2], [3]], np.array(["a"]), object(), {}, {"a": 1}):
            given_ = [*inputs[:position], [wrong] if many else wrong, *inputs[position + 1 :]]
            outcome = check(name, given_, attributes, as_tensors=True, taped=False)
            assert outcome is not None, f"{name}: took {wrong!r} for input {position} of {value!r}"


@pytest.mark.each("name", sorted(BY_OP))
def test_every_attribute_is_checked(name):
    """An object that is nothing in particular, in the place of each attribute in turn."""
    op = OPS[name]
    _, inputs, attributes = BY_OP[name][0]
    for attribute in op.attributes:
        if attribute.name == "key":
            continue
        for wrong in (object(), {}, len, "no such word"):
            given_ = {**attributes, attribute.name: wrong}
            outcome = check(name, list(inputs), given_, as_tensors=True, taped=False)
            assert outcome is not None, f"{name}: took {wrong!r} for {attribute.name}"


# Functions that are no ops ----------------------------------------------------------------------

_ONES = np.ones((3, 4), np.float32)


def tensor(x):
    """A tensor of numbers: text is held by another class, which has other methods."""
    found = pb.asarray(x)
    if not isinstance(found, pb.Tensor):
        raise errors.DTypeError("text is not a tensor of numbers")
    return found


#: A right call of each: the function, its arguments.
FUNCTIONS = {
    "asarray": (lambda x, dtype: pb.asarray(x, dtype=dtype), ([[1.0, 2.0]], "float32")),
    "arange": (pb.arange, (0, 6, 2)),
    "linspace": (pb.linspace, (0.0, 1.0, 5)),
    "zeros": (lambda shape, dtype: pb.zeros(shape, dtype=dtype), ((2, 3), "float32")),
    "ones": (lambda shape, device: pb.ones(shape, device=device), ((2, 3), "cpu")),
    "full": (pb.full, ((2, 3), 7.0)),
    "zeros_like": (pb.zeros_like, (_ONES,)),
    "full_like": (pb.full_like, (_ONES, 2.0)),
    "eye": (pb.eye, (3, 4)),
    "tril": (pb.tril, (_ONES,)),
    "meshgrid": (pb.meshgrid, (np.arange(3), np.arange(2))),
    "broadcast_arrays": (pb.broadcast_arrays, (_ONES, np.ones(4))),
    "split": (lambda x, parts, axis: pb.split(x, parts, axis=axis), (_ONES, 2, 1)),
    "unstack": (pb.unstack, (_ONES,)),
    "take": (pb.take, (_ONES, np.array([0, 2]))),
    "repeat": (pb.repeat, (_ONES, 2)),
    "one_hot": (pb.one_hot, (np.array([0, 2]), 3)),
    "clip": (pb.clip, (_ONES, 0.0, 0.5)),
    "result_type": (pb.result_type, (_ONES, np.int32)),
    "can_cast": (pb.can_cast, (np.dtype("int8"), np.dtype("int32"))),
    "finfo": (pb.finfo, ("float32",)),
    "iinfo": (pb.iinfo, ("int32",)),
    "isdtype": (pb.isdtype, (np.dtype("int8"), "integral")),
    "x[key]": (lambda x, key: tensor(x)[key], (_ONES, (1, slice(0, 2)))),
    "x[key] = value": (
        lambda x, key, value: tensor(x).__setitem__(key, value), (_ONES, (1, slice(0, 2)), 5.0)
    ),
    "x.reshape": (lambda x, shape: tensor(x).reshape(shape), (_ONES, (4, 3))),
    "x.sum": (lambda x, axis: tensor(x).sum(axis), (_ONES, 0)),
    "x.astype": (lambda x, dtype: tensor(x).astype(dtype), (_ONES, "int32")),
    "x.to": (lambda x, device: tensor(x).to(device), (_ONES, "cpu")),
    "x @ y": (lambda x, y: tensor(x) @ y, (_ONES, np.ones((4, 2), np.float32))),
    "x ** y": (lambda x, y: tensor(x) ** y, (_ONES, 2)),
}  # fmt: skip


def function_call(draw):
    """The name of a function and its arguments, one of them replaced."""
    name = draw(st.sampled_from(sorted(FUNCTIONS)))
    arguments = list(FUNCTIONS[name][1])
    place = draw(st.integers(0, len(arguments) - 1))
    arguments[place] = draw(st.sampled_from(_INPUTS if draw(st.booleans()) else _ATTRIBUTES))
    return name, arguments


def check_function(name, arguments):
    """One call; raises AssertionError if it ends in anything but a result or our error."""
    who = f"{name}({', '.join(map(described, arguments))})"
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", category=RuntimeWarning, module="pullback")
        try:
            FUNCTIONS[name][0](*arguments)
        except errors.PullbackError as error:
            return type(error)
        except Exception as error:
            # Python's own, where neither operand knows the other.
            if type(error) is TypeError and "unsupported operand" in str(error):
                return type(error)
            # NumPy's own: a masked array answers the operators itself, beside tensors too.
            if any(isinstance(value, np.ma.MaskedArray) for value in arguments) and name[0] == "x":
                return type(error)
            raise AssertionError(f"{who}: raised {error!r}") from error
    assert not heard, f"{who}: warned {heard[0].message!r}"
    return None


@settings(max_examples=500, derandomize=True, **_COMMON)
@given(st.composite(function_call)())
def test_wrong_calls_of_functions(call):
    check_function(*call)


@pytest.mark.campaign
@settings(max_examples=5_000, **_COMMON)
@given(st.composite(function_call)())
def test_five_thousand_wrong_calls_of_functions(call):
    check_function(*call)
