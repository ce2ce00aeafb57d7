"""`tf.train`: optimizers, checkpoints, learning rates, the global step."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pullback import GradientTape, dtypes, errors, optimizers
from pullback import checkpoint as checkpoints
from pullback.checkpoint import Restoration
from pullback.optimizers import schedules
from pullback.variable import Variable

__all__ = [
    "AdadeltaOptimizer",
    "AdagradOptimizer",
    "AdamOptimizer",
    "Checkpoint",
    "CheckpointManager",
    "GradientDescentOptimizer",
    "MomentumOptimizer",
    "RMSPropOptimizer",
    "cosine_decay",
    "create_global_step",
    "exponential_decay",
    "get_global_step",
    "get_or_create_global_step",
    "inverse_time_decay",
    "latest_checkpoint",
    "natural_exp_decay",
    "piecewise_constant",
    "polynomial_decay",
    "reset_global_step",
]  # fmt: skip

# The global step ---------------------------------------------------------------------------------

_STEPS: list[Variable] = []


def get_or_create_global_step(graph: Any = None) -> Variable:
    """The variable that counts steps: an int64, 0 at first, one for the whole program."""
    if not _STEPS:
        _STEPS.append(Variable(0, name="global_step", trainable=False, dtype=dtypes.int64))
    return _STEPS[0]


create_global_step = get_or_create_global_step


def get_global_step(graph: Any = None) -> Variable | None:
    """The same; None before it has been asked for."""
    return _STEPS[0] if _STEPS else None


def reset_global_step(*_: Any) -> None:
    """Forgets the global step: the next one begins at 0."""
    _STEPS.clear()


# Optimizers --------------------------------------------------------------------------------------

Pairs = Iterable[tuple[Any, Variable]]


class _Optimizer(optimizers.Optimizer):
    """The base of TensorFlow's optimizers: they count up a global step."""

    def apply_gradients(
        self, grads_and_vars: Pairs, global_step: Variable | None = None, name: str | None = None
    ) -> None:
        """Takes a step, and adds 1 to the global step if one is given."""
        super().apply_gradients(grads_and_vars)
        if global_step is not None:
            global_step.assign_add(1)

    def minimize(  # type: ignore[override]
        self,
        loss: Callable[[], Any],
        global_step: Variable | None = None,
        var_list: Sequence[Variable] | None = None,
        *_: Any,
        name: str | None = None,
        **__: Any,
    ) -> Any:
        """Takes a step against the gradient of a loss, and returns the loss."""
        value = super().minimize(loss, var_list)
        if global_step is not None:
            global_step.assign_add(1)
        return value

    def compute_gradients(
        self,
        loss: Callable[[], Any],
        var_list: Sequence[Variable] | None = None,
        *_: Any,
        **__: Any,
    ) -> list[tuple[Any, Variable]]:
        """The gradients of a loss, with their variables: all that it reads, if none are given."""
        with GradientTape() as tape:
            value = loss()
        variables = list(tape.watched_variables() if var_list is None else var_list)
        return list(zip(tape.gradient(value, variables), variables, strict=True))

    def variables(self) -> list[Variable]:  # type: ignore[override]  # a method in TensorFlow
        """Returns the slots of the optimizer."""
        return [slot for _, _, slot in self.slot_variables()]

    def get_slot(self, var: Variable, name: str) -> Variable:
        """Returns a slot of a variable by its name, which is in `slot_names`."""
        return self.slot(var, name)

    def get_slot_names(self) -> list[str]:
        """Returns the names of the slots."""
        return list(self.slot_names)


class GradientDescentOptimizer(_Optimizer, optimizers.SGD):
    """`pb.optimizers.SGD`."""

    def __init__(self, learning_rate: Any, use_locking: bool = False, name: Any = None) -> None:
        super().__init__(rate_of(learning_rate))


class MomentumOptimizer(_Optimizer, optimizers.SGD):
    """`pb.optimizers.SGD` with momentum."""

    def __init__(
        self,
        learning_rate: Any,
        momentum: float,
        use_locking: bool = False,
        name: Any = None,
        use_nesterov: bool = False,
    ) -> None:
        super().__init__(rate_of(learning_rate), momentum, use_nesterov)


class AdamOptimizer(_Optimizer, optimizers.Adam):
    """`pb.optimizers.Adam`."""

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        use_locking: bool = False,
        name: Any = None,
    ) -> None:
        super().__init__(rate_of(learning_rate), beta1, beta2, epsilon)


class AdagradOptimizer(_Optimizer, optimizers.Adagrad):
    """`pb.optimizers.Adagrad`, whose sums begin at 0, as in the paper, whatever is said."""

    def __init__(
        self,
        learning_rate: Any,
        initial_accumulator_value: float = 0.1,
        use_locking: bool = False,
        name: Any = None,
    ) -> None:
        super().__init__(rate_of(learning_rate))


class AdadeltaOptimizer(_Optimizer, optimizers.Adadelta):
    """`pb.optimizers.Adadelta`."""

    def __init__(
        self,
        learning_rate: Any = 0.001,
        rho: float = 0.95,
        epsilon: float = 1e-8,
        use_locking: bool = False,
        name: Any = None,
    ) -> None:
        super().__init__(rate_of(learning_rate), rho, epsilon)


class RMSPropOptimizer(_Optimizer, optimizers.RMSprop):
    """`pb.optimizers.RMSprop`.

    Raises:
        InputTypeError: for a momentum, and for centering.
    """

    def __init__(
        self,
        learning_rate: Any,
        decay: float = 0.9,
        momentum: float = 0.0,
        epsilon: float = 1e-10,
        use_locking: bool = False,
        centered: bool = False,
        name: Any = None,
    ) -> None:
        if momentum or centered:
            raise errors.InputTypeError(
                "RMSPropOptimizer has neither momentum nor centering; leave them out"
            )
        super().__init__(rate_of(learning_rate), decay, epsilon)


# Learning rates ----------------------------------------------------------------------------------


def rate_of(rate: Any) -> Any:
    """A learning rate as optimizers here take it: functions get the number of the step."""
    if not callable(rate) or isinstance(rate, Variable):
        return rate
    return lambda _: rate()


def _decay(schedule: Callable[[int], float], step: Any) -> Callable[[], float]:
    """A schedule of the global step, as a function without arguments."""
    return lambda: schedule(int(step() if callable(step) else step))


def exponential_decay(
    learning_rate: float,
    global_step: Any,
    decay_steps: int,
    decay_rate: float,
    staircase: bool = False,
    name: str | None = None,
) -> Callable[[], float]:
    """learning_rate * decay_rate**(step / decay_steps), for an optimizer to ask each step."""
    make = schedules.step_decay if staircase else schedules.exponential_decay
    return _decay(make(learning_rate, decay_steps, decay_rate), global_step)


def piecewise_constant(
    x: Any, boundaries: Sequence[int], values: Sequence[float], name: str | None = None
) -> Callable[[], float]:
    """The first value up to the first boundary, and so on."""
    # TensorFlow's value changes after the boundary, pullback's at it.
    edges = [int(edge) + 1 for edge in boundaries]
    return _decay(schedules.piecewise_constant(edges, list(values)), x)


def polynomial_decay(
    learning_rate: float,
    global_step: Any,
    decay_steps: int,
    end_learning_rate: float = 0.0001,
    power: float = 1.0,
    cycle: bool = False,
    name: str | None = None,
) -> Callable[[], float]:
    """From one rate to another along a power of the remaining steps."""
    schedule = schedules.polynomial_decay(learning_rate, decay_steps, end_learning_rate, power)
    return _decay(schedule, global_step)


def cosine_decay(
    learning_rate: float,
    global_step: Any,
    decay_steps: int,
    alpha: float = 0.0,
    name: str | None = None,
) -> Callable[[], float]:
    """From a rate to alpha times that, along half a cosine."""
    schedule = schedules.cosine_decay(learning_rate, decay_steps, final=alpha * learning_rate)
    return _decay(schedule, global_step)


def inverse_time_decay(
    learning_rate: float,
    global_step: Any,
    decay_steps: int,
    decay_rate: float,
    staircase: bool = False,
    name: str | None = None,
) -> Callable[[], float]:
    """learning_rate / (1 + decay_rate * step / decay_steps)."""

    def schedule(step: int) -> float:
        decays = step // decay_steps if staircase else step / decay_steps
        return learning_rate / (1 + decay_rate * decays)

    return _decay(schedule, global_step)


def natural_exp_decay(
    learning_rate: float,
    global_step: Any,
    decay_steps: int,
    decay_rate: float,
    staircase: bool = False,
    name: str | None = None,
) -> Callable[[], float]:
    """learning_rate * exp(-decay_rate * step / decay_steps)."""

    def schedule(step: int) -> float:
        decays = step // decay_steps if staircase else step / decay_steps
        return learning_rate * math.exp(-decay_rate * decays)

    return _decay(schedule, global_step)


# Checkpoints -------------------------------------------------------------------------------------


class Status:
    """The result of a restoration, with TensorFlow's methods."""

    def __init__(self, restoration: Restoration) -> None:
        self.restoration = restoration

    def assert_consumed(self) -> Status:
        """Raises CheckpointError unless everything saved has been restored."""
        self.restoration.assert_complete()
        return self

    def assert_existing_objects_matched(self) -> Status:
        """Raises CheckpointError unless everything that there was has been saved."""
        missing = self.restoration.missing
        if missing:
            raise errors.CheckpointError(
                f"{self.restoration.path}: nothing was saved for {', '.join(missing)}; restore a "
                f"checkpoint that was saved from these objects"
            )
        return self

    def initialize_or_restore(self, session: Any = None) -> None:
        """Does nothing: variables have their values."""

    def run_restore_ops(self, session: Any = None) -> None:
        """Does nothing: variables have their values."""


class Checkpoint(checkpoints.Checkpoint):
    """`pb.Checkpoint`; objects that are not in the file stay as they are.

    >>> import tempfile
    >>> import pullback.compat.tensorflow as tf
    >>> x = tf.Variable(10.0)
    >>> checkpoint = tf.train.Checkpoint(x=x)
    >>> path = checkpoint.save(tempfile.mkdtemp() + "/ckpt")
    >>> _ = x.assign(11.0)
    >>> _ = checkpoint.restore(path).assert_consumed()
    >>> x.numpy().item()
    10.0
    """

    def save(
        self,
        file_prefix: str | os.PathLike[str],
        session: Any = None,
        *,
        step: int | None = None,
        sharded: bool = False,
    ) -> str:
        """Saves to the prefix with a number, and returns the path."""
        return super().save(file_prefix, step=step, sharded=sharded)

    def restore(self, save_path: str | os.PathLike[str] | None, *, partial: bool = True) -> Status:  # type: ignore[override]
        """Restores what the file has; does nothing for None."""
        return Status(super().restore(save_path, partial=partial))


def latest_checkpoint(checkpoint_dir: str | os.PathLike[str]) -> str | None:
    """The path of the newest checkpoint in a folder; None without any, and without the folder."""
    return checkpoints.latest_checkpoint(checkpoint_dir) if os.path.isdir(checkpoint_dir) else None


class CheckpointManager(checkpoints.CheckpointManager):
    """`pb.CheckpointManager`, by TensorFlow's names."""

    def __init__(self, checkpoint: Any, directory: str, max_to_keep: int | None = 5) -> None:
        super().__init__(checkpoint, directory, keep=max_to_keep)

    def save(self, checkpoint_number: int | None = None, *, metric: float | None = None) -> str:
        """Saves, and removes the oldest beyond what is kept."""
        return super().save(checkpoint_number, metric=metric)

    @property
    def latest_checkpoint(self) -> str | None:
        """The path of the newest checkpoint."""
        return self.latest
