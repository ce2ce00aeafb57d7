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


class OfUnsigned:
    """bfloat16 of another library: a capsule of uint16 whose code of the kind is that of bfloat."""

    def __init__(self, x):
        self.x = x

    def __dlpack__(self, **kwargs):
        return self.x.__dlpack__(**kwargs)

    def __dlpack_device__(self):
        return self.x.__dlpack_device__()


class BeforeOne(OfUnsigned):
    def __dlpack__(self, *, stream=None):
        return self.x.__dlpack__()


@pytest.mark.parametrize("producer", [OfUnsigned, BeforeOne])
def test_bfloat16_out_and_in(producer):
    x = pb.asarray([[1.5, -2.0, 3.25]], dtype="bfloat16", device="cpu:0")
    back = pb.from_dlpack(producer(x))
    assert (back.dtype, back.tolist()) == ("bfloat16", x.tolist())
    assert pb.from_dlpack(OfUnsigned(x), copy=True).tolist() == x.tolist()
    assert pb.from_dlpack(producer(x.mT)).tolist() == x.mT.tolist()
    # NumPy has no dtype for it.
    with pytest.raises(RuntimeError, match="Unsupported dtype"):
        np.from_dlpack(x)


def test_bfloat16_that_only_dlpack_tells():
    class Foreign(OfUnsigned):
        def __array__(self, dtype=None, copy=None):
            raise TypeError("there is no such dtype in NumPy")

    x = pb.asarray([1.5, 2.0], dtype="bfloat16", device="cpu:0")
    taken = pb.asarray(Foreign(x))
    assert (taken.dtype, taken.tolist()) == ("bfloat16", [1.5, 2.0])
    assert pb.asarray(Foreign(x), dtype="float64").dtype == "float64"


def test_negative_strides_are_handed_out_as_copies():
    x = pb.arange(6.0, device="cpu:0")
    for turned in (x[::-1], pb.flip(x), pb.reshape(x, (2, 3))[:, ::-1]):
        out = np.from_dlpack(turned)
        assert min(out.strides) > 0
        assert out.tolist() == turned.tolist()
        with pytest.raises(BufferError, match="copy=False"):
            np.from_dlpack(turned, copy=False)


@pytest.mark.parametrize("error", [RuntimeError, BufferError, ValueError, TypeError])
def test_what_another_library_does_not_hand_over_is_an_error_of_ours(error):
    class Foreign:
        def __dlpack__(self, **kwargs):
            raise error("use tensor.detach()")

        def __dlpack_device__(self):
            return (1, 0)

        def __array__(self, dtype=None, copy=None):
            raise error("use tensor.detach()")

    for take in (pb.from_dlpack, pb.asarray):
        with pytest.raises(pb.errors.ConversionError, match=r"Foreign.*use tensor\.detach\(\)"):
            take(Foreign())
    with pytest.raises(BufferError, match="in its own library first"):
        pb.from_dlpack(Foreign())


def test_the_active_device_takes_what_is_there():
    host = np.ones(3, np.float32)
    with pb.device("interchange:cpu:0"):
        assert str(pb.from_dlpack(host).device) == "interchange:cpu:0"
    assert str(pb.from_dlpack(host).device) == str(pb.default_device())


def test_to_numpy_is_read_only_unless_a_copy_is_asked_for():
    x = pb.ones(3)
    assert not np.asarray(x).flags.writeable
    for own in (np.array(x), np.asarray(x, copy=True)):
        own[0] = 5.0
    assert x.tolist() == [1, 1, 1]


class TestWhatPlotsAskFor:
    """The calls by which matplotlib takes numbers, each as of NumPy's arrays."""

    @pytest.mark.parametrize("other", [None, "text"])
    def test_options_are_broadcast_beside_tensors(self, other):
        x = pb.asarray([1.0, 2.0])
        numbers, options = np.broadcast_arrays(x, other)
        assert np.asarray(numbers).tolist() == [1.0, 2.0]
        assert options.tolist() == [other, other]

    def test_strides(self):
        rng = np.random.default_rng(0)
        for _ in range(20):
            array = rng.standard_normal(rng.integers(1, 4, rng.integers(0, 4)), np.float32)
            assert pb.asarray(array).strides == pb.asarray(array).numpy().strides

    def test_they_draw(self):
        pyplot = pytest.importorskip("matplotlib.pyplot")
        pyplot.switch_backend("Agg")
        x, y = pb.asarray([0.0, 1.0, 2.0]), pb.asarray([1.0, 2.0, 3.0])
        figure = pyplot.figure()
        flat, solid = figure.add_subplot(121), figure.add_subplot(122, projection="3d")
        assert [bar.get_height() for bar in flat.bar(x, y)] == [1.0, 2.0, 3.0]
        assert [bar.get_width() for bar in flat.barh(x, y)] == [1.0, 2.0, 3.0]
        solid.plot_surface(*np.meshgrid(x, y), np.outer(y, x))
        pyplot.close(figure)
