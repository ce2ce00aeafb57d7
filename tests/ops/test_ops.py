"""Every op, sample by sample, on the default device: what `pullback conform` measures a backend by.

`pytest tests/ops/test_ops.py -k softmax` runs one op. The ids read "softmax[axis=0,float32]".
"""

import pytest

from pullback.conformance import checks
from pullback.conformance.case import cases
from pullback.conformance.samples import load
from pullback.devices import as_device
from pullback.spec import OPS

SUITES = load()
CASES = [
    case
    for name, suite in SUITES.items()
    if name in OPS  # the others fail in test_completeness.py
    for case in cases(OPS[name], suite, as_device("cpu"))
]
# Layouts and mixed dtypes are looked at in one dtype here, in all of them by the slow tests.
FIRST = {}
for case in CASES:
    FIRST.setdefault((case.op.name, id(case.sample)), case)
ONCE = list(FIRST.values())
DIFFERENTIABLE = [
    case
    for case in CASES
    if str(case.dtype) in ("float64", "complex128")
    and case.op.differentiable
    and case.sample.gradient
]


def over(found):
    return pytest.mark.parametrize("case", found, ids=str)


@over(CASES)
def test_values(case):
    checks.value(case)
    checks.rules(case)
    checks.body(case)


@over(ONCE)
def test_inputs_are_unchanged_and_calls_repeat(case):
    checks.unchanged(case)
    checks.deterministic(case)


@over(ONCE)
def test_layouts_and_mixed_dtypes(case):
    checks.layouts(case)
    checks.mixed(case)


@over(DIFFERENTIABLE)
def test_gradients(case):
    checks.gradient(case)


@over(DIFFERENTIABLE)
def test_second_gradients(case):
    checks.second_gradient(case)


@over([case for case in CASES if case.op.differentiable and case.sample.gradient])
def test_gradients_in_every_dtype(case):
    checks.narrow_gradient(case)


@pytest.mark.parametrize("name", [n for n, suite in SUITES.items() if suite.errors and n in OPS])
def test_errors(name):
    checks.wrong_calls(OPS[name], SUITES[name], as_device("cpu"))


@pytest.mark.slow
@over([case for case in CASES if case not in set(ONCE)])
def test_every_dtype_in_every_layout(case):
    for check in checks.CHECKS.values():
        check(case)
