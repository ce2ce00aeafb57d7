#!/usr/bin/env python3
"""Changes one line of core at a time, and sees whether the tests notice.

    uv run tools/mutate.py --count 150 --seed 7
    uv run tools/mutate.py --show
    uv run tools/mutate.py --again --results mutants.bodies.jsonl tests/ops tests/transforms

A mutant is one random change of a function, as `mutants.py` makes them. The tests are collected
once. A first pass notes which of them call which function (`--map` keeps it). Then each mutant has
a process forked from this one, which puts the new code into the function and runs tests that call
it, the quickest first, until one fails; a mutant that none notices is a survivor. Each outcome is a
line of `--results` at once, so that an interrupted run goes on where it was. `--marks` chooses the
lane. `--again` judges the survivors of `--results` instead, such as those that `mutate_kernels.py`
has left in bodies and rules. Nothing is written into the sources.

Code at the top of a module, and what tests run in other processes, are not looked at.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import sys
import threading
import time
from functools import partial
from pathlib import Path
from types import CodeType, FrameType, FunctionType

import pytest
from _pytest.runner import runtestprotocol
from mutants import (
    Mutant,
    Results,
    exchanged,
    in_a_child,
    key_of,
    mutants_of,
    options,
)

FOLDER = Path("core/src/pullback")
PACKAGES = ("_dispatch", "_autodiff", "graph", "data", "checkpoint")
#: Where the tests are that judge.
FOLDERS = ("dispatch", "autodiff", "graph", "data", "checkpoint")
#: At most so many tests for a mutant.
TESTS = 400
#: A mutant whose tests take longer has made something endless.
SECONDS = 120


def chosen(every: list[Mutant], seed: int, count: int) -> list[Mutant]:
    """Some of them, as many of each package and, in it, spread over its files."""
    order = random.Random(seed)
    found = []
    for package in PACKAGES:
        of_it = [one for one in every if package in one.path.parts]
        found += order.sample(of_it, min(len(of_it), -(-count // len(PACKAGES))))
    order.shuffle(found)
    return found


def left(results: Results) -> list[Mutant]:
    """The survivors of core that were not read as equivalent."""
    keys = set(results.left())
    every = mutants_of([FOLDER])
    return [one for one in every if one.key in keys and not one.is_equivalent]


def functions() -> dict[str, list[FunctionType]]:
    """The functions of core that are alive, by their keys."""
    gc.unfreeze()
    found: dict[str, list[FunctionType]] = {}
    for one in gc.get_objects():
        if type(one) is FunctionType:
            found.setdefault(key_of(one.__code__), []).append(one)
    return found


class Campaign:
    """A plugin of pytest: instead of running what was collected once, runs it on each mutant."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Finds what each test runs, then makes and judges mutants, one process for each."""
        if not self.options.map.exists():
            in_a_child(lambda: self.survey(session), 3600)
        ran = json.loads(self.options.map.read_text(encoding="utf-8"))
        items = {item.nodeid: item for item in session.items}
        results = Results(self.options.results)
        alive = functions()
        again = self.options.again
        count = 0 if again else len(results.rows)
        for mutant in left(results) if again else self.drawn():
            if count >= self.options.count:
                break
            pair = exchanged(mutant)
            judged = not again and mutant.key in results.rows
            if judged or pair is None or key_of(pair[0]) not in alive:
                continue
            tests = ran.get(key_of(pair[0]), ())
            tests = [items[test] for test in tests if test in items]
            if not tests:
                continue  # run by tests in processes of their own, by others, or by none
            began = time.monotonic()
            killed = in_a_child(partial(self.judge, tests, alive, *pair), SECONDS) != 0
            if killed or not again:
                by = "none" if not killed else "tests of core" if again else "fast"
                results.add(mutant, by, began, len(tests))
            count += 1
        return True

    def drawn(self) -> list[Mutant]:
        """More mutants of core than are wanted, since no test calls some."""
        every = list(mutants_of(FOLDER / name for name in PACKAGES))
        return chosen(every, self.options.seed, 6 * self.options.count)

    def survey(self, session: pytest.Session) -> int:
        """Writes which tests call which functions, the quick tests first."""
        ran: dict[str, list[tuple[float, str]]] = {}
        folder = str(FOLDER.resolve())
        seen: set[CodeType] = set()

        def look(frame: FrameType, event: str, argument: object) -> None:
            seen.add(frame.f_code)

        for item in session.items:
            seen.clear()
            # Not `settrace`, which captured functions use.
            threading.setprofile(look)
            sys.setprofile(look)
            began = time.process_time()
            failed = fails(item)
            took = time.process_time() - began
            sys.setprofile(None)
            threading.setprofile(None)
            if failed:
                continue  # it fails because it is watched
            for code in [*seen]:
                if code.co_filename.startswith(folder):
                    ran.setdefault(key_of(code), []).append((took, item.nodeid))
        ordered = {place: [test for _, test in sorted(tests)] for place, tests in ran.items()}
        self.options.map.write_text(json.dumps(ordered), encoding="utf-8")
        return 0

    def judge(
        self,
        tests: list[pytest.Item],
        alive: dict[str, list[FunctionType]],
        old: CodeType,
        new: CodeType,
    ) -> int:
        """Runs the tests of a mutant until one fails; 1 if one did."""
        for function in alive[key_of(old)]:
            function.__code__ = new
        # Half of them the quickest, half from all of them.
        some = tests[: TESTS // 2]
        rest = tests[TESTS // 2 :]
        some += random.Random(0).sample(rest, min(len(rest), TESTS // 2))
        return int(any(fails(item) for item in some))


def fails(item: pytest.Item) -> bool:
    """Runs one test."""
    return any(report.failed for report in runtestprotocol(item, log=False, nextitem=None))


def main() -> None:
    """Runs the campaign."""
    parser = options(str(__doc__), 150, "mutants.jsonl")
    parser.add_argument("--marks", default="not slow and not campaign", help="the lane to judge")
    parser.add_argument("--again", action="store_true", help="judge the survivors, no others")
    parser.add_argument("tests", nargs="*", default=[f"tests/{name}" for name in FOLDERS])
    given = parser.parse_args()
    given.map = given.map or Path("mutants.map.json")
    given.results = given.results or Path("mutants.jsonl")
    if given.show:
        Results(given.results).show()
        return
    arguments = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", given.marks]
    pytest.main([*arguments, *given.tests], plugins=[Campaign(given)])


if __name__ == "__main__":
    main()
