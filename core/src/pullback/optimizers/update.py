"""The update of one variable: the same op at every step, whose plan is kept."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from pullback import dtypes
from pullback._dispatch.arguments import raise_explained
from pullback._dispatch.convert import align_inputs
from pullback._dispatch.general import is_closed
from pullback._dispatch.plan import Plan, resolve
from pullback._dispatch.recording import capturing, lifted, unfollowed
from pullback._dispatch.warned import unwarned
from pullback._symbols import TRACES
from pullback.optimizers.parts import as_parts, from_parts
from pullback.plugins.records import Kernel
from pullback.spec import Op
from pullback.tensor import Tensor, wrap
from pullback.variable import Variable

__all__ = ["Update"]


class Update:
    """Puts the results of an op into variables, step after step.

    The first step calls the op like any other and keeps the plan of the call, for steps that are
    like it. Such a step costs little more than its kernel. Nothing is recorded: no tape may be
    recording. A backend may write the new values into the arrays that only the variables have.
    """

    opaque_state = True
    __slots__ = ("_attributes", "_guard", "_in_place", "_op", "_plan", "_unsure")

    def __init__(self) -> None:
        self._op: Op | None = None
        self._plan: Plan | None = None
        #: What updates the variables themselves, if the backend has that for the plan's kernel.
        self._in_place: Kernel | None = None
        self._attributes: Mapping[str, Any] = {}
        #: Attributes that may be equal to others. A float other than zero is the canonical form
        #: of all that is equal to it.
        self._unsure: list[tuple[str, Any]] = []
        #: The device, shape and dtype of each tensor, one after another.
        self._guard: list[Any] = []

    def __call__(
        self,
        op: Op,
        variables: Sequence[Variable],
        gradient: Tensor,
        numbers: Sequence[Tensor],
        attributes: Mapping[str, Any],
    ) -> None:
        """Calls op(parameter, gradient, *slots, *numbers, **attributes).

        Args:
            op: the op, which returns the new parameter and the new slots.
            variables: the parameter and its slots: the same at each call.
            gradient: the gradient of the parameter.
            numbers: 0-d tensors.
            attributes: attributes by name; those that are missing have their defaults.
        """
        if TRACES.count and capturing() is not None:
            # A plan of a trace would serve no later step, and keep the trace alive.
            inputs: list[Any] = [variables[0], lifted(gradient), *variables[1:], *numbers]
            closed = type(attributes) is dict and is_closed(op, inputs, attributes)
            with unfollowed() if closed else nullcontext():
                self._call(op, inputs, variables, attributes)
            return
        array = gradient._array
        arrays = [variable._array for variable in variables]
        arrays.insert(1, array)
        guard: list[Any] = [gradient._device, array.shape, array.dtype]
        for number in numbers:
            array = number._array
            arrays.append(array)
            guard += (number._device, array.shape, array.dtype)
        plan = self._plan
        if plan is not None and (
            op is not self._op
            or gradient._device is not plan.device
            or guard != self._guard
            or attributes != self._attributes
            or plan.device.backend.changes != plan.guard
        ):
            plan = None
        if plan is not None:
            for name, value in self._unsure:
                if attributes[name] is not value and not _alike(attributes[name], value):
                    plan = None
                    break
        if plan is None:
            self._call(
                op, [variables[0], gradient, *variables[1:], *numbers], variables, attributes
            )
            self._guard = guard
            return
        if self._in_place is not None:
            rest = arrays[1 + len(variables) :]
            del arrays  # a reference to an array would keep it from being written
            try:
                self._in_place(
                    variables[0], gradient._array, *variables[1:], *rest, **plan.attributes
                )
            except Exception as error:
                inputs = [wrap(value._array, value._device) for value in variables]
                inputs.insert(1, gradient)
                raise_explained(op, error, (*inputs, *numbers), plan.attributes)
            return
        for variable, array in zip(variables, plan.run(arrays), strict=True):
            variable._array = array

    def _call(
        self,
        op: Op,
        inputs: Sequence[Tensor | Variable],
        variables: Sequence[Variable],
        attributes: Mapping[str, Any],
    ) -> None:
        """Calls the op like any other, and keeps the plan of the call."""
        self._plan = None
        if dtypes.is_complex(variables[0].dtype):
            self._call_on_parts(op, inputs, variables, attributes)
            return
        results = op.function(*inputs, **attributes)
        several = (results,) if isinstance(results, Tensor) else results
        for variable, result in zip(variables, several, strict=True):
            variable.assign(result)
        if capturing() is not None:
            return
        self._op, self._attributes = op, dict(attributes)
        self._unsure = [
            (name, value)
            for name, value in attributes.items()
            if type(value) is not float or not value
        ]
        tensors = [wrap(value._array, value._device) for value in inputs]
        aligned, device = align_inputs(op, tuple(tensors))
        if op.residuals or any(a is not b for a, b in zip(aligned, tensors, strict=True)):
            return  # converted anew at each step
        every = {**(op.body.__kwdefaults__ or {}), **attributes}
        plan = resolve(op, tensors, every, device)
        if plan.kernel is not None:
            self._plan = plan
            in_place = device.backend.in_place(op.name, plan.kernel)
            self._in_place = None if in_place is None else unwarned(in_place, updates=True)

    def _call_on_parts(
        self,
        op: Op,
        inputs: Sequence[Tensor | Variable],
        variables: Sequence[Variable],
        attributes: Mapping[str, Any],
    ) -> None:
        """Calls the op for a complex parameter: its parts are real parameters of their own."""
        parameter, gradient, *others = inputs
        results = op.function(as_parts(parameter), as_parts(gradient), *others, **attributes)
        moved, *slots = (results,) if isinstance(results, Tensor) else results
        variables[0].assign(from_parts(moved))
        for variable, result in zip(variables[1:], slots, strict=True):
            variable.assign(result)

    def forget(self) -> None:
        """Has the next call be a full one: a slot is another variable from now on."""
        self._plan = None

    def __deepcopy__(self, memo: dict[int, Any]) -> Update:
        return Update()


def _alike(value: object, before: object) -> bool:
    """True if equal attributes have one kind and sign: 1.0 is not True, -0.0 is not 0.0."""
    if type(value) is not float or type(before) is not float:
        return type(value) is type(before)
    return math.copysign(1, value) == math.copysign(1, before)
