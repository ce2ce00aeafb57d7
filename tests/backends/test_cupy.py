"""The tests of the CuPy backend, in a process of their own.

Without a GPU they run on a stand-in for CuPy, which must not be seen by other tests. They need no
CuPy: the backend's CUDA sources are compiled for the host.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[2] / "backends" / "cupy" / "tests"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ here: install a C++ compiler")
@pytest.mark.parametrize("path", sorted(TESTS.glob("test_*.py")), ids=lambda path: path.stem)
def test_file(path):
    given = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--no-header", str(path)],
        cwd=TESTS.parents[2], env=given, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
