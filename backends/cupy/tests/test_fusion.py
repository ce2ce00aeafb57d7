"""Fused kernels: their sources run on the stand-in, beside the calls one by one.

On a GPU the bits are those of the calls. On the stand-in the functions of single elements are those
of the C library, and CuPy's are NumPy's: there these are compared within rounding.
"""

import shutil
import subprocess

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pullback as pb
from pullback.graph.emit import emit
from pullback.graph.graph import Fused, check
from pullback.graph.passes.regions import fuse
from pullback.graph.passes.simplify import simplify
from pullback.graph.trace import Trace
from pullback_cupy import compile as compiling
from pullback_cupy import driver, fused_ops, fused_source, fusion

GPU = pb.device("cupy:gpu")
ON_GPU = driver.problem() is None
bfloat16 = ml_dtypes.bfloat16
rng = np.random.default_rng(0)
SPECIAL = np.array([0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 1e-3, -1e-3, 3e4, 0.5, 2, -90, 90])


def normal(*shape, dtype=np.float32):
    """Numbers with infinities, NaN and zeros among them."""
    x = 3 * rng.standard_normal(shape)
    flat = x.reshape(-1)
    some = flat[:: max(1, flat.size // 30)]
    some[...] = rng.permutation(np.resize(SPECIAL, some.size))
    return x.astype(dtype)


def recorded(function, *arrays):
    arrays = [pb.asarray(array, device=GPU)._array for array in arrays]
    trace = Trace(GPU)
    with pb.device(GPU):
        results = function(*[trace.argument(array, f"x{i}") for i, array in enumerate(arrays)])
    results = list(results) if isinstance(results, (tuple, list)) else [results]
    trace.close()
    return simplify(trace.graph([result._array.value for result in results])), arrays


def both(function, *arrays):
    """The fused graph of a function, and the results of the graph and of that."""
    graph, arrays = recorded(function, *arrays)
    result = fuse(graph)
    check(result)
    to_host = GPU.backend.to_host
    before = [to_host(x) for x in emit(graph)(*arrays)]
    after = [to_host(x) for x in emit(result)(*arrays)]
    for x, y in zip(before, after, strict=True):
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
    return result, before, after


def same_bits(before, after):
    for x, y in zip(before, after, strict=True):
        if x.dtype.kind in "fV":
            assert np.array_equal(np.isnan(x), np.isnan(y))
            x, y = (np.where(np.isnan(z), np.zeros((), z.dtype), z) for z in (x, y))
        assert x.tobytes() == y.tobytes()


def within(before, after, ulps):
    if ON_GPU:
        same_bits(before, after)
    for x, y in zip(before, after, strict=True):
        if x.dtype.kind not in "fV":
            assert np.array_equal(x, y)
            continue
        step = float(ml_dtypes.finfo(x.dtype).eps) * ulps
        x, y = x.astype(np.float64), y.astype(np.float64)
        np.testing.assert_allclose(y, x, rtol=step, atol=step * 1e-2)


def whole(graph):
    """Holds that a graph is one fused call, and returns it."""
    assert [call.op.name for call in graph.calls] == ["fused"]
    assert isinstance(graph.calls[0].op, Fused)
    return graph.calls[0]


# Ops ----------------------------------------------------------------------------------------------

EXACT = {
    "abs": 1, "add": 2, "ceil": 1, "copysign": 2, "divide": 2, "floor": 1, "multiply": 2,
    "negative": 1, "positive": 1, "reciprocal": 1, "sign": 1, "square": 1, "subtract": 2,
    "trunc": 1, "equal": 2, "greater": 2, "greater_equal": 2, "less": 2, "less_equal": 2,
    "not_equal": 2, "isfinite": 1, "isinf": 1, "isnan": 1, "signbit": 1, "floor_divide": 2,
    "remainder": 2, "round": 1, "relu": 1, "relu6": 1, "hard_tanh": 1, "sqrt": 1,
    "absolute_error": 2, "squared_error": 2, "hinge_loss": 2, "maximum": 2, "minimum": 2,
}  # fmt: skip
ROUNDED = {
    "exp": 1, "expm1": 1, "log": 1, "log10": 1, "log1p": 1, "log2": 1, "sin": 1, "cos": 1, "tan": 1,
    "asin": 1, "acos": 1, "atan": 1, "sinh": 1, "cosh": 1, "tanh": 1, "asinh": 1, "acosh": 1,
    "atanh": 1, "atan2": 2, "hypot": 2, "erf": 1, "erfc": 1, "celu": 1, "elu": 1, "gelu": 1,
    "hard_sigmoid": 1, "hard_silu": 1, "leaky_relu": 1, "log_sigmoid": 1, "mish": 1,
    "prelu": 2, "selu": 1, "sigmoid": 1, "silu": 1, "softplus": 1, "softsign": 1,
    "sigmoid_cross_entropy_with_logits": 2, "log_cosh_loss": 2, "huber_loss": 2,
    "relu_gradient": 2, "sigmoid_gradient": 2, "silu_gradient": 2, "gelu_gradient": 2,
}  # fmt: skip
INTEGERS = {
    "abs": 1, "add": 2, "bitwise_and": 2, "bitwise_or": 2, "bitwise_xor": 2, "ceil": 1, "floor": 1,
    "floor_divide": 2, "integer_floor_divide": 2, "maximum": 2, "minimum": 2, "multiply": 2,
    "negative": 1, "positive": 1, "remainder": 2, "round": 1, "sign": 1, "square": 1,
    "subtract": 2, "trunc": 1, "equal": 2, "greater": 2, "greater_equal": 2, "less": 2,
    "less_equal": 2, "not_equal": 2,
}  # fmt: skip
BOOLEANS = {
    "bitwise_and": 2, "bitwise_or": 2, "bitwise_xor": 2, "bitwise_invert": 1, "logical_and": 2,
    "logical_not": 1, "logical_or": 2, "logical_xor": 2, "equal": 2, "not_equal": 2,
}  # fmt: skip


def of(name):
    """The function of an op, with the attributes that it must have."""
    op = getattr(pb, name, None) or getattr(pb.ops, name)
    if name in ("gelu_gradient",):
        return lambda g, x: op(g, x, approximate=True)
    if name == "huber_loss":
        return lambda p, t: op(p, t, delta=1.5)
    return op


def calls_of(names):
    """A function of two arrays: the results of many ops."""

    def function(x, y):
        return [of(name)(x, y) if count == 2 else of(name)(x) for name, count in names.items()]

    return function


def test_every_op_is_tested():
    named = {*EXACT, *ROUNDED, *INTEGERS, *BOOLEANS}
    assert named | {"astype", "broadcast_to", "sum", "where"} == fused_ops.FUSIBLE


FLOATS = [np.float32, np.float64, np.float16, bfloat16]


def fused_alone(names, x, y):
    """The results of ops before and after; each op is in a fused kernel."""
    result, before, after = both(calls_of(names), x, y)
    assert {call.op.name for call in result.calls} == {"fused"}
    return before, after


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda dtype: np.dtype(dtype).name)
def test_exact_ops_have_the_bits_of_their_kernels(dtype):
    x, y = normal(40, 13, dtype=dtype), normal(40, 13, dtype=dtype)
    # The sign of a zero: NumPy's differs from that of CuPy's text, which the kernels have.
    zeros = {"maximum": 2, "minimum": 2, "sign": 1}
    same_bits(*fused_alone({name: n for name, n in EXACT.items() if name not in zeros}, x, y))
    within(*fused_alone(zeros, x, y), 0)


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda dtype: np.dtype(dtype).name)
def test_other_ops_are_within_rounding(dtype):
    x, y = normal(40, 13, dtype=dtype), normal(40, 13, dtype=dtype)
    names = dict(ROUNDED)
    if dtype is np.float64:
        names = {name: n for name, n in names.items() if name not in fused_ops.CONTRACTED}
    within(*fused_alone(names, x, y), 8)


@pytest.mark.parametrize(
    "dtype", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
)
def test_integers_overflow_and_divide_as_their_kernels(dtype):
    limits = np.iinfo(dtype)
    x, y = (rng.integers(limits.min, limits.max, (50, 7), dtype, endpoint=True) for _ in "xy")
    edges = np.array([limits.min, limits.max, 0, 1, limits.max // 2], dtype)
    x[:5, :5], y[:5, :5] = edges[:, None], edges
    y[6:9] = np.array([-1, 3, 5]).astype(dtype)[:, None]
    names = dict(INTEGERS)
    if limits.min == 0:
        del names["negative"], names["abs"]
    same_bits(*fused_alone(names, x, y))


def test_booleans():
    x, y = rng.random((2, 30, 3)) < 0.5
    same_bits(*fused_alone(BOOLEANS, x, y))


@pytest.mark.parametrize("dtype", FLOATS[:1] + FLOATS[2:], ids=lambda dtype: np.dtype(dtype).name)
def test_each_op_rounds_to_the_dtype_of_its_array(dtype):
    x, y = normal(64, dtype=dtype), normal(64, dtype=dtype)
    result, before, after = both(lambda x, y: (x * y + x) * y - x / y, x, y)
    whole(result)
    same_bits(before, after)


def test_a_condition_chooses_and_comparisons_stay_inside():
    x, y = normal(9, 5), normal(9, 5)
    result, before, after = both(lambda x, y: pb.where(x < y, x * 2, pb.negative(y)), x, y)
    whole(result)
    same_bits(before, after)


@pytest.mark.parametrize("source", ["bool", "int8", "uint16", "int64", "float16", "float32"])
def test_conversions(source):
    x = rng.integers(0, 2 if source == "bool" else 100, 50).astype(source)
    dtypes = ["int32", "uint8", "float16", "bfloat16", "float32", "float64"]
    # From int64 to bfloat16 by way of float32 would be two roundings.
    dtypes = [to for to in dtypes if (source, to) != ("int64", "bfloat16")]

    def function(x):
        made = [x.astype(to) for to in dtypes if to != source]
        return [*[y == y for y in made], *made, pb.where(x.astype("bool"), x, x)]

    result, before, after = both(function, x)
    assert "astype" not in [call.op.name for call in result.calls]
    same_bits(before, after)


# Shapes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "shape", [(), (1,), (5,), (4, 5), (1, 5), (4, 1), (3, 4, 5), (3, 1, 5), (3, 4, 1), (3, 1, 1)]
)
def test_inputs_broadcast(shape):
    x, y = normal(3, 4, 5), normal(*shape)
    result, before, after = both(lambda x, y: pb.square(x + y) * y, x, y)
    assert len(result.calls) <= 2
    same_bits(before, after)


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_places_in_what_broadcasts(data):
    space = tuple(data.draw(st.lists(st.integers(1, 4), max_size=5)))
    shape = tuple(data.draw(st.sampled_from([n, 1])) for n in space)
    shape = shape[data.draw(st.integers(0, len(shape))) :]
    array = np.arange(int(np.prod(shape))).reshape(shape)
    wanted = np.broadcast_to(array, space).reshape(-1)
    text = fused_source.offset(shape, space).replace("/", "//")
    assert [eval(text, {"i": i}) for i in range(wanted.size)] == wanted.tolist()


def captured(function, *arrays):
    """The program of a captured function; its results are those of the function."""
    with pb.device(GPU):
        tensors = [pb.asarray(array) for array in arrays]
        made = pb.function(function)
        for _ in range(3):
            found = made(*tensors)
        same_bits([function(*tensors).numpy()], [found.numpy()])
    return str(made.explain())


def test_constants_of_any_layout():
    many, row, one = (pb.asarray(normal(*n), device=GPU) for n in ((7, 6), (7,), ()))
    text = captured(lambda x: (x + pb.permute_dims(many, (1, 0))) * row - one, normal(6, 7))
    assert "fused(" in text


def test_an_array_of_one_number_is_read_once():
    text = captured(lambda x: x * pb.full((50, 60), 2.5) + x, normal(50, 60))
    assert "fused(" in text


def test_other_layouts_run_call_by_call(standin, monkeypatch):
    graph, _ = recorded(lambda x, y: pb.exp(x) * y, normal(6, 5), normal(6, 5))
    kernel = whole(fuse(graph)).kernel
    arrays = [GPU.backend.from_host(normal(6, 5), GPU.native, copy=True) for _ in "xy"]
    turned = [GPU.backend.from_host(normal(5, 6), GPU.native, copy=True).T for _ in "xy"]
    launched = []
    monkeypatch.setattr(standin.RawKernel, "__call__", lambda *given: launched.append(given))
    kernel(*arrays)
    assert len(launched) == 1
    expected = emit(graph)(*turned)[0]
    assert np.array_equal(np.asarray(kernel(*turned)), np.asarray(expected), equal_nan=True)
    assert len(launched) == 1


def test_no_elements():
    result, before, after = both(lambda x: pb.exp(x) + x, np.zeros((0, 3), np.float32))
    assert "fused" not in [call.op.name for call in result.calls]
    same_bits(before, after)


def test_an_index_of_32_bits_where_it_is_enough():
    graph, _ = recorded(lambda x: pb.exp(x) + x, normal(3))
    region = whole(fuse(graph)).op.graph
    assert "const unsigned int i = at;" in fused_source.Source(region).text


def test_results_inside_and_outside():
    def function(x, y):
        a = x * y
        b = pb.exp(a) - y
        return a, b, a < b

    result, before, after = both(function, normal(8, 9), normal(8, 9))
    whole(result)
    within(before, after, 4)
    same_bits(before[:1], after[:1])


# Sums ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda dtype: np.dtype(dtype).name)
def test_sums_of_rows_have_the_bits_of_the_kernel_of_sums(dtype):
    for columns in (128, 700):
        x, y = (rng.standard_normal((5, columns)).astype(dtype) for _ in "xy")

        def function(x, y):
            return [x * y + y, pb.sum(x * y, axis=-1), pb.sum(x - y, axis=1, keepdims=True)]

        result, before, after = both(function, x, y)
        whole(result)
        same_bits(before, after)


def test_sums_of_rows_are_those_of_wider_numbers():
    x = rng.standard_normal((3, 4, 50)).astype(np.float32)
    found = pb.sum(pb.asarray(x, device=GPU), axis=(1, 2))
    np.testing.assert_allclose(found.numpy(), x.astype(float).sum((1, 2)), rtol=1e-5, atol=1e-5)
    wide = pb.sum(pb.asarray(x, device=GPU), axis=None, dtype="float64", keepdims=True)
    np.testing.assert_allclose(wide.numpy(), x.astype(float).sum(keepdims=True), rtol=1e-12)


@pytest.mark.parametrize("axis", [None, (1, 2), (0, 1, 2)])
@pytest.mark.parametrize("dtype", ["bool", "int8", "int32", "uint64"])
def test_sums_of_integers_overflow_as_their_kernels(dtype, axis):
    x = rng.integers(0, 2, (3, 16, 9)).astype(bool)
    if dtype != "bool":
        limits = np.iinfo(dtype)
        x = rng.integers(limits.min, limits.max, (3, 16, 9), dtype, endpoint=True)
    _, before, after = both(lambda x: pb.sum(x & x, axis=axis), x)
    same_bits(before, after)


def test_a_sum_is_the_same_at_every_run_and_has_an_order_by_its_shape():
    graph, arrays = recorded(lambda x: pb.sum(x * 1.5, axis=-1), normal(40, 300)[None])
    kernel = whole(fuse(graph)).kernel
    first, second = (GPU.backend.to_host(kernel(*arrays)) for _ in "12")
    assert first.tobytes() == second.tobytes()


@pytest.mark.parametrize(
    ("shape", "axis"),
    [((40, 8), -1), ((40, 300), 0), ((2, 1 << 15), -1), ((1 << 17,), None), ((3, 4, 50), 1)],
)
def test_other_sums_are_cupys_and_the_rest_is_fused(shape, axis):
    x = rng.standard_normal(shape).astype(np.float32)
    result, before, after = both(lambda x: pb.sum(pb.square(x) * x, axis=axis), x)
    assert [call.op.name for call in result.calls] == ["fused", "sum"]
    same_bits(before, after)


# Random regions -----------------------------------------------------------------------------------


@pytest.mark.slow
@given(st.data())
@settings(max_examples=100, deadline=None)
def test_random_regions(data):
    unary = [name for name, count in EXACT.items() if count == 1 and "is" not in name[:2]]
    binary = ["add", "subtract", "multiply", "divide"]
    unary.remove("signbit")
    dtype = data.draw(st.sampled_from(FLOATS))
    shapes = [(), (7,), (6, 1), (6, 7), (1, 7)]
    arrays = [normal(6, 7, dtype=dtype)]
    arrays += [normal(*data.draw(st.sampled_from(shapes)), dtype=dtype) for _ in range(2)]

    def function(*values):
        values = list(values)
        for _ in range(data.draw(st.integers(2, 12))):
            a, b = (values[data.draw(st.integers(0, len(values) - 1))] for _ in "ab")
            kind = data.draw(st.integers(0, 2))
            if kind == 0:
                values.append(getattr(pb, data.draw(st.sampled_from(unary)))(a))
            elif kind == 1:
                values.append(getattr(pb, data.draw(st.sampled_from(binary)))(a, b))
            else:
                values.append(pb.where(a < b, a, b))
        return values[3:]

    _, before, after = both(function, *arrays)
    same_bits([np.where(x == 0, np.abs(x), x) for x in before],
              [np.where(x == 0, np.abs(x), x) for x in after])  # fmt: skip


# Compilation --------------------------------------------------------------------------------------


def test_equal_regions_are_compiled_once(standin):
    from cupy._kernels import RAW

    def function(x):
        return pb.square(x) * 3.5 - x

    both(function, normal(11, 3))
    count = len(RAW)
    both(function, normal(11, 3))
    both(function, normal(5, 20, 2))
    assert len(RAW) == count


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc here: install CUDA's toolkit")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_nvcc_takes_the_source(dtype, tmp_path):
    x = normal(8, 128).astype(dtype)
    graph, _ = recorded(lambda x: [pb.gelu(x) * 2, pb.sum(x * x - 1, axis=-1)], x)
    path = tmp_path / "fused.cu"
    path.write_text(fused_source.Source(whole(fuse(graph)).op.graph).text)
    options = [*compiling.ROUNDED, "-ftz=true", "-arch=sm_90", "-cubin"]
    subprocess.run(["nvcc", *options, "-o", tmp_path / "fused.cubin", path], check=True)


def test_sums_of_products_are_rounded_twice_as_they_are_without_fusion(standin):
    from cupy._kernels import ELEMENTWISE, RAW

    both(lambda x, y: x * y + x, normal(4), normal(4))
    assert "--fmad=false" in RAW[-1].options
    own = {f"pullback_{name}" for name in compiling.EXPRESSIONS}
    for kernel in ELEMENTWISE:
        assert "--fmad=false" in kernel.options or kernel.name not in own


def test_a_kernel_that_does_not_compile_leaves_the_calls(standin, monkeypatch):
    from pullback.graph.passes import regions

    def fail(self, log_stream=None):
        raise RuntimeError("nvrtc: error: failed to load libnvrtc.so")

    monkeypatch.setattr(standin.RawKernel, "compile", fail)
    monkeypatch.setattr(regions, "WARNED", set())
    fusion._compiled.cache_clear()
    with pytest.warns(RuntimeWarning, match="fuse of 'cupy' raised RuntimeError: nvrtc: error"):
        result, before, after = both(lambda x: pb.square(x) * 7.5 - x, normal(5))
    assert "fused" not in [call.op.name for call in result.calls]
    same_bits(before, after)


def test_in_a_captured_function():
    with pb.device(GPU):
        x = pb.asarray(normal(20, 30))
        weights = pb.Variable(normal(30))

        @pb.function
        def step(x):
            with pb.GradientTape() as tape:
                loss = pb.sum(pb.tanh(x * weights) * x)
            gradient = tape.gradient(loss, weights)
            weights.assign_sub(gradient * 0.01)
            return loss

        for _ in range(3):
            step(x)
    assert "fused(" in step.explain()
