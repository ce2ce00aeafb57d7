"""Measures a backend: runs the items of the plan and counts."""

from __future__ import annotations

import contextlib
import fnmatch
import random
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Protocol

from pullback import errors
from pullback.devices import Device, DeviceLike, as_device
from pullback.plugins.public import registry
from pullback.plugins.validation import nearest
from pullback.spec import OPS, Op, Tier
from pullback_conformance import basics, deviations, saved
from pullback_conformance.blame import culprit, settled
from pullback_conformance.compare import ConformanceError
from pullback_conformance.mode import Clock, Mode
from pullback_conformance.plan import Item, backend_items, by_cost, in_parts, items, random_items
from pullback_conformance.process import ProcessState
from pullback_conformance.registry import BACKEND, CHECKS, PROCESS, Area, known
from pullback_conformance.report import Report, Row
from pullback_conformance.samples import load

#: The folders of core and of the kit.
_OURS = {Path(one).resolve().parent for one in (errors.__file__, __file__)}

#: The part of the time for an op after which its plan is begun with, though more rules are left.
PLANNING = 4

#: A progress display: takes rows that are yielded as they end, and their number.
Progress = Callable[[Iterator[str], int], Iterable[str]]
#: Gets the report after each op, with the op's row.
Done = Callable[[Report, Row], None]


class Measure(Protocol):
    """Measures the rows of a report: in this process, or in others."""

    def basics(self, device: Device, report: Report) -> str:
        """Says what is wrong with the prerequisites of all checks; empty if nothing is."""

    def __call__(self, rows: Sequence[str], device: Device, report: Report) -> Iterator[str]:
        """Yields each row when the report has it."""


class InTurn:
    """Measures one row after the other in this process; until the end of the budget."""

    def basics(self, device: Device, report: Report) -> str:
        """Says what is wrong with the prerequisites of all checks; empty if nothing is."""
        try:
            state = ProcessState()
            basics.check(device)
            state.check(f"{type(device.backend).__name__}, in a transfer or in add")
        except ConformanceError as error:
            return str(error)
        return ""

    def __call__(self, rows: Sequence[str], device: Device, report: Report) -> Iterator[str]:
        """Yields each row when the report has it."""
        load()  # seconds, at the first time, which are not the first op's
        clock = Clock(report.mode, len(rows))
        for row in rows:
            limit = clock.next()
            if limit == 0:
                return
            measure(row, device, report, limit=limit)
            device.backend.clear_caches()
            yield row


def conform(
    backend: DeviceLike,
    *,
    ops: Iterable[str] = (),
    quick: bool = False,
    mode: Mode | None = None,
    by: Measure | None = None,
    progress: Progress = lambda rows, count: rows,
    done: Done = lambda report, row: None,
    start: Callable[[Report], None] = lambda report: None,
) -> Report:
    """Measures a backend against the op specification.

    The run covers the tiers and dtypes that the backend claims, and every kernel in them.

    Args:
        backend: the name of a backend or of one of its devices.
        ops: names of ops, or patterns such as `conv*`; "backend" for what it does beside kernels;
            without any, all of them.
        quick: each sample in one dtype, and few gradients.
        mode: random calls, or a random sample of the checks; in place of `quick`.
        by: measures the ops; `workers.Workers(4)` does so in four processes, in which each check
            has a time limit. None for this process, which a check that hangs holds up.
        progress: takes the names of ops that are yielded as they end, and their number, and yields
            them again.
        done: is called after each op. Ctrl-C ends the run; the report then has the ops until there.
        start: is called before the first op, and may restore rows of ops that need no other run.

    Raises:
        BackendError: if the backend cannot be used.
        InputValueError: if a pattern matches no op, there is no such check, or the deviations of
            the backend are wrong.

    >>> from pullback_conformance.runner import conform
    >>> conform("cpu", ops=["add", "softmax"], quick=True).passed
    True
    """
    device = as_device(backend)
    chosen = select(ops)
    report = new_report(device, str(backend), mode or Mode(quick=quick))
    for option in ("only", "without"):
        names = filter(None, map(str.strip, getattr(report.mode, option).split(",")))
        known(names, (*CHECKS, PROCESS), f"--{option}: unknown check")
    by = by or InTurn()
    began = time.perf_counter()
    with warnings.catch_warnings():
        # Samples have infinities, divisions by zero and odd layouts. The results are checked, so
        # warnings of the backend's library are not shown.
        warnings.simplefilter("ignore")
        report.stopped = by.basics(device, report)
        if report.stopped:
            return report
        start(report)
        before = report.rows.keys() - report.left
        left = [row for row in chosen if report.claims(row) and row not in before]
        if report.mode.random:
            left = [row for row in left if row != BACKEND]  # it has no samples to vary
        if report.mode.budget:
            # If there is no time for all, any of them.
            random.Random(report.mode.seed).shuffle(left)
        report.left.update(left)
        try:
            for row in progress(by(left, device, report), len(left)):
                report.left.discard(row)
                report.seconds = time.perf_counter() - began
                done(report, report.rows[row])
            report.left.difference_update(left)  # the end of a budget
        except KeyboardInterrupt:
            pass  # the report says what is left
    report.failures = settled(report.failures, report.rows)
    report.sort()
    report.seconds = time.perf_counter() - began
    return report


def new_report(device: Device, name: str, mode: Mode) -> Report:
    """An empty report of the backend of a device."""
    backend = device.backend
    held = tuple(map(str, backend.dtypes))
    tiers = frozenset(map(Tier, backend.tiers))
    report = Report(name, str(device), backend.version, tiers, held, mode)
    about = registry.about(backend.name)
    report.packs = tuple(pack.name for pack in about.packs if pack.state == "ready")
    report.left_out = about.left_out
    report.deviations = deviations.declared(backend)
    return report


def select(patterns: Iterable[str]) -> list[str]:
    """The rows that match any of the patterns, "backend" and the ops; all without patterns.

    Raises:
        InputValueError: for a pattern that matches none.
    """
    rows = (BACKEND, *OPS)
    wanted = [pattern.strip() for pattern in patterns if pattern.strip()]
    for pattern in wanted:
        if not fnmatch.filter(rows, pattern):
            raise errors.InputValueError(f"unknown op {pattern!r}{nearest(pattern)}")
    return [row for row in rows if any(fnmatch.fnmatch(row, p) for p in wanted or "*")]


def measure(
    row: str,
    device: Device,
    report: Report,
    *,
    limit: float | None = None,
    watch: Callable[[int], None] = lambda number: None,
    ended: Sequence[tuple[int, str]] = (),
    until: int | None = None,
) -> None:
    """Runs the items of a row and records the results; Ctrl-C leaves what was known of it before.

    Args:
        row: the name of an op, or "backend".
        device: the device that it is measured on.
        report: gets the results.
        limit: the seconds after which a random sample of the items ends; None for all items.
        watch: is called with the number of an item before it runs.
        ended: the numbers of items that ended a process before, and how. They fail so, and do not
            run again.
        until: the number of the last item.
    """
    began = time.perf_counter()
    before = report.as_dict() if row in report.rows else {}
    report.forget(row)
    try:
        end = None if limit is None else began + limit
        _run(row, device, report, end, watch, dict(ended), until)
    except KeyboardInterrupt:
        report.forget(row)
        saved.restore(report, before, [row])
        raise
    report.rows[row].on_host = row in device.backend.on_host
    report.rows[row].seconds = time.perf_counter() - began


def _run(
    name: str,
    device: Device,
    report: Report,
    end: float | None,
    watch: Callable[[int], None],
    ended: Mapping[int, str],
    until: int | None,
) -> None:
    """Runs the items; a random sample of them if it has to end at some time."""
    mode = report.mode
    backend = device.backend
    row = report.rows[name] = Row(name, bool(backend.kernels_for(name)))
    row.fallback = "" if row.kernel else backend.fallback.get(name, "")
    if name not in load() and name != BACKEND:
        report.unknown.append(name)
    in_part = end is not None and name in load() and not mode.random and not row.missing
    plan = [] if in_part else planned(name, device, mode=mode)
    row.planned = len(plan)
    if row.missing:
        # All checks of the op fail, and are listed once.
        for area in [item.area for item in plan] or [Area.VALUES]:
            row.counts[area].total += 1
        report.lacks(name)
        return
    every: Iterable[Item] = plan
    if end is not None:
        seed = f"{mode.seed} {name}"
        every = _some(row, device, mode, end, seed) if in_part else by_cost(plan, seed)
    state = ProcessState()
    for number, item in enumerate(islice(every, None if until is None else until + 1)):
        if end is not None and number and time.perf_counter() > end:
            break
        if number in ended:
            report.record(item, ended[number], lambda item: "")
            continue
        watch(number)
        if item.case is None and row.beyond and not row.count.total:
            continue  # every sample needs a tier that is not claimed
        try:
            wrong = attempt(item)
        except TierError as error:
            row.beyond.add(error.tier)
            continue
        report.record(item, wrong, partial(_cause, report, partial(watch, number)))
    if row.planned and (row.count.total or row.count.declared) and mode.makes(PROCESS):
        last = Item(name, device, PROCESS, Area.EDGES, None, partial(state.check, name))
        report.record(last, attempt(last), lambda item: "")
    # Errors that come late, of results that no check reads, are not the next op's.
    with contextlib.suppress(Exception):
        device.synchronize()


def _some(row: Row, device: Device, mode: Mode, end: float, seed: str) -> Iterator[Item]:
    """The items in a random order, cheap ones first: of as many rules as there is time to plan.

    Then those of the other rules, and last what a full run has more.
    """
    op, suite = OPS[row.name], load()[row.name]
    parts = in_parts(op, suite, device, quick=mode.quick, seed=seed)
    share = max(end - time.perf_counter(), 0.0) / PLANNING
    few: list[Item] = []
    left = True
    while left:
        until = time.perf_counter() + share
        some: list[Item] = []
        while left and not (some and time.perf_counter() > until):
            part = next(parts, None)
            left = part is not None
            some += [item for item in part or () if mode.makes(item.check)]
        row.planned += len(some)
        few += some
        yield from by_cost(some, seed)
    if mode.quick:
        return
    seen = Counter((item.check, item.sample, item.dtype) for item in few)
    others = []
    for item in planned(row.name, device, mode=mode):
        name = (item.check, item.sample, item.dtype)
        seen[name] -= 1
        if seen[name] < 0:
            others.append(item)
    row.planned += len(others)
    yield from by_cost(others, seed)


def _cause(report: Report, watch: Callable[[], None], item: Item) -> str:
    """The op to blame, looked for once for each op and kind of check."""
    if item.case is None or report.mode.budget:
        return ""
    by_value = CHECKS[item.check].by_value
    key = (item.row, by_value)
    if key not in report.causes:

        def fails(op: Op) -> bool:
            if op.name not in report.suspects:
                # Without what is declared: it explains nothing else that is wrong.
                report.suspects[op.name] = any(
                    _wrong(other, watch)
                    for other in planned(op.name, item.device, mode=Mode(quick=True, only="value"))
                    if not report.covering(op.name, "value", other.case)
                )
            return report.suspects[op.name]

        report.causes[key] = culprit(item.case, fails, by_value=by_value)
    return report.causes[key]


def _wrong(item: Item, watch: Callable[[], None]) -> bool:
    watch()
    try:
        return attempt(item) is not None
    except TierError:
        return False


def planned(row: str, device: Device, *, mode: Mode) -> list[Item]:
    """The items of a row; none of an op without samples.

    Args:
        row: the name of an op, or "backend".
        device: the device that it is measured on.
        mode: which of the checks are made.
    """
    suite = load().get(row)
    found: Iterable[Item] = ()
    if row == BACKEND:
        found = backend_items(device)
    elif suite is not None and mode.random:
        found = random_items(OPS[row], suite, device, mode.random, mode.seed)
    elif suite is not None:
        found = items(OPS[row], suite, device, quick=mode.quick)
    return [item for item in found if mode.makes(item.check)]


class TierError(Exception):
    """An item needs a tier that the backend does not claim, and cannot be measured."""

    def __init__(self, tier: str) -> None:
        super().__init__(f"needs the tier {tier}, which the backend does not claim")
        self.tier = tier


def attempt(item: Item) -> str | None:
    """Runs an item; returns None if it passes, or the message of its failure.

    Raises:
        TierError: if it needs a primitive of a tier that the backend does not claim.
    """
    try:
        item.run()
    except errors.MissingKernelError as error:
        if error.tier and error.tier not in item.device.backend.tiers:
            raise TierError(error.tier) from error
        return str(error)
    except ConformanceError as error:
        subject = item.case or (item.device if item.row == BACKEND else item.row)
        return str(error).removeprefix(f"{subject}: ")
    except Exception as error:
        return f"raised {type(error).__name__}: {error}{_location(error)}"
    return None


def _location(error: BaseException) -> str:
    """The line of a backend that raised, for its author: the first below the last of ours."""
    while error.__cause__ is not None:
        error = error.__cause__
    location = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        path = Path(frame.f_code.co_filename)
        ours = not _OURS.isdisjoint(path.parents) or path.name.startswith("<pullback ")
        if ours or not location:
            location = "" if ours else f" ({path.name}, line {line})"
    return location
