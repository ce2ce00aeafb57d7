"""Groups of calls that become calls of fused kernels: which, in what order, with what values."""

from __future__ import annotations

import importlib.util
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

import pullback as pb
from pullback import errors
from pullback.devices import as_device
from pullback.graph.emit import emit
from pullback.graph.graph import check
from pullback.graph.passes import regions
from pullback.graph.passes.regions import Region, fuse


def shared():
    """The module that tests of fused kernels share."""
    path = Path(__file__).parents[1] / "fused_programs.py"
    spec = importlib.util.spec_from_file_location("fused_programs", path)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


fused_programs = shared()
recorded, groups = fused_programs.recorded, fused_programs.groups
ELEMENTWISE = {"add", "subtract", "multiply", "negative", "exp", "tanh", "where", "less", "maximum"}
OPS = ELEMENTWISE | {"sum", "mean", "broadcast_to", "tanh_gradient"}
X = np.arange(1.0, 7.0, dtype=np.float32).reshape(2, 3)


def op_by_op(region):
    assert type(region) is Region
    return region.op_by_op


@pytest.fixture
def fuser(monkeypatch):
    """Registers who fuses by calling kernels one by one; returns the regions that it got."""
    backend = as_device("cpu").backend
    taken = []

    def register(make=op_by_op, ops=OPS, priority=100):
        def make_kernel(region):
            taken.append(region)
            return make(region)

        backend.register_fuser(make_kernel, ops, source="test", priority=priority)
        return taken

    monkeypatch.setattr(regions, "WARNED", set())
    monkeypatch.setattr(backend, "_fusers", ())
    yield register
    backend.unregister_kernels("test")


def fused(function, *arrays):
    """The fused graph of a function, which gives the same bits as the graph."""
    graph, arrays = recorded(function, *arrays)
    result = fuse(graph)
    check(result)
    for before, after in zip(emit(graph)(*arrays), emit(result)(*arrays), strict=True):
        assert before.tobytes() == after.tobytes()
        assert before.shape == after.shape
        assert before.dtype == after.dtype
    return result


def test_a_chain_becomes_one_call(fuser):
    fuser()
    graph = fused(lambda x: pb.exp(-x * x) + 1, X)
    assert groups(graph) == [["negative", "multiply", "exp", "add"]]
    assert [value.name for value in graph.calls[0].inputs] == ["x0"]


def test_nothing_is_fused_where_the_backend_names_no_op():
    graph, _ = recorded(lambda x: pb.exp(-x * x) + 1, X)
    backend = as_device("cpu").backend
    if not list(backend.fusers()):
        assert fuse(graph) is graph


def test_readers_of_one_array_share_a_call(fuser):
    fuser()
    graph = fused(lambda x: (pb.exp(x), pb.tanh(x)), X)
    assert groups(graph) == [["exp", "tanh"]]


def test_calls_that_share_nothing_stay_apart(fuser):
    fuser()
    assert groups(fused(lambda x, y: (pb.exp(x), pb.exp(y)), X, X + 1)) == ["exp", "exp"]


def test_other_shapes_stay_apart(fuser):
    fuser()
    graph = fused(lambda x: (pb.exp(-x), pb.exp(-x[0])), X)
    assert ["negative", "exp"] in groups(graph)
    assert len(graph.calls) == 3


def test_rows_and_numbers_belong_to_a_group(fuser):
    fuser()
    graph = fused(lambda x, row: pb.tanh(x * 2 + row), X, X[0])
    assert groups(graph) == [["multiply", "add", "tanh"]]


def test_a_path_that_leaves_a_group_and_comes_back_splits_it(fuser):
    fuser()
    graph = fused(lambda x: (y := pb.exp(-x)) + pb.cumulative_sum(y), X[0])
    assert groups(graph) == [["negative", "exp"], "cumulative_sum", "add"]


def test_two_groups_that_need_each_other_stay_apart(fuser):
    fuser()

    def function(x, y):
        a, b = pb.exp(x), pb.exp(y)
        return pb.cumulative_sum(a)[:2] * pb.tanh(b), pb.tanh(a) * pb.sum(b)

    fused(function, X[0], X[1, :2])


def test_a_reduction_ends_a_group(fuser):
    fuser()
    graph = fused(lambda x: pb.sum(pb.exp(-x)), X)
    assert groups(graph) == [["negative", "exp", "sum"]]
    graph = fused(lambda x: pb.exp(x) - pb.mean(pb.exp(x)), X)
    assert groups(graph) == [["exp", "mean"], "subtract"]


@pytest.mark.parametrize(("axis", "ends"), [(0, True), (2, True), ((0, 1), True), (1, False)])
def test_reductions_of_the_first_or_last_axes_end_a_group(fuser, axis, ends):
    fuser()
    graph = fused(lambda x: pb.sum(-x, axis=axis), np.ones((2, 3, 4), np.float32))
    assert (groups(graph) == [["negative", "sum"]]) is ends


def test_reductions_over_other_axes_are_in_other_groups(fuser):
    fuser()
    graph = fused(lambda x: (pb.sum(y := -x, axis=0), pb.sum(y, axis=1), pb.mean(y, axis=0)), X)
    assert groups(graph) == [["negative", "sum", "mean"], "sum"]


OVER_ROWS = OPS | {"softmax", "layer_norm", "layer_norm_gradient"}


def test_calls_over_rows_join_what_they_read_and_what_reads_them(fuser):
    fuser(ops=OVER_ROWS)
    graph = fused(lambda x, row: pb.exp(pb.layer_norm(-x, row)), X, X[0])
    assert groups(graph) == [["negative", "layer_norm", "exp"]]
    graph = fused(lambda x: (y := pb.softmax(x * 2), pb.softmax(y + x), pb.sum(y, axis=-1)), X)
    assert groups(graph) == [["multiply", "softmax", "add", "softmax", "sum"]]


def test_what_calls_over_rows_give_for_each_row_ends_a_group(fuser):
    fuser(ops=OVER_ROWS)

    def function(x):
        with pb.GradientTape() as tape:
            tape.watch(x)
            y = pb.layer_norm(x * 2)
        return y, tape.gradient(y, x, x)

    assert groups(fused(function, X))[0] == ["multiply", "layer_norm"]


@pytest.mark.parametrize(("axis", "joins"), [(2, True), (1, False), (0, False)])
def test_calls_over_rows_of_other_axes_stay_apart(fuser, axis, joins):
    fuser(ops=OVER_ROWS)
    graph = fused(lambda x: pb.softmax(-x, axis=axis), np.ones((2, 3, 4), np.float32))
    assert (groups(graph) == [["negative", "softmax"]]) is joins


def test_calls_over_different_rows_are_in_different_groups(fuser):
    fuser(ops=OVER_ROWS)
    graph = fused(
        lambda x: (y := -x, pb.layer_norm(y), pb.layer_norm(y, axis=(1, 2))),
        np.ones((2, 3, 4), np.float32),
    )
    assert groups(graph) == [["negative", "layer_norm"], "layer_norm"]


def test_reductions_come_before_calls_over_rows(fuser):
    fuser(ops=OVER_ROWS)
    graph = fused(lambda x: (y := pb.softmax(z := -x), pb.sum(z, axis=0), y + z), X)
    assert groups(graph) == [["negative", "sum"], ["softmax", "add"]]


def test_a_path_around_a_call_over_rows_splits_a_group(fuser):
    fuser(ops=OVER_ROWS)
    graph = fused(lambda x: pb.softmax(pb.cumulative_sum(y := -x, axis=1) + y), X)
    assert groups(graph) == ["negative", "cumulative_sum", ["add", "softmax"]]


def test_a_group_without_a_kernel_is_tried_without_its_calls_over_rows(fuser):
    def without_rows(region):
        has_rows = any(call.op.name == "softmax" for call in region.calls)
        return None if has_rows else region.op_by_op

    taken = fuser(without_rows, ops=OVER_ROWS)
    graph = fused(lambda x: (pb.tanh(-pb.softmax(y := -x + 1)), pb.sum(y, axis=-1)), X)
    assert groups(graph) == [["negative", "add", "sum"], "softmax", ["negative", "tanh"]]
    assert len(taken) == 3


def test_what_repeats_a_number_is_in_each_group_that_reads_it(fuser):
    fuser()

    def function(x, y, number):
        ones = pb.broadcast_to(number, (2, 3))
        return pb.exp(x * ones), pb.exp(ones - y)

    graph = fused(function, X, X + 1, np.float32(2))
    assert sorted(groups(graph)) == [
        ["broadcast_to", "multiply", "exp"],
        ["broadcast_to", "subtract", "exp"],
    ]


def test_constants_are_a_part_of_the_region(fuser):
    taken = fuser()
    fused(lambda x: pb.exp(x * 3), X)
    assert [array.item() for array in taken[0].constants.values()] == [3]


def test_kernels_of_a_higher_priority_are_not_replaced(fuser):
    fuser(priority=-1)
    assert groups(fused(lambda x: pb.exp(-x), X)) == ["negative", "exp"]


def test_a_group_without_a_kernel_is_tried_in_halves(fuser):
    def without_tanh(region):
        has_tanh = any(call.op.name == "tanh" for call in region.calls)
        return None if has_tanh else region.op_by_op

    taken = fuser(without_tanh)
    graph = fused(lambda x: pb.tanh(pb.exp(-pb.exp(-x))), X)
    assert groups(graph) == [["negative", "exp"], "negative", "exp", "tanh"]
    assert len(taken) > 2


def test_a_group_without_a_kernel_is_tried_without_its_reductions(fuser):
    def without_sums(region):
        has_sum = any(call.op.name == "sum" for call in region.calls)
        return None if has_sum else region.op_by_op

    fuser(without_sums)
    graph = fused(lambda x: (pb.sum(y := pb.exp(-x)), pb.tanh(y)), X)
    assert groups(graph) == [["negative", "exp", "tanh"], "sum"]


def test_a_hook_that_raises_leaves_the_calls_as_they_are(fuser):
    def broken(region):
        raise RuntimeError("no luck")

    fuser(broken)
    with pytest.warns(RuntimeWarning, match="fuse of 'test' raised RuntimeError: no luck"):
        assert groups(fused(lambda x: pb.exp(-x), X)) == ["negative", "exp"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fused(lambda x: pb.exp(-x) + 1, X)


def test_groups_are_limited(fuser):
    fuser()

    def function(x):
        for _ in range(60):
            x = -x + x
        return x

    sizes = [len(names) for names in groups(fused(function, X))]
    assert sum(sizes) == 120
    assert max(sizes) <= regions.LARGEST_REGION


def test_groups_are_of_calls_near_each_other(fuser, monkeypatch):
    """Looking for groups in the whole of a long graph would take as long as the cube of it."""
    monkeypatch.setattr(regions, "WINDOW", 4)
    taken = fuser()
    graph = fused(lambda x: (y := pb.tanh(-x), pb.exp(pb.exp(-y) + y) * y, pb.sum(y)), X)
    assert groups(graph) == [
        ["negative", "tanh", "negative", "exp"],
        ["add", "exp", "multiply", "sum"],
    ]
    assert len(taken) == 2


def test_captured_functions_say_what_is_fused(fuser):
    fuser()
    captured = pb.function(lambda x: pb.exp(-x) * x)
    expected = (pb.exp(-pb.asarray(X)) * X).numpy()
    for _ in range(3):
        assert (captured(X).numpy() == expected).all()
    assert captured.explain().splitlines()[2:-1] == [
        "graph on cpu:0",
        "  input x0: float32[2, 3]",
        "  v2: float32[2, 3] = fused(x0)",
        "    v0: float32[2, 3] = negative(x0)",
        "    v1: float32[2, 3] = exp(v0)",
        "    v2: float32[2, 3] = multiply(v1, x0)",
        "  return v2",
    ]
    assert [call.op.name for call in captured.graph.calls] == ["negative", "exp", "multiply"]


def test_fused_kernels_are_forgotten_with_their_pack(fuser):
    fuser()
    captured = pb.function(lambda x: pb.exp(-x))
    for _ in range(3):
        captured(X)
    assert "fused" in captured.explain()
    as_device("cpu").backend.unregister_kernels("test")
    for _ in range(3):
        captured(X)
    assert "fused" not in captured.explain().rpartition("\n2. ")[2]


def test_the_backward_pass_of_a_captured_function_is_fused(fuser):
    taken = fuser()
    captured = pb.function(lambda x: pb.sum(pb.exp(pb.tanh(x * x))))
    x = pb.asarray(X)
    expected = pb.grad(lambda x: pb.sum(pb.exp(pb.tanh(x * x))))(x)
    for _ in range(3):
        assert (pb.grad(captured)(x).numpy() == expected.numpy()).all()
    assert any("tanh_gradient" in [call.op.name for call in region.calls] for region in taken)


def test_compiled_backward_passes_are_fused(fuser):
    x = pb.asarray(X)
    expected = pb.grad(lambda x: pb.sum(pb.exp(pb.tanh(x * x) * 0.25)))(x).numpy()
    taken = fuser()
    for _ in range(4):
        gradient = pb.grad(lambda x: pb.sum(pb.exp(pb.tanh(x * x) * 0.25)))(x)
        assert (gradient.numpy() == expected).all()
    assert any("tanh_gradient" in [call.op.name for call in region.calls] for region in taken)


def test_a_kernel_that_fails_names_the_ops(fuser):
    def failing(region):
        def kernel(*inputs):
            raise MemoryError("not enough")

        return kernel

    fuser(failing)
    captured = pb.function(lambda x: pb.exp(-x))
    captured(X)
    captured(X)
    with pytest.raises(errors.OutOfMemoryError, match="fused kernel of negative, exp failed: not"):
        captured(X)


def bounded_exp(x):
    return pb.where(x < 1, pb.exp(x * 0.125), x)


def running_sum(x):
    return pb.cumulative_sum(x, axis=0) if x.ndim else pb.tanh(x)


def by_rows(x):
    return pb.softmax(x, axis=-1) if x.ndim else -x


PROGRAMS = fused_programs.programs(
    (pb.negative, bounded_exp, pb.tanh, running_sum, by_rows),
    (pb.add, pb.subtract, pb.multiply, pb.maximum),
    longest=25,
)


@pytest.mark.parametrize("window", [5, regions.WINDOW])
@settings(max_examples=60, deadline=None)
@given(PROGRAMS)
def test_random_programs_give_the_same_bits(window, function):
    backend = as_device("cpu").backend
    with np.errstate(all="ignore"), pytest.MonkeyPatch.context() as patch:
        patch.setattr(regions, "WINDOW", window)
        backend.register_fuser(op_by_op, OVER_ROWS, source="test", priority=100)
        try:
            fused(function, X, X / 2, X[0], np.float32(0.5))
        finally:
            backend.unregister_kernels("test")


def test_a_kernel_says_how_it_runs(fuser):
    class Explaining:
        def __init__(self, region):
            self.run = region.op_by_op

        def __call__(self, x):
            return self.run(x)

        def explain(self):
            return "on the seventh core"

    fuser(Explaining)
    graph = fused(lambda x: pb.exp(-x), X)
    assert " = fused(x0)  # on the seventh core\n" in str(graph)
