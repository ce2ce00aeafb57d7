"""Random calls of any op, in which conditions meet: dtypes, sizes, values, attributes, layouts.

The other rules change one thing of a sample at a time, or two that belong together. A mistake that
needs two conditions at once, such as complex numbers and an axis, hides from them. Here all is
drawn at once, each call from a seed of its own. Calls are variations of the written samples, whose
values, attributes and reference are used; the rules of the op say which of them are calls.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np

from pullback import dtypes, errors, shapes
from pullback.casting import cast
from pullback.dtypes import DType
from pullback.spec import Accuracy, Arity, Op, Tier
from pullback_conformance.case import COMPLEX, REAL, label, leaves, touched
from pullback_conformance.derived import attributes, axes, elementwise, values
from pullback_conformance.derived.variation import (
    accepted,
    changed_at,
    gives_floats,
    is_rigid,
    mapped,
    redrawn,
)
from pullback_conformance.sample import Array, Sample, Suite

#: Sizes about the lengths of vectors, and small ones more often.
SIZES = (
    *(0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 5, 5, 6, 7, 8, 9, 12, 13, 15, 16, 17, 24, 31, 32, 33),
    *(63, 64, 65, 67, 100, 127, 129, 257),
)
#: The number of elements of an input up to which it is drawn; of what has a slow reference.
MOST, FEW = 2**12, 2**6
#: The number of draws until one is a call of the op.
TRIES = 40
#: The calls of an op with a kernel in a quick run, and in a full one.
QUICK, FULL = 24, 480
#: Where the reference takes long, one for so many.
SLOWER = 6
#: Of a call as it is, or with each input in a layout of its own.
RESULT = ("value", "each_laid_out")
#: Those beside, of which each call has one now and then. Gradients are not among them: it may be
#: at a kink. Nor are residuals, whose bounds are for values that do not cancel.
BESIDE = ("rules", "unchanged", "deterministic", "lasting")
#: Those of kernels that change what they get, or keep it.
ALWAYS = ("in_place", "kept")


def samples(op: Op, suite: Suite, *, quick: bool) -> Iterator[Sample]:
    """The random calls of a run of all samples: the same ones in each."""
    count = QUICK if quick else FULL
    yield from calls(op, suite, count // SLOWER if _is_slow(suite) else count, 0, beside=0.1)


def calls(op: Op, suite: Suite, count: int, seed: int, *, beside: float = 0.5) -> Iterator[Sample]:
    """Random calls of an op: the first from `seed`, the others from the numbers after it.

    Args:
        op: the op.
        suite: its samples.
        count: the number of calls.
        seed: that of the first.
        beside: how often a call has a check beside that of its result.
    """
    if "random" in suite.without:
        return
    bases = [
        sample
        for sample in suite.samples
        if sample.attributes.get("stable") is not False  # the order of equal elements is open
        and sum(x.size for x in leaves(sample.inputs)) < MOST
        and not (
            "complex" in suite.without and any(x.dtype.kind == "c" for x in leaves(sample.inputs))
        )
    ]
    each = elementwise.is_elementwise(op, suite)
    for number in range(seed, seed + count):
        rng = np.random.default_rng([number, zlib.crc32(op.name.encode())])
        for _ in range(TRIES if bases else 0):
            drawn = _draw(op, suite, bases[rng.integers(len(bases))], rng, each=each)
            if drawn is None:
                continue
            checked = RESULT[rng.integers(len(RESULT))]
            # A call without an array that has axes has no layouts.
            has_axes = any(x.ndim for x in leaves(drawn.inputs))
            checks = [checked if has_axes else "value", *ALWAYS]
            if rng.random() < beside:
                checks.append(BESIDE[rng.integers(len(BESIDE))])
            yield replace(
                drawn,
                gradient=False,
                note=f"{drawn.note}{label(replace(drawn, note=''))}",
                checks=tuple(checks),
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
    if dtype not in (dtypes.float64, dtypes.complex128):
        # A Python number beside a tensor is rounded to its dtype; short ones compute in float32.
        named = {k: float(np.float32(v)) if type(v) is float else v for k, v in named.items()}
    if not kind and base.dtypes is None:
        inputs, whole = _whole(op, suite, inputs, named, rng)
        dtype = None if whole else dtype
    if named.get("stable") is False:
        return None  # values that the dtype does not tell apart have no order
    if not accepted(op, suite, inputs, named) or not _takes(op, inputs, named, dtype):
        return None
    names = None if dtype is None else (dtype.name,)
    sample = Sample(inputs, named, dtypes=names, note=kind)
    return sample if kind else _peculiar(op, suite, sample, rng)


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
    except (errors.PullbackError, TypeError, ValueError):
        return False
    return True


def _is_slow(suite: Suite) -> bool:
    return suite.slow or "large" in suite.without


def _inputs(
    op: Op, suite: Suite, base: Sample, rng: np.random.Generator, dtype: DType | None, *, each: bool
) -> tuple[tuple[Any, ...], str]:
    """The inputs in other shapes, with other values; an optional one is left out at times.

    With the kind of their values: "every float32, " for those of the whole domain, or "".
    """
    kind = ""
    inputs = base.inputs
    if not is_rigid(op) and "sizes" not in suite.without:
        alone = all(isinstance(value, np.ndarray) for value in inputs)
        if alone and op.shape is shapes.broadcast:
            inputs = _broadcast(inputs, rng, FEW if _is_slow(suite) else MOST)
        else:
            inputs = _resized(inputs, rng, FEW if _is_slow(suite) else MOST)
        if each and dtype in REAL and "values" not in suite.without and rng.random() < 0.5:
            kind = "" if dtype is None else f"every {dtype}, "
            names = [parameter.name for parameter in op.inputs]
            # Between two inputs what is computed on the way may leave the range.
            middle = len(inputs) > 1 and op.accuracy is not Accuracy.EXACT
            # A gradient is of a result, which is not of all sizes.
            kept = 0 if op.public else 1
            inputs = tuple(
                value
                if i < kept
                else _anywhere(value, dtype, suite.domain.get(name), rng, middle=middle)
                for i, (value, name) in enumerate(zip(inputs, names, strict=False))
            )
    inputs = tuple(
        None
        if i < len(op.inputs) and op.inputs[i].arity is Arity.OPTIONAL and rng.random() < 0.2
        else value
        for i, value in enumerate(inputs)
    )
    return inputs, kind


def _broadcast(inputs: Sequence[Array], rng: np.random.Generator, most: int) -> tuple[Array, ...]:
    """Shapes that broadcast: of one shape, some without its first axes or with sizes of 1."""
    shape = [int(size) for size in rng.choice(SIZES, rng.integers(0, 5))]
    while math.prod(shape) > most:
        shape.remove(max(shape))
    drawn = []
    for value in inputs:
        own = [1 if rng.random() < 0.15 else size for size in shape]
        own = own[rng.integers(len(own) + 1) :] if rng.random() < 0.2 else own
        drawn.append(_sorted_as(value, redrawn(value, own, seed=int(rng.integers(2**31)))))
    return tuple(drawn)


def _resized(inputs: Sequence[Any], rng: np.random.Generator, most: int) -> tuple[Any, ...]:
    """Axes of one size in another, where the inputs stay small."""
    arrays = leaves(inputs)
    # Integers beside floats are positions: they must not be beyond the end of an axis.
    positions = len({x.dtype.kind for x in arrays}) > 1
    known = SIZES if most == MOST else [size for size in SIZES if size < 10]
    lengths = sorted({size for x in arrays for size in x.shape})
    sizes = {
        length: length if positions and size < length else size
        for length, size in zip(lengths, rng.choice(known, len(lengths)).tolist(), strict=True)
    }
    while any(math.prod(sizes[size] for size in x.shape) > most for x in arrays):
        longest = max(lengths, key=sizes.__getitem__)
        if sizes[longest] <= longest:
            return tuple(inputs)
        sizes[longest] = longest

    def resize(x: Array) -> Array:
        shape = [sizes[size] for size in x.shape]
        return _sorted_as(x, redrawn(x, shape, seed=int(rng.integers(2**31))))

    return mapped(resize, inputs)


def _anywhere(
    value: Any,
    dtype: DType | None,
    limits: tuple[float, float] | None,
    rng: np.random.Generator,
    *,
    middle: bool,
) -> Any:
    """Values from the whole domain of an elementwise op; from the `middle` of it, if asked for."""
    if dtype is None or not isinstance(value, np.ndarray) or value.dtype != np.float64:
        return value
    every = values.floats(dtype, seed=int(rng.integers(2**31)))
    if middle:
        largest = float(ml_dtypes.finfo(dtype).max)  # type: ignore[no-untyped-call]
        every = every[np.abs(every) < largest**0.75]
    every = values.inside(every, limits)
    return np.asarray(rng.choice(every, value.shape))


def _whole(
    op: Op,
    suite: Suite,
    inputs: tuple[Any, ...],
    named: dict[str, Any],
    rng: np.random.Generator,
) -> tuple[tuple[Any, ...], bool]:
    """The floats as integers at times, and integers in another dtype that holds them.

    And whether there are no floats left.
    """
    kinds = {x.dtype for x in leaves(inputs)}
    if kinds <= {np.dtype(np.float64), np.dtype(np.bool_)} and rng.random() < 0.2:
        limits = {**suite.domain, **suite.integer_domain}
        if op.public and not is_rigid(op) and not limits:
            whole = _rounded(op, inputs, rng)
            if _takes(op, whole, named, None) and (
                # Of several inputs, integers are no more than samples where results are floats.
                len(leaves(inputs)) == 1 or not gives_floats(op, whole, named)
            ):
                return whole, True
    elif np.dtype(np.int32) in kinds and rng.random() < 0.5:
        info = np.iinfo(dtypes.INTEGER[rng.integers(len(dtypes.INTEGER))])
        numbers = [x for x in leaves(inputs) if x.dtype == np.int32]
        if all(np.all((x >= info.min) & (x <= info.max)) for x in numbers):
            return mapped(
                lambda x: x.astype(info.dtype) if x.dtype == np.int32 else x, inputs
            ), False
    return inputs, False


def _rounded(op: Op, inputs: tuple[Any, ...], rng: np.random.Generator) -> tuple[Any, ...]:
    """The floats as integers of a dtype, small ones or those next to its limits, or booleans."""
    dtype = (*dtypes.INTEGER, dtypes.bool_)[rng.integers(len(dtypes.INTEGER) + 1)]
    low = 0 if dtype in dtypes.UNSIGNED or dtype == dtypes.bool_ else -100
    near = values.neighbors(dtype) if dtype != dtypes.bool_ and rng.random() < 0.5 else None

    def convert(x: Array) -> Any:
        if x.dtype != np.float64:
            return x
        if near is not None and op.accuracy is Accuracy.EXACT:
            return rng.choice(near, x.shape)
        return np.clip(np.nan_to_num(np.trunc(8 * x)), low, 100).astype(dtype)

    return mapped(convert, inputs)


def _peculiar(op: Op, suite: Suite, sample: Sample, rng: np.random.Generator) -> Sample:
    """The sample with equal values in one of its inputs, zeros, or no numbers, where it may be."""
    places = [
        i
        for i, x in enumerate(sample.inputs)
        if isinstance(x, np.ndarray) and x.dtype.kind == "f" and x.ndim and x.size > 1
    ]
    if not places or rng.random() < 0.5 or is_rigid(op):
        return sample
    place = places[rng.integers(len(places))]
    kinds = ["ties", "zeros", "repeated", "rows repeated"]
    if op.public and op.inputs[place].name not in suite.domain:
        kinds.append("negative")
    if "exceptional" not in suite.without and (
        op.accuracy is Accuracy.EXACT or len(sample.inputs) == 1
    ):
        kinds += ["no numbers", "no numbers"]
    kind = kinds[rng.integers(len(kinds))]
    inputs = changed_at((place,), lambda x: _sorted_as(x, _CHANGES[kind](x, rng)), sample.inputs)
    if not accepted(op, suite, inputs, sample.attributes):
        return sample
    if kind != "no numbers":
        with np.errstate(all="ignore"):
            found = suite.reference(*inputs, **sample.attributes)
        if not all(np.all(np.isfinite(x)) for x in leaves([found]) if x.dtype.kind in "fc"):
            return sample
    return replace(sample, inputs=inputs, note=f"{kind} as {op.inputs[place].name}, ")


def _some(x: Array, rng: np.random.Generator, numbers: Sequence[float]) -> Any:
    """The array with other numbers in some places."""
    places = rng.random(x.shape) < rng.choice([2 / x.size, 0.2])
    return np.where(places, rng.choice(numbers, x.shape), x)


def _sorted_as(x: Array, changed: Array) -> Array:
    """Sorted along the last axis, if x is: an op may need that."""
    is_sorted = x.ndim > 0 and x.dtype.kind != "c" and np.all(x[..., 1:] >= x[..., :-1])
    return np.sort(changed) if is_sorted and changed.ndim else changed


_CHANGES: dict[str, Any] = {
    "ties": lambda x, rng: rng.choice(rng.choice(x.ravel(), 3), x.shape),
    "zeros": lambda x, rng: _some(x, rng, [0.0]),
    "negative": lambda x, rng: -np.abs(x),
    "repeated": lambda x, rng: np.broadcast_to(x[..., :1], x.shape).copy(),
    "rows repeated": lambda x, rng: np.broadcast_to(x[:1], x.shape).copy(),
    "no numbers": lambda x, rng: _some(x, rng, rng.choice([np.nan, np.inf, -np.inf, -0.0], 2)),
}


def _attributes(
    op: Op, suite: Suite, base: Sample, rng: np.random.Generator, inputs: Sequence[Any]
) -> dict[str, Any]:
    """The attributes of a sample, some with values of other samples or near them, or of an axis."""
    named = dict(base.attributes)
    if "pairs" not in suite.without:
        for name, known in attributes.values_of(op, suite).items():
            if rng.random() < 0.4:
                named[name] = known[rng.integers(len(known))]
                if isinstance(named[name], float) and rng.random() < 0.5:
                    # Most of the numbers that people write in samples are exact in float32.
                    near = named[name] * float(rng.uniform(0.8, 1.0))
                    named[name] = 0.0 if op.public and rng.random() < 0.3 else near
    arrays = leaves(inputs)
    if arrays and "axes" not in suite.without and op.tier != Tier.LINALG:
        for attribute in axes.named(op):
            known = axes.choices_of(attribute, arrays[0].ndim)
            value = known[rng.integers(len(known))]
            if rng.random() < 0.5 and value is not ...:
                named[attribute.name] = value
    return named
