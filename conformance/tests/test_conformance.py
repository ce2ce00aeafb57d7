"""The kit finds what is wrong: every check is shown an op or a kernel that breaks it."""

import contextlib

import numpy as np
import pytest

import pullback as pb
from pullback.devices import as_device
from pullback.spec import OPS, Rule
from pullback_conformance import checks, gradients
from pullback_conformance.accuracy import ulp
from pullback_conformance.case import Case, cases, runs_body
from pullback_conformance.compare import ConformanceError, identical, near
from pullback_conformance.draws import cnormal, normal
from pullback_conformance.registry import CHECKS
from pullback_conformance.sample import Sample, Suite

CPU = as_device("cpu")


@contextlib.contextmanager
def kernel_of(name, kernel):
    """Another kernel in the place of the backend's."""
    CPU.backend.register_kernel(name, kernel, source="test", priority=1000)
    try:
        yield
    finally:
        CPU.backend.unregister_kernels("test")


@contextlib.contextmanager
def rule_of(name, function, target="x1"):
    """Another gradient rule of an op."""

    op = OPS[name]
    rule, vjp = op.rules[target], op.vjp
    op.rules[target] = Rule(rule.targets, rule.needs, function, joint=rule.joint)
    op.function.__globals__.update(_rule0=function)
    try:
        yield
    finally:
        op.rules[target], op.vjp = rule, vjp
        op.function.__globals__.update(_rule0=rule.function)


def case(name, reference, *inputs, dtype="float64", **attributes):
    suite = Suite(name, (Sample(tuple(inputs), attributes),), reference)
    found = {str(one.dtype): one for one in cases(OPS[name], suite, CPU)}
    return found.get(dtype) or found["None"]


A, B = normal(3, 4), normal(3, 4, seed=1)


def multiply(dtype="float64"):
    return case("multiply", np.multiply, A, B, dtype=dtype)


#: The checks of a case that need no more of a backend than its kernels.
OF_CASES = [
    check
    for check in CHECKS.values()
    if check.per in ("case", "dtype") and check.name not in ("in_place", "kept", "prepared")
]
ALL = pytest.mark.parametrize("check", OF_CASES, ids=lambda check: check.name)


@ALL
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_right_op_passes(check, dtype):
    found = multiply(dtype)
    if check.applies(found):
        check.function(found)


@ALL
def test_right_complex_op_passes(check):
    found = case("multiply", np.multiply, cnormal(3, 4), cnormal(3, 4, seed=5), dtype="complex128")
    if check.applies(found):
        check.function(found)


# Values ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_two_ulp_too_far(dtype):
    def kernel(x1, x2):
        right = np.multiply(x1, x2)
        return np.nextafter(np.nextafter(right, np.inf, dtype=dtype), np.inf, dtype=dtype)

    with kernel_of("multiply", kernel), pytest.raises(ConformanceError, match=r"ulp, allowed [01]"):
        checks.value(multiply(dtype))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_one_ulp_is_rounded(dtype):
    def kernel(x1, x2):
        return np.nextafter(np.multiply(x1, x2), np.float64(np.inf), dtype=dtype)

    with kernel_of("multiply", kernel):
        checks.value(multiply(dtype))


def test_one_wrong_element_is_named():
    def kernel(x1, x2):
        right = np.multiply(x1, x2)
        right[1, 2] += 1
        return right

    with kernel_of("multiply", kernel), pytest.raises(ConformanceError, match=r"at \(1, 2\).*1 of"):
        checks.value(multiply())


TINY = float(np.finfo(np.float32).smallest_normal)


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_flushed_numbers_do_not_hide_an_error_of_others(dtype):
    unit = 1j if dtype == "complex64" else 1
    x = np.array([TINY / 2, TINY / 4, 1.0, 2.0, 3.0]) * unit
    parts = []

    def kernel(x1, x2):
        right = np.multiply(x1, x2)
        right[np.abs(right) < TINY] = 0
        for place, ulps in parts:
            right[place] += ulps * 2.0**-23 * unit
        return right

    flushed = case("multiply", np.multiply, x, np.ones(5) * abs(unit), dtype=dtype)
    with kernel_of("multiply", kernel):
        with pytest.raises(ConformanceError) as caught:
            checks.value(flushed)
        said = str(caught.value)
        assert " at (0,)" in said
        assert "; 2 of 5 elements, all of them near the smallest normal number" in said
        parts += [(2, 9), (3, 48), (4, 10)]
        with pytest.raises(ConformanceError) as caught:
            checks.value(flushed)
        said = str(caught.value)
        assert " at (3,)" in said
        assert ": 24 ulp, allowed" in said
        assert said.endswith("; 5 of 5 elements, 2 of them near the smallest normal number")


def test_a_large_result_in_the_place_of_a_small_one_is_no_flushed_number():
    def kernel(x1, x2):
        right = np.multiply(x1, x2)
        right[1] = 0.5
        return right

    wrong = case("multiply", np.multiply, np.array([1.0, 0.0]), np.ones(2), dtype="float32")
    with (
        kernel_of("multiply", kernel),
        pytest.raises(ConformanceError, match=r"; 1 of 2 elements$"),
    ):
        checks.value(wrong)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_not_finite_where_the_reference_is(value):
    def kernel(x1, x2):
        right = np.multiply(x1, x2)
        right[0, 0] = value
        return right

    with kernel_of("multiply", kernel), pytest.raises(ConformanceError):
        checks.value(multiply())


def test_finite_where_the_reference_is_not():
    def kernel(x1, x2):
        return np.nan_to_num(np.multiply(x1, x2))

    for bad in (np.nan, np.inf):
        wrong = case("multiply", np.multiply, np.array([bad, 1.0]), np.array([1.0, 1.0]))
        with kernel_of("multiply", kernel), pytest.raises(ConformanceError):
            checks.value(wrong)


def test_infinity_of_the_other_sign():
    def kernel(x1, x2):
        return np.abs(np.multiply(x1, x2))

    wrong = case("multiply", np.multiply, np.array([-np.inf]), np.array([1.0]))
    with kernel_of("multiply", kernel), pytest.raises(ConformanceError, match="infinities"):
        checks.value(wrong)


def test_computed_in_a_narrower_dtype():
    def kernel(x1, x2):
        return np.multiply(x1.astype(np.float32), x2.astype(np.float32)).astype(np.float64)

    with kernel_of("multiply", kernel), pytest.raises(ConformanceError, match="ulp"):
        checks.value(multiply())


def test_sum_in_half_precision():
    # Added up in float16, 2000 terms are off by much more than the one rounding that is allowed.
    def kernel(x, *, axis, dtype, keepdims):
        total = np.float16(0)
        for one in x.ravel():
            total = np.float16(total + one)
        return np.asarray(total)

    wrong = case("sum", np.sum, np.linspace(0.01, 1.0, 2000), dtype="float16")
    with kernel_of("sum", kernel), pytest.raises(ConformanceError, match="ulp"):
        checks.value(wrong)


def test_wrong_integers():
    def kernel(x1, x2):
        return np.multiply(x1, x2) + np.int32(x1 == 3)

    wrong = case("multiply", np.multiply, np.array([1, 3], np.int32), np.array([1, 2], np.int32))
    with kernel_of("multiply", kernel), pytest.raises(ConformanceError, match="allowed: none"):
        checks.value(wrong)


# Rules, inputs, layouts --------------------------------------------------------------------------


def test_wrong_dtype():
    def kernel(x1, x2):
        return np.multiply(x1, x2).astype(np.float64)

    with kernel_of("multiply", kernel), pytest.raises(ConformanceError, match="the rule says"):
        checks.rules(multiply("float32"))


def test_wrong_shape():
    def kernel(x1, x2):
        return np.multiply(x1, x2)[None]

    with kernel_of("multiply", kernel):
        with pytest.raises(ConformanceError, match="shape"):
            checks.rules(multiply())
        with pytest.raises(ConformanceError, match="shape"):
            checks.value(multiply())


def test_kernel_that_writes_into_its_input():
    def kernel(x1, x2):
        return np.multiply(x1, x2, out=x1)

    with kernel_of("multiply", kernel), pytest.raises(ConformanceError, match="input 0"):
        checks.unchanged(multiply())


def test_rule_that_writes_into_a_result():
    def rule(g, x2):
        x2._array *= 1.5
        return g * x2

    with rule_of("multiply", rule), pytest.raises(ConformanceError):
        checks.unchanged(multiply())


def test_kernel_that_is_not_deterministic():
    noise = iter(range(100))

    def kernel(x1, x2):
        return np.multiply(x1, x2) * (1 + 1e-16 * 2 * next(noise))

    with kernel_of("multiply", kernel), pytest.raises(ConformanceError, match="second call"):
        checks.deterministic(multiply())


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_kernel_that_reads_memory_in_its_own_order(dtype):
    def kernel(x1, x2):
        if x1.flags.c_contiguous:
            return np.multiply(x1, x2)
        return np.multiply(x1, np.ascontiguousarray(x2.ravel("K").reshape(x2.shape)))

    with kernel_of("multiply", kernel), pytest.raises(ConformanceError, match="column-major"):
        checks.layouts(multiply(dtype))


def test_body_that_differs_from_its_kernel():
    wrong = case("softmax", reference_softmax, A)
    checks.body(wrong)

    def kernel(x, *, axis):
        return np.zeros_like(x)

    with kernel_of("softmax", kernel):
        with pytest.raises(ConformanceError):
            checks.value(wrong)
        checks.body(wrong)


def test_residuals_that_mean_something_else():
    x = case("rms_norm", reference_rms_norm, A)
    checks.body(x)
    right = CPU.backend.kernel("rms_norm", np.dtype("float64"))

    def kernel(*inputs, **attributes):
        *results, last = right(*inputs, **attributes)
        return (*results, 1 / last)

    with kernel_of("rms_norm", kernel):
        checks.value(x)
        with pytest.raises(ConformanceError, match="of the kernel"):
            checks.body(x)


def reference_rms_norm(x):
    return x / np.sqrt(np.mean(x * x, -1, keepdims=True) + 1e-5)


def reference_softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


# Gradients ---------------------------------------------------------------------------------------


def test_wrong_gradient():
    with rule_of("multiply", lambda g, x2: g * x2 * 1.0001):
        with pytest.raises(ConformanceError, match=r"with respect to x1 at \(0, .\)"):
            gradients.gradient(multiply())
        with pytest.raises(ConformanceError):
            gradients.second_gradient(multiply())


def test_gradient_with_a_conjugate_too_much():
    wrong = case("multiply", np.multiply, cnormal(2, 2), cnormal(2, 2, seed=3), dtype="complex128")
    with (
        rule_of("multiply", lambda g, x2: g * pb.conj(x2)),
        pytest.raises(ConformanceError, match="gradient"),
    ):
        gradients.gradient(wrong)


def test_gradient_that_is_right_but_a_dead_end():
    # The first derivative agrees; the second is cut off.
    def rule(g, x2):
        return g * pb.stop_gradient(x2)

    with rule_of("multiply", rule):
        gradients.gradient(multiply())
        with pytest.raises(ConformanceError, match="second gradient"):
            gradients.second_gradient(multiply())


def test_gradient_that_is_cut_off_from_its_cotangent():
    def rule(g, x2):
        return pb.stop_gradient(g) * x2

    with rule_of("multiply", rule):
        gradients.gradient(multiply())
        with pytest.raises(ConformanceError, match="cotangent"):
            gradients.second_gradient(multiply())


def test_gradient_of_another_dtype():
    def rule(g, x2):
        return (g * x2).astype("float64")

    with rule_of("multiply", rule), pytest.raises(ConformanceError, match="float32"):
        gradients.narrow_gradient(multiply("float32"))


def test_gradient_that_overflows_in_half_precision():
    def rule(g, x2):
        return g * (x2 * 60000.0) / 60000.0

    with rule_of("multiply", rule), pytest.raises(ConformanceError, match="off by"):
        gradients.narrow_gradient(multiply("float16"))


def test_missing_gradient():
    wrong = multiply()
    rule = OPS["multiply"].rules["x2"]
    with rule_of("multiply", lambda g, x2: None):
        assert rule is not None
        with pytest.raises(ConformanceError, match="with respect to x1"):
            gradients.gradient(wrong)


# Errors ------------------------------------------------------------------------------------------


def wrong_calls(*errors):
    suite = Suite("matmul", (), np.matmul, tuple(errors))
    checks.wrong_calls(checks.Calls(OPS["matmul"], suite, CPU))


def test_wrong_calls():
    shapes = (normal(2, 3), normal(2, 3))
    wrong_calls((shapes, {}, pb.errors.ShapeError))
    with pytest.raises(ConformanceError, match="not DTypeError"):
        wrong_calls((shapes, {}, pb.errors.DTypeError))
    with pytest.raises(ConformanceError, match="was to be raised"):
        wrong_calls(((normal(2, 3), normal(3, 2)), {}, pb.errors.ShapeError))


@pytest.mark.parametrize(
    ("name", "told", "fine"),
    [
        ("take", "take", True),
        ("take", "an op", False),
        ("segment_max", "segment_max", True),
        ("segment_max", "scatter_max", True),  # an op of its body
        ("segment_max", "an op", False),
    ],
)
def test_errors_that_come_late_name_an_op(name, told, fine, monkeypatch):
    def late(device):
        raise pb.errors.IndexingError(f"{told}: an index is outside an axis")

    inputs = (normal(2, 2), np.zeros(2, np.int64), *([3] if name == "segment_max" else []))
    calls = checks.Calls(
        OPS[name], Suite(name, (), np.take, ((inputs, {}, pb.errors.IndexingError),)), CPU
    )
    assert runs_body(OPS[name], CPU) == (name == "segment_max")
    monkeypatch.setattr(CPU.backend, "synchronize", late)
    with contextlib.nullcontext() if fine else pytest.raises(ConformanceError, match="not name"):
        checks.wrong_calls(calls)


# Comparison --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_ulp_is_the_spacing(dtype):
    info = np.finfo(dtype)
    values = np.array([1, 1.5, 2, 3e-3, info.max / 3, info.tiny, info.smallest_subnormal, 0], dtype)
    np.testing.assert_array_equal(ulp(values.astype(np.float64), np.dtype(dtype)),
                                  np.spacing(values).astype(np.float64))  # fmt: skip


def test_ulp_of_bfloat16():
    values = np.array([1.0, 2.0, 1e-40, 0.0])
    expected = [2**-7, 2**-6, 2.0**-133, 2.0**-133]
    np.testing.assert_array_equal(ulp(values, pb.bfloat16), expected)


def test_largest_number_and_infinity_are_neighbours():
    large = np.finfo(np.float32).max
    result, reference = np.array([np.inf], np.float32), np.array([float(large)])
    near("x", result, reference, np.array([2.0**104]), np.dtype("float32"), "it")
    with pytest.raises(ConformanceError):
        near("x", result, reference / 2, np.array([1e30]), np.dtype("float32"), "it")


def test_identical_tells_zeros_apart():
    with pytest.raises(ConformanceError, match="-0"):
        identical("x", np.array([0.0]), np.array([-0.0]), "it")
    identical("x", np.array([np.nan]), np.array([-np.nan]), "it")


def test_case_has_a_readable_name():
    assert str(multiply("float32")) == "multiply[[3,4]x[3,4],float32]"
    named = Case(OPS["multiply"], None, Sample((A, B), note="plain"), CPU, None)
    assert str(named) == "multiply[plain]"


def test_a_complex_number_beyond_the_range_is_not_finite():
    """A part may be NaN, as of a product of what overflowed; real numbers have their infinity."""
    beyond, bound = np.array([1e46 + 1e46j]), np.zeros(1)
    for parts in ((np.inf, np.inf), (np.nan, np.nan), (np.inf, np.nan)):
        found = np.array([complex(*parts)], np.complex64)
        near("x", found, beyond, bound, pb.complex64, "the result")
    for found in (1.0, 3e38 + 0j):
        given = np.array([found], np.complex64)
        with pytest.raises(ConformanceError):
            near("x", given, beyond, bound, pb.complex64, "the result")
    nan = np.array([np.nan + 0j], np.complex64)
    with pytest.raises(ConformanceError, match="NaN"):
        near("x", nan, np.array([1.0 + 0j]), bound, pb.complex64, "the result")
    with pytest.raises(ConformanceError, match="NaN"):
        near("x", nan.real, np.array([1e46]), bound, pb.float32, "the result")
