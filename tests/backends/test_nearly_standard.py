"""`array_api.kernels` over a namespace that is nearly the standard's."""

import types

import ml_dtypes
import numpy as np
import pytest

from pullback import array_api, errors
from pullback.array_api.namespace import FUNCTIONS, Completed, completed, lacks
from pullback.conformance.derived import values
from pullback.dtypes import bfloat16, float32, float64


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
    import array_api_strict

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


def test_functions_with_the_names_of_numpy_are_found():
    poor = Lacking("acos", "concat", "permute_dims", "pow", "bitwise_left_shift", "atan2", "bool")
    assert array_api.missing(poor) == {}
    kernels = array_api.kernels(poor)
    assert kernels["concat"]([np.ones(1), np.zeros(2)], axis=0).shape == (3,)
    assert kernels["permute_dims"](np.ones((2, 3)), axes=(1, 0)).shape == (3, 2)


@pytest.mark.parametrize("axis", [0, 1, -1])
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


def test_an_op_that_cannot_be_widened_is_an_error():
    with pytest.raises(errors.InputValueError, match="'floor' is not an elementwise op"):
        array_api.kernels(np, widen=["floor"])
