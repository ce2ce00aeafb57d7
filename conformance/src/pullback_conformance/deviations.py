"""Declared deviations: where a backend or a kernel pack differs from the specification on purpose.

They are validated here, when the backend is measured: a mistake in them does not concern the users
of the backend.
"""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass, replace
from typing import Any

from pullback import dtypes, errors
from pullback.plugins.backend import Backend
from pullback.plugins.records import Deviation
from pullback.plugins.validation import nearest
from pullback.spec import OPS
from pullback_conformance.case import Case, label, leaves
from pullback_conformance.registry import BACKEND, CHECKS, PROCESS, known


@dataclass(slots=True, eq=False)
class Declared:
    """A deviation of one op, and what a run found of it."""

    op: str
    #: The backend or the kernel pack that declares it.
    source: str
    deviation: Deviation
    #: The number of checks that it is for, and of those that failed.
    measured: int = 0
    failed: int = 0

    @property
    def reason(self) -> str:
        """The reason that its author gives."""
        return self.deviation.reason

    def covers(self, check: str, case: Case | None) -> bool:
        """Returns whether it is for a check; `case` is None for checks of the whole op."""
        one = self.deviation
        # The result of a random call, however its inputs lie, is what `value` is for.
        names = {check, "value"} if check == "each_laid_out" else {check}
        if one.checks and names.isdisjoint(one.checks):
            return False
        if case is None:
            return not one.dtypes and not one.samples
        if one.dtypes and not _dtypes(case) & set(one.dtypes):
            return False
        name = label(replace(case.sample, seed=None))
        return not one.samples or any(
            name == pattern or fnmatch.fnmatchcase(name, pattern) for pattern in one.samples
        )

    def as_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
        one = self.deviation
        return {
            "op": self.op,
            "source": self.source,
            "reason": one.reason,
            "dtypes": list(one.dtypes),
            "checks": list(one.checks),
            "samples": list(one.samples),
            "measured": self.measured,
            "failed": self.failed,
        }


def _dtypes(case: Case) -> set[str]:
    """The dtype under test; of samples with dtypes of their own those of the inputs."""
    if case.dtype is not None:
        return {str(case.dtype)}
    return {str(leaf.dtype) for leaf in leaves(case.inputs)}


def declared(backend: Backend) -> list[Declared]:
    """The deviations of a backend and of its kernel packs.

    Raises:
        InputValueError: if one names an op, a dtype or a check that does not exist, or is not a
            `Deviation` with a reason.
    """
    found: list[Declared] = []
    for source, by_op in backend.all_deviations():
        if not hasattr(by_op, "items"):
            raise errors.InputValueError(
                f"deviations of {source!r} must be a dict from op names to pb.Deviation, got "
                f"{by_op!r}"
            )
        for op, value in by_op.items():
            where = f"deviations[{op!r}] of {source!r}"
            if op not in OPS and op != BACKEND:
                raise errors.InputValueError(f"{where}: unknown op {op!r}{nearest(str(op))}")
            for one in value if isinstance(value, (list, tuple)) else [value]:
                found.append(Declared(op, source, _validated(one, where)))
    return found


def _validated(one: object, where: str) -> Deviation:
    if not isinstance(one, Deviation):
        raise errors.InputValueError(
            f"{where} must be a pb.Deviation or a list of them, got {one!r}; write "
            f'pb.Deviation("the reason", checks=("value",))'
        )
    if not isinstance(one.reason, str) or not one.reason.strip():
        raise errors.InputValueError(f"{where}: the reason must be a text, got {one.reason!r}")
    for name, values in (("dtypes", one.dtypes), ("checks", one.checks), ("samples", one.samples)):
        if not isinstance(values, (list, tuple)) or not all(isinstance(x, str) for x in values):
            raise errors.InputValueError(
                f"{where}: {name} must be a tuple of names, got {values!r}; write "
                f"{name}=({str(values)!r},)"
            )
    known(one.dtypes, map(str, (*dtypes.ALL, *dtypes.STORAGE)), f"{where}: unknown dtype")
    known(one.checks, (*CHECKS, PROCESS), f"{where}: unknown check")
    return one
