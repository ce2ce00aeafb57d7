"""Optimizers that adapt the learning rate of each element."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from pullback import dtypes, errors
from pullback._dispatch.arguments import as_bool
from pullback.optimizers.checks import checked_fraction
from pullback.optimizers.optimizer import LearningRate, Optimizer, OptimizerOptions
from pullback.optimizers.slots import Scalar
from pullback.spec import OPS
from pullback.tensor import Tensor
from pullback.variable import Variable

__all__ = ["Adadelta", "Adafactor", "Adagrad", "RMSprop"]


class RMSprop(Optimizer):
    """RMSprop (Hinton, 2012, lecture 6e): divides by the root mean square of gradients.

    A step is the op `rmsprop_update`, or `rmsprop_momentum_update`.

    Args:
        learning_rate: a number, a variable, or a function of the number of steps taken.
        rho: the exponential decay rate of the mean square.
        epsilon: the number added to its root for numerical stability.
        momentum: the decay rate of the sum of past steps.
        centered: whether to divide by the standard deviation of gradients (Graves, 2013).
        weight_decay: the factor of L2 regularization: the gradient gains weight_decay * variable.
        options: see `Optimizer`.

    >>> v = pb.Variable(1.0)
    >>> pb.optimizers.RMSprop(0.1, rho=0.0).apply_gradients([(pb.asarray(10.0), v)])
    >>> print(f"{v:.4f}")
    0.9000

    Raises:
        InputValueError: for a momentum outside [0, 1).
    """

    slot_names: Sequence[str] = ("mean_square",)
    op = "rmsprop_update"

    def __init__(
        self,
        learning_rate: LearningRate = 0.001,
        rho: float = 0.9,
        epsilon: float = 1e-8,
        *,
        momentum: float = 0.0,
        centered: bool = False,
        weight_decay: float = 0.0,
        **options: Unpack[OptimizerOptions],
    ) -> None:
        settings = {"rho": rho, "epsilon": epsilon, "weight_decay": weight_decay}
        if as_bool(centered, "centered") or checked_fraction("momentum", momentum):
            settings |= {"momentum": momentum, "centered": centered}
            self.op = "rmsprop_momentum_update"
            self.slot_names = ("mean_square", "mean", "velocity")
        super().__init__(learning_rate, settings, **options)


class Adagrad(Optimizer):
    """AdaGrad (Duchi et al., 2011): divides by the root of the sum of squared gradients.

    A step is the op `adagrad_update`.

    Args:
        learning_rate: a number, a variable, or a function of the number of steps taken.
        epsilon: the number added to the root for numerical stability.
        weight_decay: the factor of L2 regularization: the gradient gains weight_decay * variable.
        options: see `Optimizer`.

    >>> v = pb.Variable(1.0)
    >>> pb.optimizers.Adagrad(0.1).apply_gradients([(pb.asarray(10.0), v)])
    >>> print(f"{v:.4f}")
    0.9000
    """

    slot_names: Sequence[str] = ("accumulator",)
    op = "adagrad_update"

    def __init__(
        self,
        learning_rate: LearningRate = 0.01,
        epsilon: float = 1e-10,
        *,
        weight_decay: float = 0.0,
        **options: Unpack[OptimizerOptions],
    ) -> None:
        super().__init__(
            learning_rate, {"epsilon": epsilon, "weight_decay": weight_decay}, **options
        )


class Adadelta(Optimizer):
    """Adadelta (Zeiler, 2012): scales steps to the size of recent steps.

    A step is the op `adadelta_update`.

    Args:
        learning_rate: the factor of the steps, 1 in the paper; see `Optimizer`.
        rho: the exponential decay rate of the mean squares.
        epsilon: the number added to both mean squares for numerical stability.
        weight_decay: the factor of L2 regularization: the gradient gains weight_decay * variable.
        options: see `Optimizer`.

    >>> v = pb.Variable(1.0)
    >>> pb.optimizers.Adadelta(rho=0.0, epsilon=1.0).apply_gradients([(pb.asarray(0.0), v)])
    >>> float(v)
    1.0
    """

    slot_names: Sequence[str] = ("mean_square", "mean_change")
    op = "adadelta_update"

    def __init__(
        self,
        learning_rate: LearningRate = 1.0,
        rho: float = 0.95,
        epsilon: float = 1e-6,
        *,
        weight_decay: float = 0.0,
        **options: Unpack[OptimizerOptions],
    ) -> None:
        settings = {"rho": rho, "epsilon": epsilon, "weight_decay": weight_decay}
        super().__init__(learning_rate, settings, **options)


class Adafactor(Optimizer):
    """Adafactor (Shazeer and Stern, 2018): keeps mean squares of rows and columns only.

    For a variable (..., n, m) it keeps n + m numbers instead of n * m. Steps are proportional to
    the variable: the rate is min(learning_rate, 1 / sqrt(step)) times its root mean square. A step
    is the op `adafactor_update`, for vectors `adafactor_vector_update`.

    Args:
        learning_rate: the largest relative size of a step: a number, a variable, or a function of
            the number of steps taken.
        decay_rate: sets the decay rate of the mean squares to 1 - step**-decay_rate.
        epsilon: the number added to squared gradients for numerical stability.
        min_scale: the least root mean square of a variable by which a step is scaled.
        clip_threshold: the largest root mean square of a step before it is scaled.
        options: see `Optimizer`.

    >>> v = pb.Variable([[1.0, 1.0]])
    >>> optimizer = pb.optimizers.Adafactor(0.5)
    >>> optimizer.apply_gradients([(pb.asarray([[2.0, 2.0]]), v)])
    >>> v.numpy().tolist(), [(name, slot.shape) for _, name, slot in optimizer.slot_variables()]
    ([[0.5, 0.5]], [('rows', (1,)), ('columns', (2,))])
    """

    takes_step = True
    #: The first two for variables with two axes or more, the last one for others.
    slot_names: Sequence[str] = ("rows", "columns", "mean_square")

    def __init__(
        self,
        learning_rate: LearningRate = 0.01,
        decay_rate: float = 0.8,
        epsilon: float = 1e-30,
        min_scale: float = 1e-3,
        clip_threshold: float = 1.0,
        **options: Unpack[OptimizerOptions],
    ) -> None:
        settings = {
            "decay": decay_rate,
            "epsilon": epsilon,
            "least": min_scale,
            "threshold": clip_threshold,
        }
        super().__init__(learning_rate, settings, **options)

    def slot_shape(self, variable: Variable, name: str) -> Sequence[int]:
        """The shape of a slot."""
        shape = variable.shape
        return {"rows": shape[:-1], "columns": (*shape[:-2], *shape[-1:])}.get(name, shape)

    def update(self, variable: Variable, gradient: Tensor, rate: Scalar, step: int) -> None:
        """Moves one variable.

        Raises:
            DTypeError: for a complex variable.
        """
        if dtypes.is_complex(variable.dtype):
            raise errors.DTypeError(
                "Adafactor takes real variables, as its factors are of real matrices; use Adam"
            )
        factored = variable.ndim >= 2
        names = self.slot_names[:2] if factored else self.slot_names[2:]
        slots = [self.slot(variable, name) for name in names]
        op = "adafactor_update" if factored else "adafactor_vector_update"
        moved = OPS[op].function(variable, gradient, *slots, rate, step, **self.settings)
        for target, value in zip((variable, *slots), moved, strict=True):
            target.assign(value)
