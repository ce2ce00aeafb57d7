"""The update of one variable: the same op at every step, which is looked up once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from pullback._dispatch.arguments import normalise
from pullback.devices import Device
from pullback.plugins.backend import Kernel
from pullback.spec import Op
from pullback.tensor import Tensor, wrap
from pullback.variable import Variable

__all__ = ["Update"]


class Update:
    """Puts the results of an op into variables, step after step.

    What the first call of the op finds out is kept for those like it: the kernel, the normal form
    of the attributes, that the shapes fit. Such a step costs little more than its kernel. Every
    other step is a call of the op as any other. Nothing is recorded: no tape may listen.
    """

    opaque_state = True
    __slots__ = ("_attributes", "_changes", "_doubtful", "_kernel", "_normal", "_op", "_seen")

    def __init__(self) -> None:
        self._op: Op | None = None
        self._attributes: Mapping[str, Any] = {}
        #: Attributes that may be equal to others. A float other than zero is the normal form of
        #: all that is equal to it.
        self._doubtful: list[tuple[str, Any]] = []
        #: The device, shape and dtype of each tensor, one after another.
        self._seen: list[Any] = []
        self._changes = -1
        self._kernel: Kernel | None = None
        self._normal: dict[str, Any] = {}

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
            op: the op, which gives the new parameter and the new slots.
            variables: the parameter and its slots: the same at each call.
            gradient: what the parameter is moved against.
            numbers: 0-d tensors.
            attributes: attributes by name; those that are missing have their defaults.
        """
        seen: list[Any] = []
        for one in (gradient, *numbers):
            array = one._array
            seen += (one._device, array.shape, array.dtype)
        known = (
            self._kernel is not None
            and op is self._op
            and seen == self._seen
            and attributes == self._attributes
            and seen[0].backend.changes == self._changes
        )
        if known:
            for name, value in self._doubtful:
                if attributes[name] is not value and not _alike(attributes[name], value):
                    known = False
        if known:
            assert self._kernel is not None
            parameter, *slots = [one._array for one in variables]
            try:
                found = self._kernel(
                    parameter, gradient._array, *slots, *[one._array for one in numbers],
                    **self._normal,
                )  # fmt: skip
            except Exception:
                found = None  # the call of the op says what is wrong
            if found is not None:
                for variable, array in zip(variables, found if slots else (found,), strict=True):
                    if type(array) is not type(parameter):
                        array = seen[0].backend.native(array)
                    variable._array = array
                return
        self._call(op, variables, [variables[0], gradient, *variables[1:], *numbers], attributes)
        self._op, self._attributes, self._seen = op, dict(attributes), seen
        self._doubtful = [
            (name, value)
            for name, value in attributes.items()
            if type(value) is not float or not value
        ]

    def forget(self) -> None:
        """Has the next call be one as any other: a slot is another variable from now on."""
        self._kernel = None

    def __deepcopy__(self, memo: dict[int, Any]) -> Update:
        return Update()

    def _call(
        self,
        op: Op,
        variables: Sequence[Variable],
        inputs: Sequence[Any],
        attributes: Mapping[str, Any],
    ) -> None:
        """Calls the op as any other, and keeps what it has found."""
        results: Any = op.function(*inputs, **attributes)
        for variable, result in zip(
            variables, (results,) if isinstance(results, Tensor) else results, strict=True
        ):
            variable.assign(result)
        device = variables[0]._device
        self._changes = device.backend.changes
        self._kernel = _kernel(op, device, tuple(one._array.dtype for one in inputs))
        if self._kernel is not None:
            given = [wrap(one._array, device) for one in inputs]
            self._normal = normalise(op, given, {**(op.body.__kwdefaults__ or {}), **attributes})


def _alike(value: Any, before: Any) -> bool:
    """Whether equal attributes are of one kind and sign: 1.0 is not True, -0.0 not 0.0."""
    if type(value) is not float or type(before) is not float:
        return type(value) is type(before)
    return math.copysign(1, value) == math.copysign(1, before)


def _kernel(op: Op, device: Device, dtypes: tuple[Any, ...]) -> Kernel | None:
    """The kernel that a call found for inputs of these dtypes, where it converted none of them."""
    single = len(dtypes) == 1 or getattr(op.dtype, "uniform", False)
    if op.residuals or op.index >= len(device.tables) or (single and len(set(dtypes)) > 1):
        return None
    found: Kernel | None = device.tables[op.index].get(dtypes[0] if single else dtypes)
    return found
