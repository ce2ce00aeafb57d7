"""Learning rates as functions of the number of steps taken.

A schedule is any function of an integer; configurations can hold the ones defined here. During the
first `warmup_steps` the rate grows linearly from 0 (Goyal et al., 2017).
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from pullback import _hints, errors
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
def constant(rate: float, *, warmup_steps: int = 0) -> Schedule:
    """The same rate at every step after a warmup.

    >>> schedule = pb.optimizers.schedules.constant(0.1, warmup_steps=10)
    >>> [schedule(step) for step in (0, 5, 10, 1000)]
    [0.0, 0.05, 0.1, 0.1]

    Raises:
        InputValueError: for negative warmup_steps.
    """
    return _warmed(lambda step: rate, rate, warmup_steps)


@recipe
def exponential_decay(initial: float, steps: int, decay_rate: float) -> Schedule:
    """initial * decay_rate**(step / steps).

    >>> schedule = pb.optimizers.schedules.exponential_decay(0.1, 100, 0.5)
    >>> schedule(0), schedule(200)
    (0.1, 0.025)

    Raises:
        InputValueError: for steps below 1.
    """
    _at_least_one(steps)
    return lambda step: initial * float(decay_rate ** (step / steps))


@recipe
def step_decay(initial: float, steps: int, decay_rate: float) -> Schedule:
    """initial * decay_rate**(step // steps): a staircase.

    >>> schedule = pb.optimizers.schedules.step_decay(0.1, 100, 0.5)
    >>> [schedule(step) for step in (0, 99, 100, 200)]
    [0.1, 0.1, 0.05, 0.025]

    Raises:
        InputValueError: for steps below 1.
    """
    _at_least_one(steps)
    return lambda step: initial * float(decay_rate ** (step // steps))


@recipe
def polynomial_decay(
    initial: float, steps: int, final: float = 0.0, power: float = 1.0, *, warmup_steps: int = 0
) -> Schedule:
    """final + (initial - final) * (1 - f)**power, with f the fraction of steps after the warmup.

    Args:
        initial: the rate after the warmup.
        steps: the step at which `final` is reached; the rate then stays there.
        final: the rate at the end.
        power: the exponent; 1 is a linear decay.
        warmup_steps: the number of first steps, in which the rate grows linearly from 0.

    >>> schedule = pb.optimizers.schedules.polynomial_decay(1.0, 10, power=2)
    >>> [schedule(step) for step in (0, 5, 10, 20)]
    [1.0, 0.25, 0.0, 0.0]

    Raises:
        InputValueError: for steps below 1, or warmup_steps that are not fewer than steps.
    """
    _check_warmup(steps, warmup_steps)

    def schedule(step: int) -> float:
        fraction = min((step - warmup_steps) / (steps - warmup_steps), 1.0)
        return final + (initial - final) * float((1 - fraction) ** power)

    return _warmed(schedule, initial, warmup_steps)


@recipe
def cosine_decay(
    initial: float, steps: int, *, final: float = 0.0, warmup_steps: int = 0
) -> Schedule:
    """From initial to final along half a cosine (Loshchilov and Hutter, 2017).

    Args:
        initial: the rate after the warmup.
        steps: the step at which `final` is reached; the rate then stays there.
        final: the rate at the end.
        warmup_steps: the number of first steps, in which the rate grows linearly from 0.

    >>> schedule = pb.optimizers.schedules.cosine_decay(0.1, 100, warmup_steps=10)
    >>> [round(schedule(step), 3) for step in (0, 5, 10, 55, 100, 200)]
    [0.0, 0.05, 0.1, 0.05, 0.0, 0.0]

    Raises:
        InputValueError: for steps below 1, or warmup_steps that are not fewer than steps.
    """
    _check_warmup(steps, warmup_steps)
    return _warmed(
        lambda step: _cosine(
            initial, final, min((step - warmup_steps) / (steps - warmup_steps), 1.0)
        ),
        initial,
        warmup_steps,
    )


@recipe
def cosine_restarts(
    initial: float,
    steps: int,
    *,
    final: float = 0.0,
    t_mul: float = 1.0,
    m_mul: float = 1.0,
    warmup_steps: int = 0,
) -> Schedule:
    """Cosine decays with warm restarts (Loshchilov and Hutter, 2017).

    Args:
        initial: the rate at the start of the first cosine.
        steps: the length of the first cosine.
        final: the rate at the end of each cosine.
        t_mul: the factor of the length from one cosine to the next.
        m_mul: the factor of the initial rate from one cosine to the next.
        warmup_steps: the number of steps before the first cosine, in which the rate grows
            linearly from 0.

    >>> schedule = pb.optimizers.schedules.cosine_restarts(1.0, 10, t_mul=2.0, m_mul=0.5)
    >>> [round(schedule(step), 3) for step in (0, 5, 10, 20, 30)]
    [1.0, 0.5, 0.5, 0.25, 0.25]

    Raises:
        InputValueError: for steps below 1, negative warmup_steps, or t_mul below 1.
    """
    _at_least_one(steps)
    if t_mul < 1:
        raise errors.InputValueError(f"t_mul must be 1 or more, got {t_mul}")

    def schedule(step: int) -> float:
        turn, begin = _cycle(step - warmup_steps, steps, t_mul)
        fraction = (step - warmup_steps - begin) / (steps * t_mul**turn)
        return _cosine(max(initial * m_mul**turn, final), final, fraction)

    return _warmed(schedule, initial, warmup_steps)


@recipe
def inverse_root_decay(initial: float, warmup_steps: int) -> Schedule:
    """initial * sqrt(warmup_steps / step) after the warmup (Vaswani et al., 2017, section 5.3).

    >>> schedule = pb.optimizers.schedules.inverse_root_decay(0.1, 100)
    >>> [schedule(step) for step in (50, 100, 400)]
    [0.05, 0.1, 0.05]

    Raises:
        InputValueError: for warmup_steps below 1.
    """
    _at_least_one(warmup_steps)
    return _warmed(lambda step: initial * math.sqrt(warmup_steps / step), initial, warmup_steps)


@recipe
def piecewise_constant(boundaries: Sequence[int], values: Sequence[float]) -> Schedule:
    """A constant rate between boundaries: the first value before the first one, and so on.

    >>> schedule = pb.optimizers.schedules.piecewise_constant([10, 20], [1.0, 0.1, 0.01])
    >>> [schedule(step) for step in (9, 10, 30)]
    [1.0, 0.1, 0.01]

    Raises:
        InputValueError: unless boundaries increase, and there is one value more than boundaries.
    """
    edges = list(boundaries)
    if len(values) != len(edges) + 1 or edges != sorted(set(edges)):
        raise errors.InputValueError(
            f"{len(edges)} increasing boundaries need {len(edges) + 1} values, "
            f"got {edges} and {list(values)}"
        )
    return lambda step: values[bisect.bisect_right(edges, step)]


# ---------------------------------------------------------------------------------------------


def _cosine(top: float, bottom: float, fraction: float) -> float:
    return bottom + (top - bottom) * (1 + math.cos(math.pi * fraction)) / 2


def _cycle(step: int, first: int, t_mul: float) -> tuple[int, float]:
    """Returns the cycle of a step, and its first step: cycle n takes first * t_mul**n steps."""
    if t_mul == 1:
        return step // first, step // first * first

    def begin(turn: int) -> float:
        return first * (t_mul**turn - 1) / (t_mul - 1)

    turn = int(math.log(step * (t_mul - 1) / first + 1, t_mul))
    # The logarithm may be off by a rounding error at the boundaries.
    turn += begin(turn + 1) <= step
    turn -= begin(turn) > step
    return turn, begin(turn)


def _warmed(schedule: Schedule, top: float, warmup_steps: int) -> Schedule:
    if warmup_steps < 0:
        raise errors.InputValueError(f"warmup_steps must be 0 or more, got {warmup_steps}")
    return lambda step: top * step / warmup_steps if step < warmup_steps else schedule(step)


def _check_warmup(steps: int, warmup_steps: int) -> None:
    _at_least_one(steps)
    if not 0 <= warmup_steps < steps:
        raise errors.InputValueError(
            f"warmup_steps must be fewer than steps={steps}, got {warmup_steps}"
        )


def _at_least_one(steps: int) -> None:
    if steps < 1:
        raise errors.InputValueError(f"a schedule needs one step or more, got {steps}")


if not TYPE_CHECKING:
    __getattr__ = _hints.answer_module("pullback.optimizers.schedules")
