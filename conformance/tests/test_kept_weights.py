"""Faults that the conformance kit finds in kernels that keep what they make of weights."""

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


def kernel(x, y):
    with np.errstate(invalid="ignore"):
        return np.matmul(x, y)


class Kept:
    """Keeps a copy of y, for the same array or for ever."""

    def __init__(self, owners, *, ever):
        assert set(owners) == {0, 1}
        self.ever = ever
        self.of = self.copy = None

    def __call__(self, x, y):
        if self.of is None or (y is not self.of and not self.ever):
            self.of, self.copy = y, y.copy()
        return kernel(x, self.copy)


def right(kernel, kinds, attributes, owners):
    return Kept(owners, ever=False)


def stale(kernel, kinds, attributes, owners):
    return Kept(owners, ever=True)


def nothing(kernel, kinds, attributes, owners):
    return None


@pytest.fixture
def matmul():
    """Registers a kernel that keeps; returns the cases of its op."""
    device = as_device("cpu")

    def register(keep):
        device.backend.register_kernel("matmul", kernel, source="test", priority=100, keep=keep)
        found = cases(OPS["matmul"], load()["matmul"], device)
        return [case for case in found if str(case.dtype) == "float32"]

    yield register
    device.backend.unregister_kernels("test")


@pytest.mark.parametrize("keep", [right, nothing])
def test_a_kernel_that_looks_at_the_array_passes(matmul, keep):
    for case in matmul(keep):
        checks.kept(case)


def test_old_weights_are_found(matmul):
    (case, *_) = matmul(stale)
    with pytest.raises(ConformanceError, match="with kept weights"):
        checks.kept(case)


def test_the_check_is_for_kernels_that_keep(matmul):
    (case, *_) = matmul(right)
    assert CHECKS["kept"].applies(case)
