"""A backend is measured by the dtypes that it claims, also where a result has another one."""

from __future__ import annotations

from typing import ClassVar

import pytest

import pullback as pb
from pullback_conformance.runner import conform
from pullback_numpy import NumPyBackend


class Single(NumPyBackend):
    """Float64, and no complex numbers of that width."""

    name = "single"
    dtypes: ClassVar = {
        kind: held for kind, held in NumPyBackend.dtypes.items() if kind != pb.complex128
    }


@pytest.mark.parametrize("op", ["complex", pytest.param("rfft", marks=pytest.mark.slow)])
def test_no_check_needs_a_dtype_that_is_not_claimed(op):
    pb.register_backend(Single(), replace=True)
    report = conform("single:cpu", ops=[op])
    assert [(one.check, one.message) for one in report.failures] == []
    assert report.count.total > 50
