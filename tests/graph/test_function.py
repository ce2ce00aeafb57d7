"""`pb.function`: arguments, results, programs, guards, and what it says of itself."""

from __future__ import annotations

import collections
import copy
import gc
import os
import pickle
import re
import select
import threading
import warnings
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import pullback as pb
from pullback.graph.function import LIMIT
from pullback.graph.graph import check

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def bits(value):
    """Everything about a result that a caller can see, without its identity."""
    if isinstance(value, pb.Tensor):
        array = value.numpy()
        return array.shape, array.dtype, array.tobytes(), value.device
    if isinstance(value, dict):
        return {key: bits(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value), [bits(item) for item in value]
    return type(value), value


def programs(captured):
    return captured.explain().splitlines()[0].rsplit(": ", 1)[1]


def agrees(function, *calls, count=None):
    """Holds each of several calls of a captured function against the function."""
    captured = pb.function(function)
    for arguments in calls:
        assert bits(captured(*arguments)) == bits(function(*arguments))
    if count is not None:
        assert programs(captured) == f"{count} program{'s' * (count != 1)}"
    for program in captured._all():
        check(program.graph)
    return captured


# How it is called ---------------------------------------------------------------------------------


def test_as_a_call_and_as_a_decorator():
    @pb.function
    def double(x):
        return x * 2

    @pb.function(strict=False)
    def triple(x):
        return x * 3

    x = pb.asarray(X)
    for _ in range(3):
        assert bits(double(x)) == bits(x * 2)
        assert bits(triple(x)) == bits(x * 3)
    assert double.__name__ == "double"
    assert programs(double) == programs(triple) == "1 program"
    assert pb.function(double) is double
    with pytest.raises(pb.errors.InputTypeError, match="captures a function, got int"):
        pb.function(3)


def test_the_third_call_runs_no_python():
    calls = []

    @pb.function
    def f(x):
        calls.append(1)
        return x + 1

    for _ in range(5):
        f(pb.asarray(X))
    assert calls == [1, 1]


def test_methods_are_captured_for_each_instance():
    class Scale:
        def __init__(self, factor):
            self.factor = pb.Variable(factor)

        @pb.function
        def apply(self, x):
            return x * self.factor

    two, three = Scale(2.0), Scale(3.0)
    for _ in range(3):
        assert float(two.apply(1.0 * pb.ones(()))) == 2.0
        assert float(three.apply(pb.ones(()))) == 3.0
    assert two.apply is two.apply is not three.apply
    assert programs(two.apply) == "1 program"
    bound = pb.function(three.apply)
    assert float(bound(pb.ones(()))) == 3.0


def test_models_and_layers_are_captured():
    model = pb.Sequential([pb.layers.Dense(4, activation="relu"), pb.layers.Dense(2)])
    captured = pb.function(model)
    for _ in range(3):
        assert bits(captured(pb.asarray(X))) == bits(model(pb.asarray(X)))
    assert programs(captured) == "1 program"
    assert sorted(model.named_variables) == [
        f"layers/{place}" for place in ("0/bias", "0/kernel", "1/bias", "1/kernel")
    ]


def test_a_copy_of_an_instance_has_captured_methods_of_its_own():
    class Scaled:
        def __init__(self, factor):
            self.factor = factor

        @pb.function
        def scale(self, x):
            return x * self.factor

    first = Scaled(2.0)
    for _ in range(3):
        first.scale(pb.ones(1))
    second, third = copy.copy(first), Scaled(0.0)
    second.factor = 9.0
    vars(third).update(vars(first), factor=5.0)
    for _ in range(4):
        found = [each.scale(pb.ones(1)).item() for each in (first, second, third)]
        assert found == [2.0, 9.0, 5.0]


@pytest.mark.parametrize("name", ["self", "args", "kwargs", "f", "result", "x0", "missed"])
def test_parameters_may_have_any_name(name):
    """Given by keyword or by position, in every call, and while a tape records."""
    space = {}
    exec(f"def f({name}, b=1.0): return {name} * b", space)
    captured = pb.function(space["f"])
    x = pb.asarray(3.0)
    for _ in range(4):
        assert captured(**{name: x}, b=2.0).item() == captured(x, 2.0).item() == 6.0
        with pb.GradientTape() as tape:
            tape.watch(x)
            y = captured(**{name: x})
        assert tape.gradient(y, x).item() == 1.0


def test_methods_of_instances_without_a_dict():
    class Slim:
        __slots__ = ("__weakref__", "factor")

        def __init__(self, factor):
            self.factor = pb.Variable(factor)

        @pb.function
        def apply(self, x):
            return x * self.factor

    two, three = Slim(2.0), Slim(3.0)
    for _ in range(3):
        assert float(two.apply(pb.ones(()))) == 2.0
        assert float(three.apply(pb.ones(()))) == 3.0
    assert programs(two.apply) == programs(three.apply) == "1 program"


def doubled(x):
    return x * 2


def test_copies_and_pickles_capture_anew():
    captured = pb.function(doubled)
    for _ in range(3):
        captured(pb.ones(2))
    for other in (copy.deepcopy(captured), pickle.loads(pickle.dumps(captured))):
        assert programs(other) == "0 programs"
        assert [other(pb.ones(2)).tolist() for _ in range(3)] == [[2.0, 2.0]] * 3
        assert programs(other) == "1 program"


def test_a_captured_method_is_no_part_of_the_state_of_a_model():
    class Net(pb.Model):
        def __init__(self):
            super().__init__()
            self.dense = pb.layers.Dense(2)

        @pb.function
        def call(self, x):
            return self.dense(x)

    net = Net()
    for _ in range(3):
        net(pb.asarray(X))
    assert sorted(net.named_variables) == ["dense/bias", "dense/kernel"]
    assert programs(net.call) == "1 program"


# Arguments and results ----------------------------------------------------------------------------

Pair = collections.namedtuple("Pair", "left right")


@pytest.mark.parametrize(
    "structure",
    [
        lambda x: [x, (x * 2, {"a": x, "b": None})],
        lambda x: {"x": x, 3: [x], "text": "word", "n": 2.5},
        lambda x: Pair(x, [x, x]),
        lambda x: [],
        lambda x: (x,),
        lambda x: {},
    ],
)
def test_arguments_and_results_of_any_structure(structure):
    x = pb.asarray(X)
    agrees(lambda value: value, *[(structure(x),)] * 3, count=1)
    agrees(
        lambda value: [value, pb.ones(2) + 1], *[(structure(x),), (structure(x + 1),)] * 2, count=1
    )


def test_keyword_arguments_and_defaults():
    def f(x, scale=2.0, *, shift=None, **more):
        result = x * scale if shift is None else x * scale + shift
        return result + more.get("last", 0)

    captured = pb.function(f)
    x = pb.asarray(X)
    for _ in range(3):
        assert bits(captured(x)) == bits(f(x))
        assert bits(captured(x, shift=x)) == bits(f(x, shift=x))
        assert bits(captured(x=x, scale=3.0, last=x)) == bits(f(x=x, scale=3.0, last=x))
    assert programs(captured) == "3 programs"


def test_arrays_are_tensors_inside_and_read_at_each_call():
    kinds = []

    def f(x):
        kinds.append(type(x))
        return x + 1

    captured = pb.function(f)
    array = X.copy()
    for step in range(4):
        array[0, 0] = step
        assert bits(captured(array)) == bits(pb.asarray(array) + 1)
    assert set(kinds) == {pb.Tensor}
    with pytest.raises(pb.errors.ConversionError, match="x is an array of"):
        captured(np.array(["a"]))


def test_variables_as_arguments_are_told_apart():
    def add_one(v, x):
        v.assign_add(x)
        return v * 1.0

    captured = pb.function(add_one)
    a, b, x = pb.Variable([1.0]), pb.Variable([5.0]), pb.asarray([1.0])
    for step in range(1, 5):
        assert captured(a, x).tolist() == [1.0 + step]
        assert captured(b, x).tolist() == [5.0 + step]
    assert programs(captured) == "2 programs"


@pytest.mark.parametrize(
    "values", [(1, True, 1.0), (0.0, -0.0), (2, 3), ("sum", "mean"), (None, False), (1j, 1 - 0j)]
)
def test_python_values_are_constants_and_never_mistaken_for_each_other(values):
    def f(x, value):
        if value is None or isinstance(value, str):
            return x if value is None else getattr(pb, value)(x)
        return pb.atan2(x * 0, x * value) if not isinstance(value, complex) else x * value

    x = pb.asarray([1.0, -1.0])
    agrees(f, *[(x, value) for _ in range(3) for value in values], count=len(values))


def test_a_float_that_varies_becomes_an_input():
    def f(x, rate):
        return x * rate + rate * 2 - 1.5

    x = pb.asarray(np.arange(3.0))
    captured = agrees(f, *[(x, 0.1 * n) for n in range(12)], count=1)
    assert "numbers that are inputs: rate" in captured.explain()


def test_a_float_that_steers_stays_a_constant():
    def f(x, rate):
        return x * rate if rate > 0.25 else x

    x = pb.asarray(X)
    captured = agrees(f, *[(x, 0.1 * n) for n in (1, 2, 3, 4, 1, 2, 3, 4)])
    assert "inputs" not in captured.explain()


def test_results_that_are_no_tensors():
    v = pb.Variable(2.0)
    captured = agrees(lambda x: (x, "word", 3, v, None), *[(pb.asarray(X),)] * 3)
    assert captured(pb.asarray(X))[3] is v


def test_an_argument_returned_as_it_is():
    agrees(lambda x, y: (y, x, x), *[(pb.asarray(X), pb.asarray(X) + 1)] * 4)


# One program for one signature --------------------------------------------------------------------


@pytest.mark.parametrize(
    "others",
    [
        (pb.ones((2, 2)), pb.ones((2, 3)), pb.ones(())),
        (pb.ones(2), pb.ones(2, dtype="float64"), pb.ones(2, dtype="int32")),
    ],
)
def test_shapes_and_dtypes_have_programs_of_their_own(others):
    agrees(lambda x: x + x, *[(x,) for _ in range(3) for x in others], count=len(others))


def test_a_wrong_shape_at_a_later_call_is_the_error_of_the_op():
    w = pb.Variable(np.ones((3, 2), np.float32))
    captured = pb.function(lambda x: x @ w)
    for _ in range(3):
        captured(pb.ones((4, 3)))
    with pytest.raises(pb.errors.ShapeError, match="matmul"):
        captured(pb.ones((4, 5)))
    assert captured(pb.ones((4, 3))).shape == (4, 2)


@pytest.mark.parametrize("limit", [1, 3, LIMIT])
def test_a_limit_of_programs_with_a_warning_that_names_the_argument(limit):
    def f(x, power):
        return x ** [power][0] if power else x

    captured = pb.function(f, limit=limit)
    x = pb.asarray(X)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for power in range(LIMIT + 4):
            for _ in range(2):
                assert bits(captured(x, power)) == bits(f(x, power))
    (warning,) = caught
    assert f"f has been called in {limit} ways" in str(warning.message)
    assert f"power ({limit} now), which the function looks at: pass" in str(warning.message)
    assert f"limit={2 * limit})" in str(warning.message)
    assert warning.filename == __file__
    assert programs(captured) == f"{limit} program{'s' * (limit != 1)}"


def test_limits_that_are_none():
    with pytest.raises(pb.errors.InputValueError, match="limit is 0"):
        pb.function(limit=0)
    with pytest.raises(pb.errors.InputTypeError, match="limit is True; write an int"):
        pb.function(abs, limit=True)


class Options:
    rate = 1.0


options = Options()
OBJECTS = [Options() for _ in range(4)]


def warning_of(calls):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        calls()
    (warning,) = caught
    assert warning.category is RuntimeWarning
    return str(warning.message)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (lambda n: (pb.ones(n),), r"the shape of x \(float32\[\d\] now\): pad it to a few lengths"),
        (lambda n: (pb.ones(1, dtype=["int32", "int64", "float64"][n % 3]),), "the dtype of x"),
        (lambda n: ([pb.ones(1)] * n,), "the structure of the arguments: pass the same one, with"),
        (lambda n: (np.float32(n),), r"x \(.*4.0.* now\): pass few values, or a tensor"),
        (lambda n: (str(n),), r"x \('4'\ now\): pass few values"),
        (
            lambda n: (OBJECTS[n % 4],),
            "the object x: pass the",
        ),
        (lambda n: ([pb.ones(1), 2, "a", None][n % 4],), "what is passed for x"),
    ],
)
def test_the_warning_says_what_varied_and_what_to_do(arguments, message):
    captured = pb.function(lambda x: pb.ones(2), limit=2)
    found = warning_of(lambda: [captured(*arguments(n)) for n in range(2, 6)])
    assert re.search(message, found)


def test_the_warning_names_what_is_outside():
    captured = pb.function(lambda x: x * options.rate, limit=2)

    def calls():
        for n in range(4):
            options.rate = float(n)
            for _ in range(2):
                assert captured(pb.ones(1)).tolist() == [n]

    assert "rate: pass it as an argument" in warning_of(calls)


def test_explain_says_why_there_are_several_programs():
    captured = pb.function(lambda x: x + 1)
    for shape in ((2,), (2,), (3,), (3,)):
        captured(pb.ones(shape))
    text = captured.explain()
    assert "1. for x: float32[2]; the first" in text
    assert "2. for x: float32[3]; because of x: float32[3] instead of float32[2]" in text
    assert "v0: float32[3] = add(x0, c0)" in text
    assert captured.graph.calls[0].op.name == "add"


def test_lower_makes_a_program_and_changes_nothing():
    v, generator = pb.Variable(1.0), pb.Generator(3)
    optimizer = pb.optimizers.SGD(0.5)

    @pb.function
    def f(x):
        optimizer.apply_gradients([(x, v)])
        return v + generator.uniform()

    program = f.lower(pb.ones(()))
    assert (float(v), generator.state, optimizer.step) == (1.0, (3, 0), 0)
    assert "sgd_update" in str(program)
    assert "write" in str(program.graph)
    with pytest.raises(pb.errors.CaptureError, match="looks at the values"):
        pb.function(lambda x: float(x)).lower(pb.ones(()))
    with pytest.raises(pb.errors.CaptureError, match="has no program yet"):
        pb.function(lambda x: x).graph  # noqa: B018


def test_calls_of_a_captured_function_in_another_are_a_part_of_it():
    inner = pb.function(lambda x: x * 2)
    captured = agrees(lambda x: inner(x) + 1, *[(pb.asarray(X),)] * 4, count=1)
    assert [call.op.name for call in captured.graph.calls] == ["multiply", "add"]
    assert programs(inner) == "1 program"


# Threads, errors, memory --------------------------------------------------------------------------


def test_threads_share_a_captured_function():
    captured = pb.function(lambda x, y: pb.tanh(x @ y).sum(axis=0))

    def work(seed):
        rng = np.random.default_rng(seed)
        for _ in range(40):
            x, y = (pb.asarray(rng.standard_normal((3, 3), np.float32)) for _ in range(2))
            expected = pb.tanh(x @ y).sum(axis=0)
            assert bits(captured(x, y)) == bits(expected)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(4)))
    assert programs(captured) == "1 program"


def test_other_threads_compute_as_ever_while_a_function_is_traced():
    # Pipes: what waits for an event is in lists that the function reads, and changes.
    (inside, begun), (go_on, release) = os.pipe(), os.pipe()

    def f(x):
        os.write(begun, b".")
        os.read(go_on, 1)
        return x + 1

    captured = pb.function(f)
    x = pb.asarray(X)
    os.write(release, b".")
    captured(x)
    os.read(inside, 1)
    thread = threading.Thread(target=captured, args=(x,))
    thread.start()
    assert select.select([inside], [], [], 10)[0]
    v = pb.Variable(2.0)
    with pb.GradientTape() as tape:
        y = v * v
    assert float(tape.gradient(y, v)) == 4.0
    assert (x * 2).sum().item() == 30.0
    v.assign(5.0)
    os.write(release, b".")
    thread.join()
    for pipe in (inside, begun, go_on, release):
        os.close(pipe)
    assert float(v) == 5.0
    assert [call.op.name for call in captured.graph.calls] == ["add"]


def test_an_exception_half_way_changes_no_variable():
    v, table = pb.Variable(1.0), pb.asarray([1.0, 2.0, 3.0])

    @pb.function
    def f(index):
        v.assign_add(1.0)
        return pb.take(table, index)

    for _ in range(3):
        f(pb.asarray([0, 2]))
    assert float(v) == 4.0
    with pytest.raises(pb.errors.IndexingError, match="take") as caught:
        f(pb.asarray([0, 7]))
    assert float(v) == 4.0
    assert any("test_function.py" in note for note in caught.value.__notes__)
    f(pb.asarray([0, 1]))
    assert float(v) == 5.0


def test_an_exception_in_the_trace_changes_no_variable():
    v, calls = pb.Variable(1.0), []

    @pb.function
    def f(x):
        calls.append(1)
        v.assign_add(x)
        if len(calls) == 2:
            raise KeyError("own")
        return v * 1.0

    f(pb.ones(()))
    with pytest.raises(KeyError):
        f(pb.ones(()))
    assert float(v) == 2.0
    with pytest.warns(RuntimeWarning, match="changes the length of calls"):
        assert [float(f(pb.ones(()))) for _ in range(3)] == [3.0, 4.0, 5.0]


def test_arrays_are_released_after_the_call():
    seen = []
    v = pb.Variable(X)
    captured = pb.function(lambda x: pb.exp(x * v) + 1)
    for _ in range(4):
        x = pb.asarray(X * 1.5)
        seen.append(weakref.ref(x._array))
        seen.append(weakref.ref(captured(x)._array))
        del x
    gc.collect()
    assert all(reference() is None for reference in seen)


def test_a_captured_function_is_released_with_its_programs():
    v = pb.Variable(1.0)
    captured = pb.function(lambda x: x * v)
    for _ in range(3):
        captured(pb.ones(()))
    reference = weakref.ref(captured)
    del captured
    gc.collect()
    assert reference() is None


def test_explain_names_variables_and_shows_numbers():
    v = pb.Variable([1.0, 2.0], name="scale")
    noisy = pb.function(lambda x: x * v * 0.1 + pb.random.normal((2,)))
    for _ in range(3):
        noisy(pb.ones(2))
    text = noisy.explain()
    assert re.search(r"input \(state\) \w+: float32\[2\]  # scale\n", text)
    assert re.search(r"input \(draw\) \w+_key: int\[\]\n", text)
    assert re.search(r"constant \w+: float32\[\] = 0\.1\n", text)
