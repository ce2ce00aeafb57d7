"""Random calls of any op: shapes, dtypes, values and attributes, each call from a seed of its own.

They are variations of the written samples, whose values, attributes and reference are used; the
rules of the op say which of them are calls.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pullback import dtypes, errors, shapes
from pullback.casting import cast
from pullback.dtypes import DType
from pullback.spec import Accuracy, Arity, Op, Tier
from pullback_conformance.case import COMPLEX, REAL, label, leaves, touched
from pullback_conformance.derived import attributes, axes, elementwise, values
from pullback_conformance.derived.variation import accepted, mapped, redrawn
from pullback_conformance.sample import Array, Sample, Suite

#: Sizes about the lengths of vectors, and small ones more often.
SIZES = (1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 31, 33, 64, 67)
#: The number of elements of an input up to which it is drawn.
MOST = 2**14
#: The number of draws until one is a call of the op.
TRIES = 40
#: The checks of a random call. Gradients are not among them: it may be at a kink.
CHECKS = ("value", "body", "rules", "unchanged", "deterministic", "lasting", "layouts")


def samples(op: Op, suite: Suite, calls: int, seed: int) -> Iterator[Sample]:
    """Random calls of an op: the first from `seed`, the others from the numbers after it."""
    bases = [
        sample
        for sample in suite.samples
        if sample.attributes.get("stable") is not False  # the order of equal elements is open
        and sum(x.size for x in leaves(sample.inputs)) < MOST
    ]
    each = elementwise.is_elementwise(op, suite)
    for number in range(seed, seed + calls):
        rng = np.random.default_rng([number, zlib.crc32(op.name.encode())])
        for _ in range(TRIES if bases else 0):
            drawn = _draw(op, suite, bases[rng.integers(len(bases))], rng, each=each)
            if drawn is not None:
                yield Sample(
                    drawn.inputs,
                    drawn.attributes,
                    gradient=False,
                    dtypes=drawn.dtypes,
                    note=f"{drawn.note}{label(replace(drawn, note=''))}",
                    checks=CHECKS,
                    seed=number,
                )
                break


def _draw(
    op: Op, suite: Suite, base: Sample, rng: np.random.Generator, *, each: bool
) -> Sample | None:
    """A variation of a sample; None if it is not a call of the op."""
    dtype = _dtype(base, rng)
    inputs, kind = _inputs(op, suite, base, rng, dtype, each=each)
    named = _attributes(op, suite, base, rng, inputs)
    if not accepted(op, suite, inputs, named) or not _takes(op, inputs, named, dtype):
        return None
    return Sample(inputs, named, dtypes=None if dtype is None else (dtype.name,), note=kind)


def _dtype(base: Sample, rng: np.random.Generator) -> DType | None:
    """One of the dtypes that a sample is tried in; None if it has dtypes of its own."""
    kinds = {leaf.dtype for leaf in leaves(base.inputs)}
    known = COMPLEX if dtypes.complex128 in kinds else REAL if dtypes.float64 in kinds else ()
    wanted = [one for one in known if base.dtypes is None or one.name in base.dtypes]
    return wanted[rng.integers(len(wanted))] if wanted else None


def _takes(op: Op, inputs: Sequence[Any], named: dict[str, Any], dtype: DType | None) -> bool:
    """Returns whether the op takes a dtype."""

    def converted(x: Array) -> Array:
        if dtype is not None and x.dtype == np.float64:
            return cast(x, dtypes.real_of(dtype))
        return x.astype(dtype) if dtype is not None and x.dtype == np.complex128 else x

    try:
        with np.errstate(over="ignore"):
            touched(op, mapped(converted, inputs), named)
    except errors.PullbackError:
        return False
    return True


def _inputs(
    op: Op, suite: Suite, base: Sample, rng: np.random.Generator, dtype: DType | None, *, each: bool
) -> tuple[tuple[Any, ...], str]:
    """The inputs in other shapes, with other values; an optional one is left out at times.

    With the kind of their values: "every float32, " for those of the whole domain, or "".
    """
    kind = ""
    rigid = op.accuracy is Accuracy.BACKWARD_STABLE or op.tier == Tier.LINALG
    inputs = base.inputs
    if not rigid and "sizes" not in suite.without:
        alone = all(isinstance(value, np.ndarray) for value in inputs)
        if alone and op.shape is shapes.broadcast:
            inputs = _broadcast(inputs, rng)
        else:
            inputs = _resized(inputs, rng)
        if each and dtype in REAL and "values" not in suite.without and rng.random() < 0.5:
            kind = "" if dtype is None else f"every {dtype}, "
            names = [parameter.name for parameter in op.inputs]
            inputs = tuple(
                _anywhere(value, dtype, suite.domain.get(name), rng)
                for value, name in zip(inputs, names, strict=False)
            )
    inputs = tuple(
        None
        if i < len(op.inputs) and op.inputs[i].arity is Arity.OPTIONAL and rng.random() < 0.2
        else value
        for i, value in enumerate(inputs)
    )
    return inputs, kind


def _broadcast(inputs: Sequence[Array], rng: np.random.Generator) -> tuple[Array, ...]:
    """Shapes that broadcast: of one shape, some without its first axes or with sizes of 1."""
    shape = [int(size) for size in rng.choice(SIZES, rng.integers(0, 4))]
    drawn = []
    for value in inputs:
        own = [1 if rng.random() < 0.15 else size for size in shape]
        own = own[rng.integers(len(own) + 1) :] if rng.random() < 0.2 else own
        drawn.append(redrawn(value, own, seed=int(rng.integers(2**31))))
    return tuple(drawn)


def _resized(inputs: Sequence[Any], rng: np.random.Generator) -> tuple[Any, ...]:
    """Axes of one size in another, where the inputs stay small."""
    arrays = leaves(inputs)
    # Integers beside floats are positions: they must not be beyond the end of an axis.
    positions = len({x.dtype.kind for x in arrays}) > 1
    sizes: dict[int, int] = {}
    for length in sorted({size for x in arrays for size in x.shape}):
        size = int(rng.choice(SIZES))
        sizes[length] = length if positions and size < length else size

    def resize(x: Array) -> Array:
        shape = [sizes[size] for size in x.shape]
        return x if math.prod(shape) > MOST else redrawn(x, shape, seed=int(rng.integers(2**31)))

    return mapped(resize, inputs)


def _anywhere(
    value: Any, dtype: DType | None, limits: tuple[float, float] | None, rng: np.random.Generator
) -> Any:
    """Values from the whole domain of an elementwise op."""
    if dtype is None or not isinstance(value, np.ndarray) or value.dtype != np.float64:
        return value
    every = values.inside(values.floats(dtype, seed=int(rng.integers(2**31))), limits)
    return np.asarray(rng.choice(every, value.shape))


def _attributes(
    op: Op, suite: Suite, base: Sample, rng: np.random.Generator, inputs: Sequence[Any]
) -> dict[str, Any]:
    """The attributes of a sample, some with values of other samples, or another axis."""
    named = dict(base.attributes)
    if "pairs" not in suite.without:
        for name, known in attributes.values_of(op, suite).items():
            if rng.random() < 0.4:
                named[name] = known[rng.integers(len(known))]
    arrays = leaves(inputs)
    if arrays and "axes" not in suite.without and op.tier != Tier.LINALG:
        for attribute in axes.named(op):
            known = axes.choices_of(attribute, arrays[0].ndim)
            value = known[rng.integers(len(known))]
            if rng.random() < 0.5 and value is not ...:
                named[attribute.name] = value
    return named
