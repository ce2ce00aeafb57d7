"""Training on threads that are ranks is that of one process, step by step, for whole models."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import pullback as pb

_spec = importlib.util.spec_from_file_location(
    "agreement", Path(__file__).with_name("agreement.py")
)
agreement = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(agreement)


@pytest.mark.slow
@pytest.mark.parametrize("model", agreement.MODELS)
@pytest.mark.parametrize("exact", [False, True])
def test_training_is_that_of_one_rank(model, exact):
    def run():
        return agreement.train(model, exact, shuffle=False)

    ((losses, _),) = pb.distributed.run_threads(run, 1)
    assert len(losses) == 52
    for ranks in (2, 4):
        found = pb.distributed.run_threads(run, ranks)
        assert len({weights for _, weights in found}) == 1
        for others, _ in found:
            np.testing.assert_allclose(others, losses, rtol=1e-6)


@pytest.mark.parametrize("ranks", [2, 4])
def test_exact_sums_have_the_bits_of_one_process_that_adds_pieces_in_pairs(ranks):
    wanted = agreement.pieces(ranks)
    assert pb.distributed.run_threads(agreement.pieces, ranks) == [wanted] * ranks
