"""Every axis of inputs with one to four axes, for ops with attributes that name axes."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from pullback.spec import Attribute, Op
from pullback_conformance.case import leaves
from pullback_conformance.derived.variation import Base, bases, mapped, reshaped
from pullback_conformance.sample import Array, Sample, Suite

#: All sizes differ, so that one axis cannot pass for another.
SHAPES = ((5,), (3, 4), (2, 3, 4), (2, 3, 4, 5), (2, 3, 1, 4, 5))
#: Of more axes than four, the sets and the orders that are tried.
SETS = ((0, 2, 4), (1, 3), (0, 1), (3, 4), (0, 1, 2, 3, 4))
ORDERS = ((4, 3, 2, 1, 0), (1, 0, 2, 3, 4), (0, 2, 1, 4, 3), (3, 4, 0, 1, 2), (0, 4, 1, 2, 3))
#: The number of axes with which each boolean attribute is tried too.
FLAGGED = 3
#: More elements than kernels take at once, for an axis that is not the last.
LARGE = (2, 300, 331)
_NAMES = ("axis", "axes", "source", "destination", "k", "offset")


def named(op: Op) -> list[Attribute]:
    """The attributes of an op that name axes."""
    return [
        attribute
        for attribute in op.attributes
        if attribute.form in ("Axis", "Axes", "JoinedAxes") or attribute.name in _NAMES
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
    for base in bases(op, suite)[: 2 if quick else 3]:
        sample = base.sample
        rest = {name: value for name, value in sample.attributes.items() if name not in names}
        for inputs in (_in_shape(base, shape) for shape in SHAPES):
            ndim = leaves(inputs)[0].ndim
            choices = [choices_of(attribute, ndim) for attribute in attributes]
            for chosen in itertools.product(*choices):
                some = {k: v for k, v in zip(names, chosen, strict=True) if v is not ...}
                yield from _taken(base, inputs, {**rest, **some})
                if ndim == FLAGGED:
                    for flag in flags:
                        yield from _taken(base, inputs, {**rest, **some, **flag})
        if len(base.arrays) > 1:
            yield from _moved(base, names[0])
        if not quick and names == ["axis"] and "large" not in suite.without:
            made = base.changed(_in_shape(base, LARGE))
            yield from made.varied(
                made.sample.inputs,
                "of 2x300x331",
                attributes={**rest, "axis": -2},
                dtypes=("float32",) if base.arrays[0].dtype == np.float64 else None,
            )


def _moved(base: Base, name: str) -> Iterator[Sample]:
    """Batches of the inputs with the op's axis in every place."""
    attributes = base.sample.attributes
    axis = attributes.get(name, inspect.signature(base.op.body).parameters[name].default)
    for inputs in (_raised(base, sizes) for sizes in ((2,), (2, 3))):
        first = leaves(inputs)[0]
        yield from _taken(base, inputs, attributes)
        if not isinstance(axis, int):
            continue
        source = axis if axis < 0 else axis + first.ndim - base.arrays[0].ndim
        for place in range(-first.ndim, first.ndim):
            moved = mapped(partial(_placed, first.ndim, source, place), inputs)
            yield from _taken(base, moved, {**attributes, name: place})


def _placed(ndim: int, source: int, place: int, x: Array) -> Array:
    return np.moveaxis(x, source, place) if x.ndim == ndim else x


def _taken(base: Base, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Iterator[Sample]:
    note = f"of {'x'.join(map(str, leaves(inputs)[0].shape))}"
    return base.varied(inputs, note, attributes=attributes)


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


def _in_shape(base: Base, shape: Sequence[int]) -> tuple[Any, ...]:
    """Another shape of the first input, and of those that have its shape."""
    first, many = base.arrays[0], not isinstance(base.sample.inputs[0], np.ndarray)
    return reshaped(base.sample.inputs, lambda x: shape if many or x.shape == first.shape else None)


def _raised(base: Base, sizes: Sequence[int]) -> tuple[Any, ...]:
    """The inputs with further axes in front, as batches of them."""
    return reshaped(base.sample.inputs, lambda x: (*sizes, *x.shape) if x.ndim else None)
