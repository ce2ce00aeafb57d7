"""SGD, Adam and their relatives. Each is an op, which computes a step, with its slots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from pullback import errors
from pullback._dispatch.arguments import as_bool
from pullback.optimizers.checks import checked_fraction
from pullback.optimizers.optimizer import LearningRate, Optimizer, OptimizerOptions
from pullback.variable import Variable

__all__ = ["LAMB", "SGD", "Adam", "AdamW", "Adamax", "Lion", "Nadam"]


def _betas(beta1: float, beta2: float) -> dict[str, float]:
    return {"beta1": checked_fraction("beta1", beta1), "beta2": checked_fraction("beta2", beta2)}


class SGD(Optimizer):
    """Gradient descent, with or without momentum (Polyak, 1964; Sutskever et al., 2013).

    A step is the op `sgd_update`, with momentum `momentum_update`.

    Args:
        learning_rate: a number, a variable, or a function of the number of steps taken.
        momentum: the decay rate of the velocity.
        nesterov: whether to use Nesterov momentum.
        weight_decay: the factor of L2 regularization: the gradient gains weight_decay * variable.
        options: see `Optimizer`.

    >>> v = pb.Variable(1.0)
    >>> pb.optimizers.SGD(0.5).apply_gradients([(pb.asarray(1.0), v)])
    >>> float(v)
    0.5

    Raises:
        InputValueError: for a momentum outside [0, 1), or nesterov without momentum.
    """

    def __init__(
        self,
        learning_rate: LearningRate = 0.01,
        momentum: float = 0.0,
        nesterov: bool = False,
        *,
        weight_decay: float = 0.0,
        **options: Unpack[OptimizerOptions],
    ) -> None:
        settings: dict[str, Any] = {"weight_decay": weight_decay}
        nesterov = as_bool(nesterov, "nesterov")
        if not checked_fraction("momentum", momentum):
            if nesterov:
                raise errors.InputValueError("nesterov needs momentum; set momentum above 0")
            super().__init__(learning_rate, settings, **options)
            self.op = "sgd_update"
            return
        super().__init__(
            learning_rate,
            settings | {"momentum": momentum, "nesterov": nesterov},
            **options,
        )
        self.op = "momentum_update"
        self.slot_names = ("velocity",)


class Adam(Optimizer):
    """Adam (Kingma and Ba, 2015), or AMSGrad (Reddi et al., 2018).

    A step is the op `adam_update`, algorithm 1 of the paper, or `amsgrad_update`.

    Args:
        learning_rate: a number, a variable, or a function of the number of steps taken.
        beta1: the exponential decay rate of the first moment, the mean of gradients.
        beta2: the exponential decay rate of the second moment, the mean of their squares.
        epsilon: the number added to the root of the second moment for numerical stability.
        amsgrad: whether to divide by the largest second moment so far.
        options: see `Optimizer`.

    >>> v = pb.Variable(1.0)
    >>> pb.optimizers.Adam(0.5).apply_gradients([(pb.asarray(10.0), v)])
    >>> print(f"{v:.4f}")
    0.5000

    Raises:
        InputValueError: for a beta outside [0, 1).
    """

    takes_step = True
    slot_names: Sequence[str] = ("m", "v")
    op = "adam_update"

    def __init__(
        self,
        learning_rate: LearningRate = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        *,
        amsgrad: bool = False,
        **options: Unpack[OptimizerOptions],
    ) -> None:
        super().__init__(learning_rate, _betas(beta1, beta2) | {"epsilon": epsilon}, **options)
        if as_bool(amsgrad, "amsgrad"):
            self.op = "amsgrad_update"
            self.slot_names = ("m", "v", "v_max")


class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019).

    A step is the op `adam_update` or `amsgrad_update` with its `weight_decay`.

    Args:
        learning_rate: a number, a variable, or a function of the number of steps taken.
        beta1: see `Adam`.
        beta2: see `Adam`.
        epsilon: see `Adam`.
        weight_decay: the fraction of a variable, times the learning rate, that is subtracted.
        amsgrad: see `Adam`.
        options: see `Optimizer`.

    >>> v = pb.Variable(1.0)
    >>> pb.optimizers.AdamW(0.5, weight_decay=0.1).apply_gradients([(pb.asarray(10.0), v)])
    >>> print(f"{v:.4f}")
    0.4500

    Raises:
        InputValueError: for a beta outside [0, 1).
    """

    def __init__(
        self,
        learning_rate: LearningRate = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        *,
        weight_decay: float = 0.01,
        amsgrad: bool = False,
        **options: Unpack[OptimizerOptions],
    ) -> None:
        super().__init__(learning_rate, beta1, beta2, epsilon, amsgrad=amsgrad, **options)
        self.settings["weight_decay"] = weight_decay


class Nadam(Optimizer):
    """Nadam (Dozat, 2016): Adam with Nesterov momentum.

    A step is the op `nadam_update`.

    Args:
        learning_rate: a number, a variable, or a function of the number of steps taken.
        beta1: see `Adam`; the limit of the momentum.
        beta2: see `Adam`.
        epsilon: see `Adam`.
        momentum_decay: the speed at which the momentum grows from about beta1 / 2 to beta1.
        options: see `Optimizer`.

    Raises:
        InputValueError: for a beta outside [0, 1).
    """

    takes_step = True
    slot_names: Sequence[str] = ("m", "v", "total")
    op = "nadam_update"

    def __init__(
        self,
        learning_rate: LearningRate = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        *,
        momentum_decay: float = 0.004,
        **options: Unpack[OptimizerOptions],
    ) -> None:
        settings = {"epsilon": epsilon, "momentum_decay": momentum_decay}
        super().__init__(learning_rate, _betas(beta1, beta2) | settings, **options)

    def slot_shape(self, variable: Variable, name: str) -> Sequence[int]:
        """The shape of a slot; `total` is a scalar."""
        return () if name == "total" else variable.shape


class Adamax(Optimizer):
    """AdaMax (Kingma and Ba, 2015, section 7.1): Adam with the infinity norm.

    A step is the op `adamax_update`.

    Args:
        learning_rate: a number, a variable, or a function of the number of steps taken.
        beta1: see `Adam`.
        beta2: the exponential decay rate of the infinity norm of gradients.
        epsilon: the number added to that norm for numerical stability.
        options: see `Optimizer`.

    Raises:
        InputValueError: for a beta outside [0, 1).
    """

    takes_step = True
    slot_names: Sequence[str] = ("m", "u")
    op = "adamax_update"

    def __init__(
        self,
        learning_rate: LearningRate = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        **options: Unpack[OptimizerOptions],
    ) -> None:
        super().__init__(learning_rate, _betas(beta1, beta2) | {"epsilon": epsilon}, **options)


class Lion(Optimizer):
    """Lion (Chen et al., 2023): every element moves by the learning rate.

    A step is the op `lion_update`.

    Args:
        learning_rate: a number, a variable, or a function of the number of steps taken.
        beta1: the weight of the first moment, beside the gradient, in the direction of the step.
        beta2: the exponential decay rate of the first moment.
        weight_decay: see `AdamW`.
        options: see `Optimizer`.

    Raises:
        InputValueError: for a beta outside [0, 1).
    """

    slot_names: Sequence[str] = ("m",)
    op = "lion_update"

    def __init__(
        self,
        learning_rate: LearningRate = 0.0001,
        beta1: float = 0.9,
        beta2: float = 0.99,
        *,
        weight_decay: float = 0.0,
        **options: Unpack[OptimizerOptions],
    ) -> None:
        settings = _betas(beta1, beta2) | {"weight_decay": weight_decay}
        super().__init__(learning_rate, settings, **options)


class LAMB(Optimizer):
    """LAMB (You et al., 2020): Adam with steps proportional to each variable's norm.

    It is made for large batches. Exclude biases and scales from weight decay with `no_decay`. A
    step is the op `lamb_update`.

    Args:
        learning_rate: a number, a variable, or a function of the number of steps taken.
        beta1: see `Adam`.
        beta2: see `Adam`.
        epsilon: see `Adam`.
        weight_decay: the fraction of a variable that is added to the direction of its step.
        options: see `Optimizer`.

    >>> v = pb.Variable(4.0)
    >>> pb.optimizers.LAMB(0.5).apply_gradients([(pb.asarray(10.0), v)])
    >>> print(f"{v:.4f}")
    2.0000

    Raises:
        InputValueError: for a beta outside [0, 1).
    """

    takes_step = True
    slot_names: Sequence[str] = ("m", "v")
    op = "lamb_update"

    def __init__(
        self,
        learning_rate: LearningRate = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-6,
        *,
        weight_decay: float = 0.0,
        **options: Unpack[OptimizerOptions],
    ) -> None:
        settings = _betas(beta1, beta2) | {"epsilon": epsilon, "weight_decay": weight_decay}
        super().__init__(learning_rate, settings, **options)
