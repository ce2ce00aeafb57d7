"""Every op in the forms that people write, beside PyTorch eager and NumPy.

    uv run benchmarks/ops.py --torch-python ~/torch-env/bin/python
    uv run benchmarks/ops.py --only 'softmax|x\\[' --sample 100 --peers pullback,numpy

The tables in `ops_cases/` have an expression for each framework. Each framework runs in a process
of its own; their values are held against each other, and then they take turns, case by case. Ratios
are of the shortest times: other work on the machine only ever adds to them.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import sys
import time
from pathlib import Path
from typing import Any

import ops_recorded
import ops_report
import peers
from ops_cases import Case, design, translated
from ops_cases.agreement import differs
from run import machine, versions

PACK, ALONE, TORCH, NUMPY = "pullback-native", "pullback", "torch", "numpy"
OURS = (PACK, ALONE)
NAMES = (PACK, ALONE, TORCH, NUMPY)
PEERS = {peer.name: peer for peer in peers.PEERS if peer.name in NAMES}
PEERS[NUMPY] = peers.Peer(NUMPY, "numpy", "eager", "numpy")
#: Seconds for an answer: a worker that takes longer is ended, and the case reported.
LIMIT = 60.0
#: Blocks of every mode and framework; fewer where a block takes long.
ROUNDS, FEW, LONG = 5, 2, 1.0
#: Calls of each mode before it is timed, or as many as fit into the worker's limit.
WARM = 16
#: Before a block of large arrays: threads spin for some milliseconds after their last work.
PAUSE = 0.004


class Bench:
    """The workers, and what one case takes in each."""

    def __init__(
        self, pythons: dict[str, str], wanted: list[str], threads: int, captured: bool = True
    ) -> None:
        self.threads = threads
        self.captured = captured  #: measure captured functions, too
        found = {}
        for name in wanted:
            peer = PEERS[name]
            python = pythons.get(peer.framework, sys.executable)
            if peers._has(python, peer.modules):
                found[name] = python
        self.pythons = found
        self.running = {name: self.started(name) for name in found}

    def started(self, name: str) -> peers.Process:
        return peers.Process(
            PEERS[name], self.pythons[name], self.threads, "ops_worker.py", limit=LIMIT
        )

    def ask(self, name: str, *question: Any) -> Any:
        """The answer of a worker; one that has ended is started again."""
        process = self.running[name]
        answer = process.ask(*question)
        if answer is None:
            ended = process.last_words()
            process.process.kill()
            process.close()
            self.running[name] = self.started(name)
            return {"error": f"ended, or took more than {LIMIT:.0f} s: {ended}"}
        return answer

    def loaded(self, case: Case) -> tuple[list[str], dict[str, Any]]:
        """The frameworks that have a case right, and why the others do not."""
        ready, wrong, reference = [], {}, None
        for name in self.running:
            framework = PEERS[name].framework
            if framework not in case.row.expressions:
                continue
            if name == NUMPY and case.dtype == "bfloat16":
                continue
            question = case.question(framework)
            question["captured"] &= self.captured
            answer = self.ask(name, "load", question)
            if "error" in answer:
                wrong[name] = answer["error"]
                continue
            reference = reference or answer
            problems = {
                mode: differs(found, reference[mode], case)
                for mode, found in answer.items()
                if mode in reference and not ("error" in reference[mode] and name not in OURS)
            }
            problems = {mode: one for mode, one in problems.items() if one}
            for mode, one in problems.items():
                wrong[f"{name} {mode}"] = one
            if "forward" not in problems:
                ready.append(name)
        return ready, wrong

    def measure(self, case: Case) -> dict[str, Any]:
        """The shortest seconds of each framework and mode."""
        ready, wrong = self.loaded(case)
        times: dict[str, dict[str, float]] = {name: {} for name in ready}
        rounds, i = ROUNDS, 0
        while i < rounds:
            begin = time.monotonic()
            for name in list(ready):
                if case.n >= 100_000:
                    time.sleep(PAUSE)
                answer = self.ask(name, "time")
                if "error" in answer:
                    wrong[name] = answer["error"]
                    ready.remove(name)
                    del times[name]
                    continue
                for mode, seconds in answer.items():
                    if f"{name} {mode}" not in wrong:
                        times[name][mode] = min(times[name].get(mode, seconds), seconds)
            i += 1
            took = time.monotonic() - begin
            rounds = ROUNDS if took < LONG else FEW if took < 5 * LONG else 1
        return {"times": times, "wrong": wrong}

    def close(self) -> None:
        for process in self.running.values():
            process.close()


def entry(case: Case, found: dict[str, Any]) -> dict[str, Any]:
    """The record of a case: microseconds, and the expressions for the report."""
    times = {
        name: {mode: round(seconds * 1e6, 3) for mode, seconds in one.items()}
        for name, one in found["times"].items()
    }
    theirs = case.row.expressions.get("torch", "")
    derived = translated(case.row.expressions["pullback"], "torch")
    return {
        "key": case.key, "table": case.row.table, "n": case.n, "dtype": case.dtype,
        "layout": case.layout, "torch": "" if theirs == derived else theirs,
        "times": times, "wrong": found["wrong"],
    }  # fmt: skip


def chosen(given: argparse.Namespace) -> list[Case]:
    """The cases that the arguments ask for, in the order of the design."""
    cases = design(given.seed)
    if given.only:
        wanted = re.compile(given.only)
        cases = [case for case in cases if wanted.search(case.key)]
    if given.most:
        cases = [case for case in cases if case.n <= given.most]
    if given.sample and given.sample < len(cases):
        cases = random.Random(given.seed).sample(cases, given.sample)
    return cases


def run(bench: Bench, cases: list[Case], budget: float) -> list[dict[str, Any]]:
    """The entries of the cases that the budget is enough for."""
    until = time.monotonic() + budget
    entries = []
    for case in cases:
        if time.monotonic() > until:
            print(f"the budget ends after {len(entries)} of {len(cases)} cases", file=sys.stderr)
            break
        began = time.monotonic()
        entries.append(entry(case, bench.measure(case)))
        if (took := time.monotonic() - began) > 10:
            print(f"{took:.0f} s: {case.key}", file=sys.stderr, flush=True)
        if len(entries) % 100 == 0:
            print(f"{len(entries)} of {len(cases)}", file=sys.stderr, flush=True)
    return entries


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n")[0])
    parser.add_argument("--torch-python", help="the Python of an environment with PyTorch")
    parser.add_argument("--peers", default=",".join(NAMES), help="a comma list; all without it")
    parser.add_argument("--only", metavar="PATTERN", help="cases whose key the pattern finds")
    parser.add_argument("--most", type=int, help="only cases of so many elements at most")
    parser.add_argument("--sample", type=int, help="so many of the cases")
    parser.add_argument("--seed", type=int, default=0, help="of the design and the sample")
    parser.add_argument("--budget", type=float, default=3600, help="seconds after which to stop")
    parser.add_argument("--threads", type=int, default=2, help="for each framework")
    parser.add_argument("--cpu-time", action="store_true", help="time of the processor, not wall")
    parser.add_argument("--json", help="a file for all times")
    parser.add_argument("--go-on", action="store_true", help="keep what the --json file has")
    parser.add_argument("--output", help="a file for the report")
    parser.add_argument("--worst", type=int, default=300, help="lines of the report's last table")
    parser.add_argument("--record", help="a file for ratios to NumPy, of 150 cases or --sample")
    parser.add_argument("--against", help="such a file: fails where a ratio has grown")
    parser.add_argument(
        "--growth", type=float, default=ops_recorded.GROWTH, help="by more than this factor"
    )
    parser.add_argument("--note", default="", help="a line for the report's head")
    given = parser.parse_args()
    if given.go_on and not given.json:
        parser.error("--go-on needs the file: --json ops.json")
    return given


def ratios(given: argparse.Namespace, bench: Bench, about: dict[str, Any]) -> list[str]:
    """Records ratios to NumPy, or finds the cases that are slower than recorded."""

    def measure(case: Case) -> ops_recorded.Times:
        return bench.measure(case)["times"]

    if given.record:
        count = given.sample or 150
        ops_recorded.record(Path(given.record), count, given.seed, measure, about)
        return []
    return ops_recorded.compare(Path(given.against), measure, given.budget, given.growth)


def main() -> None:
    given = arguments()
    pythons = {"torch": os.path.expanduser(given.torch_python)} if given.torch_python else {}
    sampled = given.record or given.against
    warm = WARM
    if given.against:
        # As it was recorded.
        told = json.loads(Path(given.against).read_text())["about"]
        given.threads, given.cpu_time = told["threads"], told["clock"] == "cpu"
        warm = told.get("warm", 0)
    os.environ["OPS_WARM"] = str(warm)
    os.environ["OPS_CLOCK"] = "cpu" if given.cpu_time else "wall"
    bench = Bench(pythons, given.peers.split(","), given.threads, captured=not sampled)
    known = {PEERS[name]: python for name, python in bench.pythons.items()}
    about = {
        **machine(), "versions": versions(known), "threads": given.threads, "seed": given.seed,
        "clock": os.environ["OPS_CLOCK"], "warm": warm, "note": given.note,
    }  # fmt: skip
    if sampled:
        found = ratios(given, bench, about)
        bench.close()
        raise SystemExit("\n".join(found) or 0)
    before: list[dict[str, Any]] = []
    if given.go_on and Path(given.json).exists():
        before = json.loads(Path(given.json).read_text())["cases"]
    done = {one["key"] for one in before}
    begin = time.monotonic()
    cases = [case for case in chosen(given) if case.key not in done]
    entries = before + run(bench, cases, given.budget)
    bench.close()
    about["minutes"] = round((time.monotonic() - begin) / 60, 1)
    if given.json:
        Path(given.json).write_text(json.dumps({"about": about, "cases": entries}) + "\n")
    text = ops_report.report(about, entries, given.worst)
    if given.output:
        Path(given.output).write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
