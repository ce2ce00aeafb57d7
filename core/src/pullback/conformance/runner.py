"""Measures a backend: runs what the plan says and counts."""

from __future__ import annotations

import fnmatch
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from pullback import errors
from pullback.conformance import basics
from pullback.conformance.compare import ConformanceError
from pullback.conformance.plan import Area, Item, items
from pullback.conformance.report import Report, Row
from pullback.conformance.samples import load
from pullback.devices import Device, DeviceLike, as_device
from pullback.plugins.public import registry
from pullback.plugins.validation import nearest
from pullback.spec import OPS, Op, Tier

#: The folder of `pullback`.
_HERE = Path(__file__).resolve().parents[1]

#: What shows how far a run is: gets the ops, gives them one by one.
Progress = Callable[[Sequence[Op]], Iterable[Op]]


def conform(
    backend: DeviceLike,
    *,
    ops: Iterable[str] = (),
    quick: bool = False,
    progress: Progress = iter,
) -> Report:
    """Measures a backend against the op specification.

    It is measured by what it claims: its tiers, its dtypes, and every kernel that it has in them.

    Args:
        backend: the name of a backend or of one of its devices.
        ops: names of ops, or patterns such as `conv*`; without any, all ops.
        quick: each sample in one dtype, and few gradients.
        progress: takes the ops to be measured and gives them back one by one.

    Raises:
        BackendError: when the backend cannot be used.
        InputValueError: when a pattern fits no op.

    >>> from pullback.conformance.runner import conform
    >>> conform("cpu", ops=["add", "softmax"], quick=True).passed
    True
    """
    device = as_device(backend)
    chosen = select(ops)
    report = new_report(device, str(backend), quick=quick)
    start = time.perf_counter()
    with warnings.catch_warnings():
        # Samples hold infinities, divisions by zero and odd layouts; what comes of them is looked
        # at, whatever the backend's library remarks.
        warnings.simplefilter("ignore")
        try:
            basics.check(device)
        except ConformanceError as error:
            report.stopped = str(error)
            return report
        for op in progress([op for op in chosen if op.tier in report.tiers]):
            measure(op, device, report)
    report.seconds = time.perf_counter() - start
    return report


def new_report(device: Device, name: str, *, quick: bool) -> Report:
    """An empty report on the backend of a device."""
    backend = device.backend
    held = tuple(map(str, backend.dtypes))
    tiers = frozenset(map(Tier, backend.tiers))
    report = Report(name, str(device), backend.version, tiers, held, quick)
    about = registry.about(backend.name)
    report.packs = tuple(pack.name for pack in about.packs if pack.state == "ready")
    report.left_out = about.left_out
    return report


def select(patterns: Iterable[str]) -> list[Op]:
    """The ops that any of the patterns fits; all without patterns.

    Raises:
        InputValueError: for a pattern that fits none.
    """
    wanted = [pattern.strip() for pattern in patterns if pattern.strip()]
    for pattern in wanted:
        if not fnmatch.filter(OPS, pattern):
            raise errors.InputValueError(f"there is no op {pattern!r}{nearest(pattern)}")
    return [
        op
        for name, op in OPS.items()
        if not wanted or any(fnmatch.fnmatch(name, p) for p in wanted)
    ]


def measure(op: Op, device: Device, report: Report) -> None:
    """Runs every item of an op and takes down what it finds."""
    row = report.rows[op.name] = Row(op, bool(device.backend.kernels_for(op.name)))
    if op.name not in load():
        report.unknown.append(op.name)
    plan = planned(op, device, quick=report.quick)
    if row.missing:
        # It fails in whatever could have been checked of it, and is listed once.
        for area in [item.area for item in plan] or [Area.VALUES]:
            row.counts[area].total += 1
        report.lacks(op)
        return
    for item in plan:
        if item.case is None and row.beyond and not row.count.total:
            continue  # every sample asks for a tier that is not claimed
        try:
            wrong = attempt(item)
        except TierError as error:
            row.beyond.add(error.tier)
            continue
        row.counts[item.area].total += 1
        if wrong is None:
            row.counts[item.area].passed += 1
        else:
            report.failed(item, wrong)


def planned(op: Op, device: Device, *, quick: bool) -> list[Item]:
    """Every item of an op; none where it has no samples."""
    suite = load().get(op.name)
    return [] if suite is None else list(items(op, suite, device, quick=quick))


class TierError(Exception):
    """An item asks for a tier that the backend does not claim, so that it cannot be measured."""

    def __init__(self, tier: str) -> None:
        super().__init__(f"asks for the tier {tier}, which the backend does not claim")
        self.tier = tier


def attempt(item: Item) -> str | None:
    """Runs an item: None when it passes, or what is wrong.

    Raises:
        TierError: when it asks for a primitive of a tier that the backend does not claim.
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
        return f"raised {type(error).__name__}: {error}{_place(error)}"
    return None


def _place(error: BaseException) -> str:
    """Where in a backend it was raised, for its author: the first line below the last of ours."""
    while error.__cause__ is not None:
        error = error.__cause__
    place = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        path = Path(frame.f_code.co_filename)
        ours = _HERE in path.parents or path.name.startswith("<pullback ")
        if ours or not place:
            place = "" if ours else f" ({path.name}, line {line})"
    return place
