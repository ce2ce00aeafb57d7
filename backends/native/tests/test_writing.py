"""x[key] = value in the tensor's own array: only where nobody can see that it is the same one."""

from __future__ import annotations

import contextlib
import random
import sysconfig
import threading
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback_native import _native

#: Without a lock nobody knows who else has an array, and each write is a copy.
FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
DTYPES = ("float32", "float64", "float16", "bfloat16", "complex128", "int8", "int64", "bool")


class Owner:
    """Has an array, as a tensor has."""

    _array: Any


def address(x: pb.Tensor) -> int:
    """The address of the elements of x."""
    return int(x._array.__array_interface__["data"][0])


def key_for(draw: random.Random, shape: tuple[int, ...]) -> object:
    """A key of integers, slices and positions."""

    def entry(size: int) -> object:
        kind = draw.randrange(5)
        if kind == 0 and size:
            return draw.randrange(-size, size)
        if kind == 1:
            return slice(draw.randrange(size + 1), None, draw.choice((1, 2, 3)))
        if kind == 2:
            return slice(None, None, draw.choice((-1, -2)))
        if kind == 3 and size:
            return slice(0, draw.randrange(size))
        return slice(None)

    if draw.random() < 0.3:
        places = [draw.randrange(-shape[0], shape[0]) for _ in range(draw.randrange(5))]
        return np.array(places, np.int64)
    return tuple([entry(size) for size in shape[: draw.randrange(1, len(shape) + 1)]])


@pytest.mark.parametrize("seed", range(40))
def test_all_that_was_made_before_keeps_its_values(seed: int) -> None:
    draw = random.Random(seed)
    shape = draw.choice(((7,), (4, 6), (3, 4, 5), (1, 9), (6, 1, 2)))
    dtype = draw.choice(DTYPES)
    values = np.arange(np.prod(shape)).reshape(shape) % 2
    x = pb.asarray(values, dtype=dtype, copy=True)
    model = values.copy()
    others: list[tuple[pb.Tensor | np.ndarray, np.ndarray]] = []
    for _ in range(12):
        kind = draw.randrange(6)
        if kind == 0:
            others.append((x[0], model[0].copy()))
        elif kind == 1:
            others.append((pb.reshape(x, (-1,)), model.reshape(-1).copy()))
        elif kind == 2:
            others.append((x.numpy(), model.copy()))
        elif kind == 3:
            seen = x.numpy() if dtype == "bfloat16" else np.from_dlpack(x)
            others.append((seen, model.copy()))
        elif kind == 4 and others:
            others.pop(draw.randrange(len(others)))
        key = key_for(draw, shape)
        part = model[key]
        value = np.array([draw.randrange(2) for _ in range(max(part.size, 1))])[: part.size]
        value = value.reshape(part.shape)
        ours = pb.asarray(key) if isinstance(key, np.ndarray) else key
        if draw.random() < 0.4:
            model[key] = 1
            x[ours] = True if dtype == "bool" else 1
        elif draw.random() < 0.2 and part.ndim:
            model[key] = model[key][::-1].copy()
            x[ours] = x[ours][::-1]
        else:
            model[key] = value
            x[ours] = pb.asarray(value, dtype=dtype)
        assert np.array_equal(x.numpy().astype(complex), model)
        for other, expected in others:
            assert np.array_equal(np.asarray(other).astype(complex), expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("key", [(0, 1), (slice(None), 2), 1, (slice(1, 3), slice(None, None, 2))])
def test_is_written_where_it_is(dtype: str, key: object) -> None:
    x = pb.zeros((4, 6), dtype=dtype)
    one, rows, ends = pb.ones((), dtype=dtype), pb.ones((2, 6), dtype=dtype), pb.asarray([0, -1])
    for _ in range(2):  # the first calls find the kernels
        before = address(x)
        x[key] = one
        x[ends] = rows
        x[ends] = one
    expected = np.zeros((4, 6))
    expected[key] = 1
    expected[[0, -1]] = 1
    assert address(x) == before or FREE_THREADED
    assert np.array_equal(x.numpy().astype(complex), expected)


def test_a_tape_keeps_what_it_recorded() -> None:
    x = pb.asarray([1.0, 2.0, 3.0], dtype="float64", copy=True)
    x[0] = 4.0
    with pb.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
        before = x
        x[0] = 10.0
        z = x * x
    gradients = tape.gradient(y, before), tape.gradient(z, before)
    assert y.tolist() == [16.0, 4.0, 9.0]
    assert z.tolist() == [100.0, 4.0, 9.0]
    assert gradients is not None
    with pb.GradientTape() as tape:
        v = pb.Variable([3.0, 2.0])
        product = v * x[:2]
        x[1] = -1.0
        total = pb.sum(product)
    assert tape.gradient(total, v).tolist() == [10.0, 2.0]


def test_a_recorded_product_is_not_written_into() -> None:
    v = pb.Variable([3.0, 2.0])
    with pb.GradientTape(persistent=True) as tape:
        y = v * 2.0
        square = pb.sum(y * y)
    y[0] = 100.0
    y[1] = 100.0
    assert tape.gradient(square, v).tolist() == [24.0, 16.0]


def test_programs_keep_their_constants() -> None:
    x = pb.zeros((3, 4))
    x[0, 0] = 1.0

    @pb.function
    def program(y: pb.Tensor) -> pb.Tensor:
        return y + x

    one = pb.ones((3, 4))
    for number in range(5):
        x[0, 0] = float(number)
        assert program(one)[0, 0].item() == 1 + number
        assert pb.sum(program(one)).item() == 12 + number


def test_a_value_of_the_tensor_itself() -> None:
    x = pb.asarray(np.arange(6.0), copy=True)
    x[0] = 0.0
    x[1:] = x[:-1]
    assert x.tolist() == [0, 0, 1, 2, 3, 4]
    x[::-1] = x
    assert x.tolist() == [4, 3, 2, 1, 0, 0]
    x[pb.asarray([0, 1])] = x[1:3]
    assert x.tolist() == [3, 2, 2, 1, 0, 0]


def test_the_last_of_repeated_positions_stays() -> None:
    x = pb.zeros(5)
    for _ in range(2):
        x[pb.asarray([1, 3, 1])] = pb.asarray([1.0, 2.0, 3.0])
    assert x.tolist() == [0, 3, 0, 2, 0]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ((9, 0), 1.0),
        ((0, slice(None)), np.ones(3, "float32")),
        (np.array([0, 7]), np.float32(1)),
        (np.array([0, -5]), np.float32(1)),
        ((0,), "text"),
        ((0,), 1j),
    ],
)
def test_a_wrong_call_changes_nothing(key: object, value: object) -> None:
    x = pb.zeros((4, 6))
    for _ in range(2):
        x[0, 0] = 1.0
        x[pb.asarray([0])] = pb.ones((1, 6))
    before = x.numpy().copy()
    key = pb.asarray(key) if isinstance(key, np.ndarray) else key
    value = pb.asarray(value) if isinstance(value, np.ndarray | np.generic) else value
    with pytest.raises(pb.errors.PullbackError):
        x[key] = value  # type: ignore[assignment]
    assert np.array_equal(x.numpy(), before)


def test_readers_in_other_threads_see_whole_writes() -> None:
    x = pb.zeros(1000)
    row = [pb.full(1000, float(number)) for number in range(2)]
    stop, torn = threading.Event(), []

    def read() -> None:
        while not stop.is_set():
            seen = x[:].numpy()
            if seen.min() != seen.max():
                torn.append(seen)

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(3000):
        x[:] = row[number % 2]
    stop.set()
    reader.join()
    assert not torn


def test_functions_in_c_take_anything() -> None:
    owner = Owner()
    number = np.float32(1)
    for array in (None, [1.0], np.ones(3, "O"), np.ones((3, 4)), np.float32(3)):
        owner._array = array
        for value in (np.ones(3, "float32"), np.asarray(number), [1], None):
            for write, place in (
                (_native.write_part, (0, ...)),
                (_native.write_part, "key"),
                (_native.write_rows, np.array([0])),
                (_native.write_rows, None),
            ):
                arguments = (
                    (owner, value, place) if write is _native.write_part else (owner, place, value)
                )
                with contextlib.suppress(TypeError, IndexError, AttributeError):
                    assert write(*arguments) is False
    with pytest.raises(TypeError, match="takes"):
        _native.write_part(owner)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="takes"):
        _native.write_rows(owner)  # type: ignore[call-arg]


def test_shapes_of_positions_and_values() -> None:
    owner = Owner()
    owner._array = np.zeros((4, 3), "float32")
    assert _native.write_rows(owner, np.array([[0, 1]]), np.ones((1, 2, 3), "float32"))
    assert not _native.write_rows(owner, np.array([0, 1]), np.ones((3, 3), "float32"))
    assert not _native.write_rows(owner, np.array([0, 4]), np.ones((2, 3), "float32"))
    assert not _native.write_part(owner, np.ones((1, 1, 3), "float32"), (0, ...))
    assert owner._array.sum() == 6
