"""Ratios that were recorded, to hold a later run against: our time over NumPy's expression's.

A gradient is held against NumPy's forward, for NumPy has none. A ratio of shortest times changes
little from run to run, but now and then one does, on a machine with other work. So what looks
slower is measured again, later, several times, and counts only when the shortest times of all tries
still say so.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ops_cases import Case, design, table

OURS, THEIRS = ("pullback", "pullback-native"), "numpy"
#: A ratio that has grown by this factor is slower, on the machine that has recorded it.
GROWTH = 1.5
#: Microseconds that do not count: short calls differ by as much from machine to machine.
GRACE = 1.0
#: How often a case is measured again, and the seconds before each try.
TRIES, PAUSE = 6, 1.0
#: Of all cases that look slower, so many are measured again.
SUSPECTS = 25
#: Seconds of a call that is too long for a sample, and the most elements.
LONG, MOST = 0.003, 100_000

Times = dict[str, dict[str, float]]  # seconds by framework and mode
Measure = Callable[[Case], Times]


def sample(seed: int) -> Iterator[Case]:
    """A case of each row that NumPy has an expression for, in an order that is drawn."""
    seen = set()
    for case in design(seed):
        given = case.row.expressions
        known = THEIRS in given and "random" not in case.row.options
        if known and id(case.row) not in seen and case.n <= MOST and case.dtype != "bfloat16":
            seen.add(id(case.row))
            yield case


def ratios(times: Times) -> dict[str, float]:
    """Our times over NumPy's forward, by framework and mode."""
    theirs = times.get(THEIRS, {}).get("forward")
    return {
        f"{name} {mode}": ours / theirs
        for name in OURS
        for mode, ours in times.get(name, {}).items()
        if theirs
    }


def record(path: Path, count: int, seed: int, measure: Measure, about: dict[str, Any]) -> None:
    """Writes the ratios of so many cases, a line for each, of the shortest times of all tries."""
    known: list[tuple[Case, Times]] = []
    for case in sample(seed):
        times = measure(case)
        if ratios(times) and max(max(one.values()) for one in times.values()) < LONG:
            known.append((case, times))
        if len(known) == count:
            break
    for _ in range(TRIES):
        known = [(case, shortest(times, measure(case))) for case, times in known]
    lines = []
    for case, times in known:
        found = {name: round(ratio, 2) for name, ratio in ratios(times).items()}
        lines.append(json.dumps([place(case), case.n, case.dtype, case.layout, found]))
    head = json.dumps({"about": about})
    path.write_text(head[:-1] + ', "cases": [\n' + ",\n".join(lines) + "\n]}\n")


def place(case: Case) -> str:
    return f"{case.row.family}: {case.row.expressions['pullback']}"


def recorded(path: Path) -> Iterator[tuple[Case, dict[str, float]]]:
    """The cases of a file that the tables still have, with their ratios."""
    rows = {(place(Case(row, 0, "", "")), dtype): row for row in table() for dtype in row.dtypes}
    for where, n, dtype, layout, found in json.loads(path.read_text())["cases"]:
        if (where, dtype) in rows:
            yield Case(rows[where, dtype], n, dtype, layout), found


def slower(times: Times, expected: dict[str, float], growth: float) -> list[str]:
    """The frameworks and modes that take more than they did, in words."""
    found = []
    for name, ratio in ratios(times).items():
        if name in expected:
            over = (ratio - growth * expected[name]) * times[THEIRS]["forward"]
            if over * 1e6 > GRACE:
                found.append(f"{name}: {ratio:.2f} times NumPy's, recorded {expected[name]:.2f}")
    return found


def shortest(first: Times, second: Times) -> Times:
    """The shorter of two times for each framework and mode."""
    return {
        name: {mode: min(t, second.get(name, {}).get(mode, t)) for mode, t in one.items()}
        for name, one in first.items()
    }


def compare(path: Path, measure: Measure, budget: float, growth: float = GROWTH) -> list[str]:
    """The cases that are slower than recorded after all tries, in words."""
    until = time.monotonic() + budget
    suspects, count = [], 0
    for case, expected in recorded(path):
        if time.monotonic() > until:
            print("the budget is over", file=sys.stderr)
            break
        count += 1
        times = measure(case)
        if slower(times, expected, growth):
            suspects.append((case, expected, times))
    print(f"{count} cases, {len(suspects)} to measure again")
    suspects = suspects[:SUSPECTS]
    for _ in range(TRIES if suspects else 0):
        time.sleep(PAUSE)
        again = [(one, ratio, shortest(times, measure(one))) for one, ratio, times in suspects]
        suspects = [one for one in again if slower(one[2], one[1], growth)]
        if not suspects:
            break
    return [f"{case.key}: {', '.join(slower(times, e, growth))}" for case, e, times in suspects]
