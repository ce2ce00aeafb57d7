"""A line search for the strong Wolfe conditions (Nocedal and Wright, 2006, section 3.5)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["Point", "wolfe_search"]

#: The decrease of a function, and of the size of its slope, that a step must bring.
_DECREASE, _FLATTER = 1e-4, 0.9


class Point(NamedTuple):
    """A step along the line, the function there and its slope, and what came with them."""

    step: float
    value: float
    slope: float
    found: Any

    @property
    def is_finite(self) -> bool:
        """Returns whether the function and its slope are finite."""
        return math.isfinite(self.value) and math.isfinite(self.slope)


def wolfe_search(
    evaluate: Callable[[float], Point],
    start: Point,
    first: float,
    evaluations: int,
    smallest: float,
) -> Point:
    """Returns a point that meets the conditions, or else the lowest that was found.

    Args:
        evaluate: the point after a step.
        start: the point after no step; its slope is negative.
        first: the step that is tried first.
        evaluations: how many points are tried at most.
        smallest: the smallest change of the function that its dtype shows.
    """
    before, step = start, first
    for number in range(evaluations):
        point = evaluate(step)
        if _is_high(point, start) or (number and point.value >= before.value):
            return _between(evaluate, start, before, point, evaluations - number - 1, smallest)
        if abs(point.slope) <= -_FLATTER * start.slope:
            return point
        if point.slope >= 0:
            return _between(evaluate, start, point, before, evaluations - number - 1, smallest)
        farther = _minimum(before, point)
        before, step = point, min(10 * step, max(2 * step, farther))
    return before


def _between(
    evaluate: Callable[[float], Point],
    start: Point,
    low: Point,
    high: Point,
    evaluations: int,
    smallest: float,
) -> Point:
    """Algorithm 3.6: there is a point between `low`, the lowest so far, and `high`."""
    for _ in range(evaluations):
        width = high.step - low.step
        if abs(width * start.slope) <= smallest:
            break
        step = _minimum(low, high)
        # Not near an end, where the interval would hardly shrink.
        if not 0.1 <= (step - low.step) / width <= 0.9:
            step = low.step + width / 2
        if step in (low.step, high.step):
            break
        point = evaluate(step)
        if _is_high(point, start) or point.value >= low.value:
            high = point
            continue
        if abs(point.slope) <= -_FLATTER * start.slope:
            return point
        if point.slope * width >= 0:
            high = low
        low = point
    return low


def _is_high(point: Point, start: Point) -> bool:
    """Returns whether a point is too high for its step, or has no value."""
    highest = start.value + _DECREASE * point.step * start.slope
    return not point.is_finite or point.value > highest


def _minimum(a: Point, b: Point) -> float:
    """The step to the minimum of the cubic through two points (3.59); NaN if there is none."""
    if not (a.is_finite and b.is_finite):
        return math.nan
    d1 = a.slope + b.slope - 3 * (a.value - b.value) / (a.step - b.step)
    square = d1 * d1 - a.slope * b.slope
    if not 0 <= square < math.inf:
        return math.nan
    d2 = math.copysign(math.sqrt(square), b.step - a.step)
    bottom = b.slope - a.slope + 2 * d2
    return b.step - (b.step - a.step) * (b.slope + d2 - d1) / bottom if bottom else math.nan
