"""Samples of the operations on truth values and bits."""

from __future__ import annotations

import numpy as np

from pullback import errors
from pullback_conformance.draws import booleans, integers, normal
from pullback_conformance.sample import call, suite, wrong

_TRUTH = (
    call(booleans(3, 4), booleans(3, 4, seed=1)),
    call(booleans(3, 1), booleans(4, seed=1), note="broadcast"),
    call(np.asarray(True), np.asarray(False), note="0-d"),
    call(booleans(0, 3), booleans(1, 3), note="empty"),
)
_NUMBERS = (
    call(np.array([0.0, 2.0, np.nan]), np.array([1.0, 0.0, 0.0]), note="floats"),
    call(integers(-1, 2, 3, 4), booleans(4), note="mixed"),
)
_SHAPES = (wrong(errors.ShapeError, booleans(2, 3), booleans(2)),)
suite("logical_and", np.logical_and)(*_TRUTH, *_NUMBERS, *_SHAPES)
suite("logical_or", np.logical_or)(*_TRUTH, *_NUMBERS, *_SHAPES)
suite("logical_xor", np.logical_xor)(*_TRUTH, *_NUMBERS, *_SHAPES)
suite("logical_not", np.logical_not)(
    call(booleans(3, 4)),
    call(np.asarray(True), note="0-d"),
    call(booleans(0, 3), note="empty"),
    call(np.array([0.0, 2.0, np.nan]), note="floats"),
)

_BITS = tuple(
    call(integers(-99, 99, 3, 4).astype(kind), integers(0, 99, 4).astype(kind), note=kind)
    for kind in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
)
_FLOATS = (*_SHAPES, wrong(errors.DTypeError, normal(3), normal(3)))
suite("bitwise_and", np.bitwise_and)(*_TRUTH, *_BITS, *_FLOATS)
suite("bitwise_or", np.bitwise_or)(*_TRUTH, *_BITS, *_FLOATS)
suite("bitwise_xor", np.bitwise_xor)(*_TRUTH, *_BITS, *_FLOATS)
suite("bitwise_invert", np.invert)(
    call(booleans(3, 4)),
    call(np.asarray(5, np.int32), note="0-d"),
    call(booleans(0, 3), note="empty"),
    *(call(*sample.inputs[:1], note=sample.note) for sample in _BITS),
    wrong(errors.DTypeError, normal(3)),
)

_SHIFTS = (
    *(
        call(sample.inputs[0], integers(0, 8, 4).astype(sample.note), note=sample.note)
        for sample in _BITS
    ),
    call(np.asarray(5, np.int32), np.asarray(2, np.int32), note="0-d"),
    call(np.zeros((0, 3), np.int32), np.ones((1, 3), np.int32), note="empty"),
)
_WRONG = (
    wrong(errors.ShapeError, integers(0, 3, 2, 3), integers(0, 3, 2)),
    wrong(errors.DTypeError, normal(3), normal(3)),
    wrong(errors.DTypeError, booleans(3), booleans(3)),
)
suite("bitwise_left_shift", np.left_shift)(*_SHIFTS, *_WRONG)
suite("bitwise_right_shift", np.right_shift)(*_SHIFTS, *_WRONG)
