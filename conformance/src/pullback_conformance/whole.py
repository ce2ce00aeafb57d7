"""Graphs that a backend compiles as a whole: their results, within the accuracy of the op."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from pullback import errors
from pullback.devices import Device
from pullback.dtypes import bool_
from pullback.graph.function import function
from pullback.ops.comparison import equal
from pullback.plugins.backend import Backend
from pullback.tensor import Tensor
from pullback_conformance.case import Case
from pullback_conformance.checks import value_of
from pullback_conformance.compare import ConformanceError, identical
from pullback_conformance.registry import Area, check
from pullback_conformance.repetition import other

#: How the warning says that the hook has failed.
_FAILED = "its hook `compile`"


def compiles(device: Device) -> bool:
    """Returns whether the backend compiles graphs."""
    return type(device.backend).compile is not Backend.compile


@check(Area.VALUES, per="attributes", applies=lambda case: compiles(case.device))
def compiled(case: Case) -> None:
    """Checks the result of an op in a captured function, which the backend compiles."""
    backend = case.device.backend
    beside = bool_ in backend.dtypes and bool(backend.kernels_for("equal"))
    # Another result, so that their order counts.
    captured = function(lambda values, arrays: (case.call(values), [equal(x, x) for x in arrays]))

    def measure(changed: Case, words: str) -> None:
        inputs = changed.tensors()
        arrays = [value for value in inputs if isinstance(value, Tensor)] if beside else []
        outputs, same = checked(changed, captured, inputs, arrays)
        value_of(changed, outputs, f"the result of a captured call{words}")
        for x, result in zip(arrays, same, strict=True):
            host = x.numpy()
            identical(case, result.numpy(), host == host, "x == x as another result of the graph")

    try:
        measure(case, "")
        try:
            measure(case.with_inputs(other(case)), " with other values")
        except errors.CaptureError:
            raise
        except errors.PullbackError:
            return  # values that the op rejects
    except errors.CaptureError:
        return  # such as an op whose shape depends on values


def checked(subject: object, captured: Callable[..., Any], *inputs: Any) -> Any:
    """The result of a captured function, called op by op, traced, and as a program.

    Raises:
        ConformanceError: if the backend's hook fails.
        CaptureError: for a function that cannot be captured.
    """
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        for _ in range(3):
            outputs = captured(*inputs)
    for warning in raised:
        if _FAILED in str(warning.message):
            raise ConformanceError(f"{subject}: {warning.message}")
    return outputs
