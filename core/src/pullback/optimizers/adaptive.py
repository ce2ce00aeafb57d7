"""Optimizers with a learning rate of its own for each element."""

from __future__ import annotations

from collections.abc import Sequence

from pullback.optimizers.optimizer import LearningRate, Optimizer

__all__ = ["Adadelta", "Adagrad", "RMSprop"]


class RMSprop(Optimizer):
    """RMSprop (Hinton, 2012, lecture 6e): divides by the root of the mean square of gradients.

    Args:
        learning_rate: a number, a variable, or a function of the number of steps taken.
        rho: what is left of the mean square each step.
        epsilon: added to its root.
        weight_decay: how much of a variable its gradient gains (L2 regularization).

    >>> v = pb.Variable(1.0)
    >>> pb.optimizers.RMSprop(0.1, rho=0.0).apply_gradients([(pb.asarray(10.0), v)])
    >>> print(f"{v:.4f}")
    0.9000
    """

    slot_names: Sequence[str] = ("mean_square",)
    op = "rmsprop_update"

    def __init__(
        self,
        learning_rate: LearningRate = 0.001,
        rho: float = 0.9,
        epsilon: float = 1e-8,
        *,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(learning_rate, rho=rho, epsilon=epsilon, weight_decay=weight_decay)


class Adagrad(Optimizer):
    """AdaGrad (Duchi et al., 2011): divides by the root of the sum of squared gradients.

    Args:
        learning_rate: a number, a variable, or a function of the number of steps taken.
        epsilon: added to the root.
        weight_decay: how much of a variable its gradient gains (L2 regularization).

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
    ) -> None:
        super().__init__(learning_rate, epsilon=epsilon, weight_decay=weight_decay)


class Adadelta(Optimizer):
    """Adadelta (Zeiler, 2012): the size of its steps is that of its recent ones.

    Args:
        learning_rate: a factor on the steps; 1 in the paper.
        rho: what is left of the mean squares each step.
        epsilon: added to both of them.
        weight_decay: how much of a variable its gradient gains (L2 regularization).

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
    ) -> None:
        super().__init__(learning_rate, rho=rho, epsilon=epsilon, weight_decay=weight_decay)
