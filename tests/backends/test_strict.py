"""The kernels of `pullback.array_api`, over an array library that has the standard and no more.

The backend below is these kernels and nothing else, so what passes here is what every backend
over an array API namespace starts with.
"""

from typing import ClassVar

import array_api_strict as xp
import numpy as np
import pytest

import pullback as pb
from pullback import array_api, dtypes
from pullback.conformance import checks
from pullback.conformance.case import cases
from pullback.conformance.samples import load
from pullback.devices import as_device
from pullback.spec import OPS


class StrictBackend(pb.Backend):
    """Holds no 16-bit floats: the standard has none."""

    name = "standard"
    version = xp.__version__
    kinds = ("cpu",)
    dtypes: ClassVar = {d: getattr(xp, d.name) for d in dtypes.ALL if hasattr(xp, d.name)}
    kernels = array_api.kernels(xp)

    def from_host(self, array, device, *, copy):
        return xp.asarray(array, copy=copy or None)

    def to_host(self, array):
        host = np.asarray(array)
        host.flags.writeable = False
        return host


pb.register_backend(StrictBackend(), replace=True)
STRICT = as_device("standard")

SUITES = load()
CASES = [
    case
    for name, suite in SUITES.items()
    if name in OPS
    for case in cases(OPS[name], suite, STRICT)
]
# One dtype of each sample, and one sample of each op to differentiate; all by the slow test.
FIRST = {}
FIRST_SMOOTH = {}
for case in CASES:
    FIRST.setdefault((case.op.name, id(case.sample)), case)
    if case.op.differentiable and case.sample.gradient and case.dtype == dtypes.float64:
        FIRST_SMOOTH.setdefault(case.op.name, case)

# The library passes NumPy's remarks on divisions by zero and the like through, and makes one of its
# own where its dtypes meet NumPy's as keys of one dictionary.
pytestmark = [
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:You are comparing a array_api_strict dtype"),
]


def over(found):
    return pytest.mark.parametrize("case", found, ids=str)


def test_every_primitive_has_a_kernel():
    assert [
        op.name for op in OPS.values() if op.primitive and op.name not in STRICT.backend.kernels
    ] == []


@over(FIRST.values())
def test_values(case):
    checks.value(case)
    checks.rules(case)
    checks.unchanged(case)


@over(FIRST_SMOOTH.values())
def test_gradients(case):
    checks.gradient(case)


@pytest.mark.parametrize("name", [n for n, suite in SUITES.items() if suite.errors and n in OPS])
def test_errors(name):
    checks.wrong_calls(OPS[name], SUITES[name], STRICT)


def test_a_dtype_that_the_backend_does_not_hold():
    with pytest.raises(
        pb.errors.DTypeError, match="'standard' does not support bfloat16; it supports bool"
    ):
        pb.zeros(2, dtype="float32", device="standard").astype("bfloat16")


@pytest.mark.slow
@over(CASES)
def test_everything(case):
    for check in checks.CHECKS.values():
        check(case)
