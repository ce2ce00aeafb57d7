"""The state of an optimizer: slots of variables, and the scalars of a step."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from pullback import dtypes, errors
from pullback._dispatch.arguments import as_list
from pullback._dispatch.convert import from_any
from pullback._dispatch.host_state import HostState
from pullback._dispatch.recording import announce_call
from pullback.devices import Device
from pullback.dtypes import DType
from pullback.optimizers.update import Update
from pullback.tensor import Tensor, wrap
from pullback.variable import Variable

__all__ = [
    "ACCUMULATED",
    "PerVariable",
    "PerVariableLike",
    "Scalar",
    "Slots",
    "StepScalars",
    "WeightDecayMask",
]

#: The slot with the sum of gradients: there is one to be seen while a sum is begun.
ACCUMULATED = "accumulated"

#: A learning rate or the number of a step, as an op takes it.
Scalar: TypeAlias = "float | Tensor"


class Slots:
    """The slots of variables; those of a variable live as long as it does."""

    __slots__ = ("_of", "summed", "version")

    #: Slots are saved under the paths of their variables, by the optimizer.
    opaque_state = True

    def __init__(self) -> None:
        self._of: dict[int, tuple[weakref.ref[Variable], dict[str, Variable], Update]] = {}
        #: The number of times that slots were made or removed: a captured step has those of one.
        self.version = 0
        #: The variables, by identity, whose gradients are in the sums for the next step.
        self.summed = HostState(frozenset(), "the gradients in a sum", beside_variables=True)

    def __deepcopy__(self, memo: dict[int, Any]) -> Slots:
        # The slots of a copied model belong to the copies of its variables.
        made = Slots()
        memo[id(self)] = made
        for variable, name, slot in self:
            made.put(copy.deepcopy(variable, memo), name, copy.deepcopy(slot, memo))
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return _slots_of, (list(self),)

    def of(self, variable: Variable) -> dict[str, Variable]:
        """The slots of a variable by name."""
        key = id(variable)
        entry = self._of.get(key)
        if entry is None:
            if not isinstance(variable, Variable):
                raise errors.InputTypeError(
                    f"variable must be a pb.Variable, got {type(variable).__name__}"
                )
            of = self._of
            reference = weakref.ref(variable, lambda _: of.pop(key, None))
            entry = of[key] = (reference, {}, Update())
        return entry[1]

    def put(self, variable: Variable, name: str, slot: Variable) -> None:
        """Adds a slot of a copied or loaded optimizer."""
        self.of(variable)[name] = slot
        if name == ACCUMULATED:
            self.begin_sum(variable)

    def update_of(self, variable: Variable) -> Update:
        """The update of a variable; `of` has been called for it before."""
        return self._of[id(variable)][2]

    def named(self, name: str) -> list[tuple[Variable, Variable]]:
        """Each variable that has a slot of that name, and the slot."""
        return [(variable, slot) for variable, other, slot in self if other == name]

    def is_summed(self, variable: Variable) -> bool:
        """Returns whether the sum of a variable has gradients for the next step."""
        return id(variable) in self.summed.get()

    def begin_sum(self, variable: Variable) -> None:
        """Has the sum of a variable be one for the next step."""
        self.summed.set(self.summed.get() | {id(variable)})

    def end_sums(self) -> None:
        """Has the next step begin with sums of its own; until then there are none to be saved."""
        self.summed.set(frozenset())

    def keep(self, wanted: Collection[tuple[int, str]]) -> None:
        """Removes all slots but those in `wanted`: pairs of the id of a variable and a name.

        Sums that are not wanted stay for the next ones, as at the end of a step.
        """
        for key, (_, slots, _) in self._of.items():
            unwanted = [name for name in slots if (key, name) not in wanted]
            for name in [name for name in unwanted if name != ACCUMULATED]:
                del slots[name]
                self.version += 1
        self.summed.set(frozenset(key for key, name in wanted if name == ACCUMULATED))

    def __iter__(self) -> Iterator[tuple[Variable, str, Variable]]:
        for reference, slots, _ in list(self._of.values()):
            variable = reference()
            if variable is not None:
                for name, slot in list(slots.items()):
                    if name != ACCUMULATED or self.is_summed(variable):
                        yield variable, name, slot


def _slots_of(entries: Iterable[tuple[Variable, str, Variable]]) -> Slots:
    """Returns the slots of a pickled optimizer, for the variables that came with them."""
    made = Slots()
    for variable, name, slot in entries:
        made.put(variable, name, slot)
    return made


class StepScalars:
    """The scalars of a step as tensors, made once for all variables of a dtype on a device.

    Calls of ops with tensors alone are the fastest. The tensor of a scalar that stays the same is
    kept.
    """

    __slots__ = ("_device", "_dtype", "_native_dtype", "_scalars", "_tensors")

    #: The tensors are made anew from the scalars.
    opaque_state = True

    def __init__(self) -> None:
        #: The native dtype and the device of the variables that the tensors are for.
        self._native_dtype: object = None
        self._device: Device | None = None
        self._dtype: DType = dtypes.float32
        self._scalars: list[Scalar] = []
        self._tensors: list[Tensor] = []

    def __deepcopy__(self, memo: dict[int, Any]) -> StepScalars:
        return StepScalars()

    def __reduce__(self) -> tuple[Any, ...]:
        return StepScalars, ()

    def tensors(self, scalars: Sequence[Scalar], variable: Variable) -> list[Tensor]:
        """Returns the scalars in float32, or in float64 for such a variable; tensors unchanged."""
        native, device = variable._array.dtype, variable._device
        if native is not self._native_dtype or device is not self._device:
            self._native_dtype, self._device = native, device
            self._dtype = dtypes.promote_types(variable.dtype, dtypes.float32)
            if dtypes.is_complex(self._dtype):
                self._dtype = dtypes.real_of(self._dtype)
            self._scalars = [*scalars]
            self._tensors = [_scalar(scalar, self._dtype, device) for scalar in scalars]
            return self._tensors
        for i, scalar in enumerate(scalars):
            if scalar is not self._scalars[i]:
                self._scalars[i] = scalar
                self._tensors[i] = _scalar(scalar, self._dtype, device)
        return self._tensors

    def forget(self) -> None:
        """Forgets the tensors, such as those of a trace, which would stay with the optimizer."""
        self._native_dtype, self._tensors = None, []


def _scalar(value: Scalar, dtype: DType, device: Device) -> Tensor:
    if isinstance(value, Tensor):
        return value
    if type(value) is not int:
        return from_any(value, dtype, device)
    # The number of a step does not come again: the table of constants is not for it.
    array = device.backend.from_host(np.asarray(value, dtype), device.native, copy=False)
    return wrap(array, device)


#: Variables, or a function of a variable that returns True for them.
WeightDecayMaskLike: TypeAlias = "Iterable[Variable] | Callable[[Variable], bool] | None"


#: A number for some variables: a dict of them, or a function of a variable.
PerVariableLike: TypeAlias = "Mapping[Variable, float] | Callable[[Variable], float]"


class PerVariable:
    """A factor for each variable: 1 unless a dict or a function says otherwise."""

    __slots__ = ("_factors",)

    #: The variables belong to a model; they are saved there.
    opaque_state = True

    def __init__(self, factors: PerVariableLike) -> None:
        if not callable(factors) and not isinstance(factors, Mapping):
            raise errors.InputTypeError(
                f"rate_scale and decay_scale must be a dict of variables and factors, or a "
                f"function of a variable, got {type(factors).__name__}; write "
                f"{{v: 0.1 for v in layer.variables}}"
            )
        self._factors = factors

    def __deepcopy__(self, memo: dict[int, Any]) -> PerVariable:
        if isinstance(self._factors, Mapping):
            copies = {copy.deepcopy(v, memo): factor for v, factor in self._factors.items()}
            return PerVariable(copies)
        return PerVariable(copy.deepcopy(self._factors, memo))

    def __call__(self, variable: Variable) -> float:
        """Returns the factor of a variable.

        Raises:
            InputValueError: for a negative factor, or one that is not finite.
        """
        factors = self._factors
        announce_call(factors, "the factors of an optimizer")
        if isinstance(factors, Mapping):
            factor = float(factors.get(variable, 1.0))
        else:
            factor = float(factors(variable))
        if not 0 <= factor < float("inf"):
            raise errors.InputValueError(
                f"the factor of {variable.name or 'a variable'} must be 0 or more and finite, "
                f"got {factor}"
            )
        return factor


class WeightDecayMask:
    """The variables that are excluded from weight decay."""

    __slots__ = ("_variables", "decide")

    #: The variables belong to a model; they are saved there.
    opaque_state = True

    def __init__(self, excluded: WeightDecayMaskLike) -> None:
        self.decide = excluded if callable(excluded) else None
        if excluded is None or callable(excluded):
            excluded = ()
        listed = as_list(excluded, "no_decay", "variables")
        self._variables = {id(variable): variable for variable in listed}

    def __deepcopy__(self, memo: dict[int, Any]) -> WeightDecayMask:
        if self.decide is not None:
            return WeightDecayMask(copy.deepcopy(self.decide, memo))
        return WeightDecayMask([copy.deepcopy(v, memo) for v in self._variables.values()])

    def __reduce__(self) -> tuple[Any, ...]:
        # By identity: the variables are others where they are loaded.
        return WeightDecayMask, (self.decide or [*self._variables.values()],)

    def __contains__(self, variable: Variable) -> bool:
        if self.decide is not None:
            return bool(self.decide(variable))
        return id(variable) in self._variables
