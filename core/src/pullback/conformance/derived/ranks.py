"""Inputs with more axes than a library may have loops for: batches of batches, up to six axes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from pullback.conformance.case import leaves
from pullback.conformance.derived.variation import attributed, bases, mapped, redrawn, varied
from pullback.conformance.sample import Array, Sample, Suite
from pullback.spec import Accuracy, Op, Tier

#: Sizes of further axes, the last one next to those of the sample.
_SIZES = (1, 2, 1, 2, 2)
#: The number of axes of the first input, and one that is odd.
AXES = (6, 5)


def samples(op: Op, suite: Suite, *, quick: bool) -> Iterator[Sample]:
    """The calls of an op with more axes in front of those of its inputs, or behind them."""
    if op.accuracy is Accuracy.BACKWARD_STABLE or op.tier == Tier.LINALG:
        return  # other values would make another problem
    for sample in bases(suite)[: 1 if quick else 3]:
        first = leaves(sample.inputs)[0].ndim
        for ndim, front in itertools.product(AXES, (True, False)):
            count = ndim - first
            if not 0 < count <= len(_SIZES):
                continue
            sizes, seed = _SIZES[-count:], itertools.count()

            def lift(
                x: Array,
                sizes: tuple[int, ...] = sizes,
                front: bool = front,
                seed: Iterator[int] = seed,
            ) -> Array:
                if not x.ndim:
                    return x
                shape = (*sizes, *x.shape) if front else (*x.shape, *sizes)
                return redrawn(x, shape, seed=next(seed))

            # All inputs, or the first one alone beside indices or parameters.
            every = mapped(lift, sample.inputs)
            alone = (*mapped(lift, sample.inputs[:1]), *sample.inputs[1:])
            for inputs, words in ((every, ""), (alone, " of the first input")):
                where = "in front" if front else "behind"
                note = attributed(sample.attributes, f"{count} more axes {where}{words}")
                lifted = list(varied(op, suite, sample, inputs, note))
                yield from lifted
                if lifted:
                    break
