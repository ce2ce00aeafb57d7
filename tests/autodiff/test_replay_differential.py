"""Compiled backward passes and plain ones give the same bits, whatever takes turns with what."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest


def module(name):
    """A file beside this one as a module."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    found = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


graphs, programs = module("replay_graphs"), module("replay_programs")


@pytest.fixture(scope="module")
def tables():
    return [graphs.table(device) for device in graphs.devices()]


@pytest.fixture
def comparison(monkeypatch):
    return graphs.Comparison(monkeypatch)


def check(comparison, least):
    """No gradient differs; of those compared, enough came out of compiled code."""
    counts, different = dict(comparison.counts), comparison.different
    assert not different, (counts, len(different), different[0])
    assert comparison.replayed > least * counts["gradients"], counts
    assert counts["rejected"] < 0.05 * counts["gradients"], counts


def test_random_graphs(comparison, tables):
    rng = np.random.default_rng(1)
    for _ in range(25):
        comparison.family(programs.random_family(tables, 8, rng), rng, rounds=3)
    check(comparison, 0.2)


def test_ops(comparison, tables):
    rng = np.random.default_rng(2)
    for name in list(tables[0])[::8]:
        comparison.family(graphs.alone(tables, name, 8, rng), rng, rounds=3)
    check(comparison, 0.2)


@pytest.mark.campaign
def test_a_campaign(comparison, tables):
    rng = np.random.default_rng(3)
    for name in tables[0]:
        comparison.family(graphs.alone(tables, name, 16, rng), rng, rounds=4)
    while comparison.counts["gradients"] < 60_000:
        comparison.family(programs.random_family(tables, 8, rng), rng, rounds=4)
    print(f"{dict(comparison.counts)}, by compiled code: {comparison.replayed}")
    check(comparison, 0.25)
