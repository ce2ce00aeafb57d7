"""Captured steps that write variables: old values stay, and a step that fails loses none."""

import copy
import threading
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pullback as pb

CPU = pb.device("jax:cpu")
SHAPE = (64, 64)


@pytest.fixture(autouse=True)
def on_jax():
    with CPU:
        yield


def counter(shape=SHAPE):
    """A variable, and a captured step that adds to it; it has run until it is compiled."""
    v = pb.Variable(np.zeros(shape, np.float32))

    @pb.function
    def step(x):
        v.assign_add(x)

    for _ in range(3):
        step(1.0)
    assert "compiled by the backend 'jax'" in step.explain()
    v.assign(np.zeros(shape, np.float32))
    return v, step


def uniform(array):
    """The number that all elements are."""
    array = np.asarray(array)
    assert (array == array.flat[0]).all()
    return array.flat[0]


def tape_of(v):
    tape = pb.GradientTape()
    with tape:
        y = pb.sum(v * v) / 2
    return lambda: tape.gradient(y, v).numpy()


def assigned(v):
    other = pb.Variable(pb.zeros(SHAPE)).assign(v)
    return lambda: other.numpy()


def exported(v):
    return np.from_dlpack(v.value)


HOLDERS = {
    "tensor": lambda v: v.value,
    "numpy": lambda v: v.numpy(),
    "asarray": np.asarray,
    "part of a view": lambda v: v.numpy()[3:, ::2],
    "row": lambda v: v[3],
    "reshape": lambda v: pb.reshape(v, (-1,)),
    "same shape": lambda v: pb.reshape(v, SHAPE),
    "buffer": lambda v: memoryview(v.numpy()),
    "dlpack": exported,
    "dlpack of jax": lambda v: jnp.from_dlpack(v.value),
    "dlpack of the array": lambda v: np.from_dlpack(v.value._array),
    "dlpack back": lambda v: pb.from_dlpack(v.value),
    "same device": lambda v: pb.asarray(v.value, device="jax:cpu"),
    "moved": lambda v: CPU.backend.copy_to_device(v.value._array, CPU.native),
    "copied": lambda v: v.value.copy(),
    "from numpy": lambda v: pb.asarray(v.numpy(), copy=False),
    "tape": tape_of,
    "variable": assigned,
    "copy": lambda v: copy.copy(v).value,
    "deepcopy": lambda v: copy.deepcopy(v).value,
    "computed": lambda v: v + 0.0,
}


@pytest.mark.parametrize("name", HOLDERS)
def test_who_holds_an_old_value_keeps_its_numbers(name):
    v, step = counter()
    held = []
    for i in range(1, 15):
        step(1.0)
        if i % 5:  # now and then nobody holds it
            held.append((i, HOLDERS[name](v)))
    for i, holder in held:
        value = holder() if callable(holder) else holder
        assert uniform(value) == i
    assert uniform(v) == 14


def test_results_that_are_returned_too():
    v = pb.Variable(np.ones(SHAPE, np.float32))
    step = pb.function(lambda: v.assign(v * 2.0).value)
    results = [step() for _ in range(10)]
    assert [uniform(y) for y in results] == [2.0**i for i in range(1, 11)]


def test_two_functions_share_variables_with_the_program():
    v, add = counter()

    @pb.function
    def double():
        v.assign(v * 2.0)

    exact = pb.function(lambda: pb.sum(v))
    expected, held = 0.0, []
    for i in range(40):
        if i % 7 == 3:
            v.assign(np.full(SHAPE, i, np.float32))
            expected = float(i)
        elif i % 7 == 5:
            v.assign_sub(2.0)
            expected -= 2
        elif i % 3:
            add(1.0)
            expected += 1
        else:
            double()
            expected *= 2
        if i % 5 == 0:
            held.append((expected, v.value))
        assert exact().item() == expected * v.size
    for number, tensor in held:
        assert uniform(tensor) == number


def test_an_old_value_that_is_assigned_again():
    v, step = counter()
    for _ in range(4):
        step(1.0)
    old = v.value
    for i in range(8):
        step(1.0)
        v.assign(old)
        assert uniform(v) == 4, i
    del old
    step(1.0)
    assert uniform(v) == 5


def test_what_is_being_computed_of_an_old_value_is_right():
    v, step = counter((512, 512))
    sums = []
    for _ in range(10):
        step(1.0)
        # The tensor is gone before JAX has computed this.
        sums.append(pb.matmul(v.value, v.value)[0, 0])
    assert [float(y) for y in sums] == [512.0 * i * i for i in range(1, 11)]


def in_threads(count, function):
    """Starts threads that call a function; they are joined, and what they raise is raised."""

    def run():
        with CPU:
            function()

    pool = ThreadPoolExecutor(count)
    return [pool.submit(run) for _ in range(count)]


def test_threads_read_while_a_step_runs():
    v, step = counter((128, 128))
    copied = pb.function(lambda: v * 1.0)
    done = threading.Event()

    def read():
        held = []
        while not done.is_set():
            tensor = v.value
            held.append((uniform(tensor), tensor))
            uniform(copied())
            CPU.synchronize()
            for number, tensor in held[-20:]:
                assert uniform(tensor) == number

    threads = in_threads(3, read)
    for _ in range(300):
        step(1.0)
    done.set()
    for thread in threads:
        thread.result()
    assert uniform(v) == 300


def test_threads_share_a_step():
    v, step = counter((128, 128))

    def train():
        for _ in range(100):
            step(1.0)
            uniform(v)

    for thread in in_threads(3, train):
        thread.result()
    # A step may be lost, as by `n += 1` in threads.
    assert 100 <= uniform(v) <= 300


def test_checkpoints_are_of_one_step(tmp_path):
    v, step = counter((128, 128))
    w = pb.Variable(pb.zeros((128, 128)))
    saved = []

    def save():
        for _ in range(5):
            saved.append(pb.Checkpoint(v=v).save(tmp_path / "model"))

    (thread,) = in_threads(1, save)
    while not thread.done():
        step(1.0)
    thread.result()
    for path in saved:
        pb.Checkpoint(v=w).restore(path)
        uniform(w)
    assert len(saved) == 5


class Failing:
    """A kernel that fails when it is told to, while XLA computes."""

    def __init__(self):
        self.fails = False

    def look(self, x):
        if self.fails:
            raise MemoryError("no memory left")
        return np.asarray(x)

    def __call__(self, x):
        return jax.pure_callback(self.look, jax.ShapeDtypeStruct(x.shape, x.dtype), x)


@pytest.fixture
def failing():
    kernel = Failing()
    CPU.backend.register_kernel("square", kernel, source="failing", priority=100)
    yield kernel
    CPU.backend.unregister_kernels("failing")


def test_a_run_that_fails_leaves_variables_as_they_were(failing):
    v = pb.Variable(np.zeros(SHAPE, np.float32))
    w = pb.Variable(np.zeros(SHAPE, np.float32))

    @pb.function
    def step(x):
        v.assign_add(pb.square(x))
        w.assign_sub(1.0)

    for i in range(1, 13):
        held = v.value
        if i % 4 == 0:
            failing.fails = True
            with pytest.raises(pb.errors.InputValueError, match="no memory left"):
                step(pb.ones(()))
            failing.fails = False
            assert (uniform(v), uniform(w)) == (i - 1, 1 - i)
        step(pb.ones(()))
        assert (uniform(held), uniform(v), uniform(w)) == (i - 1, i, -i)
    assert "; compiled by the backend 'jax'" in step.explain()


def too_large(x):
    """0, by way of an array for which no machine has memory: JAX finds out after the call."""
    return jnp.sort(jnp.arange(1 << 44) % 7 * jnp.sum(x))[0]


class OutOfMemory:
    """A kernel that needs too much memory where XLA compiles it, and alone when it is told to."""

    def __init__(self):
        self.fails = False

    def __call__(self, x):
        if isinstance(x, jax.core.Tracer):
            return x * x + too_large(x).astype(x.dtype)
        return x * x + jax.jit(too_large)(x).astype(x.dtype) if self.fails else x * x


def test_memory_that_runs_out_while_jax_computes_leaves_variables_as_they_were():
    kernel = OutOfMemory()
    CPU.backend.register_kernel("square", kernel, source="failing", priority=100)
    try:
        v = pb.Variable(np.zeros(SHAPE, np.float32))

        @pb.function
        def step(x):
            v.assign_add(pb.square(x))

        for _ in range(2):
            step(pb.ones(()))
        kernel.fails = True
        for _ in range(2):
            with pytest.raises(pb.errors.BackendError, match="Out of memory"):
                step(pb.ones(()))
            assert uniform(v) == 2
        kernel.fails = False
        with pytest.warns(RuntimeWarning, match="Out of memory"):
            step(pb.ones(()))
        assert uniform(v) == 3
    finally:
        CPU.backend.unregister_kernels("failing")


def test_values_that_a_kernel_rejects_change_nothing():
    table = pb.Variable(np.zeros(SHAPE, np.float32))

    @pb.function
    def step(index):
        table.assign(table + 1.0 + 0.0 * pb.take(table, index, axis=0))

    for i in range(1, 13):
        if i % 4 == 0:
            with pytest.raises(pb.errors.IndexingError):
                step(pb.asarray([64]))
            assert uniform(table) == i - 1
        step(pb.asarray([5]))
        assert uniform(table) == i
    assert "; compiled by the backend 'jax'" in step.explain()
