"""The report of a run: counts by op, summed to families, tiers and a score."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from pullback import dtypes
from pullback.spec import OPS, SPEC_VERSION, Op, Tier
from pullback_conformance.case import Case
from pullback_conformance.deviations import Declared
from pullback_conformance.mode import Mode
from pullback_conformance.plan import Item
from pullback_conformance.registry import BACKEND, PROCESS, Area, tier_of

#: The message of dispatch for a primitive without a kernel.
_LACKS = re.compile(r"(\w+): the backend \S+ has no kernel")


@dataclass(slots=True)
class Count:
    """The number of checks, and of those that passed; checks that fail as declared are apart."""

    passed: int = 0
    total: int = 0
    #: Checks that fail by a declared deviation; `total` does not count them.
    declared: int = 0

    def add(self, other: Count) -> None:
        """Adds another count to this one."""
        self.passed += other.passed
        self.total += other.total
        self.declared += other.declared

    @property
    def whole(self) -> bool:
        """True if none failed."""
        return self.passed == self.total

    def __str__(self) -> str:
        """The text for a table: "-" without checks, "12" or "11/12"."""
        if not self.total:
            return "-"
        return str(self.total) if self.whole else f"{self.passed}/{self.total}"


def percent(count: Count) -> str:
    """The score, rounded down: 100 % only if nothing failed, but for what is declared.

    >>> percent(Count(9999, 10000))
    '99.9 %'
    >>> percent(Count(7, 7, declared=2))
    '100 %, 2 declared'
    """
    apart = f", {count.declared} declared" if count.declared else ""
    if not count.total:
        return f"-{apart}"
    if count.whole:
        return f"100 %{apart}"
    return f"{math.floor(1000 * count.passed / count.total) / 10:.1f} %{apart}"


@dataclass(frozen=True, slots=True)
class Failure:
    """A check that failed; `message` has the expected and the actual value."""

    op: str
    sample: str
    dtype: str
    check: str
    message: str
    rerun: str
    #: The primitive without a kernel that the op needs.
    needs: str = ""
    #: The op whose kernel fails its own samples, and makes this one fail.
    cause: str = ""
    #: The reason of the deviation that the backend declares.
    declared: str = ""


@dataclass(slots=True)
class Row:
    """The counts of one op, or of the backend's services."""

    name: str
    #: True if the backend has a kernel for the op.
    kernel: bool = False
    counts: dict[Area, Count] = field(default_factory=lambda: {area: Count() for area in Area})
    #: The unclaimed tiers that some of its samples need.
    beyond: set[str] = field(default_factory=set)
    #: The time that it took.
    seconds: float = 0.0
    #: The device that runs it where the backend leaves it to another one.
    fallback: str = ""
    #: Whether the host has computed some of its calls in the library's place.
    on_host: bool = False
    #: The number of checks from which a sample was taken.
    planned: int = 0

    @property
    def missing(self) -> bool:
        """True if it is a primitive without a kernel, which no other device runs either."""
        return self.primitive and not self.kernel and not self.fallback

    @property
    def primitive(self) -> bool:
        """True for a primitive op."""
        return self.name != BACKEND and OPS[self.name].primitive

    @property
    def family(self) -> str:
        """The family of the op."""
        return BACKEND if self.name == BACKEND else OPS[self.name].family

    @property
    def count(self) -> Count:
        """All checks of the row."""
        return total(self.counts.values())


def total(counts: Iterable[Count]) -> Count:
    """The sum of counts."""
    sum_ = Count()
    for count in counts:
        sum_.add(count)
    return sum_


@dataclass
class Report:
    """The results of a run. `rows` holds the ops of the tiers that the backend claims."""

    name: str
    device: str
    version: str
    tiers: frozenset[Tier]
    dtypes: tuple[str, ...]
    mode: Mode
    rows: dict[str, Row] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    #: What the backend and its packs declare, and the failures by it.
    deviations: list[Declared] = field(default_factory=list)
    declared: list[Failure] = field(default_factory=list)
    #: The kernel packs that were measured with the backend's own kernels.
    packs: tuple[str, ...] = ()
    #: The reasons why kernels could not be registered.
    left_out: tuple[str, ...] = ()
    #: Ops without samples, which cannot be measured.
    unknown: list[str] = field(default_factory=list)
    #: The reason why the run stopped, if the basics do not work.
    stopped: str = ""
    seconds: float = 0.0
    #: Ops that are to be run yet: until then the report has what an earlier run found of them.
    left: set[str] = field(default_factory=set)
    #: Ops by whether they fail their own samples, and causes of failures: of `runner`.
    suspects: dict[str, bool] = field(default_factory=dict)
    causes: dict[tuple[str, bool], str] = field(default_factory=dict)

    @property
    def quick(self) -> bool:
        """True for a quick run."""
        return self.mode.quick

    @property
    def incomplete(self) -> bool:
        """True while ops are left, or after Ctrl-C."""
        return bool(self.left)

    @property
    def count(self) -> Count:
        """All checks, with a failed check for each kernel that is left out."""
        return total([*(row.count for row in self.rows.values()), Count(0, len(self.left_out))])

    @property
    def passed(self) -> bool:
        """True if the backend passed all checks that were run."""
        missing = any(row.missing for row in self.rows.values())
        return (
            not self.stopped
            and not self.incomplete
            and not missing
            and self.count.whole
            and self.count.total > 0
        )

    def claims(self, row: str) -> bool:
        """Returns whether a row is measured: the backend's, and those of the tiers it claims."""
        return row == BACKEND or tier_of(row) in self.tiers

    def families(self) -> dict[str, list[Row]]:
        """The rows of each op family."""
        families: dict[str, list[Row]] = {}
        for row in self.rows.values():
            families.setdefault(row.family, []).append(row)
        return families

    def of(self, tier: Tier | None) -> list[Row]:
        """The rows of a tier; of the backend's services for None."""
        return [row for row in self.rows.values() if tier_of(row.name) is tier]

    def missing(self) -> Iterator[Op]:
        """The primitives of claimed tiers that have no kernel."""
        for row in self.rows.values():
            if row.missing:
                yield OPS[row.name]

    def covering(self, row: str, check: str, case: Case | None = None) -> list[Declared]:
        """The declared deviations by which a check may fail."""
        return [one for one in self.deviations if one.op == row and one.covers(check, case)]

    def record(self, item: Item, wrong: str | None, cause: Callable[[Item], str]) -> None:
        """Counts a check.

        Args:
            item: the check.
            wrong: the message of its failure; None if it passed.
            cause: tells the op whose kernel makes it fail, if it is another one.
        """
        count = self.rows[item.row].counts[item.area]
        covering = self.covering(item.row, item.check, item.case)
        for one in covering:
            one.measured += 1
            one.failed += wrong is not None
        if wrong is None:
            count.passed += 1
            count.total += 1
        elif covering:
            count.declared += 1
            self.declared.append(self._failure(item, wrong, declared=covering[0].reason))
        else:
            count.total += 1
            self.failures.append(self._failure(item, wrong, cause=cause(item)))

    def _failure(self, item: Item, message: str, *, cause: str = "", declared: str = "") -> Failure:
        op = item.row
        missing = _LACKS.search(message)
        needs = missing[1] if missing and missing[1] != op else ""
        return Failure(
            op,
            item.sample,
            item.dtype,
            item.check,
            message,
            self.rerun(op, None if item.case is None else item.case.sample.seed),
            needs,
            cause,
            declared,
        )

    def forget(self, op: str) -> None:
        """Removes what is known of an op, which is run again or whose run was stopped."""
        self.rows.pop(op, None)
        self.unknown = [name for name in self.unknown if name != op]
        self.failures = [failure for failure in self.failures if failure.op != op]
        self.declared = [failure for failure in self.declared if failure.op != op]
        for one in self.deviations:
            if one.op == op:
                one.measured = one.failed = 0

    def unmeasured(self) -> list[str]:
        """A line for each thing that the run leaves open."""
        lines = []
        tiers = [str(tier) for tier in Tier if tier not in self.tiers]
        if tiers:
            lines.append(f"ops of tiers that the backend does not claim: {', '.join(tiers)}")
        absent = [str(dtype) for dtype in dtypes.ALL if str(dtype) not in self.dtypes]
        if absent:
            lines.append(f"dtypes that the backend does not have: {', '.join(absent)}")
        claimed = [name for name, op in OPS.items() if op.tier in self.tiers]
        if self.mode.budget:
            # Beside those planned, the state of the process is checked at the end of each op.
            planned = sum(row.planned + 1 for row in self.rows.values())
            run = self.count.total + self.count.declared
            more = "" if self.mode.random else "over "
            if run < planned:
                lines.append(
                    f"other checks: the run was a random sample of some {run} of {more}{planned} "
                    f"checks of {len(self.rows.keys() - {BACKEND})} ops"
                )
        if others := sum(name not in self.rows for name in claimed):
            lines.append(f"{others} of the {len(claimed)} ops of the tiers that it claims")
        if self.mode.random:
            lines.append("the written samples: leave out --random")
        elif self.quick:
            lines.append("the other dtypes of each sample, and most gradients: leave out --quick")
        for option, names in (("--only", self.mode.only), ("--without", self.mode.without)):
            if names:
                lines.append(f"checks by {option} {names}: leave it out")
        return lines

    def lacks(self, op: str) -> None:
        """Records that a primitive has no kernel."""
        message = (
            f"there is no kernel for this primitive of the tier {tier_of(op)}, which the backend "
            f"claims"
        )
        self.failures.append(Failure(op, "", "", "kernel", message, self.rerun(op)))

    def fallbacks(self) -> dict[str, str]:
        """The ops that another device runs, with its name."""
        return {name: row.fallback for name, row in self.rows.items() if row.fallback}

    def on_host(self) -> list[str]:
        """The ops that the host has computed, in some calls at least."""
        return [name for name, row in self.rows.items() if row.on_host]

    def rerun(self, op: str, seed: int | None = None) -> str:
        """The command that runs one op as in this run; with a seed, the one random call of it."""
        return f"pullback conform {shlex.quote(self.name)} --ops {op}{self.mode.again(seed)}"

    def sort(self) -> None:
        """Sorts rows and failures by the order of the ops, in which processes need not end."""
        places = {name: place for place, name in enumerate((BACKEND, *OPS))}
        self.rows = dict(sorted(self.rows.items(), key=lambda pair: places[pair[0]]))
        for failures in (self.failures, self.declared):
            failures.sort(key=lambda failure: places[failure.op])

    def died(self, op: str, kernel: bool, how: str) -> None:
        """Records that the process that measured an op ended, outside its checks or too often."""
        row = self.rows[op] = Row(op, kernel)
        row.counts[Area.EDGES].total += 1
        self.failures.append(Failure(op, "", "", PROCESS, how, self.rerun(op)))

    def as_dict(self) -> dict[str, Any]:
        """The whole report, for JSON."""
        return {
            "backend": self.name,
            "version": self.version,
            "device": self.device,
            "spec_version": SPEC_VERSION,
            "dtypes": list(self.dtypes),
            "kernel_packs": list(self.packs),
            **self.mode.as_dict(),
            "seconds": round(self.seconds, 1),
            "passed": self.passed,
            "complete": not self.incomplete,
            "left": [name for name in (BACKEND, *OPS) if name in self.left],
            "stopped": self.stopped or None,
            "total": _score(self.count),
            "tiers": {str(tier): self._tier(tier) for tier in Tier},
            "families": {
                name: {
                    "ops": len(rows),
                    "kernels": sum(row.kernel for row in rows),
                    "missing": sum(row.missing for row in rows),
                    **_score(total(row.count for row in rows)),
                    **{str(area): _score(total(row.counts[area] for row in rows)) for area in Area},
                }
                for name, rows in self.families().items()
            },
            "ops": {
                name: {
                    "kernel": row.kernel,
                    "seconds": round(row.seconds, 3),
                    "planned": row.planned,
                    "counts": {
                        str(area): [count.passed, count.total, count.declared]
                        for area, count in row.counts.items()
                        if count.total or count.declared
                    },
                    "beyond": sorted(row.beyond),
                }
                for name, row in self.rows.items()
            },
            "missing": [op.name for op in self.missing()],
            "fallback": self.fallbacks(),
            "on_host": self.on_host(),
            "left_out": list(self.left_out),
            "not_measured": self.unmeasured(),
            "beyond": {name: sorted(row.beyond) for name, row in self.rows.items() if row.beyond},
            "without_samples": self.unknown,
            "failures": [_fields(failure) for failure in self.failures],
            "deviations": [one.as_dict() for one in self.deviations],
            "declared": [_fields(failure) for failure in self.declared],
        }

    def _tier(self, tier: Tier) -> dict[str, Any]:
        rows = self.of(tier)
        return {
            "claimed": tier in self.tiers,
            "primitives": sum(row.primitive for row in rows),
            "kernels": sum(row.primitive and row.kernel for row in rows),
            **_score(total(row.count for row in rows)),
        }


def _fields(failure: Failure) -> dict[str, Any]:
    return {name: getattr(failure, name) for name in Failure.__slots__}


def _score(count: Count) -> dict[str, Any]:
    score = count.passed / count.total if count.total else None
    return {
        "passed": count.passed,
        "checks": count.total,
        "declared": count.declared,
        "score": score,
    }
