"""The checks of dtypes for storage: their references, where they apply, and what fails them."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest

import pullback as pb
from pullback import dtypes
from pullback.devices import as_device
from pullback.plugins.public import registry
from pullback_conformance import storage
from pullback_conformance.compare import ConformanceError
from pullback_conformance.mode import Mode
from pullback_conformance.registry import CHECKS
from pullback_conformance.runner import conform, planned
from pullback_numpy import NumPyBackend

over_dtypes = pytest.mark.parametrize("dtype", dtypes.STORAGE, ids=str)


class Shelf(NumPyBackend):
    """A backend that stores values in one dtype only."""

    name = "shelf"
    storage_dtypes: ClassVar = {pb.int4.dtype: pb.int4.dtype}


@pytest.fixture
def shelf():
    pb.register_backend(Shelf(), replace=True)
    yield as_device("shelf")
    registry._slots.pop("shelf")
    registry.ready.pop("shelf")


def items(device, op="astype"):
    every = planned(op, device, mode=Mode(quick=True))
    return [item for item in every if item.check.startswith("storage")]


@over_dtypes
def test_the_references_agree_with_ml_dtypes(dtype):
    every, x = storage.codes(dtype), storage.numbers(dtype)
    np.testing.assert_array_equal(storage.decoded(every), every.astype(np.float32))
    with np.errstate(all="ignore"):
        converted = x.astype(dtype).astype(np.float32)
    np.testing.assert_array_equal(storage.rounded(x, dtype), converted)
    np.testing.assert_array_equal(np.signbit(storage.rounded(x, dtype)), np.signbit(converted))


def test_the_numbers_have_zeros_ties_and_what_is_too_large():
    e4m3, e5m2 = (storage.numbers(dtype) for dtype in dtypes.STORAGE[:2])
    assert {464.0, 448.0, 2.0**-10} <= set(e4m3.tolist())
    assert {61440.0, 57344.0, 2.0**-17} <= set(e5m2.tolist())
    assert np.signbit(e4m3[e4m3 == 0]).any()
    assert np.isnan(e5m2).any()
    assert np.isinf(e5m2).any()


def test_each_dtype_that_a_backend_stores_is_measured(shelf):
    found = {(item.dtype, item.check) for item in items(as_device("cpu"))}
    stored = [check.name for check in CHECKS.values() if check.per == "storage"]
    assert len(stored) == 5
    assert found == {(str(d), check) for d in dtypes.STORAGE for check in stored}
    assert {item.dtype for item in items(shelf)} == {"int4"}
    assert items(as_device("cpu"), "negative") == []


def test_a_sound_backend_passes(shelf):
    for item in items(shelf):
        item.run()


def test_an_op_that_takes_them_is_a_failure(shelf, monkeypatch):
    monkeypatch.setattr(storage, "_TAKE_STORAGE", ("astype",))
    [item] = [item for item in items(shelf) if item.check == "storage_refusal"]
    with pytest.raises(ConformanceError, match=r"to_device of int4 returned .*DTypeError was to"):
        item.run()


def test_what_differs_on_purpose_is_declared_by_dtype():
    def astype(x, *, dtype):
        return (
            np.rint(x).astype(dtype)
            if dtype == pb.int4
            else NumPyBackend.kernels["astype"](x, dtype=dtype)
        )

    class Rounding(Shelf):
        name = "rounding"
        kernels: ClassVar = {**NumPyBackend.kernels, "astype": astype}
        deviations: ClassVar = {
            "astype": pb.Deviation(
                "int4 is rounded to the nearest",
                dtypes=("int4",),
                checks=("storage_conversion",),
            )
        }

    pb.register_backend(Rounding(), replace=True)
    report = conform("rounding", ops=["astype"], quick=True)
    assert report.passed, report.failures
    assert [failure.check for failure in report.declared] == ["storage_conversion"]
    registry._slots.pop("rounding")
    registry.ready.pop("rounding")
