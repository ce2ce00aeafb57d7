"""Elementwise ops over their whole domain, at sizes with vectors, tails and blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pullback import dtypes, shapes
from pullback.dtypes import DType
from pullback.spec import Accuracy, Op
from pullback_conformance.case import results
from pullback_conformance.derived import values
from pullback_conformance.derived.variation import accepted, shapes_of_results
from pullback_conformance.sample import Array, Sample, Suite

#: What the array API standard says of complex infinities, ops by name.
_AT_INFINITY = {
    *("exp", "expm1", "log", "log1p", "log10", "sqrt"),
    *("sin", "cos", "tan", "asin", "acos", "atan"),
    *("sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
}
_FLOATS = (dtypes.float32, dtypes.float64, dtypes.float16, dtypes.bfloat16)


def base(op: Op, suite: Suite) -> Sample | None:
    """The first sample whose inputs are arrays of floats, of one shape with axes."""
    for sample in suite.samples:
        arrays = [value for value in sample.inputs if isinstance(value, np.ndarray)]
        alike = len({value.shape for value in arrays}) == 1
        if len(arrays) == len(op.inputs) and alike and arrays[0].ndim and arrays[0].size > 1:
            return sample
    return None


def is_elementwise(op: Op, suite: Suite) -> bool:
    """Returns whether each element of the result depends on the elements at its place alone.

    The shape rules say which ops may be; the reference tells those that are.
    """
    sample = base(op, suite)
    if sample is None or not _keeps_shape(op, sample):
        return False
    generator = np.random.default_rng(9)
    size = next(value.size for value in sample.inputs if isinstance(value, np.ndarray))
    order = generator.permutation(size)
    flat = [value.ravel() for value in sample.inputs]

    def found(*inputs: Array) -> list[Any]:
        return results(suite.reference(*inputs, **sample.attributes))

    try:
        with np.errstate(all="ignore"):
            there = found(*flat)
            moved = found(*(value[order] for value in flat))
            # Both: the largest element alone decides of some results.
            first, second = (
                found(*(value[part] for value in flat))
                for part in (slice(size // 2), slice(size // 2, None))
            )
    except Exception:
        return False  # the attributes are for more axes
    return all(
        x.shape == y.shape == (size,)
        and np.array_equal(x[order], y)
        and np.array_equal(x, np.concatenate(halves))
        for x, y, *halves in zip(there, moved, first, second, strict=True)
    )


def _keeps_shape(op: Op, sample: Sample) -> bool:
    """Returns whether results have the shape of the inputs, by the op's rule."""
    if op.shape in (shapes.broadcast, shapes.first):
        return True
    if len(op.outputs) == 1:
        return False
    shape = sample.inputs[0].shape
    return shapes_of_results(op, sample.inputs, sample.attributes) == [shape] * len(op.outputs)


def samples(op: Op, suite: Suite, *, quick: bool) -> Iterator[Sample]:
    """Every value of every dtype that the op takes, alone and in pairs."""
    found = base(op, suite)
    if found is None or not is_elementwise(op, suite):
        return
    limits = {**suite.domain, **suite.integer_domain}
    kinds = [value.dtype for value in found.inputs]
    names = [parameter.name for parameter in op.inputs]
    if np.float64 in kinds:
        for dtype in _FLOATS:
            if found.dtypes is not None and dtype.name not in found.dtypes:
                continue
            floats = iter(_together(dtype, kinds.count(np.dtype(np.float64))))
            drawn = [
                values.inside(next(floats), suite.domain.get(name))
                if kind == np.float64
                else values.of(kind, seed=i)
                for i, (kind, name) in enumerate(zip(kinds, names, strict=True))
            ]
            size = values.LARGE if dtype == dtypes.float32 else values.MEDIUM
            if dtype.itemsize == 2:
                size = values.CONVERTED if quick else values.LARGE
            yield _sample(drawn, found.attributes, size, f"every {dtype}", dtype)
            if dtype == dtypes.float32 and not quick:
                note = f"every {dtype}, {values.HUGE} elements"
                huge = _sample(drawn, found.attributes, values.HUGE, note, dtype)
                yield replace(huge, checks=values.HUGE_CHECKS)
    for dtype in (*dtypes.INTEGER, dtypes.bool_) if found.dtypes is None else ():
        drawn = [
            values.inside(
                values.of(dtype if kind.kind in "fi" else kind, seed=i),
                suite.integer_domain.get(name, suite.domain.get(name)),
            )
            for i, (kind, name) in enumerate(zip(kinds, names, strict=True))
        ]
        if len(drawn) == 2 and drawn[0].dtype == drawn[1].dtype != np.bool_ and not limits:
            drawn[1] = _beside(*drawn)
        if accepted(op, suite, [value[:5] for value in drawn], found.attributes):
            yield _sample(drawn, found.attributes, values.MEDIUM, f"every {dtype}")
    alone = set(kinds) in ({np.dtype(np.float64)}, {np.dtype(np.complex128)})
    if alone and "complex" not in suite.without and len(op.outputs) == 1:
        yield from _complex(op, suite, found)


def _beside(first: Array, second: Array) -> Array:
    """The second input, with the first, or its neighbors, in every other place."""
    moved = np.where(np.arange(first.size) % 4 == 1, first, first ^ first.dtype.type(1))
    return np.where(np.arange(first.size) % 2 == 1, moved, second)


def _complex(op: Op, suite: Suite, found: Sample) -> Iterator[Sample]:
    """Complex numbers in all quadrants, on the axes, large and tiny; of exact ops no numbers too.

    On an axis the sign of the zero says on which side of a branch cut a number is.
    """
    drawn = [_plane(-8, 4, seed=i) for i in range(len(found.inputs))]
    if accepted(op, suite, [value[:5] for value in drawn], found.attributes):
        yield _sample(drawn, found.attributes, values.MEDIUM, "every quadrant")
        yield from _finite(op, suite, found, [_axes(i) for i in range(len(drawn))], "on the axes")
        # The inputs of a gradient are results, which are not of all sizes.
        for dtype in dtypes.COMPLEX if op.public else ():
            info = np.finfo(dtype)
            span = 0.9 * info.minexp, 0.9 * info.maxexp
            wide = [_plane(*span, seed=i) for i in range(len(drawn))]
            yield from _finite(op, suite, found, wide, "large and tiny", dtype)
        if op.name in _AT_INFINITY:
            yield _infinite(suite, found)
        if op.accuracy is Accuracy.EXACT:
            every = [np.roll(parts(), 5 * i) for i in range(len(drawn))]
            yield _plain(every, found.attributes, "parts that are no numbers")


def _plane(low: float, high: float, *, seed: int) -> Array:
    """Numbers of magnitudes between powers of two, in all directions."""
    rng = np.random.default_rng([13, seed])
    size = np.exp2(rng.uniform(low, high, values.PERIOD))
    return np.asarray(size * np.exp(1j * rng.uniform(-np.pi, np.pi, values.PERIOD)))


def _axes(turn: int) -> Array:
    """Numbers on the real and the imaginary axis, with zeros of both signs."""
    sizes = np.array([0.003, 0.5, 0.75, 1.25, 2.0, 40.0])
    real, zero = np.concatenate([sizes, -sizes]), np.array([0.0, -0.0])
    x = np.empty((2, 2, real.size), np.complex128)
    x[0].real, x[0].imag = real, zero[:, None]
    x[1].real, x[1].imag = zero[:, None], real
    return np.roll(x.ravel(), 5 * turn)


def _finite(
    op: Op,
    suite: Suite,
    found: Sample,
    drawn: Sequence[Array],
    note: str,
    dtype: DType = dtypes.complex128,
) -> Iterator[Sample]:
    """A sample of those numbers whose result is finite, and no smaller than normal numbers."""
    with np.errstate(all="ignore"):
        cast = [x.astype(dtype).astype(np.clongdouble) for x in drawn]
        size = np.abs(np.asarray(suite.reference(*cast, **found.attributes)))
    info = np.finfo(dtype)
    kept = np.isfinite(size) & ((size == 0) | ((size > 4 * info.tiny) & (size < info.max / 4)))
    if kept.any():
        inputs = [x[kept] for x in drawn]
        wide = None if dtype == dtypes.complex128 and note == "on the axes" else dtype
        sample = _plain(inputs, found.attributes, note, wide)
        yield replace(sample, either_zero=op.accuracy is not Accuracy.EXACT)


def _infinite(suite: Suite, found: Sample) -> Sample:
    """Infinite parts beside every other, where the result has no NaN, which may have a sign."""
    x = parts()
    with np.errstate(all="ignore"):
        y = np.asarray(suite.reference(x, **found.attributes))
    kept = (np.isinf(x.real) | np.isinf(x.imag)) & ~np.isnan(y)
    sample = _plain([x[kept]], found.attributes, "infinities")
    return replace(sample, either_zero=True)


def _plain(
    inputs: Sequence[Array], attributes: dict[str, Any], note: str, dtype: DType | None = None
) -> Sample:
    names = None if dtype is None else (dtype.name,)
    words = note if dtype is None else f"{note} {dtype}"
    return Sample(tuple(inputs), attributes, False, names, words, ("value", "body"))


def parts() -> Array:
    """Complex numbers with every kind of part beside every other."""
    special = values.special(dtypes.float32)
    x = np.empty((special.size, special.size), np.complex128)
    x.real, x.imag = special[:, None], special
    return x.ravel()


def _sample(
    drawn: Sequence[Array],
    attributes: dict[str, Any],
    size: int,
    note: str,
    dtype: DType | None = None,
) -> Sample:
    inputs = tuple(np.resize(value, size) for value in drawn)
    names = None if dtype is None else (dtype.name,)
    checks = ("value", "body", "deterministic")
    return Sample(inputs, attributes, False, names, note, checks, values.PERIOD)


def _together(dtype: DType, count: int) -> list[Array]:
    """Values for several inputs: of two, every pair of the special ones; else at random."""
    drawn = [values.floats(dtype, seed=i).copy() for i in range(count)]
    if count == 2:
        special = values.special(dtype)
        pairs = special.size**2
        drawn[0][:pairs], drawn[1][:pairs] = (
            np.repeat(special, special.size),
            np.tile(special, special.size),
        )
    return drawn
