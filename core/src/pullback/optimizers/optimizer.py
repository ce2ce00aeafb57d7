"""`Optimizer`: the base of all optimizers; an algorithm is an op and the names of its slots."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import NoneType
from typing import Any, Protocol, SupportsFloat, TypeAlias, TypedDict

import numpy as np

from pullback import dtypes, errors
from pullback._autodiff.tape import GradientTape
from pullback._dispatch.arguments import as_float, as_list, as_str
from pullback._dispatch.host_state import HostState
from pullback._dispatch.recording import (
    LOCAL,
    RECORDING,
    announce,
    capturing,
    computed,
    decided,
    paused,
    unfollowed,
)
from pullback._symbols import TRACES
from pullback.graph.eval_shape import has_shapes_alone
from pullback.ops.arithmetic import clip
from pullback.ops.creation import full
from pullback.ops.optim.clipping import clip_by_global_norm, clip_by_norm
from pullback.ops.optim.optimizer_updates import sgd_update
from pullback.optimizers.checks import Pairs, checked_fraction, checked_pairs, checked_rate
from pullback.optimizers.parts import from_parts, real_parts
from pullback.optimizers.slots import (
    ACCUMULATED,
    PerVariable,
    PerVariableLike,
    Scalar,
    Slots,
    StepScalars,
    WeightDecayMask,
    WeightDecayMaskLike,
)
from pullback.shapes import as_int
from pullback.spec import OPS
from pullback.state import objects
from pullback.state.serialization import Configurable
from pullback.tensor import Tensor, TensorLike
from pullback.variable import Variable, note_assigned

__all__ = ["LearningRate", "Optimizer", "OptimizerOptions"]

#: A number, a variable, or a schedule: a function of the number of steps taken.
LearningRate: TypeAlias = "float | Variable | Callable[[int], SupportsFloat]"

#: A slot that any optimizer may have: the moving average. Another one is the sum of gradients.
EMA = "ema"


class OptimizerOptions(TypedDict, total=False):
    """The keyword arguments of every optimizer; `Optimizer` describes them."""

    clip_value: float | None
    clip_norm: float | None
    clip_global_norm: float | None
    decoupled_weight_decay: float
    no_decay: WeightDecayMaskLike
    rate_scale: PerVariableLike | None
    decay_scale: PerVariableLike | None
    ema_decay: float | None
    accumulate_steps: int


class Optimizer(Configurable):
    """The base of every optimizer. A subclass names the op of a step, and its slots.

    Slots start as zeros, in at least float32. They belong to a variable, and in a checkpoint to
    its path: add the model to the same checkpoint.

    A step accumulates gradients, clips them, applies decoupled weight decay, and calls the op.

    Args:
        learning_rate: a number, a variable, or a function of the number of steps taken.
        settings: the attributes of the op.
        clip_value: clips every element of a gradient to [-clip_value, clip_value].
        clip_norm: scales each gradient with a larger norm down to this norm.
        clip_global_norm: the same for all gradients together (Pascanu et al., 2013).
        decoupled_weight_decay: the fraction of a variable, times the learning rate, that is
            subtracted apart from the gradient (Loshchilov and Hutter, 2019), for any algorithm.
        no_decay: the variables that are excluded from weight decay, or a function that returns
            True for them: `lambda v: v.ndim < 2` for biases and scales.
        rate_scale: the factors of the learning rates of single variables: a dict of variables, or
            a function of one; 1 for those that are not in the dict.
        decay_scale: the factors of weight decay of single variables, in the same way.
        ema_decay: the decay rate of an exponential moving average of the weights (Polyak and
            Juditsky, 1992), which `averaged()` puts in their place; None for no average.
        accumulate_steps: the number of calls whose gradients are averaged for one step.

    Raises:
        InputValueError: for a negative or non-finite learning rate, several ways to clip,
            ema_decay outside [0, 1), or accumulate_steps below 1.
    """

    #: The name of the op, in `pullback.ops.optim`. It is called as
    #: op(parameter, gradient, *slots, learning_rate, step if `takes_step`, **settings).
    op: str
    #: The names of the slots, in the order in which the op takes and returns them.
    slot_names: Sequence[str] = ()
    #: Whether the op takes the number of the step, counted from 1.
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
        no_decay: WeightDecayMaskLike = None,
        rate_scale: PerVariableLike | None = None,
        decay_scale: PerVariableLike | None = None,
        ema_decay: float | None = None,
        accumulate_steps: int = 1,
    ) -> None:
        self._learning_rate: HostState | Variable | Callable[[int], SupportsFloat]
        if not isinstance(settings, (Mapping, NoneType)):
            raise errors.InputTypeError(f"settings must be a dict, got {type(settings).__name__}")
        self.settings = dict(settings or {})
        self.clip_value = clip_value
        self.clip_norm = clip_norm
        self.clip_global_norm = clip_global_norm
        self.decoupled_weight_decay = decoupled_weight_decay
        self.ema_decay = ema_decay
        self.accumulate_steps = as_int(accumulate_steps, "an integer for accumulate_steps")
        self._no_decay = WeightDecayMask(no_decay)
        self._rate_scale = None if rate_scale is None else PerVariable(rate_scale)
        self._decay_scale = None if decay_scale is None else PerVariable(decay_scale)
        self._step = HostState(0, f"the step of {type(self).__name__}", beside_variables=True)
        self._accumulated = HostState(0, "the number of gradients in a sum", beside_variables=True)
        self._slots = Slots()
        self._scalars = StepScalars()
        #: Slots restored from a checkpoint, until its step is restored, or a step is taken.
        self._restored: set[tuple[int, str]] = set()
        self._set_rate(learning_rate)
        limits = {
            "clip_value": clip_value, "clip_norm": clip_norm, "clip_global_norm": clip_global_norm
        }  # fmt: skip
        clips = [as_float(limit, name) for name, limit in limits.items() if limit is not None]
        if len(clips) > 1 or any(not limit > 0 for limit in clips):
            raise errors.InputValueError(
                "set only one of clip_value, clip_norm and clip_global_norm, to a number above 0"
            )
        if ema_decay is not None:
            checked_fraction("ema_decay", ema_decay)
        if self.accumulate_steps < 1:
            raise errors.InputValueError(
                f"accumulate_steps must be 1 or more, got accumulate_steps={accumulate_steps}"
            )

    def constructor_arguments(self) -> dict[str, Any]:
        """The arguments of the constructor by name, with the current learning rate."""
        return super().constructor_arguments() | {"learning_rate": self._given_rate()}

    @property
    def learning_rate(self) -> Any:
        """The learning rate of the next step; under a `schedule` its value at this step.

        Set it to a number, a variable or a function of the step. It is a number, or the variable
        that it was set to.

        >>> optimizer = pb.optimizers.SGD(lambda step: 0.1 / (1 + step))
        >>> optimizer.learning_rate, optimizer.schedule(4)
        (0.1, 0.02)
        """
        return self._given_rate() if self.schedule is None else self._rate()

    @learning_rate.setter
    def learning_rate(self, rate: LearningRate) -> None:
        self._set_rate(rate)

    def _set_rate(self, rate: LearningRate) -> None:
        if isinstance(rate, Variable) or callable(rate):
            self._learning_rate = rate
            return
        number = vars(self).get("_learning_rate")
        if type(number) is HostState:
            number.set(checked_rate(rate))
        else:
            self._learning_rate = HostState(checked_rate(rate), "the learning rate")

    def _given_rate(self) -> LearningRate:
        """The number, variable or schedule that was set."""
        rate = self._learning_rate
        if isinstance(rate, HostState):
            number: float = rate.get()
            return number
        return rate

    @property
    def schedule(self) -> Callable[[int], SupportsFloat] | None:
        """The function of the step that gives the learning rate; None if there is none."""
        rate = self._learning_rate
        return None if isinstance(rate, (HostState, Variable)) else rate

    @property
    def variables(self) -> list[Variable]:
        """The slots of all variables; `slot_variables` says whose they are."""
        return objects.VariableList(slot for _, _, slot in self.slot_variables())

    @property
    def step(self) -> int:
        """The number of steps taken."""
        number: int = self._step.get()
        return number

    # Steps ---------------------------------------------------------------------------------------

    def apply_gradients(self, pairs: Iterable[tuple[TensorLike | None, Variable]]) -> None:
        """Takes one step: moves each variable against its gradient.

        Args:
            pairs: (gradient, variable) pairs, as from `pb.implicit_gradients` or
                `zip(gradients, variables)`. Pairs without a gradient (None) are skipped.

        Raises:
            InputValueError: when no pair has a gradient, or a variable is in two pairs.
            ShapeError: when a gradient has another shape than its variable.
            InputTypeError: for a value that is not a variable. No error changes anything.
        """
        if objects.PENDING_RESTORES:
            objects.restore_pending()
        checked = checked_pairs(pairs)
        self._restored.clear()
        if TRACES.count:
            if LOCAL.state.follower is not None and self._runs_alone(checked):
                with unfollowed():
                    self.apply_gradients(checked)
                return
            announce(self, self.update, settings=steering)
        if RECORDING.count:
            for gradient, variable in checked:
                note_assigned(variable, gradient)
        with paused():
            if self.accumulate_steps > 1:
                checked = accumulate(self, self._slots, checked)
                if not checked:
                    return
            checked = self._clipped(checked)
            rate, scales = self._rate(), self._rate_scale
            step = self._step.get() + 1
            for gradient, variable in checked:
                if self.ema_decay is not None:
                    self._begin_average(variable)
                own = rate if scales is None else rate * scales(variable)
                if self.decoupled_weight_decay:
                    self._decay(variable, own)
                self.update(variable, gradient, own, step)
            if self.ema_decay is not None:
                self._move_averages(self.ema_decay)
            device = variable._device
            device.backend.flush(device.native)
        if TRACES.count:
            self._scalars.forget()
        self._step.set(step)

    def _runs_alone(self, pairs: Pairs) -> bool:
        """Returns whether a step runs no function of the user's, such as a schedule."""
        kinds = {type(self), *(type(variable) for _, variable in pairs)}
        functions = [self._no_decay.decide, *vars(self).values()]
        return not any(map(callable, functions)) and all(
            kind.__module__.startswith("pullback.") for kind in kinds
        )

    def update(self, variable: Variable, gradient: Tensor, rate: Scalar, step: int) -> None:
        """Moves one variable by the op; override it for an algorithm that is more than an op."""
        existing = self._slots.of(variable)
        slots = [
            existing[name] if name in existing else self.slot(variable, name)
            for name in self.slot_names
        ]
        scalars = self._scalars.tensors((rate, step) if self.takes_step else (rate,), variable)
        self._slots.update_of(variable)(
            OPS[self.op], (variable, *slots), gradient, scalars, self.settings_for(variable)
        )

    def settings_for(self, variable: Variable) -> Mapping[str, Any]:
        """The attributes of the op for a variable, with its own weight decay."""
        decay = self.settings.get("weight_decay")
        if decay:
            scale = self._decay_factor(variable)
            if scale != 1:
                return {**self.settings, "weight_decay": decay * scale}
        return self.settings

    def _decay_factor(self, variable: Variable) -> float:
        if variable in self._no_decay:
            return 0.0
        return 1.0 if self._decay_scale is None else self._decay_scale(variable)

    def _decay(self, variable: Variable, rate: Scalar) -> None:
        """Subtracts a fraction of a variable from it."""
        fraction = rate * self.decoupled_weight_decay * self._decay_factor(variable)
        if dtypes.is_complex(variable.dtype):
            variable.assign(variable - variable * fraction)
        else:
            variable.assign(sgd_update(variable, variable, fraction))

    def minimize(
        self, loss: Callable[[], Tensor], variables: Sequence[Variable] | None = None
    ) -> Tensor:
        """Takes a step against the gradient of a loss, and returns the loss.

        Args:
            loss: a function without arguments; several elements stand for their sum.
            variables: the variables to move; if None, every trainable one that `loss` reads.

        >>> v = pb.Variable(3.0)
        >>> optimizer = pb.optimizers.SGD(0.1)
        >>> float(optimizer.minimize(lambda: v * v)), round(float(v), 4), optimizer.step
        (9.0, 2.4, 1)

        Raises:
            InputTypeError: for a loss that is not a function.
            InputValueError: when the loss depends on no variable.
        """
        if not callable(loss):
            raise errors.InputTypeError(
                f"loss must be a function that computes the loss, got {type(loss).__name__}; "
                f"write optimizer.minimize(lambda: ...)"
            )
        watched = () if variables is None else as_list(variables, "variables", "variables")
        with GradientTape() as tape:
            if variables is not None:
                tape.watch(watched)
            value = loss()
            target = self.scaled(value)
        moved = list(tape.watched_variables() if variables is None else variables)
        self.apply_gradients(zip(tape.gradient(target, moved), moved, strict=True))
        return value

    def scaled(self, loss: Tensor) -> Tensor:
        """Returns the loss whose gradients `apply_gradients` takes; `LossScale` scales it."""
        return loss

    def _rate(self) -> Scalar:
        rate = self._learning_rate
        if isinstance(rate, Variable):
            return rate.value
        if isinstance(rate, HostState):
            number: float = rate.get()
            return number
        scheduled: float = computed(self._scheduled, self._step.get())
        return scheduled

    def _scheduled(self, step: int) -> float:
        """The learning rate of the step after `step` steps; of a captured step at each call."""
        rate: Any = self._learning_rate
        return checked_rate(rate(step))

    def _clipped(self, pairs: Pairs) -> Pairs:
        if self.clip_global_norm is self.clip_norm is self.clip_value is None:
            return pairs
        gradients = real_parts([gradient for gradient, _ in pairs])
        clipped: Sequence[Tensor | None]
        if self.clip_global_norm is not None:
            clipped = clip_by_global_norm(gradients, self.clip_global_norm)[0]
        elif self.clip_norm is not None:
            clipped = [clip_by_norm(g, max_norm=self.clip_norm) for g in gradients]
        else:
            assert self.clip_value is not None
            clipped = [clip(g, -self.clip_value, self.clip_value) for g in gradients]
        variables = [variable for _, variable in pairs]
        return [
            (from_parts(g) if dtypes.is_complex(v.dtype) else g, v)
            for g, v in zip(clipped, variables, strict=True)
            if g is not None
        ]

    # The moving average of the weights -----------------------------------------------------------

    def _begin_average(self, variable: Variable) -> None:
        if EMA not in self._slots.of(variable):
            slot = self.slot(variable, EMA)
            slot.assign(variable.value.astype(slot.dtype))

    def _move_averages(self, decay: float) -> None:
        for variable, slot in self._slots.named(EMA):
            slot.assign_add((variable.value.astype(slot.dtype) - slot) * (1 - decay))

    @contextlib.contextmanager
    def averaged(self) -> Iterator[None]:
        """Sets the variables to their moving averages inside the `with` block.

        >>> v = pb.Variable(0.0)
        >>> optimizer = pb.optimizers.SGD(1.0, ema_decay=0.5)
        >>> optimizer.apply_gradients([(pb.asarray(-1.0), v)])
        >>> with optimizer.averaged():
        ...     print(float(v))
        0.5
        >>> float(v)
        1.0

        Raises:
            InputValueError: for an optimizer that keeps no average.
        """
        if self.ema_decay is None:
            raise errors.InputValueError(
                f"{type(self).__name__} keeps no average of the weights; "
                f"make it with ema_decay=0.999"
            )
        before = [(variable, variable.value) for variable, _ in self._slots.named(EMA)]
        try:
            for variable, slot in self._slots.named(EMA):
                variable.assign(slot.value.astype(variable.dtype))
            yield
        finally:
            for variable, value in before:
                variable.assign(value)

    def make_slots(self, variables: Iterable[Variable]) -> None:
        """Makes the slots of variables that have none, before the first step.

        A step that is captured has them all, even where the calls before it were skipped, or only
        added to a sum.
        """
        for variable in variables:
            for name in (*self.slot_names, *[ACCUMULATED] * (self.accumulate_steps > 1)):
                self.slot(variable, name)
            if self.ema_decay is not None:
                self._begin_average(variable)

    # Slots ---------------------------------------------------------------------------------------

    def slot(self, variable: Variable, name: str) -> Variable:
        """Returns a slot of a variable; makes it at the first call.

        Raises:
            InputTypeError: for what is not a variable, and for a name that is not a str.
        """
        slots = self._slots.of(variable)
        slot = slots.get(as_str(name, "name"))
        if slot is None:
            dtype = dtypes.promote_types(variable.dtype, dtypes.float32)
            shape = self.slot_shape(variable, name)
            if dtypes.is_complex(dtype) and name in self.slot_names:
                # The two parts are parameters of their own.
                dtype = dtypes.real_of(dtype)
                shape = (*shape, 2) if shape == variable.shape else shape
            capture = capturing()
            with variable.device if capture is None else capture.building(variable.device):
                zeros = full(shape, 0, dtype=dtype, device=variable.device)
                slot = Variable(zeros, name=name, trainable=False)
            if has_shapes_alone():
                return slot  # the step is not taken
            slots[name] = slot
            self._slots.version += 1
            if name in self.slot_names:
                self._slots.update_of(variable).forget()
        return slot

    def slot_shape(self, variable: Variable, name: str) -> Sequence[int]:
        """The shape of a slot: that of the variable, unless a subclass overrides this."""
        return variable.shape

    def slot_variables(self) -> Iterable[tuple[Variable, str, Variable]]:
        """Every slot, as (variable, name of the slot, slot)."""
        return iter(self._slots)

    def restore_slot(self, variable: Variable, name: str, value: np.ndarray[Any, Any]) -> None:
        """Sets a slot to a saved value.

        Raises:
            CheckpointError: when the optimizer has no such slot, or one of another shape.
        """
        names = [*self.slot_names]
        names += [EMA] if self.ema_decay is not None else []
        names += [ACCUMULATED] if self.accumulate_steps > 1 else []
        if name not in names:
            raise errors.CheckpointError(
                f"the checkpoint has the slot {name!r}, and {type(self).__name__} keeps "
                f"{', '.join(names) or 'none'}; restore into the optimizer that was saved"
            )
        try:
            self.slot(variable, name).assign(value)
            if name == ACCUMULATED:
                self._slots.begin_sum(variable)
            self._restored.add((id(variable), name))
        except errors.ShapeError as error:
            raise errors.CheckpointError(f"the slot {name!r} does not fit: {error}") from None

    def checkpoint_state(self) -> Mapping[str, Any]:
        """The number of steps taken, and of calls whose gradients are accumulated for the next."""
        accumulated = {"accumulated": self._accumulated.get()} if self.accumulate_steps > 1 else {}
        return {"step": self._step.get(), **accumulated}

    def restore_state(self, saved: Mapping[str, Any]) -> None:
        """Restores the result of `checkpoint_state`."""
        self._step.set(int(saved["step"]))
        self._accumulated.set(int(saved.get("accumulated", 0)) % self.accumulate_steps)
        # Slots that did not exist at that step are removed.
        self._slots.keep(self._restored)
        self._restored.clear()

    def __repr__(self) -> str:
        schedule = " by a schedule" if self.schedule is not None else ""
        return (
            f"<{type(self).__name__}, learning rate {float(self.learning_rate):.6g}{schedule}, "
            f"{self.step} steps>"
        )


# Sums over several calls --------------------------------------------------------------------------


class _Accumulating(Protocol):
    accumulate_steps: int
    _accumulated: HostState

    def make_slots(self, variables: Iterable[Variable]) -> None: ...
    def slot(self, variable: Variable, name: str) -> Variable: ...


def accumulate(optimizer: _Accumulating, slots: Slots, pairs: Pairs) -> Pairs:
    """Sums gradients; returns their means every `accumulate_steps` calls, else nothing."""
    for gradient, variable in pairs:
        if ACCUMULATED not in slots.of(variable):
            optimizer.make_slots((variable,))
        total = optimizer.slot(variable, ACCUMULATED)
        if not slots.is_summed(variable):
            total.assign(full(total.shape, 0, dtype=total.dtype, device=total.device))
            slots.begin_sum(variable)
        total.assign_add(gradient.astype(total.dtype))
    steps = optimizer.accumulate_steps
    count = optimizer._accumulated.get() + 1
    optimizer._accumulated.set(count % steps)
    if decided(steps.__ne__, count):
        return []
    means = [(total.value / steps, variable) for variable, total in slots.named(ACCUMULATED)]
    slots.end_sums()
    return means


# What a step depends on ---------------------------------------------------------------------------


#: The attributes that decide which ops a step calls.
_STEERING = (
    "accumulate_steps", "clip_value", "clip_norm", "clip_global_norm", "decoupled_weight_decay",
    "ema_decay", "settings", "_learning_rate", "_no_decay", "_rate_scale", "_decay_scale",
)  # fmt: skip


def steering(optimizer: Any) -> Iterator[tuple[Any, ...]]:
    """Yields what decides which ops a step calls, each as a function with its arguments.

    A captured step is made for its values. The learning rate and the number of the step are not
    among it: they are inputs.
    """
    for name in _STEERING:
        yield getattr, optimizer, name
    yield getattr, optimizer._slots, "version"
    yield len, optimizer.settings
    for name in optimizer.settings:
        yield optimizer.settings.get, name
