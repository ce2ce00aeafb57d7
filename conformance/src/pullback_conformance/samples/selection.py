"""Samples of `where`."""

from __future__ import annotations

import numpy as np

from pullback import errors
from pullback_conformance.draws import booleans, cnormal, integers, normal
from pullback_conformance.sample import call, suite, wrong

suite("where", lambda condition, x1, x2: np.where(condition != 0, x1, x2))(
    call(booleans(3, 4), normal(3, 4), normal(3, 4, seed=1)),
    call(booleans(2, 1, 1), normal(3, 1), normal(4, seed=1), note="broadcast"),
    call(np.asarray(True), np.asarray(1.0), np.asarray(2.0), note="0-d"),
    call(booleans(0, 3), normal(0, 3), normal(1, 3), note="empty"),
    call(integers(-1, 2, 3, 4), normal(3, 4), normal(3, 4, seed=1), note="by number"),
    call(booleans(3, 4), integers(0, 9, 3, 4), integers(0, 9, 4), note="integers"),
    call(booleans(3, 4), booleans(3, 4, seed=1), booleans(4), note="truth values"),
    call(booleans(3, 4), cnormal(3, 4), cnormal(3, 4, seed=1), note="complex"),
    call(
        np.array([True, False]),
        np.array([1.0, np.nan]),
        np.array([np.inf, 2.0]),
        note="NaN on the other side",
    ),
    wrong(errors.ShapeError, booleans(2, 3), normal(2), normal(3)),
)
