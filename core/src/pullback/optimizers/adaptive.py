"""Optimizers with a learning rate of its own for each element."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pullback.optimizers.optimizer import LearningRate, Optimizer, share
from pullback.spec import OPS
from pullback.tensor import Tensor
from pullback.variable import Variable

__all__ = ["Adadelta", "Adafactor", "Adagrad", "RMSprop"]


class RMSprop(Optimizer):
    """RMSprop (Hinton, 2012, lecture 6e): divides by the root of the mean square of gradients.

    Args:
        learning_rate: a number, a variable, or a function of the number of steps taken.
        rho: what is left of the mean square each step.
        epsilon: added to its root.
        momentum: what is left of the sum of past steps each step.
        centered: divides by the deviation of gradients from their mean (Graves, 2013).
        weight_decay: how much of a variable its gradient gains (L2 regularization).
        rest: as of `Optimizer`.

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
        **rest: Any,
    ) -> None:
        settings = {"rho": rho, "epsilon": epsilon, "weight_decay": weight_decay}
        if share("momentum", momentum) or centered:
            settings |= {"momentum": momentum, "centered": centered}
            self.op = "rmsprop_momentum_update"
            self.slot_names = ("mean_square", "mean", "velocity")
        super().__init__(learning_rate, settings, **rest)


class Adagrad(Optimizer):
    """AdaGrad (Duchi et al., 2011): divides by the root of the sum of squared gradients.

    Args:
        learning_rate: a number, a variable, or a function of the number of steps taken.
        epsilon: added to the root.
        weight_decay: how much of a variable its gradient gains (L2 regularization).
        rest: as of `Optimizer`.

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
        **rest: Any,
    ) -> None:
        super().__init__(learning_rate, {"epsilon": epsilon, "weight_decay": weight_decay}, **rest)


class Adadelta(Optimizer):
    """Adadelta (Zeiler, 2012): the size of its steps is that of its recent ones.

    Args:
        learning_rate: a factor on the steps; 1 in the paper.
        rho: what is left of the mean squares each step.
        epsilon: added to both of them.
        weight_decay: how much of a variable its gradient gains (L2 regularization).
        rest: as of `Optimizer`.

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
        **rest: Any,
    ) -> None:
        settings = {"rho": rho, "epsilon": epsilon, "weight_decay": weight_decay}
        super().__init__(learning_rate, settings, **rest)


class Adafactor(Optimizer):
    """Adafactor (Shazeer and Stern, 2018): squares of gradients kept by row and column only.

    For a variable (..., n, m) it keeps n + m numbers in the place of n * m. The size of steps
    follows that of the variable: the rate is min(learning_rate, 1 / sqrt(step)) times its root mean
    square.

    Args:
        learning_rate: the largest relative size of a step: a number, a variable, or a function of
            the number of steps taken.
        decay: the means of squares keep 1 - step**-decay each step.
        epsilon: added to squared gradients.
        least: what the root mean square of a variable counts as, at least.
        threshold: what the root mean square of a step has at most, before it is scaled.
        rest: as of `Optimizer`.

    >>> v = pb.Variable([[1.0, 1.0]])
    >>> optimizer = pb.optimizers.Adafactor(0.5)
    >>> optimizer.apply_gradients([(pb.asarray([[2.0, 2.0]]), v)])
    >>> v.numpy().tolist(), [(name, slot.shape) for _, name, slot in optimizer.slot_variables()]
    ([[0.5, 0.5]], [('rows', (1,)), ('columns', (2,))])
    """

    takes_step = True
    #: The first two for variables of two axes or more, the last one for others.
    slot_names: Sequence[str] = ("rows", "columns", "mean_square")

    def __init__(
        self,
        learning_rate: LearningRate = 0.01,
        decay: float = 0.8,
        epsilon: float = 1e-30,
        least: float = 1e-3,
        threshold: float = 1.0,
        **rest: Any,
    ) -> None:
        settings = {"decay": decay, "epsilon": epsilon, "least": least, "threshold": threshold}
        super().__init__(learning_rate, settings, **rest)

    def slot_shape(self, variable: Variable, name: str) -> Sequence[int]:
        """The shape of a slot."""
        shape = variable.shape
        return {"rows": shape[:-1], "columns": (*shape[:-2], *shape[-1:])}.get(name, shape)

    def update(self, variable: Variable, gradient: Tensor, rate: Any, step: int) -> None:
        """Moves one variable."""
        factored = variable.ndim >= 2
        names = self.slot_names[:2] if factored else self.slot_names[2:]
        slots = [self.slot(variable, name) for name in names]
        op = "adafactor_update" if factored else "adafactor_vector_update"
        moved = OPS[op].function(variable, gradient, *slots, rate, step, **self.settings)
        for one, value in zip((variable, *slots), moved, strict=True):
            one.assign(value)
