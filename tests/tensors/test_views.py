"""Writing into what is a view in NumPy: an error or a warning, never a silent loss."""

from __future__ import annotations

import copy
import gc
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback import errors
from pullback.tensor import Tensor

#: Every one is a view in NumPy.
VIEWS: dict[str, Callable[[Any, Any], Any]] = {
    "x[0]": lambda xp, x: x[0],
    "x[-1]": lambda xp, x: x[-1],
    "x[1:]": lambda xp, x: x[1:],
    "x[::-1]": lambda xp, x: x[::-1],
    "x[:]": lambda xp, x: x[:],
    "x[...]": lambda xp, x: x[...],
    "x[None]": lambda xp, x: x[None],
    "x[0, 1:]": lambda xp, x: x[0, 1:],
    "x[..., 0]": lambda xp, x: x[..., 0],
    "x[0][1:]": lambda xp, x: x[0][1:],
    "next(iter(x))": lambda xp, x: next(iter(x)),
    "reshape": lambda xp, x: xp.reshape(x, (-1,)),
    "x.reshape": lambda xp, x: x.reshape(4, 3),
    "reshape to its own shape": lambda xp, x: xp.reshape(x, x.shape),
    "permute_dims": lambda xp, x: xp.permute_dims(x, (1, 0)),
    "x.T": lambda xp, x: x.T,
    "x.mT": lambda xp, x: x.mT,
    "matrix_transpose": lambda xp, x: xp.matrix_transpose(x),
    "squeeze": lambda xp, x: xp.squeeze(x[None], axis=0),
    "expand_dims": lambda xp, x: xp.expand_dims(x, axis=1),
    "moveaxis": lambda xp, x: xp.moveaxis(x, 0, 1),
    "flip": lambda xp, x: xp.flip(x, axis=0),
    "broadcast_to": lambda xp, x: xp.broadcast_to(x, (2, 3, 4)),
    "broadcast_arrays": lambda xp, x: xp.broadcast_arrays(x, xp.ones((2, 1, 1)))[0],
    "unstack": lambda xp, x: xp.unstack(x)[1],
    "split": lambda xp, x: xp.split(x, 3)[1],
    "diagonal": lambda xp, x: xp.linalg.diagonal(x),
    "real": lambda xp, x: xp.real(x),
}

#: These are none.
COPIES: dict[str, Callable[[Any, Any], Any]] = {
    "x[[0, 1]]": lambda xp, x: x[[0, 1]],
    "x[mask]": lambda xp, x: x[x > 2],
    "x[tensor]": lambda xp, x: x[xp.asarray([1, 0])],
    "x[:, tensor]": lambda xp, x: x[:, xp.asarray([1, 0])],
    "take": lambda xp, x: xp.take(x, xp.asarray([0]), axis=0),
    "x + 0": lambda xp, x: x + 0,
    "concat": lambda xp, x: xp.concat([x], axis=0),
    "stack": lambda xp, x: xp.stack([x]),
    "roll": lambda xp, x: xp.roll(x, 0),
    "tile": lambda xp, x: xp.tile(x, (1, 1)),
    "repeat": lambda xp, x: xp.repeat(x, 1, axis=0),
    "tril": lambda xp, x: xp.tril(x),
    "sort": lambda xp, x: xp.sort(x),
    "sum": lambda xp, x: xp.sum(x[:, None], axis=1),
    "where": lambda xp, x: xp.where(x == x, x, x),
    "astype": lambda xp, x: xp.astype(x, x.dtype),
    "asarray(copy=True)": lambda xp, x: xp.asarray(x, copy=True),
    "asarray(view, copy=True)": lambda xp, x: xp.asarray(x[0], copy=True),
    "copy": lambda xp, x: copy.copy(x[0]),
    "deepcopy": lambda xp, x: copy.deepcopy(x[0]),
    "clip": lambda xp, x: xp.clip(x, -100, 100),
    "meshgrid": lambda xp, x: xp.meshgrid(x[0], x[1])[0],
}


def made(dtype: str = "float32") -> Tensor:
    return pb.reshape(pb.arange(12, dtype=dtype), (3, 4))


@pytest.mark.parametrize("name", VIEWS)
def test_a_write_into_a_view_of_a_tensor_in_use_raises(name: str) -> None:
    array = np.reshape(np.arange(12, dtype="float32"), (3, 4))
    assert np.shares_memory(array, VIEWS[name](np, array))
    x = made()
    v = VIEWS[name](pb, x)
    with pytest.raises(errors.InputValueError, match="copy=True"):
        v[...] = 100
    assert x.tolist() == array.tolist()
    assert float(pb.max(v)) < 100


@pytest.mark.parametrize("name", COPIES)
def test_a_write_into_a_copy_is_a_write(name: str) -> None:
    array = np.reshape(np.arange(12, dtype="float32"), (3, 4))
    with np.errstate(all="ignore"):
        assert not np.shares_memory(array, COPIES[name](np, array))
    x = made()
    v = COPIES[name](pb, x)
    v[...] = 100
    assert float(pb.min(v)) == 100
    assert x.tolist() == array.tolist()


@pytest.mark.parametrize("name", VIEWS)
def test_the_write_is_fine_where_the_tensor_is_gone(name: str) -> None:
    v = VIEWS[name](pb, made())
    gc.collect()
    v[...] = 100
    assert float(pb.min(v)) == 100


def test_a_name_that_is_bound_anew_lets_go_of_the_tensor() -> None:
    x = made()
    for _ in range(3):
        x = x[:, 1:]
        x[0, 0] = -1.0
    assert x.tolist() == [[-1], [7], [11]]


def test_a_view_of_a_view_counts_for_both() -> None:
    x = made()
    row = x[0]
    part = row[1:]
    del x
    with pytest.raises(errors.InputValueError):
        part[0] = 1.0
    del row
    part[0] = 1.0
    assert part.tolist() == [1, 2, 3]


def test_what_was_written_into_is_no_view_any_more() -> None:
    x = made()
    v = x[0]
    del x
    v[0] = 5.0
    w = v
    w[1] = 6.0
    part = v[1:]
    with pytest.raises(errors.InputValueError):
        part[0] = 1.0
    assert v.tolist() == [5, 6, 2, 3]


def test_views_do_not_keep_what_they_came_from() -> None:
    x = y = made()
    for _ in range(100):
        y = y[:]
    base = y._base
    assert type(base) is tuple
    assert len(base) == 2
    assert x is not y


IN_PLACE = ("+=", "-=", "*=", "/=", "//=", "%=", "**=", "@=", "&=", "|=", "^=", "<<=", ">>=")


@pytest.mark.parametrize("sign", IN_PLACE)
def test_an_operator_in_place_on_a_view_says_that_it_binds_a_new_tensor(sign: str) -> None:
    x = pb.asarray([[1, 2], [3, 4]])
    v = x[0]
    if sign in ("/=", "@="):
        x = pb.asarray([[1.0, 2.0], [3.0, 4.0]])
        v = x[0]
    before, expected = x.tolist(), eval(f"v {sign[:-1]} v").tolist()
    names = {"v": v, "w": v}
    with pytest.warns(RuntimeWarning, match=r"v = v \+ w"):
        exec(f"v {sign} w", names)
    assert names["v"].tolist() == expected
    assert x.tolist() == before


def test_that_is_said_at_the_line_and_in_functions_objects_and_modules_alike() -> None:
    x = made()

    class Holder:
        row = x[0]

    def in_a_function() -> None:
        v = x[0]
        v += 1
        assert v.tolist() == [1, 2, 3, 4]

    def through_a_cell() -> None:
        def inner() -> None:
            nonlocal v
            v += 1

        v = x[0]
        inner()

    def on_an_object() -> None:
        Holder.row += 1

    for function in (in_a_function, through_a_cell, on_an_object):
        with pytest.warns(RuntimeWarning, match="view") as caught:
            function()
        assert caught[0].filename == __file__
        assert x[0].tolist() == [0, 1, 2, 3]


@pytest.mark.filterwarnings("error")
def test_nothing_is_said_where_nothing_is_lost() -> None:
    x = made()
    x += 1
    x[0] += 1
    x[1:, 0] *= 2
    x[0] = operator.iadd(x[0], 1)
    holder = {"x": x}
    holder["x"][2] -= 1
    assert x.tolist() == [[3, 4, 5, 6], [10, 6, 7, 8], [17, 9, 10, 11]]
    v = made()[0]
    v += 1
    w = pb.reshape(v, (2, 2))
    del v
    w @= w
    assert w.tolist() == [[7, 10], [15, 22]]


@pytest.mark.filterwarnings("error")
def test_a_tape_does_not_count_as_use() -> None:
    def loss(x: Tensor) -> Tensor:
        h = pb.sin(x)
        h = h.reshape(-1)
        h += 1
        return pb.sum(h)

    assert pb.grad(loss)(pb.zeros((2, 2))).tolist() == [[1, 1], [1, 1]]


def test_the_real_part_of_a_real_tensor_is_the_tensor() -> None:
    for xp in (np, pb):
        x = xp.zeros(2)
        x.real[0] = 1.0
        assert x.tolist() == [1.0, 0.0]


def test_views_are_known_on_a_tape_too() -> None:
    x = made()
    with pb.GradientTape() as tape:
        tape.watch(x)
        for name, view in VIEWS.items():
            v = view(pb, x)
            with pytest.raises(errors.InputValueError, match="view"):
                v[...] = 1
            assert v is not x, name
        y = x[0] + 0
        y[0] = 5.0
        loss = pb.sum(y)
    assert tape.gradient(loss, x).tolist() == [[0, 1, 1, 1], [0] * 4, [0] * 4]


def test_a_part_of_a_variable_is_a_view_of_it() -> None:
    v = pb.Variable([[1.0, 2.0], [3.0, 4.0]])
    views = (v[0], v[...], v.T, v.mT, v.reshape(-1), pb.flip(v), next(iter(v)))
    for view in views:
        with pytest.raises(errors.InputValueError, match="view"):
            view[0] = 5.0
    value = v.value
    value[0, 0] = 5.0
    v.assign(value)
    assert v.numpy().tolist() == [[5, 2], [3, 4]]
    picked = v[[0, 1]]
    picked[0] = 0.0


def test_the_parts_of_complex_numbers_are_views() -> None:
    z = pb.asarray([1 + 2j, 3 - 4j])
    for part in (z.real, z.imag, pb.real(z), pb.imag(z)):
        with pytest.raises(errors.InputValueError, match="view"):
            part[0] = 1.0


def test_a_diagonal_written_by_slices_of_the_flattened_matrix_is_an_error() -> None:
    """As in scikit-learn's `_add_to_diagonal`."""
    x = pb.zeros((3, 3))
    flat = pb.reshape(x, (-1,))
    with pytest.raises(errors.InputValueError, match="write into that one"):
        flat[::4] += 1.0


def test_what_is_made_of_numbers_and_lists_is_no_view() -> None:
    for made_of in (pb.reshape(0.0, (1,)), pb.expand_dims(1, axis=0), pb.reshape([1.0, 2.0], (2,))):
        made_of[0] = 5
        assert made_of[0].item() == 5
