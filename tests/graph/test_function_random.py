"""Random programs of ops, variables, tapes, random numbers and steps: captured equals eager."""

from __future__ import annotations

import os
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pullback as pb
from pullback.devices import as_device
from pullback.graph.graph import check
from pullback.shapes import broadcast
from pullback.spec import OPS

#: The programs assign what they read: that is meant.
pytestmark = pytest.mark.filterwarnings("ignore:Variable was assigned")

SIZE = 3
NUMBERS = (0.5, -1.25, 2, 0.0, 1)
UNARY = {
    "tanh": pb.tanh,
    "sin": pb.sin,
    "negative": pb.negative,
    "square": lambda x: x * x,
    "relu": pb.relu,
    "transpose": lambda x: x.T,
    "softmax": pb.softmax,
    "norm": pb.layer_norm,
    "reshape": lambda x: x.reshape((-1,)).reshape((SIZE, SIZE)),
    "flip": pb.flip,
    "row": lambda x: x[1] + x,
    "part": lambda x: pb.concat([x[:1], x[1:]], axis=0),
    "mean": lambda x: x - pb.mean(x, axis=0),
    "cast": lambda x: x.astype("float64").astype("float32"),
    "stop": pb.stop_gradient,
    "sort": lambda x: pb.sort(x, axis=1),
    "ones": lambda x: pb.ones_like(x) * x,
    "once": lambda x: 1.0 * x,
    "flipped once": lambda x: pb.flip(x, axis=1) * 1.0,
}
BINARY = {
    "add": pb.add,
    "subtract": pb.subtract,
    "multiply": pb.multiply,
    "matmul": pb.matmul,
    "maximum": pb.maximum,
    "where": lambda x, y: pb.where(x > y, x, y * 0.5),
    "stack": lambda x, y: pb.stack([x, y]).sum(axis=0),
    "divide": lambda x, y: x / (y * y + 1),
}

index = st.integers(0, 99)


def part(inner):
    """Returns what a branch or a step of a loop does."""
    return st.lists(inner, min_size=1, max_size=3)


#: What computes, and neither draws nor writes.
PURE = (
    st.tuples(st.just("unary"), st.sampled_from(sorted(UNARY)), index),
    st.tuples(st.just("binary"), st.sampled_from(sorted(BINARY)), index, index),
    st.tuples(st.just("number"), st.sampled_from(NUMBERS), index),
    st.tuples(st.just("argument"), st.sampled_from(("factor", "shift")), index),
    st.tuples(st.just("read"), index),
    st.tuples(st.just("outside"), st.just(0)),
    st.tuples(st.just("set"), index, index),
    st.tuples(st.just("python"), index),
)
pure = st.one_of(*PURE)
step = st.one_of(
    *PURE,
    st.tuples(
        st.just("assign"), st.sampled_from(("assign", "assign_add", "assign_sub")), index, index
    ),
    st.tuples(
        st.just("draw"), st.sampled_from(("uniform", "normal", "dropout", "bernoulli")), index
    ),
    st.tuples(st.just("metric"), index),
)
writes = st.one_of(pure, st.tuples(st.just("count"), index))
#: Branches and loops, in each other, of steps that draw nothing and train nothing.
branching = st.recursive(
    writes,
    lambda inner: st.one_of(
        st.tuples(st.just("cond"), index, part(inner), part(inner)),
        st.tuples(st.just("switch"), index, st.lists(part(inner), min_size=1, max_size=3)),
        st.tuples(st.just("scan"), index, part(inner), st.booleans()),
        st.tuples(st.just("repeat"), index, part(inner), st.integers(0, 3), st.booleans()),
        st.tuples(st.just("while"), index, part(inner), st.integers(0, 3)),
    ),
    max_leaves=5,
)
block = st.lists(step, min_size=1, max_size=5)
program = st.lists(
    st.one_of(
        step,
        branching,
        st.tuples(st.just("gradient"), block, st.booleans(), index),
        st.tuples(st.just("second"), block, index),
        st.tuples(st.just("train"), block, index),
    ),
    min_size=1,
    max_size=7,
)


def scanned(x, inside, instructions, reverse):
    def step(carry, row):
        carry = inside(instructions, carry + row)
        return carry, carry[0] * row

    last, rows = pb.scan(step, x, x, reverse=reverse)
    return last + rows


def repeated(x, inside, instructions, count, known):
    last = count if known else (pb.sum(x * 0) + count).astype("int32")
    return pb.fori_loop(0, last, lambda i, carry: inside(instructions, carry * 0.5 + i), x)


CONTROL = {
    "cond": lambda x, inside, yes, no: pb.cond(
        pb.sum(x) > 0.1, lambda y: inside(yes, y), lambda y: inside(no, y), x
    ),
    "switch": lambda x, inside, branches: pb.switch(
        pb.sum(x > 0.1).astype("int32") - 3, [lambda b=b: inside(b) for b in branches]
    ),
    "scan": scanned,
    "repeat": repeated,
    "while": lambda x, inside, instructions, maximum: pb.while_loop(
        lambda carry: carry[0, 0] < 0.9, lambda carry: inside(instructions, carry), x, maximum
    ),
}


def by_value(x):
    """Python that looks at values, which only `pb.py_function` may call in a captured function."""
    array = x.numpy()
    return np.where(array > 0, array, 2 * array) if array.sum() > 0 else array[::-1].copy()


def op_by_op(region):
    return region.op_by_op


@contextmanager
def fusing(wanted):
    """Has the backend fuse all that it can, by calling kernels one by one."""
    backend = as_device("cpu").backend
    if wanted:
        ops = [name for name, op in OPS.items() if op.shape is broadcast]
        ops += ["sum", "mean", "broadcast_to"]
        backend.register_fuser(op_by_op, ops, source="test", priority=100)
    try:
        yield
    finally:
        if wanted:
            backend.unregister_kernels("test")


class World:
    """All that a program reads and writes besides its arguments."""

    #: True if a tape outside records: a loop of any number of steps does not have a gradient.
    taped = False

    def __init__(self, optimizer):
        rng = np.random.default_rng(7)
        self.variables = [
            pb.Variable(rng.standard_normal((SIZE, SIZE)).astype(np.float32)) for _ in range(2)
        ]
        self.table = pb.asarray(rng.standard_normal((SIZE, SIZE)).astype(np.float32))
        self.count = pb.Variable(0.0, trainable=False)
        self.generator = pb.Generator(11)
        self.metric = pb.metrics.Mean()
        self.optimizer = (
            lambda: pb.optimizers.SGD(0.01, 0.5),
            lambda: pb.optimizers.Adam(lambda step: 0.01 / (1 + step)),
            lambda: pb.optimizers.SGD(0.01, accumulate_steps=2, clip_norm=1.0),
            lambda: pb.optimizers.AdamW(0.01, weight_decay=0.1, clip_value=0.5),
            lambda: pb.optimizers.RMSprop(0.01, momentum=0.5),
        )[optimizer]()

    def state(self):
        tensors = [*self.variables, self.count, *self.optimizer.variables]
        return (
            [v.numpy().tobytes() for v in tensors],
            self.generator.state,
            self.optimizer.step,
            self.metric.result(),
        )


def run(world, instructions, values, factor):
    """Runs a program on a list of values, which grows."""
    variables, generator = world.variables, world.generator

    def pick(i):
        return values[i % len(values)]

    for name, *rest in instructions:
        if name == "unary":
            values.append(UNARY[rest[0]](pick(rest[1])))
        elif name == "binary":
            values.append(BINARY[rest[0]](pick(rest[1]), pick(rest[2])))
        elif name == "number":
            values.append(pick(rest[1]) * rest[0] + rest[0])
        elif name == "argument":
            x = pick(rest[1])
            values.append(x * factor if rest[0] == "factor" else (factor + 1.0) * 0.5 - x)
        elif name == "read":
            values.append(variables[rest[0] % 2] * 1.0)
        elif name == "outside":
            values.append(pb.tanh(world.table) + world.table)
        elif name == "assign":
            getattr(variables[rest[1] % 2], rest[0])(pb.tanh(pick(rest[2])))
        elif name == "draw":
            x = pick(rest[1])
            if rest[0] == "dropout":
                drawn = generator.dropout(x, 0.5)
            else:
                drawn = getattr(generator, rest[0])((SIZE, SIZE)).astype("float32")
            values.append(x + drawn)
        elif name == "metric":
            world.metric(pick(rest[0]))
        elif name == "python":
            x = pick(rest[0])
            values.append(pb.py_function(by_value, x, result=x) + x)
        elif name == "set":
            x = pb.asarray(pick(rest[0]), copy=True)
            x[1] = pick(rest[1])[0]
            values.append(x)
        elif name == "count":
            world.count.assign_add(pb.sum(pb.tanh(pick(rest[0]))))
        elif name in CONTROL:
            x = pick(rest[0])

            def inside(instructions, *more, x=x):
                return pb.tanh(run(world, instructions, [x, *more], factor)[-1])

            if name == "repeat" and world.taped:
                rest[-1] = True
            values.append(CONTROL[name](x, inside, *rest[1:]))
        elif name == "gradient":
            inner, persistent, i = rest
            source = pick(i)
            with pb.GradientTape(persistent=persistent) as tape:
                tape.watch(source)
                y = run(world, inner, [source], factor)[-1]
            found = tape.gradient(y, [source, *variables], unconnected_gradients="zero")
            values += found
            if persistent:
                values.append(tape.gradient(y, source, unconnected_gradients="zero") * 2)
        elif name == "second":
            inner, i = rest
            source = pick(i)
            with pb.GradientTape() as outer:
                outer.watch(source)
                with pb.GradientTape() as tape:
                    tape.watch(source)
                    y = pb.tanh(run(world, inner, [source], factor)[-1])
                first = tape.gradient(y, source, unconnected_gradients="zero")
            values.append(outer.gradient(first, source, unconnected_gradients="zero"))
        elif name == "train":
            inner, i = rest
            source = pick(i)
            with pb.GradientTape() as tape:
                y = run(world, inner, [source, *[v * 0.5 for v in variables]], factor)[-1]
                loss = pb.mean(y * y) + sum(pb.mean(v * v) for v in variables)
            gradients = tape.gradient(loss, variables, unconnected_gradients="zero")
            world.optimizer.apply_gradients(zip(gradients, variables, strict=True))
            values.append(y)
    return values


def compare(instructions, optimizer, factors):
    """Five calls, op by op and captured, each in a world of its own."""
    inputs = np.random.default_rng(3).standard_normal((len(factors), SIZE, SIZE))
    worlds = [World(optimizer), World(optimizer)]

    def make(world):
        def step(x, factor):
            return run(world, instructions, [x], factor)

        return step

    eager, captured = make(worlds[0]), pb.function(make(worlds[1]))
    for x, factor in zip(inputs.astype(np.float32), factors, strict=True):
        results = [function(pb.asarray(x), factor) for function in (eager, captured)]
        # Results may be laid out in memory as they like only if nothing computed of them tells.
        found = [
            [seen.numpy() for value in values for seen in (value, pb.exp(value), pb.sum(value, 1))]
            for values in results
        ]
        assert len(found[0]) == len(found[1])
        for i, (one, other) in enumerate(zip(*found, strict=True)):
            assert (one.shape, one.dtype, i) == (other.shape, other.dtype, i)
            assert one.tobytes() == other.tobytes(), (i, one, other)
        assert worlds[0].state() == worlds[1].state()
        for world in worlds:
            world.table[0] = float(np.float32(factor)) + 0.25
    assert captured._all(), captured.explain()
    for each in captured._all():
        check(each.graph)


OPTIMIZERS = st.integers(0, 4)
FACTORS = st.sampled_from(([0.5] * 4, [0.5, 0.25, 2.0, 3.0, 3.0, 0.0]))


@given(program, OPTIMIZERS, FACTORS, st.booleans())
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
def test_random_programs(instructions, optimizer, factors, fused):
    with fusing(fused):
        compare(instructions, optimizer, factors)


@pytest.mark.campaign
@given(program, OPTIMIZERS, FACTORS, st.booleans())
@settings(
    max_examples=int(os.environ.get("PULLBACK_PROGRAMS", "500")),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
def test_many_random_programs(instructions, optimizer, factors, fused):
    with fusing(fused):
        compare(instructions, optimizer, factors)


def compare_under_a_tape(instructions, factors):
    """Calls that a tape outside records: results, state and gradients."""
    inputs = np.random.default_rng(3).standard_normal((len(factors), SIZE, SIZE))
    worlds = [World(0), World(0)]
    for world in worlds:
        world.taped = True
    captured = pb.function(lambda x, factor: run(worlds[1], instructions, [x], factor))
    functions = [lambda x, factor: run(worlds[0], instructions, [x], factor), captured]
    for array, factor in zip(inputs.astype(np.float32), factors, strict=True):
        found = []
        for function, world in zip(functions, worlds, strict=True):
            x = pb.asarray(array)
            with pb.GradientTape() as tape:
                tape.watch(x)
                values = function(x, factor)
                loss = sum(((value * value).sum() for value in values[1:]), (x * x).sum())
            gradients = tape.gradient(loss, [x, *world.variables], unconnected_gradients="zero")
            found.append(([v.numpy() for v in values], [g.numpy() for g in gradients]))
        for one, other in zip(found[0][0], found[1][0], strict=True):
            assert one.tobytes() == other.tobytes()
        for one, other in zip(found[0][1], found[1][1], strict=True):
            # Cotangents are added in another order.
            size = np.abs(one).max() + 1
            np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4 * size)
        assert worlds[0].state() == worlds[1].state()


@given(program, FACTORS, st.booleans())
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
def test_random_programs_under_a_tape(instructions, factors, fused):
    with fusing(fused):
        compare_under_a_tape(instructions, factors)


@pytest.mark.campaign
@given(program, FACTORS, st.booleans())
@settings(
    max_examples=int(os.environ.get("PULLBACK_PROGRAMS", "500")) // 2,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
def test_many_random_programs_under_a_tape(instructions, factors, fused):
    with fusing(fused):
        compare_under_a_tape(instructions, factors)


SMOOTH = {
    "tanh": pb.tanh,
    "sin": pb.sin,
    "square": lambda x: x * x * 0.3,
    "norm": pb.layer_norm,
    "softmax": pb.softmax,
    "matmul": lambda x: x @ x.T * 0.3,
    "stop": lambda x: pb.stop_gradient(x) + x,
    "part": lambda x: pb.concat([x[:1], x[1:] * 2], axis=0),
}
smooth = st.recursive(
    st.one_of(
        st.tuples(st.just("unary"), st.sampled_from(sorted(SMOOTH)), index),
        st.tuples(st.just("product"), index, index),
        st.tuples(st.just("read"), index),
        st.tuples(st.just("count"), index),
    ),
    lambda inner: st.one_of(
        st.tuples(st.just("cond"), index, part(inner), part(inner)),
        st.tuples(st.just("switch"), index, st.lists(part(inner), min_size=1, max_size=3)),
        st.tuples(st.just("scan"), index, part(inner), st.booleans()),
        st.tuples(st.just("repeat"), index, part(inner), st.integers(0, 3), st.just(True)),
        st.tuples(st.just("while"), index, part(inner), st.integers(0, 3)),
    ),
    max_leaves=6,
)


def smoothly(world, instructions, values):
    """Runs a program of functions with derivatives of every order."""

    def pick(i):
        return values[i % len(values)]

    for name, *rest in instructions:
        if name == "unary":
            values.append(SMOOTH[rest[0]](pick(rest[1])))
        elif name == "product":
            values.append(pick(rest[0]) * pick(rest[1]) + 0.1)
        elif name == "read":
            values.append(world[rest[0] % 2] * 1.0)
        elif name == "count":
            world[2].assign_add(pb.sum(pb.tanh(pick(rest[0]))))
            values.append(pick(rest[0]) * world[2])
        else:
            x = pick(rest[0])

            def inside(instructions, *more, x=x):
                return pb.tanh(smoothly(world, instructions, [x, *more])[-1])

            values.append(CONTROL[name](x, inside, *rest[1:]))
    return values


def compare_gradients(instructions, order):
    """First or second derivatives of a program with branches and loops."""
    rng = np.random.default_rng(5)
    arrays = [rng.standard_normal((SIZE, SIZE)) * 0.5 for _ in range(2)]
    world = [*map(pb.Variable, arrays), pb.Variable(0.5, trainable=False, dtype="float64")]

    def first(x):
        with pb.GradientTape() as tape:
            tape.watch(x)
            y = sum(pb.sum(pb.sin(v)) for v in smoothly(world, instructions, [x]))
        sources = [x, *world[:2]]
        return [y, *tape.gradient(y, sources, unconnected_gradients="zero")]

    def second(x):
        with pb.GradientTape() as tape:
            tape.watch(x)
            found = first(x)
            y = sum(pb.sum(pb.sin(v)) for v in found[1:])
        sources = [x, *world[:2]]
        return [*found, *tape.gradient(y, sources, unconnected_gradients="zero")]

    function = (first, second)[order]
    captured = pb.function(function)
    for i in range(4):
        found = []
        for f in (function, captured):
            world[2].assign(0.5)
            results = f(pb.asarray(arrays[i % 2] + 0.1 * i))
            found.append([*(v.numpy() for v in results), world[2].numpy()])
        for one, other in zip(*found, strict=True):
            # Cotangents are added in another order.
            size = np.abs(one).max() + 1
            np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-9 * size)
    for each in captured._all():
        check(each.graph)


PROGRAMS = st.lists(smooth, min_size=1, max_size=4)


@given(PROGRAMS, st.integers(0, 1))
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
def test_random_branches_and_loops_under_tapes(instructions, order):
    compare_gradients(instructions, order)


@pytest.mark.campaign
@given(PROGRAMS, st.integers(0, 1))
@settings(
    max_examples=int(os.environ.get("PULLBACK_PROGRAMS", "500")) // 2,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
def test_many_random_branches_and_loops_under_tapes(instructions, order):
    compare_gradients(instructions, order)
