"""Samples of the collectives, in a world of one rank: kernels, rules, gradients.

`pullback conform --communicator NAME` calls them on several ranks.
"""

from __future__ import annotations

from typing import Any

import numpy as np

# Their ops are defined when they are asked for.
import pullback.distributed  # noqa: F401
from pullback import errors
from pullback_conformance.draws import booleans, cnormal, integers, normal
from pullback_conformance.sample import Array, Sample, call, rough, suite, wrong


def _itself(x: Array, **_: object) -> Array:
    return x


def _rows(*, numbers: bool = False, **attributes: Any) -> list[Sample]:
    """Calls with arrays of every kind that have an axis."""
    rows = [
        call(normal(3, 4), **attributes),
        call(normal(0, 2), note="empty", **attributes),
        call(cnormal(2, 3), note="complex", **attributes),
        call(integers(-9, 9, 4), note="integers", **attributes),
    ]
    return rows if numbers else [*rows, call(booleans(5), note="booleans", **attributes)]


suite("all_reduce", _itself)(
    *_rows(numbers=True, op="sum"),
    call(normal(), op="mean", note="0-d"),
    wrong(errors.DTypeError, booleans(3), op="sum"),
)
_BEGIN: dict[str, Any] = {"in_pairs": False, "beside": True, "items": 1}
suite("begin_all_reduce", lambda arrays, **_: np.concatenate(arrays, axis=None))(
    call([normal(3, 4), normal(2), normal()], **_BEGIN),
    call([normal(0, 2)], in_pairs=True, beside=False, items=3, note="empty"),
    call([cnormal(2, 3)], **_BEGIN, note="complex"),
    call([integers(-9, 9, 4)] * 2, **_BEGIN, note="integers"),
    wrong(errors.DTypeError, [booleans(3)], **_BEGIN),
)
suite("finish_all_reduce", _itself)(*_rows(numbers=True), wrong(errors.DTypeError, booleans(3)))
suite("all_reduce_extremum", _itself)(
    call(normal(3, 4), op="max"),
    call(normal(), op="min", note="0-d"),
    call(integers(-9, 9, 4), op="max", note="integers"),
    rough(np.array([np.inf, -np.inf]), op="min", note="infinities"),
    wrong(errors.DTypeError, cnormal(3), op="max"),
)
suite("reduce_to", _itself)(
    *_rows(numbers=True, root=0),
    wrong(errors.InputValueError, normal(3), root=1),
)
suite("broadcast", _itself)(
    *_rows(root=0),
    call(normal(), note="0-d"),
    wrong(errors.InputValueError, normal(3), root=-1),
)
suite("all_gather", _itself)(*_rows(), wrong(errors.ShapeError, normal()))
suite("reduce_scatter", _itself)(*_rows(numbers=True), wrong(errors.ShapeError, normal()))
suite("all_to_all", _itself)(*_rows(), wrong(errors.ShapeError, normal()))
suite("wait_for_ranks", _itself)(*_rows(), call(normal(), note="0-d"))
