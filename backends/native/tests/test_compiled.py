"""Fused kernels compiled by the machine's compiler: their bits, when they are, and what is said."""

import importlib.util
import shutil
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

import pullback as pb
from pullback.graph.emit import emit
from pullback.graph.graph import Fused
from pullback.graph.passes.regions import fuse
from pullback_native import _native, loops
from pullback_native.compiled import comparison, compiler, worker
from pullback_native.compiled.source import Layout, source
from pullback_native.fusion import COMPARISONS, GRADIENTS, UNARY
from pullback_numpy.threads import number_of_threads

_spec = importlib.util.spec_from_file_location(
    "fused_programs", Path(__file__).with_name("fused_programs.py")
)
_helpers = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_helpers)
normal, recorded, same_bits = _helpers.normal, _helpers.recorded, _helpers.same_bits
big, hot, plans, programs = _helpers.big, _helpers.hot, _helpers.plans, _helpers.programs
row_programs = _helpers.row_programs

pytestmark = [
    pytest.mark.skipif(
        shutil.which("cc") is None or compiler.is_off(), reason="needs a C compiler"
    ),
    pytest.mark.usefixtures("folder"),
]


def kernels(graph):
    return [call.kernel for call in graph.calls if isinstance(call.op, Fused)]


@pytest.fixture
def compiled(monkeypatch):
    """Compiles the kernels of a function and holds them against the calls one by one."""
    found = plans(monkeypatch)
    monkeypatch.setattr(comparison, "is_faster", lambda *_: True)

    def check(function, *arrays, adopted=None):
        found.clear()
        with np.errstate(all="ignore"):
            graph, arrays = recorded(function, *arrays)
            expected = emit(graph)(*arrays)
            result = fuse(graph)
            before = worker.wait()
            for plan, kernel in found:
                worker.add(plan, kernel)
            new = worker.wait() - before
            assert new == (len(found) if adopted is None else adopted)
            for count in (1, 3):
                with number_of_threads(count):
                    for one, other in zip(emit(result)(*arrays), expected, strict=True):
                        same_bits(one, other)
        return found

    return check


# Bits ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", range(3))
def test_functions_of_one_array(compiled, part):
    names = sorted(UNARY)[part::3]

    def function(x):
        values = [getattr(pb, name)(-x) for name in names]
        total = x
        for value in values:
            total = total + value * x
        return [*values, total]

    compiled(function, normal(5003))


def test_functions_of_two_arrays(compiled):
    def function(x, y, g):
        values = []
        for name in sorted(GRADIENTS):
            with pb.GradientTape() as tape:
                tape.watch(x)
                z = getattr(pb, name.removesuffix("_gradient"))(x)
            values.append(tape.gradient(z, x, -g) - z)
        for op in (pb.add, pb.subtract, pb.multiply, pb.divide, pb.maximum, pb.minimum):
            values.append(-op(-x, y))
        return values

    compiled(function, *np.random.default_rng(0).standard_normal((3, 5003), np.float32))
    compiled(function, normal(5003), normal(5003), normal(5003))


@pytest.mark.parametrize("approximate", [False, True])
def test_gelu(compiled, approximate):
    def function(x):
        with pb.GradientTape() as tape:
            tape.watch(x)
            y = pb.gelu(x, approximate=approximate)
        return y * x + 1, tape.gradient(y, x, x + x)

    compiled(function, normal(5003))


def test_numbers(compiled):
    def function(x, w):
        y = pb.elu(pb.leaky_relu(-x, negative_slope=0.3), alpha=0.7)
        values = [op(y, 0.1) for op in (pb.add, pb.subtract, pb.multiply, pb.divide, pb.maximum)]
        values += [op(0.1, y) for op in (pb.subtract, pb.divide, pb.minimum)]
        return [*values, y * w + x, x * w - w, w - x * w]

    compiled(function, normal(5003), np.float32(-1.7))


def test_comparisons_choices_and_booleans(compiled):
    def function(x, y, mask):
        values = [pb.where(getattr(pb, name)(x, -y), x + y, x * y) for name in COMPARISONS]
        values += [getattr(pb, name)(0.5, -x) for name in COMPARISONS]
        return [*values, pb.where(mask, 1.0, -y), pb.where(mask, -x, y) * x + y]

    x, y = normal(5003), normal(5003)
    y[::3] = -x[::3]
    compiled(function, x, y, normal(5003) > 0)


@pytest.mark.parametrize("shape", [(70, 129), (3, 9000), (4, 3, 70), (200, 32)])
def test_rows(compiled, shape):
    def function(x, r):
        return -(x * r), r / (x + r) - r * x

    compiled(function, normal(*shape), normal(shape[-1]))


def test_narrow_rows_are_left_to_the_loops(compiled):
    compiled(lambda x, r: (x + r) * r, normal(900, 31), normal(31), adopted=0)


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_sums(compiled, axis):
    def function(x, y):
        z = pb.tanh(x * y) + x
        return z * y, pb.sum(z, axis=axis), pb.mean(z * z, axis=axis)

    x, y = np.random.default_rng(0).standard_normal((2, 900, 130)).astype(np.float32)
    compiled(function, x, y)


@settings(max_examples=20, deadline=None)
@given(program=programs() | row_programs())
def test_random_programs(program):
    patch = pytest.MonkeyPatch()
    try:
        found = plans(patch)
        patch.setattr(comparison, "is_faster", lambda *_: True)
        x = np.random.default_rng(0).standard_normal((70, 64)).astype(np.float32)
        with np.errstate(all="ignore"):
            graph, arrays = recorded(program, x, x / 2, x[0].copy(), np.float32(0.5))
            expected = emit(graph)(*arrays)
            run = emit(fuse(graph))
            for plan, kernel in found:
                worker.add(plan, kernel)
            worker.wait()
            for one, other in zip(run(*arrays), expected, strict=True):
                same_bits(one, other)
    finally:
        patch.undo()


def test_numbers_that_are_too_far_are_left_to_the_loops(compiled):
    """The slope of silu far below 0 takes double precision."""

    def function(x, g):
        with pb.GradientTape() as tape:
            tape.watch(x)
            y = pb.silu(x)
        return -tape.gradient(y, x, -g)

    x = np.linspace(-100, 10, 5003, dtype=np.float32)
    [(plan, _)] = compiled(function, x, np.full_like(x, 1e30))
    layout = Layout.of(plan)
    assert "far |=" in source(layout)


@pytest.mark.parametrize("number", [-86.5, 88.5, 0.0, -1e9, np.inf, np.nan])
def test_numbers_whose_exponentials_are_not_normal(compiled, number):
    """With some in each block the shorter functions leave all blocks, and are given up."""
    x = np.random.default_rng(0).standard_normal(300_000).astype(np.float32)
    x[::1000] = number
    [(plan, kernel)] = compiled(lambda x: pb.exp(x) * pb.sigmoid(x) + x, x)
    layout = Layout.of(plan)
    with np.errstate(all="ignore"):
        expected = kernel(x)
        for _ in range(5):
            same_bits(kernel(x), expected)
    [(block, near, why)] = worker._worker._done.values()
    assert not why
    arrays = [np.ones(2048, np.float32) for _ in (*layout.kinds, *layout.outputs)]
    arrays += [np.ones(2048, np.float32) for _ in range(layout.buffers)]
    assert _native.block(kernel, block, tuple(arrays), (), 0, 2048) is False
    assert _native.block(kernel, near, tuple(arrays), (), 0, 2048) is False
    arrays[0][100] = number
    assert _native.block(kernel, block, tuple(arrays), (), 0, 2048) is False
    assert _native.block(kernel, near, tuple(arrays), (), 0, 2048) is (number != 0)


@pytest.mark.parametrize("shape", [(200, 40), (9, 2047), (2, 5000), (4, 5, 129), (3000,)])
def test_loops_around_those_over_rows(compiled, shape):
    def function(x, y, row):
        z = pb.layer_norm(pb.sigmoid(x) * y + x, row, -row)
        return z * y + x, pb.softmax(pb.exp(z) - y), pb.rms_norm(x) * 2

    def sums(x, y):
        return pb.sum(pb.softmax(x * y + 1) * x, axis=-1), pb.log_softmax(x * y)

    compiled(function, normal(*shape), normal(*shape), normal(shape[-1]))
    compiled(sums, *np.random.default_rng(0).standard_normal((2, *shape), np.float32))


@pytest.mark.parametrize("channels", [1, 32, 129])
def test_loops_around_batch_normalization(compiled, channels):
    def function(x, y, mean, variance, row):
        return pb.relu(pb.batch_norm_inference(x, mean, variance, row, row) + y) * 2

    x, y = normal(7, 6, 5, channels), normal(7, 6, 5, channels)
    compiled(function, x, y, *(normal(channels) for _ in range(3)))


def test_statistics_of_rows(compiled):
    def function(x, y):
        with pb.GradientTape() as tape:
            tape.watch(x)
            z = pb.layer_norm(x * y + 1)
        return pb.tanh(z), tape.gradient(z, x, y)

    compiled(function, normal(70, 90), normal(70, 90))


def test_booleans_from_one_loop_to_another(compiled):
    def function(x, y):
        return pb.where(x * y > 0.5, pb.softmax(x - y), -x)

    compiled(function, normal(70, 90), normal(70, 90))


def test_what_gives_other_bits_is_not_taken(compiled, monkeypatch):
    monkeypatch.setenv(compiler.VARIABLE, "cc -ffast-math")
    worker.restart()
    compiled(lambda x: pb.exp(-x) * 2 + x, normal(5003), adopted=0)


def test_what_is_slower_is_not_taken(compiled, monkeypatch):
    monkeypatch.setattr(comparison, "is_faster", lambda *_: False)
    compiled(lambda x: pb.exp(-x) * 2 + x, normal(5003), adopted=0)


# When ---------------------------------------------------------------------------------------------


def test_kernels_that_run_often_are_compiled(monkeypatch):
    monkeypatch.setattr(comparison, "is_faster", lambda *_: True)
    x = big()
    expected = hot(x, 2)
    same_bits(hot(x), expected)
    assert worker.wait() == 1
    same_bits(hot(x), expected)


def test_kernels_that_run_seldom_are_not():
    hot(big(), 12)
    hot(pb.ones(1000), 1000)
    assert worker._worker._thread is None


def test_a_switch(monkeypatch):
    monkeypatch.setenv(compiler.VARIABLE, "")
    hot(big())
    assert worker._worker._thread is None


# What is said of it -------------------------------------------------------------------------------


def how(function):
    """Returns the words of `explain` on the only fused call."""
    [line] = [line for line in function.explain().splitlines() if " = fused(" in line]
    return line.partition("  # ")[2]


def captured():
    return pb.function(lambda x: pb.tanh(x * 1.5 + 0.5) * pb.sigmoid(x) + pb.exp(-x * x))


def run_often(function, x, times=60):
    for _ in range(times):
        function(x)
    worker.wait()
    return how(function)


def test_explain_of_what_is_compiled(monkeypatch):
    monkeypatch.setattr(comparison, "is_faster", lambda *_: True)
    function, x = captured(), big()
    assert run_often(function, x, 4) == "loops over blocks: run too seldom so far to be compiled"
    assert run_often(function, x) == "compiled C"


def test_explain_while_the_compiler_works(monkeypatch, tmp_path):
    command = tmp_path / "compiler"
    command.write_text('#!/bin/sh\n[ "$1" = --version ] || exec sleep 100\n')
    command.chmod(0o755)
    monkeypatch.setenv(compiler.VARIABLE, str(command))
    functions = [captured(), captured()]
    for function in functions:
        for _ in range(60):
            function(big())
    while how(functions[0]).endswith("waits for the compiler"):
        time.sleep(0.01)
    assert how(functions[0]) == "loops over blocks: is being compiled"
    assert how(functions[1]) == "loops over blocks: waits for the compiler"


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("", "compiling is switched off"),
        ("/nowhere/cc", "there is no '/nowhere/cc'"),
        ("cc -ffast-math", "the compiled C gives other bits"),
    ],
)
@pytest.mark.filterwarnings("ignore:compiling fused kernels")
def test_explain_without_what_it_takes(monkeypatch, command, reason):
    monkeypatch.setenv(compiler.VARIABLE, command)
    assert run_often(captured(), big()).startswith(f"loops over blocks: {reason}")


def test_explain_without_a_compiler(monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert run_often(captured(), big()) == "loops over blocks: there is no C compiler"


def test_explain_of_what_is_not_taken(monkeypatch):
    monkeypatch.setattr(comparison, "is_faster", lambda *_: False)
    assert run_often(captured(), big()) == "loops over blocks: the compiled C is slower"


def test_explain_of_what_is_not_supported():
    function = pb.function(lambda x, r: (x + r) * r)
    x, r = pb.ones((40_000, 31)), pb.ones(31)
    for _ in range(200):
        function(x, r)
    worker.wait()
    assert how(function).endswith("rows of fewer than 32 elements are not compiled")


def test_explain_of_loops_over_rows_alone():
    function, x = pb.function(lambda x: pb.softmax(pb.layer_norm(x))), big()
    rows = pb.reshape(x, (1000, 1000))
    reason = "there is nothing to compile beside the loops over rows"
    assert run_often(function, rows) == f"loops over blocks: {reason}"


def test_a_reason_that_is_taken_from_a_kernel():
    graph, _ = recorded(lambda x: -(x * x), normal(100))
    [kernel] = kernels(fuse(graph))
    assert kernel.reason is None
    del kernel.reason
    assert kernel.explain().startswith("loops over blocks: run too seldom")


def test_blocks_are_checked():
    graph, _ = recorded(lambda x: -(x * x), normal(100))
    [kernel] = kernels(fuse(graph))
    x = np.zeros(2048, np.float32)
    with pytest.raises(ValueError, match="an array for each register"):
        _native.block(kernel, 0, (x,), (), 0, 100)
    with pytest.raises(ValueError, match="an array for each register"):
        _native.block(kernel, 0, (x, x, x), (), 0, 3000)
    with pytest.raises(TypeError):
        _native.adopt(loops, 0, 0)
