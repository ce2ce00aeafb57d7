#!/usr/bin/env python3
"""Changes one line of a kernel at a time, and sees whether `pullback conform` notices.

    uv run tools/mutate_kernels.py numpy --count 500 --seed 7
    uv run tools/mutate_kernels.py numpy --show

A mutant is one random change of a function, as `tools/mutate.py` makes them. The first argument
says what is changed: the kernels of the NumPy backend, those of `pullback.array_api`, the bodies
and gradient rules of core's ops, or the fused kernels of the pack `native`. A first pass makes the
checks of a quick run, and notes which of them call which function (`--map` keeps it). Then each
mutant has a process forked from this one, which makes the quick checks that call its function,
those that take least first, and then those of the full runs of the ops that call it most, until
one fails. A full run of an op is looked through when the first mutant needs it. Each outcome is a
line of `--results` at once, so that an interrupted run goes on where it was. Nothing is written
into the sources.

Code at the top of a module is not looked at.
"""

from __future__ import annotations

import argparse
import gc
import inspect
import json
import os
import pickle
import random
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from mutate import Mutant, in_a_child, mutants_of, outermost

import pullback as pb
from pullback import array_api
from pullback.devices import Device, as_device
from pullback.plugins.public import use_kernel_packs
from pullback.spec import OPS
from pullback_conformance import runner
from pullback_conformance.mode import Mode
from pullback_conformance.plan import Item
from pullback_conformance.process import ProcessState
from pullback_conformance.registry import BACKEND
from pullback_conformance.samples import load
from pullback_numpy import NumPyBackend

#: A mutant whose checks take longer has made something endless.
ENDLESS = 180.0
#: The ops whose full runs judge a mutant, those that call its function most.
ROWS = 5
QUICK, FULL = "quick", "full"
#: What the checks of a mutant found, as the status of their process; 1 is any other end.
OUTCOMES = {10: QUICK, 11: FULL, 12: "none", 13: "none in time"}


class Target(NamedTuple):
    """A part of the sources that is changed, and the device that runs it."""

    paths: tuple[str, ...]
    device: Callable[[], Device]
    #: The checks that judge; all if there is none.
    only: str = ""


def _numpy() -> Device:
    use_kernel_packs([])
    return as_device("cpu")


def _registered(name: str, kernels: dict[str, Any]) -> Device:
    use_kernel_packs([])
    backend = type("Mutated", (NumPyBackend,), {"name": name, "kernels": kernels})
    pb.register_backend(backend())
    return as_device(name)


def _generated() -> Device:
    return _registered("generated", array_api.kernels(np, widen=True))


def _bodies() -> Device:
    of_numpy = NumPyBackend.kernels
    return _registered("bodies", {n: k for n, k in of_numpy.items() if OPS[n].primitive})


def _fused() -> Device:
    use_kernel_packs(["native"])
    return as_device("cpu")


TARGETS = {
    "numpy": Target(("backends/numpy/src/pullback_numpy",), _numpy),
    "generated": Target(("core/src/pullback/array_api",), _generated),
    "bodies": Target(("core/src/pullback/ops",), _bodies),
    "fused": Target(
        (
            "backends/native/src/pullback_native/fusion.py",
            "backends/native/src/pullback_native/fused_plan.py",
            "backends/native/src/pullback_native/compiled",
        ),
        _fused,
        "fused,compiled,value",
    ),
}

#: A check of a row: quick or full, the row and the number of the check in it.
Place = tuple[str, str, int]
#: The file, the first line, the name of a function, and the columns of its code.
Key = tuple[object, ...]


def key_of(code: CodeType) -> Key:
    """Tells one function from another, also two of one line."""
    return (code.co_filename, code.co_firstlineno, code.co_qualname, crc32(code.co_linetable))


def functions_of(paths: Iterable[str]) -> list[FunctionType]:
    """The functions of files and folders that are alive."""
    folders = tuple(str(Path(path).resolve()) for path in paths)
    gc.unfreeze()
    return [
        one
        for one in gc.get_objects()
        if type(one) is FunctionType and one.__code__.co_filename.startswith(folders)
    ]


def _parameters(code: CodeType) -> tuple[str, str]:
    """The parameters of a function as it has them, and the arguments that hand them on."""
    names = list(code.co_varnames)
    count, alone = code.co_argcount, code.co_kwonlyargcount
    plain, keywords, rest = names[:count], names[count : count + alone], names[count + alone :]
    rest = [name if name.isidentifier() else "_it" for name in rest]
    parameters, given = list(plain), list(plain)
    if code.co_posonlyargcount:
        parameters.insert(code.co_posonlyargcount, "/")
    if code.co_flags & inspect.CO_VARARGS:
        parameters.append(f"*{rest[0]}")
        given.append(f"*{rest.pop(0)}")
    elif keywords:
        parameters.append("*")
    parameters += keywords
    given += [f"{name}={name}" for name in keywords]
    if code.co_flags & inspect.CO_VARKEYWORDS:
        parameters.append(f"**{rest[0]}")
        given.append(f"**{rest[0]}")
    return ", ".join(parameters), ", ".join(given)


class Watch:
    """Notes which functions are called: each, once, by a code that stands in for its own."""

    def __init__(self, functions: Iterable[FunctionType]) -> None:
        self.seen: set[Key] = set()
        self._codes = [(one, one.__code__, self._first(one)) for one in functions]

    def _first(self, function: FunctionType) -> CodeType:
        """Code that notes the call, puts the function's own code back and runs it.

        It has the parameters of the function, which dispatch looks at.
        """
        own = function.__code__
        free = [f"_free{i:03}" for i in range(len(own.co_freevars))]
        parameters, given = _parameters(own)
        text = f"def outer({', '.join(free)}):\n def first({parameters}):\n"
        text += f"  return 'seen'({given})\n  {'; '.join(free) or 'pass'}\n"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a string is no function
            module = compile(text, own.co_filename, "exec")
        (outer,) = (x for x in module.co_consts if isinstance(x, CodeType))
        (first,) = (x for x in outer.co_consts if isinstance(x, CodeType))

        def seen(*args: Any, **kwargs: Any) -> Any:
            function.__code__ = own
            self.seen.add(key_of(own))
            return function(*args, **kwargs)

        constants = tuple(seen if x == "seen" else x for x in first.co_consts)
        return first.replace(co_consts=constants)

    def arm(self) -> None:
        """Begins anew."""
        self.seen.clear()
        for function, _, first in self._codes:
            function.__code__ = first

    def end(self) -> None:
        """Puts all code back."""
        for function, own, _ in self._codes:
            function.__code__ = own


class Survey:
    """The checks that call a function, of quick runs of all rows and of full runs of some."""

    def __init__(self, target: Target, path: Path) -> None:
        self.target, self.path = target, path
        self.device = target.device()
        load()
        self.functions = functions_of(target.paths)
        self.plans: dict[tuple[str, str], list[Item]] = {}
        #: For each row that has been looked through, the seconds of its checks.
        self.rows: dict[tuple[str, str], list[float]] = {}
        #: For each function, the checks that call it and pass as it is.
        self.callers: dict[Key, list[Place]] = {}
        if path.exists():
            self.rows, self.callers = pickle.loads(path.read_bytes())

    def plan(self, run: str, row: str) -> list[Item]:
        """The checks of a row."""
        if (run, row) not in self.plans:
            mode = Mode(quick=run == QUICK, only=self.target.only)
            self.plans[run, row] = runner.planned(row, self.device, mode=mode)
        return self.plans[run, row]

    def look(self, wanted: Iterable[tuple[str, str]]) -> None:
        """Looks rows through that have not been, in a process of their own."""
        missing = [one for one in wanted if one not in self.rows]
        if not missing:
            return
        found = self.path.with_suffix(".part")
        in_a_child(partial(self._look, missing, found), 36000)
        rows, callers = pickle.loads(found.read_bytes())
        self.rows |= rows
        for key, places in callers.items():
            self.callers.setdefault(key, []).extend(places)
        found.write_bytes(pickle.dumps((self.rows, self.callers)))
        found.replace(self.path)

    def _look(self, wanted: list[tuple[str, str]], path: Path) -> int:
        watch = Watch(self.functions)
        rows: dict[tuple[str, str], list[float]] = {}
        callers: dict[Key, list[Place]] = {}
        failed = 0
        for run, row in wanted:
            took = rows[run, row] = []
            for number, item in enumerate(self.plan(run, row)):
                watch.arm()
                began = time.perf_counter()
                right = passes(item)
                took.append(time.perf_counter() - began)
                failed += not right
                for key in watch.seen if right else ():
                    callers.setdefault(key, []).append((run, row, number))
            watch.end()
            self.device.backend.clear_caches()
            self.plans.pop((run, row), None)
        path.write_bytes(pickle.dumps((rows, callers)))
        if failed:
            print(f"{failed} checks fail without a change, and judge nothing")
        return 0

    def ordered(self, places: list[Place]) -> list[Place]:
        """Quick checks, those that take least first; of a full run one of each kind, then any."""
        if places and places[0][0] == QUICK:
            return sorted(places, key=lambda place: self.rows[place[:2]][place[2]])
        random.Random(0).shuffle(places)
        kinds = {(row, self.plan(run, row)[n].check): (run, row, n) for run, row, n in places}
        first = set(kinds.values())
        return sorted(places, key=lambda place: place not in first)


def passes(item: Item) -> bool:
    """Makes one check."""
    try:
        return runner.attempt(item) is None
    except runner.TierError:
        return True


def pairs(mutant: Mutant) -> tuple[CodeType, CodeType] | None:
    """The code of the function that a mutant changes, before and after."""
    source = mutant.path.read_bytes()
    path = str(mutant.path.resolve())
    try:
        after = outermost(mutant.applied(source).decode(), path)
    except SyntaxError:
        return None
    for old, new in zip(outermost(source.decode(), path), after, strict=False):
        if old.co_qualname == new.co_qualname and old != new:
            return old, new
    return None


def nested(old: CodeType, new: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """The codes that differ, of a function and of the functions in it."""
    yield old, new
    before = [one for one in old.co_consts if isinstance(one, CodeType)]
    after = [one for one in new.co_consts if isinstance(one, CodeType)]
    if len(before) == len(after):
        for a, b in zip(before, after, strict=True):
            if a != b and a.co_freevars == b.co_freevars:
                yield from nested(a, b)


def judge(
    survey: Survey,
    changed: list[tuple[CodeType, CodeType]],
    stages: dict[str, list[Place]],
    seconds: float,
) -> int:
    """Makes the checks with the changed code; the status says which run noticed."""
    warnings.simplefilter("ignore")
    state = ProcessState()
    replaced = dict(changed)
    for one in survey.functions:
        one.__code__ = replaced.get(one.__code__, one.__code__)
    end = time.perf_counter() + seconds
    for status, places in zip((10, 11), stages.values(), strict=True):
        for run, row, number in places:
            if not passes(survey.plan(run, row)[number]):
                return status
            if time.perf_counter() > end:
                return 13
        try:
            state.check("the mutant")
        except Exception:
            return status
    return 12


def campaign(options: argparse.Namespace) -> None:
    """Makes and judges mutants, one process for each."""
    target = TARGETS[options.target]
    survey = Survey(target, options.map)
    rows = [row for row in (BACKEND, *OPS) if not options.ops or row in options.ops.split(",")]
    rows = [row for row in rows if row == BACKEND or OPS[row].tier in survey.device.backend.tiers]
    survey.look((QUICK, row) for row in rows)
    done = {row["mutant"] for row in results(options.results)}
    every = list(mutants_of(map(Path, target.paths)))
    print(f"{len(every)} changes, {len(survey.callers)} functions called by quick checks")
    random.Random(options.seed).shuffle(every)
    count = 0
    for mutant in every:
        if count == options.count:
            break
        pair = pairs(mutant)
        if pair is None:
            continue
        codes = list(nested(*pair))
        # The innermost function is the one that has changed.
        key = next(
            (key_of(old) for old, _ in reversed(codes) if key_of(old) in survey.callers), None
        )
        if key is None:
            continue  # nothing calls it in a quick run
        count += 1
        if str(mutant) in done:
            continue
        began = time.monotonic()
        by, number = outcome(survey, key, codes, options.seconds)
        row = {
            "by": by,
            "mutant": str(mutant),
            "checks": number,
            "s": round(time.monotonic() - began, 1),
        }
        with options.results.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def outcome(
    survey: Survey, key: Key, codes: list[tuple[CodeType, CodeType]], seconds: float
) -> tuple[str, int]:
    """Which run notices a mutant, and the number of checks that there are of its function."""

    def stages(*runs: str) -> dict[str, list[Place]]:
        found = {run: [place for place in survey.callers[key] if place[0] == run] for run in runs}
        return {run: survey.ordered(places) for run, places in found.items()}

    def judged(stages: dict[str, list[Place]]) -> str:
        for run, row in {place[:2]: None for places in stages.values() for place in places}:
            survey.plan(run, row)
        gc.freeze()  # what a process only reads need not be copied for it
        work = partial(judge, survey, codes, {QUICK: [], FULL: [], **stages}, seconds)
        status = os.waitstatus_to_exitcode(in_a_child(work, ENDLESS))
        return OUTCOMES.get(status, f"{next(reversed(stages))}, by its process")

    quick = stages(QUICK)
    by = judged(quick)
    number = len(quick[QUICK])
    if by.startswith("none"):
        of_rows = Counter(place[1] for place in quick[QUICK])
        survey.look((FULL, row) for row, _ in of_rows.most_common(ROWS))
        full = stages(FULL)
        number += len(full[FULL])
        by = judged(full)
    return by, number


def results(path: Path) -> list[dict[str, Any]]:
    """The outcomes so far."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def show(path: Path) -> None:
    """Prints the survivors, and how many mutants each run noticed."""
    rows = results(path)
    for row in rows:
        if row["by"].startswith("none"):
            print(f"{row['mutant']} ({row['by']}; {row['checks']} checks)")
    print(f"{len(rows)} mutants: {dict(Counter(row['by'] for row in rows))}")


def main() -> None:
    """Runs the campaign."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--map", type=Path, help="default: mutants.TARGET.map")
    parser.add_argument("--results", type=Path, help="default: mutants.TARGET.jsonl")
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=60.0, help="of the checks of a mutant")
    parser.add_argument("--ops", default="", help="the ops whose checks judge; all by default")
    parser.add_argument("--show", action="store_true", help="print what the results say")
    options = parser.parse_args()
    options.map = options.map or Path(f"mutants.{options.target}.map")
    options.results = options.results or Path(f"mutants.{options.target}.jsonl")
    if options.show:
        show(options.results)
    else:
        campaign(options)


if __name__ == "__main__":
    main()
