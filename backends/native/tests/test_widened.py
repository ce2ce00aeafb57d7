"""Kernels that compute 16-bit floats in float32, and conversions."""

import ml_dtypes
import numpy as np
import pytest

import pullback as pb
from pullback.devices import as_device
from pullback_native import _native
from pullback_native.kernels import KERNELS, halves
from pullback_numpy.kernels import KERNELS as NUMPY_KERNELS

rng = np.random.default_rng(0)
HALVES = [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)]
by_dtype = pytest.mark.parametrize("dtype", HALVES, ids=str)
#: All of them, with infinities and NaN.
ALL = np.arange(1 << 16, dtype=np.uint16)


def same(ours, theirs):
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    assert ours.dtype == theirs.dtype
    wide = [x.astype(np.float64) if x.dtype in HALVES else x for x in (ours, theirs)]
    np.testing.assert_array_equal(*wide)


@by_dtype
@pytest.mark.parametrize("name", [*halves.FUNCTIONS, *halves.IN_DOUBLE])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_functions_are_those_of_float32_rounded(name, dtype):
    kernel = halves.function_in_float32(name)
    all_of_them = ALL.view(dtype)
    in_pieces = np.tile(all_of_them, 3)
    for x in (all_of_them, in_pieces, all_of_them[::-3], all_of_them.reshape(256, 256).T):
        expected = NUMPY_KERNELS[name](x.astype(np.float32)).astype(dtype)
        same(kernel(x), expected)
    assert kernel(all_of_them[:5]).dtype == dtype


@by_dtype
def test_functions_leave_arrays_to_the_kernel_that_leads(dtype):
    calls = []
    kernel = halves.function_in_float32("sin", lambda x: calls.append(x.size) or x, leads=True)
    x = np.ones((60, 60), dtype)
    kernel(x), kernel(x[:, ::2]), kernel(x[:2, :2])
    assert calls == [3600, 4]


@by_dtype
@pytest.mark.parametrize("name", ["argmax", "argmin", "any", "all", "count_nonzero"])
def test_answers_about_halves_stay_as_they_are(name, dtype):
    x = np.round(rng.standard_normal((40, 50))).astype(dtype)
    x[3, 4] = np.nan
    kernel = halves.in_float32(name, NUMPY_KERNELS[name])
    for axis in (None, 0, 1) if name.startswith("arg") else (None, (0,), (1,), (0, 1)):
        given = {"axis": axis, "keepdims": False}
        same(kernel(x, **given), NUMPY_KERNELS[name](x, **given))


LAYOUTS = {
    "rows": lambda x: x,
    "transposed": lambda x: x.T,
    "reversed": lambda x: x[::-1, ::-2],
    "repeated": lambda x: np.broadcast_to(x[:1], x.shape),
    "number": lambda x: x[0, 0],
    "empty": lambda x: x[:0],
}
over_layouts = pytest.mark.parametrize("form", LAYOUTS.values(), ids=LAYOUTS)


@over_layouts
@pytest.mark.parametrize("target", [*HALVES, np.dtype("f4"), np.dtype("f8")], ids=str)
@pytest.mark.parametrize("source", ["bool", "int32"])
def test_booleans_and_integers_are_rounded_once(source, target, form, instructions):
    x = rng.integers(-(1 << 31), 1 << 31, (70, 90)) >> rng.integers(0, 31, (70, 90))
    x = form(x % 3 == 0 if source == "bool" else x.astype(np.int32))
    ours = _native.astype(np.asarray(x), dtype=target)
    if target == np.dtype(ml_dtypes.bfloat16):  # ml_dtypes rounds integers twice
        exact = x.astype(np.float64)
        distance = np.abs(np.asarray(ours).astype(np.float64) - exact)
        step = np.spacing(np.abs(exact).astype(np.float32)).astype(np.float64) * 2.0**16
        assert (distance <= step / 2).all()
        assert ours.dtype == target
    else:
        with np.errstate(over="ignore"):
            same(ours, x.astype(target))


@over_layouts
@by_dtype
@pytest.mark.parametrize("target", ["int8", "int32", "int64", "bool", "complex64"])
def test_halves_to_other_types(target, dtype, form):
    x = form(np.round(rng.standard_normal((70, 90)) * 40).astype(dtype))
    ours = _native.astype(np.asarray(x), dtype=np.dtype(target))
    same(ours, np.asarray(x).astype(np.float32).astype(target))


@by_dtype
@pytest.mark.parametrize("target", ["int8", "int32", "int64", "uint16", "complex64"])
def test_many_halves_to_other_types(target, dtype):
    for size in (2 * 32768 - 1, 2 * 32768, 3 * 32768 + 5):
        x = np.round(rng.standard_normal(size) * 40).clip(0, 100).astype(dtype)
        for one in (
            x,
            x[: size // 10 * 10].reshape(10, -1),
            x[: size // 10 * 10].reshape(10, -1).T,
        ):
            ours = _native.astype(one, dtype=np.dtype(target))
            same(ours, one.astype(np.float32).astype(target))


EDGES = [0.0, -0.0, 1.0, -1.5, 3.0, np.inf, -np.inf, np.nan, 1e-40, 7e37, -(2.0**60), 5e-324, 1e300]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_fmod_has_the_bits_of_c(dtype, instructions):
    edges = np.array(EDGES).astype(dtype)
    a, b = (x.ravel() for x in np.meshgrid(edges, edges))
    scale = np.exp2(rng.integers(-40, 40, 5000))
    a = np.concatenate([a, (rng.standard_normal(5000) * scale).astype(dtype)])
    b = np.concatenate([b, np.round(rng.standard_normal(5000) * 4).astype(dtype) / 4])
    ours, theirs = _native.fmod(a, b), np.fmod(a, b)
    same(ours, theirs)
    np.testing.assert_array_equal(np.signbit(ours)[theirs == 0], np.signbit(theirs)[theirs == 0])


@by_dtype
@pytest.mark.parametrize("name", ["floor", "ceil", "trunc", "round"])
def test_rounding_of_all_halves(name, dtype, instructions):
    x = ALL.view(dtype)
    function = {"round": np.rint}.get(name) or getattr(np, name)
    with np.errstate(invalid="ignore"):
        expected = function(x.astype(np.float32)).astype(dtype)
    ours = getattr(_native, name)(x)
    same(ours, expected)
    number = expected == expected
    np.testing.assert_array_equal(ours.view(np.uint16)[number], expected.view(np.uint16)[number])


@pytest.mark.parametrize("method", ["nearest", "linear"])
@pytest.mark.parametrize("channels", [0, 1, 3, 5, 8, 16])
def test_resizing(method, channels, instructions):
    for old, new in [((4, 5), (8, 15)), ((4, 5), (3, 7)), ((1, 9), (5, 2)), ((6, 6), (6, 11))]:
        for data_format in ("channels_last", "channels_first"):
            shape = (3, *old, channels) if data_format == "channels_last" else (3, channels, *old)
            x = rng.standard_normal(shape).astype(np.float32)
            given = {"size": new, "method": method, "data_format": data_format}
            y = KERNELS["resize"](x, **given)
            np.testing.assert_allclose(y, NUMPY_KERNELS["resize"](x, **given), atol=1e-5)
            g = rng.standard_normal(y.shape).astype(np.float32)
            given["input_shape"] = shape
            ours, theirs = (
                table["resize_gradient"](g, **given) for table in (KERNELS, NUMPY_KERNELS)
            )
            np.testing.assert_allclose(ours, theirs, atol=1e-5)
            assert ours.dtype == np.float32


@pytest.mark.parametrize("channels", [1, 2, 3, 7, 8, 33, 70])
@pytest.mark.parametrize("turned", [False, True])
def test_normalization_of_few_channels_in_any_order(channels, turned, instructions):
    x, g = (rng.standard_normal((5, channels, 9, 11)).astype(np.float32) * 3 + 2 for _ in range(2))
    x, g = (a.transpose(0, 2, 3, 1) for a in (x, g))
    if not turned:
        x, g = np.ascontiguousarray(x), np.ascontiguousarray(g)
    scale, offset, a, b = rng.standard_normal((4, channels)).astype(np.float32)
    given = {"axis": 3, "epsilon": 1e-3}
    inputs = {
        "batch_norm": (x, scale, offset),
        "batch_norm_inference": (x, offset, np.abs(scale), scale, offset),
        "batch_norm_gradient": (x, scale, x.mean((0, 1, 2)), x.var((0, 1, 2)), g, a, b),
    }
    for name, arrays in inputs.items():
        found = [
            kernel(*arrays, **given) for kernel in (getattr(_native, name), NUMPY_KERNELS[name])
        ]
        ours, theirs = (one if isinstance(one, tuple) else (one,) for one in found)
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("channels", [1, 3, 16, 33, 70, 40_000])
@pytest.mark.parametrize("dtype", ["float16", ml_dtypes.bfloat16])
def test_normalization_of_16_bits(channels, dtype, instructions):
    """As that of the same numbers in float32, whose results are rounded."""
    shape = (2, 99_991 // channels // 2 or 1, channels)
    x, g = (rng.standard_normal(shape).astype(dtype) for _ in range(2))
    scale, offset = rng.standard_normal((2, channels)).astype(dtype)
    mean, variance, a, b = np.abs(rng.standard_normal((4, channels))).astype(np.float32)
    inputs = {
        "batch_norm": (x, scale, None),
        "batch_norm_inference": (x, mean, variance.astype(dtype), None, offset),
        "batch_norm_gradient": (x, scale, mean, variance, g, a, b),
    }
    for name, arrays in inputs.items():
        given = {"axis": 2, "epsilon": 1e-3}
        kernel = getattr(_native, name)
        ours = halves.channels_in_float32(name, kernel)(*arrays, **given)
        theirs = kernel(
            *[one if one is None else one.astype(np.float32) for one in arrays], **given
        )
        ours, theirs = (one if isinstance(one, tuple) else (one,) for one in (ours, theirs))
        for i, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            stays = name == "batch_norm" and i > 0
            assert one.dtype == np.dtype(np.float32 if stays else dtype)
            with np.errstate(over="ignore"):
                same(one, other.astype(one.dtype))


@pytest.mark.parametrize("dtype", ["float16", ml_dtypes.bfloat16])
@pytest.mark.parametrize(
    "shape", [(40, 30, 40, 1), (300, 7, 50), (3, 20_000, 2), (2, 40_000, 2), (0, 3)]
)
def test_groups_of_16_bits(shape, dtype):
    x = rng.standard_normal(shape).astype(dtype)
    scale = rng.standard_normal(shape[-1]).astype(dtype)
    for axis, one in ((len(shape) - 1, x), (1, np.moveaxis(x, -1, 1))):
        given = {"groups": 1, "axis": axis, "epsilon": 1e-3}
        for parameters in ((None, None), (scale, scale)):
            ours, theirs = (
                make("group_norm", _native.group_norm)(one, *parameters, **given)
                for make in (halves.items_in_float32, halves.in_float32)
            )
            same(ours, theirs)


def test_normalization_of_16_bits_that_are_large():
    """Squares that float32 does not have are for NumPy's kernel."""
    x = np.full((4, 20_000, 1), 2.0**127, ml_dtypes.bfloat16)
    x[::2] = -x[::2]
    with np.errstate(all="ignore"):
        ours, theirs = (
            make("batch_norm", _native.batch_norm)(x, None, None, axis=2, epsilon=1e-3)
            for make in (halves.channels_in_float32, halves.in_float32)
        )
    for one, other in zip(ours, theirs, strict=True):
        same(one, other)


@pytest.mark.parametrize("dtype", ["f4", "f8", ml_dtypes.bfloat16])
def test_stacked_products_of_one_term(dtype, instructions):
    x, y = (rng.standard_normal(s).astype(dtype) for s in ((6, 1, 5), (1, 4, 7)))
    x, y = x.transpose(0, 2, 1), np.asfortranarray(y)[:, 1:2]
    with np.errstate(all="ignore"):
        expected = (x.astype("f8") @ y.astype("f8")).astype(dtype)
    ours = _native.matmul(x, y)
    assert ours.dtype == np.dtype(dtype)
    np.testing.assert_allclose(
        ours.astype("f8"), expected.astype("f8"), rtol=1e-2 if ours.itemsize == 2 else 1e-6
    )


@pytest.mark.parametrize("name", ["sum", "max", "prod", "vector_norm"])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_groups_of_axes_are_reduced_in_any_order(name, dtype, instructions):
    x = 1 + rng.standard_normal((70, 30, 40, 3)).astype(dtype) / 100
    more = {"ord": 2} if name == "vector_norm" else {} if name == "max" else {"dtype": None}
    for axis in ((0, 2), (0, 2, 3), (0, 3), (1, 3), (0, 1, 2, 3)):
        for keepdims in (False, True):
            given = {"axis": axis, "keepdims": keepdims, **more}
            ours = getattr(_native, name)(x, **given)
            # NumPy multiplies float32 in float32.
            theirs = NUMPY_KERNELS[name](x.astype("f8"), **given)
            assert np.shape(ours) == np.shape(theirs)
            assert ours.dtype == x.dtype
            np.testing.assert_allclose(ours, theirs, rtol=2e-6 if dtype == "f4" else 1e-10)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_elements_that_are_repeated(dtype: str) -> None:
    draw, backend = np.random.default_rng(3), as_device("cpu:0").backend
    base = pb.asarray(draw.random((2, 40, 700)).astype("f4")).astype(dtype)._array
    forms = [
        np.broadcast_to(base[:1, :, :1], (3, 40, 20)),
        np.broadcast_to(base[:1], (3, 40, 700)),
        np.broadcast_to(base[0].T[:, :1], (700, 40)),
        np.broadcast_to(base[:1, ::2, ::2], (2, 20, 350)),
        np.broadcast_to(base[0, 0, 0], (5000,)),
        base[:1, :1, :].transpose(2, 0, 1)[::1],
        np.asfortranarray(base),
        np.broadcast_to(base[:1], (0, 40, 700)),
    ]
    options = {"axis": 0, "keepdims": False}
    for name, attributes in (("exp2", {}), ("sin", {}), ("cos", {}), ("argmax", options)):
        kernel = backend.kernels_taking(name, getattr(pb, dtype))[0]
        for x in forms:
            if not x.size and attributes:
                continue
            found, expected = kernel(x, **attributes), kernel(np.ascontiguousarray(x), **attributes)
            assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
            np.testing.assert_array_equal(found, expected)
