"""What an optimizer keeps for each variable, and for each step."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from pullback import dtypes
from pullback._dispatch.convert import from_any
from pullback.devices import Device
from pullback.dtypes import DType
from pullback.optimizers.update import Update
from pullback.tensor import Tensor, wrap
from pullback.variable import Variable

__all__ = ["Exclusions", "Numbers", "Slots"]


class Slots:
    """The slots of variables, each set for as long as its variable lives."""

    opaque_state = True
    # Without a __dict__ a walk passes it over: slots are saved by the paths of their variables.
    __slots__ = ("_of",)

    def __init__(self) -> None:
        self._of: dict[int, tuple[weakref.ref[Variable], dict[str, Variable], Update]] = {}

    def __deepcopy__(self, memo: dict[int, Any]) -> Slots:
        # The slots of a model's copy are those of its own variables: kept by their identities.
        made = Slots()
        memo[id(self)] = made
        for variable, name, slot in self:
            made.of(copy.deepcopy(variable, memo))[name] = copy.deepcopy(slot, memo)
        return made

    def of(self, variable: Variable) -> dict[str, Variable]:
        """The slots of a variable by name."""
        key = id(variable)
        found = self._of.get(key)
        if found is None:
            of = self._of
            reference = weakref.ref(variable, lambda _: of.pop(key, None))
            found = of[key] = (reference, {}, Update())
        return found[1]

    def update_of(self, variable: Variable) -> Update:
        """What moves a variable whose slots have been asked for."""
        return self._of[id(variable)][2]

    def named(self, name: str) -> list[tuple[Variable, Variable]]:
        """Each variable that has a slot of that name, and the slot."""
        return [(variable, slot) for variable, one, slot in self if one == name]

    def drop(self, name: str) -> None:
        """Forgets the slots of that name."""
        for _, slots, _ in self._of.values():
            slots.pop(name, None)

    def keep(self, wanted: Collection[tuple[int, str]]) -> None:
        """Forgets all slots but those wanted: the id of a variable, and a name."""
        for key, (_, slots, _) in self._of.items():
            for name in [name for name in slots if (key, name) not in wanted]:
                del slots[name]

    def __iter__(self) -> Iterator[tuple[Variable, str, Variable]]:
        for reference, slots, _ in list(self._of.values()):
            variable = reference()
            if variable is not None:
                for name, slot in list(slots.items()):
                    yield variable, name, slot


class Numbers:
    """The numbers of a step as tensors, made once for the variables of a dtype on a device.

    Calls of ops with tensors alone are the quickest. A number that stays the same is kept.
    """

    opaque_state = True
    __slots__ = ("_beside", "_device", "_dtype", "_given", "_made")

    def __init__(self) -> None:
        #: The native dtype and the device of the variables that the tensors are for.
        self._beside: Any = None
        self._device: Device | None = None
        self._dtype: DType = dtypes.float32
        self._given: list[Any] = []
        self._made: list[Tensor] = []

    def __deepcopy__(self, memo: dict[int, Any]) -> Numbers:
        return Numbers()

    def tensors(self, given: Sequence[Any], variable: Variable) -> list[Tensor]:
        """The numbers in float32, or float64 beside that; tensors as they are."""
        beside, device = variable._array.dtype, variable._device
        if beside is not self._beside or device is not self._device:
            self._beside, self._device = beside, device
            self._dtype = dtypes.promote_types(variable.dtype, dtypes.float32)
            self._given = [None] * len(given)
            self._made = [*given]
        for i, number in enumerate(given):
            if number is not self._given[i]:
                self._given[i] = number
                self._made[i] = _number(number, self._dtype, device)
        return self._made


def _number(value: Any, dtype: DType, device: Device) -> Tensor:
    if isinstance(value, Tensor):
        return value
    if type(value) is not int:
        return from_any(value, dtype, device)
    # The number of a step does not come again: the table of constants is not for it.
    array = device.backend.from_host(np.asarray(value, dtype), device.native, copy=False)
    return wrap(array, device)


#: Variables, or a function of a variable that says whether it is one of them.
ExclusionsLike: TypeAlias = "Iterable[Variable] | Callable[[Variable], bool] | None"


class Exclusions:
    """Variables that something is not for."""

    opaque_state = True
    # The variables are those of a model; a walk is to find them there.
    __slots__ = ("_decide", "_variables")

    def __init__(self, given: ExclusionsLike) -> None:
        self._decide = given if callable(given) else None
        listed = () if given is None or callable(given) else tuple(given)
        self._variables = {id(variable): variable for variable in listed}

    def __deepcopy__(self, memo: dict[int, Any]) -> Exclusions:
        if self._decide is not None:
            return Exclusions(copy.deepcopy(self._decide, memo))
        return Exclusions([copy.deepcopy(one, memo) for one in self._variables.values()])

    def __contains__(self, variable: Variable) -> bool:
        if self._decide is not None:
            return bool(self._decide(variable))
        return id(variable) in self._variables
