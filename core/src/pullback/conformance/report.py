"""The report of a run: counts by op, summed to families, tiers and a score."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from pullback.conformance.plan import Area, Item
from pullback.spec import SPEC_VERSION, Op, Tier

#: The message of dispatch for a primitive without a kernel.
_LACKS = re.compile(r"(\w+): the backend \S+ has no kernel")


@dataclass(slots=True)
class Count:
    """The number of checks, and of those that passed."""

    passed: int = 0
    total: int = 0

    def add(self, other: Count) -> None:
        """Adds another count to this one."""
        self.passed += other.passed
        self.total += other.total

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
    """The score, rounded down: 100 % only if nothing failed.

    >>> percent(Count(9999, 10000))
    '99.9 %'
    """
    if not count.total:
        return "-"
    if count.whole:
        return "100 %"
    return f"{math.floor(1000 * count.passed / count.total) / 10:.1f} %"


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


@dataclass(slots=True)
class Row:
    """The counts of one op."""

    op: Op
    #: True if the backend has a kernel for it.
    kernel: bool
    counts: dict[Area, Count] = field(default_factory=lambda: {area: Count() for area in Area})
    #: The unclaimed tiers that some of its samples need.
    beyond: set[str] = field(default_factory=set)
    #: The time that it took.
    seconds: float = 0.0
    #: The device that runs it where the backend leaves it to another one.
    fallback: str = ""

    @property
    def missing(self) -> bool:
        """True if it is a primitive without a kernel, which no other device runs either."""
        return bool(self.op.primitive) and not self.kernel and not self.fallback

    @property
    def count(self) -> Count:
        """All checks of the op."""
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
    quick: bool
    rows: dict[str, Row] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    #: The kernel packs that were measured with the backend's own kernels.
    packs: tuple[str, ...] = ()
    #: The reasons why kernels could not be registered.
    left_out: tuple[str, ...] = ()
    #: Ops without samples, which cannot be measured.
    unknown: list[str] = field(default_factory=list)
    #: The reason why the run stopped, if the basics do not work.
    stopped: str = ""
    seconds: float = 0.0
    #: True while ops are left, or after Ctrl-C.
    incomplete: bool = False
    #: Ops by whether they fail their own samples, and causes of failures: of `runner`.
    suspects: dict[str, bool] = field(default_factory=dict)
    causes: dict[tuple[str, bool], str] = field(default_factory=dict)

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

    def families(self) -> dict[str, list[Row]]:
        """The rows of each op family."""
        families: dict[str, list[Row]] = {}
        for row in self.rows.values():
            families.setdefault(row.op.family, []).append(row)
        return families

    def of(self, tier: Tier) -> list[Row]:
        """The rows of a tier."""
        return [row for row in self.rows.values() if row.op.tier is tier]

    def missing(self) -> Iterator[Op]:
        """The primitives of claimed tiers that have no kernel."""
        for row in self.rows.values():
            if row.missing:
                yield row.op

    def failed(self, item: Item, message: str, cause: str = "") -> None:
        """Records that a check failed, by the kernel of the op `cause` if it is another one."""
        rerun = self.rerun(item.op.name)
        missing = _LACKS.search(message)
        needs = missing[1] if missing and missing[1] != item.op.name else ""
        self.failures.append(
            Failure(item.op.name, item.sample, item.dtype, item.check, message, rerun, needs, cause)
        )

    def lacks(self, op: Op) -> None:
        """Records that a primitive has no kernel."""
        message = (
            f"there is no kernel for this primitive of the tier {op.tier}, which the backend claims"
        )
        self.failures.append(Failure(op.name, "", "", "kernel", message, self.rerun(op.name)))

    def fallbacks(self) -> dict[str, str]:
        """The ops that another device runs, with its name."""
        return {name: row.fallback for name, row in self.rows.items() if row.fallback}

    def rerun(self, op: str) -> str:
        """The command that measures one op in full."""
        return f"pullback conform {shlex.quote(self.name)} --ops {op}"

    def as_dict(self) -> dict[str, Any]:
        """The whole report, for JSON."""
        return {
            "backend": self.name,
            "version": self.version,
            "device": self.device,
            "spec_version": SPEC_VERSION,
            "dtypes": list(self.dtypes),
            "kernel_packs": list(self.packs),
            "quick": self.quick,
            "seconds": round(self.seconds, 1),
            "passed": self.passed,
            "complete": not self.incomplete,
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
                    "counts": {
                        str(area): [count.passed, count.total]
                        for area, count in row.counts.items()
                        if count.total
                    },
                    "beyond": sorted(row.beyond),
                }
                for name, row in self.rows.items()
            },
            "missing": [op.name for op in self.missing()],
            "fallback": self.fallbacks(),
            "left_out": list(self.left_out),
            "beyond": {name: sorted(row.beyond) for name, row in self.rows.items() if row.beyond},
            "without_samples": self.unknown,
            "failures": [
                {name: getattr(failure, name) for name in Failure.__slots__}
                for failure in self.failures
            ],
        }

    def _tier(self, tier: Tier) -> dict[str, Any]:
        rows = self.of(tier)
        return {
            "claimed": tier in self.tiers,
            "primitives": sum(row.op.primitive for row in rows),
            "kernels": sum(row.op.primitive and row.kernel for row in rows),
            **_score(total(row.count for row in rows)),
        }


def _score(count: Count) -> dict[str, Any]:
    score = count.passed / count.total if count.total else None
    return {"passed": count.passed, "checks": count.total, "score": score}
