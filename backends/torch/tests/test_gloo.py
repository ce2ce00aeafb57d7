"""The communicator "gloo" on processes that torchrun, mpiexec and `pullback launch` start."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
sys.path.append(str(ROOT / "tests/distributed"))
import on_ranks  # noqa: E402

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PULLBACK_COMMUNICATOR": "gloo"}
LIMIT = 5.0


def start(ranks, program, *arguments, by=None):
    """Runs a program on ranks, by torchrun, or below `pullback launch --by` it."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks)]
    torchrun += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"]
    command = [*torchrun, str(program), *arguments]
    if by:
        command = [sys.executable, "-P", "-m", "pullback", "launch", "--communicator", "gloo"]
        command += ["--by", " ".join([*torchrun, "--no-python"]), str(program), *arguments]
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=240,
        env=ENVIRONMENT,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cpu", "torch:cpu"])
def test_conforms(device, tmp_path):
    """Every dtype, size and layout, gradients, captured and eager."""
    path = tmp_path / "conform.py"
    path.write_text(
        "import sys\n"
        "from pullback_conformance.cli import communicators as c\n"
        "import pullback as pb\n"
        "pb.distributed.init('gloo')\n"
        f"sys.exit(c._checked('gloo', {device!r}))\n"
    )
    found = start(2, path)
    assert found.returncode == 0, found.stdout + found.stderr
    assert "136 of 136 checks pass" in found.stdout


@pytest.mark.slow
@pytest.mark.parametrize("model", ["mlp", "cnn", "transformer"])
@pytest.mark.parametrize("sums", ["exact", "plain"])
def test_training_is_that_of_one_process(model, sums):
    on_ranks.check_training(start, model, sums)


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 4])
def test_exact_sums_have_the_bits_of_one_process_that_adds_pieces_in_pairs(ranks):
    on_ranks.check_pieces(start, ranks)


@pytest.mark.slow
def test_checkpoints_that_ranks_write_together(tmp_path):
    on_ranks.check_checkpoints(start, tmp_path / "saved")


FAILURES = {
    "raise ValueError('bad')": "ValueError: bad",
    "os._exit(0)": "ended while others wait for it",
    "os.kill(os.getpid(), 9)": "killed by SIGKILL",
    "os.kill(os.getpid(), 19)": "stood still",
}


@pytest.mark.slow
@pytest.mark.parametrize("code", FAILURES)
def test_a_failure_ends_all(code, tmp_path):
    path = tmp_path / "program.py"
    path.write_text(
        textwrap.dedent(f"""
        import os, sys, time
        import pullback as pb
        pb.distributed.init()
        x = pb.asarray([1.0, 2.0])
        pb.distributed.all_reduce(x)
        print("began", time.time(), flush=True)
        if pb.distributed.rank() == 1:
            {code}
        for _ in range(1_000_000):
            pb.distributed.all_reduce(x)
        """)
    )
    found = start(2, path, by="torchrun")
    ended = time.time()
    shown = found.stdout + found.stderr
    assert found.returncode != 0, shown
    began = max(float(line.split()[1]) for line in shown.splitlines() if line[:5] == "began")
    assert ended - began < LIMIT, shown
    last = found.stderr.splitlines()[-1]
    assert last.startswith("pullback: rank 1 on ")
    assert FAILURES[code] in last


def test_one_process_needs_no_launcher():
    code = "import pullback as pb; pb.distributed.init('gloo'); print(pb.distributed.size())"
    clean = {name: ENVIRONMENT[name] for name in ENVIRONMENT.keys() - {"WORLD_SIZE", "RANK"}}
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=clean)
    assert found.stdout == "1\n", found.stderr


def test_ranks_need_an_address():
    code = "import pullback as pb; pb.distributed.init('gloo')"
    kept = ENVIRONMENT.keys() - {"MASTER_ADDR", "MASTER_PORT"}
    named = {**{name: ENVIRONMENT[name] for name in kept}, "RANK": "0", "WORLD_SIZE": "2"}
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=named)
    assert "MASTER_ADDR and MASTER_PORT" in found.stderr


@pytest.mark.slow
def test_actors_of_ray_are_ranks():
    path = ROOT / "examples/ray_actors.py"
    found = subprocess.run(
        [sys.executable, str(path), "--ranks", "2"], capture_output=True, text=True, timeout=240
    )
    assert found.returncode == 0, found.stderr
    assert "alike on all ranks: True" in found.stdout
    losses = [float(number) for number in found.stdout.splitlines()[0].split()[1:]]
    assert losses[-1] < 0.3 * losses[0]


NUMBERS = (
    ("RANK", "WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
)


@pytest.mark.slow
@pytest.mark.parametrize("names", NUMBERS)
def test_numbers_come_from_launchers(names, tmp_path):
    code = (
        "import pullback as pb; pb.distributed.init('gloo'); "
        "print(pb.distributed.rank(), pb.distributed.all_reduce(1.0).item())"
    )
    clean = {name: ENVIRONMENT[name] for name in ENVIRONMENT.keys() - {"RANK", "WORLD_SIZE"}}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True,
            env={**clean, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
                 names[0]: str(rank), names[1]: "2"},
        )
        for rank in range(2)
    ]  # fmt: skip
    assert [rank.communicate(timeout=120)[0] for rank in ranks] == ["0 2.0\n", "1 2.0\n"]
