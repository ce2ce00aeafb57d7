"""Inputs that broadcast: numbers, rows and columns beside arrays, and arrays of six axes.

Libraries have loops of their own for each of these, and often another formula for a number that
is the same for all elements: a root for the power of 0.5, bits for the remainder by 8.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np

from pullback import dtypes, shapes
from pullback.dtypes import DType
from pullback.shapes import Shape
from pullback.spec import Op
from pullback_conformance.derived import elementwise, sizes, values
from pullback_conformance.derived.variation import Base, redrawn
from pullback_conformance.sample import Array, Sample, Suite

#: What stands at one input, in words, its shape, and that of the others.
_SHAPES: tuple[tuple[str, Shape, Shape], ...] = (
    ("no axes", (), (7, 5)),
    ("no axes beside many elements", (), (67, 67)),
    ("a row", (5,), (7, 5)),
    ("a column", (7, 1), (7, 5)),
    ("a column beside a row", (7, 1), (1, 5)),
    ("a row beside a column", (5,), (7, 1)),
    ("one element in the middle", (2, 1, 5), (2, 3, 5)),
    ("axes in front", (2, 3, 5), (5,)),
    ("six axes", (2, 1, 3, 1, 2, 5), (1, 3, 1, 2, 2, 1)),
)
_FLOATS = (dtypes.float32, dtypes.float64, dtypes.float16, dtypes.bfloat16)
#: Numbers that libraries treat apart, beside those of `values.special`.
_NUMBERS = (2.0, -0.5, 4.0, 8.0, 10.0)
_INTEGERS = (1, 2, 3, 7, 8, 40, 127, -1, -2, -8)


def samples(op: Op, suite: Suite, *, quick: bool) -> Iterator[Sample]:
    """The calls of an elementwise op with inputs of several shapes."""
    found = elementwise.base(op, suite)
    if found is None or not elementwise.is_elementwise(op, suite):
        return
    base = Base(op, suite, found)
    if op.shape is shapes.broadcast and len(op.inputs) > 1:
        yield from _shapes(base)
        if len(op.inputs) == 2:
            yield from _beside_numbers(base, quick=quick)
    elif len(op.inputs) == 1:
        x = redrawn(found.inputs[0], _SHAPES[-1][1])
        yield from base.varied((x,), "six axes", plain=True)


def _shapes(base: Base) -> Iterator[Sample]:
    drawn = base.sample.inputs
    for (words, own, others), i in itertools.product(_SHAPES, range(len(drawn))):
        if base.suite.slow and math.prod(others) > sizes.FEW:
            continue
        inputs = tuple(
            redrawn(value, own if k == i else others, seed=k) for k, value in enumerate(drawn)
        )
        yield from base.varied(inputs, f"{words} at {base.op.inputs[i].name}", plain=True)


def _beside_numbers(base: Base, *, quick: bool) -> Iterator[Sample]:
    """Every number that is special as one input, and all values of its dtype as the other."""
    found, turns = base.sample, itertools.count()
    if all(value.dtype == np.float64 for value in found.inputs):
        known = list(found.dtypes or map(str, _FLOATS))
        floats = [dtype for dtype in _FLOATS if dtype.name in known]
        for place, i in itertools.product(range(2), range(len(_numbers(dtypes.float32)))):
            turn = next(turns)
            for dtype in [floats[turn % len(floats)]] if quick else floats:
                number = _numbers(dtype)[i]
                yield from _beside(base, place, number, values.floats(dtype), dtype)
    if found.dtypes is not None:
        return
    for dtype in dtypes.INTEGER:
        info = np.iinfo(dtype)
        every = [*_INTEGERS, 0, info.min, info.max]
        fitting = [number for number in dict.fromkeys(every) if info.min <= number <= info.max]
        for place, number in itertools.product(range(2), fitting):
            yield from _beside(base, place, np.asarray(number, dtype), values.integers(dtype))


def _numbers(dtype: DType) -> Array:
    return np.concatenate([values.special(dtype), _NUMBERS])


def _beside(
    base: Base, place: int, number: Array, every: Array, dtype: DType | None = None
) -> Iterator[Sample]:
    op, suite = base.op, base.suite
    domain = suite.domain if dtype is not None else {**suite.domain, **suite.integer_domain}
    low, high = domain.get(op.inputs[place].name, (-np.inf, np.inf))
    if not (np.isnan(number) or low <= number <= high):
        return
    if not (op.public or number == 0 or 1e-3 < np.abs(number) < 1e3):
        return  # a slope may have left the range before it is multiplied
    array = values.inside(every, domain.get(op.inputs[1 - place].name))
    inputs = (array, np.asarray(number))[:: -1 if place == 0 else 1]
    kind = number.dtype if dtype is None else dtype
    note = f"every {kind}, {number!s} as {op.inputs[place].name}"
    names = None if dtype is None else (dtype.name,)
    yield from base.varied(inputs, note, dtypes=names, plain=True)
