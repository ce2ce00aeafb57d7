"""The declared deviations of a run on a terminal: met, not met any more, not measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from pullback_conformance.cli.failures import some
from pullback_conformance.deviations import Declared
from pullback_conformance.report import Report


def lines(report: Report) -> Iterator[str]:
    """The lines about all deviations of the ops that were measured."""
    here = [one for one in report.deviations if one.op in report.rows]
    met = [one for one in here if one.failed]
    if met:
        yield f"\nDeclared deviations, which do not count ({report.count.declared} checks):"
        yield from _by_reason(
            met, lambda one: f"{one.op} ({one.failed} of {one.measured} checks fail)"
        )
    passing = [one for one in here if one.measured and not one.failed]
    if passing:
        what = "any more; remove them from `deviations`"
        if selects := report.mode.selects:
            what = f"in this run; see one without {' and '.join(selects)}"
        yield f"\nDeclared deviations by which nothing fails {what}:"
        yield from _by_reason(passing, lambda one: f"{one.op} ({one.measured} checks pass)")
    idle = [one for one in here if not one.measured]
    if idle and not report.mode.budget:  # a sample leaves out many
        yield "\nDeclared deviations of checks that this run does not have:"
        yield from _by_reason(idle, lambda one: one.op, lambda one: f" ({_limits(one)})")


def _by_reason(
    found: Iterable[Declared],
    tell: Callable[[Declared], str],
    end: Callable[[Declared], str] = lambda one: "",
) -> Iterator[str]:
    """A line for each reason and end of the line, with what is told of its ops."""
    lines: dict[tuple[str, str, str], list[str]] = {}
    for one in found:
        lines.setdefault((one.source, one.reason, end(one)), []).append(tell(one))
    for (source, reason, last), ops in lines.items():
        yield f"  {source}: {reason}: {some(ops)}{last}"


def _limits(one: Declared) -> str:
    chosen = [*one.deviation.dtypes, *one.deviation.checks, *map(repr, one.deviation.samples)]
    return ", ".join(chosen) or "all"
