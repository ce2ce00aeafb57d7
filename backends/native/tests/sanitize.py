"""The pack's tests and its fuzz under the compiler's sanitizers.

    python backends/native/tests/sanitize.py                # addresses and undefined behaviour
    python backends/native/tests/sanitize.py --thread       # data races
    python backends/native/tests/sanitize.py --calls 20000 --seed 7 --no-tests

Compiles the sources anew into a folder that is thrown away, with GCC or Clang, and runs Python with
the sanitizer's library loaded first. Exits with the first status that is not 0. Unknown arguments
are passed to pytest: `-k softmax`.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

PACK = Path(__file__).parents[1]
#: As in setup.py, but without -O3, which takes long to compile under a sanitizer.
FLAGS = ["-std=gnu11", "-O1", "-g", "-fno-omit-frame-pointer", "-fno-math-errno",
         "-fno-trapping-math", "-fopenmp-simd", "-pthread", "-fPIC"]  # fmt: skip
#: Leaves out tests that cannot run here: tables of the sanitizer fill the address space.
NOT_FOR_IT = "not address_space and not sanitizer"
KINDS = {
    "address": (
        ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
        "libasan.so",
        {
            # Python frees some memory only at exit, so leaks are no error. The quarantine is small
            # and failed allocations return NULL: tests count memory, and ask for too much of it.
            "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:quarantine_size_mb=16",
            "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
        },
    ),
    # Python and NumPy are not instrumented, but their locks are intercepted; OpenBLAS's threads
    # wait for each other in assembly code, which is not. Tests fork while threads run, and ask for
    # too much memory.
    "thread": (
        ["-fsanitize=thread"],
        "libtsan.so",
        {
            "TSAN_OPTIONS": "halt_on_error=1:exitcode=66:die_after_fork=0:"
            "allocator_may_return_null=1",
            "OPENBLAS_NUM_THREADS": "1",
        },
    ),
}


def compiled(flags: list[str], folder: Path) -> Path:
    """Compiles the pack with these flags below `folder`; returns the folder to import it from."""
    compiler = shlex.split(os.environ.get("CC", "gcc"))
    include = [f"-I{sysconfig.get_path('include')}", f"-I{np.get_include()}"]
    source = folder / "src"
    shutil.copytree(PACK / "src", source, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    shutil.copytree(PACK / "c", folder / "c")

    def compile_one(path: Path) -> str:
        made = folder / f"{path.stem}.o"
        command = [*compiler, *FLAGS, *flags, *include, "-c", str(path), "-o", str(made)]
        subprocess.run(command, check=True)
        return str(made)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = list(pool.map(compile_one, sorted((PACK / "c").glob("*.c"))))
    library = source / "pullback_native" / f"_native{sysconfig.get_config_var('EXT_SUFFIX')}"
    command = [*compiler, "-shared", "-pthread", *flags, *objects, "-lm", "-o", str(library)]
    subprocess.run(command, check=True)
    return source


def library(name: str) -> str:
    """The path of a library of the compiler."""
    command = [*shlex.split(os.environ.get("CC", "gcc")), f"-print-file-name={name}"]
    found = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    return str(Path(found).resolve())


def main() -> int:
    """Runs the fuzz and the tests; returns the first status that is not 0."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--thread", action="store_true", help="look for data races")
    parser.add_argument("--calls", type=int, default=2000, help="of the fuzz")
    parser.add_argument("--seed", type=int, default=0, help="of the fuzz")
    parser.add_argument("--tests", action=argparse.BooleanOptionalAction, default=True)
    options, rest = parser.parse_known_args()
    flags, name, settings = KINDS["thread" if options.thread else "address"]
    with tempfile.TemporaryDirectory() as folder:
        source = compiled(flags, Path(folder))
        environment = {
            **os.environ,
            **settings,
            # C++ in NumPy throws through the sanitizer, which has to find the library beforehand.
            "LD_PRELOAD": f"{library(name)} {library('libstdc++.so')}",
            "PYTHONPATH": os.pathsep.join([str(source), os.environ.get("PYTHONPATH", "")]),
            "PYTHONMALLOC": "malloc",  # so that small objects are watched too
        }
        fuzz = [
            str(PACK / "tests" / "fuzz.py"),
            f"--calls={options.calls}",
            f"--seed={options.seed}",
        ]
        tests = ["-m", "pytest", "-q", "-k", NOT_FOR_IT, str(PACK / "tests"), *rest]
        for arguments in [fuzz, *([tests] if options.tests else [])]:
            status = subprocess.run([sys.executable, *arguments], env=environment).returncode
            if status:
                return status
    return 0


if __name__ == "__main__":
    sys.exit(main())
