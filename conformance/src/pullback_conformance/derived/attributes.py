"""Attributes in pairs: every two values that the samples of an op use alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from pullback.spec import Accuracy, Arity, Op
from pullback_conformance.case import leaves
from pullback_conformance.derived.variation import accepted, changed_at
from pullback_conformance.sample import Sample, Suite

#: The pairs of values of an op that a quick run takes; a full run takes MOST.
FEW, MOST = 40, 400


def samples(op: Op, suite: Suite, *, quick: bool) -> Iterator[Sample]:
    """The calls with two attributes, or an absent input, that the op's rules take."""
    values = values_of(op, suite)
    absent = [i for i, parameter in enumerate(op.inputs) if parameter.arity is Arity.OPTIONAL]
    if len(values) + len(absent) < 2:
        return
    candidates: list[Sample] = []
    for sample in _different(suite):
        for name, choices in values.items():
            for value in choices:
                attributes = {**sample.attributes, name: value}
                candidates.append(Sample(sample.inputs, attributes, dtypes=sample.dtypes))
                for i in absent:
                    inputs = changed_at((i,), lambda _: None, sample.inputs)
                    candidates.append(Sample(inputs, attributes, dtypes=sample.dtypes))
    most = FEW if quick else MOST
    if op.accuracy is Accuracy.BACKWARD_STABLE or "sizes" in suite.without:
        most = most // 4  # the sensitivity to inputs has to be measured, or the reference is slow
    unique = list({repr((_shapes(s), s.attributes)): s for s in candidates}.values())
    # Spread over all of them, the same at every run.
    step = max(1, len(unique) // (3 * most))
    taken = 0
    order = np.random.default_rng(12).permutation(len(unique))[::step]
    for position in order:
        sample = unique[position]
        if taken < most and accepted(op, suite, sample.inputs, sample.attributes):
            taken += 1
            words = [f"{name}={value}" for name, value in sample.attributes.items()]
            words += [
                f"without {op.inputs[i].name}"
                for i in absent
                if i < len(sample.inputs) and sample.inputs[i] is None
            ]
            note = " ".join(words) + " of " + _shapes(sample)
            checks = ("value", "body")
            yield Sample(sample.inputs, sample.attributes, False, sample.dtypes, note, checks)


def _different(suite: Suite) -> list[Sample]:
    """The samples with floats and axes, one for each set of attributes."""
    found: dict[str, Sample] = {}
    for sample in suite.samples:
        arrays = leaves(sample.inputs)
        sizes = [x.size for x in arrays]
        if arrays and arrays[0].ndim and all(sizes) and sum(sizes) < 2000 and sample.gradient:
            # Optional inputs, and what kind they are of, count as attributes do.
            given = [getattr(value, "dtype", None) for value in sample.inputs[1:]]
            found.setdefault(repr((sample.attributes, arrays[0].ndim, given)), sample)
    return list(found.values())


def _shapes(sample: Sample) -> str:
    return " ".join("x".join(map(str, x.shape)) or "0-d" for x in leaves(sample.inputs))


def values_of(op: Op, suite: Suite) -> dict[str, list[Any]]:
    """The values of each attribute in the samples; both of a boolean."""
    found: dict[str, dict[str, Any]] = {}
    for attribute in op.attributes:
        if attribute.form == "DeviceLike":
            continue
        values = [True, False] if attribute.form == "bool" else []
        values += [
            sample.attributes[attribute.name]
            for sample in suite.samples
            if attribute.name in sample.attributes
        ]
        found[attribute.name] = {repr(value): value for value in values}
    return {name: list(values.values()) for name, values in found.items() if values}
