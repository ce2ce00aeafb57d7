"""Branches and loops in captured functions: one program of XLA, with the results of eager calls."""

import re
from pathlib import Path

import numpy as np
import pytest

import pullback as pb
import pullback_jax
from pullback.plugins.compiling import as_function

PAGE = Path(__file__).parents[3] / "docs" / "backends" / "graphs.md"


def of_the_page():
    """The functions that the documentation shows to authors of backends."""
    (block,) = re.findall(
        r"```py\n(import jax\n.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL
    )
    names = {"pb": pb, "as_function": as_function}
    exec(compile(block, str(PAGE), "exec", dont_inherit=True), names)
    shown, ours = names["JaxBackend"].control_flow, pullback_jax.JaxBackend.control_flow
    assert sorted(shown) == sorted(ours)
    return names["CONTROL"]


@pytest.fixture(autouse=True, params=["backend", "page"])
def on_jax(request, monkeypatch):
    if request.param == "page":
        monkeypatch.setattr(pullback_jax, "CONTROL", of_the_page())
    with pb.device("jax:cpu"):
        yield


def cumulative(x):
    return pb.scan(lambda c, row: (c + row, pb.sin(c) * row), x[0], x)


def nested(x):
    def step(c, row):
        row = pb.cond(pb.sum(row) > 0.5, lambda r: pb.tanh(r), lambda r: r * 2, row)
        return pb.fori_loop(0, 3, lambda i, c: c * row + 0.1, c), c

    last, states = pb.scan(step, x[0], x, reverse=True)
    return pb.sum(last) + pb.sum(states * states)


def doubled(x):
    return pb.while_loop(lambda c: pb.sum(c * c) < 30, lambda c: c * 1.5, x, maximum=12)


FUNCTIONS = {
    "cond": lambda x: pb.cond(pb.sum(x) > 1, lambda: pb.exp(x), lambda: x * x),
    "cond with an operand": lambda x: pb.cond(x[0, 0] > 1, pb.sin, pb.cos, x),
    "switch": lambda x: pb.switch(
        pb.sum(x).astype("int32"), [lambda: x, lambda: x * x, lambda: pb.sin(x)]
    ),
    "scan": cumulative,
    "scan of nothing": lambda x: pb.scan(lambda c, row: (c * row, c + row), x[0], x[:0]),
    "fori_loop": lambda x: pb.fori_loop(0, 4, lambda i, c: c * x + i.astype(x.dtype), x),
    "fori_loop of no steps": lambda x: pb.fori_loop(3, 3, lambda i, c: c * x, x),
    "while_loop": doubled,
    "while_loop of no steps": lambda x: pb.while_loop(
        lambda c: pb.sum(c) > 1e9, lambda c: c * 2, x * 3, maximum=4
    ),
    "while_loop that ends at its maximum": lambda x: pb.while_loop(
        lambda c: pb.sum(c) < 1e9, lambda c: c + x, x, maximum=3
    ),
    "all of them nested": nested,
    "stop_gradient": lambda x: pb.cond(pb.sum(x) > 0, lambda: pb.stop_gradient(x) * x, lambda: x),
}


def total(y):
    """A number of all results; they differ in their weights."""
    parts = y if isinstance(y, tuple) else (y,)
    return sum(pb.sum(part * part) * (i + 1) for i, part in enumerate(parts))


def inputs():
    for scale in (1.0, 0.1, 3.0):
        yield pb.asarray(np.linspace(-0.3, 1, 6).reshape(3, 2) * scale)


def compiled(function):
    """The captured function, after the three calls that lead to its program."""
    captured = pb.function(function)
    for x in [next(inputs())] * 3:
        captured(x)
    return captured


def assert_equal(found, expected):
    found, expected = (v if isinstance(v, tuple) else (v,) for v in (found, expected))
    for one, other in zip(found, expected, strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_gradients_are_those_of_eager_calls(name):
    function = FUNCTIONS[name]

    def slope(x):
        return pb.grad(lambda x: total(function(x)))(x)

    for made in (function, slope):
        captured = compiled(made)
        for x in inputs():
            assert_equal(captured(x), made(x))
        assert "; compiled by the backend 'jax'" in captured.explain()


@pytest.mark.parametrize("name", ["cond", "scan", "while_loop", "all of them nested"])
def test_second_gradients_are_those_of_eager_calls(name):
    function = FUNCTIONS[name]

    def second(x):
        slope = pb.grad(lambda x: total(function(x)))
        return pb.grad(lambda x: pb.sum(slope(x) ** 2))(x)

    captured = compiled(second)
    for x in inputs():
        assert_equal(captured(x), second(x))
    assert "; compiled by the backend 'jax'" in captured.explain()


def test_the_index_of_a_switch_may_be_far_out_of_range():
    def function(x, i):
        return pb.switch(i, [lambda: x, lambda: -x, lambda: x * 2])

    captured = pb.function(function)
    x = pb.asarray([1.0, 2.0])
    for _ in range(3):
        captured(x, pb.asarray(1, dtype="int64"))
    for i in (-(2**40), -1, 0, 2, 3, 2**32, 2**40 + 1):
        index = pb.asarray(i, dtype="int64")
        assert_equal(captured(x, index), function(x, index))
    assert "; compiled by the backend 'jax'" in captured.explain()


def test_a_loop_without_a_maximum():
    captured = pb.function(lambda x: pb.while_loop(lambda c: c < 1000, lambda c: c * 2, x))
    found = [captured(pb.asarray(v)).item() for v in (3.0, 3.0, 3.0, 5.0, 2000.0)]
    assert found == [1536.0, 1536.0, 1536.0, 1280.0, 2000.0]
    assert "; compiled by the backend 'jax'" in captured.explain()


def test_steps_assign_variables():
    v = pb.Variable(1.0)

    def step(c, x):
        v.assign(v * x)
        return c + v, None

    captured = pb.function(lambda xs: pb.scan(step, pb.asarray(0.0), xs)[0])
    sums = [captured(pb.asarray([2.0, 0.5, 3.0])).item() for _ in range(4)]
    assert sums == [6.0, 18.0, 54.0, 162.0]
    assert v.item() == 81.0
    assert "; compiled by the backend 'jax'" in captured.explain()


LOOKS = {
    "cond": lambda x, i: pb.cond(x[0] > 0, lambda: pb.take(x, i, axis=0), lambda: x[:1]),
    "scan": lambda x, i: pb.scan(lambda c, k: (c + pb.sum(pb.take(x, k, axis=0)), None), x[0], i)[
        0
    ],
    # The nearest element is 0, with which the loop has no end.
    "while_loop": lambda x, i: pb.while_loop(
        lambda c: c < 3, lambda c: c + pb.sum(pb.take(x, i, axis=0)), x[0]
    ),
}


@pytest.mark.parametrize("name", LOOKS)
def test_an_index_out_of_range_in_a_branch_or_step_raises(name):
    function = LOOKS[name]
    captured = pb.function(function)
    x, good = pb.asarray([1.0, 2.0, 0.0]), pb.asarray([0])
    for _ in range(3):
        assert_equal(captured(x, good), function(x, good))
    with pytest.raises(pb.errors.IndexingError, match="axis of size 3"):
        captured(x, pb.asarray([3]))
    assert_equal(captured(x, good), function(x, good))
    # Values that would not take the branch are no error.
    if name == "cond":
        assert captured(-x, pb.asarray([7])).tolist() == [-1.0]
    assert "; compiled by the backend 'jax'" in captured.explain()
