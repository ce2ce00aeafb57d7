"""One training on several backends: the same losses, and states that go from one to the other."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import pullback as pb

ROOT = Path(__file__).resolve().parents[2]


def module(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


parity = module("parity", ROOT / "tests" / "parity.py")
example = ROOT / "examples" / "minimal_backend" / "src" / "pullback_minimal" / "__init__.py"


class Minimal(module("pullback_minimal", example).MinimalBackend):
    """Under a name of its own: other tests register the example as it is."""

    name = "pupil"


pb.register_backend(Minimal(), replace=True)


@pytest.mark.slow
def test_the_digits_are_learned_alike():
    wanted = parity.digits_losses("cpu", 50)
    found = parity.digits_losses("pupil:cpu:0", 50)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-4)
    assert wanted[-1] < 0.5 * wanted[0]


@pytest.mark.parametrize("first", ["cpu", "pupil:cpu:0"])
def test_another_seed_is_another_training(first):
    assert parity.digits_losses(first, 2, seed=1) != parity.digits_losses(first, 2)
