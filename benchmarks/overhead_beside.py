"""Times the hot paths of `overhead.py` beside those of another checkout, such as an earlier commit.

    git worktree add ../before COMMIT
    uv run benchmarks/overhead_beside.py ../before

Both run on NumPy's kernels, with this environment's packages but for core and the NumPy backend. In
each of several rounds both start anew, and blocks of every case run in one and then in the other. A
ratio is the median over the rounds, each the median of the ratios of blocks side by side; the
range is that of its middle half.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from overhead import NAMES, There, loops

HERE = Path(__file__).parents[1]
_COMPILED = tempfile.TemporaryDirectory()
#: What a fresh process runs to time its import.
_IMPORT = """
import time
begin = time.process_time()
import pullback
print(time.process_time() - begin)
"""


def environment(checkout: Path) -> dict[str, str]:
    """Variables with which Python imports pullback from a checkout, as installed: compiled."""
    paths = [checkout / "core" / "src", checkout / "backends" / "numpy" / "src"]
    return {
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "PULLBACK_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONPYCACHEPREFIX": _COMPILED.name,
    }


class Checkout(There):
    """Pullback of a checkout, in a process of its own."""

    def __init__(self, checkout: Path) -> None:
        before = dict(os.environ)
        os.environ.update(environment(checkout))
        try:
            super().__init__("pullback", "cpu", sys.executable)
        finally:
            os.environ.clear()
            os.environ.update(before)


def seconds_of_import(checkout: Path) -> float:
    output = subprocess.check_output(
        [sys.executable, "-c", _IMPORT], text=True, env=os.environ | environment(checkout)
    )
    return float(output)


def summary(ratios: list[float]) -> str:
    low, _, high = statistics.quantiles(ratios, n=4)
    return f"{statistics.median(ratios):8.3f}  {low:6.3f} to {high:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n")[0])
    parser.add_argument("before", type=Path, help="the other checkout")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--blocks", type=int, default=41, help="blocks of a case in a round")
    given = parser.parse_args()
    ratios: dict[str, list[float]] = {case: [] for case in NAMES}
    times: dict[str, list[list[float]]] = {case: [[], []] for case in NAMES}
    imports: list[list[float]] = [[], []]
    for turn in range(given.rounds):
        # The one that starts first has another place in memory and another processor.
        order = [0, 1] if turn % 2 else [1, 0]
        paths = [given.before.resolve(), HERE]
        for attempt in range(5 + (turn == 0)):
            for one in order:
                seconds = seconds_of_import(paths[one])
                if turn or attempt:  # the first one compiles
                    imports[one].append(seconds)
        made = {one: Checkout(paths[one]) for one in order}
        for case in NAMES:
            n = loops(made[0], case, 0.004)
            loops(made[1], case, 0.004)
            blocks = [[made[one].seconds(case, n) for one in (0, 1)] for _ in range(given.blocks)]
            ratios[case].append(statistics.median(now / before for before, now in blocks))
            for one in (0, 1):
                times[case][one].append(statistics.median(row[one] for row in blocks) / n * 1e6)
        for one in made.values():
            one.close()
    print(
        f"Microseconds of processor time, medians of {given.rounds} rounds, load "
        f"{os.getloadavg()[0]:.1f}"
    )
    print(f"{'case':32}{'before':>8}{'now':>8}{'ratio':>8}  middle half")
    for case, title in NAMES.items():
        before, now = map(statistics.median, times[case])
        print(f"{title:32}{before:8.3f}{now:8.3f}{summary(ratios[case])}")
    before, now = (statistics.median(one) * 1e3 for one in imports)
    pairs = [b / a for a, b in zip(*imports, strict=True)]
    print(f"{'import, ms':32}{before:8.1f}{now:8.1f}{summary(pairs)}")


if __name__ == "__main__":
    main()
