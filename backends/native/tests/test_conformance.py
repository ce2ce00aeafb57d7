"""Conformance of the pack's kernels, and how the pack is switched off."""

import os
import subprocess
import sys

import pytest

from pullback.devices import as_device
from pullback.spec import OPS
from pullback_conformance import checks
from pullback_conformance.case import cases
from pullback_conformance.samples import load
from pullback_native import DTYPES, _native
from pullback_native.kernels import KERNELS

SERVED = sorted({*_native.KERNELS, *KERNELS})
SUITES = load()
CASES = [
    case
    for name in SERVED
    for case in cases(OPS[name], SUITES[name], as_device("cpu"))
    if (taken := DTYPES.get(name, ("float32",))) is None or str(case.dtype) in ("float32", *taken)
]


over_cases = pytest.mark.parametrize("case", CASES, ids=str)


@over_cases
def test_values(case):
    checks.value(case)
    checks.rules(case)
    checks.body(case)


@over_cases
def test_inputs_are_unchanged_and_calls_repeat(case):
    checks.unchanged(case)
    checks.deterministic(case)


@over_cases
def test_layouts(case):
    checks.layouts(case)


def test_the_pack_serves_float32():
    listed = subprocess.run(
        [sys.executable, "-m", "pullback", "backends", "--kernels", "gelu"],
        capture_output=True, text=True, check=True,
        env={k: v for k, v in os.environ.items() if k != "PULLBACK_KERNEL_PACKS"},
    )  # fmt: skip
    assert "a kernel pack, of the highest priority" in listed.stdout


def test_it_can_be_switched_off():
    listed = subprocess.run(
        [sys.executable, "-m", "pullback", "backends", "--kernels", "gelu"],
        capture_output=True, text=True, check=True, env={**os.environ, "PULLBACK_KERNEL_PACKS": ""},
    )  # fmt: skip
    assert "not used: switched off" in listed.stdout
