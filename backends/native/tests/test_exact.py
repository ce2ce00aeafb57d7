"""Fused kernels of float64 and integers: the bits of NumPy's kernels one by one."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

import pullback as pb
from pullback.graph.emit import emit
from pullback.graph.graph import Fused
from pullback.graph.passes.regions import fuse
from pullback_native.fusion import COMPARISONS, EXACT
from pullback_numpy.threads import number_of_threads

_spec = importlib.util.spec_from_file_location(
    "fused_programs", Path(__file__).with_name("fused_programs.py")
)
_helpers = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_helpers)
recorded = _helpers.recorded

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

rng = np.random.default_rng(0)
INTEGERS = EXACT[1:]


def numbers(dtype, *shape):
    """Numbers of all sizes, with the largest and the least, zeros, infinities and NaN."""
    if dtype == "float64":
        x = 3 * rng.standard_normal(shape)
        special = [0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, 1.7e308, -1.0, 1.0]
    else:
        bounds = np.iinfo(dtype)
        x = rng.integers(bounds.min, bounds.max, shape, dtype, endpoint=True)
        x[..., ::2] //= 1 << 20
        special = [0, 1, -1, bounds.min, bounds.max]
    flat = x.reshape(-1)
    some = flat[:: max(1, flat.size // 40)]
    some[...] = np.resize(special, some.size)
    return x.astype(dtype)


def check(function, *arrays, calls=1):
    """Holds the fused calls against the calls one by one, on one thread and on three."""
    before = [x.copy() for x in arrays]
    with np.errstate(all="ignore"):
        graph, natives = recorded(function, *arrays)
        expected = emit(graph)(*natives)
        result = fuse(graph)
        kinds = [type(call.op) is Fused for call in result.calls]
        assert (kinds.count(True), kinds.count(False)) == (calls, 0)
        for count in (1, 3):
            with number_of_threads(count):
                for found, goal in zip(emit(result)(*natives), expected, strict=True):
                    assert (found.dtype, found.shape) == (goal.dtype, goal.shape)
                    assert np.array_equal(np.isnan(found), np.isnan(goal))
                    real = ~np.isnan(goal)
                    assert found[real].tobytes() == goal[real].tobytes()
    for x, copy in zip(arrays, before, strict=True):
        assert x.tobytes() == copy.tobytes()
    return result


@pytest.mark.parametrize("shape", [(1,), (7,), (3, 5003), (300_001,)])
@pytest.mark.parametrize("dtype", EXACT)
def test_arithmetic(dtype, shape):
    def function(x, y):
        z = pb.square(-x) - pb.abs(y)
        return z, x * y + z, x - y, -(x + y) * z

    check(function, numbers(dtype, *shape), numbers(dtype, *shape))


def test_what_floats_have_beside():
    check(
        lambda x, y: (pb.sqrt(x) / y, (x / 3.0) * (0.1 / y), 1.0 - x),
        np.abs(numbers("float64", 5003)), numbers("float64", 5003),
    )  # fmt: skip


@pytest.mark.parametrize("dtype", INTEGERS)
def test_what_integers_have_beside(dtype):
    def function(x, y):
        return pb.maximum(x, y) - pb.minimum(x, 7), pb.maximum(-3, y) * x

    check(function, numbers(dtype, 5003), numbers(dtype, 5003))


@pytest.mark.parametrize("dtype", EXACT)
def test_numbers(dtype):
    least = 0.1 if dtype == "float64" else int(np.iinfo(np.int32).min)

    def function(x):
        return (x + least) * 3, (x - least) * x, (least - x) * -7, x * 1 - 1

    check(function, numbers(dtype, 5003))


@pytest.mark.parametrize("dtype", ["float64", "int32"])
@pytest.mark.parametrize("value", [0, -1, -(2**31), 2**31 - 1])
def test_a_number_that_is_an_input(dtype, value):
    check(lambda x, n: (x * n - n, n - x), numbers(dtype, 5003), np.asarray(value, dtype))


@pytest.mark.parametrize("dtype", EXACT)
def test_comparisons_and_choices(dtype):
    def function(x, y, mask):
        values = [pb.where(getattr(pb, name)(x, y), x + y, x * y) for name in COMPARISONS]
        values += [getattr(pb, name)(2, -x) for name in COMPARISONS]
        values += [getattr(pb, name)(-x, 2) for name in COMPARISONS]
        return [*values, pb.where(mask, 1, -y), pb.where(mask, -x, 3), pb.where(mask, x, y) + y]

    x, y = numbers(dtype, 5003), numbers(dtype, 5003)
    y[::3] = x[::3]
    check(function, x, y, rng.random(5003) > 0.5)


@pytest.mark.parametrize("shape", [(70, 129), (3, 9000), (4, 3, 70), (900, 5)])
@pytest.mark.parametrize("dtype", EXACT)
def test_rows(dtype, shape):
    check(
        lambda x, r: (-(x * r), r - (x + r) * r, r * x - x),
        numbers(dtype, *shape), numbers(dtype, shape[-1]),
    )  # fmt: skip


@pytest.mark.parametrize("dtype", EXACT)
def test_a_constant_array(dtype):
    table = numbers(dtype, 5003)
    check(lambda x: (x + table) * x, numbers(dtype, 5003))


@pytest.mark.parametrize("dtype", EXACT)
def test_arrays_in_other_layouts_go_to_the_kernels(dtype):
    graph, _ = recorded(lambda x, y: (x + y) * x, numbers(dtype, 60, 70), numbers(dtype, 60, 70))
    one_by_one, run = emit(graph), emit(fuse(graph))
    y = numbers(dtype, 60, 70)
    swapped = y.astype(y.dtype.newbyteorder())
    for x in (np.asfortranarray(y), numbers(dtype, 120, 70)[::2], y[::-1], swapped):
        with np.errstate(all="ignore"):
            [found], [goal] = run(x, y), one_by_one(x, y)
        assert np.array_equal(found, goal, equal_nan=dtype == "float64")


def test_large_constants_of_int64_are_left_to_the_kernels():
    graph, _ = recorded(lambda x: (x + (2**53 + 1)) * x, numbers("int64", 100))
    assert not [call for call in fuse(graph).calls if isinstance(call.op, Fused)]


@pytest.mark.parametrize("dtype", EXACT)
def test_what_numpy_rounds_its_own_way_is_left_to_it(dtype):
    graph, _ = recorded(lambda x: (pb.sum(x + x), x * x), numbers(dtype, 100))
    fused = [call for call in fuse(graph).calls if isinstance(call.op, Fused)]
    assert "sum" not in {each.op.name for call in fused for each in call.op.graph.calls}
    if dtype == "float64":
        graph, _ = recorded(lambda x: pb.maximum(pb.exp(x), pb.tanh(x)), numbers(dtype, 100))
        assert not [call for call in fuse(graph).calls if isinstance(call.op, Fused)]


def programs():
    """Straight lines of random ops on two arrays, a row and a number."""
    return _helpers._shared.programs(
        (pb.negative, pb.square, pb.abs),
        (pb.add, pb.subtract, pb.multiply, _helpers.smaller),
        longest=30,
    )


@settings(max_examples=40, deadline=None)
@given(program=programs())
def test_random_programs(program):
    x = numbers("float64", 70, 64)
    with np.errstate(all="ignore"):
        graph, arrays = recorded(program, x, x / 2, x[0].copy(), x[1, 1].copy())
        for found, goal in zip(emit(fuse(graph))(*arrays), emit(graph)(*arrays), strict=True):
            assert found.dtype == goal.dtype
            assert np.array_equal(found, goal, equal_nan=True)


def test_explain():
    function = pb.function(lambda x: (x + x) * x)
    x = pb.asarray(numbers("float64", 2_000_000))
    for _ in range(60):
        function(x)
    assert "fused(x0)  # loops over blocks: only float32 is compiled" in function.explain()
