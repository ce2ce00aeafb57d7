"""Positions in every integer dtype, floats of two dtypes, and inputs of zeros."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from operator import methodcaller
from typing import Any

import numpy as np

from pullback import dtypes, errors
from pullback.dtypes import DType
from pullback.spec import Op
from pullback_conformance.case import leaves, resolution
from pullback_conformance.derived.attributes import values_of
from pullback_conformance.derived.variation import (
    Base,
    accepted,
    bases,
    changed_at,
    is_rigid,
    mapped,
    redrawn,
)
from pullback_conformance.sample import Array, Sample, Suite

#: The names of inputs that are positions.
_POSITIONS = ("indices", "labels", "segment_ids", "sorter")
#: Those of them that may be anywhere in an axis, in any order.
_ANYWHERE = ("indices", "labels", "segment_ids")
#: A size with positions that some dtypes of 8 bits hold, and others take for negative numbers.
WIDE = 200
#: The number of values of an attribute with which inputs are zeros.
ATTRIBUTES = 6
_NARROW = (dtypes.bfloat16, dtypes.float16)


def samples(op: Op, suite: Suite, *, quick: bool) -> Iterator[Sample]:
    """The calls with other positions, with floats of two dtypes, and with zeros."""
    yield from _positions(op, suite)
    if is_rigid(op):
        return  # a singular matrix
    yield from _two_dtypes(op, suite, quick=quick)
    yield from _zeros(op, suite)


def _positions(op: Op, suite: Suite) -> Iterator[Sample]:
    """Positions in every integer dtype, and beyond 127 along each axis."""
    places = [i for i, parameter in enumerate(op.inputs) if parameter.name in _POSITIONS]
    seen: set[object] = set()
    for sample in suite.samples:
        found = [i for i in places if i < len(sample.inputs) and _is_whole(sample.inputs[i])]
        # Of each number of axes, too: several axes of positions may repeat along any of them.
        kind = [(leaf.dtype.kind, leaf.ndim) for leaf in leaves(sample.inputs)]
        if not found or str((found, kind)) in seen or not sample.inputs[found[0]].size:
            continue
        seen.add(str((found, kind)))
        base = Base(op, suite, sample)
        for dtype in dtypes.INTEGER:
            wide = () if "large" in suite.without else _wide(base, found, dtype)
            for inputs, words in ((sample.inputs, ""), *wide):
                yield from _cast(base, inputs, found, dtype, words)
        yield from _one_position(base, found)


def _one_position(base: Base, places: Sequence[int]) -> Iterator[Sample]:
    """All positions are one, which repeats as often as there are any."""
    alike = changed_at(places, lambda x: np.full_like(x, x.flat[0]), base.sample.inputs)
    yield from base.varied(alike, f"one position as {_named(base, places)}", plain=True)


def _cast(
    base: Base, inputs: Sequence[Any], places: Sequence[int], dtype: DType, words: str
) -> Iterator[Sample]:
    info = np.iinfo(dtype)
    if any(np.any((inputs[i] < info.min) | (inputs[i] > info.max)) for i in places):
        return
    cast = changed_at(places, lambda value: value.astype(dtype), inputs)
    note = f"{_named(base, places)} of {dtype}{words}"
    yield from base.varied(cast, note, checks=("value", "body"), plain=True)


def _named(base: Base, places: Sequence[int]) -> str:
    return ", ".join(base.op.inputs[i].name for i in places)


def _wide(base: Base, places: Sequence[int], dtype: DType) -> Iterator[tuple[tuple[Any, ...], str]]:
    """The inputs with an axis of WIDE elements, and positions from all of it."""
    if dtype.itemsize > 1 or not all(base.op.inputs[i].name in _ANYWHERE for i in places):
        return
    lengths = sorted({size for x in base.arrays for size in x.shape})
    high = min(WIDE, int(np.iinfo(dtype).max) + 1)
    for length in lengths:

        def resize(x: Array, length: int = length) -> Array:
            shape = [WIDE if size == length else size for size in x.shape]
            return x if tuple(shape) == x.shape else redrawn(x, shape)

        wide = mapped(resize, base.sample.inputs)
        rng = np.random.default_rng([15, length])
        drawn = changed_at(places, partial(_drawn, rng, high), wide)
        yield drawn, f" in an axis of {WIDE}"


def _drawn(rng: np.random.Generator, high: int, value: Array) -> Array:
    return np.asarray(rng.integers(0, high, value.shape))


def _is_whole(value: object) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind == "i"


def _floats(base: Base) -> list[int]:
    """The inputs that are arrays of floats with axes."""
    return [
        i
        for i, value in enumerate(base.sample.inputs)
        if isinstance(value, np.ndarray) and value.dtype == np.float64 and value.ndim
    ]


def _two_dtypes(op: Op, suite: Suite, *, quick: bool) -> Iterator[Sample]:
    """float32 beside 16-bit floats, for ops that keep the dtypes of inputs apart."""
    for base in bases(op, suite)[: 1 if quick else 3]:
        floats, sample = _floats(base), base.sample
        if len(floats) < 2 or sample.dtypes is not None:
            continue
        for narrow, i, alone in itertools.product(_NARROW, floats, (True, False)):
            if len(floats) == 2 and not alone:
                continue  # the same as the other one alone
            wide = [i] if alone else [k for k in floats if k != i]
            inputs = changed_at(wide, lambda x: x.astype(np.float32), sample.inputs)
            others = [k for k in floats if k not in wide]
            cast = changed_at(others, methodcaller("astype", narrow), inputs)
            if _keeps(op, cast, sample.attributes, narrow) and accepted(
                op, suite, cast, sample.attributes
            ):
                note = f"{_named(base, wide)} in float32 beside {narrow}"
                checks = ("value", "rules")
                yield Sample(inputs, sample.attributes, False, (narrow.name,), note, checks)


def _keeps(op: Op, inputs: tuple[Any, ...], attributes: dict[str, Any], narrow: DType) -> bool:
    """Returns whether inputs of both dtypes reach the kernel."""
    try:
        found = resolution(op, inputs, attributes).inputs
    except (errors.PullbackError, TypeError, ValueError):
        return False
    return dtypes.float32 in found and narrow in found


def _zeros(op: Op, suite: Suite) -> Iterator[Sample]:
    """Zeros for one input after the other, and for all, where the result is a number."""
    for base in (*bases(op, suite), *_with_attributes(op, suite)):
        floats = _floats(base)
        for places in [[i] for i in floats] + ([floats] if len(floats) > 1 else []):
            inputs = changed_at(places, np.zeros_like, base.sample.inputs)
            note = f"zeros as {_named(base, places)}"
            for taken in base.varied(inputs, note, checks=("value", "body")):
                found = base.changed(inputs).reference()
                if all(np.all(np.isfinite(x)) for x in found if x.dtype.kind in "fc"):
                    yield taken


def _with_attributes(op: Op, suite: Suite) -> Iterator[Base]:
    """The first base with other values of its attributes, one at a time."""
    for base in bases(op, suite)[:1]:
        for name, choices in values_of(op, suite).items():
            for value in choices[:ATTRIBUTES]:
                named = {**base.sample.attributes, name: value}
                if named != base.sample.attributes:
                    yield replace(base, sample=replace(base.sample, attributes=named))
