"""Captured functions of several results under a tape outside: gradients of any of them, and None.

Random functions with singular values: where eager never visits what leads to a result, neither may
the captured one, whose zeros would become NaN there, or zeros where eager has None.
"""

from __future__ import annotations

import gc
import os
import tracemalloc

import numpy as np
import pytest

import pullback as pb
from pullback.graph.call_graph import CallGraph

UNARY = (
    pb.sin, pb.tanh, pb.sign, pb.floor, pb.sqrt, pb.log, pb.abs, pb.relu, pb.flip,
    pb.cumulative_sum,
    pb.stop_gradient, lambda x: 1 / x, lambda x: x * x, lambda x: x * 0.5, lambda x: 1.0 * x,
    lambda x: pb.sort(x), lambda x: pb.ones_like(x), lambda x: x > 0,
    lambda x: pb.clip(x, 0.0, 1.0),
    lambda x: pb.concat(pb.split(x, 2)[::-1]), lambda x: pb.split(x, 2)[0][0] + x,
    lambda x: pb.cond(pb.sum(x) > 1, lambda: x * 2, lambda: pb.sign(x)),
    lambda x: pb.scan(lambda c, e: (c * 0.5 + e, c), x[0], x)[1],
)  # fmt: skip
BINARY = (
    pb.add, pb.subtract, pb.multiply, pb.divide, pb.maximum, lambda x, y: pb.where(x > y, x, y),
    lambda x, y: pb.stack([x, y])[0], lambda x, y: pb.linalg.outer(x, y) @ y, pb.atan2,
)  # fmt: skip
NUMBERS = (0.0, -0.0, 1.0, -1.0, 0.5, 4.0, -2.5, 1e30)


def numbers(rng):
    return rng.choice(NUMBERS, 4).astype(np.float32)


class Program:
    """A random function of two tensors that reads two variables and has several results."""

    def __init__(self, rng):
        self.variables = [pb.Variable(rng.standard_normal(4).astype(np.float32)) for _ in range(2)]
        self.steps = [
            (int(rng.integers(3)), int(rng.integers(99)), *map(int, rng.integers(0, 99, 2)))
            for _ in range(rng.integers(2, 9))
        ]
        self.results = [int(i) for i in rng.integers(0, 99, rng.integers(2, 6))]

    def __call__(self, x, y):
        values = [x, y]
        for kind, which, i, j in self.steps:
            a, b = values[i % len(values)], values[j % len(values)]
            a = a.astype("float32") if a.dtype == pb.bool else a
            b = b.astype("float32") if b.dtype == pb.bool else b
            if kind == 0:
                values.append(UNARY[which % len(UNARY)](a))
            elif kind == 1:
                values.append(BINARY[which % len(BINARY)](a, b))
            else:
                values.append(self.variables[which % 2] * a if which % 4 > 1 else a + 1.0)
        return [values[i % len(values)] for i in self.results]


def same(one, other, order):
    """Returns whether two results are equal: bit for bit, where all NaN are one.

    In second derivatives cotangents are added in another order.
    """
    if one is None or other is None:
        return one is other
    a, b = one.numpy(), other.numpy()
    if order > 1 and a.dtype == b.dtype == np.float32:
        return np.allclose(a, b, rtol=1e-4, atol=1e-4, equal_nan=True)
    a, b = (np.where(np.isnan(x), np.nan, x) for x in (a, b))
    return (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())


def used(results, chosen):
    """A sum of some results; each is used once."""
    parts = [results[i] for i in chosen]
    return sum(pb.sum(pb.sin(part) if part.dtype != pb.bool else part * 1.0) for part in parts)


def gradients(function, program, arrays, order, wanted, choices):
    """Gradients of losses of some results each, of first or second order."""
    x, y = map(pb.asarray, arrays)
    sources = [[x, y, *program.variables][i] for i in wanted]
    with pb.GradientTape(persistent=order > 1 or len(choices) > 1) as tape:
        tape.watch([x, y])
        results = function(x, y)
        losses = [used(results, chosen) for chosen in choices]
        found = []
        if order > 1:
            first = tape.gradient(losses[0], sources)
            ends = [g for g in first if g is not None]
            losses = [used(ends, range(len(ends)))] if ends else []
            found += first
    for loss in losses:
        if isinstance(loss, pb.Tensor):
            found += tape.gradient(loss, sources)
    return [*results, *found], results


def compare(seed):
    rng = np.random.default_rng(seed)
    program = Program(rng)
    captured = pb.function(program)
    order = 2 if seed % 4 == 3 else 1
    count = len(program.results)
    nodes = 0
    for _ in range(5):
        arrays = numbers(rng), numbers(rng)
        if order > 1:  # where ops have derivatives
            arrays = tuple(rng.standard_normal((2, 4)).astype(np.float32))
        wanted = [i for i in range(4) if rng.random() < 0.7] or [0]
        choices = [
            [i for i in range(count) if rng.random() < 0.4] or [int(rng.integers(count))]
            for _ in range(rng.integers(1, 3) if order == 1 else 1)
        ]
        with np.errstate(all="ignore"):
            expected, _ = gradients(program, program, arrays, order, wanted, choices)
            found, results = gradients(captured, program, arrays, order, wanted, choices)
        assert len(found) == len(expected)
        for i, (one, other) in enumerate(zip(found, expected, strict=True)):
            assert same(one, other, order), (seed, choices, i)
        parents = [r._node.parents for r in results if r._node is not None]
        nodes += any(p and p[0] is not None and type(p[0].op) is CallGraph for p in parents)
    return nodes


@pytest.mark.parametrize("first", range(0, 24, 8))
def test_gradients_of_some_results_are_those_of_the_function(first):
    assert sum(map(compare, range(first, first + 8)))


@pytest.mark.slow
def test_gradients_of_some_results_of_many_functions():
    for seed in range(100, 100 + int(os.environ.get("PULLBACK_PROGRAMS", "500")) // 2):
        compare(seed)


def test_what_is_traced_again_for_other_results_keeps_no_arrays():
    size = 1 << 18
    captured = pb.function(lambda x: [pb.sin(pb.tanh(x * i)) for i in range(4)])
    x = pb.ones(size)

    def step(chosen):
        with pb.GradientTape() as tape:
            tape.watch(x)
            loss = used(captured(x), chosen)
        return tape.gradient(loss, x)

    for chosen in ([0], [0, 1], [2, 3], [3], [0], [2, 3], [3]):
        step(chosen)
    gc.collect()
    tracemalloc.start()
    try:
        for chosen in ([1], [1, 2], [0, 2]):
            step(chosen)
        gc.collect()
        kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert kept < size


@pytest.mark.parametrize("chosen", [[0], [1], [0, 1]])
def test_a_custom_gradient_is_called_for_its_own_results_alone(chosen):
    @pb.custom_gradient
    def own(x):
        return x * 2.0, lambda g: g * x * 100.0

    def f(x):
        return own(x) * x, 1.0 / x

    captured = pb.function(f)
    for _ in range(4):
        found = []
        for function in (f, captured):
            x = pb.asarray([1.0, 0.0, -2.0])
            with np.errstate(all="ignore"):
                with pb.GradientTape() as tape:
                    tape.watch(x)
                    loss = used(function(x), chosen)
                found.append(tape.gradient(loss, x))
        assert same(*found, 1)


def test_a_second_derivative_through_a_custom_gradient_says_what_to_do():
    @pb.custom_gradient
    def own(x):
        return x * 2.0, lambda g: g * x

    captured = pb.function(lambda x: own(x) * x)
    for i in range(3):
        x = pb.ones(2)
        with pb.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = captured(x)
            if i:
                with pytest.raises(pb.errors.NotDifferentiableError, match="own, which has a grad"):
                    tape.gradient(y, x)
