"""Every op on the default device, by its samples: what `pullback conform` measures a backend by.

`pytest tests/ops/test_ops.py -k softmax` runs one op. A failure names each sample and dtype that
fails, as "softmax[axis=0,float32]".
"""

from functools import cache

import pytest

from pullback.conformance import checks, gradients, plan
from pullback.conformance.case import cases
from pullback.conformance.samples import load
from pullback.devices import as_device
from pullback.spec import OPS

#: The checks of one call.
EACH = [one.function for one in plan.CHECKS.values() if one.per not in ("op", "backend", "storage")]
SUITES = load()
#: The ops of other suites are missing: test_completeness.py says so.
NAMES = [name for name in SUITES if name in OPS]
DIFFERENTIABLE = [
    name
    for name in NAMES
    if OPS[name].differentiable and any(sample.gradient for sample in SUITES[name].samples)
]


@cache
def cases_of(name):
    return list(cases(OPS[name], SUITES[name], as_device("cpu")))


def once(name):
    """Each sample in one dtype. Layouts and mixed dtypes in all are for the slow tests."""
    first = {}
    for case in cases_of(name):
        first.setdefault(id(case.sample), case)
    return list(first.values())


def smooth(name):
    """The cases that finite differences are exact enough for."""
    wide = ("float64", "complex128")
    return [case for case in cases_of(name) if case.sample.gradient and str(case.dtype) in wide]


def over(names):
    return pytest.mark.parametrize("name", names)


@over(NAMES)
def test_values(name, every):
    every(cases_of(name), checks.value, checks.rules, checks.body)


@over(NAMES)
def test_inputs_are_unchanged_and_calls_repeat(name, every):
    every(once(name), checks.unchanged, checks.deterministic)


@over(NAMES)
def test_layouts_and_mixed_dtypes(name, every):
    every(once(name), checks.layouts, checks.mixed)


@over(DIFFERENTIABLE)
def test_gradients(name, every):
    every(smooth(name), gradients.gradient)


@over(DIFFERENTIABLE)
def test_second_gradients(name, every):
    every(smooth(name), gradients.second_gradient)


@over(DIFFERENTIABLE)
def test_gradients_in_every_dtype(name, every):
    every([case for case in cases_of(name) if case.sample.gradient], gradients.narrow_gradient)


@over([name for name in NAMES if SUITES[name].errors])
def test_errors(name):
    checks.wrong_calls(checks.Calls(OPS[name], SUITES[name], as_device("cpu")))


@pytest.mark.campaign
@over(NAMES)
def test_every_dtype_in_every_layout(name, every):
    seen = set(once(name))
    every([case for case in cases_of(name) if case not in seen], *EACH)
