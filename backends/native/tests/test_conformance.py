"""Conformance of the pack's kernels, and how the pack is switched off."""

import os
import subprocess
import sys

import pytest

from pullback_conformance import checks
from pullback_native import DTYPES, _native
from pullback_native.kernels import KERNELS

SERVED = sorted({*_native.KERNELS, *KERNELS})

over_ops = pytest.mark.parametrize("name", SERVED)


@pytest.fixture
def served(kit):
    """`served(name)` has the cases of an op in the dtypes that the pack takes."""

    def find(name):
        taken = DTYPES.get(name, ("float32",))
        found = kit("cpu").cases(name)
        return [c for c in found if taken is None or str(c.dtype) in ("float32", *taken)]

    return find


@over_ops
def test_values(name, served, every):
    every(served(name), checks.value, checks.rules, checks.body)


@over_ops
def test_inputs_are_unchanged_and_calls_repeat(name, served, every):
    every(served(name), checks.unchanged, checks.deterministic)


@over_ops
def test_layouts(name, served, every):
    every(served(name), checks.layouts)


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
