"""The communicator "nccl" on processes, which share the stand-in's one device."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

import pytest

from pullback_cupy import driver

HERE = Path(__file__).parent
sys.path.append(str(HERE.parents[2] / "tests" / "gpu"))
import ranks  # noqa: E402
from ranks import on_ranks  # noqa: E402

#: Ranks as torchrun numbers them; CuPy's driver is that of the stand-in.
BEGIN = """
import sys
from pullback_cupy import driver
driver.problem = lambda: None
import pullback as pb
from pullback_cupy import CuPyBackend
pb.register_backend(CuPyBackend(), replace=True)
pb.distributed.init("nccl")
"""


@pytest.fixture
def start(tmp_path, monkeypatch, standin):
    """Runs the rest of a program on ranks; their exit codes and what they print."""
    path = tmp_path / "program.py"
    monkeypatch.syspath_prepend(HERE / "standin")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")

    def run(program):
        path.write_text(BEGIN + textwrap.dedent(program))
        return on_ranks.start(2, [sys.executable, str(path)], tmp_path, "nccl", "pullback_cupy")

    return run


SMALL = """
from pullback_conformance.communicators import check
failed = [
    f"{title}: {problem}" for title, problem in check((0, 1, 7, 1000), device=sys.argv[-1])
    if problem
]
print(*failed, sep="\\n")
"""


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cpu", "cupy:gpu"])
def test_conforms(start, device):
    """Every collective, dtype and layout, gradients, captured and eager."""
    for code, output in start(f"sys.argv.append({device!r})\n" + SMALL):
        assert (code, output.strip()) == (0, "")


def test_ranks_begin_alike_and_train_alike(start):
    on_ranks.check_alike(start(on_ranks.trained_on("cupy:gpu")))


def test_different_calls_are_an_error_that_names_both(start):
    found = start("pb.distributed.all_reduce(pb.ones(2 + pb.distributed.rank()))")
    assert all(code for code, _ in found)
    assert "but rank 1 " in found[0][1]


def test_one_process_needs_neither_launcher_nor_gpu():
    on_ranks.check_alone("pullback_cupy.communicator.NCCLCommunicator", str(HERE.parent / "src"))


def test_the_program_for_a_gpu(tmp_path, monkeypatch, standin):
    """`tests/gpu/ranks.py` with one rank, as a machine with one GPU runs it."""
    monkeypatch.setattr(driver, "problem", lambda: None)
    monkeypatch.setenv("RANK", "0")
    for name, value in on_ranks.meeting(1).items():
        monkeypatch.setenv(name, value)
    assert ranks.check_alone() == []
