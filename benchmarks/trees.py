"""Times two checkouts of pullback in turns: before and after a change, or beside an earlier commit.

    git worktree add --detach ../before HEAD~1 && (cd ../before && uv sync)
    taskset -c 1 uv run benchmarks/trees.py ../before
    uv run benchmarks/trees.py ../before --only op_add,linreg --repeats 25 --threads 2

Each checkout runs its own sources on the workloads of this one, in processes of its own with the
Python of its `.venv`. Round after round both run a block of steps, the first of them in turns. The
table has the shortest time of a step in each, and the ratio of the shortest times and the median of
the ratios within a round: above 1 this checkout takes longer. Times are processor times, without
kernel packs unless `--packs` says that both have theirs. On a machine whose cores run at several
speeds `taskset` keeps both on one.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
from pathlib import Path

from peers import Peer, Process

MODES = {"eager": "eager", "captured": "compiled"}
NAMES = ("op_add", "op_add_recorded", "op_chain", "op_chain_grad", "linreg", "mlp", "mlp_wide",
         "transformer", "infer_cnn_b1")  # fmt: skip
#: Seconds that a block takes.
BLOCK = 0.02


def compared(before: Process, after: Process, name: str, repeats: int) -> tuple[float, ...] | None:
    """The shortest time of a step before and after, and the median ratio; None if one fails."""
    pair = (before, after)
    for one in pair:
        if "error" in (one.ask("load", name) or {"error": "ended"}):
            return None
    _, seconds = after.ask("time", 3)
    steps = max(1, int(BLOCK * 3 / seconds))
    times: dict[Process, list[float]] = {one: [] for one in pair}
    for turn in range(repeats):
        for one in pair[:: 1 - 2 * (turn % 2)]:
            times[one].append(one.ask("time", steps)[1] / steps)
    ratios = [new / old for old, new in zip(times[before], times[after], strict=True)]
    return min(times[before]), min(times[after]), statistics.median(ratios)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("before", type=Path, help="the other checkout, with its .venv")
    parser.add_argument("--only", metavar="NAME,...", default=",".join(NAMES), help="workloads")
    parser.add_argument("--repeats", type=int, default=15, help="rounds; 15 by default")
    parser.add_argument("--threads", type=int, default=1, help="threads of each; 1 by default")
    parser.add_argument("--packs", action="store_true", help="with the packs of both")
    given = parser.parse_args()
    variables = () if given.packs else ("PULLBACK_KERNEL_PACKS=",)
    python = given.before / ".venv" / "bin" / "python"
    if not python.exists():
        parser.error(f"{python} is not there; run `uv sync` in {given.before}")
    print(f"{'':26}{'before, us':>12}{'now, us':>12}{'ratio':>8}{'median':>8}")
    for mode, name in itertools.product(MODES, given.only.split(",")):
        if mode == "captured" and name.startswith("op_add"):
            continue  # one op is not captured
        peer = Peer(mode, "pullback", MODES[mode], "pullback", variables)
        before, after = (Process(peer, str(p), given.threads) for p in (python, sys.executable))
        found = compared(before, after, name, given.repeats)
        label = f"{mode} {name}"
        if found is None:
            print(f"{label:26}{'failed':>12}")
        else:
            old, new, median = found
            print(f"{label:26}{old * 1e6:12.2f}{new * 1e6:12.2f}{new / old:8.3f}{median:8.3f}")
        for one in (before, after):
            one.close()


if __name__ == "__main__":
    main()
