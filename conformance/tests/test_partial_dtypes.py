"""A backend is measured by the dtypes that it claims, also where a result has another one."""

from __future__ import annotations

import functools
from typing import ClassVar

import numpy as np
import pytest

import pullback as pb
from pullback_conformance.mode import Mode
from pullback_conformance.runner import conform
from pullback_numpy import NumPyBackend


class Single(NumPyBackend):
    """Float64, and no complex numbers of that width."""

    name = "single"
    dtypes: ClassVar = {
        kind: held for kind, held in NumPyBackend.dtypes.items() if kind != pb.complex128
    }


def narrow(value):
    if isinstance(value, (tuple, list)):
        return type(value)(map(narrow, value))
    array = np.asarray(value)
    return array.astype(np.int32) if array.dtype == np.int64 else array


def shortened(kernel):
    """A kernel whose positions are int32, as those of a library without int64."""

    @functools.wraps(kernel)
    def short(*inputs, **attributes):
        result = kernel(*inputs, **attributes)
        return result if result is NotImplemented else narrow(result)

    return short


class Short(NumPyBackend):
    """No integers of 64 bits."""

    name = "short"
    dtypes: ClassVar = {
        kind: held
        for kind, held in NumPyBackend.dtypes.items()
        if kind not in (pb.int64, pb.uint64)
    }
    #: Without those of an op whose body computes positions too.
    kernels: ClassVar = {
        name: shortened(one) for name, one in NumPyBackend.kernels.items() if name != "lu_solve"
    }


SLOW = "grid_sample,scatter_max,lu_solve"


@pytest.mark.parametrize(
    "op",
    [
        *("segment_prod", "map_coordinates"),
        *(pytest.param(op, marks=pytest.mark.slow) for op in SLOW.split(",")),
    ],
)
def test_bodies_count_positions_in_what_the_backend_has(op):
    pb.register_backend(Short(), replace=True)
    report = conform("short:cpu", ops=[op], mode=Mode(quick=True, without="threads,lasting"))
    assert [(one.check, one.message) for one in report.failures] == []
    assert report.count.total > 5


@pytest.mark.parametrize("op", ["complex", pytest.param("rfft", marks=pytest.mark.slow)])
def test_no_check_needs_a_dtype_that_is_not_claimed(op):
    pb.register_backend(Single(), replace=True)
    report = conform("single:cpu", ops=[op])
    assert [(one.check, one.message) for one in report.failures] == []
    assert report.count.total > 50
