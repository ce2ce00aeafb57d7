"""Gradients against central differences, to second order, and in narrower dtypes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from pullback import dtypes
from pullback._autodiff.tape import GradientTape
from pullback._tree import each
from pullback.dtypes import DType
from pullback.spec import Accuracy
from pullback.tensor import Tensor
from pullback_conformance.accuracy import eps, longest
from pullback_conformance.case import Case, holds, runs_body, widen
from pullback_conformance.compare import identical, require
from pullback_conformance.condition import moves
from pullback_conformance.differences import STEP, Differentiation, differences, inner
from pullback_conformance.registry import Area, check
from pullback_conformance.sample import Array

FIRST_TOLERANCE = 1e-6
SECOND_TOLERANCE = 1e-5
#: In units of eps times the largest gradient; a sensitive gradient has a larger bound.
NARROW_EPS = 32.0
#: The number of elements that are measured one by one; of larger inputs a random choice.
FIRST_ELEMENTS = 32
SECOND_ELEMENTS = 10
#: The dtypes that central differences are taken in.
WIDE: tuple[DType, ...] = (dtypes.float64, dtypes.complex128)


def _is_smooth(case: Case) -> bool:
    dtype = case.dtype
    floating = dtype is not None and dtypes.is_floating(dtype)
    return case.op.differentiable and case.sample.gradient and floating


def _is_wide(case: Case) -> bool:
    return _is_smooth(case) and case.dtype in WIDE


def is_narrow(case: Case) -> bool:
    """Returns whether a gradient is to be checked that has too few digits for differences."""
    return _is_smooth(case) and case.dtype not in WIDE


def has_wide(case: Case) -> bool:
    """Returns whether the backend has the wide dtypes that gradients are compared in."""
    if dtypes.float64 not in case.device.backend.dtypes:
        return False
    wide = tuple(each(partial(widen, kind=np.float64), value) for value in case.inputs)
    return holds(case.device, case.op, wide, case.sample.attributes)


@check(Area.GRADIENTS, per="dtype", applies=_is_wide)
def gradient(case: Case) -> None:
    """Checks the gradient of every differentiable input, its shape and its dtype."""
    d = Differentiation(case)
    point, cotangents, names = d.point, d.cotangents, d.wanted_names
    if not cotangents:
        return
    by_tape = d.gradient(d.tensors(point), d.tensors(cotangents))
    gradients = settle(case, by_tape, point, names, "the gradient")
    differences(
        case,
        lambda x: inner(cotangents, [y.numpy() for y in d.run(d.tensors(x))]),
        point,
        gradients,
        names,
        elements=FIRST_ELEMENTS,
        tolerance=FIRST_TOLERANCE,
        quantity="the gradient",
    )


@check(Area.SECOND, per="dtype", applies=_is_wide)
def second_gradient(case: Case) -> None:
    """Checks the gradient of <gradient, v> with respect to the inputs and to the cotangent."""
    d = Differentiation(case)
    point, cotangents, names = d.point, d.cotangents, d.wanted_names
    if not cotangents:
        return
    xs, cs = d.tensors(point), d.tensors(cotangents)
    with GradientTape() as outer:
        outer.watch([xs, cs])
        first = d.gradient(xs, cs)
    live = [k for k, g in enumerate(first) if g is not None]
    if not live:
        return
    vs = [d.like(point[k]) for k in live]
    second = outer.gradient([first[k] for k in live], [xs, cs], d.tensors(vs))
    by_point = settle(case, second[0], point, names, "the second gradient")
    by_cotangent = settle(
        case, second[1], cotangents, ["the cotangent"] * len(cs), "the gradient's gradient"
    )

    def loss(x: list[Array]) -> float:
        gradients = d.gradient(d.tensors(x), d.tensors(cotangents))
        host = [g.numpy() for k in live if (g := gradients[k]) is not None]
        return inner(vs, host)

    differences(
        case,
        loss,
        point,
        by_point,
        names,
        elements=SECOND_ELEMENTS,
        tolerance=SECOND_TOLERANCE,
        quantity="the second gradient",
    )
    # The gradient is linear in the cotangent: its derivative along v is the forward derivative.
    ahead, behind = list(point), list(point)
    for k, v in zip(live, vs, strict=True):
        ahead[k], behind[k] = point[k] + STEP * v, point[k] - STEP * v
    results = zip(d.run(d.tensors(ahead)), d.run(d.tensors(behind)), by_cotangent, strict=True)
    for after, before, pushed in results:
        expected = (after.numpy() - before.numpy()) / (2 * STEP)
        error = np.max(np.abs(pushed - expected), initial=0.0)
        scale = max(1.0, float(np.max(np.abs(expected), initial=0.0)))
        require(
            bool(error <= SECOND_TOLERANCE * scale),
            case,
            f"the derivative of the gradient by its cotangent is off by {error:.3g} "
            f"where the derivative is {scale:.3g}",
        )


@check(
    Area.GRADIENTS,
    per="dtype",
    applies=lambda case: is_narrow(case) and has_wide(case),
    spared=runs_body,
)
def narrow_gradient(case: Case) -> None:
    """Checks that the gradient in a narrower dtype has that dtype and the value of float64."""
    d = Differentiation(case)
    point, cotangents, names = d.point, d.cotangents, d.wanted_names
    if not cotangents or case.dtype is None:
        return
    by_tape = d.gradient(d.tensors(point), d.tensors(cotangents))
    gradients = settle(case, by_tape, point, names, "the gradient")
    if case.suite.compare is not None:
        return  # a result that is correct in several ways has several gradients
    inputs = [each(partial(widen, kind=np.float64), value) for value in case.inputs]
    wide = Differentiation(replace(case.with_inputs(inputs), dtype=None))
    expected = wide.gradient(
        wide.tensors(wide.point), wide.tensors([_wider(g) for g in cotangents])
    )
    for k, (name, g, goal) in enumerate(zip(names, gradients, expected, strict=True)):
        if goal is None:
            continue
        off = float(np.max(np.abs(_wider(g) - goal.numpy()), initial=0.0))
        scale = max(1.0, float(np.max(np.abs(goal.numpy()), initial=0.0)))
        bound = NARROW_EPS * eps(case.dtype) * scale
        if off > bound and case.op.accuracy is Accuracy.BACKWARD_STABLE:
            bound += longest(case) * eps(case.dtype) * _moved(wide, cotangents)[k]
        require(
            off <= bound,
            case,
            f"the gradient with respect to {name} is off by {off:.3g} from the one in float64, "
            f"where the largest is {scale:.3g}, allowed {bound:.3g}",
        )


@check(
    Area.GRADIENTS, applies=lambda case: case.sample.slopes is not None and case.op.differentiable
)
def slopes(case: Case) -> None:
    """Checks the gradient where it is defined by a rule: at corners, poles, ends and infinities."""
    inputs = case.tensors()
    with GradientTape() as tape:
        tape.watch(inputs)
        output = case.call(inputs)
    found = tape.gradient(output, inputs, unconnected_gradients="zero")
    for parameter, g, expected in zip(case.op.inputs, found, case.sample.slopes or (), strict=True):
        # A zero of either sign is right.
        identical(case, _wider(g.numpy()) + 0.0, expected, f"the slope by {parameter.name}")


def _moved(wide: Differentiation, cotangents: list[Array]) -> list[float]:
    """The sensitivity of each gradient to the inputs, by which a stable method may be off too."""

    def function(point: list[Array]) -> list[Array]:
        gradients = wide.gradient(
            wide.tensors(point), wide.tensors([_wider(g) for g in cotangents])
        )
        return [
            np.zeros_like(value) if gradient is None else gradient.numpy()
            for gradient, value in zip(gradients, point, strict=True)
        ]

    return moves(function, wide.point)


def _wider(value: Array) -> Array:
    return np.asarray(widen(value, np.float64))


def settle(
    case: Case, gradients: list[Tensor | None], point: list[Array], names: list[str], quantity: str
) -> list[Array]:
    """Returns gradients on the host, zeros for None, after a check of shape, dtype and device.

    Raises:
        ConformanceError: if the shape, dtype or device is not that of the source.
    """
    host: list[Array] = []
    for gradient, value, name in zip(gradients, point, names, strict=True):
        if gradient is None:
            host.append(np.zeros_like(value))
            continue
        require(
            gradient.shape == value.shape and gradient.dtype == value.dtype,
            case,
            f"{quantity} with respect to {name} is {gradient.dtype}{list(gradient.shape)}, "
            f"the input {value.dtype}{list(value.shape)}",
        )
        require(gradient.device is case.device, case, f"{quantity} is on {gradient.device}")
        host.append(gradient.numpy())
    return host
