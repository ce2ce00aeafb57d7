"""Samples of the ops that change shapes, cut, join and repeat."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback import errors
from pullback_conformance.draws import booleans, cnormal, integers, normal
from pullback_conformance.sample import Array, call, rough, suite, wrong

_X = normal(2, 3, 4)

suite("reshape", lambda x, shape: np.reshape(x, shape))(
    call(_X, shape=(6, 4)),
    call(_X, shape=(2, -1)),
    call(_X, shape=-1),
    call(normal(), shape=(1, 1)),
    call(normal(1), shape=()),
    call(normal(0, 3), shape=(3, 0, 2)),
    call(cnormal(4), shape=(2, 2)),
    call(integers(0, 9, 4), shape=(2, 2)),
    call(booleans(4), shape=(4, 1)),
    wrong(errors.ShapeError, _X, shape=(5, 5)),
    wrong(errors.ShapeError, _X, shape=(-1, -1)),
    wrong(errors.ShapeError, _X, shape=(5, -1)),
    wrong(errors.ShapeError, _X, shape=(-2, -12)),
    wrong(errors.InputTypeError, _X, shape=(2.0, 12)),
)

suite("permute_dims", lambda x, axes: np.transpose(x, axes))(
    call(_X, axes=(2, 0, 1)),
    call(_X, axes=(-1, 1, 0)),
    call(normal(), axes=()),
    call(normal(0, 3), axes=(1, 0)),
    call(integers(0, 9, 2, 3), axes=[1, 0]),
    wrong(errors.AxisError, _X, axes=(0, 1)),
    wrong(errors.AxisError, _X, axes=(0, 0, 1)),
    wrong(errors.AxisError, _X, axes=(0, 1, 3)),
)

suite("broadcast_to", lambda x, shape: np.broadcast_to(x, shape))(
    call(normal(3, 1), shape=(2, 3, 4)),
    call(normal(), shape=(2, 2)),
    call(normal(2, 2), shape=(2, 2)),
    call(normal(1), shape=3),
    call(normal(1, 3), shape=(0, 3)),
    call(cnormal(2, 1), shape=(2, 2)),
    call(booleans(2, 1), shape=(2, 2)),
    wrong(errors.ShapeError, normal(3), shape=(2,)),
    wrong(errors.ShapeError, normal(2, 3), shape=(3,)),
)

suite("matrix_transpose", lambda x: np.swapaxes(x, -1, -2))(
    call(_X),
    call(normal(2, 3)),
    call(normal(0, 3)),
    call(cnormal(2, 3)),
    wrong(errors.ShapeError, normal(3)),
    wrong(errors.ShapeError, normal()),
)

suite("moveaxis", lambda x, source, destination: np.moveaxis(x, source, destination))(
    call(_X, source=0, destination=-1),
    call(_X, source=(0, 2), destination=(1, 0)),
    call(_X, source=(), destination=()),
    call(normal(2, 0), source=1, destination=0),
    wrong(errors.AxisError, _X, source=3, destination=0),
    wrong(errors.AxisError, _X, source=(0, 0), destination=(1, 2)),
    wrong(errors.AxisError, _X, source=(0, 1), destination=1),
)

suite("expand_dims", lambda x, axis=0: np.expand_dims(x, axis))(
    call(_X),
    call(_X, axis=-1),
    call(_X, axis=(0, 2)),
    call(normal(), axis=(0, 1)),
    call(normal(0), axis=1),
    wrong(errors.AxisError, _X, axis=4),
    wrong(errors.AxisError, _X, axis=(0, 0)),
)

suite("squeeze", lambda x, axis=None: np.squeeze(x, axis))(
    call(normal(1, 3, 1)),
    call(normal(1, 3, 1), axis=-1),
    call(normal(1, 3, 1), axis=(0, 2)),
    call(normal(2, 3), note="nothing to leave out"),
    call(normal(1, 1), note="down to 0-d"),
    call(normal(0, 1), axis=1),
    wrong(errors.ShapeError, _X, axis=0),
    wrong(errors.AxisError, _X, axis=3),
)

suite("flip", lambda x, axis=None: np.flip(x, axis))(
    call(_X),
    call(_X, axis=1),
    call(_X, axis=(0, -1)),
    call(normal()),
    call(normal(0, 2)),
    call(integers(0, 9, 3)),
    wrong(errors.AxisError, _X, axis=3),
)

# Joining --------------------------------------------------------------------------------------

suite("concat", lambda arrays, axis=0: np.concatenate(arrays, axis))(
    call([normal(2, 3), normal(1, 3, seed=1)]),
    call([normal(2, 3), normal(2, 2, seed=1), normal(2, 1)], axis=-1),
    call([normal(2, 3), normal()], axis=None),
    call([normal(2, 3)]),
    call([normal(0, 3), normal(2, 3)]),
    call([integers(0, 9, 2), integers(0, 9, 3)]),
    call([cnormal(2), cnormal(3)]),
    call([normal(2), integers(0, 9, 2)], note="mixed dtypes"),
    wrong(errors.InputValueError, []),
    wrong(errors.ShapeError, [normal(2, 3), normal(2, 2)]),
    wrong(errors.ShapeError, [normal(2, 3), normal(2)]),
    wrong(errors.AxisError, [normal(2), normal(2)], axis=1),
)

suite("split_at", lambda x, position, axis=0: tuple(np.split(x, [position], axis)))(
    call(normal(5), position=2),
    call(normal(2, 5, 3), position=3, axis=1),
    call(normal(2, 3), position=-1, axis=-1, note="counted from the end"),
    call(normal(3, 2), position=0, note="nothing before"),
    call(normal(3, 2), position=3, note="nothing behind"),
    call(normal(0, 2), position=0, note="empty"),
    call(cnormal(4, 2), position=1, note="complex"),
    call(integers(-9, 9, 4), position=1, note="integers"),
    call(booleans(4, 2), position=1, axis=1, note="truth values"),
    wrong(errors.ShapeError, normal(3), position=4),
    wrong(errors.ShapeError, normal(3), position=-4),
    wrong(errors.AxisError, normal(3), position=1, axis=1),
    wrong(errors.AxisError, normal(), position=0),
)

suite("stack", lambda arrays, axis=0: np.stack(arrays, axis))(
    call([normal(2, 3), normal(2, 3, seed=1)]),
    call([normal(2, 3), normal(2, 3, seed=1), normal(2, 3)], axis=1),
    call([normal(2, 3), normal(2, 3)], axis=-1),
    call([normal(), normal()]),
    call([normal(0, 3), normal(0, 3)]),
    call([booleans(2), booleans(2)]),
    wrong(errors.InputValueError, []),
    wrong(errors.ShapeError, [normal(2), normal(3)]),
    wrong(errors.AxisError, [normal(2), normal(2)], axis=2),
)

# Repeating and padding ------------------------------------------------------------------------

suite("roll", lambda x, shift, axis=None: np.roll(x, shift, axis))(
    call(_X, shift=5),
    call(_X, shift=1, axis=1),
    call(_X, shift=(1, -2), axis=(0, 2)),
    call(_X, shift=-1, axis=(1, 2)),
    call(_X, shift=(1, 1), axis=(1, 1), note="one axis twice"),
    call(_X, shift=(1, 2, -5), axis=-1, note="several for one axis"),
    call(normal(), shift=1),
    call(normal(0), shift=1),
    call(integers(0, 9, 4), shift=7, axis=0),
    wrong(errors.InputValueError, _X, shift=(1, 2), axis=(0, 1, 2)),
    wrong(errors.AxisError, _X, shift=1, axis=3),
    wrong(errors.InputTypeError, _X, shift=1.5, axis=0),
)

suite("tile", lambda x, repetitions: np.tile(x, repetitions))(
    call(normal(2, 3), repetitions=(2, 1)),
    call(normal(2, 3), repetitions=(2, 1, 3)),
    call(normal(2, 3), repetitions=2),
    call(normal(), repetitions=(2, 2)),
    call(normal(2), repetitions=(0, 2)),
    call(normal(3), repetitions=2, note="a vector"),
    call(normal(1, 2, 1, 2), repetitions=(2, 1, 3, 2), note="four axes"),
    call(booleans(2), repetitions=(3,)),
    wrong(errors.InputValueError, _X, repetitions=(-1,)),
)


def _pad(x: Array, pad_width: Any, mode: Any = "constant", constant_values: Any = 0) -> Any:
    if x.dtype.kind in "iu":
        x.dtype.type(constant_values)  # raises for a number that the dtype does not hold
    if mode == "constant":
        return np.pad(x, pad_width, mode, constant_values=constant_values)
    return np.pad(x, pad_width, mode)


suite("pad", _pad)(
    call(normal(2, 3), pad_width=1),
    call(normal(2, 3), pad_width=((1, 0), (2, 3))),
    call(normal(2, 3), pad_width=(0, 2), constant_values=1.5),
    rough(normal(3), pad_width=1, constant_values=float("-inf")),
    call(normal(0, 2), pad_width=1),
    call(normal(), pad_width=2, note="0-d"),
    call(integers(0, 9, 3), pad_width=1, constant_values=4),
    *(
        call(normal(3, 4), pad_width=((2, 1), (5, 9)), mode=mode)
        for mode in ("edge", "reflect", "symmetric", "wrap")
    ),
    call(normal(1), pad_width=3, mode="reflect", note="nothing to mirror"),
    wrong(errors.InputValueError, normal(2), pad_width=-1),
    wrong(errors.ShapeError, normal(2), pad_width=((1, 1), (1, 1), (0, 0))),
    wrong(errors.InputValueError, normal(2), pad_width=1, mode="mirror"),
    wrong(errors.ShapeError, normal(0), pad_width=1, mode="edge"),
)

for _name in ("tril", "triu"):
    suite(_name, getattr(np, _name))(
        call(normal(3, 4)),
        call(normal(2, 4, 3), k=1),
        call(normal(3, 3), k=-2),
        call(normal(3, 3), k=7),
        call(normal(0, 3)),
        call(integers(1, 9, 3, 3)),
        call(cnormal(3, 3)),
        wrong(errors.ShapeError, normal(3)),
    )
