"""Other sizes of the inputs of any op: large, with tails, square, empty.

Axes of one size belong together: they are changed at once, and the shape rule of the op says
whether that is a call.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from pullback import dtypes, shapes
from pullback.dtypes import DType
from pullback.spec import Accuracy, Op, Tier
from pullback_conformance.derived import elementwise, values
from pullback_conformance.derived.variation import (
    Base,
    bases,
    is_rigid,
    mapped,
    redrawn,
    shapes_of_results,
)
from pullback_conformance.sample import Array, Sample, Suite

#: Longer than the vectors of any processor and not a multiple of one.
TAIL = 67
#: A whole number of vectors, of tiles and of the rows of a group of threads.
ALIGNED = 64
#: Sizes of all axes at once, of which the largest that leaves inputs small is taken.
BOXES = (64, 32, 16, 8)
#: The number of elements of an input up to which a box is taken.
BOX = 2**13
#: The same where the reference takes long for each element.
FEW = 2**9
#: The size of all axes of square inputs.
SIDE = 5
#: The number of elements of a vector, and so of the rests that a loop over vectors may leave.
VECTOR = 8
#: The number of elements up to which all sizes are changed at once, for each rest.
REST = 2**15
#: Shapes of ops without inputs: vectors with tails and without, several axes, nothing.
SHAPES = (
    (),
    (1,),
    (TAIL,),
    (values.MEDIUM,),
    (values.LARGE,),
    (ALIGNED, ALIGNED),
    (0, 3),
    (2, 1, 3, 1, 2, 2),
)
#: The number of elements of all results up to which inputs are made that large.
BOUND = 2**23
#: The number of arrays in long sequences.
MANY = 17
#: The number of elements up to which inputs are made larger.
MOST = 2**18
#: The number of elements up to which inputs have so many along one axis.
_WHOLE = {ALIGNED: 2 * BOX, 16 * ALIGNED: BOX // 4, 2**12: MOST // 4, 2**10 + 1: MOST // 4}
#: Those of rows that are long: whole blocks of any size, and one element behind them.
_LONG = (2**12, 2**10 + 1)
_REPEATED = ("value", "deterministic")
_EQUAL = np.round(0.999 * 2**51) / 2**51


def samples(op: Op, suite: Suite, *, quick: bool) -> Iterator[Sample]:
    """The calls of an op with other sizes, which its rules and its reference take."""
    if op.tier == Tier.FFT:
        yield from _transforms(bases(op, suite)[0])
    if is_rigid(op):
        return  # other values would make another problem
    yield from _without_inputs(op, suite)
    each = elementwise.base(op, suite) is not None and elementwise.is_elementwise(op, suite)
    if not quick and not each:
        yield from _huge(op, suite)
    for number, base in enumerate(bases(op, suite)):
        lengths = _lengths(base)
        square = _resized(base, dict.fromkeys(lengths, SIDE))
        yield from _taken(square, "square", ("value", "layouts"))
        yield from _whole_vectors(base, lengths, each=each)
        if not each:
            for form in _formats(base):
                yield from _rests(form, lengths)
        if not (quick and number):
            yield from _sequences(base)
            yield from _in_proportion(base, lengths)
        for length in lengths:
            yield from _taken(_resized(base, {length: 1}), f"{length} is 1")
            empty = _resized(base, {length: 0})
            # In every dtype of the sample's kind; in the others at least once.
            others = (*dtypes.INTEGER, dtypes.bool_) if op.public and not (quick and number) else ()
            for dtype in (None, *others):
                other = empty if dtype is None else _cast(empty, dtype)
                note = f"{length} is 0" + (f" of {dtype}" if dtype else "")
                yield from _taken(other, note, ("value", "rules"), every=dtype is None)
            if each or "large" in suite.without:
                continue  # larger inputs are those with every value
            if _total(base, {length: TAIL}) <= BOUND:
                yield from _taken(_resized(base, {length: TAIL}), f"{length} is {TAIL}")
        if each or (number and quick):
            continue
        if "large" in suite.without:
            batch = base.arrays[0].shape[:1]
            wide = _resized(base, dict.fromkeys(batch, TAIL))
            yield from _taken(wide, f"{batch[0]} is {TAIL}", _REPEATED)
            continue
        for length in lengths:
            for size in (values.MEDIUM,) if quick else (values.MEDIUM, values.LARGE):
                if _total(base, {length: size}) <= MOST:
                    yield from _taken(
                        _resized(base, {length: size}), f"{length} is {size}", _REPEATED
                    )
            yield from _alike(base, length)


def _transforms(base: Base) -> Iterator[Sample]:
    """A power of two and a prime along one axis; the sensitivity of more would take too long."""
    length = _lengths(base)[-1]
    for size in (ALIGNED, TAIL):
        yield from _taken(_resized(base, {length: size}), f"{length} is {size}")
    lines = base.arrays[0].shape[0]
    if lines != length:
        yield from _taken(_resized(base, {lines: VECTOR + 3}), f"{lines} is {VECTOR + 3}")


def _without_inputs(op: Op, suite: Suite) -> Iterator[Sample]:
    """Shapes of the results of ops that make arrays."""
    if op.inputs or "shape" not in [attribute.name for attribute in op.attributes]:
        return
    for sample, shape in itertools.product(suite.samples[:2], SHAPES):
        made = Sample((), {**sample.attributes, "shape": shape})
        yield from _taken(Base(op, suite, made), "", _REPEATED)


def _huge(op: Op, suite: Suite) -> Iterator[Sample]:
    """A call with a million elements along one axis; those by element have every value as many."""
    if op.name == "random_bits":
        first = suite.samples[0]
        made = replace(first, attributes={**first.attributes, "shape": (values.HUGE,)})
        yield from _taken(Base(op, suite, made), f"{values.HUGE} elements")
    if not {"large", "sizes"}.isdisjoint(suite.without):
        return
    for base in bases(op, suite):
        lengths = _lengths(base)
        for length in dict.fromkeys((lengths[-1], lengths[0])):
            rows = max(math.prod(size for size in x.shape if size != length) for x in base.arrays)
            longer = {length: values.HUGE // rows + 1}
            if _total(base, longer) > BOUND:
                continue
            huge = _resized(base, longer)
            inputs = mapped(lambda x: _single(x) if x.dtype.kind == "f" else x, huge.sample.inputs)
            shapes = shapes_of_results(op, inputs, base.sample.attributes)
            if shapes is None or sum(math.prod(shape or ()) for shape in shapes) > BOUND:
                continue
            alone = ("float32",) if base.arrays[0].dtype == np.float64 else base.sample.dtypes
            note = f"{values.HUGE} elements"
            found = [*huge.varied(inputs, note, checks=values.HUGE_CHECKS, dtypes=alone)]
            if found:
                yield from found
                return


def _single(x: Array) -> Array:
    """The numbers as float32 has them."""
    return x.astype(np.float32).astype(x.dtype)


def _alike(base: Base, length: int) -> Iterator[Sample]:
    """Equal numbers, of which a sum one after the other rounds all to one side.

    The reference adds them without rounding: the number has a few bits less than float64.
    """
    op = base.op
    if op.shape is not shapes.reduce or op.accuracy is not Accuracy.ACCUMULATED:
        return
    if "equal" in base.suite.without or base.arrays[0].dtype != np.float64:
        return
    wide = _resized(base, {length: values.MEDIUM})
    equal = wide.changed(mapped(lambda x: np.full_like(x, _EQUAL), wide.sample.inputs))
    yield from _taken(equal, f"{length} is {values.MEDIUM}, equal numbers", _REPEATED)


def _whole_vectors(base: Base, lengths: list[int], *, each: bool) -> Iterator[Sample]:
    """Sizes without a tail, for which libraries have loops of their own."""
    few = each and base.suite.slow
    if "large" not in base.suite.without:
        for length, size in itertools.product(lengths, _WHOLE):
            most = min(_WHOLE[size], FEW) if few else _WHOLE[size]
            if _total(base, {length: size}) <= most:
                resized = _resized(base, {length: size})
                if size in _LONG:
                    if base.arrays[0].dtype != np.float64 or each or base.suite.slow:
                        continue
                    resized = _alone(resized)
                yield from _taken(resized, f"{length} is {size}")
    axes = max(x.ndim for x in base.arrays)
    most = FEW if few else BOX
    side = next((side for side in BOXES if side**axes <= most), None)
    if side is not None:
        box = _resized(base, dict.fromkeys(lengths, side))
        yield from _taken(box, f"all sizes are {side}")


def _formats(base: Base) -> Iterator[Base]:
    """The base, and with the channels first: its second axis is then that of the channels."""
    yield base
    if "data_format" in [attribute.name for attribute in base.op.attributes]:
        named = {**base.sample.attributes, "data_format": "channels_first"}
        yield replace(base, sample=replace(base.sample, attributes=named))


def _alone(base: Base) -> Base:
    """The base in float32, the dtype of most loops, if it is for that."""
    if base.arrays[0].dtype != np.float64 or base.sample.dtypes is not None:
        return base
    return replace(base, sample=replace(base.sample, dtypes=("float32",)))


def _rests(base: Base, lengths: list[int]) -> Iterator[Sample]:
    """Every rest that a loop over vectors may leave: along all axes, or along one at a time."""
    if "sizes" in base.suite.without:
        return
    base = _alone(base)
    slow = "large" in base.suite.without
    names = [attribute.name for attribute in base.op.attributes]
    for rest in range(VECTOR):
        every = {size: (i + 1) * VECTOR + rest for i, size in enumerate(lengths)}
        together = _total(base, every) <= REST and not slow
        found = list(_taken(_resized(base, every), f"a rest of {rest}")) if together else []
        for length in () if found else lengths:
            size = VECTOR + rest if slow else 2 * VECTOR + rest
            found += _taken(_resized(base, {length: size}), f"{length} is {size}")
        yield from found
        if rest in (1, VECTOR - 1) and together and "axis" in names:
            named = {**base.sample.attributes, "axis": 0}
            first = replace(base, sample=replace(base.sample, attributes=named))
            yield from _taken(_resized(first, every), f"a rest of {rest}")


def _in_proportion(base: Base, lengths: list[int]) -> Iterator[Sample]:
    """Sizes of which one is several times another, as of gates side by side."""
    for length in lengths:
        several = [size for size in lengths if length and size % length == 0]
        for unit in (1, SIDE + 2, ALIGNED // 4) if len(several) > 1 else ():
            sizes = {size: size // length * unit for size in several}
            if _total(base, sizes) <= BOX:
                note = f"{length} is {unit}, {several[1:]} in proportion"
                yield from _taken(_resized(base, sizes), note)


def _sequences(base: Base) -> Iterator[Sample]:
    """Sequences of more arrays than a call of a library may take."""
    inputs = base.sample.inputs
    if any(isinstance(value, (list, tuple)) for value in inputs):
        yield from _taken(base.changed(map(_repeated, inputs)), f"{MANY} arrays")


def _repeated(value: Any) -> Any:
    if not isinstance(value, (list, tuple)) or not value:
        return value
    turns = (value[i % len(value)] for i in range(MANY))
    return [redrawn(x, x.shape, seed=i) for i, x in enumerate(turns)]


def _lengths(base: Base) -> list[int]:
    return sorted({size for x in base.arrays for size in x.shape})


def _total(base: Base, sizes: dict[int, int]) -> int:
    """The number of elements of the inputs in other sizes."""
    return sum(math.prod(sizes.get(size, size) for size in x.shape) for x in base.arrays)


def _resized(base: Base, sizes: dict[int, int]) -> Base:
    def resize(x: Array) -> Array:
        shape = [sizes.get(size, size) for size in x.shape]
        return x if tuple(shape) == x.shape else redrawn(x, shape)

    return base.changed(mapped(resize, base.sample.inputs))


def _cast(base: Base, dtype: DType) -> Base:
    """The sample with the dtype in place of that of its first input."""
    first = base.arrays[0].dtype

    def cast(x: Array) -> Array:
        return np.ones(x.shape, dtype) if x.dtype == first else x

    sample = replace(base.sample, inputs=mapped(cast, base.sample.inputs), dtypes=None)
    return replace(base, sample=sample)


def _taken(
    base: Base, note: str, checks: tuple[str, ...] = ("value",), *, every: bool = False
) -> Iterator[Sample]:
    for taken in base.varied(base.sample.inputs, note, checks=checks, every=every):
        # Where there are no values, the shape counts.
        empty = 0 in [x.size for x in base.arrays] and not any(x.size for x in base.reference())
        yield replace(taken, checks=("rules",)) if empty else taken
