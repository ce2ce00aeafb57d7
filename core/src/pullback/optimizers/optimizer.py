"""`Optimizer`: what all of them share; an algorithm is an op and the names of its slots."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from pullback import dtypes, errors, state
from pullback.dispatch.convert import from_any
from pullback.dispatch.recording import paused
from pullback.tape import GradientTape
from pullback.tensor import CALL, Tensor
from pullback.variable import Variable

__all__ = ["LearningRate", "Optimizer"]

#: A number, a variable, or a schedule: a function of the number of steps taken.
LearningRate: TypeAlias = "float | Variable | Callable[[int], Any]"


class _Slots:
    """What an optimizer keeps for each variable, for as long as the variable lives."""

    # Without a __dict__ a walk passes it over: slots are saved by the paths of their variables.
    __slots__ = ("_of",)

    def __init__(self) -> None:
        self._of: dict[int, tuple[weakref.ref[Variable], dict[str, Variable]]] = {}

    def of(self, variable: Variable) -> dict[str, Variable]:
        """The slots of a variable by name."""
        key = id(variable)
        found = self._of.get(key)
        if found is None:
            of = self._of
            reference = weakref.ref(variable, lambda _: of.pop(key, None))
            found = of[key] = (reference, {})
        return found[1]

    def __iter__(self) -> Iterator[tuple[Variable, str, Variable]]:
        for reference, slots in list(self._of.values()):
            variable = reference()
            if variable is not None:
                for name, slot in slots.items():
                    yield variable, name, slot


class Optimizer:
    """The base of every optimizer. A subclass names the op that makes a step, and its slots.

    Slots are zeros at first, in at least float32. They belong to the variable object, and in a
    checkpoint to its path: give the model to the same checkpoint.

    Args:
        learning_rate: a number, a variable, or a function of the number of steps taken.
        settings: the attributes of the op.

    Raises:
        InputValueError: for a learning rate that is negative or no number.
    """

    #: The op: (parameter, gradient, *slots, learning_rate, step if it takes it, **settings).
    op: str
    #: The names of the slots, in the order in which the op takes and gives them.
    slot_names: Sequence[str] = ()
    #: Whether the op takes the number of the step, from 1.
    takes_step: bool = False

    def __init__(self, learning_rate: LearningRate, **settings: Any) -> None:
        self.learning_rate = learning_rate
        self.settings = settings
        self._step = 0
        self._slots = _Slots()
        if not isinstance(learning_rate, Variable) and not callable(learning_rate):
            _positive(learning_rate)

    @property
    def step(self) -> int:
        """How many steps have been taken."""
        return self._step

    # Steps ---------------------------------------------------------------------------------------

    def apply_gradients(self, pairs: Iterable[tuple[Any, Variable]]) -> None:
        """Takes a step.

        Args:
            pairs: gradients and their variables, as `pb.implicit_gradients` gives them, or
                `zip(gradients, variables)`. Pairs without a gradient (None) are left out.

        Raises:
            InputValueError: when no pair has a gradient, or one variable is in two.
            ShapeError: when a gradient has another shape than its variable.
            InputTypeError: for what is no variable. Nothing has been changed in any of these cases.
        """
        if state.WAITING:
            state.settle()
        checked = _checked(pairs)
        step = self._step + 1
        with paused():
            rate = self._rate()
            for gradient, variable in checked:
                self.update(variable, gradient, rate, step)
        self._step = step

    def update(self, variable: Variable, gradient: Tensor, rate: Any, step: int) -> None:
        """Moves one variable; a subclass with more in mind than an op writes this."""
        slots = [self.slot(variable, name) for name in self.slot_names]
        numbers = (rate, step) if self.takes_step else (rate,)
        moved = CALL[self.op](variable, gradient, *slots, *numbers, **self.settings)
        if not slots:
            variable.assign(moved)
            return
        for one, value in zip((variable, *slots), moved, strict=True):
            one.assign(value)

    def minimize(self, loss: Callable[[], Any], variables: Sequence[Variable] | None = None) -> Any:
        """Takes a step against the gradient of a loss, and gives the loss.

        Args:
            loss: a function without arguments; one of several elements stands for its sum.
            variables: what to move; if None, every trainable variable that `loss` reads.

        >>> v = pb.Variable(3.0)
        >>> optimizer = pb.optimizers.SGD(0.1)
        >>> float(optimizer.minimize(lambda: v * v)), round(float(v), 4), optimizer.step
        (9.0, 2.4, 1)

        Raises:
            InputTypeError: for a loss that is no function.
            InputValueError: when the loss depends on no variable.
        """
        if not callable(loss):
            raise errors.InputTypeError(
                f"minimize takes a function that computes the loss, got {type(loss).__name__}; "
                f"write optimizer.minimize(lambda: ...)"
            )
        with GradientTape() as tape:
            if variables is not None:
                tape.watch(list(variables))
            value = loss()
        moved = list(tape.watched_variables() if variables is None else variables)
        self.apply_gradients(zip(tape.gradient(value, moved), moved, strict=True))
        return value

    def _rate(self) -> Any:
        rate = self.learning_rate
        if isinstance(rate, Variable):
            return rate.value
        return _positive(rate(self._step) if callable(rate) else rate)

    # Slots ---------------------------------------------------------------------------------------

    def slot(self, variable: Variable, name: str) -> Variable:
        """One slot of a variable, made if need be."""
        slots = self._slots.of(variable)
        found = slots.get(name)
        if found is None:
            dtype = dtypes.promote_types(variable.dtype, dtypes.float32)
            zeros = CALL["full"](variable.shape, 0, dtype=dtype, device=variable.device)
            found = slots[name] = Variable(zeros, name=name, trainable=False)
        return found

    def slot_variables(self) -> Iterable[tuple[Variable, str, Variable]]:
        """Each slot there is: the variable it is for, its name, and the slot."""
        return iter(self._slots)

    def restore_slot(self, variable: Variable, name: str, value: np.ndarray[Any, Any]) -> None:
        """Sets a slot to what has been saved.

        Raises:
            CheckpointError: when the optimizer has no such slot, or it has another shape.
        """
        if name not in self.slot_names:
            kept = ", ".join(self.slot_names) or "none"
            raise errors.CheckpointError(
                f"the checkpoint has the slot {name!r}, and {type(self).__name__} keeps {kept}; "
                f"restore into the optimizer that was saved"
            )
        try:
            self.slot(variable, name).assign(value)
        except errors.ShapeError as error:
            raise errors.CheckpointError(f"the slot {name!r} does not fit: {error}") from None

    def checkpoint_state(self) -> Mapping[str, Any]:
        """The number of steps taken."""
        return {"step": self._step}

    def restore_state(self, saved: Mapping[str, Any]) -> None:
        """Takes over what `checkpoint_state` gave."""
        self._step = int(saved["step"])

    def __repr__(self) -> str:
        return f"<{type(self).__name__}, {self._step} steps>"


def _positive(rate: Any) -> float:
    number = float(rate)
    if not 0 <= number < float("inf"):
        raise errors.InputValueError(f"a learning rate is 0 or more, got {number}")
    return number


def _checked(pairs: Iterable[tuple[Any, Variable]]) -> list[tuple[Tensor, Variable]]:
    found: list[tuple[Tensor, Variable]] = []
    seen: set[int] = set()
    without = 0
    for gradient, variable in pairs:
        if not isinstance(variable, Variable):
            raise errors.InputTypeError(
                f"apply_gradients takes (gradient, variable) pairs, got "
                f"{type(variable).__name__} for a variable"
            )
        if gradient is None:
            without += 1
            continue
        if id(variable) in seen:
            raise errors.InputValueError(f"{variable!r} is in two pairs; add its gradients first")
        seen.add(id(variable))
        tensor = from_any(gradient, None, variable.device)
        if tensor.shape != variable.shape:
            raise errors.ShapeError(
                f"the gradient of {variable.name or 'a variable'} has shape {tensor.shape}, and "
                f"the variable {variable.shape}"
            )
        found.append((tensor, variable))
    if not found:
        raise errors.InputValueError(
            f"none of {without} variables has a gradient; compute the loss from them "
            f"inside `with tape:`"
            if without
            else "there are no variables to move; does the loss read any that are trainable?"
        )
    return found
