"""`tests/gpu/run`: its arguments, its refusal, its report, and one part run on the stand-in."""

import importlib.machinery
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pullback_cupy import driver

ROOT = Path(__file__).resolve().parents[3]
RUN = ROOT / "tests" / "gpu" / "run"


@pytest.fixture
def program():
    """The command as a module."""
    loader = importlib.machinery.SourceFileLoader("gpu_run", str(RUN))
    spec = importlib.util.spec_from_loader("gpu_run", loader)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def test_it_refuses_where_there_is_no_gpu(standin):
    done = subprocess.run(
        [sys.executable, str(RUN)], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 2
    assert done.stderr == f"tests/gpu/run: {driver.problem()}. Nothing was run.\n"
    assert not done.stdout


def test_it_says_what_the_python_lacks(program, monkeypatch):
    monkeypatch.setattr(program, "NEEDED", ("json", "no_such_module"))
    monkeypatch.setattr(program, "DRIVER", Path(__file__).with_name("no_problem.py"))
    assert "lacks no_such_module; run with another Python" in program.problem()


def test_arguments(program, capsys):
    given = program.arguments(["--only", "parity, copies", "--quick"])
    assert given.only == ["parity", "copies"]
    assert program.arguments([]).only == list(program.SECTIONS)
    with pytest.raises(SystemExit):
        program.arguments(["--only", "speed"])
    assert "there is no section speed; there are tests, conformance" in capsys.readouterr().err


def test_every_section_has_its_program(program, tmp_path):
    given = program.arguments(["--quick", "--torch-python", "t", "--jax-python", "j"])
    for section in program.SECTIONS:
        for python, *rest in program.command(section, given, tmp_path / "found.json"):
            assert python in (sys.executable, "t", "j")
            named = [one for one in rest if one.endswith((".py", "tests"))]
            assert named, section
            assert all(Path(one).exists() for one in named)


def test_the_report(program, tmp_path, monkeypatch, standin):
    paths = os.pathsep.join(str(ROOT / one) for one in ("backends/cupy/tests/standin",))
    monkeypatch.setenv("PYTHONPATH", paths)
    given = program.arguments(["--quick", "--output", str(tmp_path / "results")])
    part = program.run("copies", given, tmp_path / "copies.json")
    assert part["passed"], part["words"]
    failed = {"passed": False, "seconds": 1.5, "words": "what went wrong", "values": {}}
    found = {
        "date": "2026-01-02",
        "machine": "a GPU",
        "sections": {"copies": part, "tests": failed},
    }
    path = program.write(found, given.output, found["date"])
    assert path.name == "2026-01-02-gpu.md"
    text = path.read_text()
    assert "| copies | yes |" in text
    assert "| tests | NO | 1.5 |" in text
    assert "what went wrong" in text
    assert json.loads(path.with_suffix(".json").read_text())["machine"] == "a GPU"


def test_fused_kernels_and_graphs_are_compared_and_timed(program, tmp_path, monkeypatch, standin):
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "backends/cupy/tests/standin"))
    given = program.arguments(["--quick"])
    part = program.run("fusion", given, tmp_path / "fusion.json")
    assert part["passed"], part["words"]
    table = "\n".join(part["values"]["table"])
    assert "| random groups, float32 |" in table
    assert "| op by op | captured | fused | CUDA graph |" in table
