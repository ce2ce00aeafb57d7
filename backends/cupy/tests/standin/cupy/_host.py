"""CUDA sources as functions of the host: compiled by g++ over `cuda_on_host.h`, kept on disk."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import subprocess
import tempfile
from pathlib import Path

_HEADER = Path(__file__).with_name("cuda_on_host.h")
#: `-ffp-contract=off`: results that do not depend on the processor that compiled them.
_COMPILER = ["g++", "-std=c++17", "-O1", "-w", "-fPIC", "-ffp-contract=off"]
_FOLDER = Path(tempfile.gettempdir()) / f"pullback-cupy-{os.getuid()}"


def _run(*arguments: str) -> None:
    done = subprocess.run([*_COMPILER, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"g++ {' '.join(arguments)}:\n{done.stderr[:4000]}")


@functools.cache
def _header() -> Path:
    """The folder of the header, compiled: it takes longer to read than any kernel."""
    text = _HEADER.read_bytes()
    folder = _FOLDER / hashlib.sha256(text).hexdigest()[:24]
    if not (folder / "cuda_on_host.h.gch").exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cuda_on_host.h").write_bytes(text)
        made = folder / f"{os.getpid()}.gch"
        _run("-x", "c++-header", str(folder / "cuda_on_host.h"), "-o", str(made))
        made.replace(folder / "cuda_on_host.h.gch")
    return folder


@functools.cache
def library(source: str) -> ctypes.CDLL:
    """The shared library of a source."""
    folder = _header()
    path = folder / f"{hashlib.sha256(source.encode()).hexdigest()[:24]}.so"
    if not path.exists():
        written = path.with_suffix(f".{os.getpid()}.cpp")
        written.write_text(source)
        made = written.with_suffix(".so")
        _run("-shared", "-include", str(folder / "cuda_on_host.h"), str(written), "-o", str(made))
        made.replace(path)
        written.unlink()
    return ctypes.CDLL(str(path))
