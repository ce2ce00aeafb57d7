"""bfloat16: conversions and elements of every number, sums and products that are rounded once."""

import itertools

import numpy as np
import pytest

import pullback as pb
from pullback.dtypes import bfloat16
from pullback_native import _native
from pullback_numpy.kernels import KERNELS as NUMPY_KERNELS
from pullback_numpy.threads import number_of_threads

rng = np.random.default_rng(0)
FLOAT32 = np.dtype("float32")
#: Every bfloat16.
ALL = np.arange(1 << 16, dtype=np.uint16).view(bfloat16)


def normal(*shape):
    return rng.standard_normal(shape, np.float32).astype(bfloat16)


def laid_out(x, layout):
    """x as a matrix that is transposed, strided, or reversed in memory."""
    if layout == "turned":
        return np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2)
    if layout == "strided":
        return np.repeat(x, 2, axis=-1)[..., ::2]
    if layout == "reversed":
        return np.ascontiguousarray(x[..., ::-1, ::-1])[..., ::-1, ::-1]
    return x


LAYOUTS = ("plain", "turned", "strided", "reversed")
over_layouts = pytest.mark.parametrize(
    "layouts", [*itertools.product(LAYOUTS, LAYOUTS)], ids="-".join
)


def same_bits(x, y):
    assert x.dtype == y.dtype
    np.testing.assert_array_equal(x.view(f"u{x.itemsize}"), y.view(f"u{y.itemsize}"))


def is_rounded_once(y, x1, x2, bias=0.0):
    """y is within half an ulp, and the rounding of terms in float32, of the product."""
    wide = x1.astype(np.float64), x2.astype(np.float64)
    exact = np.matmul(*wide) + bias
    terms = np.matmul(*map(np.abs, wide)) + np.abs(bias)
    assert y.dtype == bfloat16
    assert y.shape == exact.shape
    assert (np.abs(y.astype(np.float64) - exact) <= np.abs(exact) * 2.0**-8 + terms * 2e-6).all()


# Conversions. -----------------------------------------------------------------------------------


def test_every_bfloat16_is_widened(instructions):
    same_bits(_native.astype(ALL, dtype=FLOAT32), ALL.astype(np.float32))


@pytest.mark.filterwarnings("ignore:invalid value")
def test_rounding_is_to_the_nearest_ties_to_even(instructions):
    """Of each upper half with lower halves around 0, a tie and the next one: NaN too."""
    lower = np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)
    x = (np.arange(1 << 16, dtype=np.uint32)[:, None] << 16 | lower).view(np.float32)
    same_bits(_native.astype(x, dtype=bfloat16), x.astype(bfloat16))


@pytest.mark.parametrize("shape", [(), (0,), (1,), (31,), (33,), (3, 0, 2), (7, 5), (400, 301)])
def test_shapes_of_conversions(shape, instructions):
    x = rng.standard_normal(shape, np.float32) if shape else np.asarray(np.float32(0.1))
    for threads in (1, 3):
        with number_of_threads(threads):
            narrow = _native.astype(x, dtype=bfloat16)
            same_bits(narrow, x.astype(bfloat16))
            same_bits(_native.astype(narrow, dtype=FLOAT32), narrow.astype(np.float32))


def test_other_layouts_and_dtypes_are_numpys():
    x = rng.standard_normal((9, 8), np.float32)
    for array in (x.T, x[::2], x[:, ::-1], np.broadcast_to(x[:1], (9, 8))):
        same_bits(_native.astype(array, dtype=bfloat16), array.astype(bfloat16))
        narrow = array.astype(bfloat16)
        same_bits(_native.astype(narrow, dtype=FLOAT32), narrow.astype(np.float32))
    for dtype in ("int32", "float64", "float16", "bool", ">f4"):
        for array in (x, x.astype(bfloat16)):
            found = _native.astype(array, dtype=np.dtype(dtype))
            np.testing.assert_array_equal(found, array.astype(dtype))
            assert found.dtype == dtype


# Elements and sums. -----------------------------------------------------------------------------

ELEMENTS = {
    "abs": np.abs,
    "exp": np.exp,
    "expm1": np.expm1,
    "negative": np.negative,
    "relu": lambda x: np.where(x <= 0, 0, x),
    "sigmoid": lambda x: np.where(x < 0, np.exp(x), 1) / (1 + np.exp(-np.abs(x))),
    "sqrt": np.sqrt,
    "square": np.square,
    "tanh": np.tanh,
}


@pytest.mark.parametrize("name", ELEMENTS)
@pytest.mark.parametrize("threads", [1, 3])
def test_every_number_is_rounded_once(name, threads, instructions):
    """Within half an ulp, and the 3 ulp of float32 that its functions have."""
    with np.errstate(all="ignore"), number_of_threads(threads):
        y = getattr(_native, name)(ALL)
        exact = ELEMENTS[name](ALL.astype(np.float64))
        goal = exact.astype(np.float32).astype(bfloat16)
    assert y.dtype == bfloat16
    np.testing.assert_array_equal(np.isnan(y), np.isnan(goal))
    np.testing.assert_array_equal(np.isinf(y), np.isinf(goal))
    fine = np.isfinite(goal)
    wide, exact = y[fine].astype(np.float64), exact[fine]
    bound = np.maximum(np.abs(exact), 2.0**-126) * (2.0**-8 + 2.0**-21)
    assert (np.abs(wide - exact) <= bound).all()


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide", "maximum", "minimum"])
def test_two_arrays(name, instructions):
    """With the bits of ml_dtypes, which computes in float32 too."""
    x1, x2 = rng.permutation(ALL), rng.permutation(ALL)
    with np.errstate(all="ignore"):
        found, expected = getattr(_native, name)(x1, x2), NUMPY_KERNELS[name](x1, x2)
    nan = np.isnan(expected)
    np.testing.assert_array_equal(np.isnan(found), nan)
    np.testing.assert_array_equal(found[~nan].astype(np.float32), expected[~nan].astype(np.float32))


def test_the_gradient_of_relu(instructions):
    g, x = normal(300, 70), normal(300, 70)
    found = _native.relu_gradient(g, x)
    same_bits(found, NUMPY_KERNELS["relu_gradient"](g, x))


@pytest.mark.parametrize("axis", [None, (0,), (1,), (0, 1), ()])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_sums_and_means_are_rounded_once(axis, layout, instructions):
    x = laid_out(normal(300, 500), layout)
    wide = x.astype(np.float64)
    for name, function in (("sum", np.sum), ("mean", np.mean)):
        options = {"axis": axis, "keepdims": True} | ({"dtype": None} if name == "sum" else {})
        y = np.asarray(getattr(_native, name)(x, **options))
        exact = function(wide, axis=axis, keepdims=True)
        terms = function(np.abs(wide), axis=axis, keepdims=True)
        assert y.dtype == bfloat16
        assert y.shape == exact.shape
        assert (np.abs(y.astype(float) - exact) <= np.abs(exact) * 2.0**-8 + terms * 2e-6).all()


# Products. --------------------------------------------------------------------------------------


@over_layouts
def test_matmul_within_one_rounding(layouts, instructions):
    sizes = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 16, 17, 31, 32, 33, 48, 97, 130, 257, 600]
    for _ in range(20):
        rows, inner, columns = rng.choice(sizes, 3)
        lead = [(), (), (2,), (3, 1, 2)][rng.integers(4)]
        x1 = laid_out(normal(*lead, rows, inner), layouts[0])
        x2 = laid_out(normal(*lead[: len(lead) * rng.integers(2)], inner, columns), layouts[1])
        results = []
        for threads in (1, 2, 3):
            with number_of_threads(threads):
                results.append(_native.matmul(x1, x2))
        is_rounded_once(results[0], x1, x2)
        if instructions != "base":  # these products are BLAS's, which promises less
            same_bits(results[0], results[1])
            same_bits(results[0], results[2])


@pytest.mark.parametrize("rows", [*range(1, 18), 270, 300])
def test_large_products_have_the_same_bits_on_any_threads(rows, instructions):
    """Several pieces of rows and columns, and several runs of terms."""
    for layout in ("plain", "turned"):
        x1, x2 = normal(rows, 900), laid_out(normal(900, 1100), layout)
        bias, results = normal(1100), []
        for threads in (1, 2, 5):
            with number_of_threads(threads):
                results.append(_native.linear(x1, x2, bias))
        is_rounded_once(results[0], x1, x2, bias.astype(np.float64))
        if instructions != "base" or rows <= 16:
            same_bits(results[0], results[1])
            same_bits(results[0], results[2])


def test_the_gradient_of_a_weight(instructions):
    x, g = normal(200, 300), normal(200, 70)
    is_rounded_once(_native.matmul(x.T, g), x.T, g)


@pytest.mark.parametrize("rows", [1, 5, 40])
@pytest.mark.parametrize("layout", ["plain", "turned"])
def test_sums_are_rounded_once_and_ties_to_even(rows, layout, instructions):
    def product(inner, last, bias=None):
        x1 = np.ones((rows, inner), bfloat16)
        x1[:, -1] = last
        x2 = laid_out(np.ones((inner, 50), bfloat16), layout)
        y = _native.linear(x1, x2, None if bias is None else np.full(50, bias, bfloat16))
        assert (y == y[0, 0]).all()
        return float(y[0, 0])

    # A sum of bfloat16 would stop at 256.
    assert product(4096, 1.0) == 4096
    # Numbers between 256 and 512 are even: 257 and 259 are ties.
    assert product(257, 1.0) == 256
    assert product(259, 1.0) == 260
    # The bias is added before the sum is rounded: 257 + 1 is a number.
    assert product(257, 1.0, 1.0) == 258
    assert product(257, 1.0, 2.0**-7) == 258


@pytest.mark.parametrize("rows", [1, 7, 40])
@pytest.mark.parametrize("layout", ["plain", "turned"])
def test_numbers_that_are_special(rows, layout, instructions):
    """Times the identity: subnormal numbers stay, infinities and NaN reach their rows alone."""
    numbers = ALL[np.isfinite(ALL.astype(np.float32))]
    x1, identity = rng.choice(numbers, (rows, 60)), np.eye(60).astype(bfloat16)
    y = _native.matmul(x1, laid_out(identity, layout))
    np.testing.assert_array_equal(y.astype(np.float32), x1.astype(np.float32))
    small = np.full((rows, 60), 2.0**-133).astype(bfloat16)
    np.testing.assert_array_equal(_native.matmul(small, laid_out(identity, layout)), small)
    x1, x2 = normal(rows, 60), normal(60, 70)
    x2[20, 69], x1[-1, 7] = -np.inf, np.nan
    bad = ~np.isfinite(_native.matmul(x1, laid_out(x2, layout)).astype(np.float32))
    expected = np.zeros_like(bad)
    expected[-1] = expected[:, 69] = True
    np.testing.assert_array_equal(bad, expected)


def test_sums_beyond_the_range_are_infinite(instructions):
    most = np.float32(pb.finfo("bfloat16").max).astype(bfloat16)
    for rows in (2, 30):
        x1, x2 = np.full((rows, 2), most), np.ones((2, 40), bfloat16)
        assert (_native.matmul(x1, x2) == np.inf).all()
        assert (_native.matmul(x1[:, :1], x2[:1]) == most).all()


@pytest.mark.parametrize(
    "shapes",
    [((5,), (5, 7)), ((3, 5), (5,)), ((5,), (5,)), ((2, 1, 3, 5), (4, 5, 6)), ((0, 3), (3, 0))],
)
def test_vectors_and_stacks_that_broadcast(shapes, instructions):
    x1, x2 = (normal(*shape) for shape in shapes)
    is_rounded_once(np.asarray(_native.matmul(x1, x2)), x1, x2)


def test_what_does_not_fit_is_numpys_error():
    for kernel in (_native.matmul, NUMPY_KERNELS["matmul"]):
        with pytest.raises(ValueError, match="mismatch"):
            kernel(normal(3, 4), normal(5, 6))
    with pytest.raises(ValueError, match="bias"):
        _native.linear(normal(3, 4), normal(4, 6), normal(5))


def test_a_dense_layer_of_bfloat16_and_its_gradients():
    x, weight, bias, slope = normal(20, 30), normal(30, 40), normal(40), normal(20, 40)
    tensors = [pb.asarray(array) for array in (x, weight, bias)]
    with pb.GradientTape() as tape:
        for tensor in tensors:
            tape.watch(tensor)
        y = pb.linear(*tensors)
    gradients = tape.gradient(y, tensors, output_gradients=pb.asarray(slope))
    is_rounded_once(y.numpy(), x, weight, bias.astype(np.float64))
    is_rounded_once(gradients[0].numpy(), slope, weight.T)
    is_rounded_once(gradients[1].numpy(), x.T, slope)
