"""Whether a result stays what it was when the op is called again, with other values."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback import dtypes, errors
from pullback.conformance.case import Case, leaves, results
from pullback.conformance.compare import identical


def lasting(case: Case) -> None:
    """A later call of the op leaves an earlier result alone: no kernel gives a buffer twice.

    Raises:
        ConformanceError: when the result has changed.
    """
    before = results(case.call())
    kept = [np.array(one) for one in before]
    floats = any(leaf.dtype in dtypes.FLOATING for leaf in leaves(case.inputs))
    try:
        case.with_inputs(_other(value, floats) for value in case.inputs).call()
    except errors.PullbackError:
        return  # values that the op does not take
    for one, copy in zip(before, kept, strict=True):
        identical(case, one, copy, "an earlier result after another call")


def _other(value: Any, floats: bool) -> Any:
    """Floats halved, which most domains allow; whole numbers, where they are alone, turned."""
    if isinstance(value, (list, tuple)):
        return [_other(item, floats) for item in value]
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype in dtypes.FLOATING:
        return (value * 0.5).astype(value.dtype)
    return value if floats else np.flip(value).copy()
