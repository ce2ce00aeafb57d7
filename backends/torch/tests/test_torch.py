"""The torch backend: conformance on the CPU and on a GPU if there is one, and its own doings."""

import importlib.util
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import torch

import pullback as pb
from pullback import dtypes
from pullback.devices import as_device
from pullback.spec import OPS
from pullback_conformance import checks, gradients, plan
from pullback_conformance.samples import load

CPU = as_device("torch:cpu")
DEVICES = [CPU, *([as_device("torch:gpu")] if torch.cuda.is_available() else [])]
SUITES = {name: suite for name, suite in load().items() if name in OPS}

over_devices = pytest.mark.parametrize("device", DEVICES, ids=str)
over_ops = pytest.mark.parametrize("name", SUITES)


# Every dtype for values; one sample of each op to differentiate. All by the slow test.
@over_devices
@over_ops
def test_values(name, device, every, kit):
    every(kit(device).cases(name), checks.value, checks.rules, checks.body)


@over_devices
@pytest.mark.parametrize("name", [name for name in SUITES if OPS[name].differentiable])
def test_gradients(name, device, every, kit):
    every(kit(device).smooth(name, ["float64"])[:1], checks.unchanged, gradients.gradient)


@over_devices
@pytest.mark.parametrize("name", [name for name, suite in SUITES.items() if suite.errors])
def test_errors(name, device):
    checks.wrong_calls(checks.Calls(OPS[name], SUITES[name], device))


@pytest.mark.slow
@over_devices
@over_ops
def test_everything(name, device, every, kit):
    every(kit(device).cases(name), *(check.function for check in plan.EACH))


# The host ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_there_and_back(dtype):
    array = np.array([[0, 1, 2], [3, 4, 5]]).astype(dtype)
    for given in (array, array.T, array[::-1], array[:, ::2], array[0, 0], array[:0]):
        back = pb.asarray(given, device=CPU).numpy()
        assert back.dtype == dtype
        np.testing.assert_array_equal(back, given)


def test_numpy_is_a_read_only_view():
    x = pb.ones(3, device=CPU)
    assert x.numpy().ctypes.data == x._array.data_ptr()
    with pytest.raises(ValueError, match="read-only"):
        x.numpy()[0] = 2


def test_what_comes_in_is_copied_or_shared():
    array = np.ones(3, np.float32)
    copied = CPU.backend.from_host(array, CPU.native, copy=True)
    shared = CPU.backend.from_host(array, CPU.native, copy=False)
    array[0] = 2
    assert copied.tolist() == [1, 1, 1]
    assert shared.tolist() == [2, 1, 1]


def test_an_array_that_is_read_only_is_not_shared():
    array = np.ones(3, ml_dtypes.bfloat16)
    array.flags.writeable = False
    assert CPU.backend.from_host(array, CPU.native, copy=False).dtype == torch.bfloat16


def test_conjugates_leave_as_numbers():
    x = pb.conj(pb.asarray([1 + 2j], device=CPU))
    assert x.numpy().tolist() == [1 - 2j]


# Other libraries ---------------------------------------------------------------------------------


def test_dlpack_out_shares_and_says_read_only():
    x = pb.ones(3, device=CPU)
    host = np.from_dlpack(x)
    assert host.ctypes.data == x._array.data_ptr()
    assert not host.flags.writeable
    assert torch.from_dlpack(x).data_ptr() == x._array.data_ptr()
    assert torch.from_dlpack(x, copy=True).data_ptr() != x._array.data_ptr()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_dlpack_out_copies_where_it_cannot_say_read_only(dtype):
    x = pb.ones(3, dtype=dtype, device=CPU)
    version = None if dtype == "float32" else (1, 0)
    given = torch.utils.dlpack.from_dlpack(x.__dlpack__(max_version=version))
    given[0] = 5
    assert x.tolist() == [1, 1, 1]
    shared = torch.utils.dlpack.from_dlpack(x.__dlpack__(max_version=version, copy=False))
    assert shared.data_ptr() == x._array.data_ptr()


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "float16", "complex64"])
def test_between_numpys_backend_and_torch_without_a_copy(dtype):
    x = pb.ones(3, dtype=dtype, device="cpu")
    there = torch.from_dlpack(x)
    assert there.data_ptr() == x._array.ctypes.data
    back = pb.from_dlpack(there)
    assert back.device is as_device("cpu")
    assert back._array.ctypes.data == x._array.ctypes.data
    assert back.dtype == dtype
    here = pb.from_dlpack(x._array, device=CPU)
    assert here._array.data_ptr() == x._array.ctypes.data


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_to_and_from_the_other_backend(dtype):
    x = pb.asarray(np.array([[1, 0, 3]]).astype(dtype))
    there = x.to("torch:cpu:0")
    assert there.device is CPU
    assert there.dtype == dtype
    back = there.to("cpu")
    assert str(back.device) == "cpu:0"
    np.testing.assert_array_equal(back.numpy(), x.numpy())


def test_dlpack_in_shares_unless_told_to_copy():
    tensor = torch.ones(3)
    shared = CPU.backend.from_dlpack(tensor, CPU.native, copy=None)
    copied = CPU.backend.from_dlpack(tensor, CPU.native, copy=True)
    tensor[0] = 2
    assert shared.tolist() == [2, 1, 1]
    assert copied.tolist() == [1, 1, 1]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_tensor_of_torch_is_taken_as_it_is(dtype):
    tensor = torch.ones(3, dtype=dtype)
    x = pb.from_dlpack(tensor, device="torch:cpu")
    assert x.device is CPU
    assert x._array.data_ptr() == tensor.data_ptr()


def test_moving_between_backends_keeps_the_gradient():
    x = pb.asarray([1.0, 2.0], device="cpu")
    with pb.GradientTape() as tape:
        tape.watch(x)
        y = pb.sum(x.to("torch:cpu") ** 2)
    assert str(y.device) == "torch:cpu:0"
    gradient = tape.gradient(y, x)
    assert str(gradient.device) == "cpu:0"
    assert gradient.tolist() == [2, 4]


# What torch lacks --------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["uint16", "uint32", "uint64"])
def test_arithmetic_of_unsigned_integers(dtype):
    x = pb.asarray(np.array([3, 5], dtype), device=CPU)
    assert (x + x).dtype == dtype
    assert (x - 4).tolist() == [np.iinfo(dtype).max, 1]
    assert (x // 2).tolist() == [1, 2]
    assert pb.concat([x, x]).tolist() == [3, 5, 3, 5]
    assert pb.sum(x).tolist() == 8


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (1, 7), (3, 1), (2, 2)])
def test_products_of_long_vectors_are_exact_to_some_last_places(rows, columns):
    rng = np.random.default_rng(0)
    x1, x2 = rng.uniform(size=(rows, 300_000)), rng.uniform(size=(300_000, columns))
    x1, x2 = x1.astype(np.float32), x2.astype(np.float32)
    expected = x1.astype(np.float64) @ x2.astype(np.float64)
    with pb.device("torch:cpu:0"):
        found = (pb.asarray(x1) @ pb.asarray(x2)).numpy()
    assert np.abs(found / expected - 1).max() < 100 * np.finfo(np.float32).eps


def test_steps_backwards():
    host = np.arange(24).reshape(2, 3, 4)
    x = pb.asarray(host, device=CPU)
    for key in (np.s_[::-1], np.s_[..., ::-2], np.s_[1, ::-1, None, 3:0:-1], np.s_[:, 0:2:-1]):
        np.testing.assert_array_equal(x[key].numpy(), host[key])
        changed, wanted = pb.asarray(host, device=CPU), host.copy()
        changed[key] = wanted[key] = -host[key]
        np.testing.assert_array_equal(changed.numpy(), wanted)


# Against the NumPy backend -----------------------------------------------------------------------


def losses(model, optimizer, steps):
    rng = np.random.default_rng(0)
    images = rng.normal(size=(16, 6, 6, 1)).astype(np.float32)
    labels = (images.mean((1, 2, 3)) > 0).astype(np.int32)
    for _ in range(steps):
        with pb.GradientTape() as tape:
            loss = pb.losses.sparse_softmax_cross_entropy(labels, model(images))
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        yield float(loss)


def network():
    layers = pb.layers
    convolution = layers.Conv2D(4, 3, padding="same", activation="relu")
    parts = [convolution, layers.MaxPool2D(2), layers.Flatten(), layers.Dense(2)]
    return pb.Sequential(parts), pb.optimizers.Adam(0.02)


def test_checkpoints_go_from_backend_to_backend(tmp_path):
    pb.random.seed(0)
    found, saved = [], None
    for turn, device in enumerate(("cpu", "torch:cpu", "cpu")):
        with pb.device(device):
            model, optimizer = network()
            checkpoint = pb.Checkpoint(model=model, optimizer=optimizer)
            if saved is not None:
                status = checkpoint.restore(saved)
            found += losses(model, optimizer, 5)
            if saved is not None:
                status.assert_complete()
            assert all(one.device is as_device(device) for one in model.variables)
            saved = checkpoint.save(str(tmp_path / str(turn)))
    pb.random.seed(0)
    with pb.device("cpu"):
        np.testing.assert_allclose(found, list(losses(*network(), 15)), rtol=1e-4)


def test_the_digits_are_learned_as_on_numpy():
    path = Path(__file__).parents[3] / "tests" / "parity.py"
    spec = importlib.util.spec_from_file_location("parity", path)
    parity = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(parity)
    wanted = parity.digits_losses("cpu", 50)
    for device in DEVICES:
        found = parity.digits_losses(device, 50)
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-4)
    assert wanted[-1] < 0.5 * wanted[0]


SPECIAL = [
    ("remainder", (-0.0, 1.0), "float32"),
    ("remainder", (0.0, -1.0), "float64"),
    ("remainder", (3.0, -1.5), "float32"),
    *(("log1p", (complex(a, b),), "complex128") for a, b in (
        (np.inf, np.nan), (-np.inf, np.nan), (np.nan, np.inf), (np.inf, 1.0), (-np.inf, np.inf),
    )),
    *((name, (complex(a, b),), "complex128") for name in ("expm1", "log1p") for a, b in (
        (0.0, -0.0), (-0.0, 0.0), (-1.0, -0.0), (1.0, -0.0), (-3.0, -0.0), (np.inf, -0.0),
        (-np.inf, -1.0),
    )),
    *(("acos", (complex(a, b),), "complex128") for a in (0.0, -0.0, 2.0) for b in (0.0, -0.0, 1.0)),
    ("tanh", (complex(np.inf, 1.07e154),), "complex128"),
    ("tanh", (complex(-np.inf, -2.0),), "complex128"),
    ("tan", (complex(2.0, np.inf),), "complex128"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "values", "dtype"), SPECIAL)
@over_devices
def test_zeros_and_infinities_as_the_standard_has_them(name, values, dtype, device):
    function = getattr(pb, name)
    expected = function(*[pb.asarray(v, dtype=dtype, device="cpu:0") for v in values]).numpy()
    found = function(*[pb.asarray(v, dtype=dtype, device=device) for v in values]).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-14)
    for part in ("real", "imag"):
        mine, theirs = getattr(found, part), getattr(expected, part)
        assert np.isnan(mine) or np.signbit(mine) == np.signbit(theirs), part


class TestInterchange:
    def test_bfloat16_both_ways(self):
        x = torch.tensor([1.5, -2.0], dtype=torch.bfloat16)
        for device in ("cpu:0", CPU):
            for made in (pb.from_dlpack(x, device=device), pb.asarray(x, device=device)):
                assert (made.dtype, made.device, made.tolist()) == (
                    "bfloat16", as_device(device), [1.5, -2.0],
                )  # fmt: skip
                back = torch.from_dlpack(made)
                assert (back.dtype, back.tolist()) == (torch.bfloat16, [1.5, -2.0])

    def test_negative_strides(self):
        x = pb.arange(3.0, device="cpu:0")
        assert torch.from_dlpack(pb.flip(x)).tolist() == [2, 1, 0]
        assert torch.as_tensor(x[::-1]).tolist() == [2, 1, 0]

    def test_what_torch_does_not_hand_over(self):
        x = torch.ones(2, requires_grad=True)
        for take in (pb.from_dlpack, pb.asarray):
            with pytest.raises(pb.errors.ConversionError, match=r"use tensor\.detach\(\)"):
                take(x)

    def test_the_active_device_takes_what_is_there(self):
        with pb.device("torch:cpu:0"):
            assert pb.from_dlpack(torch.ones(2)).device is CPU
            assert pb.from_dlpack(np.ones(2)).device is CPU
        assert str(pb.from_dlpack(torch.ones(2), device="cpu:0").device) == "cpu:0"
