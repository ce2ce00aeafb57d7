"""Conformance: a sample of each op, three of those with kernels of ours; slow: everything."""

import pytest

import pullback as pb
from pullback import array_api, dtypes
from pullback.spec import OPS
from pullback_conformance import checks, gradients
from pullback_conformance.case import cases
from pullback_conformance.runner import conform
from pullback_conformance.samples import load
from pullback_cupy import driver
from pullback_cupy.kernels import KERNELS
from pullback_cupy.namespace import xp

GPU = pb.device("cupy:gpu")
ON_GPU = driver.problem() is None
SUITES = {name: suite for name, suite in load().items() if name in OPS}
OWN = set(KERNELS) - set(array_api.kernels(xp))
CASES, SMOOTH = [], []
for name, suite in SUITES.items():
    found = [case for case in cases(OPS[name], suite, GPU) if case.dtype in (None, dtypes.float32)]
    CASES += found[: 3 if name in OWN else 1]
    doubles = [case for case in cases(OPS[name], suite, GPU) if case.dtype == dtypes.float64]
    SMOOTH += [c for c in doubles if c.op.differentiable and c.sample.gradient and name in OWN][:1]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_values(case):
    checks.value(case)
    checks.rules(case)
    if not case.op.primitive:
        checks.body(case)


@pytest.mark.parametrize("case", SMOOTH, ids=str)
def test_gradients(case):
    checks.unchanged(case)
    gradients.gradient(case)


@pytest.mark.parametrize("name", [name for name, suite in SUITES.items() if suite.errors])
def test_errors(name):
    checks.wrong_calls(checks.Calls(OPS[name], SUITES[name], GPU))


@pytest.mark.slow
@pytest.mark.parametrize("tier", ["core", "special", "complex", "linalg", "fft"])
def test_everything(tier):
    names = [name for name in SUITES if OPS[name].tier.name.lower() == tier]
    report = conform("cupy", ops=names)
    # The stand-in's CuPy has NumPy's functions and its CUDA those of the C library, so the results
    # of fused kernels differ by rounding there, as test_fusion.py says; on a GPU both are CUDA's.
    failures = [one for one in report.failures if ON_GPU or one.check != "fused"]
    assert not failures, [str(failure) for failure in failures[:10]]
