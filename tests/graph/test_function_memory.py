"""The memory of captured functions: what a run holds beside the function that it stands for."""

from __future__ import annotations

import gc
import sys
import tracemalloc
import weakref

import numpy as np
import pytest

import pullback as pb
from pullback._dispatch import op
from pullback.devices import as_device
from pullback.dtypes import same
from pullback.graph.running import early_writes, updates_last
from pullback.graph.trace import FunctionTrace
from pullback.shapes import first
from pullback.spec import ACCUMULATED, OPS
from pullback.tensor import Tensor
from pullback_conformance.case import cases
from pullback_conformance.samples import load

WIDTH = 256


def step_of(optimizer, capture):
    pb.random.seed(0)
    model = pb.Sequential(
        [
            pb.layers.Dense(WIDTH, activation="relu"),
            pb.layers.Dense(WIDTH, activation="relu"),
            pb.layers.Dense(10),
        ]
    )

    def step(x, y):
        with pb.GradientTape() as tape:
            loss = pb.losses.sparse_softmax_cross_entropy(y, model(x, training=True))
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    return (pb.function(step) if capture else step), model


def peak(step, *args):
    """The bytes that a call needs beside what was there before."""
    for _ in range(4):
        step(*args)
    gc.collect()
    tracemalloc.start()
    try:
        step(*args)
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        step(*args)
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


def read_in_a_branch(depth):
    """A reference to a class that the branch of a captured function has read."""

    class Read:
        size = 0.5

    def mapped(function, depth):
        return mapped(pb.vmap(function), depth - 1) if depth else function

    def scaled(x):
        return mapped(lambda x: 0.5 * x + Read.size, depth)(x)

    captured = pb.function(lambda x: pb.cond(pb.sum(x) > 0, scaled, pb.abs, x))
    for _ in range(4):
        captured(pb.ones((2, 3)))
    return weakref.ref(Read)


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_numbers_in_a_trace_keep_nothing_of_it(depth):
    # Ops keep Python numbers as tensors of the device of a call; `vmap` has devices of its own.
    read = read_in_a_branch(depth)
    gc.collect()
    assert read() is None


def test_a_trace_that_fails_keeps_no_array():
    def constant():
        return pb.asarray(np.ones(1 << 18, np.float32))

    captured, x = pb.function(lambda x: float(pb.sum(constant() * x + constant()))), pb.ones(())
    captured(x)
    gc.collect()
    tracemalloc.start()
    try:
        with pytest.raises(pb.errors.CaptureError) as held:
            captured(x)
        # The error holds the frames of the trace.
        assert tracemalloc.get_traced_memory()[0] < 1 << 19, held
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("rate", [0.1, lambda step: 0.1 / (1 + step)])
@pytest.mark.parametrize("name", ["SGD", "Adam", "Adafactor", "LAMB"])
def test_nothing_keeps_a_trace(name, rate):
    optimizer = getattr(pb.optimizers, name)(rate)
    v = pb.Variable(pb.ones((4, 3)))

    @pb.function
    def step(x):
        with pb.GradientTape() as tape:
            loss = pb.mean((x @ v) ** 2)
        optimizer.apply_gradients([(tape.gradient(loss, v), v)])
        return loss

    def traces():
        gc.collect()
        return [each for each in gc.get_objects() if type(each) is FunctionTrace]

    before = traces()
    for _ in range(2):
        step(pb.ones((2, 4)))
    assert len(step._all()) == 1
    assert len(traces()) == len(before)


@pytest.mark.parametrize("batch", [16, 256])
@pytest.mark.parametrize(
    "optimizer",
    [lambda: pb.optimizers.Adam(0.01), lambda: pb.optimizers.SGD(0.1, momentum=0.9)],
    ids=["Adam", "SGD"],
)
def test_a_training_step_needs_no_more_than_the_function(optimizer, batch):
    rng = np.random.default_rng(0)
    x = pb.asarray(rng.standard_normal((batch, WIDTH), np.float32))
    y = pb.asarray(rng.integers(0, 10, batch))
    needed = [peak(step_of(optimizer(), capture)[0], x, y) for capture in (False, True)]
    assert needed[1] <= 1.02 * needed[0] + 20_000, needed


def test_updates_are_the_last_calls_and_all_are_written_at_once():
    x, y = pb.ones((4, WIDTH)), pb.asarray([0, 1, 2, 3])
    step, model = step_of(pb.optimizers.Adam(0.01), True)
    for _ in range(3):
        step(x, y)
    graph = updates_last(step.graph)
    count = len(model.trainable_variables)
    assert [call.op.name for call in graph.calls[-count:]] == ["adam_update"] * count
    assert len(early_writes(graph)) == len(graph.writes) == 3 * count


def test_what_is_read_or_returned_later_is_not_written_early():
    v, w, u = pb.Variable(1.0), pb.Variable(1.0), pb.Variable(1.0)

    @pb.function
    def f(x):
        v.assign(v + x)
        w.assign(w * v)
        u.assign(u - x)
        return w.value

    expected = [(2.0, 2.0, 0.0), (3.0, 6.0, -1.0), (4.0, 24.0, -2.0), (5.0, 120.0, -3.0)]
    for found in expected:
        assert float(f(pb.ones(()))) == found[1]
        assert (float(v), float(w), float(u)) == found
    early = {
        target.owner
        for targets in early_writes(updates_last(f.graph)).values()
        for target in targets
    }
    assert early == {u}


def test_one_value_for_two_variables():
    v, w = pb.Variable(1.0), pb.Variable(5.0)

    @pb.function
    def f(x):
        v.assign(x + 1)
        w.assign(v)

    for i in range(4):
        f(pb.asarray(float(i)))
        assert (float(v), float(w)) == (i + 1.0, i + 1.0)


def test_calls_that_may_fail_come_before_all_updates():
    v, w, table = pb.Variable(1.0), pb.Variable(1.0), pb.asarray([1.0, 2.0, 3.0])

    @pb.function
    def f(index):
        v.assign_add(1.0)
        w.assign(pb.sum(pb.take(table, index)))

    for _ in range(3):
        f(pb.asarray([0, 1]))
    with pytest.raises(pb.errors.IndexingError):
        f(pb.asarray([0, 7]))
    assert (float(v), float(w)) == (4.0, 3.0)
    f(pb.asarray([1, 2]))
    assert (float(v), float(w)) == (5.0, 5.0)


class Called(list):
    """The variables that an update was called for, and how many refer to their arrays then."""

    def __init__(self):
        self.references = []


@pytest.fixture
def in_place():
    """Registers an update in place of SGD; returns the variables that it was called for."""
    backend = as_device("cpu").backend
    called = Called()

    def kernel(p, g, rate, *, weight_decay):
        return p - rate * g

    def update(variable, g, rate, *, weight_decay):
        called.append(variable)
        called.references.append(sys.getrefcount(variable._array))
        if g.max() > 100:
            raise MemoryError("not enough")
        variable._array = variable._array - rate * g

    backend.register_kernel("sgd_update", kernel, source="test", priority=100, in_place=update)
    yield called
    backend.unregister_kernels("test")


def sgd_step(optimizer, variables):
    def step(x):
        for variable in variables:
            optimizer.apply_gradients([(x * 2, variable)])

    return step


@pytest.mark.parametrize("capture", [False, True])
def test_a_backend_may_update_the_variables_themselves(in_place, capture):
    v, w = pb.Variable([1.0, 2.0]), pb.Variable([5.0, 6.0])
    step = sgd_step(pb.optimizers.SGD(0.5), [v, w])
    step = pb.function(step) if capture else step
    for _ in range(4):
        step(pb.ones(2))
    assert [v.tolist(), w.tolist()] == [[-3, -2], [1, 2]]
    assert {id(x) for x in in_place} == {id(v), id(w)}
    assert len(in_place) == (4 if capture else 6)
    with pytest.raises(pb.errors.OutOfMemoryError, match="not enough"):
        step(pb.full(2, 1000.0))
    assert [v.tolist(), w.tolist()] == [[-3, -2], [1, 2]]
    step(pb.ones(2))
    assert [v.tolist(), w.tolist()] == [[-4, -3], [0, 1]]


def test_new_values_that_are_looked_at_are_not_made_in_place(in_place):
    v, w = pb.Variable([1.0, 2.0]), pb.Variable([5.0, 6.0])
    first, second = (pb.optimizers.SGD(0.5) for _ in range(2))

    @pb.function
    def step(x):
        before = v * 1.0
        first.apply_gradients([(x, v)])
        second.apply_gradients([(x + v, w)])
        return before, w.value

    for i in range(3):
        expected = v.numpy()
        before, after = step(pb.ones(2))
        if i == 1:
            in_place.clear()
    assert not in_place
    np.testing.assert_array_equal(before, expected)
    np.testing.assert_array_equal(after, w)
    assert [v.tolist(), w.tolist()] == [[-0.5, 0.5], [3.5, 3]]


#: What a gradient may be besides something that has just been computed.
GRADIENTS = {
    "the value": lambda v, w, x: v.value,
    "another value": lambda v, w, x: w.value,
    "the variable": lambda v, w, x: v,
    "a view": lambda v, w, x: pb.flip(v.value),
    "an argument": lambda v, w, x: x,
    "a value that is read later": lambda v, w, x: v * 1.0 + w.value,
    "a constant": lambda v, w, x: pb.ones(3),
}


@pytest.mark.parametrize("of_v", GRADIENTS)
@pytest.mark.parametrize("of_w", GRADIENTS)
def test_an_update_in_place_gets_arrays_whatever_its_gradient_is(in_place, of_v, of_w):
    found = []
    for capture in (False, True):
        v, w = pb.Variable([1.0, 2.0, 4.0]), pb.Variable([5.0, 6.0, 8.0])
        optimizer = pb.optimizers.SGD(0.5)

        def step(x, v=v, w=w, optimizer=optimizer):
            g, h = (pb.asarray(GRADIENTS[one](v, w, x)) for one in (of_v, of_w))
            optimizer.apply_gradients([(g, v), (h, w)])
            return g

        step = pb.function(step) if capture else step
        found.append([[y.tolist() for y in (step(pb.ones(3) * i), v, w)] for i in range(5)])
    assert found[0] == found[1]


@pytest.mark.parametrize("of_v", GRADIENTS)
def test_nobody_else_has_what_an_update_in_place_takes_over(in_place, of_v):
    v, w = pb.Variable([1.0, 2.0, 4.0]), pb.Variable([5.0, 6.0, 8.0])
    optimizer = pb.optimizers.SGD(0.5)

    @pb.function
    def step(x):
        g = pb.asarray(GRADIENTS[of_v](v, w, x))
        optimizer.apply_gradients([(g, v), (pb.sum(g) * w * 0.01, w)])

    for _ in range(2):
        step(pb.ones(3))
    in_place.clear()
    in_place.references.clear()
    step(pb.ones(3))
    mine = sys.getrefcount(v._array)
    # Where the gradient is the parameter, or a view of it, the call itself reads it.
    shared = {id(v)} if of_v in ("the value", "the variable", "a view") else set()
    for variable, count in zip(in_place, in_place.references, strict=True):
        assert (count > mine) is (id(variable) in shared)


@pytest.mark.parametrize("update", [False, True])
def test_an_update_of_another_package_is_known_by_its_definition(update):
    backend = as_device("cpu").backend

    @op(shape=first, dtype=same, accuracy=ACCUMULATED, differentiable=False, update=update)
    def _halfway(parameter: Tensor, gradient: Tensor) -> Tensor:
        """Half of the way."""
        return parameter - gradient * 0.5

    backend.register_kernel("_halfway", lambda p, g: p - g * 0.5, source="test", priority=100)
    try:
        v, w = pb.Variable([4.0, 2.0]), pb.Variable([1.0, 8.0])

        @pb.function
        def step(x):
            for variable in (v, w):
                variable.assign(_halfway(variable, x * 2))
            return pb.sum(x)

        graph = updates_last(step.lower(pb.ones(2)).graph)
        assert (graph.calls[-1].op.name == "_halfway") is update
        assert len(early_writes(graph)) == 2 * update
        for _ in range(3):
            step(pb.ones(2))
        assert [v.tolist(), w.tolist()] == [[1, -1], [-2, 5]]
    finally:
        backend.unregister_kernels("test")
        del OPS["_halfway"]


@pytest.mark.parametrize("name", [one.name for one in OPS.values() if one.update])
def test_an_update_gives_new_values_of_what_it_changes(name):
    for case in cases(OPS[name], load()[name], as_device("cpu")):
        inputs = [x for x in case.tensors() if x is not None]
        found = case.call(inputs)
        results = found if isinstance(found, (tuple, list)) else [found]
        old = [inputs[0], *inputs[2:]][: len(results)]
        assert [(x.shape, x.dtype) for x in results] == [(x.shape, x.dtype) for x in old]


@pytest.mark.parametrize("wrong", range(4))
def test_a_failed_call_is_told_from_others_of_its_op(wrong):
    v, table = pb.Variable(0.0), pb.arange(3.0)

    @pb.function
    def f(a, b, c, d):
        x = pb.take(table, a)
        y = pb.split(pb.take(table, b) + x, 2)[0]
        z = pb.cond(pb.sum(y) > 100, lambda: y, lambda: pb.take(table, c)[:1])
        v.assign_add(pb.sum(pb.take(table, d) * z) + 1)
        return x

    good = [pb.asarray([0, 1]) for _ in range(4)]
    for _ in range(3):
        f(*good)
    line = f.__wrapped__.__code__.co_firstlineno + 2 + wrong
    good[wrong] = pb.asarray([0, 7])
    with pytest.raises(pb.errors.IndexingError, match="take") as caught:
        f(*good)
    assert f"test_function_memory.py:{line}" in "".join(caught.value.__notes__)
    assert float(v) == 3.0
