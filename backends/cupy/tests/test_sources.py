"""The CUDA sources, through nvcc: for every architecture that it and the backend know."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pullback_cupy import compile as compiling
from pullback_cupy import kernels

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
import sources  # noqa: E402

WANTED = (70, 75, 80, 86, 89, 90)
NVCC = shutil.which("nvcc")
needs_nvcc = pytest.mark.skipif(NVCC is None, reason="no nvcc here: install CUDA's toolkit")


def known():
    """The wanted architectures that nvcc compiles for. (CUDA 13 has dropped 70.)"""
    listed = subprocess.run([NVCC, "--list-gpu-arch"], capture_output=True, text=True, check=True)
    there = set(map(int, re.findall(r"compute_(\d+)", listed.stdout)))
    return [arch for arch in WANTED if arch in there]


def compiled(text, arches, folder):
    """Compiles a source for each architecture to machine code; the compiler's complaints."""
    path = folder / "all.cu"
    path.write_text(text)
    chosen = [f"-gencode=arch=compute_{one},code=sm_{one}" for one in arches]
    command = [NVCC, *compiling.OPTIONS, "-fatbin", *chosen, "-o", str(folder / "all"), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr if done.returncode else ""


@needs_nvcc
def test_files_compile(tmp_path):
    assert not compiled(sources.files(["bfloat16"]), known()[-1:], tmp_path)


@needs_nvcc
def test_expressions_compile(tmp_path, standin):
    assert not compiled(sources.expressions(standin, ["float16"]), known()[-1:], tmp_path)


@needs_nvcc
@pytest.mark.slow
def test_files_compile_for_every_architecture(tmp_path):
    assert known()[-1] == 90
    assert not compiled(sources.files(), known(), tmp_path)


@needs_nvcc
@pytest.mark.slow
def test_expressions_compile_for_every_architecture(tmp_path, standin):
    assert not compiled(sources.expressions(standin), known(), tmp_path)


@pytest.mark.parametrize("file", sources.FILES)
def test_every_kernel_of_a_file_is_started_somewhere(file):
    text = compiling.text_of(f"{file}.cu")
    code = "\n".join(path.read_text() for path in Path(kernels.__file__).parent.glob("*.py"))
    for name in re.findall(r"^KERNEL\((\w+)\)", text, re.M):
        # bits32 and bits64 are put together.
        assert f'"{name}"' in code or name.startswith("bits"), name
