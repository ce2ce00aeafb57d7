"""Learning rates as functions of the number of steps taken."""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Sequence

from pullback import errors

__all__ = ["cosine_decay", "exponential_decay", "piecewise_constant"]

Schedule = Callable[[int], float]


def exponential_decay(
    initial: float, steps: int, rate: float, *, staircase: bool = False
) -> Schedule:
    """initial * rate**(step / steps); in stairs, of whole powers.

    >>> schedule = pb.optimizers.schedules.exponential_decay(0.1, 100, 0.5)
    >>> schedule(0), schedule(200)
    (0.1, 0.025)

    Raises:
        InputValueError: for steps below 1.
    """
    _at_least_one(steps)

    def schedule(step: int) -> float:
        power = step // steps if staircase else step / steps
        return initial * float(rate**power)

    return schedule


def cosine_decay(initial: float, steps: int, *, final: float = 0.0, warmup: int = 0) -> Schedule:
    """From initial to final along half a cosine (Loshchilov and Hutter, 2017).

    Args:
        initial: the rate at the top.
        steps: when `final` is reached; it stays.
        final: the rate at the end.
        warmup: over so many of the steps, at first, the rate grows evenly from 0.

    >>> schedule = pb.optimizers.schedules.cosine_decay(0.1, 100, warmup=10)
    >>> [round(schedule(step), 3) for step in (0, 5, 10, 55, 100, 200)]
    [0.0, 0.05, 0.1, 0.05, 0.0, 0.0]

    Raises:
        InputValueError: for steps below 1, or a warmup that is longer than they are.
    """
    _at_least_one(steps)
    if not 0 <= warmup < steps:
        raise errors.InputValueError(f"a warmup is shorter than {steps} steps, got {warmup}")

    def schedule(step: int) -> float:
        if step < warmup:
            return initial * step / warmup
        share = min((step - warmup) / (steps - warmup), 1.0)
        return final + (initial - final) * (1 + math.cos(math.pi * share)) / 2

    return schedule


def piecewise_constant(boundaries: Sequence[int], values: Sequence[float]) -> Schedule:
    """The first value before the first boundary, and so on.

    >>> schedule = pb.optimizers.schedules.piecewise_constant([10, 20], [1.0, 0.1, 0.01])
    >>> [schedule(step) for step in (9, 10, 30)]
    [1.0, 0.1, 0.01]

    Raises:
        InputValueError: when there is not one value more than boundaries, or these do not grow.
    """
    edges = list(boundaries)
    if len(values) != len(edges) + 1 or edges != sorted(set(edges)):
        raise errors.InputValueError(
            f"{len(edges)} boundaries that grow need {len(edges) + 1} values, "
            f"got {edges} and {list(values)}"
        )
    return lambda step: values[bisect.bisect_right(edges, step)]


def _at_least_one(steps: int) -> None:
    if steps < 1:
        raise errors.InputValueError(f"a schedule takes one step or more, got {steps}")
