"""The mode of a run: which of the checks it makes."""

from __future__ import annotations

import shlex
import time
from dataclasses import asdict, dataclass
from typing import Any

from pullback import errors


@dataclass(frozen=True, slots=True)
class Mode:
    """The choice of checks.

    Args:
        quick: each sample in one dtype, and few gradients.
        random: random calls of each op in place of its samples; 0 for the samples.
        budget: seconds for a random sample of the checks; 0 for all of them.
        seed: of the random calls and of the sample.
        packs: the kernel packs that are chosen, as `--packs` names them; None for no choice.
        only: the names of the checks to make, between commas; empty for all.
        without: the names of checks to leave out.
    """

    quick: bool = False
    random: int = 0
    budget: float = 0.0
    seed: int = 0
    packs: str | None = None
    only: str = ""
    without: str = ""

    def makes(self, check: str) -> bool:
        """Returns whether the run makes a check."""
        return check not in _names(self.without) and check in (_names(self.only) or [check])

    @property
    def title(self) -> str:
        """The kind of the run, for its first line."""
        kind = "quick" if self.quick else "full"
        if self.random:
            calls = "call" if self.random == 1 else "calls"
            kind = f"{self.random} random {calls} of each op (--seed {self.seed}):"
        for word in ("only", "without"):
            if names := _names(getattr(self, word)):
                kind += f" ({word} {', '.join(names)})"
        if self.budget:
            kind = f"{self.budget:.0f} s of a random sample (--seed {self.seed}) of {kind}"
        return kind

    @property
    def selects(self) -> list[str]:
        """The options by which a run makes some of the checks only."""
        every = ("quick", "budget", "random", "only", "without")
        return [f"--{name}" for name in every if getattr(self, name)]

    def again(self, seed: int | None = None) -> str:
        """The options with which a run of all checks of an op meets what this one met.

        Args:
            seed: of the one random call to make; None for all of them.
        """
        options = "" if self.packs is None else f" --packs {shlex.quote(self.packs)}"
        for name in ("only", "without"):
            if names := ",".join(_names(getattr(self, name))):
                options += f" --{name} {names}"
        if self.random:
            calls, first = (self.random, self.seed) if seed is None else (1, seed)
            return f"{options} --random {calls} --seed {first}"
        return f"{options} --quick" if self.quick else options

    def as_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return asdict(self)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


class Clock:
    """The time that is left of a budget.

    Args:
        mode: the mode with the budget.
        ops: the number of ops that share it.
        jobs: the number of ops that are measured at once.
    """

    def __init__(self, mode: Mode, ops: int, jobs: int = 1) -> None:
        self._end = time.perf_counter() + mode.budget if mode.budget else None
        self._left = ops
        self._jobs = jobs

    def next(self) -> float | None:
        """The seconds for the next op; None without a budget, 0 if it is used up."""
        if self._end is None:
            return None
        left = max(self._end - time.perf_counter(), 0.0)
        share = left * self._jobs / max(self._left, self._jobs)
        self._left -= 1
        return share


def seconds(text: str) -> float:
    """The seconds of a time such as "60", "60s" or "2m".

    Raises:
        InputValueError: if it is none, or not positive.

    >>> seconds("2m")
    120.0
    """
    units = {"s": 1, "m": 60, "h": 3600}
    number, unit = (text[:-1], units[text[-1]]) if text[-1:] in units else (text, 1)
    try:
        value = float(number) * unit
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise errors.InputValueError(f"--budget {text!r} is not a time; write 60s or 2m")
    return value
