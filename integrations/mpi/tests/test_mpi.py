"""The communicator on processes that mpiexec starts. Runs in an environment with mpi4py and MPI."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from pullback.cli.launch import launcher

sys.path.append(str(Path(__file__).parents[3] / "tests/distributed"))
import on_ranks

#: What a failure may take until all ranks have ended, beside the start of Python.
LIMIT = 5.0


def start(ranks, program, *arguments):
    """Runs a program on ranks, and returns the finished process."""
    return subprocess.run(
        [launcher(), "-n", str(ranks), sys.executable, "-P", str(program), *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PULLBACK_COMMUNICATOR": "mpi"},
    )


@pytest.fixture
def program(tmp_path):
    def write(text):
        path = tmp_path / "program.py"
        path.write_text(textwrap.dedent(text))
        return path

    return write


@pytest.mark.parametrize("ranks", [2, 3])
def test_conforms(ranks):
    command = [sys.executable, "-P", "-m", "pullback", "conform", "--communicator", "mpi"]
    found = subprocess.run(
        [*command, "-n", str(ranks)], capture_output=True, text=True, timeout=500
    )
    assert found.returncode == 0, found.stdout + found.stderr
    assert "136 of 136 checks pass" in found.stdout


def test_one_process_needs_no_launcher(program):
    path = program("""
        import pullback as pb
        pb.distributed.init("mpi")
        print(pb.distributed.size(), pb.distributed.all_reduce([2.0]).tolist())
    """)
    found = subprocess.run([sys.executable, "-P", str(path)], capture_output=True, text=True)
    assert found.stdout == "1 [2.0]\n"


FAILURES = {
    "raise": ("raise ValueError('bad')", "ValueError: bad"),
    "exit": ("raise SystemExit(0)", "rank 1 has ended"),
    "mismatch": ("pb.distributed.broadcast(x)", "rank 1 calls broadcast"),
    "shape": ("pb.distributed.all_reduce(x[:1])", "float32[1]"),
    "kill": ("os.kill(os.getpid(), 9)", "KILLED BY SIGNAL: 9|Killed"),
}


@pytest.mark.parametrize("kind", FAILURES)
def test_a_failure_ends_all(kind, program):
    code, words = FAILURES[kind]
    path = program(f"""
        import os, sys, time
        import pullback as pb
        pb.distributed.init()
        x = pb.asarray([1.0, 2.0])
        pb.distributed.all_reduce(x)
        os.write(2, f"began {{time.time()}}\\n".encode())  # at once: ranks write one stream
        if pb.distributed.rank() == 1:
            {code}
        for _ in range(100_000):
            pb.distributed.all_reduce(x)
    """)
    found = start(3, path)
    assert found.returncode != 0
    shown = found.stdout + found.stderr
    began = max(map(float, re.findall(r"began (\d+\.\d+)", shown)))
    assert time.time() - began < LIMIT
    assert any(word in shown for word in words.split("|")), shown
    if kind != "kill":
        # Anywhere in a line: mpiexec forwards the output of ranks in pieces.
        lines = re.findall("pullback: rank.*", shown)
        assert lines
        assert all("all ranks end" in line for line in lines)


@pytest.mark.parametrize("model", ["mlp", "cnn", "transformer"])
@pytest.mark.parametrize("sums", ["exact", "plain"])
def test_training_is_that_of_one_process(model, sums):
    on_ranks.check_training(start, model, sums)


@pytest.mark.parametrize("ranks", [2, 4])
def test_exact_sums_have_the_bits_of_one_process_that_adds_pieces_in_pairs(ranks):
    on_ranks.check_pieces(start, ranks)


def test_checkpoints_that_ranks_write_together(tmp_path):
    on_ranks.check_checkpoints(start, tmp_path / "saved")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_one_rank_saves_and_ends_all(number, program, tmp_path):
    path = program(f"""
        import os, time
        import numpy as np
        import pullback as pb
        pb.distributed.init()
        x, y = np.ones((64, 4), "float32"), np.zeros(64, int)
        model = pb.Sequential([pb.layers.Dense(3)])
        model.compile("adam", "sparse_softmax_cross_entropy", distributed=True)

        class Asks(pb.callbacks.Callback):
            def on_train_batch_end(self, batch, logs):
                if self.run.total == 150 and pb.distributed.rank() == 1:
                    os.kill(os.getpid(), {int(number)})

        save = pb.callbacks.Checkpoint({str(tmp_path / "saved")!r}, resume=True, every_epochs=10**6)
        model.fit(x, y, batch_size=16, epochs=10**6, callbacks=[Asks(), save], verbose=False)
    """)
    begin = time.monotonic()
    found = start(2, path)
    assert found.returncode == 130, found.stderr
    assert time.monotonic() - begin < 60
    assert "interrupted after epoch 38, step 2" in found.stderr
    assert [entry.name for entry in (tmp_path / "saved").iterdir() if "150" in entry.name]
