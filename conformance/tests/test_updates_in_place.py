"""Faults that the conformance kit finds in updates that are done to variables."""

from __future__ import annotations

import numpy as np
import pytest

from pullback.devices import as_device
from pullback.spec import OPS
from pullback_conformance import checks
from pullback_conformance.case import cases
from pullback_conformance.compare import ConformanceError
from pullback_conformance.registry import CHECKS
from pullback_conformance.samples import load


def kernel(p, g, rate, *, weight_decay):
    return (p - rate * (g + weight_decay * p)).astype(p.dtype)


def right(variable, g, rate, *, weight_decay):
    variable._array = kernel(variable._array, g, rate, weight_decay=weight_decay)


def others_too(variable, g, rate, *, weight_decay):
    variable._array[...] = kernel(variable._array, g, rate, weight_decay=weight_decay)


def another_value(variable, g, rate, *, weight_decay):
    variable._array = np.nextafter(kernel(variable._array, g, rate, weight_decay=0), 9)


@pytest.fixture
def sgd():
    """Registers an update in place; returns the cases of its op."""
    device = as_device("cpu")

    def register(update):
        device.backend.register_kernel(
            "sgd_update", kernel, source="test", priority=100, in_place=update
        )
        found = cases(OPS["sgd_update"], load()["sgd_update"], device)
        return [case for case in found if str(case.dtype) == "float32"]

    yield register
    device.backend.unregister_kernels("test")


def check_all(found):
    for case in found:
        checks.in_place(case)


def test_an_update_that_makes_new_arrays_passes(sgd):
    check_all(sgd(right))


@pytest.mark.parametrize(
    ("update", "message"),
    [(others_too, "what somebody else has"), (another_value, "updated in place")],
)
def test_a_fault_is_found(sgd, update, message):
    with pytest.raises(ConformanceError, match=message):
        check_all(sgd(update))


def test_the_check_is_for_kernels_with_an_update(sgd):
    (case, *_) = sgd(right)
    assert CHECKS["in_place"].applies(case)
