"""Times an op, a gradient and a process beside plain NumPy, and beside PyTorch and JAX.

    uv run benchmarks/overhead.py
    uv run benchmarks/overhead.py --torch-python ~/torch-env/bin/python --json overhead.json

NumPy and pullback run in this process, PyTorch and JAX in one of their own, where they can be
imported. All take turns: every round times a block of each case with each of them, and the medians
over the rounds are printed. A difference is the median of the differences within a round. The bars
are what the project holds itself to; nothing here fails when one is missed.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

from overhead_cases import BUILDERS

#: What is timed, in the order of the table.
NAMES = {
    "add": "add 10x10",
    "add recorded": "add 10x10, recorded",
    "matmul": "matmul 10x10",
    "matmul recorded": "matmul 10x10, recorded",
    "chain": "((x*2+1)*x).sum()",
    "chain gradient": "the same with its gradient",
    "linear fit": "linear fit, one step",
}
#: Microseconds that pullback may take: more than NumPy does, or in all.
BARS = {
    "add": ("difference", 0.8),
    "add recorded": ("difference", 1.5),
    "chain gradient": ("time", 20.0),
}
IMPORT_BAR = 0.050
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


# ---------------------------------------------------------------------------------------------
# Timing.


class Here:
    """A framework in this process."""

    def __init__(self, framework: str, clock: str) -> None:
        self.clock = CLOCKS[clock]
        self.cases = BUILDERS[framework]()
        self.names = list(self.cases)

    def seconds(self, case: str, n: int) -> float:
        block = self.cases[case]
        begin = self.clock()
        block(n)
        return self.clock() - begin


class There:
    """A framework in a process of its own, which runs this file with --worker."""

    def __init__(self, framework: str, clock: str, python: str) -> None:
        command = [python, __file__, "--worker", framework]
        command += ["--cpu-time"] if clock == "cpu" else []
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.to: Any = self.process.stdin
        self.back: Any = self.process.stdout
        line = self.back.readline()
        if not line:
            raise SystemExit(f"{framework} did not start with {python}")
        self.names: list[str] = json.loads(line)

    def seconds(self, case: str, n: int) -> float:
        print(json.dumps([case, n]), file=self.to, flush=True)
        return float(self.back.readline())

    def close(self) -> None:
        self.to.close()
        self.process.wait()


def worker(framework: str, clock: str) -> None:
    """Serves a `There`."""
    here = Here(framework, clock)
    print(json.dumps(here.names), flush=True)
    for line in sys.stdin:
        print(here.seconds(*json.loads(line)), flush=True)


def loops(runner: Here | There, case: str, seconds: float) -> int:
    """The number of times that a case runs in about `seconds`."""
    # The first calls compile code and fill tables, here and in the others.
    runner.seconds(case, 20)
    n = 1
    while (took := runner.seconds(case, n)) < seconds / 2:
        n *= 2
    return max(1, round(n * seconds / took))


def time_cases(
    runners: dict[str, Here | There], rounds: int, seconds: float
) -> dict[str, dict[str, list[float]]]:
    """Microseconds of every case, framework and round."""
    turns = [(case, name) for case in NAMES for name, one in runners.items() if case in one.names]
    counts = {(case, name): loops(runners[name], case, seconds) for case, name in turns}
    found: dict[str, dict[str, list[float]]] = {case: {} for case in NAMES}
    for _ in range(rounds):
        for case, name in turns:
            n = counts[case, name]
            found[case].setdefault(name, []).append(runners[name].seconds(case, n) / n * 1e6)
    return found


# ---------------------------------------------------------------------------------------------
# Processes.

# Peak memory from /proc where there is one: `ru_maxrss` of a child starts at its parent's.
_PROBE = """
import json, time
begin = time.perf_counter(), time.process_time()
{imported}
end = time.perf_counter(), time.process_time()
{matmul}
try:
    with open("/proc/self/status") as status:
        peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
except OSError:
    import resource, sys
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10 * (sys.platform == "darwin")
print(json.dumps([end[0] - begin[0], end[1] - begin[1], peak / 1024]))
"""
_PROBES = {
    "numpy": ("import numpy as np", "np.matmul([[2.0]], [[2.0]])"),
    "pullback": ("import pullback as pb", "pb.matmul([[2.0]], [[2.0]])"),
    "torch": ("import torch", "torch.matmul(torch.ones(1, 1), torch.ones(1, 1))"),
    "jax": ("import jax.numpy as jnp", "jnp.matmul(jnp.ones((1, 1)), jnp.ones((1, 1)))"),
}


def time_processes(pythons: dict[str, str], count: int, clock: str) -> dict[str, dict[str, Any]]:
    """Seconds of the import, and the peak in MiB after one matmul, of fresh processes in turns."""
    found: dict[str, dict[str, Any]] = {name: {"import": [], "peak": []} for name in pythons}
    with tempfile.TemporaryDirectory() as compiled:
        # As installed: with bytecode, even where the environment keeps Python from writing it.
        kept = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": compiled}
        for turn in range(count + 1):
            for name, python in pythons.items():
                imported, matmul = _PROBES[name]
                source = _PROBE.format(imported=imported, matmul=matmul)
                output = subprocess.check_output(
                    [python, "-c", source], text=True, cwd=compiled, env=os.environ | kept
                )
                wall, cpu, peak = json.loads(output.splitlines()[-1])
                if turn:  # the first one compiles, and warms the disk cache
                    found[name]["import"].append(wall if clock == "wall" else cpu)
                    found[name]["peak"].append(peak)
    return found


# ---------------------------------------------------------------------------------------------
# The table.


def report(found: dict[str, dict[str, list[float]]]) -> Iterator[dict[str, Any]]:
    """A row for each case: medians, and pullback against NumPy and against its bar."""
    for case, times in found.items():
        row: dict[str, Any] = {name: statistics.median(values) for name, values in times.items()}
        base = times.get("numpy") or found[case.removesuffix(" recorded")].get("numpy")
        ours = times["pullback"]
        if base and case != "chain gradient":
            pairs = list(zip(ours, base, strict=True))
            row["difference"] = statistics.median(a - b for a, b in pairs)
            row["ratio"] = statistics.median(a / b for a, b in pairs)
        row["best"] = min(ours)
        if case in BARS:
            kind, bar = BARS[case]
            row["bar"] = f"<= {'numpy + ' if kind == 'difference' else ''}{bar:g}"
            row["within"] = (row["difference"] if kind == "difference" else row["pullback"]) <= bar
        yield {"case": NAMES[case], **row}


def table(rows: list[dict[str, Any]], columns: list[str], digits: int) -> str:
    def cell(value: Any) -> str:
        if isinstance(value, bool):
            return "within" if value else "over"
        return f"{value:.{digits}f}" if isinstance(value, float) else str(value or "")

    lines = [columns, *([cell(row.get(column)) for column in columns] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            text.ljust(width) if i == 0 else text.rjust(width)
            for i, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n")[0])
    parser.add_argument("--torch-python", help="the Python of an environment with PyTorch")
    parser.add_argument("--jax-python", help="the Python of an environment with JAX")
    parser.add_argument("--json", help="a file for every measurement of every round")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument("--cpu-time", action="store_true", help="time of the processor, not wall")
    parser.add_argument("--worker", choices=BUILDERS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    clock = "cpu" if given.cpu_time else "wall"
    if given.worker:
        worker(given.worker, clock)
        return

    pythons = {"numpy": sys.executable, "pullback": sys.executable}
    for name, python in (("torch", given.torch_python), ("jax", given.jax_python)):
        if python or importlib.util.find_spec(name):
            pythons[name] = python or sys.executable
    processes = time_processes(pythons, 5 if given.quick else 15, clock)
    runners: dict[str, Here | There] = {
        name: Here(name, clock) if name in ("numpy", "pullback") else There(name, clock, python)
        for name, python in pythons.items()
    }
    found = time_cases(runners, *((7, 0.002) if given.quick else (31, 0.005)))
    for runner in runners.values():
        if isinstance(runner, There):
            runner.close()

    rows = list(report(found))
    print(f"Microseconds of {clock} time, medians of {len(found['add']['numpy'])} rounds")
    print(table(rows, ["case", *pythons, "difference", "ratio", "best", "bar", "within"], 2))
    started: list[dict[str, Any]] = [
        {
            "process": name,
            "import, ms": statistics.median(one["import"]) * 1e3,
            "peak, MiB": statistics.median(one["peak"]),
        }
        for name, one in processes.items()
    ]
    pairs = zip(processes["pullback"]["import"], processes["numpy"]["import"], strict=True)
    more = statistics.median(a - b for a, b in pairs)
    started[1] |= {
        "difference": more * 1e3,
        "bar": f"<= numpy + {IMPORT_BAR * 1e3:g}",
        "within": more <= IMPORT_BAR,
    }
    print("\nA fresh process: the import, and the peak of its memory after one matmul")
    columns = ["process", "import, ms", "difference", "bar", "within", "peak, MiB"]
    print(table(started, columns, 1))
    if given.json:
        with open(given.json, "w") as file:
            json.dump(
                {
                    "clock": clock,
                    "machine": platform.platform(),
                    "processors": os.cpu_count(),
                    "python": platform.python_version(),
                    "cases": found,
                    "processes": processes,
                    "table": rows,
                    "start": started,
                },
                file,
                indent=1,
            )


if __name__ == "__main__":
    main()
