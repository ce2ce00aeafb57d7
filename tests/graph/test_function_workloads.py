"""The workloads of the benchmarks give the same bits captured as op by op."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
try:
    from workloads import with_pullback
finally:
    sys.path.remove(str(ROOT / "benchmarks"))

EAGER, CAPTURED = with_pullback.builders(False), with_pullback.builders(True)
STEPS = 20
#: Those whose 20 steps take a few seconds.
SHORT = {"op_chain", "op_chain_grad", "linreg", "mlp", "infer_cnn_lstm_b1"}


def results(block) -> list[bytes]:
    return [np.asarray(block(1)).tobytes() for _ in range(STEPS)]


LONG = [pytest.mark.slow, pytest.mark.drawn(3)]


@pytest.mark.parametrize(
    "name", [name if name in SHORT else pytest.param(name, marks=LONG) for name in CAPTURED]
)
def test_twenty_steps_have_the_same_bits(name):
    assert results(CAPTURED[name]()) == results(EAGER[name]())
