"""The checks of the kit: one table, which each check joins where it is defined.

What a check is, its column, the calls that it is for and how often they are made, stands in its
decorator. The plan, the report, `--only`, `--without` and declared deviations read the table.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar

from pullback import errors
from pullback._hints import close_names
from pullback.devices import Device
from pullback.spec import OPS, Op, Tier

#: The row of a report that is no op's: the services of a backend beside kernels.
BACKEND = "backend"
#: The check of the state of the process, which is made after the others of a row.
PROCESS = "process"


class Area(enum.StrEnum):
    """The columns of the report."""

    VALUES = "values"
    DTYPES = "dtypes"
    GRADIENTS = "gradients"
    SECOND = "second"
    EDGES = "edges"


#: What a check is made for: every case; one case of a dtype, in a quick run; one that is large and
#: one that is not; these, and one for each set of attributes; one of each kind of inputs;
#: every dtype for storage; the op; the backend.
Per: TypeAlias = Literal["case", "dtype", "size", "attributes", "kind", "storage", "op", "backend"]
F = TypeVar("F", bound=Callable[..., None])


@dataclass(frozen=True, slots=True)
class Check:
    """A check, by the arguments of its decorator."""

    name: str
    function: Callable[..., None]
    area: Callable[[Any], Area]
    per: Per
    applies: Callable[[Any], bool]
    spared: Callable[[Op, Device], bool]
    by_value: bool


#: The checks by name, in the order in which they are made of a case.
CHECKS: dict[str, Check] = {}


def check(
    area: Area | Callable[[Any], Area],
    *,
    per: Per = "case",
    applies: Callable[[Any], bool] = lambda subject: True,
    spared: Callable[[Op, Device], bool] = lambda op, device: False,
    by_value: bool = False,
) -> Callable[[F], F]:
    """Makes a function a check, by its name; it raises a ConformanceError where something is wrong.

    Args:
        area: the column that it is counted in, or a function that tells it of a case.
        per: what it is made for, with which it is called: a case; for an op its `Calls`; for the
            backend its device.
        applies: whether it can fail, for a case (or the device): where it cannot, it does not
            count.
        spared: whether a quick run makes it for one sample of this op only.
        by_value: whether it fails wherever the result itself is wrong.
    """

    def register(function: F) -> F:
        name = function.__name__
        if name in CHECKS:
            raise errors.DefinitionError(f"there are two checks {name!r}; rename one")
        tell = area if callable(area) else lambda case: area
        CHECKS[name] = Check(name, function, tell, per, applies, spared, by_value)
        return function

    return register


def known(names: Iterable[str], there: Iterable[str], what: str) -> None:
    """Checks that all names are known.

    Raises:
        InputValueError: for another one.
    """
    every = list(there)
    for name in names:
        if name not in every:
            near = close_names(name, every, 1, 0.6)
            mean = f"did you mean {near[0]!r}? " if near else ""
            raise errors.InputValueError(f"{what} {name!r}; {mean}use one of {', '.join(every)}")


def tier_of(row: str) -> Tier | None:
    """The tier of a row; None for that of the backend, which every backend has."""
    return None if row == BACKEND else OPS[row].tier
