"""Checks the types of core, the bodies of its ops among them.

    uv run tools/check_types.py [FILES AND FOLDERS]

A type checker that finds a stub beside a module reads the stub alone, for the module's own lines
too. So the definitions in `pullback/ops` are checked once more, under another name, from a copy
without stubs: there they import each other's stubs, as everybody else does.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OPS = ROOT / "core/src/pullback/ops"
COPY = ROOT / "build/types"
PACKAGE = "op_definitions"


def copy_definitions() -> None:
    """Copies the modules of the ops without their stubs; mypy caches by time, which is kept."""
    shutil.rmtree(COPY, ignore_errors=True)
    ignored = shutil.ignore_patterns("*.pyi", "__pycache__")
    shutil.copytree(OPS, COPY / PACKAGE, ignore=ignored)


def main() -> int:
    """Runs mypy over the copy, and over what the command names, core if it names nothing."""
    copy_definitions()
    checked = sys.argv[1:] or ["core/src"]
    command = [sys.executable, "-m", "mypy", "--strict", *checked, str(COPY)]
    environment = {**os.environ, "MYPYPATH": str(COPY)}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    copied = (COPY / PACKAGE).relative_to(ROOT).as_posix()
    print(done.stdout.replace(copied, OPS.relative_to(ROOT).as_posix()), end="")
    print(done.stderr, end="", file=sys.stderr)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
