"""The sensitivity of a result to its inputs, on which the bounds of stable methods depend.

A method is stable if its result for x is near f(x + e), for an e of p(n) eps |x|: no further
off than p(n) eps |f(x)| (Higham, "Accuracy and Stability of Numerical Algorithms", 1.5). To first
order its error is then

    p(n) eps (|f'(x)| |x| + |f(x)|),

in the norm of |x|. Neither the processor nor the order of sums changes |f'(x)|, and even the best
method may be off by all of it. It is measured here, by differences of the reference.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pullback_conformance.sample import Array

#: The number of elements that are perturbed; their effect is at most that of all elements.
ELEMENTS = 64
#: The step, as a fraction of the largest element: below tolerances of rank, above the rounding.
STEP = 1e-8


def moves(function: Callable[[list[Array]], list[Array]], point: list[Array]) -> list[float]:
    """Returns, for each result of a function, the sum of |derivative| |input| over its inputs.

    The norm of an array is the root of the sum of the squares of its elements, that of a derivative
    the largest quotient of such norms.

    Args:
        function: returns arrays of float64 or complex128.
        point: the inputs, in float64 or complex128.
    """
    totals = [0.0] * len(function(point))
    for k, value in enumerate(point):
        if not value.size:
            continue
        step = STEP * (float(np.max(np.abs(value))) or 1.0)
        columns: list[list[Array]] = [[] for _ in totals]
        every = np.arange(value.size)
        rng = np.random.default_rng(5)
        chosen = every if value.size <= ELEMENTS else rng.choice(every, ELEMENTS, replace=False)
        for position in chosen:
            index = np.unravel_index(int(position), value.shape)
            for unit in (1.0, 1j) if value.dtype.kind == "c" else (1.0,):
                ahead, behind = value.copy(), value.copy()
                ahead[index] += step * unit
                behind[index] -= step * unit
                pairs = zip(
                    function([*point[:k], ahead, *point[k + 1 :]]),
                    function([*point[:k], behind, *point[k + 1 :]]),
                    strict=True,
                )
                for column, (after, before) in zip(columns, pairs, strict=True):
                    column.append(_reals((after - before) / (2 * step)))
        for i, column in enumerate(columns):
            totals[i] += _largest(np.array(column)) * float(np.linalg.norm(value))
    return totals


def _largest(matrix: Array) -> float:
    """The largest singular value, by the smaller product of the matrix with itself.

    Of few rows and many columns all singular values take ten times as long.
    """
    scale = float(np.max(np.abs(matrix), initial=0.0))
    if not scale:
        return 0.0
    matrix = matrix / scale  # squares of large numbers overflow
    product = matrix @ matrix.T if matrix.shape[0] < matrix.shape[1] else matrix.T @ matrix
    return scale * float(np.sqrt(np.linalg.eigvalsh(product)[-1]))


def _reals(values: Array) -> Array:
    """All numbers in one row, a complex number as two; 0 for NaN and infinities."""
    flat = np.ravel(np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0))
    return np.concatenate([flat.real, flat.imag]) if flat.dtype.kind == "c" else flat
