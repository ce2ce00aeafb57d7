"""Sums of gradients begin while the backward pass goes on, and end before they are used."""

from __future__ import annotations

import sys
import threading

import numpy as np
import pytest

import pullback as pb
from pullback.distributed.collectives import begin_all_reduce, finish_all_reduce
from pullback.distributed.world import World, entering
from pullback.graph.passes.simplify import simplify
from pullback.graph.running import begin_early
from pullback.graph.trace import Trace


class Twin(pb.distributed.Communicator):
    """A rank beside another one that does the same."""

    name = "twin"
    size = 2

    def __init__(self, concurrent=True):
        self.concurrent = concurrent
        self.threads = []
        self.fails = False

    def exchange(self, data):
        return [data, data]

    def all_reduce(self, array, op):
        self.threads.append(threading.current_thread().name)
        if self.fails:
            raise pb.errors.CommunicationError("the link is gone")
        return array + array if op == "sum" else np.array(array)

    def broadcast(self, array, root):
        return np.array(array)


def begin(arrays):
    return begin_all_reduce(arrays, in_pairs=False, beside=True, items=2)


def test_a_program_begins_a_sum_as_soon_as_its_input_is_there():
    x = pb.asarray([1.0, 2.0])
    trace = Trace(x.device)
    first = pb.negative(trace.argument(x._array, "x"))
    second = pb.exp(pb.sin(first))
    begun = [begin([first, first]), begin([second] * 2)]
    last = finish_all_reduce(begun[0]) + finish_all_reduce(begun[1])
    graph = simplify(trace.graph([last._array.value]))
    before = [call.op.name for call in graph.calls]
    assert before[:3] == ["negative", "sin", "exp"]
    names = [call.op.name for call in begin_early(graph).calls]
    assert names == [
        *("negative", "begin_all_reduce", "sin", "exp", "begin_all_reduce"),
        *("finish_all_reduce", "finish_all_reduce", "add"),
    ]


def test_sums_begin_in_one_order():
    x = pb.asarray([1.0, 2.0])
    trace = Trace(x.device)
    first = pb.negative(trace.argument(x._array, "x"))
    second = pb.sin(first)
    begun = [begin([second]), begin([first])]
    pb.distributed.barrier()
    last = finish_all_reduce(begun[0]) + finish_all_reduce(begun[1])
    graph = trace.graph([last._array.value])
    ordered = [call for call in graph.calls if call.op.is_ordered]
    after = begin_early(graph)
    assert [call for call in after.calls if call.op.is_ordered] == ordered
    made = set()
    for call in after.calls:
        made.update(call.results)
        assert all(value in made or value.name == "x" for value in call.values) or not call.values


@pytest.mark.parametrize("concurrent", [False, True])
@pytest.mark.parametrize("captured", [False, True])
def test_steps_beside_and_one_after_the_other_are_equal(concurrent, captured):
    link = Twin(concurrent)
    rng = np.random.default_rng(0)
    x = pb.asarray(rng.normal(size=(4, 300)).astype("float32"))
    variables = [pb.Variable(rng.normal(size=(300, 300)).astype("float32") / 20) for _ in range(12)]
    before = [v.numpy().copy() for v in variables]

    def loss():
        y = x
        for v in variables:
            y = pb.tanh(y @ v)
        return pb.mean(y**2)

    def run(optimizer):
        for v, start in zip(variables, before, strict=True):
            v.assign(start)
        step = lambda: optimizer.minimize(loss, variables)  # noqa: E731
        step = pb.function(step) if captured else step
        for _ in range(4):
            step()
        return [v.numpy().copy() for v in variables]

    wanted = run(pb.optimizers.SGD(0.5))
    with entering(World(link)):
        found = run(pb.distributed.DataParallel(pb.optimizers.SGD(0.5)))
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    assert len(link.threads) == 4 * 2  # buckets of 1 MiB and of the rest
    # Nothing is left to compute beside the last one.
    assert link.threads == ["pullback sums" if concurrent else "MainThread", "MainThread"] * 4


@pytest.mark.parametrize("exact", [False, True])
def test_a_compiled_backward_pass_begins_sums_as_it_goes_on(exact):
    """In steps that are not captured, from the third on; the last bucket waits for the end."""
    places = []

    class Looks(Twin):
        """Makes sums where they begin, and looks where that is."""

        def look(self):
            frame = sys._getframe()
            while frame is not None and frame.f_code.co_name != "backward_pass":
                frame = frame.f_back
            if frame is not None:
                lines = [line for *_, line in frame.f_code.co_lines() if line]
                places.append((frame.f_lineno - min(lines)) / (max(lines) - min(lines)))

        def all_reduce(self, array, op):
            self.look()
            return array + array

        def all_to_all(self, array):
            self.look()
            return np.concatenate([array[: len(array) // 2]] * 2)

        def all_gather(self, array):
            return np.concatenate([array] * 2)

    variables = [pb.Variable(np.eye(300, dtype="float32")) for _ in range(12)]
    x = pb.ones((4, 300))

    def loss():
        y = x
        for v in variables:
            y = pb.tanh(y @ v)
        return pb.mean(y**2)

    with entering(World(Looks(concurrent=False))):
        optimizer = pb.distributed.DataParallel(pb.optimizers.SGD(0.5), exact=exact)
        for _ in range(5):
            optimizer.minimize(loss)
    assert len(places) >= 4  # two buckets, in two or three steps
    first, last = places[-2:]
    assert first < 0.8 < last


def test_sums_of_a_step_that_an_exception_ended_are_not_those_of_the_next_one():
    variable = pb.Variable([1.0, 2.0])
    with entering(World(Twin())):
        begin([pb.asarray([5.0, 5.0])])
        optimizer = pb.distributed.DataParallel(pb.optimizers.SGD(0.5))
        optimizer.minimize(lambda: pb.sum(variable.value * variable.value), [variable])
    assert variable.numpy().tolist() == [0.0, 0.0]


def test_a_sum_that_fails_raises_where_it_is_awaited():
    link = Twin()
    link.fails = True
    variable = pb.Variable([1.0])
    optimizer = pb.distributed.DataParallel(pb.optimizers.SGD(0.5))
    with (
        entering(World(link)),
        pytest.raises(pb.errors.CommunicationError, match="the link is gone"),
    ):
        optimizer.minimize(lambda: pb.sum(variable.value), [variable])
