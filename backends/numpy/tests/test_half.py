"""16-bit floats, computed in float32: the same bits as one rounding of the exact result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pullback.casting import cast
from pullback.dtypes import DType, bfloat16, float16, float32
from pullback_numpy import half
from pullback_numpy.kernels import KERNELS, KERNELS_BY_DTYPE
from pullback_numpy.kernels.half import _COMPARISONS, _FUNCTIONS
from pullback_numpy.typing import Array

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

_DTYPES = [float16, bfloat16]
_SMALL = 1000
_EXACT: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "sqrt": np.sqrt,
    "reciprocal": np.reciprocal,
}
_ONE_INPUT = {
    *("hard_tanh", "relu6", "sign"),
    *("abs", "negative", "reciprocal", "sqrt", "square", "floor", "ceil", "trunc", "round"),
    *_FUNCTIONS,
}
_ROUNDED_TWICE = {*_FUNCTIONS, "pow", "atan2", "logaddexp", "logaddexp2", "hypot"}
_TABLE = [(op, d) for (op, dtypes) in KERNELS_BY_DTYPE for d in _DTYPES if d in dtypes]


def everything(dtype: DType) -> Array:
    """All 65,536 bit patterns, those that are finite together."""
    x = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    finite = np.isfinite(x)
    return np.concatenate([x[finite], x[~finite]])


def same(found: Any, expected: Any) -> Any:
    """Tests whether each element is the same, the sign of zeros too, or both are NaN."""
    bits = np.dtype(f"u{expected.itemsize}")
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    alike = found.view(bits) == expected.view(bits)
    return alike | ((found != found) & (expected != expected))


def by_dtype(name: str, dtype: DType) -> Callable[..., Any]:
    return next(
        kernel
        for (op, dtypes), kernel in KERNELS_BY_DTYPE.items()
        if op == name and dtype in dtypes
    )


def piecewise(name: str, *inputs: Array, **attributes: Any) -> Array:
    """Returns what NumPy makes of few elements at a time, number by number."""
    parts = [
        KERNELS[name](*(array[i : i + _SMALL] for array in inputs), **attributes)
        for i in range(0, inputs[0].size, _SMALL)
    ]
    return np.concatenate(parts)


class TestConversions:
    def test_to_float32(self) -> None:
        x = everything(float16)
        assert same(half.astype(x, float32), x.astype(float32)).all()
        finite = x[np.isfinite(x)]
        assert same(half.astype(finite, float32), finite.astype(float32)).all()
        assert same(half.astype(finite[::-2], float32), finite[::-2].astype(float32)).all()

    def test_from_float32(self) -> None:
        # Each number, the midpoint to the next one, and the float32 beside both.
        x = everything(float16)
        x = np.sort(x[np.isfinite(x)].astype(float32))
        points = np.concatenate([x, (x[1:] + x[:-1]) / 2])
        near = [np.nextafter(points, float32.type(side)) for side in (-np.inf, np.inf)]
        y = np.concatenate([points, *near])
        assert same(half.astype(y, float16), y.astype(float16)).all()

    @pytest.mark.parametrize("seed", range(3))
    def test_random_bits(self, seed: int) -> None:
        draw = np.random.default_rng(seed)
        y = draw.integers(0, 1 << 32, 1 << 18, dtype=np.uint32).view(float32)
        assert same(half.astype(y, float16), y.astype(float16)).all()
        finite = y[np.abs(y) < 65520]
        for some in (y[y == y], finite, finite[::3]):  # infinities without NaN, and neither
            assert some.size > half.FEW
            assert same(half.astype(some, float16), some.astype(float16)).all()


@pytest.mark.parametrize("dtype", _DTYPES)
@pytest.mark.parametrize("name", _EXACT)
def test_arithmetic_is_rounded_once(name: str, dtype: DType) -> None:
    draw = np.random.default_rng(0)
    x = everything(dtype)
    inputs = [x] if name in _ONE_INPUT else [x, draw.permutation(x)]
    for part in (slice(None), slice(1 << 15)):  # the second without infinities
        arrays = [array[part] for array in inputs]
        exact = _EXACT[name](*(array.astype(np.float64) for array in arrays))
        assert same(by_dtype(name, dtype)(*arrays), cast(exact, dtype)).all()


@pytest.mark.parametrize(("name", "dtype"), _TABLE)
def test_many_elements_have_the_values_of_few(name: str, dtype: DType) -> None:
    draw = np.random.default_rng(1)
    x = everything(dtype)
    kernel = by_dtype(name, dtype)
    if name == "fixed_power":
        attributes = {"exponent": 3.0}
        inputs = [x]
    else:
        attributes = {}
        inputs = [x] if name in _ONE_INPUT else [x, draw.permutation(x)]
        inputs += [draw.permutation(x)] if name == "clip" else []
    found = kernel(*inputs, **attributes)
    if name not in _ROUNDED_TWICE:
        expected = piecewise(name, *inputs, **attributes)
        # Between -0 and 0 a bound may choose either.
        alike = found == expected if name in ("relu6", "hard_tanh") else False
        assert (same(found, expected) | alike).all()
        return
    # Within an ulp of float32: seldom the next 16-bit float.
    wide = KERNELS[name](*(array.astype(np.float64) for array in inputs))
    expected = cast(wide, dtype)
    assert ((found == expected) | same(found, expected)).mean() > 0.98
    assert ((found == found) == (expected == expected)).all()
    assert np.abs(_rank(found) - _rank(expected))[found == found].max() <= 1


def _rank(x: Array) -> Array:
    """Integers in the order of the numbers, one apart for neighbours."""
    bits = x.view(np.int16).astype(np.int32)
    return np.where(bits < 0, -(bits & 0x7FFF), bits)


@pytest.mark.parametrize("dtype", _DTYPES)
@pytest.mark.parametrize("name", ["subtract", "maximum", "remainder", *_COMPARISONS[:3]])
def test_layouts(name: str, dtype: DType) -> None:
    draw = np.random.default_rng(2)
    x = draw.standard_normal((200, 300)).astype(dtype)
    number = np.asarray(0.75, dtype)
    kernel = by_dtype(name, dtype)
    others = [x[::-1], x.T.copy().T, x[:1], x[:, :1], x[3], number, number.reshape(1, 1)]
    pairs = [(x, other) for other in others] + [(other, x) for other in others]
    for inputs in [*pairs, (x[:, ::2], x[::-1, 1::2]), (x[:, :, None], number)]:
        expected = KERNELS[name](*(array.astype(float32) for array in inputs))
        if name not in _COMPARISONS:
            expected = expected.astype(dtype)
        assert same(kernel(*inputs), expected).all()


@pytest.mark.parametrize("dtype", _DTYPES)
def test_clip_without_a_bound(dtype: DType) -> None:
    x = everything(dtype)
    bound = np.asarray(0.5, dtype)
    kernel = by_dtype("clip", dtype)
    assert same(kernel(x, None, bound), piecewise("minimum", x, np.full_like(x, bound))).all()
    assert same(kernel(x, bound, None), piecewise("maximum", x, np.full_like(x, bound))).all()


@pytest.mark.parametrize("dtype", _DTYPES)
@pytest.mark.parametrize("axis", [None, (0,), (1,)])
def test_extrema(dtype: DType, axis: Any) -> None:
    x = everything(dtype)[: 1 << 15].reshape(256, 128)
    for x_ in (x, x[::-1], x.T, np.broadcast_to(x[0], x.shape)):
        for name, ufunc in (("max", np.maximum), ("min", np.minimum)):
            found = np.asarray(KERNELS[name](x_, axis=axis, keepdims=False))
            expected = np.asarray(ufunc.reduce(x_.astype(np.float64), axis)).astype(dtype)
            assert (found == expected).all()


@pytest.mark.parametrize("dtype", _DTYPES)
def test_relu(dtype: DType) -> None:
    x = everything(dtype)
    without = x[~((x != x) & np.signbit(x))]  # NaN with the sign bit is not the largest number
    for some in (x, without, without[:1024].reshape(2, -1)[:, ::3], without[:0]):
        found = KERNELS["relu"](some)
        assert ((found == np.maximum(some.astype(float32), 0)) | (some != some)).all()
        assert (found != found).tolist() == (some != some).tolist()
        for out in (found, some):
            g = np.arange(out.size, dtype=float32).reshape(out.shape).astype(dtype)
            expected = np.where(out.astype(float32) > 0, g, dtype.type(0))
            assert same(np.ascontiguousarray(KERNELS["relu_gradient"](g, out)), expected).all()
