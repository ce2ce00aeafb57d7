"""Inputs of an op: Python numbers, host data, tensors on several devices; and the errors."""

from __future__ import annotations

import itertools
import re
from typing import ClassVar

import numpy as np
import pytest

import pullback as pb
from pullback import dtypes, errors
from pullback.devices import as_device
from pullback.plugins.backend import Backend
from pullback.plugins.public import registry
from pullback.spec import OPS
from pullback.tensor import Tensor, TensorLike
from pullback_conformance.case import arguments, to_tensor
from pullback_conformance.samples import load

CPU = as_device("cpu")
SUITES = load()


# Python numbers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
@pytest.mark.parametrize("number", [True, 2, 2.0, 2j])
def test_numbers_are_weak(dtype, number):
    x = pb.asarray(np.ones(2), dtype=dtype) if dtype != "bool" else pb.asarray([True, True])
    expected = dtypes.promote([x.dtype, type(number)])
    for found in (x * number, number * x, x * number):
        assert found.dtype == expected
        np.testing.assert_array_equal(found.numpy(), np.full(2, number, expected))


def test_numbers_that_are_equal_and_not_the_same():
    x = pb.asarray([1, 2])
    assert (x * 1).dtype == np.int32
    assert (x * 1.0).dtype == np.float32
    assert (x * True).dtype == np.int32
    assert (x * (1 + 0j)).dtype == np.complex64
    y = pb.asarray([1.0])
    for _ in range(2):
        assert np.signbit((y * 0.0).numpy())[0] == np.False_
        assert np.signbit((y * -0.0).numpy())[0] == np.True_
        assert np.isnan((y * float("nan")).numpy())[0]
        assert (y * float("inf")).tolist() == [float("inf")]


@pytest.mark.parametrize(("dtype", "number"), [("int8", 300), ("uint8", -1), ("int32", 2**40)])
def test_number_out_of_range(dtype, number):
    x = pb.asarray([1, 2], dtype=dtype)
    with pytest.raises(errors.ConversionError, match=rf"out of range for {dtype}"):
        x + number


def test_large_number_beside_a_float():
    x = pb.asarray([1.0])
    assert (x * 2**40).tolist() == [float(2**40)]
    assert (pb.asarray([1.0], dtype="float16") * 1e6).tolist() == [float("inf")]


def test_many_numbers_do_not_pile_up():
    x = pb.asarray([1.0])
    for i in range(10_000):
        _ = x * float(i)
    assert len(OPS["multiply"].scalars) <= 5000
    assert len(CPU.constants) <= 5000
    assert (x * 3.0).tolist() == [3.0]


def test_numpy_scalars_are_arrays_of_their_dtype():
    x = pb.asarray([1.0])
    assert (x * np.float64(2)).dtype == np.float64
    assert (x * np.float32(2)).dtype == np.float32
    assert (x * np.int64(2)).dtype == np.float32


# Errors ------------------------------------------------------------------------------------------


def test_message_names_op_shapes_and_fix():
    x, y = pb.asarray(np.ones((2, 3))), pb.asarray(np.ones((4, 3)))
    with pytest.raises(errors.ShapeError) as caught:
        x + y
    message = str(caught.value)
    assert message.startswith("add: ")
    assert message.count("add") == 1
    for word in ("(2, 3)", "(4, 3)"):
        assert word in message


def test_error_in_a_body_names_the_op_that_was_called(define):
    @define(name="test_outer")
    def outer_op(x: TensorLike, y: TensorLike, /) -> Tensor:
        """x times y."""
        return x * y

    with pytest.raises(errors.ShapeError, match=r"^test_outer: "):
        outer_op(pb.asarray(np.ones(2)), pb.asarray(np.ones(3)))


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (ValueError("bad"), errors.InputValueError),
        (IndexError("bad"), errors.IndexingError),
        (RuntimeError("bad"), errors.BackendError),
        (MemoryError("bad"), MemoryError),
        (KeyboardInterrupt(), KeyboardInterrupt),
    ],
)
def test_what_a_kernel_raises(define, offer, raised, expected):
    @define(name="test_raises")
    def raises(x: TensorLike, /, *, scale: float = 2.0) -> Tensor:
        """Raises."""
        return x

    def kernel(x, *, scale):
        raise raised

    offer("test_raises", kernel)
    with pytest.raises(expected) as caught:
        raises(pb.asarray([1.0, 2.0]))
    if isinstance(caught.value, errors.PullbackError):
        assert re.search(r"test_raises\(float32\[2\], scale=2.0\): bad", str(caught.value))
        assert caught.value.__cause__ is raised


def test_dtypes_that_do_not_promote():
    x, y = pb.asarray([1], dtype="int64"), pb.asarray([1], dtype="uint64")
    with pytest.raises(errors.DTypeError, match=r"add: int64 and uint64.*astype"):
        x + y


@pytest.mark.parametrize("op", ["add", "equal", "divide", "maximum", "matmul"])
def test_later_calls_of_two_dtypes_are_as_the_first(op):
    """The first call looks up how they promote, later ones are specialized code."""
    function, rng = OPS[op].function, np.random.default_rng(3)
    for first in dtypes.ALL:
        for second in dtypes.ALL:
            x, y = (to_tensor(rng.integers(1, 3, (3, 3)).astype(d), CPU) for d in (first, second))
            found = []
            for resolutions in ({}, None):
                if resolutions is not None:
                    OPS[op].resolutions = resolutions
                try:
                    with pb.GradientTape() as tape:
                        tape.watch([t for t in (x, y) if dtypes.is_floating(t.dtype)])
                        z = function(x, y)
                    slopes = [tape.gradient(z, t) for t in (x, y)] if z.dtype.kind == "f" else []
                    values = [z, *(slope for slope in slopes if slope is not None)]
                    found.append([(v.dtype, v.numpy().tobytes()) for v in values])
                except errors.PullbackError as error:
                    found.append([type(error), str(error)])
            assert found[0] == found[1], (first, second)


def test_dtype_that_an_op_does_not_take():
    with pytest.raises(errors.DTypeError, match=r"bitwise_and: .*float32"):
        pb.asarray([1.0]) & pb.asarray([1.0])


def test_host_data_that_are_no_array():
    with pytest.raises(errors.ConversionError, match="add: "):
        pb.add([1.0], [[1.0], [1.0, 2.0]])
    with pytest.raises(errors.ConversionError, match="add: "):
        pb.add([1.0], "text")


def test_axis_outside():
    with pytest.raises(
        errors.AxisError, match=r"sum: .*axis 3 is out of bounds for array of dimension 2"
    ):
        pb.sum(np.ones((2, 3)), axis=3)
    with pytest.raises(errors.InputTypeError, match="sum: "):
        pb.sum(np.ones((2, 3)), axis=1.5)


# Devices -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def two_devices():
    """A backend of two devices, each with arrays of its own kind of float32."""
    from pullback_numpy import NumPyBackend

    class TwoGpus(NumPyBackend):
        name = "two_gpus"
        kinds = ("gpu",)

        def device_count(self, kind):
            return 2 if kind == "gpu" else 0

        def native_device(self, kind, index):
            return index

    # Gone afterwards: other tests ask whether there is a GPU.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "_slots", dict(registry._known()))
        patch.setattr(registry, "ready", dict(registry.ready))
        pb.register_backend(TwoGpus())
        yield pb.device("two_gpus:gpu:0"), pb.device("two_gpus:gpu:1")


def test_numbers_on_two_devices(two_devices):
    first, second = (to_tensor(np.ones(2, np.float32), device) for device in two_devices)
    for x in (first, second, first):
        for found in (x * 2.0, 2.0 * x, x + 1):
            assert found.device is x.device
            assert found.tolist() == [2.0, 2.0]


def test_bodies_on_two_devices(two_devices, define):
    """Tensors that a body makes are on the device of its inputs, whichever came first."""
    seen = []

    @define(name="test_plus_zeros")
    def plus_zeros(x: TensorLike, /) -> Tensor:
        """x plus zeros."""
        zeros = pb.zeros(x.shape, device=x.device)
        seen.append(zeros.device)
        return x + zeros

    for device in (*two_devices, *two_devices[::-1]):
        for _ in range(2):
            x = to_tensor(np.ones(2, np.float32), device)
            assert plus_zeros(x).device is device
            assert seen.pop() is device


def test_host_data_follow_the_first_tensor(two_devices):
    x = to_tensor(np.ones(2, np.float32), two_devices[1])
    for found in (x * [2.0, 3.0], np.array([2.0, 3.0], np.float32) * x, pb.concat([[1.0], x])):
        assert found.device is two_devices[1]


def test_tensors_on_two_devices(two_devices):
    first, second = (to_tensor(np.ones(2, np.float32), device) for device in two_devices)
    pattern = (
        r"add: tensors on two_gpus:gpu:0 and two_gpus:gpu:1; "
        r"move one with x.to\('two_gpus:gpu:0'\)"
    )
    for _ in range(2):
        with pytest.raises(errors.DeviceError, match=pattern):
            first + second
    assert (first + second.to("two_gpus:gpu:0")).device is first.device


def test_gradient_through_a_move(two_devices):
    x = pb.asarray([1.0, 2.0])
    with pb.GradientTape() as tape:
        tape.watch(x)
        y = x.to(two_devices[1]) * 3.0
    g = tape.gradient(y, x)
    assert y.device is two_devices[1]
    assert g.device is x.device
    assert g.tolist() == [3.0, 3.0]


class WithoutComplex(Backend):
    """A backend of few dtypes, as that of a phone."""

    name = "few"
    dtypes: ClassVar = {
        one: one
        for one in dtypes.ALL
        if one.kind != "c" and one not in (dtypes.float64, dtypes.int64)
    }
    kernels: ClassVar = {
        "add": np.add,
        "full": lambda *, shape, fill_value, dtype, device: np.full(shape, fill_value, dtype),
        "astype": lambda x, *, dtype: x.astype(dtype),
        "stack": lambda arrays, *, axis: np.stack(arrays, axis),
    }

    def from_host(self, array, device, *, copy):
        return np.array(array)

    def to_host(self, array):
        return array


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(registry, "_slots", dict(registry._known()))
    monkeypatch.setattr(registry, "ready", dict(registry.ready))
    pb.register_backend(WithoutComplex())
    with pb.device("few") as device:
        yield device


@pytest.mark.parametrize(
    ("make", "lacking"),
    {
        "a number": (lambda x: pb.asarray(1j), "complex64"),
        "a list": (lambda x: pb.asarray([1j]), "complex64"),
        "a real number as complex": (lambda x: pb.asarray(1.0, dtype="complex64"), "complex64"),
        "numbers alone": (lambda x: pb.add(1j, 1j), "complex64"),
        "a number to the right": (lambda x: x + 1j, "complex64"),
        "a number to the left": (lambda x: 1j + x, "complex64"),
        "a number beside tensors": (lambda x: pb.stack([x, 1j]), "complex64"),
        "full": (lambda x: pb.full((2,), 1j), "complex64"),
        "a variable": (lambda x: pb.Variable(1j), "complex64"),
        "a wide number": (lambda x: pb.asarray(1.0, dtype="float64"), "float64"),
        "a large integer": (lambda x: pb.asarray(2**40), "int64"),
    }.values(),
)
def test_numbers_of_a_dtype_that_the_device_lacks(few, make, lacking):
    x = pb.asarray(1.0)
    for _ in range(2):
        with pytest.raises(errors.DTypeError, match=f"'few' does not support {lacking}") as caught:
            make(x)
        if lacking.startswith("complex"):
            assert "the real and the imaginary part in two tensors" in str(caught.value)


def test_numbers_of_numpy_are_attributes():
    x = pb.ones((2, 3))
    for kind in (np.bool_, np.int8, np.uint64):
        for one in (kind(1), np.array(1, kind), pb.asarray(1, dtype=kind).numpy()):
            assert pb.sum(x, axis=1, keepdims=one).shape == (2, 1)
            assert pb.sum(x, axis=1, keepdims=one * 0).shape == (2,)
    for kind in (np.float16, np.float64, pb.bfloat16.dtype.type):
        for half in (kind(0.5), np.array(0.5, kind)):
            assert pb.leaky_relu(pb.asarray(-1.0), negative_slope=half).item() == -0.5


REAL_OPS = sorted(
    name
    for name, op in OPS.items()
    if op.fixed and len(op.inputs) > 1 and name in SUITES and (op.public or "update" in name)
)


@pytest.mark.each("name", REAL_OPS)
def test_dtypes_that_are_refused_are_refused_again(name):
    """A call that failed leaves nothing behind that serves a later call of its kind."""
    suite = SUITES[name]
    sample = next(
        (
            s
            for s in suite.samples
            if all(isinstance(x, np.ndarray) and x.dtype.kind != "c" for x in s.inputs)
        ),
        None,
    )
    if sample is None:
        return
    for place, dtype in itertools.product(range(len(sample.inputs)), ("complex64", "int4")):
        inputs = [pb.asarray(x) for x in sample.inputs]
        plain = pb.asarray(sample.inputs[place])
        if dtype == "int4":
            plain = plain.astype("float32")
        inputs[place] = plain.astype(dtype)
        outcomes = []
        for _ in range(3):
            args, kwargs = arguments(OPS[name], inputs, sample.attributes)
            try:
                OPS[name].function(*args, **kwargs)
                outcomes.append("")
            except errors.PullbackError as error:
                outcomes.append(f"{type(error).__name__}: {error}")
        assert len(set(outcomes)) == 1, (place, dtype, outcomes)
