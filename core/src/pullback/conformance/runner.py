"""Measures a backend: runs the items of the plan and counts."""

from __future__ import annotations

import fnmatch
import random
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from pullback import errors
from pullback.conformance import basics, deviations, saved
from pullback.conformance.blame import culprit, settled
from pullback.conformance.compare import ConformanceError
from pullback.conformance.mode import Clock, Mode
from pullback.conformance.plan import Area, Item, items, random_items
from pullback.conformance.process import ProcessState
from pullback.conformance.report import Report, Row
from pullback.conformance.samples import load
from pullback.devices import Device, DeviceLike, as_device
from pullback.plugins.public import registry
from pullback.plugins.validation import nearest
from pullback.spec import OPS, Op, Tier

#: The folder of `pullback`.
_HERE = Path(__file__).resolve().parents[1]

#: Measures ops, and yields each when the report has its row.
Measure = Callable[[Sequence[Op], Device, Report], Iterator[Op]]
#: A progress display: takes ops that are yielded as they end, and their number.
Progress = Callable[[Iterator[Op], int], Iterable[Op]]
#: Gets the report after each op, with the op's row.
Done = Callable[[Report, Row], None]


def in_turn(ops: Sequence[Op], device: Device, report: Report) -> Iterator[Op]:
    """Measures one op after the other in this process; until the end of the budget."""
    load()  # seconds, at the first time, which are not the first op's
    clock = Clock(report.mode, len(ops))
    for op in ops:
        limit = clock.next()
        if limit == 0:
            return
        measure(op, device, report, limit=limit)
        device.backend.clear_caches()
        yield op


def conform(
    backend: DeviceLike,
    *,
    ops: Iterable[str] = (),
    quick: bool = False,
    mode: Mode | None = None,
    by: Measure = in_turn,
    progress: Progress = lambda ops, count: ops,
    done: Done = lambda report, row: None,
    start: Callable[[Report], None] = lambda report: None,
) -> Report:
    """Measures a backend against the op specification.

    The run covers the tiers and dtypes that the backend claims, and every kernel in them.

    Args:
        backend: the name of a backend or of one of its devices.
        ops: names of ops, or patterns such as `conv*`; without any, all ops.
        quick: each sample in one dtype, and few gradients.
        mode: random calls, or a random sample of the checks; in place of `quick`.
        by: measures the ops; `workers.Workers(4)` does so in four processes.
        progress: takes ops that are yielded as they end, and their number, and yields them again.
        done: is called after each op. Ctrl-C ends the run; the report then has the ops until there.
        start: is called before the first op, and may restore rows of ops that need no other run.

    Raises:
        BackendError: if the backend cannot be used.
        InputValueError: if a pattern matches no op, or the deviations of the backend are wrong.

    >>> from pullback.conformance.runner import conform
    >>> conform("cpu", ops=["add", "softmax"], quick=True).passed
    True
    """
    device = as_device(backend)
    chosen = select(ops)
    report = new_report(device, str(backend), mode or Mode(quick=quick))
    began = time.perf_counter()
    with warnings.catch_warnings():
        # Samples have infinities, divisions by zero and odd layouts. The results are checked, so
        # warnings of the backend's library are not shown.
        warnings.simplefilter("ignore")
        try:
            state = ProcessState()
            basics.check(device)
            state.check(f"{type(device.backend).__name__}, in a transfer or in add")
        except ConformanceError as error:
            report.stopped = str(error)
            return report
        start(report)
        known = report.rows.keys() - report.left
        left = [op for op in chosen if op.tier in report.tiers and op.name not in known]
        if report.mode.budget:
            # If there is no time for all, any of them.
            random.Random(report.mode.seed).shuffle(left)
        report.left.update(op.name for op in left)
        try:
            for op in progress(by(left, device, report), len(left)):
                report.left.discard(op.name)
                report.seconds = time.perf_counter() - began
                done(report, report.rows[op.name])
            report.left.difference_update(op.name for op in left)  # the end of a budget
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


def select(patterns: Iterable[str]) -> list[Op]:
    """The ops that match any of the patterns; all without patterns.

    Raises:
        InputValueError: for a pattern that matches none.
    """
    wanted = [pattern.strip() for pattern in patterns if pattern.strip()]
    for pattern in wanted:
        if not fnmatch.filter(OPS, pattern):
            raise errors.InputValueError(f"unknown op {pattern!r}{nearest(pattern)}")
    return [
        op
        for name, op in OPS.items()
        if not wanted or any(fnmatch.fnmatch(name, p) for p in wanted)
    ]


def measure(
    op: Op,
    device: Device,
    report: Report,
    *,
    limit: float | None = None,
    watch: Callable[[Item], None] = lambda item: None,
) -> None:
    """Runs the items of an op and records the results; Ctrl-C leaves what was known of it before.

    Args:
        op: the op.
        device: the device that it is measured on.
        report: gets the results.
        limit: the seconds after which a random sample of the items ends; None for all items.
        watch: is called before each item.
    """
    began = time.perf_counter()
    before = report.as_dict() if op.name in report.rows else {}
    report.forget(op.name)
    try:
        _run(op, device, report, None if limit is None else began + limit, watch)
    except KeyboardInterrupt:
        report.forget(op.name)
        saved.restore(report, before, [op.name])
        raise
    report.rows[op.name].seconds = time.perf_counter() - began


def _run(
    op: Op, device: Device, report: Report, end: float | None, watch: Callable[[Item], None]
) -> None:
    """Runs the items; a random sample of them if it has to end at some time."""
    mode = report.mode
    backend = device.backend
    row = report.rows[op.name] = Row(op, bool(backend.kernels_for(op.name)))
    row.fallback = "" if row.kernel else backend.fallback.get(op.name, "")
    if op.name not in load():
        report.unknown.append(op.name)
    plan = planned(op, device, quick=mode.quick, calls=mode.random, seed=mode.seed)
    row.planned = len(plan)
    if end is not None:
        random.Random(f"{mode.seed} {op.name}").shuffle(plan)
    if row.missing:
        # All checks of the op fail, and are listed once.
        for area in [item.area for item in plan] or [Area.VALUES]:
            row.counts[area].total += 1
        report.lacks(op)
        return
    state = ProcessState()
    for number, item in enumerate(plan):
        if end is not None and number and time.perf_counter() > end:
            break
        watch(item)
        if item.case is None and row.beyond and not row.count.total:
            continue  # every sample needs a tier that is not claimed
        try:
            wrong = attempt(item)
        except TierError as error:
            row.beyond.add(error.tier)
            continue
        report.record(item, wrong, lambda item: _cause(item, report))
    if plan and (row.count.total or row.count.declared):
        wrong = None
        try:
            state.check(op.name)
        except ConformanceError as error:
            wrong = str(error).removeprefix(f"{op.name}: ")
        last = replace(plan[-1], check="process", area=Area.EDGES, case=None)
        report.record(last, wrong, lambda item: "")


#: The checks that fail if the result itself is wrong.
_BY_VALUE = ("value", "unchanged", "layouts", "deterministic", "repeated", "threads", "lasting")


def _cause(item: Item, report: Report) -> str:
    """The op to blame, looked for once for each op and kind of check."""
    if item.case is None or report.mode.budget:
        return ""
    by_value = item.check in _BY_VALUE
    key = (item.op.name, by_value)
    if key not in report.causes:

        def fails(op: Op) -> bool:
            if op.name not in report.suspects:
                own = planned(op, item.device, quick=True)
                # Without what is declared: it explains nothing else that is wrong.
                report.suspects[op.name] = any(
                    _wrong(other)
                    for other in own
                    if other.check == "value" and not report.covering(op, "value", other.case)
                )
            return report.suspects[op.name]

        report.causes[key] = culprit(item.case, fails, by_value=by_value)
    return report.causes[key]


def _wrong(item: Item) -> bool:
    try:
        return attempt(item) is not None
    except TierError:
        return False


def planned(op: Op, device: Device, *, quick: bool, calls: int = 0, seed: int = 0) -> list[Item]:
    """The items of an op; none if it has no samples.

    Args:
        op: the op.
        device: the device that it is measured on.
        quick: each sample in one dtype, and few gradients.
        calls: the number of random calls in place of the samples; 0 for the samples.
        seed: of the random calls.
    """
    suite = load().get(op.name)
    if suite is None:
        return []
    if calls:
        return list(random_items(op, suite, device, calls, seed))
    return list(items(op, suite, device, quick=quick))


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
        return str(error).removeprefix(f"{item.case}: ")
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
        ours = _HERE in path.parents or path.name.startswith("<pullback ")
        if ours or not location:
            location = "" if ours else f" ({path.name}, line {line})"
    return location
