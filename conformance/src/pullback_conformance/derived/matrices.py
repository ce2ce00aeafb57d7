"""Matrices of other sizes with the properties of those in the samples: larger, in batches, turned.

Random matrices of another size would be another problem: not positive definite, or singular. The
Kronecker product with a diagonal matrix keeps what a sample is, its condition nearly, and turns
eigenvalues that differ into more that differ; a permutation of rows and columns spreads them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from pullback.spec import Op, Tier
from pullback_conformance.derived.variation import Base, bases, mapped, redrawn
from pullback_conformance.sample import Array, Sample, Suite

#: More rows than the blocks of most libraries.
ROWS = 36
#: The batches of a matrix, by factors that keep its condition.
_WIDE = ("float32", "float64", "complex64", "complex128")
_BATCH = np.array([[1.0, 1.25, 0.75], [0.5, 1.5, 0.875]])


def samples(op: Op, suite: Suite, *, quick: bool) -> Iterator[Sample]:
    """The calls of an op of linear algebra with larger matrices, batches and rows turned."""
    if op.tier != Tier.LINALG or not op.public:
        return
    for base in bases(op, suite)[: 1 if quick else 3]:
        sample, first = base.sample, base.arrays[0]
        if first.ndim < 2 or not isinstance(sample.inputs[0], np.ndarray):
            continue
        # To 16-bit floats, many rows are next to singular.
        wide = _WIDE if sample.dtypes is None else tuple(set(sample.dtypes) & set(_WIDE))
        if "large" not in suite.without:
            yield from _finite(base, _larger(sample), f"{ROWS} rows", dtypes=wide)
        batches = mapped(lambda x: _BATCH[..., None, None] * x, _last_two(sample.inputs))
        yield from _finite(base, batches, "batches of two axes")
        # A pivot of one matrix is none of another.
        flat = [np.roll(_last_two((first,))[0], k, -2) for k in range(_BATCH.size)]
        orders = np.reshape(flat, (*_BATCH.shape, *flat[0].shape))
        yield from _finite(base, (orders, *batches[1:]), "batches of rows in other orders")
        for words, part in (("", first), (" turned over", first.swapaxes(-1, -2).copy())):
            # Of a product with itself half of the digits are left.
            close = (*part.shape[:-2], 1, part.shape[-1])
            last = part[..., :1, :] + 2.0**-10 * redrawn(first, close)
            nearly = np.concatenate([part[..., :-1, :], last], axis=-2)
            note = f"two rows nearly equal{words}"
            yield from _finite(base, (nearly, *sample.inputs[1:]), note, dtypes=wide)
        turned = (first[..., ::-1, :].copy(), *sample.inputs[1:])
        yield from _finite(base, turned, "rows in reverse order")
        for words, part in (("one column", first[..., :1]), ("one row", first[..., :1, :])):
            yield from _finite(base, (part.copy(), *sample.inputs[1:]), words)


def _last_two(inputs: Sequence[Any]) -> tuple[Any, ...]:
    """One matrix of each batch."""
    return mapped(lambda x: x[(0,) * (x.ndim - 2)] if x.ndim > 2 else x, inputs)


def _larger(sample: Sample) -> tuple[Any, ...]:
    inputs = _last_two(sample.inputs)
    size = inputs[0].shape[0]
    count = -(-ROWS // size)
    factors = np.diag(np.linspace(1.0, 2.0, count))
    order = np.random.default_rng(16).permutation(size * count)

    def larger(x: Array) -> Array:
        if x.ndim < 1 or x.shape[0] != size:
            return x
        if x is inputs[0]:
            wide = np.kron(factors, x)[order]
            return wide[:, order] if x.shape[0] == x.shape[1] else wide
        return np.concatenate([x] * count)[order]

    return mapped(larger, inputs)


def _finite(
    base: Base, inputs: tuple[Any, ...], note: str, *, dtypes: tuple[str, ...] | None = None
) -> Iterator[Sample]:
    """The call, if its results are finite."""
    for taken in base.varied(inputs, note, dtypes=dtypes):
        if all(np.isfinite(array).all() for array in base.changed(inputs).reference()):
            yield taken
