"""The optimizers. Each is an op with its slots; what it computes is written there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pullback import errors
from pullback.optimizers.optimizer import LearningRate, Optimizer, share
from pullback.variable import Variable

__all__ = ["LAMB", "SGD", "Adam", "AdamW", "Adamax", "Lion", "Nadam"]


def _betas(beta1: float, beta2: float) -> dict[str, float]:
    return {"beta1": share("beta1", beta1), "beta2": share("beta2", beta2)}


class SGD(Optimizer):
    """Gradient descent, with or without momentum (Polyak, 1964; Sutskever et al., 2013).

    Args:
        learning_rate: a number, a variable, or a function of the number of steps taken.
        momentum: what is left of the velocity each step.
        nesterov: looks one step of the velocity ahead.
        weight_decay: how much of a variable its gradient gains (L2 regularization).
        rest: as of `Optimizer`.

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
        **rest: Any,
    ) -> None:
        settings: dict[str, Any] = {"weight_decay": weight_decay}
        if not share("momentum", momentum):
            if nesterov:
                raise errors.InputValueError("nesterov looks along the momentum; set momentum")
            super().__init__(learning_rate, settings, **rest)
            self.op = "sgd_update"
            return
        super().__init__(
            learning_rate, settings | {"momentum": momentum, "nesterov": nesterov}, **rest
        )
        self.op = "momentum_update"
        self.slot_names = ("velocity",)


class Adam(Optimizer):
    """Adam (Kingma and Ba, 2015), or AMSGrad (Reddi et al., 2018).

    Args:
        learning_rate: a number, a variable, or a function of the number of steps taken.
        beta1: what is left of the mean of gradients each step.
        beta2: what is left of the mean of their squares each step.
        epsilon: added to the root of the latter.
        amsgrad: divides by the largest mean of squares so far.
        rest: as of `Optimizer`.

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
        **rest: Any,
    ) -> None:
        super().__init__(learning_rate, _betas(beta1, beta2) | {"epsilon": epsilon}, **rest)
        if amsgrad:
            self.op = "amsgrad_update"
            self.slot_names = ("m", "v", "v_max")


class AdamW(Adam):
    """Adam with weight decay apart from the gradient (Loshchilov and Hutter, 2019).

    Args:
        learning_rate: a number, a variable, or a function of the number of steps taken.
        beta1: as of `Adam`.
        beta2: as of `Adam`.
        epsilon: as of `Adam`.
        weight_decay: the share of a variable, times the learning rate, that is taken off.
        amsgrad: as of `Adam`.
        rest: as of `Optimizer`.

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
        **rest: Any,
    ) -> None:
        super().__init__(learning_rate, beta1, beta2, epsilon, amsgrad=amsgrad, **rest)
        self.settings["weight_decay"] = weight_decay


class Nadam(Optimizer):
    """Nadam (Dozat, 2016): Adam that looks ahead along the mean of gradients.

    Args:
        learning_rate: a number, a variable, or a function of the number of steps taken.
        beta1: as of `Adam`; what the momentum comes to.
        beta2: as of `Adam`.
        epsilon: as of `Adam`.
        momentum_decay: how soon it does; the momentum is about beta1 / 2 at first.
        rest: as of `Optimizer`.

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
        **rest: Any,
    ) -> None:
        settings = {"epsilon": epsilon, "momentum_decay": momentum_decay}
        super().__init__(learning_rate, _betas(beta1, beta2) | settings, **rest)

    def slot_shape(self, variable: Variable, name: str) -> Sequence[int]:
        """The shape of a slot: the last one is a number."""
        return () if name == "total" else variable.shape


class Adamax(Optimizer):
    """AdaMax (Kingma and Ba, 2015, section 7.1): Adam by the largest recent gradient.

    Args:
        learning_rate: a number, a variable, or a function of the number of steps taken.
        beta1: as of `Adam`.
        beta2: what is left of the largest gradient each step.
        epsilon: added to it.
        rest: as of `Optimizer`.

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
        **rest: Any,
    ) -> None:
        super().__init__(learning_rate, _betas(beta1, beta2) | {"epsilon": epsilon}, **rest)


class Lion(Optimizer):
    """Lion (Chen et al., 2023): every element moves by the learning rate.

    Args:
        learning_rate: a number, a variable, or a function of the number of steps taken.
        beta1: the share of the mean of gradients in the direction.
        beta2: what is left of that mean each step.
        weight_decay: as of `AdamW`.
        rest: as of `Optimizer`.

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
        **rest: Any,
    ) -> None:
        settings = _betas(beta1, beta2) | {"weight_decay": weight_decay}
        super().__init__(learning_rate, settings, **rest)


class LAMB(Optimizer):
    """LAMB (You et al., 2020): Adam with steps as long as a share of each variable's norm.

    Made for large batches. Leave biases and scales out of weight decay with `no_decay`.

    Args:
        learning_rate: a number, a variable, or a function of the number of steps taken.
        beta1: as of `Adam`.
        beta2: as of `Adam`.
        epsilon: as of `Adam`.
        weight_decay: the share of a variable in the direction of its step.
        rest: as of `Optimizer`.

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
        **rest: Any,
    ) -> None:
        settings = _betas(beta1, beta2) | {"epsilon": epsilon, "weight_decay": weight_decay}
        super().__init__(learning_rate, settings, **rest)
