"""Compiled backward passes give what plain ones give, and stand aside where they could not."""

from __future__ import annotations

import copy
import itertools
import sys
import threading
import tracemalloc
import weakref

import numpy as np
import pytest

import pullback as pb
from pullback import errors
from pullback._autodiff import replay, tracing
from pullback._tree import leaves
from pullback.devices import as_device
from pullback.dtypes import is_floating, real_floating
from pullback.graph.graph import frozen
from pullback.shapes import first
from pullback.spec import EXACT, OPS
from pullback.tensor import Tensor, TensorLike
from pullback_conformance.case import cases
from pullback_conformance.samples import load

SUITES = load()
NAMES = [
    name
    for name, suite in SUITES.items()
    if OPS[name].differentiable and any(sample.gradient for sample in suite.samples)
]
ROUNDS = 4
#: A result may be the input itself; a rule may go to a device, or look at values.
NOT_COMPILED = (
    "resize",
    "resample",
    "einsum",
    "matrix_power",
    "to_device",
    "slogdet",
    "_cofactors",
)


@pytest.fixture(autouse=True)
def forms(monkeypatch):
    """The second backward pass over a graph is compiled; nothing of other tests is found."""
    found = {}
    monkeypatch.setattr(replay, "_forms", found)
    monkeypatch.setattr(replay, "PATIENCE", 1)
    return found


def compiled(forms):
    return sum(len(form.passes) for form in forms.values())


def same(one, other):
    if one is None or other is None:
        return one is other
    return one.dtype == other.dtype and one.numpy().tobytes() == other.numpy().tobytes()


def gradient(function, *arrays):
    inputs = [pb.asarray(array) for array in arrays]
    with pb.GradientTape() as tape:
        tape.watch(inputs)
        target = function(*inputs)
    return tape.gradient(target, inputs)


# Every op ----------------------------------------------------------------------------------------


def gradients_of(case, is_given=False):
    inputs = case.tensors()
    floating = [t for t in leaves(inputs) if isinstance(t, Tensor) and is_floating(t.dtype)]
    with pb.GradientTape() as tape:
        tape.watch(floating)
        target = next(t for t in leaves(case.call(inputs)) if is_floating(t.dtype))
    return tape.gradient(target, floating, output_gradients=cotangent(target) if is_given else None)


def cotangent(target):
    values = np.linspace(0.5, 1.5, max(target.size, 1))[: target.size].reshape(target.shape)
    return pb.asarray(values, dtype=target.dtype)


@pytest.mark.parametrize("name", NAMES)
def test_every_op(name, forms, every):
    turns = itertools.cycle((False, True))

    def agree(case):
        forms.clear()
        is_given = next(turns)
        plain, traced, *replayed = [gradients_of(case, is_given) for _ in range(ROUNDS)]
        for found in (traced, *replayed):
            assert all(map(same, plain, found))
        nothing = None in plain or not any(gradient.size for gradient in plain)
        assert compiled(forms) or nothing or name in NOT_COMPILED

    found = cases(OPS[name], SUITES[name], as_device("cpu"))
    narrow = [case for case in found if str(case.dtype) in ("float32", "complex64")]
    every([case for case in narrow if case.sample.gradient], agree)


def test_a_cotangent_that_is_given(forms):
    x, other = np.array([2.0, 3.0]), np.array([5.0, 7.0])

    def found(given, used=None):
        """The gradient of x * used, whose cotangent may be what the product has kept."""
        one, factor = pb.asarray(x), pb.asarray(other)
        with pb.GradientTape() as tape:
            tape.watch(one)
            y = one * (factor if used is None else used)
        return tape.gradient(y, one, output_gradients=given)

    for _ in range(3):
        assert found(None).numpy().tolist() == [5, 7]
        assert found(pb.asarray([1.0, -1.0], dtype="float64")).numpy().tolist() == [5, -7]
        kept = pb.asarray(other)
        assert found(kept, kept).numpy().tolist() == [25, 49]
        assert found(pb.asarray([2.0, 1.0], dtype="float64"), kept).numpy().tolist() == [10, 7]
        # Host data is converted, and so is another dtype.
        assert found([1.0, 2.0]).numpy().tolist() == [5, 14]
        assert found(pb.asarray([1.0, 2.0], dtype="float32")).numpy().tolist() == [5, 14]
        with pytest.raises(errors.ShapeError):
            found(pb.asarray([1.0], dtype="float64"))
    assert compiled(forms) == 3


# Graphs that look alike from afar -----------------------------------------------------------------


def twice(function, *arrays):
    for _ in range(3):
        found = gradient(function, *arrays)
    return found


def test_other_shapes_and_dtypes(forms):
    for shape in [(3,), (2, 3), (), (0,), (3,)]:
        for dtype in ("float32", "float64"):
            x = np.full(shape, 2, dtype)
            (found,) = twice(lambda x: pb.sum(x * x), x)
            assert found.dtype == dtype
            assert np.array_equal(found.numpy(), 2 * x)
    assert compiled(forms)


def test_other_links(forms):
    x, y = np.array([2.0, 3.0]), np.array([5.0, 7.0])
    one, other = twice(lambda x, y: pb.sum(x * y), x, y)
    assert (one.numpy().tolist(), other.numpy().tolist()) == ([5, 7], [2, 3])
    one, other = twice(lambda x, y: pb.sum(y * x), x, y)
    assert (one.numpy().tolist(), other.numpy().tolist()) == ([5, 7], [2, 3])
    one, other = twice(lambda x, y: pb.sum(x * x), x, y)
    assert one.numpy().tolist() == [4, 6]
    assert other is None
    assert compiled(forms)


def test_other_attributes():
    x = np.arange(6.0).reshape(2, 3)
    for axis in (0, 1, 0):
        (found,) = twice(lambda x, axis=axis: pb.max(x, axis=axis).sum(), x)
        expected = np.zeros((2, 3))
        expected[(1, slice(None)) if axis == 0 else (slice(None), 2)] = 1
        assert np.array_equal(found.numpy(), expected)


def test_an_index_that_equals_another():
    x = np.array([[1.0, 2.0], [3.0, 4.0]])
    for index, expected in [(1, [[0, 0], [1, 1]]), (True, [[1, 1], [1, 1]])] * 2:
        (found,) = twice(lambda x, index=index: x[index].sum(), x)
        assert found.numpy().tolist() == expected


def test_other_numbers():
    x = np.array([1.0, 2.0])
    for factor in (2, 3, 2.5):
        (found,) = twice(lambda x, factor=factor: pb.sum(x * factor), x)
        assert found.numpy().tolist() == [factor, factor]


def test_values_that_are_equal_and_not_the_same():
    assert frozen(1) != frozen(True)
    assert frozen(1) != frozen(1.0)
    assert frozen(0.0) != frozen(-0.0)
    assert frozen((slice(0, 1), ...)) == frozen((slice(0, 1), ...))
    with pytest.raises(TypeError):
        frozen(object())


# Sources ------------------------------------------------------------------------------------------


def run(sources_of, **options):
    found = []
    for _ in range(3):
        x, y = pb.asarray(2.0), pb.asarray(3.0)
        with pb.GradientTape() as tape:
            tape.watch([x, y])
            target = x * x * y
        found.append(tape.gradient(target, sources_of(x, y), **options))
    return found


def test_order_and_structure(forms):
    for found in run(lambda x, y: {"b": [y], "a": (x, None)}):
        assert float(found["b"][0]) == 4
        assert float(found["a"][0]) == 12
        assert found["a"][1] is None
    assert compiled(forms)
    assert [float(g) for g in run(lambda x, y: x)] == [12] * 3
    assert [float(g) for g in run(lambda x, y: y)] == [4] * 3


def test_one_source_twice():
    for one, other in run(lambda x, y: [x, x]):
        assert float(one) == float(other) == 12
    for one, other in run(lambda x, y: [x, y]):
        assert (float(one), float(other)) == (12, 4)


def test_unconnected_sources():
    z = pb.asarray([1.0, 1.0])
    for _, none in run(lambda x, y: [x, z]):
        assert none is None
    for _, zeros in run(lambda x, y: [x, z], unconnected_gradients="zero"):
        assert zeros.numpy().tolist() == [0, 0]


def test_variables(forms):
    v = pb.Variable([1.0, 2.0])
    for step in range(5):
        with pb.GradientTape() as tape:
            loss = pb.sum(v * v * v)
        (g,) = tape.gradient(loss, [v])
        assert np.array_equal(g.numpy(), 3 * v.numpy() ** 2)
        v.assign_add([step, 1.0])
    assert compiled(forms) == 1


def test_complex_sources_are_conjugated(forms):
    z = np.array([1 + 2j, -3j])
    for _ in range(4):
        (found,) = gradient(lambda z: pb.sum(pb.abs(z * z)), z)
        assert np.allclose(found.numpy(), 2 * z)
    assert compiled(forms) == 1


# Tapes --------------------------------------------------------------------------------------------


def test_a_persistent_tape_keeps_its_record(forms):
    x = pb.asarray(3.0)
    for _ in range(3):
        with pb.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = x * x
        assert [float(tape.gradient(y, x)) for _ in range(4)] == [6] * 4
    assert compiled(forms)


def test_a_tape_is_used_once_all_the_same():
    for _ in range(4):
        x = pb.asarray(3.0)
        with pb.GradientTape() as tape:
            tape.watch(x)
            y = x * x
        assert float(tape.gradient(y, x)) == 6
        with pytest.raises(errors.TapeError, match="persistent=True"):
            tape.gradient(y, x)


def test_what_has_been_let_go_is_an_error():
    for _ in range(4):
        x = pb.asarray(3.0)
        with pb.GradientTape() as outer:
            outer.watch(x)
            with pb.GradientTape() as inner:
                inner.watch(x)
                y = x * x
        del outer
        assert float(inner.gradient(y, x)) == 6
        assert y._node.saved is None


def test_other_tapes_keep_their_record(forms):
    for _ in range(4):
        x = pb.asarray(3.0)
        with pb.GradientTape() as one:
            one.watch(x)
            with pb.GradientTape() as other:
                other.watch(x)
                y = x * x
        assert float(other.gradient(y, x)) == 6
        assert float(one.gradient(y, x)) == 6


def test_higher_orders():
    def cube(x):
        return x * x * x

    for _ in range(5):
        x = pb.asarray(2.0)
        assert float(pb.grad(cube)(x)) == 12
        assert float(pb.grad(pb.grad(cube))(x)) == 12
        assert float(pb.grad(pb.grad(pb.grad(cube)))(x)) == 6


def test_while_another_thread_records():
    started, go_on = threading.Event(), threading.Event()

    def record():
        with pb.GradientTape():
            started.set()
            go_on.wait(10)

    thread = threading.Thread(target=record)
    thread.start()
    started.wait(10)
    for _ in range(4):
        assert gradient(lambda x: x * x, 3.0)[0].numpy() == 6
    go_on.set()
    thread.join()


# What could not stand -----------------------------------------------------------------------------


def test_custom_gradients_are_called_each_time(forms):
    calls = []

    @pb.custom_gradient
    def scaled(x):
        def grad(g):
            calls.append(g)
            return g * float(len(calls))

        return pb.positive(x), grad

    found = [float(gradient(lambda x: scaled(x) * 2.0, 1.0)[0]) for _ in range(4)]
    assert found == [2, 4, 6, 8]
    assert not compiled(forms)


def test_rules_from_elsewhere_are_called_each_time(forms):
    factor = 1.0

    @pb.op(shape=first, dtype=real_floating, accuracy=EXACT, name="_replay_identity")
    def identity(x: TensorLike, /) -> Tensor:
        return pb.positive(x)

    try:
        identity.vjp(x=lambda g: g * factor)
        for factor in (1.0, 2.0, 3.0, 4.0):
            assert float(gradient(identity, 5.0)[0]) == factor
    finally:
        del OPS["_replay_identity"]
    assert not compiled(forms)


def test_a_rule_that_writes_into_its_cotangent_changes_no_later_gradient():
    @pb.op(shape=first, dtype=real_floating, accuracy=EXACT, name="_replay_writes")
    def writes(x: TensorLike, /) -> Tensor:
        return pb.positive(x)

    def rule(g):
        g[...] = 5.0
        return g

    try:
        writes.vjp(x=rule)
        for _ in range(3):
            assert float(pb.grad(writes)(1.0)) == 5.0
            assert float(pb.grad(pb.negative)(1.0)) == -1.0
    finally:
        del OPS["_replay_writes"]


def test_a_trace_in_which_values_were_read_is_not_kept(forms):
    def logarithm(x):
        return pb.linalg.slogdet(x).logabsdet

    regular, singular = np.array([[2.0, 0.0], [0.0, 4.0]]), np.array([[2.0, 0.0], [0.0, 0.0]])
    for _ in range(4):
        for x, expected in [(regular, [[0.5, 0], [0, 0.25]]), (singular, [[0.5, 0], [0, 0]])]:
            assert np.allclose(gradient(logarithm, x)[0].numpy(), expected)
    assert not compiled(forms)


def test_kernels_that_came_later_are_used():
    def ten(x):
        return np.full_like(x, 10)

    backend = as_device("cpu").backend
    found = []
    for round in range(6):
        if round == 3:
            backend.register_kernel("cos", ten, source="test", priority=9)
        try:
            found.append(gradient(pb.sin, 0.0)[0].numpy())
        finally:
            if round == 5:
                backend.unregister_kernels("test")
    assert found == [1, 1, 1, 10, 10, 10]


# Memory -------------------------------------------------------------------------------------------


def test_arrays_are_released_on_the_way(forms):
    size, depth = 1 << 18, 20

    def step():
        x = pb.asarray(np.ones(size, np.float32))
        with pb.GradientTape() as tape:
            tape.watch(x)
            y = x
            for _ in range(depth):
                y = pb.tanh(y)
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        tape.gradient(y, x)
        return (tracemalloc.get_traced_memory()[1] - before) / (4 * size)

    tracemalloc.start()
    try:
        peaks = [step() for _ in range(4)]
    finally:
        tracemalloc.stop()
    assert compiled(forms) == 1
    assert max(peaks) < 8, peaks  # arrays above what the tape kept, not one more for each op


def test_a_compiled_pass_keeps_no_arrays():
    refs = []
    for _ in range(4):
        x = pb.asarray(np.ones(1000))
        with pb.GradientTape() as tape:
            tape.watch(x)
            y = x * x
        g = tape.gradient(y, x)
        refs += [weakref.ref(x._array), weakref.ref(g._array)]
        del x, y, g, tape
    assert [ref() for ref in refs] == [None] * len(refs)


@pytest.mark.parametrize("size", [10, 40_000])  # a constant of the trace, and one too large for it
def test_the_ones_of_a_sum_s_gradient_are_not_multiplied_by(forms, offer, size):
    calls, counts = [], []
    offer("multiply", lambda x1, x2: calls.append(None) or np.multiply(x1, x2))
    for _ in range(ROUNDS):
        x = pb.asarray(np.full(size, 0.5))
        with pb.GradientTape() as tape:
            tape.watch(x)
            y = pb.sum(pb.sin(x))
        calls.clear()
        np.testing.assert_array_equal(tape.gradient(y, x).numpy(), np.cos(np.full(size, 0.5)))
        counts.append(len(calls))
    assert compiled(forms) == 1
    assert counts[0] == 1
    assert counts[-1] == 0


def test_what_is_computed_twice_of_one_array_is_computed_once(forms, offer):
    calls = []
    offer("cos", lambda x: calls.append(None) or np.cos(x))

    def both(x, y):
        return pb.sum(pb.sin(x) * pb.sin(y)) + pb.sum(pb.sin(x) * 2.0)

    x = pb.asarray([1.0, 2.0, 3.0])

    def slopes(function):
        calls.clear()
        with pb.GradientTape() as tape:
            tape.watch(x)
            total = function()
        return tape.gradient(total, x).numpy().tobytes(), len(calls)

    plain, *_, replayed = [slopes(lambda: both(x, x)) for _ in range(ROUNDS)]
    assert compiled(forms) == 1
    assert (plain[0], plain[1]) == (replayed[0], 3)
    assert replayed[1] == 1
    # Another array of the same values is another array: the pass is a plain one.
    twin = pb.asarray(x.numpy().copy())
    with pb.GradientTape() as tape:
        tape.watch([x, twin])
        total = both(x, twin)
    one, other = tape.gradient(total, [x, twin])
    assert (one + other).numpy().tobytes() == plain[0]


def test_one_array_twice_and_two_arrays_take_turns(forms):
    x, y = pb.asarray([1.0, 2.0]), pb.asarray([3.0, 5.0])

    def slopes(a, b):
        a, b = copy.copy(a), copy.copy(b)
        with pb.GradientTape() as tape:
            tape.watch([a, b])
            total = pb.sum(a * b)
        return [one.tolist() for one in tape.gradient(total, [a, b])]

    for a, b in (*[(x, x)] * ROUNDS, *[(x, y)] * ROUNDS, (y, y), (y, x), (x, x)):
        assert slopes(a, b) == [b.tolist(), a.tolist()]
    assert compiled(forms) == 2  # the first is for one array alone, the second for any two


def test_the_number_of_forms_is_bounded(forms, monkeypatch):
    monkeypatch.setattr(replay, "_FORMS", 8)
    for length in range(30):

        def chain(x, length=length):
            for _ in range(length + 1):
                x = x * 1.5
            return x

        for _ in range(3):
            assert float(gradient(chain, 1.0)[0]) == pytest.approx(1.5 ** (length + 1))
        assert len(forms) <= 8


def test_the_pass_that_is_compiled_when_the_store_is_full_is_kept(forms, monkeypatch):
    monkeypatch.setattr(replay, "_IN_ALL", 3)
    for length in range(5):

        def chain(x, length=length):
            for _ in range(length + 1):
                x = x * 1.5
            return x

        for _ in range(3):
            gradient(chain, 1.0)
        assert sum(len(form.passes) for form in forms.values()) in (1, 2, 3)
        assert [*forms.values()][-1].passes


def test_threads_compile_at_the_same_time(forms):
    """Forms are added while another thread counts them, which takes its time with this many."""
    forms.update({(i,): replay._Form() for i in range(3500)})
    failures = []

    def train(start):
        try:
            for length in range(start, start + 60):
                for _ in range(3):
                    with pb.GradientTape() as tape:
                        x = pb.Variable(1.0)
                        y = x
                        for _ in range(length):
                            y = y * 1.5
                    assert float(tape.gradient(y, x)) == pytest.approx(1.5**length)
        except Exception as error:
            failures.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=train, args=(1 + i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not failures


def test_a_graph_too_large_is_not_compiled(forms, monkeypatch):
    monkeypatch.setattr(tracing, "_LARGEST", 50)

    def chain(x):
        for _ in range(60):
            x = x + 1.0
        return x

    for _ in range(4):
        assert gradient(chain, 1.0)[0].numpy() == 1
    assert not compiled(forms)


def test_shapes_that_never_repeat_stop_being_compiled(forms):
    for size in range(1, 60):
        (found,) = gradient(lambda x: pb.sum(x * x), np.ones(size))
        assert found.numpy().tolist() == [2] * size
    (form,) = forms.values()
    assert form.built < 20
