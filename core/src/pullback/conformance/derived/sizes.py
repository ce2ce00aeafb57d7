"""Other sizes of the inputs of any op: large, with tails, square, empty.

Axes of one size belong together: they are changed at once, and the shape rule of the op says
whether that is a call.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from pullback import dtypes, shapes
from pullback.conformance.case import leaves, results
from pullback.conformance.derived import elementwise, values
from pullback.conformance.derived.variation import attributed, bases, mapped, redrawn, varied
from pullback.conformance.sample import Array, Sample, Suite
from pullback.dtypes import DType
from pullback.spec import Accuracy, Op, Tier

#: Longer than the vectors of any processor and not a multiple of one.
TAIL = 67
#: A whole number of vectors, of tiles and of the rows of a group of threads.
ALIGNED = 64
#: Sizes of all axes at once, of which the largest that leaves inputs small is taken.
BOXES = (64, 32, 16, 8)
#: The number of elements of an input up to which a box is taken.
BOX = 2**13
#: The size of all axes of square inputs.
SIDE = 5
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
#: The number of arrays in long sequences.
MANY = 17
#: The number of elements up to which inputs are made larger.
MOST = 2**18
_REPEATED = ("value", "deterministic")
_EQUAL = np.round(0.999 * 2**51) / 2**51


def samples(op: Op, suite: Suite, *, quick: bool) -> Iterator[Sample]:
    """The calls of an op with other sizes, which its rules and its reference take."""
    if op.tier == Tier.FFT:
        yield from _transforms(op, suite)
    if op.accuracy is Accuracy.BACKWARD_STABLE or op.tier == Tier.LINALG:
        return  # other values would make another problem
    yield from _without_inputs(op, suite)
    each = elementwise.base(op, suite) is not None and elementwise.is_elementwise(op, suite)
    for number, sample in enumerate(bases(suite)):
        lengths = sorted({size for x in leaves(sample.inputs) for size in x.shape})
        square = _resized(sample, dict.fromkeys(lengths, SIDE))
        yield from _taken(op, suite, square, "square", ("value", "layouts"))
        yield from _whole_vectors(op, suite, sample, lengths)
        if not (quick and number):
            yield from _sequences(op, suite, sample)
            yield from _in_proportion(op, suite, sample, lengths)
        for length in lengths:
            one = _resized(sample, {length: 1})
            yield from _taken(op, suite, one, f"{length} is 1", ("value",))
            empty = _resized(sample, {length: 0})
            # In every dtype of the sample's kind; in the others at least once.
            others = (*dtypes.INTEGER, dtypes.bool_) if op.public and not (quick and number) else ()
            for dtype in (None, *others):
                other = empty if dtype is None else _cast(empty, dtype)
                note = f"{length} is 0" + (f" of {dtype}" if dtype else "")
                yield from _taken(op, suite, other, note, ("value", "rules"), every=dtype is None)
            if each or "large" in suite.without:
                continue  # larger inputs are those with every value
            wide = _resized(sample, {length: TAIL})
            yield from _taken(op, suite, wide, f"{length} is {TAIL}", ("value",))
        if each or (number and quick):
            continue
        if "large" in suite.without:
            batch = leaves(sample.inputs)[0].shape[:1]
            wide = _resized(sample, dict.fromkeys(batch, TAIL))
            yield from _taken(op, suite, wide, f"{batch[0]} is {TAIL}", _REPEATED)
            continue
        for length in lengths:
            for size in (values.MEDIUM,) if quick else (values.MEDIUM, values.LARGE):
                if _total(sample, {length: size}) <= MOST:
                    large = _resized(sample, {length: size})
                    note = f"{length} is {size}"
                    yield from _taken(op, suite, large, note, _REPEATED)
            yield from _alike(op, suite, sample, length)


def _transforms(op: Op, suite: Suite) -> Iterator[Sample]:
    """A power of two and a prime along one axis; the sensitivity of more would take too long."""
    for sample in bases(suite)[:1]:
        lengths = sorted({size for x in leaves(sample.inputs) for size in x.shape})
        for size in (ALIGNED, TAIL):
            wide = _resized(sample, {lengths[-1]: size})
            yield from _taken(op, suite, wide, f"{lengths[-1]} is {size}", ("value",))


def _without_inputs(op: Op, suite: Suite) -> Iterator[Sample]:
    """Shapes of the results of ops that make arrays."""
    if op.inputs or "shape" not in [attribute.name for attribute in op.attributes]:
        return
    for sample in suite.samples[:2]:
        for shape in SHAPES:
            made = Sample((), {**sample.attributes, "shape": shape}, gradient=False)
            yield from _taken(op, suite, made, "", _REPEATED)


def _alike(op: Op, suite: Suite, sample: Sample, length: int) -> Iterator[Sample]:
    """Equal numbers, of which a sum one after the other rounds all to one side.

    The reference adds them without rounding: the number has a few bits less than float64.
    """
    if op.shape is not shapes.reduce or op.accuracy is not Accuracy.ACCUMULATED:
        return
    if "equal" in suite.without:
        return
    wide = _resized(sample, {length: values.MEDIUM})
    inputs = mapped(lambda x: np.full_like(x, _EQUAL), wide.inputs)
    equal = Sample(inputs, sample.attributes, gradient=False, dtypes=sample.dtypes)
    if leaves(inputs)[0].dtype == np.float64:
        yield from _taken(
            op, suite, equal, f"{length} is {values.MEDIUM}, equal numbers", _REPEATED
        )


def _whole_vectors(op: Op, suite: Suite, sample: Sample, lengths: list[int]) -> Iterator[Sample]:
    """Sizes without a tail, for which libraries have loops of their own."""
    if "large" not in suite.without:
        for length in lengths:
            for size in (ALIGNED, 16 * ALIGNED):
                if _total(sample, {length: size}) <= (2 * BOX if size == ALIGNED else BOX // 4):
                    wide = _resized(sample, {length: size})
                    yield from _taken(op, suite, wide, f"{length} is {size}", ("value",))
    axes = max(x.ndim for x in leaves(sample.inputs))
    for side in BOXES:
        if side**axes <= BOX:
            box = _resized(sample, dict.fromkeys(lengths, side))
            yield from _taken(op, suite, box, f"all sizes are {side}", ("value",))
            return


def _in_proportion(op: Op, suite: Suite, sample: Sample, lengths: list[int]) -> Iterator[Sample]:
    """Sizes of which one is several times another, as of gates side by side."""
    for length in lengths:
        several = [size for size in lengths if length and size % length == 0]
        if len(several) > 1:
            for unit in (1, SIDE + 2, ALIGNED // 4):
                sizes = {size: size // length * unit for size in several}
                if _total(sample, sizes) <= BOX:
                    note = f"{length} is {unit}, {several[1:]} in proportion"
                    yield from _taken(op, suite, _resized(sample, sizes), note, ("value",))


def _sequences(op: Op, suite: Suite, sample: Sample) -> Iterator[Sample]:
    """Sequences of more arrays than a call of a library may take."""
    if not any(isinstance(value, (list, tuple)) for value in sample.inputs):
        return
    inputs = tuple(
        [redrawn(value[i % len(value)], value[i % len(value)].shape, seed=i) for i in range(MANY)]
        if isinstance(value, (list, tuple)) and value
        else value
        for value in sample.inputs
    )
    long = Sample(inputs, sample.attributes, gradient=False, dtypes=sample.dtypes)
    yield from _taken(op, suite, long, f"{MANY} arrays", ("value",))


def _total(sample: Sample, sizes: dict[int, int]) -> int:
    """The number of elements of the inputs in other sizes."""
    return sum(math.prod(sizes.get(size, size) for size in x.shape) for x in leaves(sample.inputs))


def _resized(sample: Sample, sizes: dict[int, int]) -> Sample:
    def resize(x: Array) -> Array:
        shape = [sizes.get(size, size) for size in x.shape]
        return x if tuple(shape) == x.shape else redrawn(x, shape)

    return replace(sample, inputs=mapped(resize, sample.inputs))


def _cast(sample: Sample, dtype: DType) -> Sample:
    """The sample with the dtype in place of that of its first input."""
    first = leaves(sample.inputs)[0].dtype

    def cast(x: Array) -> Array:
        return np.ones(x.shape, dtype) if x.dtype == first else x

    return Sample(mapped(cast, sample.inputs), sample.attributes, gradient=False)


def _taken(
    op: Op, suite: Suite, sample: Sample, note: str, checks: tuple[str, ...], *, every: bool = False
) -> Iterator[Sample]:
    note = attributed(sample.attributes, note)
    for taken in varied(op, suite, sample, sample.inputs, note, checks=checks, every=every):
        # Where there are no values, the shape counts.
        empty = 0 in [x.size for x in leaves(sample.inputs)] and _is_empty(suite, sample)
        yield replace(taken, checks=("rules",)) if empty else taken


def _is_empty(suite: Suite, sample: Sample) -> bool:
    with np.errstate(all="ignore"):
        found = results(suite.reference(*sample.inputs, **sample.attributes))
    return not any(array.size for array in found)
