"""Samples of the ops that change shapes, cut, join and repeat."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback import errors
from pullback.conformance.sample import (
    Array,
    Sample,
    booleans,
    cnormal,
    integers,
    normal,
    suite,
)

_X = normal(2, 3, 4)

suite(
    "reshape",
    lambda x, shape: np.reshape(x, shape),
    (
        Sample((_X,), {"shape": (6, 4)}),
        Sample((_X,), {"shape": (2, -1)}),
        Sample((_X,), {"shape": -1}),
        Sample((normal(),), {"shape": (1, 1)}),
        Sample((normal(1),), {"shape": ()}),
        Sample((normal(0, 3),), {"shape": (3, 0, 2)}),
        Sample((cnormal(4),), {"shape": (2, 2)}),
        Sample((integers(0, 9, 4),), {"shape": (2, 2)}),
        Sample((booleans(4),), {"shape": (4, 1)}),
    ),
    errors_=(
        ((_X,), {"shape": (5, 5)}, errors.ShapeError),
        ((_X,), {"shape": (-1, -1)}, errors.ShapeError),
        ((_X,), {"shape": (5, -1)}, errors.ShapeError),
        ((_X,), {"shape": (-2, -12)}, errors.ShapeError),
        ((_X,), {"shape": (2.0, 12)}, errors.InputTypeError),
    ),
)

suite(
    "permute_dims",
    lambda x, axes: np.transpose(x, axes),
    (
        Sample((_X,), {"axes": (2, 0, 1)}),
        Sample((_X,), {"axes": (-1, 1, 0)}),
        Sample((normal(),), {"axes": ()}),
        Sample((normal(0, 3),), {"axes": (1, 0)}),
        Sample((integers(0, 9, 2, 3),), {"axes": [1, 0]}),
    ),
    errors_=(
        ((_X,), {"axes": (0, 1)}, errors.AxisError),
        ((_X,), {"axes": (0, 0, 1)}, errors.AxisError),
        ((_X,), {"axes": (0, 1, 3)}, errors.AxisError),
    ),
)

suite(
    "broadcast_to",
    lambda x, shape: np.broadcast_to(x, shape),
    (
        Sample((normal(3, 1),), {"shape": (2, 3, 4)}),
        Sample((normal(),), {"shape": (2, 2)}),
        Sample((normal(2, 2),), {"shape": (2, 2)}),
        Sample((normal(1),), {"shape": 3}),
        Sample((normal(1, 3),), {"shape": (0, 3)}),
        Sample((cnormal(2, 1),), {"shape": (2, 2)}),
        Sample((booleans(2, 1),), {"shape": (2, 2)}),
    ),
    errors_=(
        ((normal(3),), {"shape": (2,)}, errors.ShapeError),
        ((normal(2, 3),), {"shape": (3,)}, errors.ShapeError),
    ),
)

suite(
    "matrix_transpose",
    lambda x: np.swapaxes(x, -1, -2),
    (Sample((_X,)), Sample((normal(2, 3),)), Sample((normal(0, 3),)), Sample((cnormal(2, 3),))),
    errors_=(((normal(3),), {}, errors.ShapeError), ((normal(),), {}, errors.ShapeError)),
)

suite(
    "moveaxis",
    lambda x, source, destination: np.moveaxis(x, source, destination),
    (
        Sample((_X,), {"source": 0, "destination": -1}),
        Sample((_X,), {"source": (0, 2), "destination": (1, 0)}),
        Sample((_X,), {"source": (), "destination": ()}),
        Sample((normal(2, 0),), {"source": 1, "destination": 0}),
    ),
    errors_=(
        ((_X,), {"source": 3, "destination": 0}, errors.AxisError),
        ((_X,), {"source": (0, 0), "destination": (1, 2)}, errors.AxisError),
        ((_X,), {"source": (0, 1), "destination": 1}, errors.AxisError),
    ),
)

suite(
    "expand_dims",
    lambda x, axis=0: np.expand_dims(x, axis),
    (
        Sample((_X,)),
        Sample((_X,), {"axis": -1}),
        Sample((_X,), {"axis": (0, 2)}),
        Sample((normal(),), {"axis": (0, 1)}),
        Sample((normal(0),), {"axis": 1}),
    ),
    errors_=(
        ((_X,), {"axis": 4}, errors.AxisError),
        ((_X,), {"axis": (0, 0)}, errors.AxisError),
    ),
)

suite(
    "squeeze",
    lambda x, axis=None: np.squeeze(x, axis),
    (
        Sample((normal(1, 3, 1),)),
        Sample((normal(1, 3, 1),), {"axis": -1}),
        Sample((normal(1, 3, 1),), {"axis": (0, 2)}),
        Sample((normal(2, 3),), note="nothing to leave out"),
        Sample((normal(1, 1),), note="down to 0-d"),
        Sample((normal(0, 1),), {"axis": 1}),
    ),
    errors_=(
        ((_X,), {"axis": 0}, errors.ShapeError),
        ((_X,), {"axis": 3}, errors.AxisError),
    ),
)

suite(
    "flip",
    lambda x, axis=None: np.flip(x, axis),
    (
        Sample((_X,)),
        Sample((_X,), {"axis": 1}),
        Sample((_X,), {"axis": (0, -1)}),
        Sample((normal(),)),
        Sample((normal(0, 2),)),
        Sample((integers(0, 9, 3),)),
    ),
    errors_=(((_X,), {"axis": 3}, errors.AxisError),),
)

# Joining --------------------------------------------------------------------------------------

suite(
    "concat",
    lambda arrays, axis=0: np.concatenate(arrays, axis),
    (
        Sample(([normal(2, 3), normal(1, 3, seed=1)],)),
        Sample(([normal(2, 3), normal(2, 2, seed=1), normal(2, 1)],), {"axis": -1}),
        Sample(([normal(2, 3), normal()],), {"axis": None}),
        Sample(([normal(2, 3)],)),
        Sample(([normal(0, 3), normal(2, 3)],)),
        Sample(([integers(0, 9, 2), integers(0, 9, 3)],)),
        Sample(([cnormal(2), cnormal(3)],)),
        Sample(([normal(2), integers(0, 9, 2)],), note="mixed dtypes"),
    ),
    errors_=(
        (([],), {}, errors.InputValueError),
        (([normal(2, 3), normal(2, 2)],), {}, errors.ShapeError),
        (([normal(2, 3), normal(2)],), {}, errors.ShapeError),
        (([normal(2), normal(2)],), {"axis": 1}, errors.AxisError),
    ),
)

suite(
    "split_at",
    lambda x, position, axis=0: tuple(np.split(x, [position], axis)),
    [
        Sample((normal(5),), {"position": 2}),
        Sample((normal(2, 5, 3),), {"position": 3, "axis": 1}),
        Sample((normal(2, 3),), {"position": -1, "axis": -1}, note="counted from the end"),
        Sample((normal(3, 2),), {"position": 0}, note="nothing before"),
        Sample((normal(3, 2),), {"position": 3}, note="nothing behind"),
        Sample((normal(0, 2),), {"position": 0}, note="empty"),
        Sample((cnormal(4, 2),), {"position": 1}, note="complex"),
        Sample((integers(-9, 9, 4),), {"position": 1}, note="integers"),
        Sample((booleans(4, 2),), {"position": 1, "axis": 1}, note="truth values"),
    ],
    errors_=[
        ((normal(3),), {"position": 4}, errors.ShapeError),
        ((normal(3),), {"position": -4}, errors.ShapeError),
        ((normal(3),), {"position": 1, "axis": 1}, errors.AxisError),
        ((normal(),), {"position": 0}, errors.AxisError),
    ],
)

suite(
    "stack",
    lambda arrays, axis=0: np.stack(arrays, axis),
    (
        Sample(([normal(2, 3), normal(2, 3, seed=1)],)),
        Sample(([normal(2, 3), normal(2, 3, seed=1), normal(2, 3)],), {"axis": 1}),
        Sample(([normal(2, 3), normal(2, 3)],), {"axis": -1}),
        Sample(([normal(), normal()],)),
        Sample(([normal(0, 3), normal(0, 3)],)),
        Sample(([booleans(2), booleans(2)],)),
    ),
    errors_=(
        (([],), {}, errors.InputValueError),
        (([normal(2), normal(3)],), {}, errors.ShapeError),
        (([normal(2), normal(2)],), {"axis": 2}, errors.AxisError),
    ),
)

# Repeating and padding ------------------------------------------------------------------------

suite(
    "roll",
    lambda x, shift, axis=None: np.roll(x, shift, axis),
    (
        Sample((_X,), {"shift": 5}),
        Sample((_X,), {"shift": 1, "axis": 1}),
        Sample((_X,), {"shift": (1, -2), "axis": (0, 2)}),
        Sample((_X,), {"shift": -1, "axis": (1, 2)}),
        Sample((_X,), {"shift": (1, 1), "axis": (1, 1)}, note="one axis twice"),
        Sample((normal(),), {"shift": 1}),
        Sample((normal(0),), {"shift": 1}),
        Sample((integers(0, 9, 4),), {"shift": 7, "axis": 0}),
    ),
    errors_=(
        ((_X,), {"shift": (1, 2), "axis": (0, 1, 2)}, errors.InputValueError),
        ((_X,), {"shift": 1, "axis": 3}, errors.AxisError),
        ((_X,), {"shift": 1.5, "axis": 0}, errors.InputTypeError),
    ),
)

suite(
    "tile",
    lambda x, repetitions: np.tile(x, repetitions),
    (
        Sample((normal(2, 3),), {"repetitions": (2, 1)}),
        Sample((normal(2, 3),), {"repetitions": (2, 1, 3)}),
        Sample((normal(2, 3),), {"repetitions": 2}),
        Sample((normal(),), {"repetitions": (2, 2)}),
        Sample((normal(2),), {"repetitions": (0, 2)}),
        Sample((booleans(2),), {"repetitions": (3,)}),
    ),
    errors_=(((_X,), {"repetitions": (-1,)}, errors.InputValueError),),
)


def _pad(x: Array, pad_width: Any, mode: Any = "constant", constant_values: Any = 0) -> Any:
    if mode == "constant":
        return np.pad(x, pad_width, mode, constant_values=constant_values)
    return np.pad(x, pad_width, mode)


suite(
    "pad",
    _pad,
    (
        Sample((normal(2, 3),), {"pad_width": 1}),
        Sample((normal(2, 3),), {"pad_width": ((1, 0), (2, 3))}),
        Sample((normal(2, 3),), {"pad_width": (0, 2), "constant_values": 1.5}),
        Sample((normal(3),), {"pad_width": 1, "constant_values": float("-inf")}, gradient=False),
        Sample((normal(0, 2),), {"pad_width": 1}),
        Sample((normal(),), {"pad_width": 2}, note="0-d"),
        Sample((integers(0, 9, 3),), {"pad_width": 1, "constant_values": 4}),
        *(
            Sample((normal(3, 4),), {"pad_width": ((2, 1), (5, 9)), "mode": mode})
            for mode in ("edge", "reflect", "symmetric", "wrap")
        ),
        Sample((normal(1),), {"pad_width": 3, "mode": "reflect"}, note="nothing to mirror"),
    ),
    errors_=(
        ((normal(2),), {"pad_width": -1}, errors.InputValueError),
        ((normal(2),), {"pad_width": ((1, 1), (1, 1), (0, 0))}, errors.ShapeError),
        ((normal(2),), {"pad_width": 1, "mode": "mirror"}, errors.InputValueError),
        ((normal(0),), {"pad_width": 1, "mode": "edge"}, errors.ShapeError),
    ),
)

for _name in ("tril", "triu"):
    suite(
        _name,
        getattr(np, _name),
        (
            Sample((normal(3, 4),)),
            Sample((normal(2, 4, 3),), {"k": 1}),
            Sample((normal(3, 3),), {"k": -2}),
            Sample((normal(3, 3),), {"k": 7}),
            Sample((normal(0, 3),)),
            Sample((integers(1, 9, 3, 3),)),
            Sample((cnormal(3, 3),)),
        ),
        errors_=(((normal(3),), {}, errors.ShapeError),),
    )
