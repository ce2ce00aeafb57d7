"""Fused kernels: which regions have one, and that their results are those of the calls."""

import importlib.util
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pullback as pb
from pullback.graph.emit import emit
from pullback.graph.graph import Fused, check
from pullback.graph.passes.regions import fuse
from pullback_native import _native, fused_plan
from pullback_native.fusion import UNARY
from pullback_native.fusion import fuse as native_kernel
from pullback_native.loops import LOOPS
from pullback_numpy.threads import number_of_threads

_spec = importlib.util.spec_from_file_location(
    "fused_programs", Path(__file__).with_name("fused_programs.py")
)
_helpers = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_helpers)
normal, recorded, same_bits = _helpers.normal, _helpers.recorded, _helpers.same_bits
programs, rng = _helpers.programs, _helpers.rng


def fused(function, *arrays):
    """The fused graph of a function, which gives the bits of the calls one by one."""
    with np.errstate(all="ignore"):
        graph, arrays = recorded(function, *arrays)
        result = fuse(graph)
        check(result)
        for before, after in zip(emit(graph)(*arrays), emit(result)(*arrays), strict=True):
            same_bits(after, before)
    return result


def names(graph):
    return [call.op.name for call in graph.calls]


def whole(graph):
    """Holds that a graph is one fused call, of the pack."""
    assert names(graph) == ["fused"]
    assert type(graph.calls[0].kernel).__name__ == "Fused"


# Ops ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(UNARY))
@pytest.mark.parametrize("size", [1, 7, 2048, 5000, 40001])
def test_functions_of_one_array(name, size):
    op = getattr(pb, name)
    whole(fused(lambda x: -op(-x), normal(size)))


@pytest.mark.parametrize("approximate", [False, True])
def test_gelu_and_its_gradient(approximate):
    def function(x):
        with pb.GradientTape() as tape:
            tape.watch(x)
            y = pb.gelu(x, approximate=approximate)
        return y * x, tape.gradient(y, x, x + x)

    whole(fused(function, normal(5000)))


@pytest.mark.parametrize("name", ["tanh", "sigmoid", "silu", "relu"])
def test_gradients(name):
    def function(x, g):
        with pb.GradientTape() as tape:
            tape.watch(x)
            y = getattr(pb, name)(x)
        return -y, tape.gradient(y, x, -g)

    whole(fused(function, normal(5000), normal(5000)))


ARITHMETIC = ["add", "subtract", "multiply", "divide", "maximum", "minimum"]


@pytest.mark.parametrize("name", ARITHMETIC)
@pytest.mark.parametrize("shape", [(70, 129), (3, 9000), (40000, 2), (5, 1), (4, 3, 70)])
def test_arithmetic_of_arrays_and_numbers(name, shape):
    op = getattr(pb, name)
    x, y = normal(*shape), normal(*shape)
    whole(fused(lambda x, y: -op(-x, y), x, y))
    for number in (np.float32(0), np.float32(-1.5), np.float32(np.nan)):
        whole(fused(lambda x, y: (-op(-x, y), op(y, -x)), x, number))
    whole(fused(lambda x: (-op(-x, 0.1), op(0.1, -x)), x))


@pytest.mark.parametrize("name", ARITHMETIC)
@pytest.mark.parametrize("shape", [(70, 129), (3, 9000), (40000, 2), (5, 1), (4, 3, 70)])
def test_arithmetic_with_rows(name, shape):
    op = getattr(pb, name)
    graph = fused(lambda x, r: (-op(-x, r), op(r, -x)), normal(*shape), normal(shape[-1]))
    if name not in ("maximum", "minimum"):
        whole(graph)


@pytest.mark.parametrize(
    "name", ["less", "less_equal", "greater", "greater_equal", "equal", "not_equal"]
)
def test_comparisons_and_choices(name):
    op = getattr(pb, name)
    x, y = normal(5000), normal(5000)
    y[::3] = x[::3]
    whole(fused(lambda x, y: pb.where(op(x, -y), x + y, x * y), x, y))
    whole(fused(lambda x, y: pb.where(op(x + y, 0.0), 1.0, y), x, y))
    whole(fused(lambda x, y: pb.where(op(0.5, x + y), y, -1.0), x, y))
    whole(fused(lambda x, y: (op(x, y), op(-x, y), pb.where(op(x, y), 0.0, 1.0)), x, y))


def test_functions_with_a_number():
    whole(fused(lambda x: pb.elu(pb.leaky_relu(-x, negative_slope=0.3), alpha=0.7), normal(5000)))


def test_gradients_that_may_be_0_by_0():
    def function(x, g):
        with pb.GradientTape() as tape:
            tape.watch(x)
            y = pb.sqrt(x)
        return -y, tape.gradient(y, x, -g)

    x, g = normal(5000), normal(5000)
    x[::3] = 0
    g[::5] = 0
    whole(fused(function, x, g))


@pytest.mark.parametrize("exponent", [2, 3, 4, 5, -1, -2, 0.5, -0.5])
def test_powers_of_a_number(exponent):
    x = normal(5000)
    whole(fused(lambda x: -((-x) ** exponent), x))
    # `same_bits` compares those of float64, where NaN has many.
    x = np.where(np.isnan(x) | (x < 0), np.float64(1e-200), x).astype(np.float64)
    whole(fused(lambda x: -((x * 2) ** exponent), x))


def test_products_with_ones_are_the_other_factor():
    def function(x, y):
        with pb.GradientTape() as tape:
            tape.watch(x)
            total = pb.sum(pb.tanh(x) * pb.sigmoid(y))
        return tape.gradient(total, x)

    whole(fused(function, normal(100_000), normal(100_000)))


@pytest.mark.parametrize("op", [pb.sum, pb.mean])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((1,), 0), ((30,), None), ((47,), 0), ((48,), 0), ((32768,), 0), ((32769,), None),
        ((300_001,), 0), ((70, 129), None), ((70, 129), 0), ((70, 129), 1), ((2, 40_000), 1),
        ((9000, 20), 0), ((9000, 20), 1), ((2000, 1), 0), ((2000, 1), 1), ((1, 2000), 0),
        ((5, 6, 7), (0, 1)), ((5, 6, 700), (1, 2)), ((5, 6, 7), 1), ((300, 1024), 0),
        ((300, 1025), 0), ((20, 3000), 0), ((), None),
    ],
)  # fmt: skip
def test_sums(op, shape, axis):
    x, y = normal(*shape), normal(*shape)
    x[~np.isfinite(x)] = 0.5
    y[~np.isfinite(y)] = -0.5
    fused(lambda x, y: op(x * y, axis=axis), x, y)
    fused(lambda x, y: (z := x * y, op(z, axis=axis, keepdims=True), op(-z, axis=axis)), x, y)
    fused(lambda x, y: (op(x, axis=axis), pb.exp(x) - y), x, y)
    zeros = np.full(shape, -0.0, np.float32)
    fused(lambda x, y: op(x * y, axis=axis), zeros, np.ones(shape, np.float32))


def test_sums_are_part_of_the_kernel():
    for axis in (None, 0, 1):
        whole(fused(lambda x, axis=axis: pb.sum(x * x, axis=axis), np.ones((90, 500), np.float32)))


# What the loops do not take -----------------------------------------------------------------------


def misaligned(x):
    return np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view(np.float32).reshape(x.shape)


LAYOUTS = {
    "transposed": np.asfortranarray,
    "strided": lambda x: np.repeat(x, 2, axis=1)[:, ::2],
    "reversed": lambda x: x[::-1].copy()[::-1],
    "repeated": lambda x: np.broadcast_to(np.float32(1.5), x.shape),
    "misaligned": misaligned,
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_arrays_of_other_layouts(layout):
    x, y = np.ascontiguousarray(normal(60, 80)), normal(60, 80)
    graph, arrays = recorded(lambda x, y: (pb.exp(-x) * y, pb.sum(x * y, axis=0)), x, y)
    result = fuse(graph)
    assert "fused" in names(result)
    with np.errstate(all="ignore"):
        for arguments in ([LAYOUTS[layout](x), y], [x, LAYOUTS[layout](y)], arrays):
            expected = emit(graph)(*arguments)
            for before, after in zip(expected, emit(result)(*arguments), strict=True):
                same_bits(after, before)


def test_other_dtypes_stay_as_they_are():
    for dtype in (np.float16, np.int16, np.uint32, np.complex64):
        assert "fused" not in names(fused(lambda x: -(x * x) + x, np.arange(50, dtype=dtype)))


def test_empty_arrays():
    fused(lambda x: pb.sum(pb.exp(-x)), np.zeros((0, 3), np.float32))


def test_a_call_with_wrong_arrays_is_a_call_of_the_kernels():
    graph, _ = recorded(lambda x: pb.exp(-x), normal(10))
    [call] = fuse(graph).calls
    same_bits(call.kernel(np.zeros(3, np.float32)), np.ones(3, np.float32))
    with pytest.raises(TypeError):
        call.kernel()


def test_regions_are_limited():
    def function(x):
        values = [x]
        for i in range(90):
            values.append(values[i // 2] * values[-1] + i)
        return values[::4]

    fused(function, normal(3000))


NEGATIVE = (0, LOOPS["negative"], -1, (0,), (1,), 0)
PLAN = {
    "bound": (), "shape": (4,), "kinds": (0,), "booleans": (0,), "buffers": (0, 0, 0),
    "order": (0,), "steps": (NEGATIVE,), "numbers": (), "sums": (),
    "sizes": (1, 1, 1, 1, 1, 16, 16, 4), "cost": 1.0,
}  # fmt: skip


@pytest.mark.parametrize(
    "wrong",
    [
        {"steps": ((*NEGATIVE[:3], (5,), (1,), 0),)},
        {"steps": ((*NEGATIVE[:3], (0,), (0,), 0),)},
        {"steps": ((9, *NEGATIVE[1:]),)},
        {"steps": (NEGATIVE,) * 65},
        {"order": (1,)},
        {"order": ()},
        {"sums": ((2, 1.0, ()),)},
        {"numbers": ((1, 0, 0.0),)},
        {"sizes": (1, 1, 1, 1, 1, 0, 16, 4)},
        {"buffers": (0, 33, 0)},
        {"buffers": (0, 0, 4)},
        {"buffers": (0, 0, -1)},
        {"buffers": (0, 0, 1), "sums": ((1, 1.0, ()),)},
        {"kinds": (0,) * 33},
    ],
)
def test_plans_are_checked(wrong):
    kernel = _native.fused(print, *PLAN.values())
    same_bits(kernel(np.ones(4, np.float32)), -np.ones(4, np.float32))
    with pytest.raises(ValueError, match=r"names what is not there|too much|at most"):
        _native.fused(print, *(PLAN | wrong).values())


# Threads ------------------------------------------------------------------------------------------


def test_bits_do_not_depend_on_threads():
    def function(x, y):
        z = pb.tanh(x * y) + pb.exp(-x * x)
        return z, pb.sum(z, axis=0), pb.sum(z * z, axis=0)

    x, y = normal(3000, 200), normal(3000, 200)
    x[~np.isfinite(x)] = 1
    graph, arrays = recorded(function, x, y)
    run = emit(fuse(graph))
    assert "fused" in names(fuse(graph))
    expected = None
    for count in (1, 2, 3):
        with number_of_threads(count):
            results = [a.tobytes() for a in run(*arrays)]
        expected = expected or results
        assert results == expected


def test_several_callers_of_one_kernel():
    graph, arrays = recorded(
        lambda x: (pb.tanh(x) * x, pb.sum(pb.exp(-x * x))), rng.standard_normal(200_000, np.float32)
    )
    run = emit(fuse(graph))
    expected = [a.tobytes() for a in run(*arrays)]
    wrong = []

    def work():
        for _ in range(30):
            if [a.tobytes() for a in run(*arrays)] != expected:
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# Programs -----------------------------------------------------------------------------------------


@settings(max_examples=80, deadline=None)
@given(programs(), st.sampled_from([(3, 5), (70, 64), (2000, 40), (33, 1025)]))
def test_random_programs(function, shape):
    x = rng.standard_normal(shape, np.float32)
    fused(function, x, x / 2, x[0].copy(), np.float32(0.5))


def test_halves_of_a_region_that_has_something_else():
    graph = fused(lambda x: pb.tanh(x * x) * pb.exp(-x) - pb.sin(x) * 2, normal(4000))
    assert names(graph).count("sin") == 1
    assert any(isinstance(call.op, Fused) for call in graph.calls)
    region = next(call.op.graph for call in graph.calls if isinstance(call.op, Fused))
    assert native_kernel(region) is not None


@pytest.mark.parametrize("block", [16, 64, 4096])
def test_bits_do_not_depend_on_blocks(monkeypatch, block):
    monkeypatch.setattr(fused_plan, "BLOCK", block)
    whole(fused(lambda x, r: pb.tanh(x * r + 1) * pb.exp(x), normal(50, 100), normal(100)))
    whole(fused(lambda x: pb.sum(pb.tanh(x), axis=1), np.ones((50, 100), np.float32)))


# Captured functions -------------------------------------------------------------------------------


def linear_regression():
    x = pb.asarray(rng.standard_normal(1000, np.float32))
    y = x * 3 + 2
    w, b = pb.Variable(5.0), pb.Variable(10.0)

    def step():
        with pb.GradientTape() as tape:
            error = w * x + b - y
            loss = pb.mean(error * error)
        dw, db = tape.gradient(loss, [w, b])
        w.assign_sub(0.1 * dw)
        b.assign_sub(0.1 * db)
        return loss

    return step, [w, b]


def network():
    pb.random.seed(0)
    layers = pb.layers
    model = pb.Sequential(
        [
            layers.Dense(64, activation="gelu"),
            layers.Dropout(0.1),
            layers.LayerNormalization(),
            layers.Dense(32, activation="tanh"),
            layers.Dense(5),
        ]
    )
    x, labels = pb.asarray(rng.standard_normal((40, 20), np.float32)), rng.integers(0, 5, 40)
    model(x)
    optimizer = pb.optimizers.SGD(0.1, 0.9)

    def step():
        with pb.GradientTape() as tape:
            loss = pb.losses.sparse_softmax_cross_entropy(labels, model(x, training=True))
            for weights in model.trainable_variables:
                loss = loss + 1e-3 * pb.sum(weights * weights)
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    return step, model.trainable_variables


@pytest.mark.parametrize("make", [linear_regression, network])
def test_twenty_captured_steps_have_the_bits_of_eager_ones(make):
    global rng
    results = []
    for capture in (False, True):
        rng = np.random.default_rng(3)
        step, variables = make()
        run = pb.function(step) if capture else step
        losses = [run().numpy().tobytes() for _ in range(20)]
        results.append((losses, [v.numpy().tobytes() for v in variables]))
        if capture:
            assert "= fused(" in run.explain()
    assert results[0] == results[1]
