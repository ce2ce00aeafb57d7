"""Compiles the loops. All else about the package is in pyproject.toml."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.errors import CompileError, PlatformError

HERE = Path(__file__).parent
SOURCES = sorted(str(path.relative_to(HERE)) for path in (HERE / "c").glob("*.c"))
HEADERS = sorted(str(path.relative_to(HERE)) for path in (HERE / "c").glob("*.h"))
# Texts of C that fused kernels are compiled from, where the pack runs.
TEXTS = ("math32.h", "near32.h", "elements.inc.h")
# Loops become vectors, and infinities and NaN are kept: errno and floating-point flags are not
# read, and sums are reordered only where a loop asks for it. Python's own flags ask for information
# for debuggers, which is three quarters of the file.
FLAGS = [
    "-std=gnu11",
    "-O3",
    "-g0",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fopenmp-simd",
    "-pthread",
]


class BuildPackage(build_py):
    """Adds texts of C to the package; an editable install reads them where they are."""

    def run(self) -> None:
        """Copies the package and the texts."""
        super().run()
        if not self.editable_mode:
            target = Path(self.build_lib) / "pullback_native" / "c"
            target.mkdir(parents=True, exist_ok=True)
            for name in TEXTS:
                self.copy_file(str(HERE / "c" / name), str(target / name))


class BuildLoops(build_ext):
    """Compiles a file on each processor, and reports what is missing if compiling fails."""

    def build_extensions(self) -> None:
        """Compiles and links."""
        one_by_one = self.compiler.compile
        workers = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count()

        def compile_all(sources: list[str], **options: Any) -> list[str]:
            with ThreadPoolExecutor(workers) as pool:
                each = pool.map(lambda source: one_by_one([source], **options), sources)
                return [path for paths in each for path in paths]

        self.compiler.compile = compile_all
        try:
            super().build_extensions()
        except (CompileError, PlatformError, FileNotFoundError) as error:
            raise SystemExit(
                f"pullback-native is written in C, and compiling it failed: {error}\n"
                "It needs GCC or Clang (on Debian: apt install gcc libc6-dev) and the headers of "
                f"Python {sys.version_info.major}.{sys.version_info.minor}. pullback-numpy works "
                "without this package."
            ) from error


setup(
    ext_modules=[
        Extension(
            "pullback_native._native",
            SOURCES,
            include_dirs=[np.get_include()],
            depends=HEADERS,
            extra_compile_args=[] if sys.platform == "win32" else FLAGS,
            extra_link_args=[] if sys.platform == "win32" else ["-pthread"],
        )
    ],
    cmdclass={"build_py": BuildPackage, "build_ext": BuildLoops},
)
