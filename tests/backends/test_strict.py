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
from pullback.devices import as_device
from pullback.spec import OPS
from pullback_conformance import checks, gradients, plan
from pullback_conformance.samples import load


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
NAMES = [name for name in SUITES if name in OPS]

# The library passes NumPy's remarks on divisions by zero and the like through, and makes one of its
# own where its dtypes meet NumPy's as keys of one dictionary.
pytestmark = [
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:You are comparing a array_api_strict dtype"),
]


def test_a_program_names_dtypes_without_their_library():
    @pb.function
    def double(x):
        return x + x

    with pb.device("standard"):
        for _ in range(3):
            double(pb.ones(2))
    assert "for x: float32[2];" in double.explain()


def over(names):
    return pytest.mark.parametrize("name", names)


def test_every_primitive_has_a_kernel():
    assert [
        op.name
        for op in OPS.values()
        if op.primitive and op.on_any_device is None and op.name not in STRICT.backend.kernels
    ] == []


@over(NAMES)
def test_values(name, every, kit):
    every(kit(STRICT).once(name), checks.value, checks.rules)


# As in a run of the kit: bodies call ops that are measured by themselves.
@over([name for name in NAMES if name in STRICT.backend.kernels])
def test_inputs_are_unchanged(name, every, kit):
    every(kit(STRICT).once(name), checks.unchanged)


@pytest.mark.slow
@pytest.mark.drawn(3)
@over([name for name in NAMES if OPS[name].differentiable])
def test_gradients(name, every, kit):
    """One sample of each op; all in the campaign."""
    every(kit(STRICT).smooth(name, ["float64"])[:1], gradients.gradient)


@over([name for name in NAMES if SUITES[name].errors])
def test_errors(name):
    checks.wrong_calls(checks.Calls(OPS[name], SUITES[name], STRICT))


def test_a_dtype_that_the_backend_does_not_hold():
    with pytest.raises(
        pb.errors.DTypeError, match="'standard' does not support bfloat16; it supports bool"
    ):
        pb.zeros(2, dtype="float32", device="standard").astype("bfloat16")


@pytest.mark.campaign
@over(NAMES)
def test_everything(name, every, kit):
    every(kit(STRICT).cases(name), *(check.function for check in plan.EACH))
