"""The CUDA sources, through nvcc: for every architecture that it and the backend know."""

import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from pullback_cupy import compile as compiling
from pullback_cupy import fused_ops, kernels

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


def code_of(path):
    """The machine code of each kernel of a cubin, an ELF file."""
    content = path.read_bytes()
    [begin] = struct.unpack_from("<Q", content, 0x28)
    count, names = struct.unpack_from("<HH", content, 0x3C)
    headers = [struct.unpack_from("<IIQQQQ", content, begin + 64 * i) for i in range(count)]
    found = {}
    for name, _, _, _, start, size in headers:
        first = headers[names][4] + name
        text = content[first : content.index(b"\0", first)].decode()
        if text.startswith(".text."):
            found[text.removeprefix(".text.")] = content[start : start + size]
    return found


@needs_nvcc
@pytest.mark.parametrize("arch", [80, 90])
def test_functions_have_the_same_code_in_fused_kernels(arch, tmp_path):
    # CuPy compiles its own with contraction of a * b + c, fused kernels are compiled without.
    two = ("atan2", "hypot")
    lines = [
        f'extern "C" __global__ void {name}_{type_}(const {type_}* x, const {type_}* z, {type_}* y)'
        f"{{ *y = {name}(*x{', *z' if name in two else ''}); }}"
        for name in (*fused_ops.SAME_NAME, *two)
        for type_ in ("float", "double")
    ]
    (tmp_path / "all.cu").write_text("\n".join(lines))
    found = []
    for fmad in ("true", "false"):
        path = tmp_path / f"{fmad}.cubin"
        command = [NVCC, *compiling.OPTIONS, "-ftz=true", f"--fmad={fmad}", f"-arch=sm_{arch}"]
        subprocess.run([*command, "-cubin", "-o", path, tmp_path / "all.cu"], check=True)
        found.append(code_of(path))
    with_contraction, without = found
    assert len(without) == len(lines)
    differ = {name for name, code in without.items() if with_contraction[name] != code}
    assert differ == {f"{name}_double" for name in fused_ops.CONTRACTED}


@needs_nvcc
def test_functions_of_fused_kernels_compile(tmp_path):
    assert not compiled(sources.functions(), known()[-1:], tmp_path)


@pytest.mark.parametrize("file", sources.FILES)
def test_every_kernel_of_a_file_is_started_somewhere(file):
    text = compiling.text_of(f"{file}.cu")
    code = "\n".join(path.read_text() for path in Path(kernels.__file__).parent.glob("*.py"))
    for name in re.findall(r"^KERNEL\((\w+)\)", text, re.M):
        # bits32 and bits64 are put together.
        assert f'"{name}"' in code or name.startswith("bits"), name
