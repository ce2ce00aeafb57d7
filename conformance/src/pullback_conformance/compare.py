"""Comparison of arrays, with messages that locate the difference."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from pullback import dtypes
from pullback.casting import cast
from pullback.dtypes import DType
from pullback.tensor import Tensor
from pullback_conformance.accuracy import finfo, ulp
from pullback_conformance.sample import Array

#: Results below this many times the smallest normal number are small: an error among them, such as
#: one of flushed subnormals, is huge in ulp, and says nothing of other values.
SMALL = 4


class ConformanceError(AssertionError):
    """A backend, or an op's definition, violates the specification."""


def require(condition: bool, subject: object, message: str) -> None:
    """Raises a ConformanceError that names the case unless `condition` holds."""
    if not condition:
        raise ConformanceError(f"{subject}: {message}")


def identical(subject: object, actual: Array, expected: Array, quantity: str) -> None:
    """Checks that two arrays have the same bits (all NaNs are equal).

    Raises:
        ConformanceError: with the first element that differs.
    """
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        raise ConformanceError(
            f"{subject}: {quantity}: {actual.dtype}{list(actual.shape)} instead of "
            f"{expected.dtype}{list(expected.shape)}"
        )
    if actual.tobytes() == expected.tobytes():
        return
    same = (actual == expected) | ((actual != actual) & (expected != expected))
    if actual.dtype.kind in "fV":
        same &= (np.signbit(actual) == np.signbit(expected)) | (actual != actual)
    if not np.all(same):
        index = _first(~same)
        raise ConformanceError(
            f"{subject}: {quantity}: {actual[index]!s} instead of {expected[index]!s} at {index}"
        )


def all_identical(
    subject: object, actual: Iterable[Any], expected: Iterable[Any], quantity: str
) -> None:
    """Checks arrays, or the values of tensors, one after the other; {i} is the number of each.

    Raises:
        ConformanceError: as `identical` does.
    """
    for i, pair in enumerate(zip(actual, expected, strict=True)):
        array, goal = (x.numpy() if isinstance(x, Tensor) else x for x in pair)
        identical(subject, array, goal, quantity.replace("{i}", str(i)))


def rounds_to(actual: Array, reference: Array) -> bool:
    """Returns whether each element is the reference rounded to the dtype, bit by bit.

    It is then within any bound, and most results are.
    """
    if actual.shape != reference.shape:
        return False
    with np.errstate(all="ignore"):
        rounded = cast(reference, actual.dtype)
    return rounded.tobytes() == actual.tobytes()


def near(
    subject: object,
    actual: Array,
    reference: Array,
    bound: Array,
    dtype: DType,
    quantity: str,
    *,
    signs: bool = False,
) -> None:
    """Checks that all elements are within `bound` of the reference, with NaN and infinities equal.

    With `signs` zeros have to have the same sign.

    Raises:
        ConformanceError: with the worst element and its distance in ulp; one near the smallest
            normal number only if all that are wrong are there.
    """
    require(
        actual.shape == reference.shape,
        subject,
        f"{quantity} has shape {actual.shape}, the reference {reference.shape}",
    )
    if not dtypes.is_floating(dtype):
        wrong = np.asarray(actual != reference)
        if wrong.any():
            index = _first(wrong)
            _differ(subject, quantity, actual, reference, index, int(wrong.sum()), "allowed: none")
        return
    with np.errstate(all="ignore"):
        rounded = cast(reference, dtype)
        wide = _wide(actual)
        # A part of a complex number beyond the range may be NaN, as infinity less infinity.
        beyond = np.isfinite(reference) & ~np.isfinite(rounded) & ~np.isfinite(wide)
        beyond &= np.asarray(reference.dtype.kind == "c")
        wrong = (np.isnan(wide) != np.isnan(_wide(rounded))) & ~beyond
        if wrong.any():
            _differ(subject, quantity, actual, reference, _first(wrong), int(wrong.sum()), "NaN")
        infinite = np.isinf(wide) | np.isinf(_wide(rounded))
        alike = _same_infinities(actual, rounded, bound)
        # At the edge of the range a last-index error decides between the largest number and inf.
        edge = np.abs(reference) - float(finfo(dtype).max) < 2 * bound
        edge &= np.abs(reference) > 0.9 * float(finfo(dtype).max)
        wrong = infinite & ~alike & ~edge & ~beyond
        if wrong.any():
            _differ(
                subject, quantity, actual, reference, _first(wrong), int(wrong.sum()), "infinities"
            )
        finite = np.isfinite(wide) & np.isfinite(_wide(rounded))
        # The reference is compared before it is rounded; `bound` includes its half ulp. A bound of
        # 0 means equality after rounding.
        goal = np.where(bound == 0, _wide(rounded), reference)
        distance = np.where(finite, np.abs(wide - goal), 0.0)
        wrong = distance > bound
    if signs and not wrong.any():
        _same_zeros(subject, quantity, actual, rounded, reference)
    if wrong.any():
        unit = ulp(reference, dtype)
        small = np.maximum(np.abs(wide), np.abs(goal)) < SMALL * float(finfo(dtype).smallest_normal)
        shown = wrong & ~small if np.any(wrong & ~small) else wrong
        worst = np.unravel_index(int(np.argmax(np.where(shown, distance / unit, 0.0))), wrong.shape)
        _differ(
            subject,
            quantity,
            actual,
            reference,
            tuple(map(int, worst)),
            int(wrong.sum()),
            f"{float(distance[worst] / unit[worst]):.4g} ulp, "
            f"allowed {float(bound[worst] / unit[worst]):.4g}",
            small=int(np.sum(wrong & small)),
        )


def _same_infinities(actual: Array, rounded: Array, bound: Array) -> Array:
    """Returns where infinities are alike: complex ones by parts if `bound` is 0, else all are."""
    if actual.dtype.kind != "c":
        return np.asarray(actual == rounded)
    parts = [(x.real, x.imag) for x in (actual, rounded)]
    same = [(x == y) | (np.isnan(x) & np.isnan(y)) for x, y in zip(*parts, strict=True)]
    return np.where(bound == 0, same[0] & same[1], np.isinf(actual) & np.isinf(rounded))


def _same_zeros(
    subject: object, quantity: str, actual: Array, rounded: Array, reference: Array
) -> None:
    """Checks that elements that are zero on both sides have the same sign.

    A part of a complex number counts if it is exactly zero: the error of the other may hide it.
    """
    parts = ("real", "imag") if actual.dtype.kind == "c" else ("",)
    for part in parts:
        goals = (actual, reference) if part else (actual, rounded)
        left, right = (getattr(x, part) if part else x for x in goals)
        wrong = (left == 0) & (right == 0) & (np.signbit(left) != np.signbit(right))
        if np.any(wrong):
            why = "the sign of zero" + (f" in the {part} part" if part else "")
            _differ(subject, quantity, actual, reference, _first(wrong), int(np.sum(wrong)), why)


def _differ(
    subject: object,
    quantity: str,
    actual: Array,
    reference: Array,
    index: tuple[int, ...],
    count: int,
    why: str,
    *,
    small: int = 0,
) -> None:
    where = f", {'all' if small == count else small} of them near the smallest normal number"
    raise ConformanceError(
        f"{subject}: {quantity} is {actual[index]!s} at {index}, "
        f"the reference {reference[index]!s}: "
        f"{why}; {count} of {actual.size} elements{where if small else ''}"
    )


def _wide(values: Array) -> Array:
    if values.dtype.kind in "cg" or values.dtype == np.float64:
        return values.astype(np.clongdouble if values.dtype.kind == "c" else np.longdouble)
    return values.astype(np.float64).astype(np.longdouble)


def _first(mask: Array) -> tuple[int, ...]:
    return tuple(int(i) for i in np.argwhere(mask)[0])
