"""The backend without its kernels: the host, other libraries, errors that come late."""

import ml_dtypes
import numpy as np
import pytest

import pullback as pb
import pullback_cupy
from pullback import dtypes
from pullback_cupy import backend, faults, precision


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_there_and_back(dtype, device):
    array = np.array([[0, 1, 2], [3, 4, 5]]).astype(dtype)
    for given in (array, array.T, array[::-1], array[:, ::2], array[0, 0], array[:0]):
        back = pb.asarray(given, device=device).numpy()
        assert back.dtype == dtype
        assert not back.flags.writeable
        np.testing.assert_array_equal(back, given)


def test_what_comes_in_is_copied(device):
    array = np.ones(3, np.float32)
    for copy in (True, False):
        x = device.backend.from_host(array, device.native, copy=copy)
        array[0] += 1
        assert float(x[0]) == array[0] - 1


def test_native_arrays_are_of_cupy(device):
    import cupy

    x = pb.ones((2, 3), device=device)
    for y in (x, pb.sum(x), x[0, 0], pb.argmax(x), x.astype("bfloat16"), pb.softmax(x)):
        assert isinstance(y._array, cupy.ndarray)


def test_memory_is_told(device):
    used, held, total, peak = device.memory
    assert peak is None
    assert 0 <= used <= held <= total


def test_dlpack_out_copies_unless_told_not_to(device):
    x = pb.ones(3, device=device)
    address = x._array.data.ptr
    import cupy

    assert cupy.from_dlpack(_Capsule(x, copy=False)).data.ptr == address
    assert cupy.from_dlpack(_Capsule(x)).data.ptr != address


class _Capsule:
    """A tensor as a library sees it that asks for a copy, or forbids one."""

    def __init__(self, x, **given):
        self.x, self.given = x, given

    def __dlpack__(self, **kwargs):
        kwargs.pop("copy", None)
        return self.x.__dlpack__(**kwargs, **self.given)

    def __dlpack_device__(self):
        return self.x.__dlpack_device__()


def test_what_is_on_the_host_cannot_be_shared(device):
    array = np.ones(3, np.float32)
    assert float(device.backend.from_dlpack(array, device.native, copy=None)[0]) == 1
    with pytest.raises(BufferError, match="on the host"):
        device.backend.from_dlpack(array, device.native, copy=False)


def test_between_backends_the_gradient_survives(device):
    x = pb.asarray([1.0, 2.0], device="cpu")
    with pb.GradientTape() as tape:
        tape.watch(x)
        y = pb.sum(x.to(device) ** 2)
    assert y.device is device
    gradient = tape.gradient(y, x)
    assert str(gradient.device) == "cpu:0"
    assert gradient.tolist() == [2, 4]


# Errors that only the device sees -----------------------------------------------------------------


def test_an_index_outside_is_told_to_whoever_waits(device):
    x = pb.asarray([1.0, 2.0, 3.0], device=device)
    indices = pb.asarray([0, 3], device=device)
    found = pb.take(x, indices)
    with pytest.raises(
        pb.errors.IndexingError, match="take: an index is outside an axis of size 3"
    ):
        found.numpy()
    # Once told, it is over.
    assert pb.take(x, indices[:1]).tolist() == [1]


def test_synchronize_tells_too(device):
    x = pb.asarray([1.0, 2.0, 3.0], device=device)
    pb.segment_sum(x, pb.asarray([0, 1, 5], device=device), 2)
    with pytest.raises(pb.errors.IndexingError, match="segment_sum"):
        device.synchronize()
    device.synchronize()


def test_a_profile_has_times_of_the_device(device):
    x = pb.ones((64, 64), device=device)
    with pb.profile() as profile:
        for _ in range(3):
            x @ x
    [row] = profile.ops
    assert (row.op, row.calls) == ("matmul", 3)
    assert 0 < row.device_seconds < profile.seconds
    assert "device ms" in str(profile)


def test_a_negative_power_of_integers_is_told(device):
    x = pb.asarray([2, 3], device=device)
    powers = x ** pb.asarray([2, -1], device=device)
    with pytest.raises(pb.errors.InputValueError, match="pow: an integer to a negative power"):
        powers.numpy()


def test_blocking_calls_tell_at_once(device, monkeypatch):
    monkeypatch.setattr(faults, "BLOCKING", True)
    x = pb.asarray([1.0, 2.0], device=device)
    with pytest.raises(pb.errors.IndexingError, match="take"):
        pb.take(x, pb.asarray([2], device=device))


# Precision and devices ----------------------------------------------------------------------------


def test_tf32_is_off_until_asked_for(monkeypatch):
    import cupy

    seen = []
    monkeypatch.setattr(cupy._core, "set_compute_type", lambda *given: seen.append(given))
    monkeypatch.setattr(precision, "_tf32", False)
    pullback_cupy.use_tf32()
    assert precision.tf32()
    pullback_cupy.use_tf32(False)
    assert not precision.tf32()
    routines = cupy._core._routines_linalg
    assert seen == [
        (np.float32, routines.COMPUTE_TYPE_TF32), (np.float32, routines.COMPUTE_TYPE_DEFAULT)
    ]  # fmt: skip


def test_kernels_run_on_the_device_of_their_arrays(monkeypatch):
    class Array:
        def __init__(self, device):
            self.device = device

    class Device:
        current = 0

        def __init__(self, number):
            self.id = number

        def __enter__(self):
            self.outer, Device.current = Device.current, self.id

        def __exit__(self, *args):
            Device.current = self.outer

    monkeypatch.setattr(backend.cupy.cuda, "get_device_id", lambda: Device.current)
    run = backend.on_its_device(lambda *arrays, axis=0: Device.current)
    near, far = Array(Device(0)), Array(Device(2))
    assert run(far, None, axis=1) == 2
    assert run(None, near) == 0
    assert run([far, far]) == 2
    assert Device.current == 0


def test_bfloat16_knows_its_kind():
    from pullback_cupy.namespace import xp

    bfloat16 = np.dtype(ml_dtypes.bfloat16)
    assert xp.isdtype(bfloat16, "real floating")
    assert not xp.isdtype(bfloat16, ("integral", "bool"))
    assert xp.isdtype(np.dtype(np.int8), ("signed integer", "bool"))
