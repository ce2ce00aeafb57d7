"""Python numbers beside a tensor for which an op has a shorter form: `x ** 3`, `2 ** x`, `x // 1`.

The results are those of the op on two tensors, as near as its class of accuracy says: for all
16-bit floats, and for random bits of the others, which have infinities, NaN, subnormal numbers and
the numbers whose powers are among these.
"""

from __future__ import annotations

import operator
import warnings
from typing import ClassVar

import numpy as np
import pytest

import pullback as pb
from pullback import array_api
from pullback.plugins.public import registry
from pullback.spec import OPS
from pullback_conformance.accuracy import EXTENDED

FLOATS = ["float16", "bfloat16", "float32", "float64"]
EXPONENTS = [1, 2, 3, 4, 5, -1, -2, 0.5, -0.5]


def every_size(dtype):
    """All numbers of 16 bits, or random bits, and powers near 1, where no digit is hidden."""
    dtype = pb.asarray(0.0, dtype=dtype).numpy().dtype
    bits = np.dtype(f"u{dtype.itemsize}")
    if dtype.itemsize == 2:
        return np.arange(2**16).astype(bits).view(dtype)
    rng = np.random.default_rng(5)
    wide = rng.integers(0, 2 ** (8 * dtype.itemsize), 20_000, dtype=np.uint64).astype(bits)
    edge = np.finfo(dtype)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, edge.tiny, edge.smallest_subnormal, edge.max]
    roots = [float(edge.max) ** (1 / n) for n in (2, 3, 4, 5)]
    roots += [float(edge.smallest_subnormal) ** (1 / n) for n in (2, 3, 4, 5)]
    near = np.outer(roots, rng.uniform(0.5, 2, 500)).reshape(-1)
    parts = [wide.view(dtype), special, near, rng.normal(size=9000), rng.uniform(1, 2, 9000)]
    return np.concatenate([np.asarray(part).astype(dtype) for part in parts])


def distance(found, exact, dtype):
    """The distance from the exact result in units in the last place; infinite for an infinity."""
    limits = pb.finfo(dtype)
    wide = found.astype(np.longdouble)
    rounded = exact.astype(found.dtype).astype(np.longdouble)
    same = (wide == rounded) | (np.isnan(wide) & np.isnan(rounded))
    finite = np.isfinite(wide) & np.isfinite(exact)
    size = np.maximum(np.abs(exact), limits.smallest_normal)
    unit = np.exp2(np.floor(np.log2(np.where(finite, size, 1)))) * limits.eps
    off = np.where(finite, np.abs(wide - exact) / unit, np.inf)
    # A result beside the largest number may be rounded to infinity, and back.
    last = np.abs(exact) > np.longdouble(limits.max) * (1 - 3 * np.longdouble(limits.eps))
    return np.where(same | (last & (np.sign(wide) == np.sign(exact))), 0, off)


def same_bits(found, expected):
    """Equal, in the signs of zeros too; NaN where the other is NaN."""
    with np.errstate(invalid="ignore"):  # NumPy's casts of some NaN
        pair = [one.numpy().astype(np.float64) for one in (found, expected)]
    np.testing.assert_array_equal(*pair)
    np.testing.assert_array_equal(*[np.signbit(one) & ~np.isnan(one) for one in pair])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("exponent", EXPONENTS)
def test_powers_are_as_accurate_as_pow(exponent, dtype):
    if dtype == "float64" and not EXTENDED:
        pytest.skip("no longer floats than float64 here")
    x = every_size(dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Exponents that do not broadcast: NumPy has a form of its own for one of 0.5.
        exact = np.power(x.astype(np.longdouble), np.full(x.shape, exponent, np.longdouble))
        tensor = pb.asarray(x)
        one = pb.asarray(exponent, dtype=dtype)
        # The operator, its number in a tensor, and the body that other backends run.
        results = [tensor**exponent, tensor ** float(exponent)]
        results += [pb.pow(tensor, one), pb.pow(tensor, one[None])]
        if exponent not in (1, 2, -1):
            results.append(pb.ops.fixed_power.spec.body(tensor, exponent=exponent))
        for found in results:
            assert distance(found.numpy(), exact, dtype).max() <= (4 if x.itemsize > 2 else 0.501)
            zero = exact == 0
            assert (np.signbit(found.numpy()) == np.signbit(exact))[zero].all()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("exponent", EXPONENTS)
def test_a_kernel_has_the_bits_of_the_body(exponent, dtype):
    x = pb.asarray(every_size(dtype))
    if exponent in (1, 2, -1):
        body = {1: x, 2: x * x, -1: 1 / x}[exponent]
    else:
        body = pb.ops.fixed_power.spec.body(x, exponent=exponent)
    captured = pb.function(lambda v: v**exponent)
    for found in (x**exponent, captured(x), captured(x), captured(x)):
        same_bits(found, body)


@pytest.mark.parametrize("dtype", FLOATS)
def test_powers_of_two(dtype):
    x = every_size(dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exact = np.exp2(x.astype(np.longdouble))
        found = (2 ** pb.asarray(x)).numpy()
        assert distance(found, exact, dtype).max() <= 4


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("function", [operator.floordiv, operator.mod])
def test_quotients_by_1(function, dtype):
    x = every_size(dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # As of two tensors of one shape, bit for bit.
        expected = function(pb.asarray(x), pb.ones(x.shape, dtype=dtype))
        for number in (1, 1.0, pb.asarray(1, dtype=dtype)):
            same_bits(function(pb.asarray(x), number), expected)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "uint64"])
@pytest.mark.parametrize("exponent", [1, 2, 3, 4, 5])
def test_integers_wrap_as_those_of_pow(exponent, dtype):
    info = pb.iinfo(dtype)
    x = np.array([info.min, info.max, 0, 1, 2, 7, 100], dtype)
    expected = np.power(x, np.full(x.shape, exponent, dtype))
    found = pb.asarray(x) ** exponent
    assert found.dtype == dtype
    np.testing.assert_array_equal(found.numpy(), expected)
    assert (pb.asarray(x) ** float(exponent)).dtype == pb.result_type(pb.asarray(x), 1.0)


@pytest.mark.parametrize("kind", [pb.asarray, pb.Variable], ids=["tensor", "variable"])
def test_what_has_no_form_is_computed_as_before(kind):
    x = kind([0.5, 2.0])
    for exponent in (0, 0.0, -0.0, 6, 2.5, -3, float("inf"), True, 2 + 0j):
        expected = np.asarray(x) ** np.full(2, exponent)
        np.testing.assert_allclose((x**exponent).numpy(), expected, rtol=1e-6)
    assert np.isnan((x ** float("nan")).numpy()).all()
    np.testing.assert_allclose((True**x).numpy(), 1)
    np.testing.assert_allclose((3**x).numpy(), [3**0.5, 9], rtol=1e-6)
    truth = pb.asarray([True, False])
    assert (truth**2).dtype == (truth ** pb.asarray(2)).dtype == pb.int32
    assert (pb.asarray([1j]) ** 2).tolist() == pb.pow(
        pb.asarray([1j]), pb.asarray([2 + 0j])
    ).tolist()


@pytest.mark.parametrize("exponent", [*EXPONENTS, 0, 6, 1.5])
@pytest.mark.parametrize("shape", [None, (), (1,), (7,)])
def test_gradients_are_those_of_pow(exponent, shape):
    point = np.linspace(0.3, 3, 7)

    def slopes(function):
        found, x = [], pb.asarray(point)
        with pb.GradientTape() as third:
            third.watch(x)
            with pb.GradientTape() as second:
                second.watch(x)
                with pb.GradientTape() as first:
                    first.watch(x)
                    y = pb.sum(function(x))
                found.append(first.gradient(y, x))
                total = pb.sum(found[0])
            found.append(second.gradient(total, x, unconnected_gradients="zero"))
            total = pb.sum(found[1])
        found.append(third.gradient(total, x, unconnected_gradients="zero"))
        return found

    n = exponent
    expected = [
        n * point ** (n - 1),
        n * (n - 1) * point ** (n - 2),
        n * (n - 1) * (n - 2) * point ** (n - 3),
    ]
    given = n if shape is None else pb.full(shape, n, dtype="float64")
    for found, exact in zip(slopes(lambda x: x**given), expected, strict=True):
        np.testing.assert_allclose(found.numpy(), exact, rtol=1e-12, atol=1e-12)


def test_each_form_is_one_of_an_op_with_two_inputs():
    with_forms = {op.name: sorted(op.number_forms) for op in OPS.values() if op.number_forms}
    assert with_forms == {"floor_divide": [1], "pow": sorted(EXPONENTS)}


def test_the_error_squared_by_hand_is_a_square():
    @pb.function
    def loss(x, y):
        return pb.mean((x - y) ** 2)

    x, y = pb.ones(8), pb.full(8, 3.0)
    assert [float(loss(x, y)) for _ in range(3)] == [4.0] * 3
    assert "pow" not in str(loss.explain())


def test_dtypes_of_two_libraries_are_not_compared():
    """Those of `array_api_strict` warn when they are, here that is an error."""
    strict = pytest.importorskip("array_api_strict")

    class Strict(pb.Backend):
        name = "strict-forms"
        dtypes: ClassVar = {pb.float32: strict.float32, pb.bool: strict.bool}
        kernels: ClassVar = array_api.kernels(strict)

        def from_host(self, array, device, *, copy):
            return strict.asarray(array, copy=True)

        def to_host(self, array):
            return np.asarray(array)

    pb.register_backend(Strict(), replace=True)
    for _ in range(2):
        for device in ("strict-forms:cpu:0", "cpu"):
            x = pb.asarray(np.ones(3, np.float32), device=device)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                assert (x**2).tolist() == (x // 1).tolist() == [1, 1, 1]
    registry._slots.pop("strict-forms")
    registry.ready.pop("strict-forms")
