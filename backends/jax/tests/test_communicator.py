"""The communicator "jax" on processes, by XLA's collectives on processors."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
sys.path.append(str(ROOT / "tests/distributed"))
import on_ranks  # noqa: E402


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Runs a program on two ranks; their exit codes and what they print."""
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    path = tmp_path / "program.py"

    def run(program):
        path.write_text("import pullback as pb\n" + textwrap.dedent(program))
        return on_ranks.start(2, [sys.executable, str(path)], tmp_path, "jax", "pullback_jax")

    return run


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cpu", "jax:cpu"])
def test_conforms(device, start):
    """Every collective, dtype and layout, gradients, captured and eager."""
    found = start(f"""
        from pullback_conformance.communicators import check
        pb.distributed.init("jax")
        for title, problem in check((0, 7), device={device!r}):
            if problem:
                print("FAILED", title, problem)
    """)
    for code, shown in found:
        assert code == 0, shown
        assert "FAILED" not in shown, shown


def test_ranks_begin_alike_and_train_alike(start):
    found = start("""
        pb.distributed.init("jax")
        with pb.device("jax:cpu"):
            layers = [pb.layers.Dense(8, activation="tanh"), pb.layers.Dense(1)]
            model = pb.layers.Sequential(layers)
            x = pb.random.normal((8, 4))
            y = pb.sum(x, axis=1, keepdims=True)
            model.compile(pb.optimizers.SGD(0.1), "mean_squared_error", distributed=True)
            history = model.fit(x, y, batch_size=4, epochs=3, verbose=0)
        print("losses", history.history["loss"])
    """)
    losses = [line for _, shown in found for line in shown.splitlines() if line[:6] == "losses"]
    assert [code for code, _ in found] == [0, 0], found
    assert len(losses) == 2
    assert losses[0] == losses[1]


def test_tensors_of_jax_before_it_are_an_error_that_says_so(start):
    found = start("""
        pb.ones(3, device="jax:cpu") + 1
        pb.distributed.init("jax")
    """)
    assert all(code for code, _ in found)
    assert "call pb.distributed.init() before the first tensor of JAX" in found[0][1]


def test_one_process_needs_no_launcher():
    code = "from pullback_jax.communicator import JaxCommunicator as C; print(C().size)"
    kept = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE")}
    kept["PYTHONPATH"] = os.pathsep.join(sys.path)
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=kept)
    assert found.stdout == "1\n", found.stderr
