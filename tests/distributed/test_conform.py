"""The checks of communicators: they pass for the stand-in, and find each fault."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback.cli import main
from pullback.distributed import threads
from pullback_conformance.communicators import check

dist = pb.distributed
SIZES = (0, 1, 7, 1000)


def problems():
    return {title: problem for title, problem in check(SIZES) if problem}


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_threads_pass(ranks):
    assert dist.run_threads(problems, ranks) == [{}] * ranks


FAULTS = {
    "sums of 16 bits in their own dtype": (
        lambda real, self, array, op: np.asarray(real(self, array, op)) * 1
        if array.dtype.itemsize != 2
        else np.asarray(real(self, array, op)) + array.dtype.type(1),
        "all_reduce sum, float16",
    ),
    "a mean that is a sum": (
        lambda real, self, array, op: real(self, array, "sum" if op == "mean" else op),
        "all_reduce mean, float32",
    ),
    "a maximum that is a sum": (
        lambda real, self, array, op: real(self, array, "sum" if op == "max" else op),
        "all_reduce max, int32",
    ),
    "the own array": (lambda real, self, array, op: (real(self, array, op), array)[1],
                      "all_reduce sum, gradients captured"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_finds_faults(fault, monkeypatch):
    function, title = FAULTS[fault]
    real = threads._ThreadCommunicator.all_reduce
    monkeypatch.setattr(
        threads._ThreadCommunicator,
        "all_reduce",
        lambda self, array, op: function(real, self, array, op),
    )
    assert all(title in found for found in dist.run_threads(problems, 2))


def test_finds_parts_in_another_order(monkeypatch):
    real = threads._ThreadCommunicator.all_gather
    monkeypatch.setattr(
        threads._ThreadCommunicator, "all_gather", lambda self, array: real(self, array)[::-1]
    )
    assert all("all_gather, int32" in found for found in dist.run_threads(problems, 2))


@pytest.mark.slow
def test_command(capsys):
    assert main(["conform", "--communicator", "threads", "-n", "3"]) == 0
    assert "136 of 136 checks pass" in capsys.readouterr().out


def test_command_needs_a_name():
    assert main(["conform"]) == 1
