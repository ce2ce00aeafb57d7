"""Gradients compared with differences of the reference, for backends without float64.

Central differences need more digits than float32 has, so they are taken of the reference, on the
host. A result that is correct in more than one way is not compared.
"""

from __future__ import annotations

import numpy as np

from pullback import dtypes
from pullback._autodiff.tape import GradientTape
from pullback._dispatch.convert import unflatten
from pullback_conformance.accuracy import eps
from pullback_conformance.case import Case, as_tuple, results, widen
from pullback_conformance.compare import require
from pullback_conformance.differences import Differentiation, differences, inner
from pullback_conformance.gradients import FIRST_ELEMENTS, NARROW_EPS, has_wide, is_narrow, settle
from pullback_conformance.registry import Area, check
from pullback_conformance.sample import Array

#: The step of mixed second differences in float64.
SECOND_STEP = 2e-4


class ReferenceLoss:
    """Re(sum(conj(c) * reference)), as a function of the differentiable inputs in float64."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.d = Differentiation(case)
        outputs = as_tuple(case.call())
        self.floating = [i for i, output in enumerate(outputs) if dtypes.is_floating(output.dtype)]
        # As the reference gets them: integers that the op takes as floats are converted.
        self.flat = [
            widen(leaf, np.float64)
            for value in case.lifted()
            for leaf in (value if isinstance(value, (list, tuple)) else [value])
        ]

    @property
    def point(self) -> list[Array]:
        """The differentiable inputs in float64."""
        return [self.flat[i] for i in self.d.wanted]

    def __call__(self, point: list[Array]) -> float:
        """The loss at a point."""
        flat = list(self.flat)
        for i, value in zip(self.d.wanted, point, strict=True):
            flat[i] = value
        inputs = unflatten(flat, tuple(self.d.lengths))
        with np.errstate(all="ignore"):
            expected = results(self.case.suite.reference(*inputs, **self.case.sample.attributes))
        wide = [np.asarray(widen(g, np.float64)) for g in self.d.cotangents]
        return inner(wide, [expected[i] for i in self.floating])


def _is_alone(case: Case) -> bool:
    return is_narrow(case) and not has_wide(case)


@check(Area.GRADIENTS, per="dtype", applies=_is_alone)
def reference_gradient(case: Case) -> None:
    """Checks that the gradient has the dtype of its input and agrees with differences."""
    loss = ReferenceLoss(case)
    d = loss.d
    if not d.cotangents:
        return
    by_tape = d.gradient(d.tensors(d.point), d.tensors(d.cotangents))
    gradients = settle(case, by_tape, d.point, d.wanted_names, "the gradient")
    if case.suite.compare is not None or case.dtype is None:
        return
    differences(
        case,
        loss,
        loss.point,
        [np.asarray(widen(g, np.float64)) for g in gradients],
        d.wanted_names,
        elements=FIRST_ELEMENTS,
        tolerance=NARROW_EPS * eps(case.dtype),
        quantity="the gradient",
    )


@check(
    Area.SECOND, per="dtype", applies=lambda case: case.dtype == dtypes.float32 and _is_alone(case)
)
def reference_second_gradient(case: Case) -> None:
    """Checks that the gradient of <gradient, v> along u is the mixed second difference."""
    loss = ReferenceLoss(case)
    d = loss.d
    if not d.cotangents or case.suite.compare is not None or case.dtype is None:
        return
    xs, cotangents = d.tensors(d.point), d.tensors(d.cotangents)
    with GradientTape() as outer:
        outer.watch(xs)
        first = d.gradient(xs, cotangents)
    live = [k for k, g in enumerate(first) if g is not None]
    if not live:
        return
    # Other inputs do not change.
    vs = [_unit(d, x) if k in live else np.zeros_like(x) for k, x in enumerate(d.point)]
    by_tape = outer.gradient([first[k] for k in live], xs, d.tensors([vs[k] for k in live]))
    second = settle(case, by_tape, d.point, d.wanted_names, "the second gradient")
    us = [_unit(d, x) for x in d.point]
    h = SECOND_STEP

    def moved(a: float, b: float) -> float:
        return loss([x + h * (a * u + b * v) for x, u, v in zip(loss.point, us, vs, strict=True)])

    expected = (moved(1, 1) - moved(1, -1) - moved(-1, 1) + moved(-1, -1)) / (4 * h * h)
    actual = inner(us, second)
    scale = max([1.0, abs(expected), *(float(np.max(np.abs(x), initial=0.0)) for x in second)])
    require(
        abs(actual - expected) <= 4 * NARROW_EPS * eps(case.dtype) * scale,
        case,
        f"the second gradient along a random direction is {actual:.6g}, by differences of the "
        f"reference {expected:.6g}",
    )


def _unit(d: Differentiation, x: Array) -> Array:
    """A random direction in the dtype of `x`, of the length of a step along one element."""
    return np.asarray(d.like(x) / np.sqrt(max(1, x.size)), x.dtype)
