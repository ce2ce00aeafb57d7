"""Samples that follow from the op table by rules, for every op alike.

The samples of an op that are written (`samples`) say what is particular to it: its domain, its
reference, its wrong calls. What every op must survive follows from its signature and its rules:
every value that a dtype has, large and empty inputs, every axis, pairs of attributes; and calls in
which all of these are drawn at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from itertools import chain

from pullback.spec import Op
from pullback_conformance.derived import (
    attributes,
    axes,
    broadcasting,
    corners,
    elementwise,
    exceptional,
    formats,
    items,
    matrices,
    operands,
    randomized,
    ranks,
    sizes,
)
from pullback_conformance.derived.variation import distinct
from pullback_conformance.sample import Sample, Suite

#: The rules, by the names under which a suite may leave them out.
RULES: dict[str, Callable[..., Iterator[Sample]]] = {
    "values": elementwise.samples,
    "corners": corners.samples,
    "sizes": sizes.samples,
    "axes": axes.samples,
    "pairs": attributes.samples,
    "exceptional": exceptional.samples,
    "broadcasting": broadcasting.samples,
    "matrices": matrices.samples,
    "formats": formats.samples,
    "operands": operands.samples,
    "ranks": ranks.samples,
    "items": items.samples,
    "random": randomized.samples,
}
#: Those of a quick run for an op without a kernel: all its samples have one shape.
FEW = ("values", "corners")


def derived(
    op: Op, suite: Suite, *, quick: bool, rules: Collection[str] = RULES
) -> tuple[Sample, ...]:
    """The samples of an op that follow by rules.

    Args:
        op: the op.
        suite: its samples, whose values and reference are used.
        quick: fewer of them.
        rules: the names of the rules.
    """
    # Those of a quick run come first, so that it is a part of the full one.
    some = _all(op, suite, rules, quick=True)
    return tuple(distinct(some if quick else chain(some, _all(op, suite, rules, quick=False))))


def _all(op: Op, suite: Suite, rules: Collection[str], *, quick: bool) -> Iterator[Sample]:
    for name, samples in RULES.items():
        if name in rules and name not in suite.without:
            yield from samples(op, suite, quick=quick)
