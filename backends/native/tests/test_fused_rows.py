"""Fused kernels with softmax and normalizations over the last axis: which, and their bits."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

import pullback as pb
from pullback.graph.emit import emit
from pullback.graph.graph import check
from pullback.graph.passes.regions import fuse
from pullback_native import _native, fused_plan
from pullback_native.loops import LOOPS
from pullback_numpy.threads import number_of_threads

_spec = importlib.util.spec_from_file_location(
    "fused_programs", Path(__file__).with_name("fused_programs.py")
)
_helpers = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_helpers)
normal, recorded, same_bits = _helpers.normal, _helpers.recorded, _helpers.same_bits
over_rows, row_programs, rng = _helpers.over_rows, _helpers.row_programs, _helpers.rng
regions = _helpers.groups

LONGEST = fused_plan.LONGEST_ROW
SHAPES = [
    (1,), (7,), (2049,), (5, 1), (70, 33), (300, 64), (9, 2047), (3, 5000), (2, LONGEST),
    (4, 3, 70), (2, 3, 5, 129),
]  # fmt: skip


def fused(function, *arrays):
    """The fused graph of a function, which gives the bits of the calls one by one."""
    with np.errstate(all="ignore"):
        graph, arrays = recorded(function, *arrays)
        result = fuse(graph)
        check(result)
        expected = [np.array(x) for x in emit(graph)(*arrays)]
        for count in (1, 3):
            with number_of_threads(count):
                for before, after in zip(expected, emit(result)(*arrays), strict=True):
                    same_bits(after, before)
    return result


def whole(graph):
    """Holds that a graph is one fused call, of the pack."""
    [call] = graph.calls
    assert type(call.kernel).__name__ == "Fused"


def parameters(shape, count):
    """Rows of factors and summands, with special numbers among them."""
    return [normal(shape[-1]) for _ in range(count)]


# Ops ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("op", [pb.softmax, pb.log_softmax])
def test_softmax(op, shape):
    x, y = normal(*shape), normal(*shape)
    whole(fused(lambda x, y: op(x * 0.125 + y), x, y))
    whole(fused(lambda x, y: op(x) * y, x, y))
    whole(fused(lambda x, y: (z := x + y, -op(z)), x, y))


@pytest.mark.parametrize("shape", SHAPES)
def test_layer_norm(shape):
    x, y, (scale, offset) = normal(*shape), normal(*shape), parameters(shape, 2)
    whole(fused(lambda x, y, s, o: pb.layer_norm(x + y, s, o), x, y, scale, offset))
    whole(fused(lambda x, y, s, o: (z := x + y, z * pb.layer_norm(z, s, o)), x, y, scale, offset))


@pytest.mark.parametrize("shape", SHAPES)
def test_rms_norm(shape):
    x, y, [scale] = normal(*shape), normal(*shape), parameters(shape, 1)
    whole(fused(lambda x, y, s: pb.rms_norm(x + y, s), x, y, scale))
    whole(fused(lambda x, s: pb.silu(pb.rms_norm(x, s, epsilon=0.5)), x, scale))


@pytest.mark.parametrize("shape", [(5, 1), (70, 33), (3, 5000), (7, 6, 5, 32), (2, 3, 3, 512)])
def test_batch_norm_inference(shape):
    x, y, (mean, variance, scale, offset) = normal(*shape), normal(*shape), parameters(shape, 4)

    def function(x, y, m, v, s, o):
        z = pb.batch_norm_inference(x, m, v, s, o, epsilon=0.25)
        return pb.relu(z), pb.relu(z + y)

    for spread in (variance, np.abs(variance)):
        whole(fused(function, x, y, mean, spread, scale, offset))


def test_parameters_that_are_absent():
    x, row = normal(40, 70), normal(70)
    whole(fused(lambda x: pb.layer_norm(-x), x))
    whole(fused(lambda x, s: pb.layer_norm(-x, s), x, row))
    whole(fused(lambda x, o: pb.layer_norm(-x, None, o), x, row))
    whole(fused(lambda x: pb.rms_norm(-x), x))


def test_parameters_that_are_constants():
    x, row = normal(40, 70), normal(70)
    whole(fused(lambda x: pb.layer_norm(x + row, row, -row) * row, x))
    ones, zeros = np.ones(70, np.float32), np.broadcast_to(np.float32(0), 70)
    whole(fused(lambda x: pb.layer_norm(-x, ones, ones), x))
    fused(lambda x: pb.layer_norm(-x, ones, zeros), x)


def test_rows_of_equal_numbers_infinities_and_nan():
    x = np.zeros((12, 40), np.float32)
    x[1], x[2], x[3] = 3e38, np.inf, -np.inf
    x[4, 5], x[5, 5], x[6, 5], x[7] = np.nan, np.inf, -np.inf, 1e-40
    y = np.zeros_like(x)
    whole(fused(lambda x, y: pb.softmax(x + y), x, y))
    whole(fused(lambda x, y: pb.log_softmax(x + y), x, y))
    whole(fused(lambda x, y: pb.layer_norm(x + y, epsilon=0.0), x, y))
    whole(fused(lambda x, y: pb.rms_norm(x + y, epsilon=0.0), x, y))


# Results of one number a row ----------------------------------------------------------------------


def names_of_gradient(function, *arrays):
    """The regions of a function and its gradient with respect to the first array."""

    def both(x, *others):
        with pb.GradientTape() as tape:
            tape.watch(x)
            y = function(x, *others)
        return y, tape.gradient(y, x, pb.tanh(y))

    return regions(fused(both, *arrays))


@pytest.mark.parametrize("shape", [(7,), (5, 1), (70, 33), (4, 3, 70), (2, 5000)])
def test_statistics_that_the_gradient_reads(shape):
    x, y, (scale, offset) = normal(*shape), normal(*shape), parameters(shape, 2)
    found = names_of_gradient(lambda x, y, s, o: pb.layer_norm(x * y, s, o), x, y, scale, offset)
    assert ["multiply", "layer_norm", "tanh"] in found or shape[-1] == 1
    found = names_of_gradient(lambda x, y, s: pb.rms_norm(x * y, s), x, y, scale)
    assert ["multiply", "rms_norm", "tanh"] in found or shape[-1] == 1
    names_of_gradient(lambda x, y: pb.softmax(x * y), x, y)


# Several calls over rows --------------------------------------------------------------------------


def test_several_in_one_group():
    x, y, row = normal(60, 80), normal(60, 80), normal(80)
    whole(fused(lambda x, y, r: pb.softmax(pb.layer_norm(x + y, r) * 2), x, y, row))
    whole(fused(lambda x, r: (pb.softmax(x), pb.rms_norm(x, r)), x, row))
    whole(fused(lambda x, y: pb.log_softmax(x + y) - pb.softmax(pb.rms_norm(x) - y), x, y))


def test_sums_over_the_same_rows():
    x, y = rng.standard_normal((2, 60, 80), np.float32)
    whole(fused(lambda x, y: (z := pb.softmax(x), pb.sum(z * y, axis=-1)), x, y))
    whole(fused(lambda x: pb.mean(pb.rms_norm(-x), axis=1, keepdims=True), x))
    whole(fused(lambda x: pb.sum(pb.softmax(-x)), x[0]))
    fused(lambda x: pb.sum(pb.layer_norm(-x, epsilon=1.0), axis=-1), x[:, :1])


def test_other_sums_keep_their_groups():
    x, y = rng.standard_normal((2, 60, 80), np.float32)
    for axis in (None, 0):
        graph = fused(
            lambda x, y, axis=axis: (z := x * y, pb.sum(z, axis=axis), pb.softmax(z)), x, y
        )
        assert regions(graph) == [["multiply", "sum"], "softmax"]


# What the loops do not take -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: pb.softmax(x + y, axis=0) * 2 - y,
        lambda x, y: pb.softmax(x + y, axis=1) * 2 - y,
        lambda x, y: pb.layer_norm(x + y, axis=(1, 2)) * 2 - y,
        lambda x, y: pb.rms_norm(x + y, axis=None) * 2 - y,
    ],
)
def test_other_axes_are_calls_of_their_own(function):
    found = regions(fused(function, normal(3, 4, 5), normal(3, 4, 5)))
    assert found[0] == "add"
    assert found[1] in ("softmax", "layer_norm", "rms_norm")
    assert found[2] == ["multiply", "subtract"]


def test_channels_first_are_calls_of_their_own():
    x, rows = normal(2, 5, 5, 5), parameters((5,), 4)
    graph = fused(lambda x, *r: pb.relu(pb.batch_norm_inference(-x, *r, axis=1)) * 2, x, *rows)
    assert regions(graph) == ["negative", "batch_norm_inference", ["relu", "multiply"]]


def test_rows_that_are_too_long_leave_the_rest_fused():
    x = normal(2, LONGEST + 1)
    graph = fused(lambda x: pb.exp(-pb.softmax(x * x + 1)), x)
    assert regions(graph) == [["multiply", "add"], "softmax", ["negative", "exp"]]


def test_other_dtypes_leave_the_rest_fused():
    x = rng.standard_normal((30, 40))
    graph = fused(lambda x: pb.softmax(x * x + 1) * x - 1, x)
    assert regions(graph) == [["multiply", "add"], "softmax", ["multiply", "subtract"]]


def test_a_call_that_the_loops_do_not_take_leaves_the_rest_fused():
    x, column = normal(30, 40), normal(30, 1)
    graph = fused(lambda x, c: pb.softmax(x * x + 1) * c - x, x, column)
    assert ["multiply", "add"] in regions(graph)


def test_empty_arrays():
    fused(lambda x: pb.softmax(-x) * 2, np.zeros((0, 3), np.float32))
    fused(lambda x: pb.layer_norm(-x) * 2, np.zeros((3, 0), np.float32))


@pytest.mark.parametrize("lay", [np.asfortranarray, lambda x: x[::-1].copy()[::-1]])
def test_arrays_of_other_layouts(lay):
    x, y, row = normal(60, 80), normal(60, 80), normal(80)
    graph, _ = recorded(lambda x, y, r: (pb.softmax(x + y), pb.layer_norm(x, r)), x, y, row)
    result = fuse(graph)
    whole(result)
    with np.errstate(all="ignore"):
        for arguments in ([lay(x), y, row], [x, lay(y), row], [x, y, np.repeat(row, 2)[::2]]):
            expected = emit(graph)(*arguments)
            for before, after in zip(expected, emit(result)(*arguments), strict=True):
                same_bits(after, before)


ROWS = (6, LOOPS["softmax"], -1, (0,), (1,), 0)
NORM = (6, LOOPS["rms_norm"], -1, (0, -1), (1, 2), 0)
PLAN = {
    "bound": (), "shape": (4, 8), "kinds": (0,), "outputs": (0,), "buffers": (0, 1, 0),
    "order": (0,), "steps": (ROWS,), "numbers": ((-1, 0, 1.0),), "sums": (),
    "sizes": (1, 1, 1, 1, 1, 16, 16, 8), "cost": 1.0,
}  # fmt: skip


@pytest.mark.parametrize(
    "wrong",
    [
        {"sizes": (1, 1, 1, 1, 1, 16, 12, 8)},
        {"sizes": (1, 1, 1, 1, 1, 24, 16, 8)},
        {"sizes": (1, 1, 1, 1, 1, 16, 16, 5)},
        {"buffers": (0, 1, 1)},
        {"steps": ((*ROWS[:3], (1, 0), (0,), 0),)},
        {"steps": ((6, LOOPS["exp"], -1, (0,), (1,), 0),)},
        {"steps": ((8, *ROWS[1:]),)},
        {"steps": ((*NORM[:3], (0, 0), (1, 2), 0),)},
        {"steps": ((*NORM[:3], (0, -1), (1,), 0),)},
        {"steps": ((*NORM[:3], (0, -1), (1, 0), 0),)},
        {"steps": ((*NORM[:5], 1),)},
        {"steps": ((*NORM[:5], -1),)},
        {"steps": ((6, LOOPS["channel_affine"], -1, (0, -1, -1, -1), (1,), 0),)},
        {"steps": ((7, 0, -1, (0, 0), (1,), 0),)},
        {"outputs": (2,)},
        {"outputs": (3,)},
        {"outputs": (4,)},
        {"outputs": (5,)},
    ],
)
def test_plans_are_checked(wrong):
    x = rng.standard_normal((4, 8), np.float32)
    for step in (ROWS, NORM):
        kernel = _native.fused(print, *(PLAN | {"steps": (step,)}).values())
        assert kernel(x).shape == x.shape
    with pytest.raises(ValueError, match="names what is not there"):
        _native.fused(print, *(PLAN | wrong).values())


# Blocks and programs ------------------------------------------------------------------------------


@pytest.mark.parametrize("block", [16, 64, 4096])
def test_bits_do_not_depend_on_blocks(monkeypatch, block):
    monkeypatch.setattr(fused_plan, "BLOCK", block)
    x, row = normal(50, 100), normal(100)
    whole(fused(lambda x, r: pb.tanh(pb.layer_norm(x * r + 1, r, r)) + pb.softmax(x), x, row))
    x = rng.standard_normal((50, 100), np.float32)
    whole(fused(lambda x: pb.sum(pb.softmax(-x) * x, axis=-1), x))


@settings(max_examples=60, deadline=None)
@given(row_programs())
def test_random_programs(function):
    for shape in ((3, 5), (70, 64), (2000, 40), (33, 1025), (1, 7)):
        x = rng.standard_normal(shape, np.float32)
        fused(function, x, x / 2, x.reshape(-1, shape[-1])[0].copy(), np.float32(0.5))


def test_random_programs_have_rows_in_groups():
    x = rng.standard_normal((6, 40), np.float32)
    for op in over_rows():
        whole(fused(lambda x, op=op: op(-x) * 2, x))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
def test_narrow_rows_have_the_bits_of_the_calls(dtype, instructions):
    # Narrow rows are repeated: those of fewer than 16 elements, or 128 where a step has no loop
    # over rows. Blocks begin at any column.
    rng = np.random.default_rng(0)

    def both(x, row, other):
        y = (x - row) * other + row
        return row - y if y.dtype in (pb.int32, pb.int64) else (row - y) / other

    for width in (1, 2, 3, 7, 15, 16, 17, 64, 127, 128, 129):
        program = pb.function(both)
        for rows in (3, 5000 // width + 1, 9000 // width + 1):
            x, row, other = (
                pb.asarray((rng.standard_normal(shape) * 9).astype(dtype))
                for shape in ((rows, width), (width,), (width,))
            )
            with np.errstate(all="ignore"):
                for _ in range(3):
                    found = program(x, row, other)
                expected = both(x, row, other)
            np.testing.assert_array_equal(found.numpy(), expected.numpy())
