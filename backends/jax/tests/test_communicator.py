"""The communicator "jax" on processes, by XLA's collectives on processors."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
sys.path.append(str(ROOT / "tests/distributed"))
import on_ranks  # noqa: E402


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Runs the parts of a program on two ranks; their exit codes and what they print."""
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    path = tmp_path / "program.py"

    def run(*parts):
        path.write_text("import pullback as pb\n" + "".join(map(textwrap.dedent, parts)))
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
    on_ranks.check_alike(start('pb.distributed.init("jax")\n', on_ranks.trained_on("jax:cpu")))


def test_tensors_of_jax_before_it_are_an_error_that_says_so(start):
    found = start("""
        pb.ones(3, device="jax:cpu") + 1
        pb.distributed.init("jax")
    """)
    assert all(code for code, _ in found)
    assert "call pb.distributed.init() before the first tensor of JAX" in found[0][1]


def test_one_process_needs_no_launcher():
    on_ranks.check_alone("pullback_jax.communicator.JaxCommunicator")
