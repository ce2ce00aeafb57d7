"""Graphs that a compiled backward pass must tell from the graph it was made for."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import pullback as pb
from pullback import errors
from pullback._autodiff import replay
from pullback._dispatch import definition
from pullback._dispatch.arguments import COMPARABLE, canonicalize
from pullback._dispatch.vjp_code import layout
from pullback._tree import leaves
from pullback.devices import as_device
from pullback.dtypes import is_floating
from pullback.graph.trace import Trace
from pullback.spec import OPS
from pullback_conformance.case import bind, cases, to_tensor
from pullback_conformance.samples import load

ROUNDS = 4


@pytest.fixture(autouse=True)
def forms(monkeypatch):
    """The second backward pass over a graph is compiled, and every compiled pass kept."""
    found = {}
    monkeypatch.setattr(replay, "_forms", found)
    monkeypatch.setattr(replay, "PATIENCE", 1)
    monkeypatch.setattr(replay, "_ALIKE", 100)
    return found


def compiled(forms):
    return sum(len(form.passes) for form in forms.values())


def gradient(function, *arrays):
    inputs = [pb.asarray(array) for array in arrays]
    with pb.GradientTape() as tape:
        tape.watch(inputs)
        target = function(*inputs)
    return tape.gradient(target, inputs)


# What the target is -------------------------------------------------------------------------------

X = np.arange(1.0, 10.0).reshape(3, 3)
#: Graphs whose nodes keep no arrays, with the gradient of each at an array of ones.
BARE = {
    "flip": (lambda x: pb.flip(x, axis=0), np.ones_like),
    "permute_dims": (lambda x: pb.permute_dims(x, (1, 0)), np.ones_like),
    "mT": (lambda x: x.mT, np.ones_like),
    "moveaxis": (lambda x: pb.moveaxis(x, 0, -1), np.ones_like),
    "roll": (lambda x: pb.roll(x, 1), np.ones_like),
    "tril": (pb.tril, lambda x: np.tril(np.ones_like(x))),
    "triu": (pb.triu, lambda x: np.triu(np.ones_like(x))),
    "cumulative_sum": (
        lambda x: pb.cumulative_sum(x, axis=0),
        lambda x: np.cumsum(np.ones_like(x), axis=0)[::-1],
    ),
    "astype": (lambda x: pb.astype(x, "float16"), np.ones_like),
    "negative": (pb.negative, lambda x: -np.ones_like(x)),
    "mean": (pb.mean, lambda x: np.full_like(x, 1 / x.size)),
    "sum": (pb.sum, np.ones_like),
    "add": (lambda x: x + x, lambda x: np.full_like(x, 2)),
    "subtract": (lambda x: x - 1.0, np.ones_like),
    "reshape": (lambda x: pb.reshape(x, (-1,)), np.ones_like),
    "index": (lambda x: x[0], lambda x: np.eye(1, len(x), dtype=x.dtype).T * np.ones_like(x)),
    "split": (lambda x: pb.unstack(x)[0] * 1.0, None),
    "tile": (lambda x: pb.tile(x, (2, 1)), lambda x: np.full_like(x, 2)),
    "repeat": (lambda x: pb.repeat(x, 2), lambda x: np.full_like(x, 2)),
    "broadcast_to": (lambda x: pb.broadcast_to(x, (2, *x.shape)), lambda x: np.full_like(x, 2)),
    "concat": (lambda x: pb.concat([x, x]), lambda x: np.full_like(x, 2)),
    "stack": (lambda x: pb.stack([x, x]), lambda x: np.full_like(x, 2)),
    "conj": (pb.conj, np.ones_like),
    "diagonal": (pb.linalg.diagonal, lambda x: np.eye(*x.shape, dtype=x.dtype)),
    "pad": (lambda x: pb.pad(x, 1), np.ones_like),
}


@pytest.mark.parametrize("name", BARE)
def test_shapes_and_dtypes_take_turns(name, forms):
    function, expected = BARE[name]
    expected = expected or BARE["index"][1]
    turns = itertools.product([(2, 3), (5, 5), (2, 3)], ["float32", "float64", "float32"])
    for shape, dtype in turns:
        x = np.ones(shape, dtype)
        for _ in range(ROUNDS):
            (found,) = gradient(function, x)
            assert (found.shape, found.dtype) == (shape, dtype)
            np.testing.assert_array_equal(found.numpy(), expected(x))
    assert compiled(forms) == 4


#: One sample of each op that keeps no array, in every dtype that it takes; two of other shapes.
KEEPS_NONE = {}
for _name, _suite in load().items():
    _op = OPS[_name]
    _arrays = {one.name for one in _op.inputs} | {*_op.outputs, *_op.residuals}
    if _op.differentiable and _op.rules and not _arrays & set(layout(_op)):
        KEEPS_NONE[_name] = [
            case
            for case in cases(_op, _suite, as_device("cpu"))
            if case.dtype is not None and case.sample.gradient
        ]


@pytest.mark.parametrize("name", KEEPS_NONE)
def test_every_op_that_keeps_no_array(name):
    def found(case):
        inputs = case.tensors()
        floating = [one for one in leaves(inputs) if isinstance(one, pb.Tensor)]
        floating = [one for one in floating if is_floating(one.dtype)]
        with pb.GradientTape() as tape:
            tape.watch(floating)
            result = case.call(inputs)
            result = result[0] if isinstance(result, (tuple, list)) else result
        return [
            None if one is None else (one.shape, one.dtype, one.numpy().tobytes())
            for one in tape.gradient(result, floating)
        ]

    some = KEEPS_NONE[name][:12]
    expected = []
    for case in some:
        replay._forms.clear()
        expected.append(found(case))
    replay._forms.clear()
    for _ in range(ROUNDS):
        assert [found(case) for case in some] == expected


def test_an_integer_target_is_an_error_each_time():
    for _ in range(2 * ROUNDS):
        with pytest.raises(errors.DTypeError, match="integers have no gradient"):
            gradient(lambda x: pb.astype(x, "int32"), np.ones(3))
        (found,) = gradient(lambda x: pb.astype(x, "float32"), np.ones(3))
        assert found.dtype == np.float64


def test_complex_and_real_targets_take_turns():
    for dtype in ("complex64", "float32", "complex128", "float64") * 2:
        for _ in range(ROUNDS):
            assert gradient(pb.mean, np.ones(3, dtype))[0].dtype == dtype


# Sources ------------------------------------------------------------------------------------------


def test_a_tensor_made_on_the_way_is_not_a_leaf():
    def two(x, y):
        with pb.GradientTape() as tape:
            tape.watch([x, y])
            z = x * y
        return [one.tolist() for one in tape.gradient(z, [x, y])]

    def one(x):
        with pb.GradientTape() as tape:
            tape.watch(x)
            y = x * x
            z = x * y
        return [one.tolist() for one in tape.gradient(z, [x, y])]

    x, y = np.array([2.0, 3.0]), np.array([5.0, 7.0])
    for _ in range(ROUNDS):
        assert two(pb.asarray(x), pb.asarray(y)) == [y.tolist(), x.tolist()]
        assert one(pb.asarray(x)) == [(3 * x * x).tolist(), x.tolist()]


def test_the_target_itself_as_a_source():
    for other in (True, True, True, False, True, False):
        x, w = pb.asarray([2.0]), pb.asarray([3.0])
        with pb.GradientTape() as tape:
            tape.watch([x, w])
            z = pb.negative(x)
        found = tape.gradient(z, [x, w if other else z])
        assert [one and one.tolist() for one in found] == [[-1], None if other else [1]]


def test_a_source_that_is_not_watched_has_no_gradient():
    for watched in (True, True, True, False, True, False):
        x, y, w = pb.asarray([2.0]), pb.asarray([3.0]), pb.asarray([4.0])
        with pb.GradientTape() as tape:
            tape.watch([x, y if watched else w])
            z = pb.concat([x, y])
        one, other = tape.gradient(z, [x, y])
        assert one.tolist() == [1]
        assert (other and other.tolist()) == ([1] if watched else None)


# Order and time -----------------------------------------------------------------------------------


def test_sums_are_added_up_in_the_order_of_the_calls(forms):
    functions = (pb.sin, pb.cos, pb.exp)

    def slopes(order):
        x = pb.asarray(np.random.default_rng(0).standard_normal(1000))
        with pb.GradientTape() as tape:
            tape.watch(x)
            parts = {i: functions[i](x) for i in order}
            total = pb.sum(parts[0] + parts[1] + parts[2])
        return tape.gradient(total, x).numpy().tobytes()

    orders = list(itertools.permutations(range(3)))
    plain = [slopes(orders[0])]
    for order in orders[1:]:
        forms.clear()
        plain.append(slopes(order))
    assert len(set(plain)) > 1
    forms.clear()
    for _ in range(ROUNDS):
        assert list(map(slopes, orders)) == plain
    assert compiled(forms) == len(orders)


def test_what_the_tape_did_not_record_is_not_what_it_recorded():
    def after(x):
        with pb.GradientTape() as outer:
            outer.watch(x)
            with pb.GradientTape() as tape:
                tape.watch(x)
            y = x * 2.0
        del outer
        return tape.gradient(y, x)

    def inside(x):
        with pb.GradientTape() as tape:
            tape.watch(x)
            pb.negative(x)
            y = x * 2.0
        return tape.gradient(y, x)

    for _ in range(ROUNDS):
        assert after(pb.asarray(3.0)) is None
    assert float(inside(pb.asarray(3.0))) == 2


def test_long_orders_are_compared_too(forms):
    for _ in range(ROUNDS):
        x = pb.asarray(1.0)
        with pb.GradientTape() as tape:
            tape.watch(x)
            y = pb.add(x, 0.0)
            for _ in range(500):
                y = y + x
        assert float(tape.gradient(y, x)) == 501
    assert compiled(forms) == 1


# Attributes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("numbers", [(0.0, -0.0), (1, True, 1.0), (0, False, 0.0, -0.0)])
def test_numbers_that_compare_equal(numbers):
    x = np.array([[-1.0, 2.0], [-3.0, -0.0]])
    functions = (
        lambda x, n: pb.clip(x, float(n), 5.0),
        lambda x, n: pb.leaky_relu(x, negative_slope=float(n)),
        lambda x, n: x * n,
        lambda x, n: x**n,
        lambda x, n: pb.where(x > 0, x, n),
    )

    def slope(function, n):
        return gradient(lambda x: function(x, n), x)[0].numpy().tobytes()

    for function in functions:
        plain = []
        for n in numbers:
            replay._forms.clear()
            plain.append(slope(function, n))
        replay._forms.clear()
        for _ in range(ROUNDS):
            assert [slope(function, n) for n in numbers] == plain


def test_a_nan_is_an_attribute_like_others(forms):
    for _ in range(ROUNDS):
        (found,) = gradient(lambda x: pb.leaky_relu(x, negative_slope=float("nan")), [-1.0, 1.0])
        np.testing.assert_array_equal(found.numpy(), np.array([np.nan, 1.0], np.float32))
    assert compiled(forms) == 1


#: What dispatch makes of an attribute, by the annotation of the op's parameter.
TYPES = {
    **{"Axis": int, "JoinedAxes": int, "Axes": tuple, "ShapeLike": tuple},
    **{"bool": bool, "int": int, "float": float},
}


def one_type(form, value):
    """Returns whether a value has the one type of its annotation, so that == tells it apart."""
    if value is None:
        return True
    if form == "DTypeLike":
        return isinstance(value, np.dtype)
    whole = type(value) is not tuple or all(type(item) is int for item in value)
    return whole and (type(value) is TYPES[form] if form in TYPES else isinstance(value, str))


def test_canonical_attributes_have_one_type():
    assert set(TYPES) | {"DTypeLike", "str"} == COMPARABLE
    seen = set()
    for name, suite in load().items():
        op = OPS[name]
        plain = [one for one in op.attributes if one.form in COMPARABLE]
        for case in cases(op, suite, as_device("cpu")) if plain else ():
            inputs = case.tensors()
            given = case.resolved(inputs)
            ways = [given.attributes]
            # The same with ints where it has truth values, and the other way about.
            bound = bind(op, inputs, case.sample.attributes)
            bound.apply_defaults()
            for one, zero in ((True, False), (1, 0), (np.int64(1), np.int32(0))):
                swapped = {
                    each.name: _swapped(bound.arguments[each.name], one, zero)
                    for each in op.attributes
                }
                try:
                    ways.append(canonicalize(op, given.inputs, swapped))
                except (errors.PullbackError, TypeError, ValueError):
                    continue  # not a way to write it
            for way in ways:
                for one in plain:
                    assert one_type(one.form, way[one.name]), (str(case), one, way[one.name])
                    seen.add(one.form)
    assert seen == COMPARABLE


def _swapped(value, one, zero):
    """The value with others for 1 and 0 that compare equal."""
    if isinstance(value, (tuple, list)):
        return type(value)(_swapped(part, one, zero) for part in value)
    if type(value) not in (int, bool) or value not in (0, 1):
        return value
    return one if value else zero


@pytest.mark.each("op", [op for op in OPS.values() if len(op.outputs) > 1 and op.differentiable])
def test_another_result_of_the_same_op(op, forms):
    case = next(
        case for case in cases(op, load()[op.name], as_device("cpu")) if case.sample.gradient
    )

    def slopes(position):
        inputs = case.tensors()
        watched = [leaf for leaf in leaves(inputs) if leaf is not None and is_floating(leaf.dtype)]
        with pb.GradientTape() as tape:
            tape.watch(watched)
            result = pb.negative(case.call(inputs)[position])
        if not is_floating(result.dtype):
            return None
        found = tape.gradient(result, watched)
        return [None if one is None else one.numpy().tobytes() for one in found]

    plain = []
    for position in range(len(op.outputs)):
        forms.clear()  # the first pass over a graph is not compiled
        plain.append(slopes(position))
    forms.clear()
    for _ in range(ROUNDS):
        assert [slopes(position) for position in range(len(op.outputs))] == plain


# What a trace must not stand for ------------------------------------------------------------------


def test_a_rule_that_a_program_gives_to_an_op_of_the_table(forms):
    vecdot, calls = OPS["vecdot"], []
    before, own = dict(vecdot.rules), vecdot.own
    try:
        vecdot.rules.clear()
        pb.vecdot.vjp(x1=lambda g, x1: calls.append(g) or x1 * float(len(calls)))
        for i in range(ROUNDS):
            x = pb.asarray([1.0, 1.0])
            with pb.GradientTape() as tape:
                tape.watch(x)
                y = pb.vecdot(x, pb.asarray([1.0, 1.0]))
            assert tape.gradient(y, x).tolist() == [i + 1, i + 1]
    finally:
        vecdot.rules.clear()
        vecdot.rules.update(before)
        vecdot.own = own
        definition._forget(vecdot)
    assert not compiled(forms)


def test_shapes_that_depend_on_values_are_values():
    x = pb.asarray([1.0, 0.0, 2.0])
    for function, sound in (
        (pb.argwhere, False),
        (lambda x: pb.unique_counts(x).values, False),
        (pb.flip, True),
        (lambda x: pb.linalg.qr(pb.stack([x, x])).Q, True),
    ):
        trace = Trace(x.device)
        function(trace.argument(x._array, "x"))
        assert trace.sound is sound
    for op in OPS.values():
        op.scalars.clear()


def test_infinite_complex_numbers_times_one():
    z = np.array([complex(np.inf, 0), complex(-0.0, -1), complex(0, np.inf), 1j] * 10_000)

    def slopes():
        with np.errstate(all="ignore"):
            found = gradient(lambda x, y: pb.sum(x * y), z, z[::-1])
        return [one.numpy().tobytes() for one in found]

    plain, *others = [slopes() for _ in range(ROUNDS)]
    assert all(other == plain for other in others)


@pytest.mark.parametrize("size", [7, 400])  # a constant of the trace, and one too large for it
def test_what_lies_otherwise_in_memory_is_added_up_as_the_plain_pass_does(size, forms):
    values = np.random.default_rng(0).standard_normal((size, 96))[::-1, ::-1]
    plain = None
    for _ in range(ROUNDS):
        x = to_tensor(values, as_device("cpu"), copy=False)
        row = pb.asarray(np.full(96, 2.0))
        with pb.GradientTape() as tape:
            tape.watch(row)
            y = pb.sum(x * row)
        found = tape.gradient(y, row).numpy().tobytes()
        plain = plain or found
        assert found == plain
    assert compiled(forms) == 1
