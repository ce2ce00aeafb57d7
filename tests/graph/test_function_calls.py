"""Random sequences of calls: captured as eager, bits and types, with few programs."""

from __future__ import annotations

import os
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import pullback as pb
from pullback.graph.found import OFTEN

TRIES = int(os.environ.get("PULLBACK_TRIES", "0"))
DTYPES = ("float32", "float64", "int32", "int8")


def bits(value):
    if isinstance(value, pb.Tensor):
        array = value.numpy()
        return "tensor", array.shape, array.dtype, array.tobytes()
    if isinstance(value, dict):
        return {key: bits(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value), [bits(item) for item in value]
    return type(value), repr(value)


class Thing:
    def __init__(self, k):
        self.k = k


def outcome(f, args, kwargs):
    """Returns what a call gives: the bits of its result, or its error."""
    try:
        return bits(f(*args, **kwargs))
    except Exception as error:
        return type(error), str(error)


class Calls:
    """Makes arguments out of few values, so that calls come again, and of many others."""

    def __init__(self, rng):
        self.rng = rng
        self.things = [Thing(2), Thing(3)]
        self.tensors = [self.tensor() for _ in range(4)]

    def pick(self, *choices):
        return choices[self.rng.integers(len(choices))]

    def array(self):
        shape = self.pick((2,), (2,), (3,), (2, 2), (), (int(self.rng.integers(1, 40)),))
        return np.asarray(self.rng.integers(1, 9, shape)).astype(self.pick(*DTYPES))

    def tensor(self):
        return pb.asarray(self.array())

    def number(self):
        few = (
            0,
            1,
            True,
            False,
            2.0,
            0.0,
            -0.0,
            None,
            "a",
            "b",
            3 + 1j,
            np.float32(2),
            np.int64(2),
        )
        many = (int(self.rng.integers(-5, 50)), float(self.rng.integers(0, 50)) / 4)
        large = (2**31 - 1, 2**31, -(2**31), 2**40, 300, float("nan"), float("inf"))
        return self.pick(self.pick(*few), *many, *many, *many, self.pick(*large))

    def value(self, depth=2):
        kind = self.pick("kept", "tensor", "array", "number", "number", "thing", "items")
        if kind == "kept":
            return self.pick(*self.tensors)
        if kind == "items" and depth:
            items = [self.value(depth - 1) for _ in range(self.rng.integers(0, 3))]
            return self.pick(items, tuple(items), dict(zip("xyz", items, strict=False)))
        if kind == "thing":
            return self.pick(*self.things)
        return {"tensor": self.tensor, "array": self.array}.get(kind, self.number)()

    def arguments(self):
        """One to three arguments, some of them one object."""
        values = [self.value() for _ in range(self.rng.integers(1, 4))]
        if self.rng.random() < 0.3:
            values.append(values[0])
        names = ("first", "second", "third", "fourth")[: len(values)]
        by_name = int(self.rng.integers(0, len(values) + 1))
        return tuple(values[:by_name]), dict(zip(names[by_name:], values[by_name:], strict=True))


def leaves(value):
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in leaves(item)]
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in leaves(item)]
    return [value]


def plain(*args, **kwargs):
    """Computes with all that it gets, and looks at nothing but kinds."""
    found = leaves([*args, *kwargs.values()])
    total = pb.zeros((), dtype="float64")
    results = []
    for leaf in found:
        if isinstance(leaf, Thing):
            leaf = leaf.k
        if isinstance(leaf, str) or leaf is None or isinstance(leaf, (bool, complex)):
            results.append(leaf)
        elif isinstance(leaf, (pb.Tensor, np.generic, np.ndarray)):
            total = total + pb.sum(pb.asarray(leaf)).astype("float64")
        else:
            results.append(pb.ones(2, dtype="int8") * leaf if leaf == leaf else leaf)
            results.append(pb.asarray(leaf) * 2)
            total = total + leaf * 3
    return total, results


def computing(*args, **kwargs):
    """Computes with numbers in every way that Python has."""
    found = leaves([*args, *kwargs.values()])
    numbers = [leaf for leaf in found if isinstance(leaf, (int, float))]
    tensors = [leaf for leaf in found if isinstance(leaf, pb.Tensor)] or [pb.ones(2)]
    results = []
    for n in numbers:
        results += [tensors[0] * (n + 1), n * 2 - 3, -n, n // 2, tensors[-1] + 1 / (n + 0.5)]
        results += [
            pb.asarray(n),
            pb.full((2,), n),
            tensors[0] ** 2 + n % 3,
            2 ** (n % 7) * tensors[0],
        ]
    return results


def looking(*args, **kwargs):
    """Looks at numbers, and uses them as shapes."""
    found = leaves([*args, *kwargs.values()])
    results = []
    for leaf in found:
        if isinstance(leaf, pb.Tensor):
            results.append(leaf + len(found))
        elif isinstance(leaf, int) and 0 <= leaf < 20:
            results.append(pb.ones(leaf))
        elif isinstance(leaf, float) and leaf > 3:
            results.append(pb.ones(2) * leaf)
    return results


def gradients(*args, **kwargs):
    """The gradients of each tensor; some are one object."""
    tensors = [
        leaf
        for leaf in leaves([*args, *kwargs.values()])
        if isinstance(leaf, pb.Tensor) and leaf.dtype in ("float32", "float64")
    ]
    with pb.GradientTape(persistent=True) as tape:
        tape.watch(tensors)
        loss = sum((i + 2) * pb.sum(x * x) for i, x in enumerate(tensors)) if tensors else 0
    same = [[i for i, y in enumerate(tensors) if x is y] for x in tensors]
    return [tape.gradient(loss, x) for x in tensors], same


def converted(value, made):
    """The arguments as the function gets them: tensors in place of arrays, one for each."""
    if isinstance(value, np.ndarray):
        return made.setdefault(id(value), pb.asarray(value))
    if isinstance(value, dict):
        return {key: converted(item, made) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(converted(item, made) for item in value)
    return value


def check(f, calls, rng, limit):
    """Calls a captured function with a sequence of arguments, each some times."""
    captured = pb.function(f, limit=limit)
    kept = [calls.arguments() for _ in range(limit + 2)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(40):
            args, kwargs = (
                kept[rng.integers(len(kept))] if rng.random() < 0.6 else calls.arguments()
            )
            made = {}
            given = converted(args, made), converted(kwargs, made)
            for _ in range(rng.integers(1, 4)):
                assert outcome(captured, args, kwargs) == outcome(f, *given), (args, kwargs)
    assert len(captured._all()) <= limit
    assert len(captured._entries()) <= limit
    return captured


@pytest.mark.parametrize("f", [plain, computing, looking, gradients])
@pytest.mark.parametrize("seed", range(3))
def test_sequences_of_calls(f, seed):
    rng = np.random.default_rng(seed)
    check(f, Calls(rng), rng, int(rng.integers(1, 9)))


@pytest.mark.slow
@pytest.mark.parametrize("f", [plain, computing, looking, gradients])
def test_many_sequences_of_calls(f):
    for seed in range(100, 100 + (TRIES or 60)):
        rng = np.random.default_rng(seed)
        check(f, Calls(rng), rng, int(rng.integers(1, 9)))


def test_sequences_of_calls_of_several_threads():
    captured = pb.function(plain, limit=4)
    rng = np.random.default_rng(0)
    calls = Calls(rng)
    kept = [calls.arguments() for _ in range(12)]

    def work(seed):
        rng = np.random.default_rng(seed)
        for _ in range(60):
            args, kwargs = kept[rng.integers(len(kept))]
            made = {}
            given = converted(args, made), converted(kwargs, made)
            assert outcome(captured, args, kwargs) == outcome(plain, *given)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(work, range(4)))
    assert len(captured._all()) <= 4


def test_a_growing_cache_has_few_programs_and_no_trace_for_lengths_that_are_rare():
    runs = []

    def step(x, cache):
        runs.append(1)
        cache = pb.concat([cache, x], axis=0)
        return pb.sum(cache * x, axis=0), cache

    captured = pb.function(step)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for _ in range(3):
            cache, expected = pb.zeros((0, 2)), pb.zeros((0, 2))
            for n in range(20):
                x = pb.ones((1, 2)) * n
                y, cache = captured(x, cache)
                z, expected = step(x, expected)
                assert bits((y, cache)) == bits((z, expected))
    (warning,) = found
    assert "the shape of cache (float32[8, 2] now): pad it to a few lengths" in str(warning.message)
    assert captured._all() == []
    assert len(runs) == 120  # each call ran once


def test_a_signature_among_many_that_comes_often_has_a_program():
    captured = pb.function(lambda x: x + 1, limit=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for n in range(4):
            captured(pb.ones(n))
    for _ in range(OFTEN + 2):
        assert captured(pb.ones(1)).tolist() == [2.0]
        assert captured(pb.ones(3)).tolist() == [2.0] * 3
    assert [str(program.signature) for program in captured._all()] == ["x: float32[1]"]
