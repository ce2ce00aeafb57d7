"""Inputs with more axes than a library may have loops for: batches of batches, up to six axes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from pullback.spec import Op
from pullback_conformance.derived.variation import (
    Base,
    bases,
    is_rigid,
    reshaped,
)
from pullback_conformance.sample import Array, Sample, Suite

#: Sizes of further axes, the last one next to those of the sample.
_SIZES = (1, 2, 1, 2, 2)
#: The number of axes of the first input, and one that is odd.
AXES = (6, 5)


def samples(op: Op, suite: Suite, *, quick: bool) -> Iterator[Sample]:
    """The calls of an op with more axes in front of those of its inputs, or behind them."""
    if is_rigid(op):
        return  # other values would make another problem
    for base in bases(op, suite)[: 1 if quick else 3]:
        for ndim, front in itertools.product(AXES, (True, False)):
            count = ndim - base.arrays[0].ndim
            if 0 < count <= len(_SIZES):
                yield from _lifted(base, _SIZES[-count:], front)


def _lifted(base: Base, sizes: tuple[int, ...], front: bool) -> Iterator[Sample]:
    """The call with more axes of all inputs, or of the first one beside indices or parameters."""

    def lift(x: Array) -> tuple[int, ...] | None:
        if not x.ndim:
            return None
        return (*sizes, *x.shape) if front else (*x.shape, *sizes)

    inputs, seeds = base.sample.inputs, itertools.count()
    every = reshaped(inputs, lift, seeds)
    alone = (*reshaped(inputs[:1], lift, seeds), *inputs[1:])
    for lifted, words in ((every, ""), (alone, " of the first input")):
        where = "in front" if front else "behind"
        found = list(base.varied(lifted, f"{len(sizes)} more axes {where}{words}"))
        yield from found
        if found:
            return
