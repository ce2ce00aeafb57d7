"""Training: the CPU's losses, and no copy to the host but those that are asked for."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[3]


def module(path):
    """A helper of the repository's."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


small_model = module("tests/gpu/small_model.py")


@pytest.mark.slow
def test_the_digits_are_learned_alike(device):
    helper = module("tests/parity.py")
    wanted = helper.digits_losses("cpu", 12)
    found = helper.digits_losses(device, 12)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-4)


def test_a_step_copies_nothing_to_the_host(device, standin):
    step = small_model.make_step(device)
    step()  # builds the layers, whose first values may be looked at
    standin.COPIES.clear()
    loss = step()
    assert not standin.COPIES, standin.COPIES
    float(loss)
    assert dict(standin.COPIES) == {"get": 1}


def test_the_small_model_learns_what_it_learns_on_the_cpu(device):
    found, wanted = (small_model.losses(one, 8) for one in (device, "cpu"))
    np.testing.assert_allclose(found, wanted, rtol=2e-4)
    assert found[-1] < found[0]


def test_the_part_of_the_gpu_run_that_counts(standin):
    sources = ("core/src", "backends/numpy/src", "backends/cupy/src", "backends/cupy/tests/standin")
    paths = [str(ROOT / one) for one in sources]
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "gpu" / "copies.py")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith("| none | ")
    assert done.stdout.splitlines()[-1].endswith(" | yes |")
