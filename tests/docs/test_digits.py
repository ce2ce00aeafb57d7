"""`examples/digits.py`: how well it learns, and that an interrupted run ends as if it were not."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pullback.checkpoint import folder

EXAMPLE = Path(__file__).parents[2] / "examples" / "digits.py"


def command(place, *options):
    return [
        sys.executable, str(EXAMPLE), "--folder", str(place / "checkpoints"),
        "--picture", str(place / "digits.png"), *map(str, options),
    ]  # fmt: skip


def run(place, *options):
    done = subprocess.run(command(place, *options), capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    return done


def result(place, epoch):
    """All bits that a run has come to."""
    contents = folder.read(place / "checkpoints" / f"ckpt-{epoch}")
    arrays = {path: (a.dtype, a.shape, a.tobytes()) for path, a in contents.arrays.items()}
    return arrays, contents.data, contents.states


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    """A run of two epochs that nothing has stopped."""
    place = tmp_path_factory.mktemp("straight")
    return place, run(place, "--epochs", 2)


@pytest.mark.slow
def test_says_what_it_does(straight):
    place, done = straight
    written = f"checkpoints: {place / 'checkpoints'}  picture: {place / 'digits.png'}\n"
    assert done.stdout.startswith(written)
    assert re.search(r"\ntest accuracy: 0\.\d{4}\n$", done.stdout)
    assert float(done.stdout.split()[-1]) > 0.8
    progress = done.stderr.replace("\r", "\n")
    assert re.search(r"epoch 2/2: 100%.*loss=\d\.\d+, accuracy=0\.\d+", progress)
    assert (place / "digits.png").read_bytes().startswith(b"\x89PNG")
    arrays, data, states = result(place, 2)
    assert "model/layers/0/kernel" in arrays
    assert "optimizer/slots/m/model/layers/0/kernel" in arrays
    assert sorted(states) == [
        "dataset",
        "model/layers/3/generator",
        "model/layers/6/generator",
        "optimizer",
    ]
    assert len(data["history"]["value"]["test accuracy"]) == 2


@pytest.mark.slow
def test_resumed_run_ends_in_the_same_bits(straight, tmp_path):
    run(tmp_path, "--epochs", 1)
    assert result(tmp_path, 1) == result(straight[0], 1)
    done = run(tmp_path, "--epochs", 2, "--resume")
    assert done.stdout.startswith("resumed after epoch 1\n")
    assert done.stdout.splitlines()[-1] == straight[1].stdout.splitlines()[-1]
    assert result(tmp_path, 2) == result(straight[0], 2)
    again = run(tmp_path, "--epochs", 2, "--resume")
    assert again.stdout.splitlines()[-1] == straight[1].stdout.splitlines()[-1]


def killed(place, epochs, delay):
    """Starts a run, and kills it some time after its first checkpoint."""
    process = subprocess.Popen(
        command(place, "--epochs", epochs), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        deadline = time.monotonic() + 300
        while not (place / "checkpoints" / "ckpt-1").exists():
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.002)
        time.sleep(delay)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


@pytest.mark.slow
def test_killed_run_loses_nothing_that_was_finished(straight, tmp_path):
    killed(tmp_path, 2, 0.05)
    done = run(tmp_path, "--epochs", 2, "--resume")
    assert re.match(r"resumed after epoch [12]\n", done.stdout)
    assert result(tmp_path, 2) == result(straight[0], 2)


@pytest.mark.slow
def test_other_seed_is_not_resumed(straight):
    place, _ = straight
    done = subprocess.run(
        command(place, "--epochs", 2, "--resume", "--seed", 1), capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "had --seed 0" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_learns(tmp_path, seed):
    done = run(tmp_path, "--seed", seed)
    assert float(done.stdout.split()[-1]) >= 0.98


@pytest.mark.campaign
def test_killed_at_any_moment(tmp_path):
    whole = tmp_path / "whole"
    run(whole, "--epochs", 4)
    for number, delay in enumerate((0.0, 0.01, 0.3, 0.7, 1.1)):
        place = tmp_path / str(number)
        killed(place, 4, delay)
        run(place, "--epochs", 4, "--resume")
        assert result(place, 4) == result(whole, 4)
