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
_COMPILER = ["g++", "-std=c++17", "-O1", "-w", "-shared", "-fPIC", "-ffp-contract=off"]
_FOLDER = Path(tempfile.gettempdir()) / f"pullback-cupy-{os.getuid()}"


@functools.cache
def library(source: str) -> ctypes.CDLL:
    """The shared library of a source."""
    text = f'#include "{_HEADER}"\n{source}'
    digest = hashlib.sha256((text + _HEADER.read_text()).encode()).hexdigest()[:24]
    path = _FOLDER / f"{digest}.so"
    if not path.exists():
        _FOLDER.mkdir(exist_ok=True)
        written = path.with_suffix(f".{os.getpid()}.cpp")
        written.write_text(text)
        made = written.with_suffix(".so")
        done = subprocess.run(
            [*_COMPILER, str(written), "-o", str(made)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{written}:\n{done.stderr[:4000]}")
        made.replace(path)
        written.unlink()
    return ctypes.CDLL(str(path))
