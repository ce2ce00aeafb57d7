"""The hook `compile`: a backend gets the graph of a captured function, and runs it as a whole.

The backend below "compiles" by calling the kernels one by one, as a library does that compiles
functions: with arrays in which a kernel may not look at values, but for the arrays being real.
"""

from __future__ import annotations

import re
import warnings
from typing import ClassVar

import numpy as np
import pytest

import pullback as pb
from pullback import array_api, dtypes
from pullback.graph.graph import check
from pullback.plugins.compiling import as_function, compiling, require


def sqrt(x):
    require(np.all(~(x < 0)), ValueError("the root of a negative number"))
    return np.sqrt(np.maximum(x, 0))


class Whole(pb.Backend):
    """NumPy's kernels; `compiler` makes a function of each graph."""

    name = "whole"
    dtypes: ClassVar = {d: np.dtype(d) for d in dtypes.ALL}
    kernels: ClassVar = {**array_api.kernels(np), "sqrt": sqrt}

    def __init__(self):
        super().__init__()
        self.graphs = []
        self.runs = 0
        self.compiler = self.counted

    def from_host(self, array, device, *, copy):
        return np.array(array, copy=copy or None)

    def to_host(self, array):
        return array

    def native(self, value):
        return np.asarray(value)

    def compile(self, graph):
        self.graphs.append(graph)
        return self.compiler(graph)

    def counted(self, graph):
        function = as_function(graph)

        def run(*inputs):
            self.runs += 1
            return function(*inputs)

        return run


BACKEND = Whole()
pb.register_backend(BACKEND, replace=True)


@pytest.fixture
def backend():
    BACKEND.graphs, BACKEND.runs, BACKEND.compiler = [], 0, BACKEND.counted
    with pb.device("whole"):
        yield BACKEND


def same(found, expected):
    assert found.dtype == expected.dtype
    assert found.numpy().tobytes() == expected.numpy().tobytes()


def test_a_program_is_one_call_of_what_the_backend_made(backend):
    def f(x, y):
        return pb.exp(x) + y * 2, {"sum": pb.sum(x), "x": x}

    captured = pb.function(f)
    x, y = pb.asarray([1.0, 2.0]), pb.asarray([3.0, 4.0])
    for _ in range(4):
        found = captured(x, y)
    same(found[0], f(x, y)[0])
    same(found[1]["sum"], pb.sum(x))
    same(found[1]["x"], x)
    assert backend.runs == 2
    assert "; compiled by the backend 'whole'" in captured.explain()


def test_the_hook_gets_what_is_written_among_the_outputs(backend):
    v, w = pb.Variable([1.0, 2.0]), pb.Variable([1.0, 2.0])

    @pb.function
    def step(x):
        v.assign_add(x)
        w.assign(x)
        return v * 2.0

    for _ in range(4):
        step(pb.ones(2))
    (graph,) = backend.graphs
    check(graph)
    ((target, value),) = graph.writes  # w gets an input, which nothing computes
    assert target.owner is v
    assert value is graph.outputs[1]
    assert len(graph.outputs) == 2
    assert graph.after == ()
    assert v.numpy().tolist() == [5, 6]
    assert w.numpy().tolist() == [1, 1]


def about(captured):
    """The line of the first program in `explain`."""
    return captured.explain().splitlines()[1]


def model_and_step(seed):
    pb.random.seed(seed)
    model = pb.Sequential(
        [pb.layers.Dense(16, activation="relu"), pb.layers.Dropout(0.2), pb.layers.Dense(3)]
    )
    schedule = pb.optimizers.schedules.exponential_decay(0.01, 10, 0.9)
    optimizer = pb.optimizers.Adam(schedule)

    def step(x, y):
        with pb.GradientTape() as tape:
            loss = pb.losses.sparse_softmax_cross_entropy(y, model(x, training=True))
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    return model, step


def test_a_step_trains_as_it_does_op_by_op(backend):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((8, 5), np.float32), rng.integers(0, 3, 8)
    results = []
    for wrapped in (lambda f: f, pb.function):
        model, step = model_and_step(3)
        step = wrapped(step)
        losses = [float(step(x, y)) for _ in range(8)]
        results.append((losses, [v.numpy().tolist() for v in model.variables]))
    assert results[0] == results[1]
    assert backend.runs == 6


def test_gradients_through_a_captured_model(backend):
    model, _ = model_and_step(1)
    x = pb.ones((2, 5))
    captured = pb.function(model)
    for _ in range(4):
        found = []
        for f in (model, captured):
            with pb.GradientTape() as tape:
                loss = pb.sum(f(x, training=False) ** 2)
            found.append(tape.gradient(loss, model.trainable_variables))
        for a, b in zip(*found, strict=True):
            same(a, b)
    assert backend.runs


def test_none_leaves_a_graph_to_its_calls(backend):
    backend.compiler = lambda graph: None
    captured = pb.function(lambda x: x + 1)
    for _ in range(3):
        same(captured(pb.ones(2)), pb.full(2, 2.0))
    assert about(captured).endswith(
        "not compiled by the backend 'whole', which leaves it to its calls"
    )


def test_a_graph_without_calls_says_so(backend):
    same_again = pb.function(lambda x: x)
    for _ in range(3):
        same(same_again(pb.ones(2)), pb.ones(2))
    assert backend.graphs == []
    assert about(same_again).endswith(
        "; the first; not compiled by the backend 'whole', because it has no calls"
    )


def test_a_profile_sees_the_calls_and_the_program_says_so(backend):
    captured = pb.function(lambda x: x + 1)
    with pb.profile() as profile:
        for _ in range(3):
            captured(pb.ones(2))
    assert ("add", 3) in [(row.op, row.calls) for row in profile.ops]
    assert about(captured).endswith("; not compiled by the backend 'whole' while a profile runs")
    for _ in range(3):
        captured(pb.ones(2))
    assert backend.runs
    assert "; compiled by the backend 'whole'" in captured.explain()


def test_a_backend_without_the_hook_is_not_named():
    captured = pb.function(lambda x: x + 1)
    with pb.device("cpu"):
        for _ in range(3):
            captured(pb.ones(2))
    assert about(captured) == "1. for x: float32[2]; the first"


# What a kernel requires of values -----------------------------------------------------------------


def test_a_backend_that_calls_the_kernels_gets_them_fused(backend, monkeypatch):
    monkeypatch.setattr(backend, "fusible", lambda: ("add", "multiply"))
    monkeypatch.setattr(backend, "fuse", lambda region: region.op_by_op)
    for calls, names in ((False, ["multiply", "add"]), (True, ["fused"])):
        monkeypatch.setattr(backend, "compiles_kernels", lambda calls=calls: calls)
        captured = pb.function(lambda x: x * 2 + 1)
        for _ in range(3):
            found = captured(pb.asarray([1.0, 2.0]))
        assert found.tolist() == [3, 5]
        assert [call.op.name for call in backend.graphs[-1].calls] == names


def test_values_that_a_kernel_refuses_are_the_error_of_its_call(backend):
    v = pb.Variable([1.0, 2.0])

    @pb.function
    def step(indices):
        v.assign_add(pb.take(v, indices, axis=0))

    good = pb.asarray([1, 0])
    for _ in range(3):
        step(good)
    before = v.numpy().tolist()
    with pytest.raises(pb.errors.IndexingError, match=r"take.*outside an axis of size 2") as raised:
        step(pb.asarray([1, 2]))
    assert "in a captured function: called at test_compile_hook.py:" in raised.value.__notes__[0]
    assert v.numpy().tolist() == before
    step(good)
    assert backend.runs == 3


def test_a_graph_with_several_requirements_has_one_more_result(backend):
    f = pb.function(lambda x: pb.sqrt(x) + pb.sqrt(x - 1))
    good, bad = pb.asarray([1.0, 4.0]), pb.asarray([0.5, 4.0])
    for _ in range(3):
        f(good)
    run = as_function(backend.graphs[0])
    assert [bool(run(x._array)[1]) for x in (good, bad)] == [True, False]
    with pytest.raises(pb.errors.InputValueError, match=r"^sqrt.*of a negative number"):
        f(bad)


def test_nothing_is_looked_at_while_a_graph_is_compiled():
    with compiling() as tests:
        taken = BACKEND.kernels["pow"](np.asarray([2]), np.asarray([3]))
    assert taken.tolist() == [8]
    assert [bool(test) for test in tests] == [True]


@pytest.mark.parametrize("dtype", ["uint32", "uint64"])
@pytest.mark.parametrize("counter", [0, 2**64 - 2, 2**128 - 1, 2**256 - 2])
def test_random_bits_of_words_are_those_of_ints(dtype, counter):
    key, kernel = 3 << 64 | 5, BACKEND.kernels["random_bits"]
    options = {"shape": (3, 5), "dtype": np.dtype(dtype), "device": None}
    words = [
        np.frombuffer(n.to_bytes(size, "little"), "<u8") for n, size in ((key, 16), (counter, 32))
    ]
    expected = kernel(key=key, counter=counter, **options)
    found = kernel(key=words[0], counter=words[1], **options)
    assert found.dtype == expected.dtype
    assert found.tolist() == expected.tolist()


# Faulty hooks -------------------------------------------------------------------------------------


def raising(graph):
    raise RuntimeError("no such instruction")


def raises_at_run(graph):
    def run(*inputs):
        raise RuntimeError("no such instruction")

    return run


def too_few(graph):
    function = as_function(graph)
    return lambda *inputs: function(*inputs)[:-1]


def too_many(graph):
    function = as_function(graph)
    return lambda *inputs: (*function(*inputs), np.asarray(True), np.asarray(True))


def no_tuple(graph):
    return lambda *inputs: 3


def other_dtype(graph):
    function = as_function(graph)
    return lambda *inputs: tuple(x.astype(np.float64) for x in function(*inputs))


def other_shape(graph):
    function = as_function(graph)
    return lambda *inputs: tuple(x[None] for x in function(*inputs))


def lists(graph):
    function = as_function(graph)
    return lambda *inputs: [x.tolist() for x in function(*inputs)]


FAULTS = {
    raising: "raised RuntimeError: no such instruction",
    raises_at_run: "raised RuntimeError: no such instruction",
    too_few: "the function returned 1 results for 2 outputs",
    too_many: "the function returned 4 results for 2 outputs",
    no_tuple: "the function returned int results for 2 outputs",
    other_dtype: r"the function returned ndarray of float64\[3\] for the output .*float32\[3\]",
    other_shape: r"the function returned ndarray of float32\[1, 3\] for the output",
    lists: "the function returned list of ",
}


def refusing_exp(graph):
    if any(call.op.name == "exp" for call in graph.calls):
        raise RuntimeError("no such instruction")
    return as_function(graph)


def exp_at_run(graph):
    if any(call.op.name == "exp" for call in graph.calls):
        return raises_at_run(graph)
    return as_function(graph)


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (refusing_exp, r"instruction \(in multiply, exp, sqrt; also for exp alone\);"),
        (exp_at_run, r"instruction \(in multiply, exp, sqrt\);"),
    ],
)
def test_the_ops_of_a_graph_that_is_not_compiled_are_named(backend, fault, says):
    backend.compiler = fault
    constant = pb.asarray([3.0, 4.0])
    step = pb.function(lambda x: pb.sqrt(pb.exp(x * constant * x)))
    with pytest.warns(RuntimeWarning, match=says):
        assert len({step(pb.ones(2)).numpy().tobytes() for _ in range(3)}) == 1


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_faulty_hook_is_named_once_and_the_calls_run(backend, fault):
    backend.compiler = fault
    v = pb.Variable(pb.zeros(3))

    @pb.function
    def step(x):
        v.assign_add(x)
        return v * 2.0

    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        results = [step(pb.ones(3)).numpy().tolist() for _ in range(6)]
    assert results == [[2.0 * i] * 3 for i in range(1, 7)]
    assert v.numpy().tolist() == [6] * 3
    (warning,) = found
    assert warning.category is RuntimeWarning
    message = str(warning.message)
    assert message.startswith("the backend 'whole' cannot compile ")
    assert "step: its hook `compile` " in message
    assert re.search(FAULTS[fault], message)
    assert "; not compiled by the backend 'whole', which " in about(step)
    assert re.search(FAULTS[fault], about(step))


def test_calls_that_fail_late_in_its_place_change_no_variable(backend, monkeypatch):
    v = pb.Variable(pb.zeros(3))

    @pb.function
    def step(x):
        v.assign_add(x)

    for _ in range(3):
        step(pb.ones(3))

    def fail(*inputs):
        raise RuntimeError("out of memory")

    (program,) = step._all()
    with monkeypatch.context() as patch:
        patch.setattr(program.compiled, "_run", fail)
        patch.setattr(backend, "to_host", fail)
        with pytest.raises(pb.errors.BackendError, match="out of memory"):
            step(pb.ones(3))
    step(pb.ones(3))
    assert v.numpy().tolist() == [4] * 3
    assert backend.runs == 2


def test_a_hook_that_raises_for_wrong_values_keeps_its_function(backend):
    """As one does whose library looks at values itself."""

    def compiler(graph):
        function = as_function(graph)

        def run(*inputs):
            *results, holds = function(*inputs)
            if not holds:
                raise IndexError("somewhere")
            backend.runs += 1
            return results

        return run

    backend.compiler = compiler
    f = pb.function(lambda x, i: pb.take(x, i, axis=0))
    x, good = pb.ones(3), pb.asarray([1])
    for _ in range(3):
        f(x, good)
    with pytest.raises(pb.errors.IndexingError, match="axis of size 3"):
        f(x, pb.asarray([3]))
    f(x, good)
    assert backend.runs == 2


# Branches and loops -------------------------------------------------------------------------------


def choose(choice, operands, *, branches):
    number = int(choice) if choice.dtype != bool else 1 - int(choice)
    return branches[min(max(number, 0), len(branches) - 1)](*operands)


def scan(consts, init, xs, *, body, carries, length, reverse, **_):
    carry, rows, held = init, [], True
    for i in range(length)[:: -1 if reverse else 1]:
        *found, holds = body(*consts, *carry, *(x[i] for x in xs))
        carry, held = found[:carries], held & holds
        rows.append(found[carries:])
    rows = rows[:: -1 if reverse else 1]
    return *carry, *map(np.stack, zip(*rows, strict=True)), held


def while_loop(consts, init, *, test, body, maximum, **_):
    carry, held, count = init, True, 0
    while maximum is None or count < maximum:
        goes_on, holds = test(*consts, *carry)
        held &= holds
        if not goes_on:
            break
        *carry, holds = body(*consts, *carry)
        held, count = held & holds, count + 1
    return *carry, held


CONTROL = {"cond": choose, "switch": choose, "scan": scan, "while_loop": while_loop}


@pytest.fixture
def controlled(backend, monkeypatch):
    """The backend, which compiles branches and loops; `backend.used` has the names of them."""
    backend.used = []

    def counted(name):
        def call(*operands, **attributes):
            backend.used.append(name)
            return CONTROL[name](*operands, **attributes)

        return call

    def compiler(graph):
        function = as_function(graph, {name: counted(name) for name in CONTROL})

        def run(*inputs):
            backend.runs += 1
            return function(*inputs)

        return run

    monkeypatch.setattr(Whole, "control_flow", {*CONTROL, "stop_gradient"})
    backend.compiler = compiler
    return backend


LOOPS = {
    "cond": lambda x: pb.cond(pb.sum(x) > 3, lambda: x * 2, lambda: pb.sqrt(x)),
    "switch": lambda x: pb.switch(
        pb.sum(x).astype("int32") - 3, [lambda: x, lambda: -x, lambda: x * x]
    ),
    "scan": lambda x: pb.scan(lambda c, row: (c + row, pb.sqrt(c) * row), x[0], x, reverse=True),
    "while_loop": lambda x: pb.while_loop(
        lambda c: pb.sum(c) < 20, lambda c: c * 2 + pb.cond(c[0] > 2, lambda: x, lambda: c), x, 9
    ),
}


@pytest.mark.parametrize("name", LOOPS)
def test_a_backend_may_compile_branches_and_loops(controlled, name):
    function = LOOPS[name]
    captured = pb.function(function)
    for scale in (1.0, 2.0, 0.25, 1.0):
        x = pb.asarray(np.linspace(0.5, 1, 3, dtype=np.float32) * scale)
        found, expected = captured(x), function(x)
        found, expected = (v if isinstance(v, tuple) else (v,) for v in (found, expected))
        for one, other in zip(found, expected, strict=True):
            same(one, other)
    assert controlled.runs == 2
    assert name in controlled.used
    assert "; compiled by the backend 'whole'" in captured.explain()


def test_what_a_kernel_in_a_branch_requires_is_the_error_of_its_call(controlled):
    captured = pb.function(LOOPS["cond"])
    for _ in range(3):
        captured(pb.ones(2))
    with pytest.raises(pb.errors.InputValueError, match=r"^sqrt.*of a negative number"):
        captured(-pb.ones(2))
    same(captured(pb.ones(2)), pb.ones(2))
    assert "; compiled by the backend 'whole'" in captured.explain()


def test_gradients_of_branches_and_loops_are_compiled(controlled):
    def f(x):
        last, _ = pb.scan(lambda c, row: (pb.tanh(c * row), None), x[0], x)
        return pb.cond(last > 0, lambda: pb.stop_gradient(last) * last, lambda: last)

    captured = pb.function(f)
    for _ in range(4):
        found = []
        for function in (f, captured):
            x = pb.asarray([0.5, 1.0, 2.0])
            with pb.GradientTape() as tape:
                tape.watch(x)
                y = function(x)
            found.append(tape.gradient(y, x))
        np.testing.assert_allclose(found[0], found[1], rtol=1e-6)
    assert {"scan", "cond"} <= set(controlled.used)


def test_graphs_with_other_calls_run_one_by_one(controlled, monkeypatch):
    inside = pb.function(
        lambda x: pb.cond(
            pb.sum(x) > 0, lambda: pb.py_function(lambda a: a.numpy() * 2, x, result=x), lambda: x
        )
    )
    for _ in range(3):
        same(inside(pb.ones(2)), pb.full(2, 2.0))
    assert about(inside).endswith(
        "; not compiled by the backend 'whole', because it calls py_function"
    )
    monkeypatch.setattr(Whole, "control_flow", {"while_loop"})
    for name, lacking in (("scan", "scan"), ("while_loop", "cond")):
        loop = pb.function(LOOPS[name])
        for _ in range(3):
            loop(pb.ones(3))
        assert about(loop).endswith(
            f"; not compiled by the backend 'whole', whose control_flow lacks {lacking}"
        )
    assert controlled.graphs == []
