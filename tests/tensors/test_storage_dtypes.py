"""Dtypes for storage: converted to and from float32, saved, and never computed with."""

from __future__ import annotations

from typing import ClassVar

import ml_dtypes
import numpy as np
import pytest

import pullback as pb
from pullback import dtypes, errors
from pullback.plugins.public import registry
from pullback.plugins.registry import Registry

NAMES = [dtype.name for dtype in dtypes.STORAGE]
VALUES = [0.0, 1.0, -3.0, 6.4, 7.0]
FIX = r"does not compute; convert with x\.astype\(pb\.float32\) first"


@pytest.fixture(params=NAMES)
def dtype(request):
    return getattr(pb, request.param)


def stored(dtype, values=VALUES):
    return pb.asarray(values, dtype=pb.float32, device="cpu").astype(dtype)


def test_values_are_those_of_the_host_type_and_come_back(dtype):
    x = stored(dtype)
    host = np.asarray(VALUES, np.float32).astype(dtype.dtype)
    assert x.dtype == dtype
    assert x.dtype.itemsize == 1
    assert x.shape == (5,)
    np.testing.assert_array_equal(x.numpy(), host)
    back = x.astype(pb.float32)
    assert back.dtype == pb.float32
    np.testing.assert_array_equal(back.numpy(), host.astype(np.float32))
    assert x.astype(dtype, copy=False) is x
    assert f"dtype={dtype.name}" in str(x)


def test_rounding_is_to_the_nearest_and_ends_as_the_format_says():
    x = stored(pb.float8_e4m3fn, [0.3, 1.0625, 1.1875, 448.0, 1e6, -0.0, np.nan])
    assert str(x.astype(pb.float32).tolist()) == "[0.3125, 1.0, 1.25, 448.0, nan, -0.0, nan]"
    x = stored(pb.float8_e5m2, [0.3, 1.125, 57344.0, 1e6, -np.inf])
    assert x.astype(pb.float32).tolist() == [0.3125, 1.0, 57344.0, np.inf, -np.inf]
    assert stored(pb.int4, [7.9, -8.0, -0.5]).astype(pb.float32).tolist() == [7.0, -8.0, 0.0]
    assert stored(pb.uint4, [15.9, 0.5]).astype(pb.float32).tolist() == [15.0, 0.0]


@pytest.mark.parametrize("other", ["float64", "float16", "bfloat16", "int32", "bool", "complex64"])
def test_float32_only(dtype, other):
    x = stored(dtype)
    with pytest.raises(errors.DTypeError, match=rf"to float32 only; .*astype\(pb\.{other}\)"):
        x.astype(other)
    y = pb.ones(2, dtype=other, device="cpu")
    with pytest.raises(errors.DTypeError, match=r"imaginary|from float32 only; write x\.astype"):
        y.astype(dtype)


@pytest.mark.parametrize(
    "compute",
    [
        lambda x: x + x,
        lambda x: x * 2,
        lambda x: 2.0 * x,
        lambda x: -x,
        lambda x: x == x,
        lambda x: x @ x,
        lambda x: x[0],
        lambda x: pb.exp(x),
        lambda x: pb.sum(x),
        lambda x: pb.reshape(x, (1, 5)),
        lambda x: pb.concat([x, x]),
        lambda x: pb.where(x, x, x),
        lambda x: pb.softmax(x),
        lambda x: pb.zeros_like(x) + x,
        lambda x: pb.result_type(x, x),
    ],
)
def test_any_computation_says_what_to_write(dtype, compute):
    x = stored(dtype)
    for _ in range(2):
        with pytest.raises(errors.DTypeError, match="stores values and does not compute"):
            compute(x)
    with pytest.raises(errors.DTypeError, match=FIX):
        x + x


def test_what_makes_tensors_makes_none(dtype):
    for make in (
        lambda: pb.zeros(3, dtype=dtype, device="cpu"),
        lambda: pb.full((3,), 2, dtype=dtype, device="cpu"),
        lambda: pb.sum(pb.ones(3, device="cpu"), dtype=dtype),
    ):
        for _ in range(2):
            with pytest.raises(errors.DTypeError, match="stores values and does not compute"):
                make()
        pb.sum(pb.ones(3, device="cpu"))
    with pytest.raises(errors.DTypeError, match=r"float32\)\.astype\(pb\.\w+\)"):
        pb.asarray([1, 2], dtype=dtype, device="cpu")


def test_there_is_no_gradient_through_them():
    x = pb.asarray([1.0, 2.0], device="cpu")
    with pb.GradientTape() as tape:
        tape.watch(x)
        y = pb.sum(x.astype(pb.float8_e5m2).astype(pb.float32) * x)
    assert tape.gradient(y, x).tolist() == [1.0, 2.0]


def test_captured_functions_convert_to_them_and_back(dtype):
    pack = pb.function(lambda x: x.astype(dtype).astype(pb.float32) * 2)
    x = pb.asarray(VALUES, device="cpu")
    expected = stored(dtype).astype(pb.float32) * 2
    for _ in range(3):
        np.testing.assert_array_equal(pack(x).numpy(), expected.numpy())


def test_dlpack_refuses(dtype):
    with pytest.raises(errors.ExchangeError, match=r"DLPack; convert .*, or take x\.numpy\(\)"):
        np.from_dlpack(stored(dtype))


def test_arrays_of_the_host_come_in_as_they_are(dtype):
    host = np.asarray(VALUES, np.float32).astype(dtype.dtype)
    x = pb.asarray(host, device="cpu")
    assert x.dtype == dtype
    np.testing.assert_array_equal(x.numpy(), host)


def test_checkpoints_hold_them(dtype, tmp_path):
    class Packed(pb.layers.Layer):
        def __init__(self, values):
            super().__init__()
            self.codes = pb.Variable(stored(dtype, values), trainable=False)

    saved, other = Packed(VALUES), Packed([1.0] * 5)
    path = pb.Checkpoint(model=saved).save(tmp_path / "one")
    pb.Checkpoint(model=other).restore(path)
    assert other.codes.dtype == dtype
    assert not other.codes.trainable
    np.testing.assert_array_equal(other.codes.numpy(), saved.codes.numpy())


def test_kinds_and_promotion(dtype):
    assert not pb.isdtype(dtype, "numeric")
    assert pb.isdtype(dtype, dtype)
    assert pb.can_cast(dtype, dtype)
    assert not pb.can_cast(dtype, pb.float32)
    assert dtypes.as_dtype(dtype.name) is dtype.dtype
    with pytest.raises(errors.DTypeError, match="not a floating dtype"):
        pb.finfo(dtype)
    assert all(one not in dtypes.ALL for one in dtypes.STORAGE)


class Without(pb.Backend):
    """A small backend that has none of them."""

    name = "bench"
    dtypes: ClassVar = {pb.float32: np.dtype("float32"), pb.bool: np.dtype("bool")}
    kernels: ClassVar = {"astype": lambda x, *, dtype: x.astype(dtype), "add": np.add}

    def from_host(self, array, device, *, copy):
        return np.array(array)

    def to_host(self, array):
        return array


class With(Without):
    storage_dtypes: ClassVar = {pb.int4: np.dtype(ml_dtypes.int4)}


def test_a_backend_has_those_that_it_names():
    pb.register_backend(With(), replace=True)
    x = pb.asarray([1.0, -2.0], device="bench")
    assert x.astype(pb.int4).astype(pb.float32).tolist() == [1.0, -2.0]
    assert stored(pb.int4).to("bench").device == x.device
    assert x.astype(pb.int4).to("cpu").dtype == pb.int4
    with pytest.raises(errors.DTypeError, match="does not support uint4; it supports float32"):
        x.astype(pb.uint4)
    pb.register_backend(Without(), replace=True)
    x = pb.asarray([1.0, -2.0], device="bench")
    with pytest.raises(errors.DTypeError, match="does not support int4; it supports float32"):
        x.astype(pb.int4)
    with pytest.raises(errors.DTypeError, match="does not support int4"):
        stored(pb.int4).to("bench")
    registry._slots.pop("bench")
    registry.ready.pop("bench")


@pytest.mark.parametrize("wrong", [{"dtypes": {pb.int4: 1}}, {"storage_dtypes": {pb.int8: 1}}])
def test_a_backend_names_them_apart(wrong):
    backend = type("Wrong", (Without,), wrong)()
    with pytest.raises(errors.PluginError, match=r"belong into Wrong\.storage_dtypes"):
        Registry(lambda: []).register_backend(backend)
