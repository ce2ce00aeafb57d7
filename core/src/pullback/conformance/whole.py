"""Graphs that a backend compiles as a whole: their results, within the accuracy of the op."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from pullback import errors
from pullback.conformance.case import Case
from pullback.conformance.checks import value_of
from pullback.conformance.compare import ConformanceError
from pullback.graph.function import function
from pullback.plugins.backend import Backend

#: How the warning says that the hook has failed.
_FAILED = "its hook `compile`"


def compiles(case: Case) -> bool:
    """Returns whether the backend compiles graphs."""
    return type(case.device.backend).compile is not Backend.compile


def compiled(case: Case) -> None:
    """Checks the result of an op in a captured function, which the backend compiles.

    Raises:
        ConformanceError: for another result, and for a hook that fails.
    """
    try:
        outputs = captured_result(case, case.call, case.tensors())
    except errors.CaptureError:
        return  # such as an op whose shape depends on values
    value_of(case, outputs, "the result of a captured call")


def captured_result(case: Case, call: Callable[[Any], Any], inputs: Any) -> Any:
    """The result of a captured function, called op by op, traced, and as a program.

    Raises:
        ConformanceError: if the backend's hook fails.
        CaptureError: for a function that cannot be captured.
    """
    captured = function(lambda values: call(values))
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        for _ in range(3):
            outputs = captured(inputs)
    for warning in raised:
        if _FAILED in str(warning.message):
            raise ConformanceError(f"{case}: {warning.message}")
    return outputs
