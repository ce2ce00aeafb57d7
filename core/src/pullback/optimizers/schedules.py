"""Learning rates as functions of the number of steps taken.

A schedule is any function of an integer; those here can be in configurations. With `warmup` the
rate grows evenly from 0 over so many of the steps, at first (Goyal et al., 2017).
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

from pullback import errors
from pullback.state.serialization import recipe

__all__ = [
    "Schedule",
    "constant",
    "cosine_decay",
    "cosine_restarts",
    "exponential_decay",
    "inverse_root_decay",
    "piecewise_constant",
    "polynomial_decay",
    "step_decay",
]

Schedule: TypeAlias = Callable[[int], float]


@recipe
def constant(rate: float, *, warmup: int = 0) -> Schedule:
    """The same rate always, after a warmup.

    >>> schedule = pb.optimizers.schedules.constant(0.1, warmup=10)
    >>> [schedule(step) for step in (0, 5, 10, 1000)]
    [0.0, 0.05, 0.1, 0.1]

    Raises:
        InputValueError: for a negative warmup.
    """
    return _warmed(lambda step: rate, rate, warmup)


@recipe
def exponential_decay(initial: float, steps: int, rate: float) -> Schedule:
    """initial * rate**(step / steps).

    >>> schedule = pb.optimizers.schedules.exponential_decay(0.1, 100, 0.5)
    >>> schedule(0), schedule(200)
    (0.1, 0.025)

    Raises:
        InputValueError: for steps below 1.
    """
    _at_least_one(steps)
    return lambda step: initial * float(rate ** (step / steps))


@recipe
def step_decay(initial: float, steps: int, rate: float) -> Schedule:
    """initial * rate**(step // steps): one stair every so many steps.

    >>> schedule = pb.optimizers.schedules.step_decay(0.1, 100, 0.5)
    >>> [schedule(step) for step in (0, 99, 100, 200)]
    [0.1, 0.1, 0.05, 0.025]

    Raises:
        InputValueError: for steps below 1.
    """
    _at_least_one(steps)
    return lambda step: initial * float(rate ** (step // steps))


@recipe
def polynomial_decay(
    initial: float, steps: int, final: float = 0.0, power: float = 1.0, *, warmup: int = 0
) -> Schedule:
    """final + (initial - final) * (1 - share)**power, the share of the steps after the warmup.

    Args:
        initial: the rate at the top.
        steps: when `final` is reached; it stays.
        final: the rate at the end.
        power: 1 falls evenly.
        warmup: over so many of the steps, at first, the rate grows evenly from 0.

    >>> schedule = pb.optimizers.schedules.polynomial_decay(1.0, 10, power=2)
    >>> [schedule(step) for step in (0, 5, 10, 20)]
    [1.0, 0.25, 0.0, 0.0]

    Raises:
        InputValueError: for steps below 1, or a warmup that is as long as they are.
    """
    _check_warmup(steps, warmup)

    def schedule(step: int) -> float:
        share = min((step - warmup) / (steps - warmup), 1.0)
        return final + (initial - final) * float((1 - share) ** power)

    return _warmed(schedule, initial, warmup)


@recipe
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
        InputValueError: for steps below 1, or a warmup that is as long as they are.
    """
    _check_warmup(steps, warmup)
    return _warmed(
        lambda step: _cosine(initial, final, min((step - warmup) / (steps - warmup), 1.0)),
        initial,
        warmup,
    )


@recipe
def cosine_restarts(
    initial: float,
    steps: int,
    *,
    final: float = 0.0,
    longer: float = 1.0,
    lower: float = 1.0,
    warmup: int = 0,
) -> Schedule:
    """Cosines one after the other, each from the top again (Loshchilov and Hutter, 2017).

    Args:
        initial: the rate at the top.
        steps: the length of the first cosine.
        final: the rate at the end of each.
        longer: how much longer each is than the one before.
        lower: what the top of each is of the one before's.
        warmup: over so many steps before the first cosine the rate grows evenly from 0.

    >>> schedule = pb.optimizers.schedules.cosine_restarts(1.0, 10, longer=2.0, lower=0.5)
    >>> [round(schedule(step), 3) for step in (0, 5, 10, 20, 30)]
    [1.0, 0.5, 0.5, 0.25, 0.25]

    Raises:
        InputValueError: for steps below 1, a negative warmup, or cosines that get shorter.
    """
    _at_least_one(steps)
    if longer < 1:
        raise errors.InputValueError(f"each cosine is as long as the last or longer, got {longer}")

    def schedule(step: int) -> float:
        turn, begin = _cycle(step - warmup, steps, longer)
        share = (step - warmup - begin) / (steps * longer**turn)
        return _cosine(max(initial * lower**turn, final), final, share)

    return _warmed(schedule, initial, warmup)


@recipe
def inverse_root_decay(initial: float, warmup: int) -> Schedule:
    """initial * sqrt(warmup / step) after the warmup (Vaswani et al., 2017, section 5.3).

    >>> schedule = pb.optimizers.schedules.inverse_root_decay(0.1, 100)
    >>> [schedule(step) for step in (50, 100, 400)]
    [0.05, 0.1, 0.05]

    Raises:
        InputValueError: for a warmup below 1.
    """
    _at_least_one(warmup)
    return _warmed(lambda step: initial * math.sqrt(warmup / step), initial, warmup)


@recipe
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


# ---------------------------------------------------------------------------------------------


def _cosine(top: float, bottom: float, share: float) -> float:
    return bottom + (top - bottom) * (1 + math.cos(math.pi * share)) / 2


def _cycle(step: int, first: int, longer: float) -> tuple[int, float]:
    """Which cycle a step is in, and where that begins: cycle n is first * longer**n long."""
    if longer == 1:
        return step // first, step // first * first

    def begin(turn: int) -> float:
        return first * (longer**turn - 1) / (longer - 1)

    turn = int(math.log(step * (longer - 1) / first + 1, longer))
    # The logarithm may be off by a rounding at the very edges.
    turn += begin(turn + 1) <= step
    turn -= begin(turn) > step
    return turn, begin(turn)


def _warmed(schedule: Schedule, top: float, warmup: int) -> Schedule:
    if warmup < 0:
        raise errors.InputValueError(f"a warmup takes 0 steps or more, got {warmup}")
    return lambda step: top * step / warmup if step < warmup else schedule(step)


def _check_warmup(steps: int, warmup: int) -> None:
    _at_least_one(steps)
    if not 0 <= warmup < steps:
        raise errors.InputValueError(f"a warmup is shorter than {steps} steps, got {warmup}")


def _at_least_one(steps: int) -> None:
    if steps < 1:
        raise errors.InputValueError(f"a schedule takes one step or more, got {steps}")
