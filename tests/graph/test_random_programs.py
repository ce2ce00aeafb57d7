"""Random programs do the same captured as op by op: results, gradients, state and exceptions.

    python tests/graph/random_programs.py 0 100000

runs that many from a seed on, and prints the programs that differ and how many cannot be captured.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest


def module(name):
    """A file beside this one as a module."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    found = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


programs = module("random_programs")


def check(seeds):
    """No program differs; nearly all were captured, so that something was compared."""
    captured, refused = 0, []
    for seed in seeds:
        _, made, refusal, found = programs.compare(seed)
        assert found is None, f"seed {seed}, call {found.call}\n{found.source}{found.what}"
        captured += made
        refused += [refusal] if refusal else []
    assert captured > len(seeds), captured
    assert len(refused) < 0.02 * len(seeds) + 2, refused


@pytest.mark.parametrize("first", range(0, 80, 20))
def test_programs(first):
    check(range(first, first + 20))


@pytest.mark.campaign
@pytest.mark.parametrize("first", range(1000, 3000, 500))
def test_more_programs(first):
    check(range(first, first + 500))
