"""Checks that tests of MPI and of gloo share, on ranks that they start."""

from __future__ import annotations

from pathlib import Path

import pytest

#: Prints what must not depend on the number of ranks.
AGREEMENT = Path(__file__).with_name("agreement.py")


def check_training(start, model, sums):
    """Checks that the losses of 52 steps, every fourth with 6 items, agree on 1, 2 and 4 ranks.

    Args:
        start: runs a program with arguments on so many ranks, and returns the finished process.
        model: the model in `agreement.py`.
        sums: "exact" or "plain".
    """
    losses = {}
    for ranks in (1, 2, 4):
        found = start(ranks, AGREEMENT, model, sums)
        assert found.returncode == 0, found.stderr
        (line,) = (line for line in found.stdout.splitlines() if line.startswith("losses"))
        losses[ranks] = [float(number) for number in line.split()[1:]]
    for ranks in (2, 4):
        assert len(losses[ranks]) == 52
        assert losses[ranks] == pytest.approx(losses[1], rel=1e-6)


def check_pieces(start, ranks):
    """Checks that exact sums have the bits of one process that adds pieces in pairs."""
    found = start(ranks, AGREEMENT, "pieces")
    assert found.returncode == 0, found.stderr
    assert "".join(found.stdout.split()) == "same" * ranks
