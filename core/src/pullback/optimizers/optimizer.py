"""`Optimizer`: what all of them share; an algorithm is an op and the names of its slots."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from pullback import dtypes, errors
from pullback._autodiff.tape import GradientTape
from pullback._dispatch.convert import from_any
from pullback._dispatch.recording import paused
from pullback.ops.arithmetic import clip
from pullback.ops.creation import full
from pullback.ops.optim.clipping import clip_by_global_norm, clip_by_norm
from pullback.ops.optim.optimizer_updates import sgd_update
from pullback.optimizers.slots import Exclusions, ExclusionsLike, Numbers, Slots
from pullback.spec import OPS
from pullback.state import objects
from pullback.state.serialization import Configurable
from pullback.tensor import Tensor
from pullback.variable import Variable

__all__ = ["LearningRate", "Optimizer"]

#: A number, a variable, or a schedule: a function of the number of steps taken.
LearningRate: TypeAlias = "float | Variable | Callable[[int], Any]"
Pairs: TypeAlias = "list[tuple[Tensor, Variable]]"

#: Slots that any optimizer may have.
AVERAGE, GATHERED = "average", "gathered"


class Optimizer(Configurable):
    """The base of every optimizer. A subclass names the op that makes a step, and its slots.

    Slots are zeros at first, in at least float32. They belong to the variable object, and in a
    checkpoint to its path: give the model to the same checkpoint.

    Gradients are gathered, then clipped; then weights decay, and then the op moves them.

    Args:
        learning_rate: a number, a variable, or a function of the number of steps taken.
        settings: the attributes of the op.
        clip_value: cuts every element of a gradient to [-clip_value, clip_value].
        clip_norm: scales each gradient down to this norm, where it has a larger one.
        clip_global_norm: the same for all gradients together (Pascanu et al., 2013).
        decoupled_weight_decay: the share of a variable, times the learning rate, that is taken off
            apart from the gradient (Loshchilov and Hutter, 2019), whatever the algorithm.
        no_decay: variables that no weight decay is for, or a function that says so of a variable:
            `lambda v: v.ndim < 2` for biases and scales.
        average: what is left each step of an average of the weights (Polyak and Juditsky, 1992);
            `averaged()` puts it in their place. None for no average.
        gather: the number of calls whose gradients are averaged and make one step.

    Raises:
        InputValueError: for a learning rate that is negative or no number, several ways to clip,
            an average outside [0, 1), or less than one call for a step.
    """

    #: The op: (parameter, gradient, *slots, learning_rate, step if it takes it, **settings).
    op: str
    #: The names of the slots, in the order in which the op takes and gives them.
    slot_names: Sequence[str] = ()
    #: Whether the op takes the number of the step, from 1.
    takes_step: bool = False

    def __init__(
        self,
        learning_rate: LearningRate,
        settings: Mapping[str, Any] | None = None,
        *,
        clip_value: float | None = None,
        clip_norm: float | None = None,
        clip_global_norm: float | None = None,
        decoupled_weight_decay: float = 0.0,
        no_decay: ExclusionsLike = None,
        average: float | None = None,
        gather: int = 1,
    ) -> None:
        self.learning_rate = learning_rate
        self.settings = dict(settings or {})
        self.clip_value = clip_value
        self.clip_norm = clip_norm
        self.clip_global_norm = clip_global_norm
        self.decoupled_weight_decay = decoupled_weight_decay
        self.average = average
        self.gather = int(gather)
        self._no_decay = Exclusions(no_decay)
        self._step = 0
        self._gathered = 0
        self._slots = Slots()
        self._numbers = Numbers()
        #: Slots that a checkpoint has given, until its step is restored, or one is taken.
        self._restored: set[tuple[int, str]] = set()
        if not isinstance(learning_rate, Variable) and not callable(learning_rate):
            _positive(learning_rate)
        clips = [one for one in (clip_value, clip_norm, clip_global_norm) if one is not None]
        if len(clips) > 1 or any(not one > 0 for one in clips):
            raise errors.InputValueError(
                "give one of clip_value, clip_norm and clip_global_norm, a number above 0"
            )
        if average is not None and not 0 <= average < 1:
            raise errors.InputValueError(f"average is in [0, 1), got {average}")
        if self.gather < 1:
            raise errors.InputValueError(f"a step needs one call or more, got gather={gather}")

    def constructor_arguments(self) -> dict[str, Any]:
        """The arguments of the constructor by name, with the learning rate of now."""
        return super().constructor_arguments() | {"learning_rate": self.learning_rate}

    @property
    def step(self) -> int:
        """The number of steps taken."""
        return self._step

    # Steps ---------------------------------------------------------------------------------------

    def apply_gradients(self, pairs: Iterable[tuple[Any, Variable]]) -> None:
        """Takes one step: moves each variable against its gradient.

        Args:
            pairs: (gradient, variable) pairs, as from `pb.implicit_gradients` or
                `zip(gradients, variables)`. Pairs without a gradient (None) are left out.

        Raises:
            InputValueError: when no pair has a gradient, or one variable is in two.
            ShapeError: when a gradient has another shape than its variable.
            InputTypeError: for what is no variable. Nothing has been changed in any of these cases.
        """
        if objects.PENDING_RESTORES:
            objects.restore_pending()
        checked = _checked(pairs)
        self._restored.clear()
        with paused():
            if self.gather > 1:
                checked = self._gather(checked)
                if not checked:
                    return
            checked = self._clipped(checked)
            rate = self._rate()
            step = self._step + 1
            for gradient, variable in checked:
                if self.average is not None:
                    self._begin_average(variable)
                if self.decoupled_weight_decay and variable not in self._no_decay:
                    share = rate * self.decoupled_weight_decay
                    variable.assign(sgd_update(variable, variable, share))
                self.update(variable, gradient, rate, step)
            if self.average is not None:
                self._move_averages(self.average)
        self._step = step

    def update(self, variable: Variable, gradient: Tensor, rate: Any, step: int) -> None:
        """Moves one variable; a subclass with more in mind than an op writes this."""
        kept = self._slots.of(variable)
        slots = [
            kept[name] if name in kept else self.slot(variable, name) for name in self.slot_names
        ]
        numbers = self._numbers.tensors((rate, step) if self.takes_step else (rate,), variable)
        self._slots.update_of(variable)(
            OPS[self.op], (variable, *slots), gradient, numbers, self.settings_for(variable)
        )

    def settings_for(self, variable: Variable) -> Mapping[str, Any]:
        """The attributes of the op for a variable: without weight decay where it is not for it."""
        if self.settings.get("weight_decay") and variable in self._no_decay:
            return {**self.settings, "weight_decay": 0.0}
        return self.settings

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
            target = self.scaled(value)
        moved = list(tape.watched_variables() if variables is None else variables)
        self.apply_gradients(zip(tape.gradient(target, moved), moved, strict=True))
        return value

    def scaled(self, loss: Any) -> Any:
        """What `apply_gradients` takes the gradients of: the loss, if not told otherwise."""
        return loss

    def _rate(self) -> Any:
        rate = self.learning_rate
        if isinstance(rate, Variable):
            return rate.value
        return _positive(rate(self._step) if callable(rate) else rate)

    def _clipped(self, pairs: Pairs) -> Pairs:
        if self.clip_global_norm is self.clip_norm is self.clip_value is None:
            return pairs
        gradients = [gradient for gradient, _ in pairs]
        if self.clip_global_norm is not None:
            found: Sequence[Any] = clip_by_global_norm(gradients, self.clip_global_norm)[0]
        elif self.clip_norm is not None:
            found = [clip_by_norm(g, max_norm=self.clip_norm) for g in gradients]
        else:
            assert self.clip_value is not None
            found = [clip(g, -self.clip_value, self.clip_value) for g in gradients]
        return [(one, variable) for one, (_, variable) in zip(found, pairs, strict=True)]

    def _gather(self, pairs: Pairs) -> Pairs:
        """Adds gradients up; every so many calls, their means."""
        for gradient, variable in pairs:
            total = self.slot(variable, GATHERED)
            total.assign_add(gradient.astype(total.dtype))
        self._gathered = (self._gathered + 1) % self.gather
        if self._gathered:
            return []
        means = [
            (total.value / self.gather, variable) for variable, total in self._slots.named(GATHERED)
        ]
        self._slots.drop(GATHERED)
        return means

    # The average of the weights ------------------------------------------------------------------

    def _begin_average(self, variable: Variable) -> None:
        if AVERAGE not in self._slots.of(variable):
            slot = self.slot(variable, AVERAGE)
            slot.assign(variable.value.astype(slot.dtype))

    def _move_averages(self, left: float) -> None:
        for variable, slot in self._slots.named(AVERAGE):
            slot.assign_add((variable.value.astype(slot.dtype) - slot) * (1 - left))

    @contextlib.contextmanager
    def averaged(self) -> Iterator[None]:
        """The variables have their averages inside, and their own values again after it.

        >>> v = pb.Variable(0.0)
        >>> optimizer = pb.optimizers.SGD(1.0, average=0.5)
        >>> optimizer.apply_gradients([(pb.asarray(-1.0), v)])
        >>> with optimizer.averaged():
        ...     print(float(v))
        0.5
        >>> float(v)
        1.0

        Raises:
            InputValueError: for an optimizer that keeps no average.
        """
        if self.average is None:
            raise errors.InputValueError(
                f"{type(self).__name__} keeps no average of the weights; make it with average=0.999"
            )
        before = [(variable, variable.value) for variable, _ in self._slots.named(AVERAGE)]
        try:
            for variable, slot in self._slots.named(AVERAGE):
                variable.assign(slot.value.astype(variable.dtype))
            yield
        finally:
            for variable, value in before:
                variable.assign(value)

    # Slots ---------------------------------------------------------------------------------------

    def slot(self, variable: Variable, name: str) -> Variable:
        """One slot of a variable, made if need be."""
        slots = self._slots.of(variable)
        found = slots.get(name)
        if found is None:
            dtype = dtypes.promote_types(variable.dtype, dtypes.float32)
            shape = self.slot_shape(variable, name)
            zeros = full(shape, 0, dtype=dtype, device=variable.device)
            found = slots[name] = Variable(zeros, name=name, trainable=False)
            if name in self.slot_names:
                self._slots.update_of(variable).forget()
        return found

    def slot_shape(self, variable: Variable, name: str) -> Sequence[int]:
        """The shape of a slot: that of the variable, where a subclass does not say otherwise."""
        return variable.shape

    def slot_variables(self) -> Iterable[tuple[Variable, str, Variable]]:
        """Each slot there is: the variable it is for, its name, and the slot."""
        return iter(self._slots)

    def restore_slot(self, variable: Variable, name: str, value: np.ndarray[Any, Any]) -> None:
        """Sets a slot to what has been saved.

        Raises:
            CheckpointError: when the optimizer has no such slot, or it has another shape.
        """
        kept = [*self.slot_names]
        kept += [AVERAGE] if self.average is not None else []
        kept += [GATHERED] if self.gather > 1 else []
        if name not in kept:
            raise errors.CheckpointError(
                f"the checkpoint has the slot {name!r}, and {type(self).__name__} keeps "
                f"{', '.join(kept) or 'none'}; restore into the optimizer that was saved"
            )
        try:
            self.slot(variable, name).assign(value)
            self._restored.add((id(variable), name))
        except errors.ShapeError as error:
            raise errors.CheckpointError(f"the slot {name!r} does not fit: {error}") from None

    def checkpoint_state(self) -> Mapping[str, Any]:
        """The number of steps taken, and of calls whose gradients wait to be one."""
        return {"step": self._step, **({"gathered": self._gathered} if self.gather > 1 else {})}

    def restore_state(self, saved: Mapping[str, Any]) -> None:
        """Takes over what `checkpoint_state` gave."""
        self._step = int(saved["step"])
        self._gathered = int(saved.get("gathered", 0)) % self.gather
        # What the optimizer has come to keep since then is not to be seen.
        self._slots.keep(self._restored)
        self._restored.clear()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}, {self.step} steps>"


def share(name: str, value: float) -> float:
    """A number that is in [0, 1)."""
    if not 0 <= value < 1:
        raise errors.InputValueError(f"{name} is in [0, 1), got {value}")
    return value


def _positive(rate: Any) -> float:
    if isinstance(rate, (str, bytes)) or not hasattr(rate, "__float__"):
        raise errors.InputTypeError(
            f"a learning rate is a number, a variable or a function of the step, got "
            f"{type(rate).__name__}; variables are given to apply_gradients and minimize"
        )
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
        device = variable._device
        if type(gradient) is Tensor and gradient._device is device:
            tensor = gradient
        else:
            tensor = from_any(gradient, None, device)
        if tensor._array.shape != variable._array.shape:
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
