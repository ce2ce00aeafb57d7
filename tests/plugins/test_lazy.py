"""Libraries that compute later than they are called, on a stand-in over NumPy."""

from __future__ import annotations

import gc
import itertools
import threading
from contextlib import contextmanager
from typing import ClassVar

import numpy as np
import pytest

import pullback as pb
from pullback import errors
from pullback.devices import as_device
from pullback.plugins.lazy import LazyBackend
from pullback_conformance.runner import conform
from pullback_numpy import NumPyBackend

AT_FAULT = r"sqrt: RuntimeError: launch failure; .* later than it was called"


class Library:
    """A lazy library: it notes calls, and computes them when it is told to.

    The values are there at once, and hidden until then. Its arrays are of use in one thread.
    """

    def __init__(self):
        self.computed = []  # the numbers of arrays that were computed at once
        self.waiting = 0  # arrays that are not computed
        self.most = 0  # the most of them that there have been
        self.inside = 0
        self.streams = []
        self.stream = 0
        self.once = False  # whether an error is said once, and the array taken for computed

    def call(self, function, inputs, attributes):
        self.inside += 1
        assert self.inside == 1, "two threads at once"
        try:
            arrays = [x for x in tree(inputs) if isinstance(x, Later)]
            for x in arrays:
                x.check()
            values = [given(x) for x in inputs]
            with np.errstate(all="ignore"):
                result = function(*values, **attributes)
            self.streams.append(self.stream)
            results = result if isinstance(result, tuple) else (result,)
            failed = next((x.error for x in arrays if x.error), None)
            made = tuple(Later(self, np.asarray(x), arrays, failed) for x in results)
            return made if isinstance(result, tuple) else made[0]
        finally:
            self.inside -= 1

    def evaluate(self, arrays):
        self.computed.append(len(arrays))
        for x in arrays:
            x.compute()


def tree(values):
    for x in values:
        yield from x if isinstance(x, (list, tuple)) else [x]


def given(x):
    if isinstance(x, (list, tuple)):
        return [given(one) for one in x]
    return x.value if isinstance(x, Later) else x


class Later:
    """An array of the library: of its shape and dtype, and a value when it is computed."""

    def __init__(self, library, value, inputs=(), error=None):
        self.library, self.value, self.inputs, self.error = library, value, inputs, error
        self.thread = threading.get_ident()
        self.shape, self.dtype, self.done = value.shape, value.dtype, False
        library.waiting += 1
        library.most = max(library.most, library.waiting)

    def check(self):
        assert self.thread == threading.get_ident(), "an array of another thread"

    def compute(self):
        self.check()
        for x in self.inputs:
            x.done or x.compute()
        if self.error is not None:
            error = self.error
            if self.library.once:
                self.error = None
            raise error
        if not self.done:
            self.done, self.inputs = True, ()
            self.library.waiting -= 1

    def __del__(self):
        if not self.done:
            self.library.waiting -= 1


numbers = itertools.count()


class Idle(LazyBackend):
    """The library as a backend."""

    dtypes = NumPyBackend.dtypes
    one_thread: ClassVar = True

    def __init__(self):
        self.name = f"idle{next(numbers)}"
        self.library = Library()
        self.kernels = {name: self.noted(name, one) for name, one in NumPyBackend.kernels.items()}
        super().__init__()

    def noted(self, name, function):
        def kernel(*inputs, **attributes):
            y = self.library.call(function, inputs, attributes)
            if name == "sqrt" and np.any(inputs[0].value < 0):
                y.error = RuntimeError("launch failure")
            return y

        return kernel

    def evaluate(self, arrays):
        self.library.evaluate(arrays)

    def from_host(self, array, device, *, copy):
        return self.placed(self.turn(lambda: self.arrived(np.array(array))), device)

    def arrived(self, value):
        y = Later(self.library, value)
        y.compute()
        return y

    def to_host(self, array):
        self.computed(array)
        assert array.done
        value = self.turn(lambda: array.value.view())
        value.flags.writeable = False
        return value


class Streams(Idle):
    """Two devices on one memory."""

    one_thread = False

    def device_count(self, kind):
        return 2 if kind == "cpu" else 0

    def native_device(self, kind, index):
        return index or None

    @contextmanager
    def within(self, device):
        before, self.library.stream = self.library.stream, device or self.library.stream
        try:
            yield
        finally:
            self.library.stream = before

    def copy_to_device(self, array, device):
        return self.placed(self.turn(lambda: self.alias(array)), device)

    def alias(self, array):
        y = Later(self.library, array.value, [array], array.error)
        return y


def registered(kind=Idle):
    backend = kind()
    pb.register_backend(backend)
    return backend, backend.library


def test_a_program_computes_what_numpy_does():
    backend, _ = registered()

    def trained(device):
        with pb.device(device):
            pb.random.seed(1)
            model = pb.Sequential([pb.layers.Dense(8, activation="tanh"), pb.layers.Dense(1)])
            optimizer = pb.optimizers.Adam(0.05)
            x = pb.asarray(np.linspace(-1, 1, 32, dtype=np.float32)[:, None])
            losses = []
            for _ in range(20):
                loss = optimizer.minimize(lambda: pb.mean(pb.square(model(x) - x * x)))
                losses.append(loss)
            return [float(loss) for loss in losses]

    np.testing.assert_allclose(trained(backend.name), trained("cpu"), rtol=1e-5)


def test_what_is_called_is_computed_after_some_results():
    backend, library = registered()
    x = pb.asarray([1.0], device=backend.name)
    for _ in range(500):
        x = x + 1.0
    assert library.most < 3 * backend.every
    assert float(x) == 501.0


def test_a_step_begins_at_its_end():
    backend, library = registered()
    with pb.device(backend.name):
        v = pb.Variable([1.0, 2.0])
        optimizer = pb.optimizers.SGD(0.1)
        optimizer.apply_gradients([(pb.asarray([1.0, 1.0]), v)])
        assert library.waiting == 0
        x = v * 2.0
        assert library.waiting == 1
        x.numpy()
        assert library.waiting == 0


def test_a_late_error_is_of_its_op_and_of_no_other():
    backend, _ = registered()
    device = as_device(backend.name)
    x = pb.asarray([-1.0, 4.0], device=device)
    bad = pb.sqrt(x)
    worse = bad + 1.0
    good = [x * float(i) for i in range(2 * backend.every)]  # more than are begun together
    assert [y.tolist() for y in good[:2]] == [[-0.0, 0.0], [-1.0, 4.0]]
    for failed in (bad, worse, bad, worse):
        with pytest.raises(errors.BackendError, match=AT_FAULT):
            failed.numpy()
    with pytest.raises(errors.BackendError, match=AT_FAULT):
        worse * 2.0
    with pytest.raises(errors.BackendError, match=AT_FAULT):
        device.synchronize()
    device.synchronize()  # said once
    assert pb.sqrt(pb.asarray([4.0], device=device)).tolist() == [2.0]
    del bad, worse, failed, good
    gc.collect()
    assert not backend._failed


def test_where_the_library_says_it_once_all_that_was_computed_with_it_is_in_doubt():
    backend, library = registered()
    library.once = True
    device = as_device(backend.name)
    x = pb.asarray([-1.0, 4.0], device=device)
    before = x * 3.0
    before.numpy()
    bad, beside = pb.sqrt(x), x + 1.0
    for failed in (beside, bad):
        with pytest.raises(errors.BackendError, match="sqrt, add: RuntimeError: launch failure"):
            failed.numpy()
    assert (before + 1.0).tolist() == [-2.0, 13.0]


def test_an_error_that_was_begun_with_others_is_found_by_synchronize():
    backend, _ = registered()
    device = as_device(backend.name)
    x = pb.asarray([-1.0], device=device)
    bad = pb.sqrt(x)
    later = [x - 1.0 for _ in range(3 * backend.every)]
    with pytest.raises(errors.BackendError, match=AT_FAULT):
        device.synchronize()
    assert {y.tolist()[0] for y in later} == {-2.0}
    with pytest.raises(errors.BackendError, match=AT_FAULT):
        bad.numpy()


def test_a_profile_that_waits_names_the_call():
    backend, _ = registered()
    x = pb.asarray([-1.0], device=backend.name)
    with pb.profile(synchronize=True), pytest.raises(errors.BackendError, match="sqrt"):
        pb.sqrt(x)


def test_threads_share_the_arrays_of_one_thread():
    backend, library = registered()
    x = pb.asarray(np.arange(40.0), device=backend.name)
    found = {}

    def work(number):
        y = x
        for _ in range(60):
            y = pb.sin(y) + float(number)
        found[number] = y.numpy()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, values in found.items():
        y = pb.asarray(np.arange(40.0), device="cpu")
        for _ in range(60):
            y = pb.sin(y) + float(number)
        np.testing.assert_array_equal(values, y.numpy())
    assert library.most < 6 * backend.every


def test_devices_on_one_memory_take_no_copies():
    backend, library = registered(Streams)
    here, there = (as_device(f"{backend.name}:cpu:{i}") for i in range(2))
    x = pb.asarray([1.0, 2.0], device=here)
    y = pb.to_device(x, there)
    assert (y.device, x.device) == (there, here)
    assert np.shares_memory(y._array.value, x._array.value)
    library.streams.clear()
    z = pb.exp(y) + y
    assert z.device is there
    assert library.streams == [1, 1]
    pb.exp(x)
    assert library.streams == [1, 1, 0]
    w = pb.exp(pb.zeros(3, device=there))
    assert w.tolist() == [1.0] * 3
    assert library.streams[-2:] == [1, 1]
    assert pb.to_device(z, here).tolist() == z.tolist()
    del y, z, w
    gc.collect()
    assert not backend._places


SLOW = [pytest.param(op, marks=pytest.mark.slow) for op in ("backend", "add", "concat", "take")]


@pytest.mark.parametrize("op", ["softmax", "random_bits", *SLOW])
def test_the_kit_finds_nothing(op):
    backend, _ = registered()
    report = conform(backend.name, ops=[op], quick=True)
    assert report.passed, report.failures[:3]
