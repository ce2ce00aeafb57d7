"""`array_api.kernels` over a namespace that is nearly the standard's."""

import types
from typing import ClassVar

import array_api_strict
import ml_dtypes
import numpy as np
import pytest

import pullback as pb
from pullback import array_api, errors
from pullback._numerics import error_function
from pullback.array_api.namespace import FUNCTIONS, Completed, completed, lacks
from pullback.casting import cast
from pullback.dtypes import bfloat16, float32, float64
from pullback_conformance.derived import elementwise, values
from pullback_conformance.runner import conform


class Lacking:
    """NumPy without some of its names."""

    def __init__(self, *names, fft=()):
        self.names = names
        self.fft = types.SimpleNamespace(
            **{name: getattr(np.fft, name) for name in np.fft.__all__ if name not in fft}
        )

    def __getattr__(self, name):
        if name in self.names:
            raise AttributeError(name)
        return getattr(np, name)


def test_a_standard_namespace_is_used_as_it_is():
    assert completed(np) is np
    assert array_api.missing(np) == {}


def test_what_is_lacking_is_left_out_and_listed():
    poor = Lacking("nonzero", "searchsorted", "cumulative_prod", "hypot", "sum")
    kernels = array_api.kernels(poor)
    gone = set(array_api.kernels(np)) - set(kernels)
    assert gone == set(array_api.missing(poor))
    assert array_api.missing(poor) == {
        "argwhere": "no nonzero",
        "searchsorted": "no searchsorted",
        "cumulative_prod": "no cumulative_prod in the namespace or its extensions",
        "hypot": "no hypot in the namespace or its extensions",
        "sum": "no sum in the namespace or its extensions",
        "scatter_add": "no sum",
        "scatter_update": "no sum",
    }


def test_a_kernel_names_what_it_calls_through_functions_of_its_own():
    poor = Lacking("log")
    assert "log1p" in array_api.missing(poor)
    assert lacks(poor, array_api.kernels(np)["digamma"]) == ["log"]


def test_every_name_of_the_list_is_one_of_the_standard():
    assert [name for name in FUNCTIONS if not hasattr(array_api_strict, name)] == []


@pytest.mark.parametrize("dtype", [float32, float64])
@pytest.mark.parametrize(
    "name",
    ["copysign", "isfinite", "isinf", "isnan", "negative", "reciprocal", "signbit", "square",
     "trunc"],
)  # fmt: skip
def test_what_is_made_of_others_has_the_bits_of_the_function(name, dtype):
    x = values.floats(dtype).astype(dtype)
    x = x[~(np.isnan(x) & np.signbit(x))]  # a comparison does not see the sign of NaN
    inputs = (np.roll(x, 5), x) if name == "copysign" else (x,)
    poor = Lacking(name, "signbit")
    assert isinstance(completed(poor), Completed)
    with np.errstate(all="ignore"):
        made, right = array_api.kernels(poor)[name](*inputs), getattr(np, name)(*inputs)
    np.testing.assert_array_equal(made, right)
    if made.dtype != np.bool_:
        np.testing.assert_array_equal(
            np.signbit(made[made == made]), np.signbit(right[made == made])
        )


def test_what_is_made_of_others_takes_complex_numbers_and_keywords():
    poor = array_api.kernels(Lacking("astype", "isinf", "isfinite"))
    parts = elementwise.parts()
    for name in ("isinf", "isfinite"):
        with np.errstate(invalid="ignore"):
            found = poor[name](parts)
        np.testing.assert_array_equal(found, getattr(np, name)(parts))
    taken = poor["take"](np.arange(6.0).reshape(2, 3), np.array([1, -1], np.int32), axis=1)
    assert taken.tolist() == [[1, 2], [4, 5]]


def test_functions_with_the_names_of_numpy_are_found():
    poor = Lacking("acos", "concat", "permute_dims", "pow", "bitwise_left_shift", "atan2", "bool")
    assert array_api.missing(poor) == {}
    kernels = array_api.kernels(poor)
    assert kernels["concat"]([np.ones(1), np.zeros(2)], axis=0).shape == (3,)
    assert kernels["permute_dims"](np.ones((2, 3)), axes=(1, 0)).shape == (3, 2)


@pytest.mark.parametrize("axis", [0, 1, -1, -2])
def test_stack_is_made_of_concat(axis):
    arrays = [np.ones((2, 3)), np.zeros((2, 3))]
    made = completed(Lacking("stack")).stack(arrays, axis=axis)
    np.testing.assert_array_equal(made, np.stack(arrays, axis=axis))


@pytest.mark.parametrize("norm", ["backward", "forward", "ortho"])
@pytest.mark.parametrize("name", ["hfft", "ihfft"])
def test_transforms_of_hermitian_signals_are_made_of_the_others(name, norm):
    poor = Lacking(fft=("hfft", "ihfft"))
    x = np.arange(6.0) + (1j if name == "hfft" else 0)
    made = array_api.kernels(poor)[name](x, n=8, axis=0, norm=norm)
    np.testing.assert_allclose(made, getattr(np.fft, name)(x, n=8, axis=0, norm=norm), atol=1e-12)


def test_a_namespace_without_a_family_has_the_others():
    poor = Lacking(fft=tuple(np.fft.__all__))
    assert set(array_api.missing(poor)) == {
        name for name in array_api.kernels(np) if name.endswith(("fft", "fftn"))
    }


class Narrow(Lacking):
    """Functions of 16-bit floats are lacking, or rounded twice."""

    bfloat16 = np.dtype(ml_dtypes.bfloat16)

    def log2(self, x):
        assert x.dtype.itemsize > 2
        return np.log2(x)


def test_16_bit_floats_are_widened():
    x = np.array([1.5, 3.0, 0.1])
    for dtype in (np.float16, bfloat16):
        small = x.astype(dtype)
        for widen in (True, ["log2"]):
            found = array_api.kernels(Narrow("hypot"), widen=widen)["log2"](small)
            assert found.dtype == dtype
            right = np.log2(small.astype(np.float32)).astype(dtype)
            np.testing.assert_array_equal(found.view(np.uint16), right.view(np.uint16))
    with pytest.raises(AssertionError):
        array_api.kernels(Narrow("hypot"))["log2"](x.astype(np.float16))


@pytest.mark.parametrize("dtype", ["float64", "int32", "int64", "uint32", "uint64"])
def test_16_bit_floats_are_rounded_once_whatever_the_hash_of_a_dtype(dtype):
    class Named(Narrow):
        """Its names of dtypes equal those of arrays, and have other hashes."""

        bfloat16 = ml_dtypes.bfloat16

    x = values.roundings(bfloat16) if dtype == "float64" else values.whole_roundings(dtype)
    with np.errstate(over="ignore", under="ignore"):
        found = array_api.kernels(Named())["astype"](x, dtype=bfloat16)
        expected = cast(x, bfloat16)
    np.testing.assert_array_equal(found, expected)


def test_an_op_that_cannot_be_widened_is_an_error():
    with pytest.raises(errors.InputValueError, match="'floor' is not an elementwise op"):
        array_api.kernels(np, widen=["floor"])


# A library without float64, as on many accelerators.

SINGLE = Lacking("float64", "complex128")


def test_nothing_is_missing_for_want_of_float64():
    assert array_api.missing(SINGLE) == {}


def test_the_zero_of_digamma_without_float64():
    reference = pytest.importorskip("scipy.special").psi
    x = (1.4616321 + np.arange(-50, 51) * 2.0**-23).astype(np.float32)
    got = array_api.kernels(SINGLE)["digamma"](x)
    np.testing.assert_allclose(got, reference(x.astype(np.float64)), rtol=1e-6)


def test_erfc_in_float32_where_exp_is_right():
    class Right:
        """NumPy with the exp of float32 rounded once."""

        def __getattr__(self, name):
            return getattr(np, name)

        @staticmethod
        def exp(x):
            return np.exp(x.astype(np.float64)).astype(np.float32)

    reference = pytest.importorskip("scipy.special").erfc
    x = np.linspace(-4, 9.1, 200_001).astype(np.float32)
    right = reference(x.astype(np.float64))
    error = np.abs(error_function.erfc32(Right(), x) - right)
    assert np.max(error / np.spacing(right.astype(np.float32)).astype(np.float64)) < 4.5


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_floor_divide_and_arange_without_float64(dtype):
    rng = np.random.default_rng(0)
    x1 = np.concatenate([rng.normal(0, 50, 5000), np.arange(-50, 50)]).astype(dtype)
    x2 = np.concatenate([rng.normal(0, 3, 5000), np.repeat([0.1, -0.3], 50)]).astype(dtype)
    single, double = array_api.kernels(SINGLE), array_api.kernels(np)
    with np.errstate(over="ignore"):  # quotients beyond float16
        found, expected = (kernels["floor_divide"](x1, x2) for kernels in (single, double))
    np.testing.assert_array_equal(found, expected, strict=True)
    steps = {"start": 0.1, "stop": 7, "step": 0.01, "dtype": np.dtype(dtype), "device": None}
    np.testing.assert_array_equal(single["arange"](**steps), double["arange"](**steps), strict=True)


def test_eigenvalues_without_float64():
    values, vectors = array_api.kernels(SINGLE)["eig"](np.array([[0, 1], [-1, 0]], np.float32))
    assert values.dtype == vectors.dtype == np.complex64
    np.testing.assert_allclose(np.sort(values.imag), [-1, 1], rtol=1e-6)


def test_quotients_of_bfloat16_that_are_nothing_in_float32():
    class Shorter(Narrow):
        """Both are lacking, and there is bfloat16."""

        def isdtype(self, dtype, kind):
            return dtype != bfloat16 and np.isdtype(dtype, kind)

    x1 = np.array([1e-38, -1e-38, 1e-38, -1e-38, -7.0]).astype(bfloat16)
    x2 = np.array([-3e38, 3e38, 3e38, -3e38, 2.0]).astype(bfloat16)
    found = array_api.kernels(Shorter("float64", "complex128"))["floor_divide"](x1, x2)
    assert found.tolist() == [-1, -1, 0, 0, -4]


class Single(pb.Backend):
    """NumPy without float64."""

    name = "single"
    dtypes: ClassVar = {
        d: np.dtype(d) for d in pb.dtypes.ALL if d not in (float64, pb.complex128, bfloat16)
    }
    kernels: ClassVar = array_api.kernels(SINGLE)

    def from_host(self, array, device, *, copy):
        return np.array(array, copy=copy or None)

    def to_host(self, array):
        host = array.view()
        host.flags.writeable = False
        return host

    def native(self, value):
        return np.asarray(value)


class SingleBodies(Single):
    """The same without kernels of composites: their bodies run."""

    name = "singlebodies"
    kernels: ClassVar = {
        name: kernel for name, kernel in Single.kernels.items() if pb.spec.OPS[name].primitive
    }


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("kind", [Single, SingleBodies])
def test_a_backend_without_float64_conforms(kind):
    pb.register_backend(kind(), replace=True)
    ops = ["erf", "erfinv", "lgamma", "digamma", "polygamma", "gelu", "floor_divide", "arange"]
    report = conform(kind.name, ops=ops, quick=True)
    assert report.passed, report.stopped or [
        f"{one.op}: {one.check}: {one.message}" for one in report.failures[:9]
    ]


def test_a_model_is_fitted_on_a_backend_without_float64():
    pb.register_backend(Single(), replace=True)
    x = np.random.default_rng(0).standard_normal((64, 4), np.float32)
    y = (x[:, 0] > 0).astype(np.int32)
    counts, area = pb.metrics.ConfusionMatrix(2), pb.metrics.AUC()
    with pb.device("single"):
        model = pb.Sequential([pb.layers.Dense(8, "gelu"), pb.layers.Dense(2)])
        model.compile(pb.optimizers.Adam(0.05), "sparse_softmax_cross_entropy", ["accuracy"])
        model.fit(x, y, epochs=8, verbose=False)
        assert model.evaluate(x, y, verbose=False)["accuracy"] > 0.9
        scores = model.predict(x, verbose=False)
        counts(y, scores)
        area(y, scores[:, 1] - scores[:, 0])
        assert counts.result().dtype == float32
        assert float(pb.sum(counts.result())) == 64
        assert area.result() > 0.9
        again = pb.metrics.ConfusionMatrix(2)
        again.restore_state({"counts": np.ones((2, 2))})  # as saved where there is float64
        assert again.result().tolist() == [[1, 1], [1, 1]]


# A library without integers of 64 bits.


class Narrowest:
    """The standard's namespace without int64 and uint64; its positions are int32."""

    def __getattr__(self, name):
        if name in ("int64", "uint64"):
            raise AttributeError(name)
        found = getattr(array_api_strict, name)
        if name not in ("argmax", "argmin", "argsort", "nonzero", "searchsorted"):
            return found

        def short(*args, **named):
            result = found(*args, **named)
            parts = result if isinstance(result, tuple) else (result,)
            parts = tuple(array_api_strict.astype(x, array_api_strict.int32) for x in parts)
            return parts if isinstance(result, tuple) else parts[0]

        return short


class Positions(pb.Backend):
    """array_api_strict without integers of 64 bits."""

    name = "positions"
    dtypes: ClassVar = {
        d: getattr(array_api_strict, d.name)
        for d in pb.dtypes.ALL
        if hasattr(array_api_strict, d.name) and d not in (pb.int64, pb.uint64)
    }
    kernels: ClassVar = array_api.kernels(Narrowest())

    def from_host(self, array, device, *, copy):
        assert array.dtype in self.dtypes
        return array_api_strict.asarray(array, copy=copy or None)

    def to_host(self, array):
        host = np.asarray(array)
        assert host.dtype in self.dtypes
        host.flags.writeable = False
        return host


class PositionsOfBodies(Positions):
    """The same without kernels of composites: their bodies run."""

    name = "positionsofbodies"
    kernels: ClassVar = {
        name: kernel for name, kernel in Positions.kernels.items() if pb.spec.OPS[name].primitive
    }


IMAGES = np.random.default_rng(0).standard_normal((2, 4, 6, 2), np.float32)
BOXES = np.array([[0, 0, 3, 2], [1, 1, 5, 3]], np.float32)
PLACES = np.array([1, 0])
LOGITS = np.log([[[0.1, 0.8, 0.1], [0.2, 0.5, 0.3]]]).astype(np.float32)
POSITIONS = {
    "argmax": lambda i: pb.argmax(IMAGES),
    "argwhere": lambda i: (pb.argwhere(IMAGES > 0), pb.argwhere(pb.asarray(3.0))),
    "count_nonzero": lambda i: pb.count_nonzero(IMAGES > 0, axis=1),
    "ctc_beam_search": lambda i: pb.ctc_beam_search(LOGITS, [2], beam_width=4, top_paths=2),
    "integer_conv": lambda i: pb.spec.OPS["integer_conv"].function(
        np.full((1, 1, 70_000), -30_000, np.int16), np.full((1, 70_000, 1), 30_000, np.int16)
    ),
    "integer_matmul": lambda i: pb.spec.OPS["integer_matmul"].function(
        np.full((2, 70_000), -30_000, np.int16), np.full((70_000, 2), 30_000, np.int16)
    ),
    "matrix_rank": lambda i: pb.linalg.matrix_rank(IMAGES),
    "max_pool": lambda i: pb.max_pool(IMAGES, (2, 3), padding="same"),
    "max_pool_with_indices": lambda i: (
        *pb.max_pool_with_indices(IMAGES, 2, strides=1),
        *pb.max_pool_with_indices(IMAGES, 2, ceil_mode=True, data_format="channels_first"),
    ),
    "max_unpool": lambda i: pb.max_unpool(
        IMAGES[:, :2, :2], np.arange(8).reshape(1, 2, 2, 2).repeat(2, 0).astype(i.dtype), (4, 6)
    ),
    "non_max_suppression": lambda i: pb.non_max_suppression(BOXES, [0.5, 0.6], i),
    "roi_align": lambda i: (
        pb.roi_align(IMAGES, BOXES, i, 2),
        pb.roi_align(IMAGES, BOXES, i, (2, 3), data_format="channels_first", reduction="max"),
    ),
    "searchsorted": lambda i: pb.searchsorted(np.arange(5, dtype=np.float32), IMAGES),
    "segment_sum": lambda i: pb.segment_sum(IMAGES, i, 3),
    "sort": lambda i: pb.top_k(IMAGES, 2),
    "subscript": lambda i: (pb.asarray(IMAGES)[:, i], pb.asarray(IMAGES)[[]]),
    "take": lambda i: pb.take(IMAGES, i, axis=1),
    "take_along_axis": lambda i: pb.take_along_axis(IMAGES, i.reshape(2, 1, 1, 1), axis=1),
    "unique_all": lambda i: pb.unique_all(IMAGES),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("kind", [Positions, PositionsOfBodies])
@pytest.mark.parametrize("name", POSITIONS)
def test_positions_are_int32_without_int64(kind, name):
    pb.register_backend(kind(), replace=True)
    for dtype in (np.int32, np.int8, np.uint8, np.int16, np.uint16):
        found, expected = [], []
        for device, results in ((kind.name, found), ("cpu", expected)):
            with pb.device(device):
                result = POSITIONS[name](PLACES.astype(dtype))
                results += result if isinstance(result, (tuple, list)) else [result]
        for one, right in zip(found, expected, strict=True):
            assert one.dtype == (pb.int32 if right.dtype == pb.int64 else right.dtype)
            np.testing.assert_allclose(one.numpy(), right.numpy(), rtol=1e-5, atol=1e-6)
