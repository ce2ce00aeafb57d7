"""Arrays of other libraries in and out by DLPack, and tensors from backend to backend."""

from __future__ import annotations

from typing import ClassVar

import array_api_strict
import numpy as np
import pytest

import pullback as pb
from pullback import array_api, dtypes
from pullback.devices import as_device


class Strict(pb.Backend):
    name = "interchange"
    dtypes: ClassVar = {
        one: getattr(array_api_strict, one.name)
        for one in dtypes.ALL
        if hasattr(array_api_strict, one.name)
    }
    kernels = array_api.kernels(array_api_strict)

    def from_host(self, array, device, *, copy):
        return array_api_strict.asarray(array, copy=copy or None)

    def to_host(self, array):
        host = np.asarray(array).view()
        host.flags.writeable = False
        return host

    def from_dlpack(self, value, device, *, copy):
        return array_api_strict.from_dlpack(value, copy=copy)


pb.register_backend(Strict(), replace=True)


def address(array):
    return np.asarray(array).ctypes.data


@pytest.mark.parametrize("dtype", [one for one in dtypes.ALL if one != dtypes.bfloat16], ids=str)
def test_numpy_and_back_without_a_copy(dtype):
    x = pb.ones((2, 3), dtype=dtype, device="cpu")
    out = np.from_dlpack(x)
    assert out.ctypes.data == x._array.ctypes.data
    assert not out.flags.writeable
    back = pb.from_dlpack(out)
    assert back._array.ctypes.data == x._array.ctypes.data
    assert (back.dtype, back.shape) == (dtype, (2, 3))


def test_what_numpy_shares_is_not_written_to():
    host = np.zeros(3, np.float32)
    x = pb.from_dlpack(host)
    x[0] = 5.0
    y = x + 1
    assert host.tolist() == [0, 0, 0]
    assert y.tolist() == [6, 1, 1]


def test_copies_where_asked():
    host = np.zeros(3, np.float32)
    copied = pb.from_dlpack(host, copy=True)
    host[0] = 1
    assert copied.tolist() == [0, 0, 0]
    x = pb.zeros(3, device="cpu")
    own = np.from_dlpack(x, copy=True)
    own[0] = 1
    assert x.tolist() == [0, 0, 0]


def test_a_library_without_the_word_for_read_only_gets_a_copy():
    class Older:
        """Speaks DLPack as it was before version 1."""

        def __init__(self, x):
            self.x = x

        def __dlpack__(self, stream=None):
            return self.x.__dlpack__(stream=stream)

        def __dlpack_device__(self):
            return self.x.__dlpack_device__()

    x = pb.zeros(3, device="cpu")
    assert address(np.from_dlpack(Older(x))) != address(x._array)


def test_another_library_and_back_without_a_copy():
    x = pb.ones(3, device="cpu")
    there = array_api_strict.from_dlpack(x)
    assert address(there) == x._array.ctypes.data
    assert address(pb.from_dlpack(there)._array) == x._array.ctypes.data


def test_strided_arrays():
    host = np.arange(12.0).reshape(3, 4)
    for view in (host.T, host[:, ::2], host[::-1]):
        x = pb.from_dlpack(view)
        np.testing.assert_array_equal(x.numpy(), view)
        assert x._array.ctypes.data == view.ctypes.data
        np.testing.assert_array_equal(np.from_dlpack(x), view)


def test_a_device_takes_what_is_there():
    x = pb.from_dlpack(np.ones(2, np.float32), device="interchange")
    assert str(x.device) == "interchange:cpu:0"
    assert (x + 1).tolist() == [2, 2]


def test_from_backend_to_backend():
    x = pb.asarray([1.0, 2.0], device="cpu")
    with pb.GradientTape() as tape:
        tape.watch(x)
        there = x.to("interchange:cpu:0")
        loss = pb.sum(there * there)
    assert there.device is loss.device is as_device("interchange")
    gradient = tape.gradient(loss, x)
    assert str(gradient.device) == "cpu:0"
    assert gradient.tolist() == [2, 4]
    assert there.to("cpu").tolist() == [1, 2]


def test_dtypes_that_the_other_backend_does_not_support():
    x = pb.ones(2, dtype="bfloat16", device="cpu")
    with pytest.raises(pb.errors.DTypeError, match=r"does not support bfloat16; .*astype"):
        x.to("interchange")
