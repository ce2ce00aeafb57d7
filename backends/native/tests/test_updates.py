"""Updates of optimizers in place: only in arrays that nobody but the variables has."""

import threading
import tracemalloc

import numpy as np
import pytest

import pullback as pb
from pullback_native import _native

rng = np.random.default_rng(0)
OPTIMIZERS = {
    "sgd": lambda: pb.optimizers.SGD(0.1),
    "momentum": lambda: pb.optimizers.SGD(0.1, momentum=0.9, nesterov=True),
    "adam": lambda: pb.optimizers.AdamW(0.01, weight_decay=0.1),
}
#: What refers to the memory of a variable, and what it sees.
HOLDERS = {
    "tensor": (lambda v: v.value, lambda x: x.numpy()),
    "array": (lambda v: v.numpy(), lambda x: x),
    "view": (lambda v: v.numpy()[1:], lambda x: x),
    "tensor's view": (lambda v: v.value[:1], lambda x: x.numpy()),
    "buffer": (lambda v: memoryview(v.numpy()), np.asarray),
    "NumPy": (np.asarray, lambda x: x),
    "DLPack": (np.from_dlpack, lambda x: x),
    "transposed": (lambda v: v.value.T, lambda x: x.numpy()),
    "copy in a list": (lambda v: [v._array], lambda x: x[0]),
    "variable": (pb.Variable, lambda x: x.numpy()),
}


class Training:
    """Steps on the mean of a product, whose gradient is the other factor."""

    def __init__(self, name, capture, shape=(4, 3000)):
        self.variables = [pb.Variable(np.linspace(-1, 1, 12000, dtype=np.float32).reshape(shape))]
        self.optimizer = OPTIMIZERS[name]()
        self.step = pb.function(self.one) if capture else self.one
        self.x = pb.asarray(np.random.default_rng(1).standard_normal(shape, np.float32))
        for _ in range(4):
            self.step(self.x)

    def one(self, x):
        with pb.GradientTape() as tape:
            loss = pb.sum(self.variables[0] * self.variables[0] * x)
        gradients = tape.gradient(loss, self.variables)
        self.optimizer.apply_gradients(zip(gradients, self.variables, strict=True))

    def arrays(self):
        return [v for v in (*self.variables, *self.optimizer.variables) if v.shape]


@pytest.fixture(params=[False, True], ids=["eager", "captured"])
def capture(request):
    return request.param


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_what_nobody_else_has_stays_where_it_is(name, capture):
    training = Training(name, capture)
    before = [v._array.ctypes.data for v in training.arrays()]
    values = [v.numpy().copy() for v in training.arrays()]
    training.step(training.x)
    assert [v._array.ctypes.data for v in training.arrays()] == before
    for variable, value in zip(training.arrays(), values, strict=True):
        assert (variable.numpy() != value).any()


@pytest.mark.parametrize("kind", [np.array, np.float32])
def test_a_rate_that_a_program_computes_is_a_scalar_of_numpy(kind):
    """NumPy makes scalars of arrays without axes: the kernel takes them, and writes in place."""
    shape, numbers = (40, 50), [kind(np.float32(x)) for x in (0.25, 3.0)]
    variables = [pb.Variable(rng.random(shape, np.float32)) for _ in range(3)]
    gradient = rng.random(shape, np.float32)
    places = [v._array.ctypes.data for v in variables]
    options = {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-7, "weight_decay": 0.0}
    inputs = [variables[0].numpy().copy(), gradient, *(v.numpy().copy() for v in variables[1:])]
    want = _native.adam_update(*inputs, *map(np.asarray, numbers), **options)
    _native.adam_in_place(variables[0], gradient, *variables[1:], *numbers, **options)
    for variable, place, value in zip(variables, places, want, strict=True):
        assert variable._array.ctypes.data == place
        np.testing.assert_array_equal(variable.numpy(), value)


@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_what_is_held_keeps_its_values(name, capture, holder):
    hold, look = HOLDERS[holder]
    count = len(Training(name, False).arrays())
    for i in range(count):
        training, other = Training(name, capture), Training(name, False)
        held = hold(training.arrays()[i])
        before = look(held).tobytes()
        for _ in range(2):
            training.step(training.x)
            other.step(other.x)
            assert look(held).tobytes() == before
        for found, expected in zip(training.arrays(), other.arrays(), strict=True):
            assert found.numpy().tobytes() == expected.numpy().tobytes()


def test_what_a_tape_has_recorded_keeps_its_values(capture):
    training = Training("sgd", capture)
    (v,) = training.variables
    with pb.GradientTape() as tape:
        loss = pb.sum(v * v)
    expected = (2 * v).numpy().tobytes()
    training.step(training.x)
    assert tape.gradient(loss, v).numpy().tobytes() == expected


def test_memory_of_others_is_not_written(capture):
    training = Training("sgd", capture)
    (v,) = training.variables
    for make in (lambda x: np.array([x, x])[0], lambda x: np.lib.stride_tricks.as_strided(x)):
        v._array = memory = make(v.numpy().copy())
        before = memory.tobytes()
        training.step(training.x)
        assert memory.tobytes() == before
    memory = v.numpy().copy()
    memory.flags.writeable = False
    v._array, before = memory, memory.tobytes()
    alive = v._array.ctypes.data
    del memory
    training.step(training.x)
    assert v._array.ctypes.data != alive
    assert v._array.tobytes() != before


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_other_dtypes_have_the_values_of_numpy(dtype, capture):
    start = rng.standard_normal(40).astype(np.float32)
    ends = []
    for packs in (None, []):
        pb.use_kernel_packs(packs)
        try:
            v, optimizer = pb.Variable(start, dtype=dtype), pb.optimizers.Adam(0.1)
            apply = pb.function(optimizer.apply_gradients) if capture else optimizer.apply_gradients
            for _ in range(5):
                apply([(pb.ones(40, dtype=dtype), v)])
            ends.append(v.numpy().tobytes())
        finally:
            pb.use_kernel_packs(None)
    assert ends[0] == ends[1]


def test_steps_of_a_layout_that_is_not_contiguous(capture):
    training, other = Training("adam", capture), Training("adam", False)
    for variable in training.variables:
        variable._array = np.asfortranarray(variable._array)
    for _ in range(3):
        training.step(training.x)
        other.step(other.x)
    for found, expected in zip(training.arrays(), other.arrays(), strict=True):
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-5, atol=1e-7)


def test_other_threads_see_whole_arrays(capture):
    v = pb.Variable(np.zeros(300_000, np.float32))
    optimizer = pb.optimizers.SGD(1.0)

    def step():
        optimizer.apply_gradients([(pb.ones(300_000), v)])

    step = pb.function(step) if capture else step
    wrong, stop = [], threading.Event()

    def look():
        while not stop.is_set():
            x = v.value
            first = x.numpy().copy()
            if len(np.unique(first)) > 1 or (x.numpy() != first).any():
                wrong.append(first)

    thread = threading.Thread(target=look)
    thread.start()
    for _ in range(300):
        step()
    stop.set()
    thread.join()
    assert not wrong
    assert v.numpy()[0] == -300


def test_a_step_needs_its_gradients_and_activations(capture):
    width, batch = 512, 64
    model = pb.Sequential(
        [pb.layers.Dense(width, activation="relu"), pb.layers.Dense(width, activation="relu")]
    )
    optimizer = pb.optimizers.Adam(0.01)

    def step(x):
        with pb.GradientTape() as tape:
            loss = pb.mean(model(x, training=True) ** 2)
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    step = pb.function(step) if capture else step
    x = pb.asarray(rng.standard_normal((batch, width), np.float32))
    for _ in range(4):
        step(x)
    tracemalloc.start()
    try:
        step(x)
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        step(x)
        needed = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    gradients = 2 * width * width * 4
    assert gradients < needed < gradients + 5 * batch * width * 4


def test_calls_with_the_wrong_inputs():
    class Owner:
        def __init__(self, array):
            self._array = array

    p, g, rate = np.ones(3, np.float32), np.ones(3, np.float32), np.float32(0.5)
    owner = Owner(p)
    with pytest.raises(TypeError, match="takes 3 inputs"):
        _native.sgd_in_place(owner, g, weight_decay=0.0)
    with pytest.raises(TypeError, match="weight_decay"):
        _native.sgd_in_place(owner, g, np.asarray(rate))
    with pytest.raises(AttributeError, match="_array"):
        _native.sgd_in_place(p, g, np.asarray(rate), weight_decay=0.0)
    assert owner._array is p
    assert p.tolist() == [1, 1, 1]
    _native.sgd_in_place(owner, g, np.asarray(rate), weight_decay=0.0)
    assert owner._array.tolist() == [0.5] * 3
    assert p.tolist() == [1, 1, 1]


GRADIENTS = {
    "the value": lambda v, slot, x: v.value,
    "a slot": lambda v, slot, x: slot.value if slot is not None else x,
    "a view of the value": lambda v, slot, x: pb.flip(v.value),
    "the argument": lambda v, slot, x: x,
    "what is used twice": lambda v, slot, x: v.value * 1.0,
}


@pytest.mark.parametrize("shape", [(300,), (), (0,)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("gradient", GRADIENTS)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_whatever_the_gradient_is_a_captured_step_has_the_bits_of_an_eager_one(
    name, gradient, dtype, shape
):
    found = []
    for capture in (False, True):
        v = pb.Variable(np.linspace(0.5, 2, int(np.prod(shape))).reshape(shape).astype(dtype))
        optimizer = OPTIMIZERS[name]()

        def step(x, v=v, optimizer=optimizer):
            slots = [one for one in optimizer.variables if one.shape == v.shape]
            g = GRADIENTS[gradient](v, slots[0] if slots else None, x)
            optimizer.apply_gradients([(g, v)])
            return g

        step = pb.function(step) if capture else step
        bits = []
        for i in range(5):
            g = step(pb.full(shape, float(i), dtype=dtype))
            variables = [v, *optimizer.variables]
            assert all(isinstance(one._array, np.ndarray) for one in variables)
            bits.append([one.numpy().tobytes() for one in (g, *variables)])
        found.append(bits)
    assert found[0] == found[1]


def test_a_kernel_of_numpy_that_returns_no_arrays_changes_nothing():
    class Owner:
        def __init__(self, array):
            self._array = array

    class Number:
        """Arithmetic with arrays gives another of these."""

        __array_ufunc__ = None
        dtype = np.dtype("float64")
        shape = (3,)
        __mul__ = __rmul__ = __rsub__ = __sub__ = __add__ = __radd__ = lambda self, other: self

        def astype(self, *_, **__):
            return self

    p = np.ones(3, np.float32)
    owner = Owner(p)
    with pytest.raises(TypeError):
        _native.sgd_in_place(owner, Number(), np.asarray(0.5), weight_decay=0.5)
    assert owner._array is p
