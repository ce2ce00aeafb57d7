"""pullback beside its peers: steps, a fresh process, memory, room on disk.

    uv run benchmarks/run.py
    uv run benchmarks/run.py --peer-python torch=~/torch/bin/python --only mlp,cnn --repeats 5

Every peer that can be imported runs in a process of its own, with the same shapes, inputs and
initial weights; the results of the first steps are held against each other. Then they take turns,
round after round, and medians over the rounds are printed: of the times, and of the ratios within
a round. What is compared is in `workloads/`.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import json
import os
import platform
import sys
import time
from pathlib import Path
from typing import Any

import capture
import peers
import processes
import quiet
import report
from workloads.shared import TRAINING, WORKLOADS

#: How far outputs may be from ours, and losses: rounding, grown by a few steps of Adam.
OUTPUT_TOLERANCE, LOSS_TOLERANCE = 1e-4, 2e-3
BLOCK_SECONDS = 0.05
#: Between two blocks: threads of BLAS spin for some 20 ms after their last product, on our cores.
PAUSE = 0.05
OTHERS = ("start", "size", "memory", "capture")


def loaded(running: list[peers.Process], workload: str) -> tuple[list[peers.Process], Any]:
    """The peers that run a workload right, and what each answered."""
    ready, answers, reference = [], {}, None
    for process in running:
        if workload not in process.names:
            continue
        answer = process.ask("load", workload)
        name = process.peer.name
        if answer is None or "error" in answer:
            answers[name] = answer or {"error": process.last_words()}
            print(f"  {name} fails: {answers[name]['error'][:300]}")
            continue
        reference = answer["results"] if reference is None else reference
        answers[name] = answer
        differ = differs(answer["results"], reference)
        # What is written: the loss, or the mean and the root of the mean square.
        answer["results"] = [one[-2:] for one in answer["results"]]
        if differ:
            shown = [answer["results"], [one[-2:] for one in reference]]
            print(f"  {name} gives {shown[0]}, and {running[0].peer.name} {shown[1]}")
            answer["error"] = "other results"
            continue
        ready.append(process)
    return ready, answers


def differs(results: list[list[float]], reference: list[list[float]]) -> bool:
    for result, expected in zip(results, reference, strict=True):
        tolerance = OUTPUT_TOLERANCE if len(expected) > 1 else LOSS_TOLERANCE
        within = tolerance * max(map(abs, expected))
        # Not a number is nowhere within.
        if not all(abs(a - b) <= within for a, b in zip(result, expected, strict=True)):
            return True
    return False


def measure(
    running: list[peers.Process], workload: str, repeats: int, machine: quiet.Quiet
) -> dict[str, Any]:
    """Seconds a step of each peer and round, of wall and of processor time."""
    ready, answers = loaded(running, workload)
    found: dict[str, Any] = {"wall": {}, "cpu": {}, "loaded": answers}
    counts = {}
    for process in ready:
        n = 1
        while (took := process.ask("time", n)[0]) < BLOCK_SECONDS / 2:
            n *= 2
        counts[process] = max(1, round(n * BLOCK_SECONDS / took))
    for _ in range(repeats):
        machine.wait()
        for process, n in counts.items():
            time.sleep(PAUSE)
            for clock, seconds in zip(("wall", "cpu"), process.ask("time", n), strict=True):
                found[clock].setdefault(process.peer.name, []).append(seconds / n)
    return found


def machine() -> dict[str, Any]:
    """The machine, the versions and the date."""
    try:
        with open("/proc/cpuinfo") as file:
            line = next(line for line in file if line.startswith("model name"))
        processor = line.split(":")[1].strip()
    except (OSError, StopIteration):
        processor = platform.processor()
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="minutes"),
        "processor": processor,
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
    }


def versions(found: dict[peers.Peer, str]) -> dict[str, str]:
    """The version of each framework."""
    return {peer.name: processes.version(peer.framework, python) for peer, python in found.items()}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n")[0])
    parser.add_argument(
        "--peer-python", action="append", default=[], metavar="NAME=PATH",
        help="the Python of an environment with a peer or framework (torch, jax, keras-torch)",
    )  # fmt: skip
    parser.add_argument("--peers", help="a comma list; all that can be imported without it")
    parser.add_argument(
        "--only", help=f"a comma list of workloads, or of {', '.join(OTHERS)}; all without it"
    )
    parser.add_argument("--repeats", type=int, default=15, help="rounds")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="for each peer")
    parser.add_argument(
        "--wait", type=float, default=0, metavar="SECONDS",
        help="before each round, wait so long at most for the machine to be quiet",
    )  # fmt: skip
    parser.add_argument("--cpu-time", action="store_true", help="print processor time, not wall")
    parser.add_argument("--output", help="where PATH.json, PATH.txt and PATH.svg are written")
    given = parser.parse_args()
    known = [*WORKLOADS, *OTHERS]
    given.only = given.only.split(",") if given.only else known
    given.peers = set(given.peers.split(",")) if given.peers else None
    wrong = [name for name in given.only if name not in known]
    wrong += [name for name in given.peers or () if name not in {p.name for p in peers.PEERS}]
    if wrong:
        parser.error(f"no {', '.join(wrong)} among {', '.join(known)}")
    return given


def main() -> None:
    given = arguments()
    pythons = dict(one.split("=", 1) for one in given.peer_python)
    pythons = {name: os.path.expanduser(path) for name, path in pythons.items()}
    found = peers.find(pythons, given.peers)
    names = [peer.name for peer in found]
    about = {**machine(), "threads": given.threads, "versions": versions(found)}
    print(", ".join(f"{name} {version}" for name, version in about["versions"].items()))

    steps: dict[str, Any] = {}
    workloads = [name for name in WORKLOADS if name in given.only]
    noise: list[float] = []
    if workloads:
        waiting = quiet.Quiet(given.wait)
        noise = waiting.noise
        running = [peers.Process(peer, python, given.threads) for peer, python in found.items()]
        for workload in workloads:
            steps[workload] = measure(running, workload, given.repeats, waiting)
            row = report.rows({workload: steps[workload]}, names, clock(given))[1:]
            print(report.text(row), flush=True)
        for process in running:
            process.close()

    parts = []
    if steps:
        parts.append(report.text(report.rows(steps, names, clock(given))))
        if report.CAPTURED in names:
            parts.append(report.text(report.captured_table(steps, clock(given))))
    result: dict[str, Any] = {"about": about, "steps": steps, "noise": noise}
    by_framework = {"numpy": sys.executable} | {
        peer.framework: path for peer, path in found.items() if peer.framework in processes.FIRST
    }
    if "start" in given.only or "size" in given.only:
        result["start"] = processes.started(by_framework, min(given.repeats, 9))
        result["size"] = {name: processes.installed(name, p) for name, p in by_framework.items()}
        parts.append(report.text(report.side_table(result["start"], result["size"])))
    if "memory" in given.only:
        result["memory"] = {
            workload: processes.peaks(found, workload, given.threads) for workload in TRAINING
        }
        parts.append(report.text(report.peak_table(result["memory"], names)))
    if "capture" in given.only:
        result["capture"] = {
            peer.name: capture.measure_all(
                peer, found[peer], workloads or list(WORKLOADS), given.threads
            )
            for peer in found
            if peer.name in capture.PEERS
        }
        parts += [report.text(capture.table(name, one)) for name, one in result["capture"].items()]
    print("\n" + "\n\n".join(parts))
    if given.output:
        write(Path(given.output), result, names, clock(given), "\n\n".join(parts))


def clock(given: argparse.Namespace) -> str:
    return "cpu" if given.cpu_time else "wall"


def write(path: Path, result: dict[str, Any], names: list[str], clock: str, tables: str) -> None:
    about = result["about"]
    measured = {"cpu": "processor time", "wall": "wall time"}[clock]
    title = f"{about['date'][:10]}, {about['processor']}, threads: {about['threads']}, {measured}"
    found = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    path.with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n")
    path.with_suffix(".txt").write_text(f"{title}\n{found}\n\n{tables}\n")
    if result["steps"] and importlib.util.find_spec("matplotlib"):
        report.draw(result["steps"], names, str(path.with_suffix(".svg")), title, clock)


if __name__ == "__main__":
    main()
