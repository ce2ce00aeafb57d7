"""Many items, such as images, for ops that take them one by one: some, again and again."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from pullback.shapes import Shape
from pullback.spec import Op
from pullback_conformance.case import leaves
from pullback_conformance.derived.variation import changed_at, redrawn, shapes_of_results
from pullback_conformance.sample import Sample, Suite

#: Items that differ.
PERIOD = 3
#: The elements of the items from which on kernels work in blocks, and in threads besides.
MANY, MOST = 2**16, 2**19


def samples(op: Op, suite: Suite, *, quick: bool) -> Iterator[Sample]:
    """The samples with many items; in a full run one of each kind of images with more of them."""
    places = [i for i, parameter in enumerate(op.inputs) if parameter.name in suite.items]
    kinds = set()
    for sample in suite.samples:
        if not places or not all(x.size for x in leaves(sample.inputs)):
            continue
        yield from _many(op, sample, places, MANY)
        kind = tuple(x.ndim for x in leaves(sample.inputs))
        if not quick and kind not in kinds:
            kinds.add(kind)
            yield from _many(op, sample, places, MOST)


def _many(op: Op, sample: Sample, places: list[int], size: int) -> Iterator[Sample]:
    some, found = _drawn(op, sample, places, PERIOD)
    if found is None:
        return
    few = max(x.size for i, x in enumerate(some.inputs) if i in places and x is not None)
    few = max(few, *(math.prod(shape or ()) for shape in found))
    # Not a whole number of blocks of items.
    times = size // few | 1
    many, shapes = _drawn(op, sample, places, PERIOD * times)
    if shapes is None:
        return
    period = None
    if all(a != b for a, b in zip(found, shapes, strict=True)):
        period = PERIOD
        many = replace(many, inputs=tuple(
            np.concatenate([x] * times) if i in places and x is not None else x
            for i, x in enumerate(some.inputs)
        ))  # fmt: skip
    # Sums of equal items would be rounded to one side: all of them differ.
    words = [f"{name}={value}" for name, value in many.attributes.items()]
    note = " ".join([*words, f"{PERIOD * times} items"])
    yield replace(many, gradient=False, note=note, checks=("value",), period=period)


def _drawn(
    op: Op, sample: Sample, places: list[int], count: int
) -> tuple[Sample, list[Shape | None] | None]:
    """A sample with so many items, and the shapes of its results; None if it is no call."""
    seeds = itertools.count()
    inputs = changed_at(
        places,
        lambda x: None if x is None else redrawn(x, (count, *x.shape[1:]), seed=next(seeds)),
        sample.inputs,
    )
    named = dict(sample.attributes)
    if "input_shape" in named:
        named["input_shape"] = (count, *named["input_shape"][1:])
    made = replace(sample, inputs=inputs, attributes=named)
    return made, shapes_of_results(op, inputs, named)
