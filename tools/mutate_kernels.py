#!/usr/bin/env python3
"""Changes one line of a kernel at a time, and sees whether `pullback conform` notices.

    uv run tools/mutate_kernels.py numpy --count 500 --seed 7
    uv run tools/mutate_kernels.py numpy --show

A mutant is one random change of a function, as `mutants.py` makes them. The first argument says
what is changed: the kernels of the NumPy backend, those of `pullback.array_api` (`generated`, and
over libraries that have less `single` and `nearly`), the bodies and gradient rules of core's ops
(`bodies`, and `less` where there is no float64), or the fused kernels of the pack `native`. A first
pass makes some checks of every op, and notes which of them run which statement (`--map` keeps it).
Then each mutant has a process forked from this one, which makes those that run its statement, one
of each kind first and those that take least before others, until one fails. If none does, further
processes make the other quick checks of the ops that run it most, and their full runs, which are
looked through when the first mutant needs them. Each outcome is a line of `--results` at once, so
that an interrupted run goes on where it was, `--part` lets several processes share the work, and
`--again` judges the survivors once more, with the checks that there are now. Nothing is written
into the sources.

Code at the top of a module is not looked at.
"""

from __future__ import annotations

import argparse
import fcntl
import gc
import pickle
import random
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from libraries import NearlyBackend, SingleBackend
from mutants import (
    Mutant,
    Results,
    exchanged,
    in_a_child,
    inner,
    mutants_of,
    options,
    sources,
)
from probes import Probes

import pullback as pb
from pullback import array_api
from pullback.devices import Device, as_device, backends_in_use
from pullback.dtypes import name_of
from pullback.plugins.public import use_kernel_packs
from pullback.spec import OPS
from pullback_conformance import runner
from pullback_conformance.compare import ConformanceError
from pullback_conformance.mode import Mode
from pullback_conformance.plan import Item
from pullback_conformance.process import ProcessState
from pullback_conformance.registry import BACKEND
from pullback_conformance.samples import load
from pullback_numpy import NumPyBackend

#: A mutant whose checks take longer has made something endless.
ENDLESS = 120.0
#: The checks that judge, in this order: some of the quick runs of all ops; the others of those ops
#: that run the statement most; some of the full runs of these.
SAMPLE, QUICK, FULL = "sample", "quick", "full"
#: So many checks of an op, and so many ops.
SOME = {SAMPLE: 60, QUICK: 1000, FULL: 4000}
ROWS = {QUICK: 5, FULL: 3}
#: What the checks of a mutant found, as the status of their process; 1 is any other end.
NOTICED, UNNOTICED, ENDED = 10, 12, 13
#: Its samples and checks.
KIT = "conformance/src/pullback_conformance"
Array = np.ndarray[Any, Any]


class Target(NamedTuple):
    """A part of the sources that is changed, and the device that runs it."""

    paths: tuple[str, ...]
    device: Callable[[], Device]
    #: The checks that judge; all if there is none.
    only: str = ""


def _numpy() -> Device:
    use_kernel_packs([])
    return as_device("cpu")


def _registered(name: str, kernels: dict[str, Any], **members: Any) -> Device:
    use_kernel_packs([])
    backend = type("Mutated", (NumPyBackend,), {"name": name, "kernels": kernels, **members})
    pb.register_backend(backend())
    return as_device(name)


def _generated() -> Device:
    # Those that NumPy has a name for.
    held = {dtype: n for dtype, n in NumPyBackend.dtypes.items() if hasattr(np, name_of(dtype))}
    return _registered("generated", array_api.kernels(np, widen=True), dtypes=held)


def _library(backend: type[NumPyBackend]) -> Device:
    use_kernel_packs([])
    pb.register_backend(backend())
    return as_device(backend.name)


def _bodies() -> Device:
    of_numpy = NumPyBackend.kernels
    return _registered("bodies", {n: k for n, k in of_numpy.items() if OPS[n].primitive})


def _fused() -> Device:
    use_kernel_packs(["native"])
    return as_device("cpu")


TARGETS = {
    "numpy": Target(("backends/numpy/src/pullback_numpy",), _numpy),
    "generated": Target(("core/src/pullback/array_api",), _generated),
    "single": Target(("core/src/pullback/array_api",), partial(_library, SingleBackend)),
    "nearly": Target(("core/src/pullback/array_api",), partial(_library, NearlyBackend)),
    "bodies": Target(("core/src/pullback/ops",), _bodies),
    "less": Target(("core/src/pullback/ops",), partial(_library, SingleBackend)),
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


class Ran(NamedTuple):
    """Checks of a row: their names, numbers, seconds, and a bit for each probe that they run."""

    checks: list[str]
    numbers: Array
    seconds: Array
    bits: Array


class Survey:
    """Tells which checks run a statement: of all ops some, of some ops more."""

    def __init__(self, target: Target, path: Path) -> None:
        self.device = target.device()
        self._only = target.only
        load()
        self.probes = Probes(sources(map(Path, target.paths)))
        self.plans: dict[tuple[bool, str], list[Item]] = {}
        self.rows: dict[tuple[str, str], Ran] = {}
        # The map is of these sources only. Several processes add rows to it.
        files = sources(map(Path, (*target.paths, KIT)))
        self._path = path.with_suffix(f".{crc32(b''.join(map(Path.read_bytes, files))):08x}")
        self._path.touch()
        self._end = 0
        self._refresh()

    def _refresh(self) -> None:
        with self._path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH)
            file.seek(self._end)
            while self._end < self._path.stat().st_size:
                place, ran = pickle.load(file)
                self.rows[place] = Ran(*ran)
                self._end = file.tell()

    def plan(self, run: str, row: str) -> list[Item]:
        """The checks of a row."""
        quick = run != FULL
        if (quick, row) not in self.plans:
            mode = Mode(quick=quick, only=self._only)
            self.plans[quick, row] = runner.planned(row, self.device, mode=mode)
        return self.plans[quick, row]

    def look(self, run: str, rows: Iterable[str]) -> None:
        """Looks rows through that have not been, in a process of their own."""
        missing = [row for row in rows if (run, row) not in self.rows]
        if missing:
            random.shuffle(missing)  # others take other ones
            in_a_child(partial(self._look, run, missing), 36000)
            self._refresh()

    def _look(self, run: str, rows: list[str]) -> int:
        warnings.simplefilter("ignore")
        self.probes.plant()
        for row in rows:
            self._refresh()
            if (run, row) not in self.rows:
                found = pickle.dumps(((run, row), tuple(self._ran(run, row))))
                with self._path.open("ab") as file:
                    fcntl.flock(file, fcntl.LOCK_EX)
                    file.write(found)
        return 0

    def _ran(self, run: str, row: str) -> Ran:
        hits = np.frombuffer(self.probes.hits, np.uint8)
        checks, numbers, seconds, bits, failed = [], [], [], [], []
        plan = self.plan(run, row)
        for number in some(plan, SOME[run]):
            forget()
            hits[:] = 0
            began = time.process_time()
            if passes(plan[number]):
                checks.append(plan[number].check)
                numbers.append(number)
                seconds.append(time.process_time() - began)
                bits.append(np.packbits(hits))
            else:
                failed.append(f"{plan[number].check} of {plan[number].case}")
        if failed:
            print(f"{len(failed)} checks fail without a change, such as {failed[0]}", flush=True)
        self.device.backend.clear_caches()
        self.plans.pop((run != FULL, row), None)
        packed = np.array(bits, np.uint8).reshape(len(bits), -(-len(hits) // 8))
        return Ran(checks, np.array(numbers, int), np.array(seconds), packed)

    def runs(self, run: str, probe: int) -> list[Place]:
        """The checks of a run that run a probe, first one of each kind, quick ones before others.

        A kind is an op and a check, and of these the ones that take least come first.
        """
        found = []
        for (which, row), ran in self.rows.items():
            if which == run and len(ran.numbers):
                at = np.flatnonzero(ran.bits[:, probe >> 3] & (128 >> (probe & 7)))
                found += [(ran.seconds[i], row, ran.checks[i], int(ran.numbers[i])) for i in at]
        seen = set()
        turns = []
        for took, row, check, number in sorted(found):
            turns.append(((row, check) in seen, took, (run, row, number)))
            seen.add((row, check))
        return [place for *_, place in sorted(turns)]


def some(plan: list[Item], count: int) -> list[int]:
    """The numbers of some checks of a plan: one of each kind first, then any."""
    order = random.Random(0).sample(range(len(plan)), len(plan))
    first = {plan[number].check: number for number in order}.values()
    return [*first, *(number for number in order if number not in set(first))][:count]


def forget() -> None:
    """Clears what rules and plans gave before, which a mutant may give otherwise."""
    for op in OPS.values():
        for kept in (op.scalars, op.forms, op.resolutions):
            kept.clear()
    for backend in backends_in_use():
        backend.forget_kernels()
    for function in remembering():
        function.cache_clear()


@cache
def remembering() -> list[Any]:
    """The functions of pullback and its backends that have a cache."""
    of_pullback = [one for name, one in sys.modules.items() if name.startswith("pullback")]
    values = [value for module in of_pullback for value in list(vars(module).values())]
    return [one for one in values if hasattr(one, "cache_clear") and not isinstance(one, type)]


def passes(item: Item) -> bool:
    """Makes one check."""
    try:
        return runner.attempt(item) is None
    except runner.TierError:
        return True


def nested(old: CodeType, new: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """The codes that differ, of a function and of the functions in it."""
    yield old, new
    if len(inner(old)) == len(inner(new)):
        for a, b in zip(inner(old), inner(new), strict=True):
            if a != b:
                yield from nested(a, b)


def judge(
    survey: Survey, changed: list[tuple[CodeType, CodeType]], places: list[Place], seconds: float
) -> int:
    """Makes checks with the changed code, until one fails; the status says what was seen."""
    warnings.simplefilter("ignore")
    state = ProcessState()
    replaced = dict(changed)
    for one in survey.probes.functions:
        one.__code__ = replaced.get(one.__code__, one.__code__)
    forget()
    end = time.process_time() + seconds
    for run, row, number in places:
        if not passes(survey.plan(run, row)[number]):
            return NOTICED
        if time.process_time() > end:
            return ENDED
    try:
        state.check("the mutant")
    except ConformanceError:
        return NOTICED
    return UNNOTICED


def campaign(options: argparse.Namespace) -> None:
    """Makes and judges mutants, one process for each."""
    target = TARGETS[options.target]
    survey = Survey(target, options.map)
    rows = [row for row in (BACKEND, *OPS) if not options.ops or row in options.ops.split(",")]
    rows = [row for row in rows if row == BACKEND or OPS[row].tier in survey.device.backend.tiers]
    survey.look(SAMPLE, rows)
    results = Results(options.results)
    left = set(results.left())
    part, parts = map(int, options.part.split("/"))
    gc.collect()
    gc.freeze()  # what a process only reads need not be copied for it
    count = 0
    for mutant in drawn(map(Path, target.paths), options.seed, further=options.further):
        if count == options.count:
            break
        at = survey.probes.at(mutant.path, (mutant.lines[0], mutant.columns[0]))
        if at is None or not survey.runs(SAMPLE, at[1]):
            continue  # no check of the sample calls its function
        pair = exchanged(mutant)
        if pair is None:
            continue
        count += 1
        known = mutant.is_equivalent
        wanted = (
            mutant.key in left and not known if options.again else mutant.key not in results.rows
        )
        if count % parts == part % parts and wanted:
            began = time.monotonic()
            # Of one that was read the sample says enough: there is nothing to find.
            every = [SAMPLE, QUICK] if options.quick else [SAMPLE, QUICK, FULL]
            runs = [SAMPLE] if known else every
            codes = [*nested(*pair)]
            by, checks = outcome(survey, at, codes, runs, options.seconds)
            results.add(mutant, by, began, checks)


def drawn(paths: Iterable[Path], seed: int, *, further: bool) -> list[Mutant]:
    """All mutants in a random order, that a change of the sources leaves to all others."""
    seen: Counter[str] = Counter()
    every = []
    for mutant in mutants_of(paths, further=further):
        name = f"{mutant.path} {mutant.change}"
        seen[name] += 1
        every.append((random.Random(f"{seed} {name} {seen[name]}").random(), len(every), mutant))
    return [mutant for *_, mutant in sorted(every)]


def outcome(
    survey: Survey,
    at: tuple[int, int],
    codes: list[tuple[CodeType, CodeType]],
    runs: list[str],
    seconds: float,
) -> tuple[str, int]:
    """Which run notices a mutant, and the number of checks that there are of its statement."""
    number = 0
    ended = False
    for run in runs:
        if run != SAMPLE:
            # The ops whose checks run the statement most, or else call its function.
            close = survey.runs(SAMPLE, at[0]) or survey.runs(SAMPLE, at[1])
            of_rows = Counter(place[1] for place in close)
            survey.look(run, [row for row, _ in of_rows.most_common(ROWS[run])])
        places = survey.runs(run, at[0])
        number += len(places)
        if not places:
            continue
        for _, row, _ in places:
            survey.plan(run, row)
        status = in_a_child(partial(judge, survey, codes, places, seconds), ENDLESS)
        if status not in (UNNOTICED, ENDED):
            which = FULL if run == FULL else QUICK
            return which if status == NOTICED else f"{which}, by its process", number
        ended |= status == ENDED
    if not number:
        return "none: no check runs it", 0
    return "none in time" if ended else "none", number


def main() -> None:
    """Runs the campaign."""
    parser = options(str(__doc__), 500, "mutants.TARGET.jsonl")
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--seconds", type=float, default=10.0, help="of the checks of a mutant")
    parser.add_argument("--ops", default="", help="the ops whose checks judge; all by default")
    parser.add_argument("--again", action="store_true", help="judge the survivors, no others")
    parser.add_argument("--further", action="store_true", help="mutants of further forms")
    parser.add_argument("--quick", action="store_true", help="leave full runs to a later --again")
    parser.add_argument("--part", default="1/1", help="2/4: every fourth mutant from the second")
    given = parser.parse_args()
    given.map = given.map or Path(f"mutants.{given.target}.map")
    given.results = given.results or Path(f"mutants.{given.target}.jsonl")
    if given.show:
        Results(given.results).show()
    else:
        campaign(given)


if __name__ == "__main__":
    main()
