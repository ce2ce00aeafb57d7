"""Graphs: recorded by a trace, simplified pass by pass, checked, printed as text and as code."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import numpy as np
import pytest

import pullback as pb
from pullback._autodiff import replay
from pullback._codegen.source import text_of
from pullback.devices import as_device
from pullback.dtypes import is_complex
from pullback.graph.emit import emit, release_last_use
from pullback.graph.graph import (
    Argument,
    InvalidGraphError,
    NotTraceableError,
    Value,
    check,
    frozen,
)
from pullback.graph.passes import simplify as passes
from pullback.graph.passes.simplify import drop_dead, drop_identity_elements, simplify
from pullback.graph.trace import _FIXED, LARGEST_CONSTANT, Trace, Traced
from pullback.spec import OPS
from pullback.tensor import Tensor
from pullback_conformance.case import cases
from pullback_conformance.samples import load

SNAPSHOT = Path(__file__).parent / "snapshots" / "chain.txt"
X = np.arange(1.0, 7.0, dtype=np.float32).reshape(2, 3)


def recorded(function, *arrays):
    """The graph of a function of tensors, and its results as arrays."""
    arrays = [pb.asarray(array)._array for array in arrays]
    trace = Trace(as_device("cpu"))
    results = function(*[trace.argument(array, f"x{i}") for i, array in enumerate(arrays)])
    results = [results] if isinstance(results, Tensor) else list(results)
    trace.close()
    graph = trace.graph([result._array.value for result in results])
    check(graph)
    return graph, arrays, [result._array.array for result in results]


def names(graph):
    return [call.op.name for call in graph.calls]


def run(graph, arrays):
    check(graph)
    return emit(graph)(*arrays)


def same_bits(found, expected):
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert (one.shape, one.dtype, one.tobytes()) == (other.shape, other.dtype, other.tobytes())


# Recording ----------------------------------------------------------------------------------------


def test_a_graph_as_text():
    graph, _, _ = recorded(lambda x: pb.sum(pb.exp(x) * 2.0, axis=0), X)
    assert str(graph) == (
        "graph on cpu:0\n"
        "  input x0: float32[2, 3]\n"
        "  constant c0: float32[] = 2\n"
        "  v0: float32[2, 3] = exp(x0)\n"
        "  v1: float32[2, 3] = multiply(v0, c0)\n"
        "  v2: float32[3] = sum(v1, axis=(0,), dtype=None, keepdims=False)\n"
        "  return v2"
    )
    joined, _, _ = recorded(lambda x: pb.concat([x, x]), X)
    assert "concat([x0, x0], axis=0)" in str(joined)


def test_several_results_and_absent_inputs():
    graph, arrays, results = recorded(lambda x: pb.linalg.qr(x), X)
    assert [value.name for value in graph.calls[-1].results] == ["v0_0", "v0_1"]
    same_bits(run(graph, arrays), results)
    graph, arrays, results = recorded(lambda x: pb.layer_norm(x, None, None), X)
    same_bits(run(graph, arrays), results)


def test_a_trace_that_reads_values_is_not_sound():
    x = pb.asarray(X)
    trace = Trace(x.device)
    y = trace.argument(x._array, "x")
    assert trace.sound
    float(pb.sum(y))
    assert not trace.sound
    trace.close()


def test_a_trace_leaves_the_numbers_of_other_devices_with_the_ops():
    x = pb.asarray(X)
    assert (x * 7.5).shape == (2, 3)
    scalars = OPS["multiply"].scalars
    before = dict(scalars)
    assert any(key[0] == 7.5 for key in before)
    recorded(lambda x: x * 8.5, X)
    assert scalars == before


@pytest.mark.parametrize("name", load())
def test_every_op_recorded_simplified_and_printed(name):
    """Graphs of all ops pass `check`; after each pass they give the same bits as the op."""
    suite, op = load()[name], OPS[name]
    count, sound = 0, set()
    for case in cases(op, suite, as_device("cpu")):
        inputs = case.tensors()
        flat = [one for one in inputs if isinstance(one, Tensor)]
        if len(flat) != len(inputs) or not flat or count == 3:
            continue
        trace = Trace(as_device("cpu"))
        traced = [trace.argument(one._array, f"x{i}") for i, one in enumerate(flat)]
        _FIXED.discard(op)
        with np.errstate(all="ignore"):
            results = case.call(traced)
            if [call.op for call in trace._calls] == [op]:
                sound.add(trace.sound)
            results = list(results) if isinstance(results, (tuple, list)) else [results]
            trace.close()
            if not all(isinstance(one, Tensor) and type(one._array) is Traced for one in results):
                continue
            if not trace.sound:
                continue
            count += 1
            graph = trace.graph([one._array.value for one in results])
            check(graph)
            arrays = [one._array for one in flat]
            expected = [one._array.array for one in results]
            same_bits(run(graph, arrays), expected)
            for one in (drop_identity_elements, drop_dead, simplify):
                same_bits(run(one(graph), arrays), expected)
    assert len(sound) < 2, "the shapes depend on values in some calls"


# Passes -------------------------------------------------------------------------------------------


def test_common_subexpressions():
    graph, arrays, results = recorded(lambda x: pb.sin(x) * pb.cos(x) + pb.sin(x), X)
    assert names(graph).count("sin") == 2
    short = simplify(graph)
    assert names(short) == ["sin", "cos", "multiply", "add"]
    same_bits(run(short, arrays), results)


def test_attributes_that_compare_equal_make_other_calls():
    def function(x):
        return pb.leaky_relu(x, negative_slope=0.0), pb.leaky_relu(x, negative_slope=-0.0)

    graph, arrays, results = recorded(function, -X)
    assert len(simplify(graph).calls) == len(graph.calls)
    same_bits(run(simplify(graph), arrays), results)


def test_what_is_computed_from_constants_is_one():
    def function(x):
        row = pb.full((3,), 2, dtype="float32", device=x.device)
        return x + pb.exp(row)

    graph, arrays, results = recorded(function, X)
    assert names(graph) == ["add"]
    same_bits(run(graph, arrays), results)


def test_large_constants_are_computed_at_each_run():
    def function(x):
        return x + pb.full((LARGEST_CONSTANT + 1,), 2, dtype="float32", device=x.device)

    graph, arrays, results = recorded(function, np.float32(1))
    assert names(graph) == ["full", "add"]
    same_bits(run(graph, arrays), results)


def test_identities_are_left_out():
    def function(x):
        return pb.exp(pb.reshape(pb.broadcast_to(x, (2, 3)), (2, 3))), pb.reshape(x, (3, 2))

    graph, arrays, results = recorded(function, X)
    short = simplify(graph)
    assert names(short) == ["exp", "reshape"]
    same_bits(run(short, arrays), results)


def test_an_identity_may_be_an_output():
    graph, arrays, results = recorded(lambda x: pb.reshape(x, (2, 3)), X)
    short = simplify(graph)
    assert not short.calls
    assert short.outputs == (short.inputs[0].value,)
    same_bits(run(short, arrays), results)


@pytest.mark.parametrize("size", [3, LARGEST_CONSTANT + 1])
def test_products_with_one_are_left_out(size):
    def function(x):
        one = pb.full((), 1, dtype=x.dtype, device=x.device)
        return pb.negative(pb.broadcast_to(one, x.shape) * x) * one

    graph, arrays, results = recorded(function, np.linspace(-1, 1, size, dtype=np.float32))
    short = drop_dead(drop_identity_elements(graph, any_layout=True))
    assert names(short) == ["negative"]
    same_bits(run(short, arrays), results)


@pytest.mark.parametrize("reader", [lambda x: pb.sum(x, axis=0), pb.exp])
def test_products_with_one_stay_where_the_layout_could_be_seen(reader):
    graph, _, _ = recorded(lambda x: reader(x * pb.ones((2, 3), device=x.device)), X)
    assert names(drop_identity_elements(graph, any_layout=True))[0] == "multiply"


def test_a_view_of_ones_is_ones():
    def function(x):
        one = pb.full((), 1, dtype=x.dtype, device=x.device)
        ones = pb.broadcast_to(one, (LARGEST_CONSTANT, 2))
        return pb.negative(x * pb.flip(pb.matrix_transpose(ones)))

    graph, arrays, results = recorded(function, np.ones((2, LARGEST_CONSTANT), np.float32))
    short = drop_dead(drop_identity_elements(graph, any_layout=True))
    assert names(short) == ["negative"]
    same_bits(run(short, arrays), results)


def test_no_pass_knows_an_op_by_name():
    text = Path(passes.__file__).read_text(encoding="utf-8")
    constants = [node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant)]
    assert not OPS.keys() & {value for value in constants if isinstance(value, str)}


@pytest.mark.parametrize("name", [op.name for op in OPS.values() if op.copies_elements])
def test_an_op_that_copies_elements_makes_no_other(name):
    for case in cases(OPS[name], load()[name], as_device("cpu")):
        (x,) = case.tensors()
        assert np.isin(bits(case.call([x])), bits(x)).all()


@pytest.mark.parametrize(
    "name", [op.name for op in OPS.values() if op.identity_element is not None]
)
def test_an_identity_element_changes_nothing(name):
    op = OPS[name]
    for case in cases(op, load()[name], as_device("cpu")):
        for x in map(pb.asarray, case.tensors()):
            if not is_complex(x.dtype):
                element = pb.full_like(x, op.identity_element)
                for inputs in ([x, element], [element, x]):
                    same_bits([op.function(*inputs).numpy()], [x.numpy()])


def bits(x):
    """The elements as rows of bytes, so that NaN and -0.0 are told apart."""
    array = np.ascontiguousarray(x.numpy())
    return array.reshape(-1).view(f"V{array.dtype.itemsize}")


def test_complex_products_with_one_stay():
    def function(z):
        return z * pb.full((), 1, dtype=z.dtype, device=z.device)

    graph, _, _ = recorded(function, X.astype(np.complex64))
    assert names(drop_identity_elements(graph, any_layout=True)) == ["multiply"]


def test_a_factor_that_is_broadcast_is_not_the_product():
    def function(x):
        return x * pb.full((2, 3), 1, dtype=x.dtype, device=x.device)

    graph, arrays, results = recorded(function, np.float32(5))
    short = drop_identity_elements(graph, any_layout=True)
    assert names(short) == ["multiply"]
    same_bits(run(short, arrays), results)


def test_drop_dead():
    def function(x):
        pb.exp(pb.sin(x) * 3.0)
        return pb.cos(x)

    graph, arrays, results = recorded(function, X)
    assert graph.constants
    short = drop_dead(graph)
    assert names(short) == ["cos"]
    assert not short.constants
    same_bits(run(short, arrays), results)


def test_writes_are_kept_and_returned_after_the_outputs():
    graph, arrays, results = recorded(lambda x, v: (pb.exp(x), v - x, pb.sin(v)), X, 2 * X)
    output, new, _ = graph.outputs
    graph = graph._replace(outputs=(output,), writes=((graph.inputs[1], new),))
    short = simplify(graph)
    assert names(short) == ["exp", "subtract"]
    assert str(short).splitlines()[-2] == "  write v1 to x1"
    same_bits(run(short, arrays), results[:2])


# Code ---------------------------------------------------------------------------------------------


def test_arrays_are_released_after_their_last_use():
    graph, _, _ = recorded(lambda x, _unused: pb.exp(pb.sin(x) * pb.cos(x)), X, X)
    released = [[value.name for value in values] for values in release_last_use(graph)]
    assert released == [["x1"], [], ["x0"], ["v0", "v1"], ["v2"]]
    assert text_of(emit(graph)) == (
        "def run(x0, x1):\n"
        "    del x1\n"
        "    v0 = k0(x0)  # sin\n"
        "    v1 = k1(x0)  # cos\n"
        "    del x0\n"
        "    v2 = k2(v0, v1)  # multiply\n"
        "    del v0, v1\n"
        "    v3 = k3(v2)  # exp\n"
        "    del v2\n"
        "    return (v3,)"
    )


def test_an_attribute_may_be_a_value_of_a_run():
    graph, arrays, _ = recorded(lambda x, _axis: pb.flip(x, axis=0), X, np.int32(0))
    (call,) = graph.calls
    (name,) = call.attributes
    symbolic = graph._replace(
        calls=(call._replace(attributes={name: graph.inputs[1].value}),),
    )
    check(symbolic)
    short = simplify(symbolic)
    (found,) = emit(short)(arrays[0], (1,))
    same_bits([found], [X[:, ::-1]])


@pytest.mark.usefixtures("own_kernels")  # which are not fused
def test_the_text_of_a_compiled_backward_pass(monkeypatch):
    """To update the file after a change that you want: delete it and run this test twice."""
    monkeypatch.setattr(replay, "_forms", {})
    for _ in range(replay.PATIENCE + 2):
        x = pb.asarray(X)
        with pb.GradientTape() as tape:
            tape.watch(x)
            y = pb.sum(pb.tanh((x * 2 + 1) * x))
        tape.gradient(y, x)
    ((compiled,),) = [form.passes for form in replay._forms.values()]
    text = re.sub(r"changes == \d+", "changes == CHANGES", text_of(compiled)) + "\n"
    if not SNAPSHOT.exists():
        SNAPSHOT.write_text(text, encoding="utf-8")
        pytest.fail(f"wrote {SNAPSHOT.name}; read it, and run the test again")
    assert text == SNAPSHOT.read_text(encoding="utf-8")


# What `check` refuses -----------------------------------------------------------------------------


def broken():
    graph, _, _ = recorded(lambda x: pb.sum(pb.exp(x) * 2.0, axis=0), X)
    first, second, third = graph.calls
    float64 = np.dtype(np.float64)
    wrong = Value("v0", (3, 2), first.results[0].dtype)
    other = Value("v0", (2, 3), float64)
    unknown = Value("y", (2, 3), first.results[0].dtype)
    twin = Value("x0", (2, 3), first.results[0].dtype)
    return {
        "used before it is made": graph._replace(calls=(second, first, third)),
        "made twice": graph._replace(calls=(first, first, second, third)),
        "gives the shape": graph._replace(calls=(first._replace(results=(wrong,)),)),
        "gives the dtype": graph._replace(calls=(first._replace(results=(other,)),)),
        "y is used": graph._replace(outputs=(unknown,)),
        "names two values": graph._replace(calls=(first._replace(inputs=(twin,)), second, third)),
        "the op 1": graph._replace(calls=(first._replace(inputs=()), second, third)),
        "input x is None": graph._replace(calls=(first._replace(inputs=(None,)), second, third)),
        "attributes that the op": graph._replace(calls=(first._replace(attributes={"k": 1}),)),
        "output and residual": graph._replace(calls=(first._replace(results=()),)),
        "another kind": graph._replace(writes=((graph.inputs[0], third.results[0]),)),
        "not an input of the graph": graph._replace(
            writes=((Argument(twin, 1), third.results[0]),)
        ),
        "not a name of Python": graph._replace(inputs=(Argument(Value("a b", (), float64), 0),)),
        "gives to constants": graph._replace(inputs=(Argument(Value("k1", (), float64), 0),)),
        "c0: float32.* of another kind": graph._replace(constants={"c0": np.zeros(2)}),
    }


@pytest.mark.parametrize("message", broken())
def test_check_refuses(message):
    with pytest.raises(InvalidGraphError, match=message):
        check(broken()[message])


def test_check_refuses_attributes_that_nothing_compares():
    graph, _, _ = recorded(lambda x: pb.sum(pb.exp(x) * 2.0, axis=0), X)
    *calls, last = graph.calls
    for name in last.attributes:
        wrong = last._replace(attributes={**last.attributes, name: {1, 2}})
        with pytest.raises(NotTraceableError, match="set has no key"):
            check(graph._replace(calls=(*calls, wrong)))


def test_keys_tell_equal_values_apart():
    assert frozen(1) != frozen(True)
    assert frozen(1) != frozen(1.0)
    assert frozen(0.0) != frozen(-0.0)
    assert frozen(1 + 0j) != frozen(complex(1, -0.0))
    assert frozen((slice(0, 1), ..., [2])) == frozen((slice(0, 1), ..., [2]))
    with pytest.raises(NotTraceableError):
        frozen(object())


def test_a_product_with_ones_keeps_the_layout_of_what_is_summed_further_on():
    # The sum is taken of a quotient of the product: elementwise kernels hand its layout on.
    def gradient(x):
        with pb.GradientTape() as tape:
            tape.watch(x)
            y = pb.sum(x / pb.sum(x))
        return tape.gradient(y, x).tolist()

    for seed in range(30):
        array = np.random.default_rng(seed).standard_normal((5, 7)).astype(np.float32)
        x = pb.asarray(np.asfortranarray(array), copy=False)
        replay.forget()
        plain = gradient(x)
        for _ in range(4):
            assert gradient(x) == plain


def test_dtypes_are_named_without_their_library():
    class Foreign:
        def __str__(self):
            return "torch.float32"

    assert repr(Value("x", (2,), Foreign())) == "x: float32[2]"
    assert repr(Value("x", (), int)) == "x: int[]"
