"""Compares two frameworks' results of a case, by the values that their workers show."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ops_cases import Case

#: How far values may be apart, in times of the greatest.
TOLERANCE = 2e-3
TOLERANCES = {"float16": 2e-2, "bfloat16": 1e-1, "float64": 1e-6}
#: The least that counts as the greatest: what is left where values cancel is rounding.
LEAST = {"float16": 0.5, "bfloat16": 0.5}


def differs(found: dict[str, Any], expected: dict[str, Any], case: Case) -> str:
    """The difference of two results in words; empty where they agree."""
    if "error" in found:
        return str(found["error"])
    if "error" in expected or "random" in case.row.options:
        return ""
    if found["shapes"] != expected["shapes"]:
        return f"shapes {found['shapes']}, and {expected['shapes']}"
    greatest = max(
        (abs(value) for value in expected["values"] if math.isfinite(value)), default=0.0
    )
    within = TOLERANCES.get(case.dtype, TOLERANCE) * max(greatest, LEAST.get(case.dtype, 1e-3))
    for a, b in zip(found["values"], expected["values"], strict=True):
        # Infinities are equal, and NaN is where NaN is expected.
        if a != b and not abs(a - b) <= within and not (math.isnan(a) and math.isnan(b)):
            return f"{a}, and {b}"
    return ""
