"""Calls for which a full function makes no program: op by op, beside those that have one."""

import random
import warnings

import numpy as np
import pytest

import pullback as pb
from pullback._tree import leaves

#: Ways to pass the same arguments, as a function of a tensor, a second one and a number.
SPELLINGS = {
    "one": (lambda x: pb.tanh(x) * 2, lambda f, x, y, n: f(x)),
    "named": (lambda x: pb.tanh(x) * 2, lambda f, x, y, n: f(x=x)),
    "two": (lambda x, y=2.0: x * y, lambda f, x, y, n: f(x, y)),
    "default": (lambda x, y=2.0: x * y, lambda f, x, y, n: f(x)),
    "number first": (lambda n, x: x * n, lambda f, x, y, n: f(n, x)),
    "partly named": (lambda x, n: x * n, lambda f, x, y, n: f(x, n=n)),
    "list": (lambda xs: xs[0] * xs[1], lambda f, x, y, n: f([x, y])),
    "dict": (lambda d: d["a"] + 1.0, lambda f, x, y, n: f({"a": x})),
    "array": (lambda x: pb.multiply(x, 2.0), lambda f, x, y, n: f(x.numpy())),
    "kinds": (lambda x, y: x * y, lambda f, x, y, n: f(x, y if n == 1 else n)),
    "an array second": (lambda x, y: x * y, lambda f, x, y, n: f(x, y if n == 1 else y.numpy())),
    "a list of arrays": (
        lambda x, ys: x * sum(ys),
        lambda f, x, y, n: f(x, [y, y] if n == 1 else [y, y.numpy()]),
    ),
    "an empty list": (
        lambda x, ys: x * sum(ys),
        lambda f, x, y, n: f(x, [] if n == 1 else [y.numpy()]),
    ),
    "twice": (lambda x, y: x * y, lambda f, x, y, n: f(x, x if n == 1 else y)),
    "more": (lambda *xs: sum(xs), lambda f, x, y, n: f(x, y)),
}


def full(f, count):
    """A captured function of so many tensors with one program, which has been called late."""
    captured = pb.function(f, limit=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for size in (1, 1, 1, 2, 3, 3):
            captured(*[pb.ones(size)] * count)
    return captured


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_late_and_known_calls_in_turns(spelling):
    """Any order of calls gives what the function gives, and what has a program runs it."""
    f, call = SPELLINGS[spelling]
    ran = []

    def counted(*args, **kwargs):
        ran.append(1)
        given = leaves([args, kwargs])
        assert not any(isinstance(value, np.ndarray) for value in given)
        return f(*args, **kwargs)

    captured = pb.function(counted, limit=2)
    draw = random.Random(spelling)
    known, shapes = [(2,), (2, 3)], [(2,), (2, 3), (3, 2), (6,), (4,), (), (0,)]

    def arguments(shape, n=1):
        x = pb.asarray(np.random.default_rng(sum(shape)).standard_normal(shape, np.float32))
        return x, x + 1.0, n

    for shape in known * 3:
        call(captured, *arguments(shape))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        call(captured, *arguments((9,)))
    for _ in range(60):
        shape = draw.choice(shapes)
        n = draw.choice([1, 1, 2])
        given = arguments(shape, n)
        ran.clear()
        found = call(captured, *given)
        if n == 1:
            assert ran == ([] if shape in known else [1])
        assert found.numpy().tobytes() == call(f, *given).numpy().tobytes()


def test_late_calls_by_position_and_by_name_in_turns():
    """A function of tensors alone is called by code with its own parameters."""
    ran = []

    def f(x, _f, /, y):
        ran.append(1)
        return x * _f - y

    def g(x, z, /, y):
        ran.append(1)
        return x * z - y

    draw = random.Random(0)
    for function in (f, g):
        captured = pb.function(function, limit=2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            for size in (1, 2, 1, 2, 1, 2, 3):
                captured(*(pb.ones(size) for _ in range(3)))
        for _ in range(60):
            size = draw.choice([1, 2, 3, 4, 5, 5])
            x, z, y = (pb.full(size, draw.random()) for _ in range(3))
            ran.clear()
            is_named = draw.random() < 0.3
            found = captured(x, z, y=y) if is_named else captured(x, z, y)
            if not is_named:
                assert ran == ([] if size < 3 else [1])
            assert found.numpy().tobytes() == (x * z - y).numpy().tobytes()


def test_wrong_late_calls_are_the_errors_of_the_function():
    def f(x, y):
        return x * y

    captured = full(f, 2)
    x = pb.ones(3)
    wrong = [((), {}), ((x,), {}), ((x, x, x), {}), ((x,), {"z": x}), ((x, x), {"y": x})]
    for args, kwargs in wrong:
        with pytest.raises(TypeError) as expected:
            f(*args, **kwargs)
        with pytest.raises(TypeError) as raised:
            captured(*args, **kwargs)
        assert str(raised.value) == str(expected.value)


def test_a_tape_records_late_calls():
    captured = full(lambda x: pb.sum(x * x), 1)
    for _ in range(3):
        x = pb.ones(3)
        with pb.GradientTape() as tape:
            tape.watch(x)
            y = captured(x)
        assert tape.gradient(y, x).tolist() == [2.0] * 3
        captured(pb.ones(5))
    # Those that a tape records have programs of their own.
    assert "while a tape outside records" in captured.explain()
