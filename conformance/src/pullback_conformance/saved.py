"""A report as JSON, op by op, and its rows read back to go on with a run that was stopped."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pullback import errors
from pullback.spec import OPS, SPEC_VERSION
from pullback_conformance.registry import BACKEND, Area
from pullback_conformance.report import Count, Failure, Report, Row


def write(report: Report, path: Path) -> None:
    """Writes the report in one step: a reader never sees a part of it.

    Raises:
        InputValueError: if the file cannot be written.
    """
    part = path.with_name(f"{path.name}.part")
    try:
        part.write_text(json.dumps(report.as_dict(), indent=2) + "\n", encoding="utf-8")
        os.replace(part, path)
    except OSError as error:
        raise errors.InputValueError(f"--json {path}: {error.strerror or error}") from error


def read(path: Path) -> dict[str, Any]:
    """The report in a file; empty if there is no file.

    Raises:
        InputValueError: if it is not a report of this version of the specification.
    """
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise errors.InputValueError(f"--json {path}: not a report: {error}") from error
    if found.get("spec_version") != SPEC_VERSION or "ops" not in found:
        raise errors.InputValueError(
            f"--json {path}: not a report of version {SPEC_VERSION} of the op specification; "
            f"remove it, or leave out --resume and --failed"
        )
    return found


def failed_ops(saved: dict[str, Any]) -> list[str]:
    """The ops of a report that failed."""
    return sorted({failure["op"] for failure in saved.get("failures", ())})


def left_ops(saved: dict[str, Any]) -> list[str]:
    """The ops that the run of a report was stopped before."""
    return [name for name in saved.get("left", ()) if name == BACKEND or name in OPS]


def restore(report: Report, saved: dict[str, Any], names: Iterable[str]) -> None:
    """Adds the rows and failures of ops that were measured before to a report.

    Raises:
        InputValueError: if the saved report is of another backend or pace.
    """
    if not saved:
        return
    for name, now in (("backend", report.name), *report.mode.as_dict().items()):
        if saved.get(name) != now:
            raise errors.InputValueError(
                f"the report to go on with has {name}={saved.get(name)!r}, this run {now!r}; "
                f"leave out --resume and --failed, or write to another file"
            )
    wanted = [
        name
        for name in names
        if name in saved["ops"] and (name in OPS or name == BACKEND) and report.claims(name)
    ]
    for name in wanted:
        entry = saved["ops"][name]
        counts = {area: Count(*entry["counts"].get(str(area), (0, 0))) for area in Area}
        row = Row(
            name,
            entry["kernel"],
            counts,
            set(entry["beyond"]),
            entry["seconds"],
            planned=entry["planned"],
            fallback=saved["fallback"].get(name, ""),
            on_host=name in saved.get("on_host", ()),
        )
        report.rows[name] = row
    for name, failures in (("failures", report.failures), ("declared", report.declared)):
        failures += [Failure(**one) for one in saved[name] if one["op"] in wanted]
    before = {_identity(one): one for one in saved["deviations"]}
    for one in report.deviations:
        same = before.get(_identity(one.as_dict()))
        if one.op in wanted and same is not None:
            one.measured, one.failed = same["measured"], same["failed"]
    report.unknown += [name for name in saved["without_samples"] if name in wanted]


def _identity(deviation: dict[str, Any]) -> str:
    """The text of a deviation, without what a run found."""
    return repr([value for name, value in deviation.items() if name not in ("measured", "failed")])
