"""Variations of written samples: which are calls of the op, and values for other shapes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from pullback import dtypes, errors
from pullback._dispatch.arguments import canonicalize
from pullback.shapes import Shape, broadcast
from pullback.spec import Accuracy, Op, Tier
from pullback.tensor import wrap
from pullback_conformance.case import leaves, results, split, touched
from pullback_conformance.sample import Array, Sample, Suite

#: Samples of one op that are varied, of those that are alike only the first; and a complex one.
BASES = 3
#: Elements along each axis that show what a reference makes of inputs.
FEW = 2


@dataclass(frozen=True, eq=False)
class Base:
    """A sample that others are made of, with its op and its suite."""

    op: Op
    suite: Suite
    sample: Sample

    @property
    def arrays(self) -> list[Array]:
        """All input arrays."""
        return leaves(self.sample.inputs)

    def changed(self, inputs: Iterable[Any]) -> Base:
        """The same with other inputs."""
        return replace(self, sample=replace(self.sample, inputs=tuple(inputs)))

    def reference(self) -> list[Array]:
        """The results of the reference."""
        with np.errstate(all="ignore"):
            return results(self.suite.reference(*self.sample.inputs, **self.sample.attributes))

    def varied(
        self,
        inputs: tuple[Any, ...],
        note: str,
        *,
        attributes: dict[str, Any] | None = None,
        checks: tuple[str, ...] = ("value",),
        dtypes: tuple[str, ...] | None = None,
        every: bool = False,
        plain: bool = False,
    ) -> Iterator[Sample]:
        """The sample with other inputs or attributes, if that is a call of the op; in its dtypes.

        The note is behind the attributes, unless it is `plain`.
        """
        named = self.sample.attributes if attributes is None else attributes
        if accepted(self.op, self.suite, inputs, named):
            names = self.sample.dtypes if dtypes is None else dtypes
            words = [] if plain else [f"{name}={value}" for name, value in named.items()]
            described = " ".join([*words, note])
            yield Sample(inputs, named, False, names, described, checks, every_dtype=every)


def bases(op: Op, suite: Suite) -> list[Base]:
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
    others = (sample for sample in floating[BASES:] if _is_complex(sample))
    return [Base(op, suite, sample) for sample in (*floating[:BASES], *islice(others, 1))]


def _is_complex(sample: Sample) -> bool:
    return bool(leaves(sample.inputs)[0].dtype.kind == "c")


def is_rigid(op: Op) -> bool:
    """Returns whether other values would make another problem, such as a singular matrix."""
    return op.accuracy is Accuracy.BACKWARD_STABLE or op.tier == Tier.LINALG


def gives_floats(op: Op, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> bool:
    """Returns whether a result is of floats, as of a call that the rules reject."""
    try:
        return any(dtype in dtypes.FLOATING for dtype in touched(op, inputs, attributes))
    except errors.PullbackError:
        return True


def accepted(op: Op, suite: Suite, inputs: Sequence[Any], attributes: dict[str, Any]) -> bool:
    """Returns whether the op's rules take a call, and its reference has a result of that shape."""
    if attributes.get("stable") is False and any(
        len(np.unique(x)) < x.size for x in leaves(inputs)
    ):
        return False  # the order of equal elements is open
    expected = shapes_of_results(op, inputs, attributes)
    if expected is None:
        return False
    if op.shape is broadcast:
        # Of an elementwise op a few elements say enough: references with many digits are slow.
        inputs = [_cut(value) for value in inputs]
        expected = [broadcast(*map(_shape, inputs))] * len(expected)
    try:
        with np.errstate(all="ignore"):
            found = results(suite.reference(*inputs, **attributes))
    except Exception:
        return False  # not defined there
    return len(found) == len(expected) and all(
        shape is None or array.shape == tuple(shape)
        for array, shape in zip(found, expected, strict=True)
    )


def _cut(value: Any) -> Any:
    """The first elements along each axis, as many for all inputs that broadcast."""
    return value[(slice(FEW),) * value.ndim] if isinstance(value, np.ndarray) else value


def shapes_of_results(
    op: Op, inputs: Sequence[Any], attributes: dict[str, Any]
) -> list[Shape | None] | None:
    """The shapes that the rules give a call, None for one that depends on values; None if none."""
    try:
        values, named = split(op, inputs, attributes)
        canonical = canonicalize(op, [_held(value) for value in values], named)
        shapes = op.shape(*map(_shape, values), **canonical)
        touched(op, tuple(inputs), attributes)
    except (errors.PullbackError, TypeError, ValueError, IndexError, AttributeError):
        return None
    return [*shapes] if isinstance(shapes, list) else [shapes]


class _Nowhere:
    """A device of no backend, which has NumPy's arrays."""

    def __init__(self) -> None:
        self.backend = self
        self.named_dtypes = {dtype: dtype for dtype in dtypes.ALL}


_NOWHERE: Any = _Nowhere()


def _held(value: Any) -> Any:
    """An input as the rules look at it: they read shapes and dtypes of tensors, on no device."""
    if isinstance(value, (list, tuple)):
        return [wrap(np.asarray(item), _NOWHERE) for item in value]
    return None if value is None else wrap(np.asarray(value), _NOWHERE)


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


def changed_at(
    places: Collection[int], change: Callable[[Any], Any], inputs: Sequence[Any]
) -> tuple[Any, ...]:
    """The inputs with those at some places changed."""
    return tuple(change(value) if i in places else value for i, value in enumerate(inputs))


def reshaped(
    inputs: Sequence[Any],
    shape_of: Callable[[Array], Sequence[int] | None],
    seeds: Iterator[int] | None = None,
) -> tuple[Any, ...]:
    """The inputs drawn again in other shapes, each from a seed of its own; None leaves one."""
    numbers = itertools.count() if seeds is None else seeds

    def one(x: Array) -> Array:
        shape = shape_of(x)
        return x if shape is None else redrawn(x, shape, seed=next(numbers))

    return mapped(one, inputs)


def distinct(samples: Iterator[Sample]) -> Iterator[Sample]:
    """The samples without calls that occur twice."""
    seen: set[str] = set()
    for sample in samples:
        shapes = [(x.shape, x.dtype.name) for x in leaves(sample.inputs)]
        absent = [value is None for value in sample.inputs]
        key = repr(
            (shapes, absent, sample.note, sample.seed, sorted(sample.attributes.items(), key=str))
        )
        if key not in seen:
            seen.add(key)
            yield sample
