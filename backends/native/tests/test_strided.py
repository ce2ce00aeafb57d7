"""Elementwise calls of all dtypes and layouts: the bits of the same call of contiguous arrays."""

import itertools

import ml_dtypes
import numpy as np
import pytest

from pullback_native import DTYPES, _native
from pullback_numpy.kernels import KERNELS as NUMPY_KERNELS
from pullback_numpy.threads import number_of_threads

rng = np.random.default_rng(3)
SPECIAL = [
    0.0,
    -0.0,
    np.inf,
    -np.inf,
    np.nan,
    1e-45,
    -1e-40,
    6e-8,
    65519.0,
    65520.0,
    1e30,
    -2.5,
    1.0,
]
FLOATS = ("float32", "bfloat16", "float16", "float64")

ONE = tuple(
    name
    for name in (
        *("abs", "cosh", "digamma", "erf", "erfc", "erfinv", "exp", "exp2", "expm1", "lgamma"),
        *("log", "log10", "log1p", "log2", "log_sigmoid", "mish", "negative", "relu", "selu"),
        *("sigmoid", "sign", "silu", "sinh", "softplus", "sqrt", "square", "tanh"),
    )
)
TWO = (
    *("add", "subtract", "multiply", "divide", "maximum", "minimum", "hypot", "logaddexp"),
    *("relu_gradient", "tanh_gradient", "sigmoid_gradient", "silu_gradient", "less", "less_equal"),
    *("greater", "greater_equal", "equal", "not_equal", "nextafter"),
)
WITH_ATTRIBUTES = {
    "leaky_relu": {"negative_slope": 0.1},
    "elu": {"alpha": 1.5},
    "gelu": {"approximate": False},
    "gelu_gradient": {"approximate": True},
}
CALLS = [
    *((name, 1, {}) for name in ONE),
    *((name, 2, {}) for name in TWO),
    *((name, 1 + name.endswith("gradient"), kept) for name, kept in WITH_ATTRIBUTES.items()),
]


def values(shape, dtype):
    """Numbers of all sizes, and special ones among them."""
    size = int(np.prod(shape))
    if np.dtype(dtype).kind == "i":
        return rng.integers(-(2**31), 2**31, shape).astype(dtype)
    numbers = rng.standard_normal(size) * 10.0 ** rng.integers(-3, 3, size)
    chosen = np.where(rng.random(size) < 0.1, rng.choice(SPECIAL, size), numbers)
    return chosen.reshape(shape).astype(np.float32).astype(dtype)


def layouts(dtype):
    """Arrays of many layouts, of sizes around that of a block."""
    for size in (0, 1, 511, 512, 513, 1025, 4097):
        yield values(size, dtype)
        yield values(2 * size, dtype)[::2]
        yield values(size, dtype)[::-1]
        yield np.broadcast_to(values(1, dtype), (size,))
    yield values((), dtype)
    yield values((37, 61), dtype).T
    yield values((37, 61), dtype)[::2, ::-3]
    yield values((5, 7, 11, 13), dtype).transpose(2, 0, 3, 1)
    yield np.broadcast_to(values((9, 1, 130), dtype), (9, 40, 130))
    yield np.broadcast_to(values((700, 1), dtype), (700, 3))
    yield values((3, 0, 5), dtype).transpose(1, 2, 0)
    yield values((1,) * 12 + (2, 1, 300), dtype)[..., ::2]
    yield values((2,) * 10, dtype)[::-1, ..., ::-1]


def same(result, expected):
    assert result.dtype == expected.dtype
    assert result.shape == expected.shape
    np.testing.assert_array_equal(np.isnan(result), np.isnan(expected))
    known = ~np.isnan(expected)
    np.testing.assert_array_equal(result[known], expected[known])
    np.testing.assert_array_equal(np.signbit(result)[known], np.signbit(expected)[known])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("name", "inputs", "attributes"), CALLS, ids=[call[0] for call in CALLS])
def test_any_layout_has_the_bits_of_contiguous_arrays(name, inputs, attributes, instructions):
    kernel = getattr(_native, name)
    for dtype in DTYPES[name]:
        for x in layouts(dtype):
            others = [x, x[::-1] if x.ndim else x][: inputs - 1]
            expected = kernel(*(np.array(each, order="C") for each in (x, *others)), **attributes)
            with number_of_threads(int(rng.integers(1, 4))):
                same(kernel(x, *others, **attributes), expected)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_floats_are_computed_in_float32_and_rounded_once(dtype, instructions):
    """Of all numbers of 16 bits, by the loops of float32."""
    every = np.arange(2**16, dtype=np.uint16).view(np.dtype(dtype))
    single = every.astype(np.float32)
    for name in ("negative", "sqrt", "square", "exp", "tanh", "gelu", "relu", "erf"):
        kept = {"approximate": False} if name == "gelu" else {}
        expected = getattr(_native, name)(single, **kept).astype(dtype)
        same(getattr(_native, name)(every, **kept), expected)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_next_numbers_are_those_of_numpy(dtype, instructions):
    """Beside zeros of both signs, the ends of the range, infinities, NaN and any bits."""
    kind = np.dtype(dtype)
    info = np.finfo(kind)
    ends = np.array([0, info.tiny, info.smallest_subnormal, info.max, np.inf, np.nan, 1, 2], kind)
    ends = np.concatenate([ends, -ends])
    bits = rng.integers(0, 256, 4096 * kind.itemsize, np.uint8).view(kind)
    x1 = np.concatenate([np.repeat(ends, ends.size), bits, bits])
    x2 = np.concatenate([np.tile(ends, ends.size), bits[::-1], np.nextafter(bits, kind.type(0))])
    same(_native.nextafter(x1, x2), np.nextafter(x1, x2))


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_signs_of_integers_are_those_of_numpy(dtype, instructions):
    info = np.iinfo(dtype)
    x = np.concatenate([[0, 1, -1, info.min, info.max], rng.integers(info.min, info.max, 999)])
    x = x.astype(dtype)
    for each in (x, x[::-3], x[:1000].reshape(8, 125).T):
        same(_native.sign(each), np.sign(each))


@pytest.mark.parametrize(
    "shapes", [((4, 1), (1, 5)), ((3, 1, 6), (2, 1)), ((600, 1), (7,)), ((), (9,))]
)
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "int32", "int64"])
def test_shapes_broadcast_as_numpy_has_them(shapes, dtype):
    for first, second in (shapes, shapes[::-1]):
        x1, x2 = values(first, dtype), values(second, dtype)
        for name in ("add", "subtract", "multiply", "less", "maximum"):
            with np.errstate(all="ignore"):
                expected = np.asarray(NUMPY_KERNELS[name](x1, x2))
            found = getattr(_native, name)(x1, x2)
            if name == "maximum":  # of two zeros, either
                found, expected = found + found.dtype.type(0), expected + found.dtype.type(0)
            same(found, expected)


def test_rows_and_columns_repeat_in_arrays_of_any_width(instructions):
    """Rows are taken whole, or one by one, and pieces of threads begin anywhere in them."""
    for width, size in ((1, 999), (7, 9999), (100, 300_001), (255, 300_001), (257, 300_001),
                        (1025, 300_001), (4099, 99_999)):  # fmt: skip
        rows = size // width
        for dtype in ("float32", "float16", "float64"):
            x, row, column = values((rows, width), dtype), (1, width), (rows, 1)
            others = (values(shape, dtype) for shape in (row, column, (1, 1), (rows, width)))
            for other in (*others, values(row, dtype)[:, ::-1]):
                with number_of_threads(3), np.errstate(all="ignore"):
                    same(_native.subtract(x, other), np.subtract(x, other))
                    same(_native.subtract(other, x[::-1]), np.subtract(other, x[::-1]))
                    same(_native.less(other, x[:, ::-1]), np.less(other, x[:, ::-1]))
        condition, x1, x2 = (values(shape, "float32") for shape in ((rows, 1), row, column))
        condition = condition > 0
        same(_native.where(condition, x1, x2), np.where(condition, x1, x2))


@pytest.mark.parametrize("axes", list(itertools.permutations(range(3))))
def test_results_lie_in_memory_as_numpy_has_them(axes):
    for dtype in ("float32", "float64", "float16", "int32"):
        x = values((4, 5, 6), dtype).transpose(axes)
        for other in (x, x[::-1], np.ascontiguousarray(x), x[:1]):
            y, expected = _native.add(x, other), np.add(x, other)
            assert y.strides == expected.strides
            assert y.flags.owndata
            assert y.flags.c_contiguous == expected.flags.c_contiguous
            assert y.flags.f_contiguous == expected.flags.f_contiguous


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("to", FLOATS)
@pytest.mark.parametrize("source", FLOATS)
def test_conversions_have_the_bits_of_numpy(source, to, instructions):
    """Of all 16-bit floats; of others, also beside the ties of narrower ones."""
    if source in ("float16", "bfloat16"):
        x = np.arange(2**16, dtype=np.uint16).view(np.dtype(source))
    else:
        narrow = np.arange(2**16, dtype=np.uint16)
        halves = [narrow.view(np.float16), narrow.view(ml_dtypes.bfloat16)]
        wide = np.concatenate([half.astype(np.float64) for half in halves])
        ties = (wide[1:] + wide[:-1]) / 2
        x = np.concatenate([wide, ties, np.nextafter(ties, 1e300), np.nextafter(ties, -1e300)])
        x = np.concatenate([x, rng.standard_normal(5000) * 1e-41]).astype(source)
    expected = x.astype(to)
    if (source, to) == ("float64", "bfloat16"):
        # ml_dtypes rounds to float32 first.
        odd = x.astype(np.float32)
        inexact = np.isfinite(x) & (odd != x)
        towards = np.where(np.abs(odd) > np.abs(x), np.nextafter(odd, np.float32(0)), odd)
        bits = np.where(inexact, towards.view(np.int32) | 1, odd.view(np.int32))
        expected = bits.view(np.float32).astype(to)
    for part in (x, x[::2], x[::-1], x[:0], np.broadcast_to(x[7], (3, 5))):
        index = {id(x): expected}.get(id(part))
        want = (
            part.astype(to) if index is None and (source, to) != ("float64", "bfloat16") else index
        )
        if want is not None:
            same(_native.astype(part, dtype=np.dtype(to)), want)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
def test_where_of_any_layout(dtype):
    for x in layouts(dtype):
        chosen = rng.random(x.shape) < 0.5
        other = values((), dtype)
        for inputs in ((chosen, x, other), (chosen, other, x), (chosen, x, np.array(x))):
            same(_native.where(*inputs), np.where(*inputs))


QUOTIENTS = [*SPECIAL, -1.0, 2.0, -2.0, 0.3, 7.0, -7.0, 3.4e38, 1e-300, 5e-324, 4.5e15, -1e300]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "int64"])
def test_remainders_are_those_of_numpy(dtype, instructions):
    if dtype.startswith("int"):
        edges = np.iinfo(dtype)
        some = [0, 1, -1, 2, -2, 7, -7, edges.min, edges.max, edges.min + 1]
        numbers = np.array([*some, *rng.integers(edges.min, edges.max, 50)], dtype)
        names = ("remainder", "floor_divide")
    else:
        exponents = rng.integers(-60, 60, 300) if dtype == "float64" else rng.integers(-9, 9, 300)
        drawn = rng.standard_normal(300) * 10.0**exponents
        whole = np.rint(rng.standard_normal(100) * 20)
        numbers = np.concatenate([QUOTIENTS, drawn, whole, whole * 0.1]).astype(dtype)
        names = ("remainder",)
    for name in names:
        with np.errstate(all="ignore"):
            expected = getattr(np, name)(numbers[:, None], numbers)
        same(getattr(_native, name)(numbers[:, None], numbers), expected)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_powers_of_float32_are_rounded_once(instructions):
    numbers = np.concatenate([QUOTIENTS, rng.standard_normal(300) * 3]).astype(np.float32)
    numbers = np.concatenate([numbers, np.abs(numbers), np.rint(numbers)])
    expected = np.power(numbers[:, None].astype(np.float64), numbers.astype(np.float64))
    found = _native.pow(numbers[:, None], numbers)
    rounded = expected.astype(np.float32)
    known = np.isfinite(rounded) & (rounded != 0)
    same(np.where(known, 0, found), np.where(known, np.float32(0), rounded))
    error = np.abs(found[known] - expected[known]) / np.spacing(np.abs(rounded[known]))
    assert error.max() < 0.501


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide", "maximum", "hypot"])
@pytest.mark.parametrize("width", [255, 256, 1100])
def test_a_number_per_row_has_the_bits_of_a_row_of_them(name, width, instructions):
    kernel = getattr(_native, name)
    x = np.random.default_rng(width).standard_normal((2, 9, width)).astype(np.float32)
    x[0, :5, :5] = [0.0, -0.0, np.inf, -np.inf, np.nan]
    numbers = np.ascontiguousarray(x[:, :, 3:4])
    row = x[1, 1]
    for one, other in ((x, numbers), (numbers, x), (numbers[0], row), (x[:, ::-2], numbers[:, 4:])):
        shape = np.broadcast_shapes(one.shape, other.shape)
        copies = [np.broadcast_to(operand, shape).copy() for operand in (one, other)]
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(kernel(one, other), kernel(*copies))
            zeros = kernel(*copies) == 0
            signs = np.signbit(kernel(one, other)), np.signbit(kernel(*copies))
        np.testing.assert_array_equal(signs[0][zeros], signs[1][zeros])
