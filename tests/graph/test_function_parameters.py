"""Functions of any parameters, called in any way: as op by op, errors of wrong calls too."""

import functools
import inspect
import itertools
import os
import random
import types
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import pullback as pb

TRIES = int(os.environ.get("PULLBACK_TRIES", "0")) or 12
#: Names that generated code has for what is its own, among others.
NAMES = ["x", "a0", "a1", "k0", "v0", "x0", "node", "more", "kwargs", "missed", "Tensor", "text"]


def made(rng, names, split):
    """A function of these parameters: its text, and what it computes of them."""
    unnamed, by_position = split
    parameters, has_default = [], False
    for i, name in enumerate(names):
        if i == by_position:
            parameters.append("*")
        has_default = rng.random() < 0.4 if i >= by_position else has_default or rng.random() < 0.3
        parameters.append(f"{name}={rng.choice(['2.0', '3', 'True'])}" if has_default else name)
        if i + 1 == unnamed:
            parameters.append("/")
    factors = rng.sample([2, 3, 5, 7, 11, 13], len(names))
    total = " + ".join(f"{name} * {factor}" for name, factor in zip(names, factors, strict=True))
    return f"def f({', '.join(parameters)}):\n    return pb.asarray(1.0) * ({total})\n"


def called(rng, names):
    """The arguments of two calls: the same ones spelled in two ways, wrong ones among them."""
    few = [pb.ones(2), pb.ones(3), 2.0, 4, True, np.ones(2, np.float32)]
    values = {name: rng.choice(few) for name in names if rng.random() < 0.85}
    for _ in range(2):
        by_position = [*values.values()][: rng.randrange(len(names) + 1)]
        while [*values][: len(by_position)] != names[: len(by_position)]:
            by_position.pop()
        named = rng.sample([*values.items()][len(by_position) :], len(values) - len(by_position))
        if rng.random() < 0.05:
            by_position.append(1)
        if rng.random() < 0.05:
            named.append((rng.choice([*names, "other"]), 1.0))
        yield by_position, dict(named)


def outcome(f, args, kwargs):
    try:
        result = f(*args, **kwargs)
    except Exception as error:
        return type(error), str(error)
    return result.dtype, np.asarray(result).tolist()


def space_of(text, way):
    space = {"pb": pb}
    exec(text, space)
    f = space["f"]
    if way == "method":
        return f, types.MethodType(f, 2.0)
    return f, f


@pytest.mark.parametrize("seed", range(TRIES))
def test_any_parameters(seed):
    rng = random.Random(seed)
    way = rng.choice(["function", "function", "method"])
    names = rng.sample(NAMES, rng.randint(1, 4))
    by_position = rng.randint(way == "method", len(names))
    split = rng.randint(0, by_position), by_position
    text = made(rng, names, split)
    plain, eager = space_of(text, way)
    inner, other = space_of(text, way)
    captured = pb.function(other, limit=64)
    given = names[way == "method" :]
    calls = [call for _ in range(3) for call in called(rng, given)]
    for _ in range(40):
        args, kwargs = rng.choice(calls)
        for _ in range(rng.choice([1, 1, 3])):
            expected = outcome(lambda *a, **k: eager(*map(tensor, a), **each(k)), args, kwargs)
            assert outcome(captured, args, kwargs) == expected, (text, args, kwargs)
        if rng.random() < 0.1:  # as by IPython's autoreload
            changed, _ = space_of(made(rng, names, split), way)
            for f in (plain, inner):
                for name in ("__code__", "__defaults__", "__kwdefaults__"):
                    setattr(f, name, getattr(changed, name))


def tensor(value):
    return pb.asarray(value) if isinstance(value, np.ndarray) else value


def each(named):
    return {name: tensor(value) for name, value in named.items()}


def test_programs_whatever_the_spelling():
    """One program for an argument by position and by name, as a plain function has one meaning."""

    def f(x, y=2.0, w=0.0, *, z=1.0):
        return x * y + w + z

    captured = pb.function(f)
    x, y = pb.ones(2), pb.full(2, 3.0)
    for _ in range(3):
        captured(x, y)
    for args, kwargs in [((x, y), {}), ((x,), {"y": y}), ((), {"y": y, "x": x})] * 2:
        assert captured(*args, **kwargs).tolist() == [4.0, 4.0]
    assert len(captured._all()) == 1
    for _ in range(3):
        assert captured(x).tolist() == [3.0, 3.0]
        assert captured(x, z=3.0).tolist() == [5.0, 5.0]
        assert captured(x, w=4.0).tolist() == [7.0, 7.0]
        assert captured(x, w=5.0, z=0.0).tolist() == [7.0, 7.0]


def test_defaults_by_name_are_compared_one_by_one():
    """Another value, name or order of defaults, and a shorter dict, each at the next call."""

    def f(x, *, a=1.0, b=2.0):
        return x * a + b

    captured = pb.function(f, limit=32)
    x = pb.ones(2)
    for a, b in itertools.product([1.0, 1, True, -0.0, 0.0], [2.0, 3.0]):
        f.__kwdefaults__.update(a=a, b=b)
        for _ in range(3):
            assert captured(x).tolist() == f(x).tolist()
        f.__kwdefaults__ = {"b": b, "a": a}
        assert captured(x).tolist() == f(x).tolist()
    del f.__kwdefaults__["b"]
    with pytest.raises(TypeError, match="keyword-only argument: 'b'"):
        captured(x)
    assert captured(x, b=1.0).tolist() == f(x, b=1.0).tolist()


def test_iterated_dicts_and_their_order():
    table = {"a": 2.0, "b": 3.0}

    @pb.function(limit=32)
    def f(x):
        for value in table.values():
            x = x * 2 - value
        return x

    def expected():
        now = 1.0
        for value in table.values():
            now = now * 2 - value
        return [now]

    changes = [
        lambda: table.update(a=5.0),
        lambda: table.update(a=table.pop("b"), b=table.pop("a")),
        lambda: table.update(b=table.pop("b"), a=table.pop("a")),
        lambda: table.update(c=1.0),
        table.clear,
    ]
    for change in changes:
        for _ in range(3):
            assert f(pb.ones(1)).tolist() == expected()
        change()
        assert f(pb.ones(1)).tolist() == expected()


@pytest.mark.parametrize("dtype", ["int32", "float64", "float32", "bfloat16", "complex64", "bool"])
def test_truth_of_numbers(dtype):
    """Kernels that take numbers as they are get them, also beside a use of the converted ones."""
    x = pb.asarray([0.0, 1.0, -2.0]).astype(dtype)

    @pb.function
    def f(x):
        truth = x.astype("bool")
        return pb.logical_not(x), pb.logical_or(x, truth), truth, pb.logical_and(truth, ~truth)

    for _ in range(3):
        parts = f(x)
        assert [part.tolist() for part in parts] == [
            [True, False, False], [False, True, True], [False, True, True], [False] * 3
        ]  # fmt: skip
    assert {part.dtype.name for part in parts} == {"bool"}


def test_a_partial_of_a_captured_function_keeps_it():
    """A captured function is a partial itself, whose function is other code after some calls."""

    @pb.function
    def scaled(x, k=2.0, *, more=0.0):
        return x * k + more

    part = functools.partial(scaled, k=3.0)
    assert part.func is scaled
    assert inspect.signature(scaled) == inspect.signature(scaled.__wrapped__)
    outer = pb.function(lambda x: scaled(x) + part(x))
    x = pb.ones(1)
    for i in range(8):
        assert part(x).tolist() == [3.0]
        assert outer(x).tolist() == [5.0]
        assert scaled(x, float(i), more=1.0).tolist() == [i + 1.0]
    assert len(outer._all()) == 1


def test_threads_change_what_a_captured_function_begins_with():
    @pb.function(limit=32)
    def f(x, k):
        return x * k

    def calls(seed):
        rng = random.Random(seed)
        for _ in range(300):
            k, size = rng.choice([2, "2", 3.0, 5.0]), rng.randint(1, 3)
            if k == "2":
                with pytest.raises(pb.errors.PullbackError):
                    f(pb.ones(size), k)
            else:
                assert f(pb.ones(size), k=k).tolist() == [float(k)] * size
        return True

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(calls, range(4)))
