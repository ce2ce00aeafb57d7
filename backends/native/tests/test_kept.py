"""Strips of weights that programs keep: never of values that a weight no longer has."""

from __future__ import annotations

import gc
import sys
import threading

import numpy as np
import pytest

import pullback as pb
from pullback_native import _native
from pullback_native.instructions import INSTRUCTION_SETS, INSTRUCTIONS

rng = np.random.default_rng(0)
#: Calls after which strips are kept: the first two make the program.
ENOUGH = 6


def normal(*shape):
    return rng.standard_normal(shape, np.float32)


class Product:
    """x @ v as a captured function, with its results held against the eager ones."""

    def __init__(self, value=None, rows=8):
        self.v = pb.Variable(normal(48, 40) if value is None else value)
        self.x = pb.asarray(normal(rows, self.v.shape[0]))
        self.infer = pb.function(lambda x: pb.matmul(x, self.v))

    def run(self, times=ENOUGH):
        """Runs it often, and checks the bits each time."""
        for _ in range(times):
            expected = pb.matmul(self.x, self.v).numpy()
            assert self.infer(self.x).numpy().tobytes() == expected.tobytes()
        return self

    @property
    def kept(self):
        """True if strips of the variable are kept."""
        sizes = [strips.size for strips in _native.kept_strips()]
        inner, columns = self.v.shape
        return inner * (columns + 32) in sizes


@pytest.fixture(autouse=True)
def nothing_kept():
    gc.collect()
    assert not _native.kept_strips()
    yield
    gc.collect()
    assert not _native.kept_strips()  # the program is gone, and so are they


# Bits ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [16, 17, 32, 33, 100, 1000])
@pytest.mark.parametrize("inner", [1, 384, 385, 1000])
@pytest.mark.parametrize("rows", [5, 6, 7, 40, 300])
def test_products(rows, inner, columns):
    product = Product(normal(inner, columns), rows).run()
    assert product.kept


@pytest.mark.parametrize("bias", [False, True])
def test_layers(bias):
    model = pb.Sequential([pb.layers.Dense(40, use_bias=bias), pb.layers.Dense(24, use_bias=bias)])
    x = pb.asarray(normal(3, 5, 48))
    expected = model(x).numpy().tobytes()
    infer = pb.function(model)
    assert {infer(x).numpy().tobytes() for _ in range(ENOUGH)} == {expected}
    assert len(_native.kept_strips()) == 2


@pytest.mark.parametrize("instructions", INSTRUCTION_SETS)
@pytest.mark.parametrize("window", [1, 3])
@pytest.mark.parametrize(("strides", "dilation"), [(1, 1), (2, 1), (1, 2)])
@pytest.mark.parametrize("features", [16, 20, 70])
def test_convolutions(instructions, window, strides, dilation, features):
    _native.use(instructions)
    try:
        layer = pb.layers.Conv2D(features, window, strides, padding="same", dilation=dilation)
        x = pb.asarray(normal(2, 9, 8, 5))
        expected = layer(x).numpy().tobytes()
        infer = pb.function(layer)
        assert {infer(x).numpy().tobytes() for _ in range(ENOUGH)} == {expected}
        if instructions != "base" or window > 1:  # products are left to BLAS
            assert len(_native.kept_strips()) == 1
    finally:
        _native.use(INSTRUCTIONS)


@pytest.mark.filterwarnings("ignore:invalid value")
def test_values_that_are_not_finite():
    layer = pb.layers.Conv2D(16, 3, padding="same")
    x = pb.asarray(normal(1, 6, 6, 4))
    layer(x)
    layer.kernel.assign(np.where(normal(3, 3, 4, 16) > 1, np.inf, normal(3, 3, 4, 16)))
    expected = layer(x).numpy().tobytes()
    infer = pb.function(layer)
    assert {infer(x).numpy().tobytes() for _ in range(ENOUGH)} == {expected}


@pytest.mark.skipif(len(INSTRUCTION_SETS) < 2, reason="needs two instruction sets")
def test_other_instructions_have_other_strips():
    layer = pb.layers.Conv2D(40, 3)
    x = pb.asarray(normal(1, 6, 6, 4))
    layer(x)
    infer = pb.function(layer)
    try:
        for name in (*INSTRUCTION_SETS, *INSTRUCTION_SETS):
            _native.use(name)
            expected = layer(x).numpy().tobytes()
            assert {infer(x).numpy().tobytes() for _ in range(ENOUGH)} == {expected}
    finally:
        _native.use(INSTRUCTIONS)


# Changes ------------------------------------------------------------------------------------------


def test_an_assignment():
    product = Product().run()
    for _ in range(5):
        product.v.assign(normal(48, 40))
        product.run()
        assert product.kept
        product.v.assign_add(1.0)
        product.run(1)


OPTIMIZERS = {
    "sgd": lambda: pb.optimizers.SGD(0.1),
    "momentum": lambda: pb.optimizers.SGD(0.1, momentum=0.9),
    "adam": lambda: pb.optimizers.Adam(0.1),
}


@pytest.mark.parametrize("capture", [False, True], ids=["eager", "captured"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_of_an_optimizer(name, capture):
    product, optimizer = Product(), OPTIMIZERS[name]()

    def step():
        with pb.GradientTape() as tape:
            loss = pb.sum(pb.matmul(product.x, product.v) ** 2)
        gradients = tape.gradient(loss, [product.v])
        optimizer.apply_gradients(zip(gradients, [product.v], strict=True))

    train = pb.function(step) if capture else step
    for _ in range(4):
        train()
    for _ in range(4):
        product.run()
        assert product.kept
        before = product.v._array.ctypes.data
        train()
        assert product.v._array.ctypes.data == before  # written in place, as without strips
        assert not product.kept
        product.run(1)


def test_strips_hold_their_array():
    """So updates in place by others, which write what nobody refers to, leave it as it is."""
    product = Product().run()
    assert product.kept
    references = sys.getrefcount(product.v._array)
    product.v.assign(product.v.numpy().copy())
    without = sys.getrefcount(product.v._array)  # not in the assertion, which holds it too
    assert references == without + 1


@pytest.mark.parametrize("way", ["variable", "assigned", "view", "buffer"])
def test_memory_that_somebody_else_may_write(way):
    memory = normal(48, 40)
    if way == "variable":
        product = Product(pb.asarray(memory, copy=False))
    else:
        product = Product()
        product.v.assign(pb.asarray(memory, copy=False))
    held = {"view": lambda: memory[:], "buffer": lambda: memoryview(memory)}.get(way, memory.view)()
    if way in ("view", "buffer"):
        del memory
        memory = np.asarray(held)
    for _ in range(3):
        product.run()
        assert not product.kept
        memory += 1
        product.run(1)


def test_memory_of_another_array():
    product = Product(pb.asarray(normal(60, 40)[:48], copy=False)).run()
    assert not product.kept


def test_memory_that_is_released_is_the_variables_own():
    memory = normal(48, 40)
    product = Product(pb.asarray(memory, copy=False)).run()
    assert not product.kept
    memory += 1
    product.run()
    del memory
    product.run()
    assert product.kept


def test_what_a_variable_hands_out_is_read_only():
    product = Product().run()
    for array in (product.v.numpy(), np.asarray(product.v), np.from_dlpack(product.v)):
        with pytest.raises(ValueError, match="read-only"):
            array += 1
    part = product.v.value
    part[0] = 9.0
    product.run()


def test_a_variable_that_another_one_was_made_of():
    product = Product().run()
    other = pb.Variable(product.v)
    pb.optimizers.SGD(0.1).apply_gradients([(pb.ones((48, 40)), other)])
    product.run()
    pb.optimizers.SGD(0.1).apply_gradients([(pb.ones((48, 40)), product.v)])
    product.run()


def test_a_checkpoint(tmp_path):
    product = Product().run()
    path = pb.Checkpoint(v=product.v).save(tmp_path)
    first = product.v.numpy().copy()
    product.v.assign(normal(48, 40))
    product.run()
    pb.Checkpoint(v=product.v).restore(path)
    assert product.v.numpy().tobytes() == first.tobytes()
    product.run()
    assert product.kept


def test_an_address_that_comes_again_without_sanitizer():
    """A sanitizer gives no address out again, so this one is left out there, by its name."""
    product = Product().run()
    addresses = set()
    for _ in range(200):
        product.v.assign(pb.asarray(normal(48, 40)))
        product.run(4)
        gc.collect(0)
        addresses.add((id(product.v._array), product.v._array.ctypes.data))
    assert len(addresses) < 200  # addresses came again, and the values were right


def test_a_step_that_fails_keeps_values_and_strips():
    product = Product().run()
    with pytest.raises(pb.errors.PullbackError):
        pb.optimizers.SGD(0.1).apply_gradients([(pb.ones((3, 40)), product.v)])
    product.run()


# When ---------------------------------------------------------------------------------------------


def test_a_program_that_writes_the_variable():
    v = pb.Variable(normal(48, 40))
    x = pb.asarray(normal(8, 48))

    def step(x):
        y = pb.matmul(x, v)
        v.assign_sub(0.1 * v)
        return y

    captured = pb.function(step)
    for _ in range(ENOUGH):
        expected = pb.matmul(x, v).numpy().tobytes()
        assert captured(x).numpy().tobytes() == expected
    assert not _native.kept_strips()


@pytest.mark.parametrize("shape", [(8, 48, 15), (1, 48, 40), (4, 48, 40), (513, 48, 40)])
def test_products_that_gain_nothing(shape):
    rows, inner, columns = shape
    assert not Product(normal(inner, columns), rows).run().kept


def test_other_dtypes_and_tensors():
    product = Product(normal(48, 40).astype(np.float64))
    product.x = pb.asarray(normal(8, 48).astype(np.float64))
    assert not product.run().kept
    table, x = pb.asarray(normal(48, 40)), pb.asarray(normal(8, 48))
    infer = pb.function(lambda x: pb.matmul(x, table))
    for _ in range(ENOUGH):
        infer(x)
    assert not _native.kept_strips()


def test_programs_of_several_batches_share_strips():
    product = Product().run()
    for rows in (5, 16):
        product.x = pb.asarray(normal(rows, 48))
        product.run()
    assert len(_native.kept_strips()) == 3
    assert len({id(strips) for strips in _native.kept_strips()}) == 1
    product.v.assign(normal(48, 40))
    for rows in (5, 16, 8):
        product.x = pb.asarray(normal(rows, 48))
        product.run()


def test_threads():
    product = Product(normal(256, 128), rows=16).run()
    values = [product.v.value, pb.asarray(normal(256, 128)), pb.asarray(normal(256, 128))]
    expected = {pb.matmul(product.x, value).numpy().tobytes() for value in values}
    assert len(expected) == 3
    wrong, stop = [], threading.Event()

    def look():
        while not stop.is_set():
            found = product.infer(product.x).numpy().tobytes()
            if found not in expected:
                wrong.append(found)

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for i in range(300):
        product.v.assign(values[i % 3])
        for _ in range(ENOUGH):
            product.infer(product.x)
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong
    product.run()


def test_threads_and_an_optimizer():
    """Each result is of the weights before or after a step, which all have one value."""
    v, optimizer = pb.Variable(np.zeros((64, 64), np.float32)), pb.optimizers.SGD(1.0)
    x = pb.ones((8, 64))
    infer = pb.function(lambda x: pb.matmul(x, v))
    wrong, stop = [], threading.Event()

    def look():
        while not stop.is_set():
            found = infer(x).numpy()
            if len(np.unique(found)) > 1 or found[0, 0] % 64:
                wrong.append(found)

    threads = [threading.Thread(target=look) for _ in range(3)]
    for thread in threads:
        thread.start()
    for step in range(1, 200):
        optimizer.apply_gradients([(-pb.ones((64, 64)), v)])
        for _ in range(ENOUGH):
            assert infer(x).numpy()[0, 0] == 64 * step
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong


def test_wrong_arguments():
    strips = np.zeros(10, np.float32)
    with pytest.raises(TypeError, match="matmul_by_strips"):
        _native.matmul_by_strips(strips, normal(3, 4), normal(4, 16))
    with pytest.raises(TypeError, match="linear_by_strips"):
        _native.linear_by_strips(None, normal(3, 4), normal(4, 16), None)
    with pytest.raises(TypeError):
        _native.kept(1)
