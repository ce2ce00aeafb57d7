"""The numeric tests as other processors would run them, as far as this one can.

    uv run tests/processors.py --list
    uv run tests/processors.py
    uv run tests/processors.py --quick --only Prescott
    uv run tests/processors.py --all --only Nehalem+X86_V2+base
    uv run tests/processors.py --quick --sample COMMIT

What a sum is depends on the order of its terms, and that on the processor. Three things choose it:
the core type that OpenBLAS has loops for (OPENBLAS_CORETYPE), the level of NumPy's own loops
(NPY_DISABLE_CPU_FEATURES), and the set of instructions of the kernel pack `native`
(PULLBACK_NATIVE_ISA; "none" without the pack). Each is tried in a process of its own, so that the
list holds what this processor can do. The runs are a covering set: every value of each of the three
is in one of them. A run is named by its three values.

Where PyTorch is installed with its backend, `torch+avx2` and the like measure that, with the loops
of PyTorch (ATEN_CPU_CAPABILITY), of oneDNN and of MKL for such a processor.

With `--sample` there is one run, and in it a part of the pack's tests and of the checks of the
conformance kit, all drawn by a text: other ones for each commit.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shlex
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
CORES = ("Prescott", "Nehalem", "Sandybridge", "Haswell", "Zen", "SkylakeX")
#: NumPy's groups of features before which a level ends, in its older and its newer names.
ENDS = ("FMA3", "AVX2", "X86_V3", "AVX512F", "AVX512_SKX", "X86_V4")
PACK = "backends/native/tests"
#: What torch calls the sets of instructions of its loops, and oneDNN and MKL the same.
TORCH = {
    "default": ("SSE41", "SSE4_2"),
    "avx2": ("AVX2", "AVX2"),
    "avx512": ("AVX512_CORE", "AVX512"),
}
TORCH_TESTS = "backends/torch/tests/test_torch.py"
QUICK = (
    "tests/ops/test_linear_algebra.py",
    "tests/ops/test_elementwise_edges.py",
    "tests/ops/test_branch_points.py",
    "tests/ops/test_special_functions.py",
    "backends/numpy/tests",
)
FULL = (
    *QUICK,
    "tests/ops/test_ops.py",
    "tests/ops/test_wide_ranges.py",
    "tests/ops/test_bodies.py",
    "tests/ops/test_linear.py",
    "tests/tensors/test_shapes.py",
    "tests/tensors/test_random.py",
    "tests/autodiff/test_replay.py",
    "tests/layers/test_recurrent_layers.py",
    "tests/optimizers/test_optimizers.py",
    "tests/optimizers/test_optimizers_update.py",
)

# Run in children: what NumPy and the pack can do here, and whether OpenBLAS works as a core type.
LEVELS_AND_SETS = """
import json
import numpy
simd = numpy.show_config(mode="dicts").get("SIMD Extensions", {})
try:
    import pullback_native
    sets = list(getattr(pullback_native, "INSTRUCTION_SETS", ()))
except ImportError:
    sets = []
print(json.dumps([simd.get("baseline", []), simd.get("found", []), sets]))
"""
CORE = """
import ctypes
import numpy as np
x = np.random.default_rng(0).standard_normal((96, 96))
for kind in "fdFD":
    y = x.astype(kind)
    assert np.abs(np.linalg.solve(y, y @ y) - y).max() < 0.1
    np.linalg.svd(y), np.linalg.eigh(y @ y.T)
library = ctypes.CDLL(np._core._multiarray_umath.__file__)
for name in ("scipy_openblas_get_corename64_", "scipy_openblas_get_corename",
             "openblas_get_corename64_", "openblas_get_corename"):
    if hasattr(library, name):
        getattr(library, name).restype = ctypes.c_char_p
        print(getattr(library, name)().decode())
        break
"""
CAPABILITY = """
import pullback_torch, torch
print(torch.backends.cpu.get_cpu_capability())
"""


class Run(NamedTuple):
    """One processor to be: what OpenBLAS, NumPy and the pack take it for; or "torch" and its."""

    core: str
    level: str
    instructions: str = ""

    @property
    def name(self) -> str:
        return "+".join(filter(None, self))


class Machine(NamedTuple):
    """The levels of this processor, the least first."""

    #: Core types, and what OpenBLAS calls the loops that it takes for each.
    cores: dict[str, str]
    #: Levels of NumPy, and the features to switch off for each.
    levels: dict[str, tuple[str, ...]]
    instructions: tuple[str, ...]
    #: What torch can be told to have, and what it says then.
    torch: dict[str, str]

    def runs(self) -> list[Run]:
        """The covering set."""
        cores, levels = list(self.cores), list(self.levels)
        sets = self.instructions
        count = max(len(cores), len(levels), len(sets))
        own = [
            Run(cores[i % len(cores)], levels[i % len(levels)], sets[i % len(sets)])
            for i in range(count)
        ]
        return own + [Run("torch", level) for level in self.torch]

    def takes(self, run: Run) -> str:
        """The name that OpenBLAS or torch has for the loops that it takes."""
        return self.torch[run.level] if run.core == "torch" else self.cores[run.core]

    def chosen(self, names: Sequence[str]) -> list[Run]:
        """The runs that `names` mean: names of runs, or values, for all runs with one."""
        found: list[Run] = []
        for name in names:
            parts = name.split("+")
            if len(parts) == 3:
                run = Run(*parts)
                known = (run.core in self.cores, run.level in self.levels,
                         run.instructions in self.instructions)  # fmt: skip
                some = [run] if all(known) else []
            else:
                some = [run for run in self.runs() if set(parts) <= set(run)]
            if not some:
                raise SystemExit(
                    f"no run {name!r} on this processor; it has {', '.join(self.cores)} and "
                    f"{', '.join(self.levels)} and {', '.join(self.instructions)}"
                    f"{'; and torch+' * bool(self.torch)}{', torch+'.join(self.torch)}"
                )
            found += [run for run in some if run not in found]
        return found

    def environment(self, run: Run) -> dict[str, str]:
        """The environment that makes a process run as another processor would."""
        found = {}
        if run.core == "torch":
            names = ("ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS")
            return dict(zip(names, (run.level, *TORCH[run.level]), strict=True))
        if run.core != "default":
            found["OPENBLAS_CORETYPE"] = run.core
        if self.levels[run.level]:
            found["NPY_DISABLE_CPU_FEATURES"] = " ".join(self.levels[run.level])
        if run.instructions == "none":
            found["PULLBACK_KERNEL_PACKS"] = ""
        else:
            found["PULLBACK_NATIVE_ISA"] = run.instructions
        return found


def clean() -> dict[str, str]:
    """The environment without what a run sets."""
    ours = ("OPENBLAS_CORETYPE", "NPY_DISABLE_CPU_FEATURES", "NPY_ENABLE_CPU_FEATURES",
            "PULLBACK_NATIVE_ISA", "PULLBACK_KERNEL_PACKS", "ATEN_CPU_CAPABILITY",
            "ONEDNN_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS")  # fmt: skip
    return {name: value for name, value in os.environ.items() if name not in ours}


def child(code: str, **given: str) -> str | None:
    """The output of a Python process; None where it fails, or dies of an instruction."""
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=clean() | given
    )
    return None if found.returncode else found.stdout.strip()


def levels_of(baseline: Sequence[str], found: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The levels of NumPy's loops by the last feature of each, and what is off there.

    >>> levels_of(["SSE3"], ["SSE42", "FMA3", "AVX2"])
    {'SSE3': ('SSE42', 'FMA3', 'AVX2'), 'SSE42': ('FMA3', 'AVX2'), 'FMA3': ('AVX2',), 'AVX2': ()}
    """
    features = [*baseline[-1:], *found] if baseline else ["baseline", *found]
    ends = {0, len(found), *(i for i, name in enumerate(found) if name in ENDS)}
    return {features[i]: tuple(found[i:]) for i in sorted(ends)}


def machine() -> Machine:
    """Looks what this processor can do."""
    baseline, found, sets = json.loads(child(LEVELS_AND_SETS) or "[[], [], []]")
    cores: dict[str, str] = {}
    for name in CORES:
        took = child(CORE, OPENBLAS_CORETYPE=name)
        if took:  # nothing is printed where NumPy's BLAS is another one
            cores[name] = took
    told = {name: child(CAPABILITY, ATEN_CPU_CAPABILITY=name) for name in TORCH}
    # One that this processor lacks is not taken.
    torch = {name: said for name, said in told.items() if said and said.lower() == name}
    return Machine(
        cores or {"default": "default"}, levels_of(baseline, found), ("none", *sets), torch
    )


class Result(NamedTuple):
    """The result of one command of a run."""

    what: str
    passed: int
    failed: int
    #: The lines that say what failed.
    lines: tuple[str, ...]


def start(command: Sequence[str], environment: dict[str, str]) -> tuple[int, str]:
    """Runs a command from the root of the repository; its exit status and what it wrote."""
    found = subprocess.run(
        command, cwd=ROOT, env=environment, text=True, errors="replace",
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    return found.returncode, found.stdout


def by_pytest(what: str, given: Sequence[str], environment: dict[str, str]) -> Result:
    """Runs tests, and counts them."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=line", *given]
    code, text = start(command, environment)
    count = {word: int(n) for n, word in re.findall(r"(\d+) (passed|failed|errors?)", text[-500:])}
    failed = sum(n for word, n in count.items() if word != "passed")
    lines = [line for line in text.splitlines() if line.startswith(("FAILED", "ERROR"))]
    if code and not failed:  # it did not get to its end
        failed, lines = 1, [f"{what}: ended with status {code}", *text.splitlines()[-15:]]
    return Result(what, count.get("passed", 0), failed, tuple(lines))


def by_conform(backend: str, given: Sequence[str], environment: dict[str, str]) -> Result:
    """Measures the backend, and counts the checks."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "found.json"
        command = [sys.executable, "-m", "pullback", "conform", backend, "--json", str(path)]
        code, text = start([*command, *given], environment)
        if not path.exists():
            return Result("conform", 0, 1, (f"conform: status {code}", *text.splitlines()[-15:]))
        found = json.loads(path.read_text())
    lines = [
        f"conform {one['op']} [{one['sample']},{one['dtype']}] {one['check']}: {one['message']}"
        for one in found["failures"]
    ]
    passed, checks = found["total"]["passed"], found["total"]["checks"]
    return Result("conform", passed, max(checks - passed, int(not found["passed"])), tuple(lines))


def results(run: Run, here: Machine, args: argparse.Namespace) -> Iterator[Result]:
    """Runs everything as one processor would."""
    environment = clean() | here.environment(run)
    # By file: some tests draw from one generator, in their order.
    workers = ["-n", str(args.workers), "--dist", "loadfile"] if args.workers else []
    checks = ["--quick"] * args.quick + ["--jobs", str(max(args.workers, 1))]
    if args.sample:
        checks += ["--budget", "20s", "--seed", str(zlib.crc32(args.sample.encode()))]
    if run.core == "torch":
        yield by_pytest("tests", [*workers, TORCH_TESTS], environment)
        yield by_conform("torch", checks, environment)
        return
    suites = ("tests",) if args.all else QUICK if args.quick else FULL
    yield by_pytest("tests", [*workers, *suites], environment)
    if run.instructions != "none":
        # Where all floats are tried, all sets of instructions are, whatever the variable says.
        few = ["-k", "not over_all"] if args.quick else []
        tests = drawn(sorted(map(str, (ROOT / PACK).glob("test_*.py"))), args.sample)
        yield by_pytest("pack", [*workers, *few, *tests], environment)
    yield by_conform("numpy", checks, environment)


def sampled(runs: Sequence[Run], key: str) -> Run:
    """The same one for the same text."""
    return runs[zlib.crc32(key.encode()) % len(runs)]


def drawn(files: Sequence[str], key: str | None) -> list[str]:
    """A quarter of the files, the same ones for the same text; all of them without one.

    >>> len(drawn("abcdefgh", "1f2e3d")), len(drawn("abcdefgh", None))
    (2, 8)
    """
    return list(files) if key is None else random.Random(key).sample(files, -(-len(files) // 4))


def settings(run: Run, here: Machine) -> str:
    """The variables of a run, as a shell takes them."""
    return " ".join(f"{k}={shlex.quote(v)}" for k, v in here.environment(run).items())


def again(run: Run, here: Machine, quick: bool) -> str:
    """How to repeat a run, and one test of it."""
    needs = {"": "pullback-torch", "none": ""}.get(run.instructions, "pullback-native")
    pack = f" (where {needs} is installed)" * bool(needs)
    return (
        f"    again: uv run tests/processors.py{' --quick' * quick} --only {run.name}{pack}\n"
        f"    one test: {settings(run, here)} uv run pytest TEST"
    )


def main() -> int:
    """Prints a table; the exit status says whether everything passed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--list", action="store_true", help="say what would be run")
    add("--only", action="append", metavar="NAME", help="a run, or those with this value")
    add("--sample", metavar="KEY", help="a part of one run, drawn by this text (a commit)")
    add("--quick", action="store_true", help="a minute or two for each run")
    add("--all", action="store_true", help="all tests, not the numeric ones alone")
    add("--workers", type=int, default=0, help="for pytest's -n")
    args = parser.parse_args()
    here = machine()
    runs = here.chosen(args.only) if args.only else here.runs()
    if args.sample:
        runs = [sampled(runs, args.sample)]
    if args.list:
        print(*(f"{run.name:<34}{settings(run, here)}" for run in runs), sep="\n")
        return 0
    failures = 0
    print(f"{'run':<34}{'loops of':<14}{'what':<9}{'passed':>8}{'failed':>8}{'s':>7}")
    for run in runs:
        print(f"{run.name:<34}{here.takes(run):<14}{settings(run, here)}", flush=True)
        began = time.monotonic()
        wrong = 0
        for one in results(run, here, args):
            took = time.monotonic() - began
            began += took
            print(f"{'':<48}{one.what:<9}{one.passed:>8}{one.failed:>8}{took:>7.0f}", flush=True)
            print("".join(f"    {line}\n" for line in one.lines), end="", flush=True)
            wrong += one.failed
        if wrong:
            print(again(run, here, args.quick), flush=True)
        failures += wrong
    return int(failures > 0)


if __name__ == "__main__":
    raise SystemExit(main())
