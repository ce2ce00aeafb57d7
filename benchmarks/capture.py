"""Measures what capture promises: the captured step of each workload beside the eager one.

    uv run benchmarks/capture.py --only mlp,cnn --threads 1

Bits: 20 steps give the same. Cost: the first two calls of a captured function take so many eager
steps more than the first two of the function, which make variables and slots too. Time: a captured
step over an eager one, in turns in one process. Memory: what a step needs at its peak beside what
is there before it.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import subprocess
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import peers
import report
from worker import memory
from workloads.shared import WORKLOADS, Block

#: The eager peer of each kind of captured step.
PEERS = ("pullback", "pullback-native")
STEPS = 20
BLOCK_SECONDS = 0.05
#: Eager steps that capturing costs, captured over eager time, captured over eager peak.
BARS = {"cost": 3.0, "time": 1.02, "peak": 1.0}
#: MiB by which two peaks of one step differ: the pages of a heap.
GRAIN = 0.25
#: glibc gives memory back at once, so that the peak of one step can be seen.
_RETURNED = {"MALLOC_TRIM_THRESHOLD_": "131072", "MALLOC_MMAP_THRESHOLD_": "65536"}


def measure_all(
    peer: peers.Peer, python: str, workloads: list[str], threads: int
) -> dict[str, dict[str, Any]]:
    """The answers of `measure` and `peak` for each workload, each in fresh processes."""
    found = {}
    for workload in workloads:
        one = _ask(peer, python, threads, "measure", workload)
        if one is not None:
            for mode in ("eager", "captured"):
                one[f"{mode} peak"] = _ask(peer, python, threads, mode, workload)
            found[workload] = one
            print(f"  {peer.name}: {workload} {one}", flush=True)
    return found


def _ask(peer: peers.Peer, python: str, threads: int, *what: str) -> Any:
    returned = {} if what[0] == "measure" else _RETURNED
    ran = subprocess.run(
        [python, __file__, "--answer", *what],
        stdout=subprocess.PIPE, text=True, env=peers.environment(peer, threads) | returned,
        check=False,
    )  # fmt: skip
    return json.loads(ran.stdout) if ran.returncode == 0 else None


def table(name: str, found: dict[str, dict[str, Any]]) -> list[list[str]]:
    """A row for each workload; what is over its bar is marked."""
    rows = [[name, "eager", "captured", "", "capturing", "steps", "", "peak, MiB", "captured", ""]]
    rows[0] += [f"{STEPS} steps"]
    for workload, one in found.items():
        peaks = one["eager peak"], one["captured peak"]
        over = {
            "time": one["ratio"] > BARS["time"],
            "cost": one["cost"] > BARS["cost"],
            "peak": peaks[1] > BARS["peak"] * peaks[0] + GRAIN,
        }
        marks = {what: "over" if it else "" for what, it in over.items()}
        cost = max(0.0, one["cost"])
        rows.append(
            [
                workload, report.duration([one["eager"]]), f"{one['ratio']:.2f}x", marks["time"],
                report.duration([cost * one["eager"]]), f"{cost:.1f}", marks["cost"],
                f"{peaks[0]:.1f}", f"{peaks[1]:.1f}", marks["peak"],
                "the same bits" if one["same"] else "OTHER BITS",
            ]
        )  # fmt: skip
    return rows


# ---------------------------------------------------------------------------------------------
# In a process of its own.


def measure(name: str) -> dict[str, Any] | None:
    """Times of processor and results of a workload, eager and captured; None of a single op."""
    from workloads import with_pullback

    if name not in with_pullback.builders(True):
        return None
    eager_of, captured_of = (with_pullback.builders(on)[name] for on in (False, True))
    blocks = {"eager": eager_of(), "captured": captured_of()}
    same = _results(blocks["eager"]) == _results(blocks["captured"])
    with_pullback.settle(blocks["captured"])
    step = statistics.median(_seconds(blocks["eager"], 1) for _ in range(5))
    n = max(1, round(BLOCK_SECONDS / step))
    rounds = 15 if step < 1 else 5
    times: dict[str, list[float]] = {"eager": [], "captured": []}
    for _ in range(rounds):
        for mode, block in blocks.items():
            times[mode].append(_seconds(block, n) / n)
    eager = statistics.median(times["eager"])
    costs = [(_seconds(captured_of(), 2) - _seconds(eager_of(), 2)) / eager for _ in range(3)]
    return {
        "same": same,
        "eager": eager,
        "captured": statistics.median(times["captured"]),
        "ratio": report.ratio(times, "captured", "eager"),
        "cost": statistics.median(costs),
    }


def _results(block: Block) -> list[bytes]:
    return [np.asarray(block(1)).tobytes() for _ in range(STEPS)]


def _seconds(block: Block, n: int) -> float:
    begin = time.process_time()
    block(n)
    return time.process_time() - begin


def peak(name: str, captured: bool) -> float:
    """MiB that a step needs at its peak, when several have run."""
    from workloads import with_pullback

    block = with_pullback.builders(captured)[name]()
    block(4)
    if captured:
        with_pullback.settle(block)
    gc.collect()
    before = memory("VmRSS")
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the peak begins again
    block(2)
    return memory("VmHWM") - before


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n")[0])
    parser.add_argument("--only", help="a comma list of workloads; all without it")
    parser.add_argument("--peers", default=",".join(PEERS), help="with the pack, or without it")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--answer", nargs=2, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    given = arguments()
    if given.answer:
        answers: dict[str, Callable[[str], Any]] = {
            "measure": measure,
            "eager": lambda name: peak(name, captured=False),
            "captured": lambda name: peak(name, captured=True),
        }
        print(json.dumps(answers[given.answer[0]](given.answer[1])))
        return
    chosen = given.only.split(",") if given.only else list(WORKLOADS)
    for peer, python in peers.find({}, set(given.peers.split(","))).items():
        print(report.text(table(peer.name, measure_all(peer, python, chosen, given.threads))))


if __name__ == "__main__":
    main()
