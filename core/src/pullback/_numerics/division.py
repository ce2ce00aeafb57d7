"""Floors of quotients."""

from __future__ import annotations

from typing import Any

from pullback._numerics import ArrayNamespace


def floor_divide(xp: ArrayNamespace, x1: Any, x2: Any, digits: int) -> Any:
    """The floor of x1 / x2, rounded once to the dtype of both, which has `digits` binary digits.

    The quotient is rounded before its floor is taken, possibly up to an integer, or past the middle
    between two integers. `remainder` is exact, and shows by how much.
    """
    quotient = x1 / x2
    whole, size, limit = xp.floor(quotient), xp.abs(quotient), 2.0**digits
    # The distance to the next number: 1 where numbers have places behind the point. A little more
    # than half of it is added, which rounds up.
    half = 2.0**-digits * (1 + 2.0 ** (1 - digits))
    unit = xp.where(size < limit, 1.0, (size + size * half) - size)
    # In units of the divisor: how far x1 / x2 is above a multiple of the unit.
    divisor, above = xp.abs(x2), xp.abs(xp.remainder(x1, unit * x2))
    rounded_up = (whole == quotient) & (above > divisor - above)
    small = xp.where(rounded_up, whole - 1, whole)
    # Among numbers further apart, a floor in the middle of two goes to the even one of them.
    over = above - unit / 2 * divisor
    half = quotient / unit / 2
    back = xp.where(size == limit, 1.0, xp.where(xp.floor(half) == half, 0.0, unit))
    large = xp.where((over > 0) & (over < divisor), quotient - back, quotient)
    return xp.where(size < limit, small, large)
