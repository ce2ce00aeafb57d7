"""Every op on the default device, by its samples: what `pullback conform` measures a backend by.

`pytest tests/ops/test_ops.py -k softmax` runs one op. A failure names each sample and dtype that
fails, as "softmax[axis=0,float32]".
"""

import pytest

from pullback.devices import as_device
from pullback.spec import OPS
from pullback_conformance import checks, gradients, plan
from pullback_conformance.samples import load

SUITES = load()
#: The ops of other suites are missing: test_completeness.py says so.
NAMES = [name for name in SUITES if name in OPS]
DIFFERENTIABLE = [
    name
    for name in NAMES
    if OPS[name].differentiable and any(sample.gradient for sample in SUITES[name].samples)
]


def over(names):
    return pytest.mark.parametrize("name", names)


@pytest.fixture
def own(kit):
    """The cases on the CPU."""
    return kit("cpu")


@over(NAMES)
def test_values(name, every, own):
    every(own.cases(name), checks.value, checks.rules, checks.body)


# Layouts and mixed dtypes in every dtype are a campaign.
@over(NAMES)
def test_inputs_are_unchanged_and_calls_repeat(name, every, own):
    every(own.once(name), checks.unchanged, checks.deterministic)


@over(NAMES)
def test_layouts_and_mixed_dtypes(name, every, own):
    every(own.once(name), checks.layouts, checks.mixed)


@over(DIFFERENTIABLE)
def test_gradients(name, every, own):
    every(own.smooth(name), gradients.gradient)


@over(DIFFERENTIABLE)
def test_second_gradients(name, every, own):
    every(own.smooth(name), gradients.second_gradient)


@over(DIFFERENTIABLE)
def test_gradients_in_every_dtype(name, every, own):
    every([case for case in own.cases(name) if case.sample.gradient], gradients.narrow_gradient)


@over([name for name in NAMES if SUITES[name].errors])
def test_errors(name):
    checks.wrong_calls(checks.Calls(OPS[name], SUITES[name], as_device("cpu")))


@pytest.mark.campaign
@over(NAMES)
def test_every_dtype_in_every_layout(name, every, own):
    seen = set(own.once(name))
    others = [case for case in own.cases(name) if case not in seen]
    every(others, *(check.function for check in plan.EACH))
