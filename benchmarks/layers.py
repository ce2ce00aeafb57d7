"""Times layers, losses, metrics and steps of optimizers on small batches, beside PyTorch.

    uv run benchmarks/layers.py --torch-python ~/torch-env/bin/python
    uv run benchmarks/layers.py --only dense,adam --output benchmarks/results/layers.txt

Each framework runs in a process of its own, on one thread. Round after round a block of every case
runs in each of them, one after the other. Times are medians of processor time, and a ratio is the
median of the ratios within a round, which share what disturbs the machine. Nothing fails when a
ratio is high.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import os
import platform
import subprocess
import sys
import time
from statistics import median
from typing import Any

from layers_cases import BUILDERS

#: The calls of one block, and about how long it takes.
SECONDS = 0.002


class There:
    """A framework in a process of its own, which runs this file with --worker."""

    def __init__(self, framework: str, python: str) -> None:
        self.process = subprocess.Popen(
            [python, __file__, "--worker", framework],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1", "PULLBACK_NUM_THREADS": "1"},
        )
        self.names: dict[str, int] = json.loads(self._answer())

    def _answer(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("a framework's process has ended; its error is above")
        return line

    def seconds(self, case: str) -> float:
        """Seconds of one call, of a block of them."""
        assert self.process.stdin is not None
        print(case, file=self.process.stdin, flush=True)
        return float(self._answer())

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def worker(framework: str) -> None:
    """Serves a `There`."""
    cases = BUILDERS[framework]()
    counts: dict[str, int] = {}

    def block(name: str, count: int) -> float:
        step = cases[name]
        begin = time.process_time()
        for _ in range(count):
            step()
        return (time.process_time() - begin) / count

    for name in cases:
        block(name, 20)
        counts[name] = max(1, round(SECONDS / min(block(name, 5) for _ in range(5))))
    print(json.dumps(counts), flush=True)
    for line in sys.stdin:
        name = line.strip()
        print(block(name, counts[name]), flush=True)


def table(found: dict[str, dict[str, list[float]]]) -> str:
    """A line for each case, and the geometric mean of the ratios."""
    width = max(map(len, found))
    several = len(next(iter(found.values()))) > 1
    lines = [f"{'case':{width}}  {'pullback':>9}" + "  " + "    torch   ratio" * several]
    ratios = []
    for case, times in found.items():
        line = f"{case:{width}}  {median(times['pullback']):9.2f}"
        if several:
            pairs = zip(times["pullback"], times["torch"], strict=True)
            ratios.append(median(ours / theirs for ours, theirs in pairs))
            line += f"  {median(times['torch']):9.2f}  {ratios[-1]:6.2f}"
        lines.append(line)
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        above = sum(ratio > 1 for ratio in ratios)
        lines.append(f"geometric mean {mean:.2f}; {above} of {len(ratios)} above 1")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n")[0])
    parser.add_argument("--torch-python", help="the Python of an environment with PyTorch")
    parser.add_argument("--only", default="", help="parts of the names of cases, with commas")
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--output", help="a file for the table")
    parser.add_argument("--note", default="", help="what the first line of that file says more")
    parser.add_argument("--worker", choices=BUILDERS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        worker(given.worker)
        return

    pythons = {"pullback": sys.executable}
    if given.torch_python or importlib.util.find_spec("torch"):
        pythons["torch"] = given.torch_python or sys.executable
    runners: dict[str, Any] = {name: There(name, python) for name, python in pythons.items()}
    parts = given.only.split(",")
    cases = [
        case
        for case in runners["pullback"].names
        if any(part in case for part in parts)
        and all(case in runner.names for runner in runners.values())
    ]
    found: dict[str, dict[str, list[float]]] = {
        case: {name: [] for name in runners} for case in cases
    }
    for _ in range(given.rounds):
        for case in cases:
            for name, runner in runners.items():
                found[case][name].append(runner.seconds(case) * 1e6)
    for runner in runners.values():
        runner.close()
    head = (
        f"Microseconds of a call on one thread, medians of {given.rounds} rounds; "
        f"Python {platform.python_version()}, {os.cpu_count()} processors, "
        f"load {os.getloadavg()[0]:.1f}. {given.note}"
    ).strip()
    text = f"{head}\n{table(found)}"
    print(text)
    if given.output:
        with open(given.output, "w") as file:
            print(text, file=file)


if __name__ == "__main__":
    main()
