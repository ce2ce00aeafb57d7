"""Random programs do the same captured as op by op: results, gradients, state and exceptions.

    python tests/graph/random_programs.py 0 100000

runs that many from a seed on, and prints the programs that differ and how many cannot be captured.
"""

from __future__ import annotations

import gc
import importlib.util
import sys
import weakref
from pathlib import Path

import pytest


def module(name):
    """A file beside this one as a module."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    found = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


programs = module("random_programs")


def check(seeds, monkeypatch):
    """No program differs; nearly all were captured, so that something was compared; none stays."""
    captured, refused, configs = 0, [], []

    def watched(world, *args):
        init(world, *args)
        configs.append(weakref.ref(world.names["Config"]))

    init = programs.World.__init__
    monkeypatch.setattr(programs.World, "__init__", watched)
    for seed in seeds:
        _, made, refusal, found = programs.compare(seed)
        assert found is None, f"seed {seed}, call {found.call}\n{found.source}{found.what}"
        captured += made
        refused += [refusal] if refusal else []
    assert captured > len(seeds), captured
    assert len(refused) < 0.02 * len(seeds) + 2, refused
    gc.unfreeze()  # a trace that looks for a function which is set aside sets aside all
    gc.collect()
    assert len(configs) == 2 * len(seeds)
    assert not [seed for i, seed in enumerate(seeds) if configs[2 * i]() or configs[2 * i + 1]()]


@pytest.mark.parametrize("first", range(0, 80, 10))
def test_programs(first, monkeypatch):
    check(range(first, first + 10), monkeypatch)


@pytest.mark.campaign
@pytest.mark.parametrize("first", range(1000, 3000, 500))
def test_more_programs(first, monkeypatch):
    check(range(first, first + 500), monkeypatch)
