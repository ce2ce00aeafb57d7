"""Calls of small captured functions in C: what a program's own code would give, or that code."""

from __future__ import annotations

import gc
import sys
import threading
import weakref

import numpy as np
import pytest

import pullback as pb
from pullback import errors
from pullback_native import _native

X, Y = np.arange(6, dtype=np.float32), np.linspace(1, 2, 6, dtype=np.float32)
SCALE = 2.0


def captured(f, *args):
    """The captured function, after calls that make its program."""
    function = pb.function(f)
    for _ in range(3):
        function(*args)
    return function


def is_direct(function):
    return type(function.func).__name__ == "Direct"


def same(one, other):
    if isinstance(one, tuple):
        return type(other) is tuple and all(map(same, one, other))
    return one.dtype == other.dtype and one.numpy().tobytes() == other.numpy().tobytes()


V = pb.Variable(np.float32(3.0))
T = pb.asarray(Y)


def helper(x):
    return pb.exp(x)


#: Functions of one tensor that have such calls.
FUNCTIONS = {
    "one op": lambda x: pb.exp(x),
    "a method": lambda x: x.sum(),
    "a number": lambda x: x * 2 + 1,
    "attributes": lambda x: pb.reshape(x, (2, 3)).T,
    "an index": lambda x: x[1:4],
    "several": lambda x: pb.sum((x - pb.mean(x)) ** 2) / 3,
    "a global number": lambda x: x * SCALE,
    "a variable": lambda x: x * V,
    "a tensor outside": lambda x: x + T,
    "another function": lambda x: helper(x) - 1,
    "a tuple": lambda x: (x, pb.sin(x), pb.max(x)),
    "a constant": lambda x: pb.asarray([1.0, 2.0]),
    "a builtin function": lambda x: abs(x),
    "a list of inputs": lambda x: pb.concat([x, x * 2, pb.stack([x])[0]], axis=0),
    "several results": lambda x: pb.top_k(x, 2)[0],
    "a last call that changes nothing": lambda x: pb.reshape(pb.exp(x), (6,)),
    "a result of such calls": lambda x: (pb.exp(x).astype("float32") * 1, pb.reshape(x, x.shape)),
    "a long body": lambda x: pb.sparsemax(x),
}


def runs_of_programs(call):
    """The number of times that the code of a program runs in a call."""
    runs = []

    def seen(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith("<pullback captured"):
            runs.append(frame.f_code.co_name)

    sys.setprofile(seen)
    try:
        call()
    finally:
        sys.setprofile(None)
    return len(runs)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_code_of_the_program_does_not_run(name):
    x = pb.asarray(X)
    function = captured(FUNCTIONS[name], x)
    assert is_direct(function)
    assert runs_of_programs(lambda: function(x)) == 0


def test_calls_that_fail_again_and_again():
    """From some on the program's code makes all calls: each was made twice."""
    x, good, bad = pb.asarray(X), pb.asarray([1, 2]), pb.asarray([1, 99])
    function = captured(lambda x, i: pb.take(pb.exp(x), i), x, good)
    assert runs_of_programs(lambda: function(x, good)) == 0
    for _ in range(20):
        with pytest.raises(errors.IndexingError, match="99"):
            function(x, bad)
    assert same(function(x, good), pb.exp(x)[1:3])
    assert runs_of_programs(lambda: function(x, good)) == 1


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_bits_are_those_op_by_op(name):
    f, x = FUNCTIONS[name], pb.asarray(X)
    function = captured(f, x)
    assert is_direct(function)
    for values in (X, -X, np.full(6, np.nan, np.float32)):
        given = pb.asarray(values)
        assert same(f(given), function(given))
    assert is_direct(function)


def test_results_that_are_no_tensors():
    x = pb.asarray(X)
    for f in (
        lambda x: len(x),
        lambda x: x.nbytes,
        lambda x: None,
        lambda x: x.dtype,
        lambda x: "",
    ):
        function = captured(f, x)
        assert is_direct(function)
        assert function(x) is f(x) or function(x) == f(x)
        assert function(x[:2]) is f(x[:2]) or function(x[:2]) == f(x[:2])


def test_a_global_that_hides_a_builtin_function(monkeypatch):
    x, f = pb.asarray(X), FUNCTIONS["a builtin function"]
    function = captured(f, -x)
    assert is_direct(function)
    monkeypatch.setitem(f.__globals__, "abs", pb.negative)
    assert same(function(x), -x)
    monkeypatch.undo()
    assert same(function(-x), x)


def test_layouts():
    function = captured(lambda x, y: x + y, pb.asarray(X), pb.asarray(Y))
    for layout in (X[::-1], np.repeat(X, 2)[::2], np.broadcast_to(X[:1], (6,))):
        one, other = pb.asarray(layout), pb.asarray(Y)
        assert same(function(one, other), one + other)
    assert is_direct(function)


def test_one_tensor_twice_is_another_program():
    x, y = pb.asarray(X), pb.asarray(Y)
    function = captured(lambda x, y: x * y, x, y)
    for _ in range(4):
        assert same(function(x, x), x * x)
        assert same(function(x, y), x * y)
        assert same(function(y, x), x * y)


def test_other_arguments():
    x = pb.asarray(X)
    function = captured(lambda x, n=2: x * n, x)
    for _ in range(3):
        assert same(function(x), x * 2)
        assert same(function(x, 3), x * 3)
        assert same(function(x, n=3), x * 3)
        assert same(function(x, 2.0), x * 2)
        assert same(function(pb.asarray(X.astype("float64"))), x.astype("float64") * 2)
        assert same(function(x[:2]), x[:2] * 2)
        assert same(function(pb.reshape(x, (2, 3))), pb.reshape(x, (2, 3)) * 2)
        assert same(function(X), x * 2)
        assert same(function(x=x), x * 2)
    with pytest.raises(TypeError, match="argument"):
        function()
    with pytest.raises(TypeError, match="argument"):
        function(x, 2, 3)


def test_what_is_outside():
    global SCALE
    x, f = pb.asarray(X), FUNCTIONS["a global number"]
    function = captured(f, x)
    for SCALE in (3.0, 2.0, 2.0 + sys.float_info.epsilon, 2):  # noqa: B007
        for _ in range(3):
            assert same(function(x), f(x))


def test_code_that_is_another(monkeypatch):
    x, f = pb.asarray(X), FUNCTIONS["another function"]
    function = captured(f, x)
    assert is_direct(function)
    monkeypatch.setattr(helper, "__code__", (lambda x: pb.sin(x)).__code__)
    assert same(function(x), pb.sin(x) - 1)
    monkeypatch.undo()
    assert same(function(x), pb.exp(x) - 1)


def test_variables_have_their_values_of_the_call():
    x, f = pb.asarray(X), FUNCTIONS["a variable"]
    function = captured(f, x)
    V.assign(-1.5)
    assert same(function(x), x * -1.5)
    V.assign(3.0)
    T[0] = 7.0
    assert float(captured(FUNCTIONS["a tensor outside"], x)(x)[0]) == 7.0
    T[0] = float(Y[0])


def test_tapes_record():
    x = pb.asarray(X)
    function = captured(lambda x: pb.exp(x) * x, x)
    assert is_direct(function)
    for _ in range(4):
        with pb.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        assert np.allclose(tape.gradient(y, x).numpy(), np.exp(X) * (X + 1))
        assert same(function(x), pb.exp(x) * x)


def test_settings():
    x = pb.asarray(X)
    function = captured(lambda x: x + pb.zeros(6), x)
    before = pb.exp(x)
    backend = x.device.backend
    exp = captured(lambda x: pb.exp(x), x)
    backend.register_kernel("exp", lambda x: x + np.float32(1), source="other", priority=500)
    try:
        for _ in range(3):
            assert same(exp(x), x + 1)
    finally:
        backend.unregister_kernels("other")
    assert same(exp(x), before)
    assert same(function(x), x)


def test_errors_are_those_of_the_program():
    x = pb.asarray(np.eye(3, dtype=np.float32))
    function = captured(lambda x: pb.linalg.inv(x), x)
    singular = pb.asarray(np.zeros((3, 3), np.float32))
    with pytest.raises(errors.PullbackError) as direct:
        function(singular)
    with pytest.raises(errors.PullbackError) as eager:
        pb.linalg.inv(singular)
    assert str(direct.value) == str(eager.value)
    assert same(function(x), x)


def test_what_changes_something_has_no_such_calls():
    x = pb.asarray(X)
    v = pb.Variable(np.zeros(6, np.float32))
    for f in (lambda x: v.assign_add(x), lambda x: pb.random.normal((3,)) + x[0]):
        assert not is_direct(captured(f, x))
    assert not is_direct(captured(lambda x: [x + 1], x))


def test_nothing_is_held():
    x, y = pb.asarray(X), pb.asarray(Y)
    function = captured(lambda x, y: pb.exp(x * y), x, y)
    counts = [sys.getrefcount(t._array) for t in (x, y)]
    result = None
    for _ in range(100):
        result = function(x, y)
    assert [sys.getrefcount(t._array) for t in (x, y)] == counts
    array = weakref.ref(result._array)
    del result
    assert array() is None


def test_functions_are_collected():
    def make():
        big = pb.asarray(np.zeros(10, np.float32))
        function = captured(lambda x: x + big, pb.asarray(np.ones(10, np.float32)))
        assert is_direct(function)
        function.itself = function
        return weakref.ref(big._array)

    gc.collect()
    array = make()
    gc.collect()
    assert array() is None


def test_threads():
    x = pb.asarray(X)
    function = captured(lambda x: pb.sum(x * 2 + 1), x)
    expected, wrong = float(np.sum(X * 2 + 1)), []

    def run():
        for _ in range(2000):
            if float(function(x)) != expected:
                wrong.append(1)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(200):
        with pb.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        assert np.array_equal(tape.gradient(y, x).numpy(), np.full(6, 2, np.float32))
    for thread in threads:
        thread.join()
    assert not wrong


def test_wrong_fields():
    with pytest.raises(TypeError):
        _native.direct(len)
    with pytest.raises(TypeError):
        _native.direct(len, (), None, None, (), 0, (), (), (), (), (), False)
