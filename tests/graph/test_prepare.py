"""The hook `prepare`: kernels that are made ready for the shapes of a program."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import pullback as pb
from pullback.devices import as_device
from pullback.graph.graph import Value
from pullback.graph.passes.regions import WARNED
from pullback.plugins.kind import Kind
from pullback.spec import OPS
from pullback_conformance import checks
from pullback_conformance.case import cases
from pullback_conformance.compare import ConformanceError
from pullback_conformance.samples import load

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def kernel_with(prepare):
    def kernel(x, *, axis):
        return np.flip(x, axis)

    kernel.prepare = prepare
    return kernel


@pytest.fixture(autouse=True)
def _warn_again():
    WARNED.clear()


def run(f, x, times=4):
    captured = pb.function(f)
    return [captured(x) for _ in range(times)]


def test_programs_call_the_kernel_that_was_made_ready(offer):
    asked, called = [], []

    def prepare(kinds, attributes):
        asked.append((kinds, dict(attributes)))

        def ready(x, **attributes):
            called.append(attributes)
            return np.flip(x, attributes["axis"])

        return ready

    offer("flip", kernel_with(prepare))
    for y in run(lambda x: pb.flip(x, axis=1), pb.asarray(X)):
        assert y.tolist() == X[:, ::-1].tolist()
    assert asked == [([Kind((2, 3), np.dtype("float32"))], {"axis": (1,)})]
    # The first call runs op by op, and the second is traced.
    assert called == [{"axis": (1,)}] * 2


def test_none_leaves_the_kernel(offer):
    offer("flip", kernel_with(lambda kinds, attributes: None))
    assert [y.tolist() for y in run(lambda x: pb.flip(x, axis=0), pb.asarray(X))] == [
        X[::-1].tolist()
    ] * 4


@pytest.mark.parametrize(
    ("prepare", "match"),
    [
        (lambda kinds, attributes: 1 / 0, "ZeroDivisionError"),
        (lambda kinds, attributes: 3, "it returned int, not a kernel or None"),
        (lambda kinds: None, "TypeError"),
    ],
)
def test_a_hook_that_fails_is_announced_once(offer, prepare, match):
    offer("flip", kernel_with(prepare))
    with pytest.warns(RuntimeWarning, match=match) as caught:
        results = run(lambda x: pb.flip(pb.flip(x, axis=0), axis=0), pb.asarray(X))
    assert len(caught) == 1
    assert "the kernel itself is called" in str(caught[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(lambda x: pb.flip(x, axis=0), pb.asarray(X))
    assert all(y.tolist() == X.tolist() for y in results)


@pytest.mark.parametrize(
    ("keep", "match"),
    [
        (lambda *_: 1 / 0, "`keep` raised ZeroDivisionError"),
        (lambda *_: 3, "`keep` raised TypeError: it returned int, not a kernel or None"),
    ],
)
def test_a_hook_that_keeps_weights_and_fails_is_announced(keep, match):
    backend = as_device("cpu").backend
    v = pb.Variable(X)
    backend.register_kernel("flip", np.flip, source="test", priority=100, keep=keep)
    try:
        with pytest.warns(RuntimeWarning, match=match):
            results = run(lambda x: pb.flip(v, axis=0) + x, pb.asarray(X))
    finally:
        backend.unregister_kernels("test")
    assert all(y.tolist() == (X + X[::-1]).tolist() for y in results)


def test_weights_are_what_a_program_reads_only():
    backend = as_device("cpu").backend
    v, written, asked = pb.Variable(X), pb.Variable(X), []

    def add(x, y):
        return np.add(x, y)

    def keep(kernel, kinds, attributes, owners):
        assert kernel is add
        asked.append(owners)

    backend.register_kernel("add", add, source="test", priority=100, keep=keep)
    try:

        def step(x):
            y = x + v
            written.assign(written + y)
            return v + y

        run(step, pb.asarray(X))
    finally:
        backend.unregister_kernels("test")
    assert asked == [{1: v}, {0: v}]


def test_sequences_and_absent_inputs_have_their_kinds(offer):
    asked = []

    def concat(arrays, *, axis):
        return np.concatenate(arrays, axis)

    concat.prepare = lambda kinds, attributes: asked.append(kinds)
    offer("concat", concat)
    run(lambda x: pb.concat([x, x + 1]), pb.asarray(X))
    assert asked == [[[Kind((2, 3), np.dtype("float32"))] * 2]]


def test_calls_with_random_numbers_are_left_alone(monkeypatch):
    """Their key and counter are known when the program runs."""
    asked = []

    def prepare(self, op, kernel, kinds, attributes):
        asked.append(attributes)

    monkeypatch.setattr(type(as_device("cpu").backend), "prepare", prepare)
    pb.random.seed(0)
    captured = pb.function(lambda x: x * pb.random.uniform((3,)))
    assert len({tuple(captured(pb.ones(3)).tolist()) for _ in range(4)}) == 4
    assert asked
    assert not any(isinstance(v, Value) for attributes in asked for v in attributes.values())


@pytest.mark.parametrize("wrong", [False, True])
def test_conformance_holds_it_to_the_bits_of_the_kernel(offer, wrong):
    case = next(iter(cases(OPS["flip"], load()["flip"], as_device("cpu"))))
    checks.prepared(case)
    offer("flip", kernel_with(lambda kinds, attributes: lambda x, axis: np.flip(x, axis) + wrong))
    if not wrong:
        checks.prepared(case)
        return
    with pytest.raises(ConformanceError, match="made ready for its shapes"):
        checks.prepared(case)
