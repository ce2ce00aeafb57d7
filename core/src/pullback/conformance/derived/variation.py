"""Variations of written samples: which are calls of the op, and values for other shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from pullback import errors
from pullback._dispatch.arguments import canonicalize
from pullback.conformance.case import leaves, results, split, touched
from pullback.conformance.sample import Array, Sample, Suite
from pullback.spec import Op
from pullback.tensor import wrap

#: Samples of one op that are varied, of those that are alike only the first.
BASES = 3


def bases(suite: Suite) -> list[Sample]:
    """The samples that are varied: with floats or integers and axes, of different kinds."""
    kinds: dict[object, Sample] = {}
    for sample in suite.samples:
        arrays = leaves(sample.inputs)
        if sample.attributes.get("stable") is False:
            continue  # the order of equal elements is open
        if not arrays or not sample.gradient or any(x.size == 0 for x in arrays):
            continue
        if all(x.ndim == 0 for x in arrays) or sum(x.size for x in arrays) > 2000:
            continue
        kind = (
            tuple(value is None for value in sample.inputs),
            tuple(x.ndim for x in arrays),
            arrays[0].dtype.kind,
        )
        kinds.setdefault(kind, sample)
    floating = sorted(kinds.values(), key=lambda sample: leaves(sample.inputs)[0].dtype.kind != "f")
    return floating[:BASES]


def accepted(op: Op, suite: Suite, inputs: Sequence[Any], attributes: dict[str, Any]) -> bool:
    """Returns whether the op's rules take a call, and its reference has a result of that shape."""
    if attributes.get("stable") is False and any(
        len(np.unique(x)) < x.size for x in leaves(inputs)
    ):
        return False  # the order of equal elements is open
    try:
        values, named = split(op, inputs, attributes)
        canonical = canonicalize(op, [_held(value) for value in values], named)
        shapes = op.shape(*map(_shape, values), **canonical)
        touched(op, tuple(inputs), attributes)
    except (errors.PullbackError, TypeError, ValueError, IndexError, AttributeError):
        return False
    expected = [*shapes] if isinstance(shapes, list) else [shapes]
    try:
        with np.errstate(all="ignore"):
            found = results(suite.reference(*inputs, **attributes))
    except Exception:
        return False  # not defined there
    return len(found) == len(expected) and all(
        shape is None or array.shape == tuple(shape)
        for array, shape in zip(found, expected, strict=True)
    )


def _held(value: Any) -> Any:
    """An input as the rules look at it: they read shapes of tensors, on no device."""
    nowhere: Any = None
    if isinstance(value, (list, tuple)):
        return [wrap(np.asarray(item), nowhere) for item in value]
    return None if value is None else wrap(np.asarray(value), nowhere)


def _shape(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [np.shape(item) for item in value]
    return None if value is None else np.shape(value)


def redrawn(x: Array, shape: Sequence[int], *, seed: int = 0) -> Array:
    """Values like those of `x` in another shape; floats a little nearer to 0, so all differ."""
    rng = np.random.default_rng([seed, *shape, 11])
    drawn: Array = rng.choice(x.ravel(), tuple(shape)) if x.size else np.zeros(shape, x.dtype)
    if drawn.dtype.kind in "fc":
        drawn = drawn * rng.uniform(0.9, 1.0, tuple(shape))
    return np.asarray(drawn, x.dtype)


def mapped(function: Callable[[Array], Array], inputs: Sequence[Any]) -> tuple[Any, ...]:
    """The inputs with each array replaced, those in sequences too."""

    def one(value: Any) -> Any:
        return function(value) if isinstance(value, np.ndarray) else value

    return tuple(
        [one(item) for item in value] if isinstance(value, (list, tuple)) else one(value)
        for value in inputs
    )


def varied(
    op: Op,
    suite: Suite,
    sample: Sample,
    inputs: tuple[Any, ...],
    note: str,
    *,
    attributes: dict[str, Any] | None = None,
    checks: tuple[str, ...] = ("value",),
    dtypes: tuple[str, ...] | None = None,
    every: bool = False,
) -> Iterator[Sample]:
    """The sample with other inputs or attributes, if that is a call of the op; in its dtypes."""
    named = sample.attributes if attributes is None else attributes
    if accepted(op, suite, inputs, named):
        names = sample.dtypes if dtypes is None else dtypes
        yield Sample(inputs, named, False, names, note, checks, every_dtype=every)


def attributed(attributes: dict[str, Any], note: str) -> str:
    """A note behind the attributes of a sample."""
    return " ".join([*(f"{name}={value}" for name, value in attributes.items()), note])


def distinct(samples: Iterator[Sample]) -> Iterator[Sample]:
    """The samples without calls that occur twice."""
    seen: set[str] = set()
    for sample in samples:
        shapes = [(x.shape, x.dtype.name) for x in leaves(sample.inputs)]
        absent = [value is None for value in sample.inputs]
        key = repr((shapes, absent, sample.note, sorted(sample.attributes.items(), key=str)))
        if key not in seen:
            seen.add(key)
            yield sample
