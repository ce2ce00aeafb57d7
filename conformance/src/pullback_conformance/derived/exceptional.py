"""Values that few programs have and every op meets: in reductions, sorting, steps, conversions."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np

from pullback import dtypes
from pullback.dtypes import DType
from pullback.spec import Accuracy, Op
from pullback_conformance.derived import elementwise, values
from pullback_conformance.derived.variation import (
    Base,
    accepted,
    bases,
    gives_floats,
    is_rigid,
    mapped,
)
from pullback_conformance.sample import Array, Sample, Suite

#: Ops whose results are no larger than numbers of x, and within the range whatever these are.
_NO_SUMS = ("median", "quantile", "logsumexp", "softmax", "log_softmax", "max", "min", "sort")
_TINY = {"float32": 1e-45, "float64": 5e-324, "float16": 6e-8, "bfloat16": 9.2e-41}
#: Counters of steps, up to those of years of training.
STEPS = (1, 2, 3, 10, 1000, 12345, 10**6, 2**24 + 1)


def samples(op: Op, suite: Suite, *, quick: bool) -> Iterator[Sample]:
    """NaN, infinities, zeros and subnormals along axes, large integers, large steps, dtypes."""
    yield from _steps(op, suite)
    yield from _conversions(op, suite)
    yield from _of_dtypes(op, suite)
    if is_rigid(op):
        return
    whole: set[tuple[Any, ...]] = set()
    for base in bases(op, suite):
        if base.sample.dtypes is not None:
            continue
        if len(base.arrays) == len(op.inputs) == 1:
            (x,) = base.arrays
            if x.dtype == np.float64 and x.ndim:
                yield from _along(base)
        if op.accuracy is Accuracy.EXACT:
            yield from _copied(base)
        yield from _integers(base, whole)


def _along(base: Base) -> Iterator[Sample]:
    """Rows, columns and blocks that have a NaN, infinities of one or both signs, or zeros."""
    inf, nan = np.inf, np.nan
    rows = np.array(
        [
            [1.0, -2.0, 3.0, 0.5, -1.5], [1.0, nan, 3.0, -0.5, 2.5], [nan, 1.0, inf, 2.0, -inf],
            [inf, 1.0, -2.0, 3.0, 0.5], [1.0, -2.0, 3.0, -inf, 0.5], [inf, -inf, 1.0, 2.0, 3.0],
            [0.0, -0.0, 0.0, -0.0, 0.0], [-0.0, 0.0, -0.0, 0.0, -0.0], [nan] * 5, [inf] * 5,
            [-inf] * 5, [2.0, 2.0, 1.0, 1.0, 2.0], [-0.0] * 5, [0.0] * 5,
            # As 0 / 0 is on some processors: a NaN with a sign.
            [1.0, -nan, -inf, 3.0, -2.0],
        ]
    )  # fmt: skip
    shape = base.arrays[0].shape
    names = [attribute.name for attribute in base.op.attributes]
    for name, tiny in _TINY.items():
        filled = rows
        if "subnormal" not in base.suite.without:
            filled = np.vstack([rows, [tiny, -tiny, 3 * tiny, 0.0, -0.0]])
        numbers = filled[~np.isnan(filled).any(1)]
        for x in (filled, np.ascontiguousarray(filled.T), numbers):
            if len(shape) > 2:
                x = np.broadcast_to(x, (*shape[:-2], *x.shape)).copy()
            elif len(shape) == 1:
                x = x.ravel()
            note = f"no numbers of {name} in {x.shape}"
            yield from base.varied((x,), note, dtypes=(name,))
        # Kernels have a loop of their own along the first of several axes.
        both = (filled, filled.T, *([_large(name)] if base.op.name in _NO_SUMS else ()))
        for axis, x in itertools.product((0, 1) if "axis" in names else (), both):
            named = {**base.sample.attributes, "axis": axis}
            note = f"no numbers of {name}"
            yield from base.varied((x.copy(),), note, attributes=named, dtypes=(name,))
    forms = [attribute.form for attribute in base.op.attributes if attribute.name == "axis"]
    for axes in ((0, 1), (1, 2)) if forms == ["Axes"] else ():
        x = np.moveaxis(_each_place(), (0, 1), axes)
        named = {**base.sample.attributes, "axis": axes}
        yield from base.varied((x.copy(),), "a NaN at each place", attributes=named)


def _large(name: str) -> Array:
    """Numbers of which no two can be added, but those of two signs."""
    largest = float(ml_dtypes.finfo(name).max)  # type: ignore[no-untyped-call]
    numbers = np.array([[1.0, 0.75, 0.875, 0.9375], [-1.0, -0.75, -0.5, -1.0]])
    return largest * np.concatenate([numbers, numbers[:, ::-1] / 2])


def _each_place() -> Array:
    """Blocks of the first two axes, each with a NaN at another place, and one without."""
    x = np.linspace(-2.0, 2.0, 12).reshape(3, 4, 1).repeat(13, 2)
    x.reshape(12, 13)[np.arange(12), np.arange(12)] = np.nan
    return x


def _copied(base: Base) -> Iterator[Sample]:
    """Every kind of float in ops that copy or compare them, in the shapes of the sample."""
    count = itertools.count()

    def fill(dtype: DType, x: Array) -> Array:
        if x.dtype != np.float64:
            return x
        drawn = np.roll(values.special(dtype), 4 * next(count))
        return np.resize(drawn[~np.isnan(drawn)], x.shape)

    for dtype in (dtypes.float32, dtypes.float64, dtypes.float16, dtypes.bfloat16):
        inputs = mapped(partial(fill, dtype), base.sample.inputs)
        note = f"zeros and infinities of {dtype}"
        found = list(base.varied(inputs, note, dtypes=(dtype.name,)))
        if base.suite.domain or not found:
            return
        yield from found


def _integers(base: Base, seen: set[tuple[Any, ...]]) -> Iterator[Sample]:
    """Integers up to the limits of each dtype, which floats do not tell apart."""
    op, sample, first = base.op, base.sample, base.arrays[0]
    if first.dtype.kind not in "fi" or not isinstance(sample.inputs[0], np.ndarray):
        return
    if first.dtype.kind == "f" and not op.public:
        return  # its inputs are results of another op
    for dtype in dtypes.INTEGER:
        key = (dtype, first.ndim)
        if key in seen:
            continue
        drawn = values.neighbors(dtype)
        inputs = tuple(
            np.resize(
                values.inside(np.roll(drawn, i), base.suite.integer_domain.get(op.inputs[i].name)),
                value.shape,
            )
            if isinstance(value, np.ndarray) and value.dtype == first.dtype
            else value
            for i, value in enumerate(sample.inputs)
        )
        if gives_floats(op, inputs, sample.attributes):
            continue  # of which integers are no more than samples
        for found in base.varied(inputs, f"large {dtype}"):
            seen.add(key)
            yield found


def _steps(op: Op, suite: Suite) -> Iterator[Sample]:
    names = [parameter.name for parameter in op.inputs]
    if "step" not in names:
        return
    place = names.index("step")
    for sample in (base.sample for base in bases(op, suite)[:2]):
        for step in STEPS:
            inputs = list(sample.inputs)
            inputs[place] = np.asarray(step, np.asarray(inputs[place]).dtype)
            note, checks = f"step {step}", ("value", "body")
            yield Sample(tuple(inputs), sample.attributes, False, sample.dtypes, note, checks)


def _conversions(op: Op, suite: Suite) -> Iterator[Sample]:
    """Every dtype to every other, at values between two of the result's."""
    if op.name != "astype":
        return
    for source in dtypes.ALL:
        for target in dtypes.ALL:
            x = elementwise.parts() if source in dtypes.COMPLEX else _between(source, target)
            if accepted(op, suite, (x,), {"dtype": target.name}):
                floating = source in dtypes.FLOATING
                wide = np.complex128 if source in dtypes.COMPLEX else np.float64
                inputs = (x.astype(wide) if floating else x,)
                names = (source.name,) if floating else None
                note, checks = f"{source} to {target}", ("value", "body")
                yield Sample(inputs, {"dtype": target.name}, False, names, note, checks)


def _of_dtypes(op: Op, suite: Suite) -> Iterator[Sample]:
    """Results in the dtypes that `dtype` may say, from floats and from integers."""
    if op.name == "astype" or all(one.name != "dtype" for one in op.attributes):
        return
    for base in bases(op, suite)[:1]:
        whole = mapped(lambda x: np.trunc(4 * x.real).astype(np.int64), base.sample.inputs)
        for inputs, words in ((base.sample.inputs, "floats"), (whole, "integers")):
            integers = (dtypes.int64, dtypes.int8) if words == "integers" else ()
            for target in (*dtypes.REAL_FLOATING, *integers):
                named = {**base.sample.attributes, "dtype": target.name}
                checks = ("value", "body")
                yield from base.varied(inputs, f"of {words}", attributes=named, checks=checks)


def _between(source: DType, target: DType) -> Array:
    """Values of `source` that `target` has to round, and ties."""
    x = values.of(source)
    if source in dtypes.INTEGER or source == dtypes.bool_:
        return np.concatenate([x, values.ties(source)]) if source in dtypes.INTEGER else x
    if target in dtypes.INTEGER:
        info = np.iinfo(target)
        inside = x[(x > float(info.min)) & (x < float(info.max))]
        ties = np.arange(0, 20) + 0.5
        ties = ties if info.min == 0 else np.concatenate([ties, -ties])
        return np.concatenate([inside[inside >= 0] if info.min == 0 else inside, ties])
    if target not in dtypes.REAL_FLOATING:
        return x
    exponents = np.exp2(np.arange(-8.0, 8.0))
    unit = float(ml_dtypes.finfo(target).eps)  # type: ignore[no-untyped-call]
    close = [0.5 + 2.0**-8, 0.5 - 2.0**-8, 0.5 + 2.0**-30, 1.5 - 2.0**-30]
    steps = np.array([0.5, 1.5, 2.5, *close, 0.25, 0.75]) * unit
    near = (exponents[:, None] * (1 + steps)).ravel()
    with np.errstate(all="ignore"):
        # A NaN of which all bits are set: half a unit more is no NaN.
        nan = np.array([2**63 - 1, 2**64 - 1], np.uint64).view(np.float64)
        return np.concatenate([x, near, -near, nan]).astype(source).astype(np.float64)
