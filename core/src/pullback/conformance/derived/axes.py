"""Every axis of inputs with one to four axes, for ops with attributes that name axes."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from pullback.conformance.case import leaves
from pullback.conformance.derived.variation import attributed, bases, mapped, redrawn, varied
from pullback.conformance.sample import Array, Sample, Suite
from pullback.spec import Attribute, Op

#: All sizes differ, so that one axis cannot pass for another.
SHAPES = ((5,), (3, 4), (2, 3, 4), (2, 3, 4, 5), (2, 3, 1, 4, 5))
#: Of more axes than four, the sets and the orders that are tried.
SETS = ((0, 2, 4), (1, 3), (0, 1), (3, 4), (0, 1, 2, 3, 4))
ORDERS = ((4, 3, 2, 1, 0), (1, 0, 2, 3, 4), (0, 2, 1, 4, 3), (3, 4, 0, 1, 2), (0, 4, 1, 2, 3))
#: The number of axes with which each boolean attribute is tried too.
FLAGGED = 3
_NAMES = ("axis", "axes", "source", "destination", "k", "offset")


def named(op: Op) -> list[Attribute]:
    """The attributes of an op that name axes."""
    return [
        attribute
        for attribute in op.attributes
        if attribute.form in ("Axis", "Axes") or attribute.name in _NAMES
    ]


def samples(op: Op, suite: Suite, *, quick: bool) -> Iterator[Sample]:
    """The calls of an op over every axis, which its rules and its reference take."""
    attributes = named(op)
    if not attributes or op.tier == "linalg":
        return
    names = [attribute.name for attribute in attributes]
    defaults = inspect.signature(op.body).parameters
    flags = [
        {attribute.name: not defaults[attribute.name].default}
        for attribute in op.attributes
        if attribute.form == "bool"
    ]
    for sample in bases(suite)[: 2 if quick else 3]:
        rest = {name: value for name, value in sample.attributes.items() if name not in names}
        for inputs in _substituted(sample):
            ndim = leaves(inputs)[0].ndim
            choices = [choices_of(attribute, ndim) for attribute in attributes]
            for chosen in itertools.product(*choices):
                some = {k: v for k, v in zip(names, chosen, strict=True) if v is not ...}
                yield from _taken(op, suite, sample, inputs, {**rest, **some})
                if ndim == FLAGGED:
                    for flag in flags:
                        yield from _taken(op, suite, sample, inputs, {**rest, **some, **flag})
        if len(leaves(sample.inputs)) > 1:
            yield from _moved(op, suite, sample, names)


def _moved(op: Op, suite: Suite, sample: Sample, names: list[str]) -> Iterator[Sample]:
    """Batches of the inputs with the op's axis in every place."""
    name = names[0]
    axis = sample.attributes.get(name, inspect.signature(op.body).parameters[name].default)
    for inputs in _raised(sample):
        first = leaves(inputs)[0]
        yield from _taken(op, suite, sample, inputs, sample.attributes)
        if not isinstance(axis, int):
            continue
        source = axis if axis < 0 else axis + first.ndim - leaves(sample.inputs)[0].ndim
        for place in range(-first.ndim, first.ndim):
            moved = mapped(partial(_placed, first.ndim, source, place), inputs)
            yield from _taken(op, suite, sample, moved, {**sample.attributes, name: place})


def _placed(ndim: int, source: int, place: int, x: Array) -> Array:
    return np.moveaxis(x, source, place) if x.ndim == ndim else x


def _taken(
    op: Op, suite: Suite, sample: Sample, inputs: tuple[Any, ...], attributes: dict[str, Any]
) -> Iterator[Sample]:
    note = attributed(attributes, f"of {'x'.join(map(str, leaves(inputs)[0].shape))}")
    yield from varied(op, suite, sample, inputs, note, attributes=attributes)


def choices_of(attribute: Attribute, ndim: int) -> list[Any]:
    """The values of an attribute for inputs of `ndim` axes; ... for its default."""
    if attribute.name in ("k", "offset"):
        return [..., -1, 2]
    if ndim == len(SHAPES[-1]) and (attribute.form == "Axes" or attribute.name == "axes"):
        return [..., *(SETS if attribute.form == "Axes" else ORDERS)]
    if attribute.form == "Axes":
        subsets = [
            subset
            for count in range(ndim + 1)
            for subset in itertools.combinations(range(ndim), count)
        ]
        return [..., None, *subsets, *range(-ndim, 0)]
    if attribute.name == "axes":
        orders = list(itertools.permutations(range(ndim)))
        return [..., *orders]
    return [..., *range(-ndim - 1, ndim + 1)]


def _substituted(sample: Sample) -> Iterator[tuple[Any, ...]]:
    """Other shapes of the first input, and of those that have its shape."""
    first, many = leaves(sample.inputs)[0], not isinstance(sample.inputs[0], np.ndarray)
    for shape in SHAPES:
        seed = itertools.count()

        def draw(x: Array, shape: tuple[int, ...] = shape, seed: Any = seed) -> Array:
            return redrawn(x, shape, seed=next(seed)) if many or x.shape == first.shape else x

        yield mapped(draw, sample.inputs)


def _raised(sample: Sample) -> Iterator[tuple[Any, ...]]:
    """The inputs with further axes in front, as batches of them."""
    for sizes in ((2,), (2, 3)):
        seed = itertools.count()

        def lift(x: Array, sizes: tuple[int, ...] = sizes, seed: Any = seed) -> Array:
            return redrawn(x, (*sizes, *x.shape), seed=next(seed)) if x.ndim else x

        yield mapped(lift, sample.inputs)
