"""The check that a result does not change when the op is called again with other values."""

from __future__ import annotations

import numpy as np

from pullback import dtypes, errors
from pullback.conformance.case import Case, leaves, results
from pullback.conformance.compare import identical


def lasting(case: Case) -> None:
    """Checks that a later call does not change an earlier result: kernels do not reuse buffers.

    Raises:
        ConformanceError: if the result has changed.
    """
    before = results(case.call())
    kept = [np.array(array) for array in before]
    try:
        case.with_inputs(other(case)).call()
    except errors.PullbackError:
        return  # values that the op rejects
    for array, copy in zip(before, kept, strict=True):
        identical(case, array, copy, "an earlier result after another call")


def other(case: Case) -> list[object]:
    """Other inputs of the same shapes and dtypes, which most ops take."""
    floats = any(leaf.dtype in dtypes.FLOATING for leaf in leaves(case.inputs))
    return [_other(value, floats) for value in case.inputs]


def _other(value: object, floats: bool) -> object:
    """Floats halved, which most domains allow; integers in reverse order, if all are integers."""
    if isinstance(value, (list, tuple)):
        return [_other(item, floats) for item in value]
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype in dtypes.FLOATING:
        return (value * 0.5).astype(value.dtype)
    return value if floats else np.flip(value).copy()
