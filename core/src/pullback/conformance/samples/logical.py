"""Samples of the operations on truth values and bits."""

from __future__ import annotations

import numpy as np

from pullback import errors
from pullback.conformance.sample import Sample, WrongCalls, booleans, integers, normal, suite

_TRUTH = (
    Sample((booleans(3, 4), booleans(3, 4, seed=1))),
    Sample((booleans(3, 1), booleans(4, seed=1)), note="broadcast"),
    Sample((np.asarray(True), np.asarray(False)), note="0-d"),
    Sample((booleans(0, 3), booleans(1, 3)), note="empty"),
)
_NUMBERS = (
    Sample((np.array([0.0, 2.0, np.nan]), np.array([1.0, 0.0, 0.0])), note="floats"),
    Sample((integers(-1, 2, 3, 4), booleans(4)), note="mixed"),
)
_SHAPES: WrongCalls = (((booleans(2, 3), booleans(2)), {}, errors.ShapeError),)
suite("logical_and", np.logical_and, (*_TRUTH, *_NUMBERS), errors_=_SHAPES)
suite("logical_or", np.logical_or, (*_TRUTH, *_NUMBERS), errors_=_SHAPES)
suite("logical_xor", np.logical_xor, (*_TRUTH, *_NUMBERS), errors_=_SHAPES)
suite(
    "logical_not",
    np.logical_not,
    (
        Sample((booleans(3, 4),)),
        Sample((np.asarray(True),), note="0-d"),
        Sample((booleans(0, 3),), note="empty"),
        Sample((np.array([0.0, 2.0, np.nan]),), note="floats"),
    ),
)

_BITS = tuple(
    Sample((integers(-99, 99, 3, 4).astype(kind), integers(0, 99, 4).astype(kind)), note=kind)
    for kind in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
)
_FLOATS: WrongCalls = (*_SHAPES, ((normal(3), normal(3)), {}, errors.DTypeError))
suite("bitwise_and", np.bitwise_and, (*_TRUTH, *_BITS), errors_=_FLOATS)
suite("bitwise_or", np.bitwise_or, (*_TRUTH, *_BITS), errors_=_FLOATS)
suite("bitwise_xor", np.bitwise_xor, (*_TRUTH, *_BITS), errors_=_FLOATS)
suite(
    "bitwise_invert",
    np.invert,
    (
        Sample((booleans(3, 4),)),
        Sample((np.asarray(5, np.int32),), note="0-d"),
        Sample((booleans(0, 3),), note="empty"),
        *(Sample(sample.inputs[:1], note=sample.note) for sample in _BITS),
    ),
    errors_=(((normal(3),), {}, errors.DTypeError),),
)

_SHIFTS = (
    *(
        Sample((sample.inputs[0], integers(0, 8, 4).astype(sample.note)), note=sample.note)
        for sample in _BITS
    ),
    Sample((np.asarray(5, np.int32), np.asarray(2, np.int32)), note="0-d"),
    Sample((np.zeros((0, 3), np.int32), np.ones((1, 3), np.int32)), note="empty"),
)
_WRONG: WrongCalls = (
    ((integers(0, 3, 2, 3), integers(0, 3, 2)), {}, errors.ShapeError),
    ((normal(3), normal(3)), {}, errors.DTypeError),
    ((booleans(3), booleans(3)), {}, errors.DTypeError),
)
suite("bitwise_left_shift", np.left_shift, _SHIFTS, errors_=_WRONG)
suite("bitwise_right_shift", np.right_shift, _SHIFTS, errors_=_WRONG)
