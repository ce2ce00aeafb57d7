"""The failures of a run on a terminal: each said once, by the op that is to blame."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from pullback_conformance.report import Failure, Report

#: The number of failures of an op that are printed; JSON has all of them.
SHOWN = 3
#: The number of names of ops in a line.
NAMED = 8
#: What differs between two samples that fail in the same way.
_VARIES = re.compile(
    r"the (?:body's )?result(?: under a tape| for [\w-]+ inputs)?|[-+]?[\d.]+(?:e[-+]?\d+)?|inf|nan"
)


def lines(report: Report) -> Iterator[str]:
    """The lines about all failures."""
    by_op: dict[str, list[Failure]] = {}
    by_need: dict[str, dict[str, None]] = {}
    by_cause: dict[str, dict[str, None]] = {}
    for failure in report.failures:
        if failure.needs:
            by_need.setdefault(failure.needs, {})[failure.op] = None
        elif failure.cause:
            by_cause.setdefault(failure.cause, {})[failure.op] = None
        else:
            by_op.setdefault(failure.op, []).append(failure)
    for name, failures in by_op.items():
        yield f"\n{name}: {len(failures)} failed; again: {failures[0].rerun}"
        kinds = list(distinct(failures))
        for failure, count in kinds[:SHOWN]:
            where = ", ".join(part for part in (failure.sample, failure.dtype) if part)
            more = f" (and {count - 1} like it)" if count > 1 else ""
            yield f"  {failure.check}{f' [{where}]' if where else ''}: {failure.message}{more}"
            if failure.rerun != failures[0].rerun:
                yield f"    again: {failure.rerun}"
        if len(kinds) > SHOWN:
            rest = sum(count for _, count in kinds[SHOWN:])
            yield f"  and {rest} more (--json FILE has all)"
    for cause, ops in by_cause.items():
        yield (
            f"\nThe kernel of {cause} fails its own samples, so that these fail as well: "
            f"{some(ops)}; again: {report.rerun(cause)}"
        )
    for need, ops in by_need.items():
        yield f"\nThere is no kernel for {need}, so that these fail as well: {some(ops)}"


def distinct(failures: Iterable[Failure]) -> Iterator[tuple[Failure, int]]:
    """The failures that differ in more than numbers, each with the number of those like it.

    A result that is wrong is wrong in other layouts, under a tape and at a second call too.
    """
    kinds: dict[str, list[Failure]] = {}
    for failure in failures:
        kinds.setdefault(_VARIES.sub("", failure.message), []).append(failure)
    for alike in kinds.values():
        yield alike[0], len(alike)


def some(names: Iterable[str]) -> str:
    """The first names, and the number of the others."""
    first, rest = list(names)[:NAMED], list(names)[NAMED:]
    return ", ".join(first) + (f" and {len(rest)} more" if rest else "")
