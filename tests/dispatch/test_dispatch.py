"""From a call to a kernel: definitions, signatures, conversion of inputs, errors."""

from __future__ import annotations

import inspect
import pickle
import re
from collections.abc import Sequence

import numpy as np
import pytest

import pullback as pb
from pullback import dtypes, errors, shapes
from pullback._dispatch import general
from pullback.devices import as_device
from pullback.plugins.public import registry
from pullback.spec import OPS, Arity
from pullback.tensor import Tensor, TensorLike
from pullback_conformance.case import bind, cases, results
from pullback_conformance.samples import load

CPU = as_device("cpu")


# Definitions -------------------------------------------------------------------------------------


def annotated(*names, **given):
    """A body with these parameters."""

    scope = {}
    exec(f"def body({', '.join(names)}): return x1", {"__name__": __name__}, scope)
    body = scope["body"]
    body.__annotations__ = given
    body.__name__ = "test_op"
    return body


def test_parameters_need_annotations(define):
    with pytest.raises(errors.DefinitionError, match="annotation"):
        define()(annotated("x1"))


@pytest.mark.parametrize(
    "annotation",
    [TensorLike, pb.Tensor, "TensorLike", "pb.TensorLike", "pullback.Tensor"],
    ids=["object", "class", "text", "qualified", "qualified class"],
)
def test_annotations_as_text_or_objects(define, annotation):
    f = define()(annotated("x1", "x2", x1=annotation, x2=pb.Tensor | None))
    arities = {parameter.name: parameter.arity for parameter in f.spec.inputs}
    assert arities == {"x1": Arity.ONE, "x2": Arity.OPTIONAL}


def test_a_name_is_taken_once(define):
    with pytest.raises(errors.DefinitionError, match=r"'add' is defined twice.*another name"):
        define(name="add")(annotated("x1", x1="TensorLike"))


def test_keyword_only_inputs(define):
    with pytest.raises(errors.DefinitionError, match="keyword-only"):
        define()(annotated("x1", "axis", "*", "x2", x1="TensorLike", axis="Axis", x2="TensorLike"))


def test_rules_that_contradict_the_definition(define):
    f = define()(annotated("x1", x1="TensorLike"))
    with pytest.raises(errors.DefinitionError, match="no input 'y'"):
        f.vjp(y=lambda g: g)
    with pytest.raises(errors.DefinitionError, match=r"asks for \['z'\]"):
        f.vjp(x1=lambda g, z: g)
    f.vjp(x1=lambda g: g)
    with pytest.raises(errors.DefinitionError, match="has a rule already"):
        f.vjp(x1=lambda g: g)


def test_rule_of_what_is_not_differentiable(define):
    f = define(differentiable=False)(annotated("x1", x1="TensorLike"))
    with pytest.raises(errors.DefinitionError, match="not differentiable"):
        f.vjp(x1=lambda g: g)


# Signatures --------------------------------------------------------------------------------------


@pytest.mark.each("op", OPS.values(), ids=lambda op: op.name)
def test_public_function_has_the_signature_of_its_definition(op):
    f = op.function
    assert inspect.signature(f) == inspect.signature(op.body)
    assert f.__doc__ == op.body.__doc__
    assert (f.__name__, f.__module__) == (op.body.__name__, op.body.__module__)
    assert f.spec is op


@pytest.mark.parametrize("name", ["add", "exp", "sum", "matmul"])
def test_functions_are_pickled_by_name(name):
    f = getattr(pb, name)
    assert pickle.loads(pickle.dumps(f)) is f


def test_arguments_are_checked_as_python_does():
    for wrong in (
        lambda: pb.add(1.0),
        lambda: pb.add(1.0, 2.0, 3.0),
        lambda: pb.add(1.0, x2=2.0),
        lambda: pb.add(1.0, 2.0, axis=1),
        lambda: pb.sum([1.0], 0, None),
    ):
        with pytest.raises(TypeError, match="argument"):
            wrong()


def test_a_missing_input_is_named():
    with pytest.raises(errors.InputTypeError, match="add: x2 is missing"):
        pb.add(pb.asarray(1.0), None)


# Straight-line code and the general way ----------------------------------------------------------

SUITES = load()
CASES = [
    next(cases(OPS[name], suite, CPU))
    for name, suite in SUITES.items()
    if name in OPS and (OPS[name].simple or name in ("concat", "stack"))
]


@pytest.mark.each("case", CASES)
def test_both_ways_agree(case):
    op = case.op
    inputs = case.tensors()
    bound = bind(op, inputs, case.sample.attributes)
    bound.apply_defaults()
    values = tuple(bound.arguments[one.name] for one in op.inputs)
    given = {one.name: bound.arguments[one.name] for one in op.attributes}
    slow = results(general.call(op, values, given))
    for _ in range(2):  # the first call may have found no kernel in the table
        for one, other in zip(results(case.call(inputs)), slow, strict=True):
            np.testing.assert_array_equal(one, other)
            assert one.dtype == other.dtype


@pytest.mark.each("case", CASES)
def test_host_data_are_taken_as_tensors_are(case):
    expected = results(case.call())
    found = results(case.call(list(case.inputs)))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype


@pytest.mark.parametrize(
    "make",
    [
        lambda x, v: v * x, lambda x, v: x - v, lambda x, v: v + v, lambda x, v: v * 2.0,
        lambda x, v: 2.0 - v, lambda x, v: v * np.float32(2.0), lambda x, v: [1.0, 2.0] - v,
        lambda x, v: pb.where(v > 1, v, 0.0), lambda x, v: pb.linear(x[None], pb.stack([v, v]), v),
        lambda x, v: pb.concat([v, x]), lambda x, v: pb.stack((x, v), axis=-1),
        lambda x, v: pb.concat([x, [1.0, 2.0]]), lambda x, v: pb.stack([x, 3.0 + x]),
    ],
)  # fmt: skip
def test_variables_go_in_where_tensors_do(make):
    x, v = pb.asarray([1.0, 3.0]), pb.Variable([2.0, 5.0])
    for _ in range(2):
        with pb.GradientTape() as tape, pb.GradientTape() as other:
            for one in (tape, other):
                one.watch(x)
            y = make(x, v)
        with pb.GradientTape() as plain:
            value = v.value
            plain.watch([x, value])
            expected = make(x, value)
        assert y.tolist() == expected.tolist()
        slopes = [str(g) for g in plain.gradient(expected, [x, value])]
        assert [str(g) for g in tape.gradient(y, [x, v])] == slopes
        assert [str(g) for g in other.gradient(y, [x, v])] == slopes


def test_sequences_that_are_no_plain_lists_of_tensors():
    x, y = pb.asarray([1.0, 2.0]), pb.asarray([3, 4])
    assert pb.concat([x, x]).tolist() == pb.concat(iter([x, x])).tolist() == [1, 2, 1, 2]
    assert pb.concat([x, y]).dtype == pb.float32
    assert pb.concat(pb.asarray([[1.0], [2.0]])).tolist() == [1, 2]
    assert pb.stack([x]).shape == (1, 2)
    for join in (pb.concat, pb.stack):
        with pytest.raises(errors.InputValueError, match="at least one"):
            join([])
        with pytest.raises(errors.ShapeError, match="differ"):
            join([x[None], pb.zeros((1, 3, 1))])
        with pytest.raises(errors.AxisError):
            join([x, x], axis=5)
        with pytest.raises(errors.InputTypeError, match="None"):
            join([x, None])


# Kernels, bodies and rules: the four cases -------------------------------------------------------


@pytest.mark.parametrize("kernel", [False, True])
@pytest.mark.parametrize("rule", [False, True])
def test_four_cases(define, offer, kernel, rule):
    calls = []

    @define(name="test_cube")
    def cube(x: TensorLike, /) -> Tensor:
        """x times x times x."""
        calls.append("body")
        return x * x * x

    if kernel:
        offer("test_cube", lambda x: calls.append("kernel") or x * x * x)
    if rule:
        cube.vjp(x=lambda g, x: calls.append("rule") or g * 3.0 * x * x)

    x = pb.asarray(2.0)
    assert float(cube(x)) == 8.0
    assert calls == ["kernel" if kernel else "body"]
    calls.clear()
    with pb.GradientTape() as outer:
        outer.watch(x)
        with pb.GradientTape() as tape:
            tape.watch(x)
            y = cube(x)
        g = tape.gradient(y, x)
    assert float(y) == 8.0
    assert float(g) == 12.0
    assert float(outer.gradient(g, x)) == 12.0
    # A kernel without a rule cannot be differentiated: the body is.
    assert calls == (["kernel" if kernel else "body", "rule"] if rule else ["body"])


def test_body_of_a_recorded_op_records_nothing(define):
    seen = []

    @define(name="test_double")
    def double(x: TensorLike, /) -> Tensor:
        """Twice x."""
        y = x + x
        seen.append(y._node)
        return y

    double.vjp(x=lambda g: g + g)
    x = pb.asarray(2.0)
    with pb.GradientTape() as tape:
        tape.watch(x)
        y = double(x)
    assert seen[0] is None or seen[0].op is None
    assert float(tape.gradient(y, x)) == 2.0


def test_body_that_gives_its_input_back(define):
    @define(name="test_same")
    def same(x: TensorLike, /) -> Tensor:
        """x."""
        return x

    x = pb.asarray([1.0, 2.0])
    y = same(x)
    y[0] = 5.0
    assert x.tolist() == [1.0, 2.0]
    two = same(2.0)
    two[...] = 7.0
    assert float(pb.asarray(1.0) * 2.0) == 2.0


def test_primitive_without_a_kernel_is_named(define):
    @define(name="test_none", primitive="Nothing can replace it.")
    def none(x: TensorLike, /) -> Tensor:
        """Nothing."""

    with pytest.raises(errors.MissingKernelError, match=r"test_none.*'numpy'.*float32"):
        none(pb.asarray(1.0))


def test_kernel_for_some_dtypes(define, offer):
    @define(name="test_some")
    def some(x: TensorLike, /) -> Tensor:
        """x plus x, or twice x where a kernel does it."""
        return x + x

    offer("test_some", lambda x: x * 0, dtypes=frozenset([dtypes.float64]))
    for _ in range(2):
        assert float(some(pb.asarray(1.0))) == 2.0
        assert float(some(pb.asarray(1.0, dtype="float64"))) == 0.0


def test_withdrawn_kernel_is_not_called_again(define, offer):
    @define(name="test_gone")
    def gone(x: TensorLike, /) -> Tensor:
        """Twice x."""
        return x + x

    offer("test_gone", lambda x: x * 0)
    x = pb.asarray(1.0)
    assert float(gone(x)) == float(gone(x)) == 0.0
    CPU.backend.unregister_kernels("test")
    assert float(gone(x)) == 2.0


# Several results, residuals, sequences -----------------------------------------------------------


@pytest.fixture
def split_product(define):
    """An op with two results: x * y and x + y, whose rule asks for its results."""

    def shape(x, y):
        return [shapes.broadcast_shapes(x, y)] * 2

    def dtype(operands):
        found = dtypes.numeric(operands)
        return dtypes.Resolution(found.inputs, found.outputs * 2)

    @define(name="test_both", shape=shape, dtype=dtype, outputs=("product", "total"))
    def both(x: TensorLike, y: TensorLike, /) -> tuple[Tensor, Tensor]:
        """The product and the sum."""
        return x * y, x + y

    @both.vjp("x")
    def _(g, y, product):
        return g[0] * (product / (product / y)) + g[1]

    @both.vjp("y")
    def _(g, x):
        return g[0] * x + g[1]

    return both


def test_several_results(split_product):
    x, y = pb.asarray([2.0, 3.0]), pb.asarray([5.0, 7.0])
    for targets, gx, gy in (
        (lambda p, s: [p, s], [6.0, 8.0], [3.0, 4.0]),
        (lambda p, s: p, [5.0, 7.0], [2.0, 3.0]),
        (lambda p, s: s, [1.0, 1.0], [1.0, 1.0]),
        (lambda p, s: p * s, [5 * 7 + 10.0, 7 * 10 + 21.0], [2 * 7 + 10.0, 3 * 10 + 21.0]),
    ):
        with pb.GradientTape() as tape:
            tape.watch([x, y])
            target = targets(*split_product(x, y))
        found = tape.gradient(target, [x, y])
        np.testing.assert_allclose(found[0].numpy(), gx, rtol=1e-6)
        np.testing.assert_allclose(found[1].numpy(), gy, rtol=1e-6)


def test_one_of_several_results_as_a_source(split_product):
    x, y = pb.asarray(2.0), pb.asarray(5.0)
    with pb.GradientTape() as tape:
        tape.watch([x, y])
        product, total = split_product(x, y)
        z = product * product * total
    gp, gt, gx = tape.gradient(z, [product, total, x])
    assert float(gp) == 2 * 10 * 7
    assert float(gt) == 100
    assert float(gx) == 140 * 5 + 100


def test_a_result_that_the_rule_uses_as_a_source_of_the_outer_tape(define):
    # exp as one of two results: its rule is g * out. What the gradient owes to `out` must arrive
    # at the very tensor that the caller holds.
    def dtype(operands):
        found = dtypes.floating(operands)
        return dtypes.Resolution(found.inputs, found.outputs * 2)

    @define(name="test_exp2", shape=lambda x: [x, x], dtype=dtype, outputs=("e", "twice"))
    def exp_and_twice(x: TensorLike, /) -> tuple[Tensor, Tensor]:
        """exp(x) and 2 x."""
        return pb.exp(x), x + x

    exp_and_twice.vjp(x=lambda g, e: g[0] * e + g[1] * 2.0)
    x = pb.asarray(0.5, dtype="float64")
    with pb.GradientTape() as outer:
        outer.watch(x)
        with pb.GradientTape() as inner:
            inner.watch(x)
            e, twice = exp_and_twice(x)
            z = e + twice
        g = inner.gradient(z, x)  # e + 2
    by_e, by_x = outer.gradient(g, [e, x])
    assert float(by_e) == 1.0
    assert float(by_x) == pytest.approx(np.exp(0.5))


@pytest.mark.parametrize("kernel", [False, True])
def test_residuals_in_every_order(define, offer, kernel):
    # The rule uses the hidden exponential; the second derivative needs the residual's own.
    @define(name="test_hidden", dtype=dtypes.floating, residuals=("e",))
    def hidden(x: TensorLike, /) -> tuple[Tensor, Tensor]:
        """exp(x) squared, with exp(x) kept."""
        e = pb.exp(x)
        return e * e, e

    hidden.vjp(x=lambda g, e: g * 2.0 * e * e)
    if kernel:
        offer("test_hidden", lambda x: (np.exp(x) ** 2, np.exp(x)))
    x = pb.asarray(0.5, dtype="float64")
    out = hidden(x)
    assert isinstance(out, Tensor)
    orders, tapes = [], [pb.GradientTape() for _ in range(3)]
    for tape in tapes:
        tape.__enter__()
        tape.watch(x)
    y = hidden(x)
    for tape in reversed(tapes):
        y = tape.gradient(y, x)
        orders.append(float(y))
    np.testing.assert_allclose(orders, [2**n * np.exp(1.0) for n in (1, 2, 3)])


def test_the_first_call_asks_for_no_residuals_either(define, offer):
    @define(name="test_spared", dtype=dtypes.floating, residuals=("e",))
    def spared(x: TensorLike, /) -> tuple[Tensor, Tensor]:
        """exp(x), kept."""
        e = pb.exp(x)
        return e, e

    spared.vjp(x=lambda g, e: g * e)
    asked = []

    def kernel(x, *, residuals=True):
        asked.append(residuals)
        return (np.exp(x), np.exp(x)) if residuals else np.exp(x)

    offer("test_spared", kernel)
    x = pb.asarray([0.5], dtype="float64")
    for _ in range(3):
        spared(x)
    with pb.GradientTape() as tape:
        tape.watch(x)
        y = spared(x)
    assert asked == [False, False, False, True]
    np.testing.assert_allclose(tape.gradient(y, x), np.exp([0.5]))


@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize("results", [1, 2])
def test_results_of_a_sequence_in_every_order(define, results, hidden):
    def values(xs):
        e = pb.exp(xs[0])
        return [e * xs[1], e * e][:results], e

    names = ("first", "second")[:results]

    def kinds(operands, **_):
        (dtype,) = set(operands)
        return dtypes.Resolution(tuple(operands), (dtype,) * results)

    @define(
        name="test_several",
        shape=lambda xs, **_: [xs[0]] * results,
        dtype=dtypes.DTypeRule(kinds),
        outputs=names if results > 1 else ("out",),
        residuals=("e",) if hidden else (),
    )
    def several(xs: Sequence[Tensor], /) -> tuple[Tensor, ...]:
        """exp(x0) * x1, and exp(x0) squared; exp(x0) may be kept."""
        found, e = values(xs)
        found += [e] if hidden else []
        return tuple(found) if len(found) > 1 else found[0]

    if hidden:

        def rule(g, xs, e):
            g, *more = g if results > 1 else (g,)
            return [sum([2.0 * e * e * one for one in more], g * e * xs[1]), g * e]
    else:

        def rule(g, xs):
            g, *more = g if results > 1 else (g,)
            e = pb.exp(xs[0])
            return [sum([2.0 * e * e * one for one in more], g * e * xs[1]), g * e]

    several.vjp(xs=rule)

    def orders(function):
        x, y = pb.asarray(0.5, dtype="float64"), pb.asarray(3.0, dtype="float64")
        found, tapes = [], [pb.GradientTape() for _ in range(3)]
        for tape in tapes:
            tape.__enter__()
            tape.watch([x, y])
        out = function([x, y])
        total = sum(i * one for i, one in enumerate(out if isinstance(out, tuple) else [out], 1))
        for tape in reversed(tapes):
            gradients = tape.gradient(total, [x, y], unconnected_gradients="zero")
            found += [float(g) for g in gradients]
            total = gradients[0] * 2 + gradients[1]
        return found

    expected = orders(lambda xs: tuple(values(xs)[0]))
    np.testing.assert_allclose(orders(several), expected, rtol=1e-12)


def test_kernel_that_returns_too_few_arrays(define, offer):
    @define(name="test_few", residuals=("e",))
    def few(x: TensorLike, /) -> tuple[Tensor, Tensor]:
        """x and x."""
        return x + x, x

    offer("test_few", lambda x: x)
    with pytest.raises(errors.BackendError, match=r"test_few.*returned 1 arrays, not the 2"):
        few(pb.asarray([1.0]))


def test_sequences():
    x, y = pb.asarray([1.0, 2.0]), pb.asarray([3.0])
    for given in ([x, y], (x, y), [x, [3.0]], [np.array([1.0, 2.0], np.float32), y], iter([x, y])):
        assert pb.concat(given).tolist() == [1.0, 2.0, 3.0]
    with pb.GradientTape() as tape:
        tape.watch([x, y])
        z = pb.concat([x, y, x]) * pb.asarray([1.0, 2.0, 3.0, 4.0, 5.0])
    gx, gy = tape.gradient(z, [x, y])
    assert gx.tolist() == [5.0, 7.0]
    assert gy.tolist() == [3.0]
    with pytest.raises(errors.PullbackError, match="concat"):
        pb.concat([])
    with pytest.raises(errors.PullbackError, match="concat"):
        pb.concat([x, None])


def odd_results():
    """Results that a kernel must not return, by their names in messages."""
    return {
        "str": "text", "bytes": b"bytes", "NoneType": None, "dict": {}, "object": object(),
        "type": int, "ellipsis": ..., "clongdouble of complex256": np.clongdouble(1),
        "ndarray of object": np.array([None]), "ndarray of <U1": np.array(["a"]),
    }  # fmt: skip


CALLS = {
    "exp": lambda: pb.exp(pb.asarray([1.0])),
    "add": lambda: pb.add(pb.asarray([1.0]), pb.asarray([2.0])),
    "sum": lambda: pb.sum(pb.asarray([1.0])),
    "concat": lambda: pb.concat([pb.asarray([1.0]), pb.asarray([2.0])]),
    "full": lambda: pb.full((2,), 1.0),
}


@pytest.mark.parametrize("kind", odd_results())
@pytest.mark.parametrize("name", CALLS)
def test_kernels_that_return_no_array(offer, name, kind):
    offer(name, lambda *args, **kwargs: odd_results()[kind])
    for _ in range(3):
        message = rf"^{name}: the kernel .*'numpy' in the kernel pack 'test' returned {kind}"
        with pytest.raises(errors.BackendError, match=message):
            CALLS[name]()


@pytest.mark.parametrize("results", [1, 2], ids=["no array", "too many"])
@pytest.mark.parametrize("name", CALLS)
def test_odd_kernels_of_a_backend_itself(name, results, monkeypatch):
    from pullback_numpy import NumPyBackend

    class Odd(NumPyBackend):
        name = "odd"
        kinds = ("gpu",)

        def device_count(self, kind):
            return 1

    monkeypatch.setattr(registry, "_slots", dict(registry._known()))
    monkeypatch.setattr(registry, "ready", dict(registry.ready))
    odd = Odd()
    odd.register_kernel(name, lambda *_, **__: ("text",) * results, source="odd", priority=1000)
    pb.register_backend(odd)
    fix = "fix the kernel" + ", or override Odd.native to accept that" * (results == 1)
    with pb.device("odd:gpu:0"):
        for _ in range(2):
            with pytest.raises(errors.BackendError, match=rf"^{name}: .*'odd' returned .*; {fix}$"):
                CALLS[name]()


@pytest.mark.parametrize("name", ["exp", "add", "sum", "concat"])
def test_kernels_that_return_an_array_at_first(offer, name):
    good = CALLS[name]()
    results = [good._array, good._array, "text", "text", good._array]
    offer(name, lambda *args, **kwargs: results.pop(0))
    for _ in range(2):
        assert CALLS[name]().tolist() == good.tolist()
    for _ in range(2):
        with pytest.raises(errors.BackendError, match=rf"^{name}: .*'test' returned str"):
            CALLS[name]()
    assert CALLS[name]().tolist() == good.tolist()


def test_kernels_that_return_too_many_arrays(offer):
    array = np.ones(1, np.float32)
    offer("exp", lambda x: (array, array))
    for _ in range(2):
        with pytest.raises(
            errors.BackendError, match=r"exp: .*'test' returned 2 arrays, not the 1"
        ):
            pb.exp(pb.asarray([1.0]))


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (KeyError("inv"), r"KeyError: 'inv'"),
        (AttributeError("no 'T'"), r"AttributeError: no 'T'"),
        (AssertionError(), "AssertionError"),
        (ValueError(), "ValueError"),
        (RuntimeError("no such instruction"), "no such instruction"),
        (ValueError("not sorted"), "not sorted"),
    ],
)
def test_what_a_kernel_raises_is_told_with_its_class_where_the_message_needs_it(offer, error, said):
    def raises(x):
        raise error

    offer("exp", raises)
    with pytest.raises(errors.PullbackError) as caught:
        pb.exp(pb.asarray([1.0]))
    assert str(caught.value) == f"exp(float32[1]): {said}"


def test_the_error_of_a_kernel_quotes_the_call(offer):
    def fails(*inputs, **attributes):
        raise RuntimeError("no luck")

    offer("layer_norm", fails), offer("reshape", fails)
    with pytest.raises(errors.BackendError) as caught:
        pb.layer_norm(pb.ones((2, 3)), None, None, axis=1)
    assert "layer_norm(float32[2, 3], None, None, axis=(1,), epsilon=" in str(caught.value)
    shape = (1,) * 60
    with pytest.raises(errors.BackendError) as caught:
        pb.reshape(pb.ones(()), shape)
    quoted = re.search(r"shape=(.*)\.\.\.\)", str(caught.value))[1]
    assert repr(shape).startswith(quoted)
    assert len(quoted) == 77


def test_native_results_are_taken_as_they_are():
    class Sure(type(CPU.backend)):
        name = "sure"

        def native(self, value):
            pytest.fail(f"{value!r} is native already")

    pb.register_backend(Sure(), replace=True)
    try:
        x = pb.asarray([[2.0, 0.0], [0.0, 1.0]], device="sure")
        # Of one array, of none, of a sequence; of one result and of several.
        pb.exp(x), pb.ones((2,), device="sure"), pb.concat([x, x]), pb.linalg.qr(x)
    finally:
        registry._slots.pop("sure")
        registry.ready.pop("sure")
