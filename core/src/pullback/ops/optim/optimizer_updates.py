"""Update steps of optimizers: a parameter and its slots in, their new values out.

They are ops so that a backend may make each of them one pass over memory. None is differentiable,
and none writes into its inputs. `learning_rate` and `step` are numbers or 0-d tensors; steps count
from 1. 16-bit parameters are updated in float32 and rounded once. A slot keeps its own dtype, so
that a 16-bit parameter may have float32 slots. Hyperparameters have no defaults here: the
optimizers have them. What is optional, such as weight decay, is off by default.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from pullback import dtypes, errors
from pullback._dispatch import op
from pullback._dispatch.definition import OpFunction
from pullback.dtypes import DTypeRule, Operands, Resolution, float32, float64
from pullback.ops.arithmetic import abs, maximum, sign
from pullback.ops.exponential import exp, expm1, sqrt
from pullback.ops.precision import narrowed, widened
from pullback.shapes import Shape, ShapeRule, checked
from pullback.spec import ACCUMULATED
from pullback.tensor import Tensor

__all__: list[str] = []


def stored(slots: int) -> DTypeRule:
    """Parameter, gradient and slots keep their dtypes; what follows is float32 or float64."""

    @DTypeRule
    def rule(operands: Operands, **_: object) -> Resolution:
        """Arrays keep their real floating dtypes; numbers in float32, or float64 beside that."""
        keep = dtypes.each("real floating")
        kept = [keep((operand,)).inputs[0] for operand in operands[: 2 + slots]]
        number = float64 if kept[0] == float64 else float32
        outputs = [dtype for dtype in (kept[0], *kept[2:]) if dtype is not None]
        numbers = (number,) * (len(operands) - 2 - slots)
        return Resolution((*kept, *numbers), tuple(outputs))

    return rule


def _shapes_of(slots: int, numbers: int) -> ShapeRule:
    def rule(*inputs: Shape, **_: object) -> Shape | list[Shape]:
        """The parameter's shape, for the slots too; numbers are 0-d."""
        arrays = 2 + slots - numbers
        for shape in inputs[1:arrays]:
            if shape != inputs[0]:
                raise errors.ShapeError(
                    f"gradient and slots must have the parameter's shape {inputs[0]}, got {shape}"
                )
        for shape in inputs[arrays:]:
            if shape:
                raise errors.ShapeError(
                    f"learning rate, step and other numbers must be 0-d, got shape {shape}"
                )
        if not slots:
            return inputs[0]
        return [inputs[0]] * (1 + slots - numbers) + [()] * numbers

    return rule


P = ParamSpec("P")
R = TypeVar("R")
Tensors = TypeVar("Tensors", bound="tuple[Tensor, ...]")


def update(*slots: str, numbers: int = 0) -> Callable[[Callable[P, R]], OpFunction[P, R]]:
    """`@op` for an update with these slots; the last `numbers` of them are 0-d."""
    count = len(slots)
    rule = _shapes_of(count, numbers)
    # ACCUMULATED: a weighted sum of old and new values that may cancel.
    return op(
        shape=rule,
        dtype=stored(count),
        accuracy=ACCUMULATED,
        differentiable=False,
        public=False,
        update=True,
        outputs=("new_parameter", *(f"new_{slot}" for slot in slots)) if slots else ("out",),
        # Shapes that would broadcast are an error, which a kernel would not report.
        normalize=checked(rule),
    )


def rounded(values: Tensors, olds: Tensors) -> Tensors:
    """The new values in the dtypes of the old ones, each rounded once."""
    return tuple(map(narrowed, values, olds))  # type: ignore[return-value]


@update()
def sgd_update(
    parameter: Tensor, gradient: Tensor, learning_rate: Tensor, *, weight_decay: float = 0.0
) -> Tensor:
    """A step of stochastic gradient descent (Robbins and Monro, 1951).

    Args:
        parameter: the parameter before the step.
        gradient: the gradient of the loss, in the parameter's shape.
        learning_rate: the size of the step.
        weight_decay: the coefficient of L2 regularization: this times the parameter is added
            to the gradient.

    Returns:
        parameter - learning_rate * gradient.

    Raises:
        ShapeError: if the shapes differ.

    >>> pb.ops.sgd_update([1.0, 2.0], [2.0, 4.0], 0.5).tolist()
    [0.0, 0.0]
    """
    p, g = widened(parameter), decayed(parameter, gradient, weight_decay)
    return narrowed(p - g * learning_rate, parameter)


def decayed(parameter: Tensor, gradient: Tensor, weight_decay: float) -> Tensor:
    g = widened(gradient)
    return g + widened(parameter) * weight_decay if weight_decay else g


@update("velocity")
def momentum_update(
    parameter: Tensor,
    gradient: Tensor,
    velocity: Tensor,
    learning_rate: Tensor,
    *,
    momentum: float,
    nesterov: bool = False,
    weight_decay: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """A step of gradient descent with momentum (Polyak, 1964; Sutskever et al., 2013).

    Args:
        parameter: the parameter before the step.
        gradient: the gradient of the loss, in the parameter's shape.
        velocity: the decaying sum of gradients; zeros before the first step.
        learning_rate: the size of the step.
        momentum: the decay rate of the velocity.
        nesterov: True for Nesterov momentum.
        weight_decay: the coefficient of L2 regularization: this times the parameter is added
            to the gradient.

    Returns:
        The parameter and the velocity after the step.

    Raises:
        ShapeError: if the shapes differ.

    >>> parameter, velocity = pb.ops.momentum_update([1.0], [2.0], [4.0], 0.5, momentum=0.5)
    >>> parameter.tolist(), velocity.tolist()
    ([-1.0], [4.0])
    """
    p, g = widened(parameter), decayed(parameter, gradient, weight_decay)
    v = widened(velocity) * momentum + g
    step = g + v * momentum if nesterov else v
    return rounded((p - step * learning_rate, v), (parameter, velocity))


# Adam and its variants -------------------------------------------------------------------------


def moments(g: Tensor, m: Tensor, v: Tensor, beta1: float, beta2: float) -> tuple[Tensor, Tensor]:
    """The decaying means of the gradient and of its square, after this step."""
    first, second = widened(m), widened(v)
    return first + (g - first) * (1 - beta1), second + (g * g - second) * (1 - beta2)


def bias_correction(beta: float, step: Tensor) -> Tensor | float:
    """1 - beta**step, the sum of the weights in a decaying mean, computed without cancellation."""
    return -expm1(step * math.log(beta)) if beta else 1


@update("m", "v")
def adam_update(
    parameter: Tensor,
    gradient: Tensor,
    m: Tensor,
    v: Tensor,
    learning_rate: Tensor,
    step: Tensor,
    *,
    beta1: float,
    beta2: float,
    epsilon: float,
    weight_decay: float = 0.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """A step of Adam (Kingma and Ba, 2015, algorithm 1); with weight decay, AdamW.

    Args:
        parameter: the parameter before the step.
        gradient: the gradient of the loss, in the parameter's shape.
        m: the decaying mean of gradients; zeros before the first step.
        v: the decaying mean of squared gradients; zeros before the first step.
        learning_rate: the size of the step.
        step: the number of the step, from 1.
        beta1: the decay rate of m.
        beta2: the decay rate of v.
        epsilon: added to sqrt(v) for numerical stability.
        weight_decay: the coefficient of decoupled weight decay (Loshchilov and Hutter, 2019): this
            times the learning rate times the parameter is subtracted.

    Returns:
        The parameter, m and v after the step.

    Raises:
        ShapeError: if the shapes differ.

    >>> parameter, m, v = pb.ops.adam_update(
    ...     [1.0], [2.0], [0.0], [0.0], 0.5, 1, beta1=0.9, beta2=0.999, epsilon=1e-8
    ... )
    >>> print(f"{parameter.item():.4f} {m.item():.4f} {v.item():.4f}")
    0.5000 0.2000 0.0040
    """
    p, g = widened(parameter), widened(gradient)
    first, second = moments(g, m, v, beta1, beta2)
    root = sqrt(second / bias_correction(beta2, step)) + epsilon
    change = first / bias_correction(beta1, step) / root
    if weight_decay:
        change = change + p * weight_decay
    return rounded((p - change * learning_rate, first, second), (parameter, m, v))


@update("m", "v", "v_max")
def amsgrad_update(
    parameter: Tensor,
    gradient: Tensor,
    m: Tensor,
    v: Tensor,
    v_max: Tensor,
    learning_rate: Tensor,
    step: Tensor,
    *,
    beta1: float,
    beta2: float,
    epsilon: float,
    weight_decay: float = 0.0,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """A step of AMSGrad (Reddi et al., 2018): Adam divided by the largest v so far.

    Args:
        parameter: the parameter before the step.
        gradient: the gradient of the loss, in the parameter's shape.
        m: the decaying mean of gradients; zeros before the first step.
        v: the decaying mean of squared gradients; zeros before the first step.
        v_max: the largest v so far; zeros before the first step.
        learning_rate: the size of the step.
        step: the number of the step, from 1.
        beta1: the decay rate of m.
        beta2: the decay rate of v.
        epsilon: added to sqrt(v_max) for numerical stability.
        weight_decay: as for `adam_update`.

    Returns:
        The parameter, m, v and v_max after the step.

    Raises:
        ShapeError: if the shapes differ.

    >>> new = pb.ops.amsgrad_update(
    ...     [1.0], [2.0], [0.0], [0.0], [0.0], 0.5, 1, beta1=0.9, beta2=0.999, epsilon=1e-8
    ... )
    >>> print(f"{new[0].item():.4f}")
    0.5000
    """
    p, g = widened(parameter), widened(gradient)
    first, second = moments(g, m, v, beta1, beta2)
    largest = maximum(widened(v_max), second)
    root = sqrt(largest / bias_correction(beta2, step)) + epsilon
    change = first / bias_correction(beta1, step) / root
    if weight_decay:
        change = change + p * weight_decay
    return rounded((p - change * learning_rate, first, second, largest), (parameter, m, v, v_max))


@update("m", "v", "total", numbers=1)
def nadam_update(
    parameter: Tensor,
    gradient: Tensor,
    m: Tensor,
    v: Tensor,
    total: Tensor,
    learning_rate: Tensor,
    step: Tensor,
    *,
    beta1: float,
    beta2: float,
    epsilon: float,
    momentum_decay: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """A step of Nadam (Dozat, 2016, algorithm 2): Adam that looks ahead.

    Args:
        parameter: the parameter before the step.
        gradient: the gradient of the loss, in the parameter's shape.
        m: the decaying mean of gradients; zeros before the first step.
        v: the decaying mean of squared gradients; zeros before the first step.
        total: 1 minus the product of the momenta of all steps, a number; 0 before the first step.
        learning_rate: the size of the step.
        step: the number of the step, from 1.
        beta1: the decay rate of m, and the limit of the momentum.
        beta2: the decay rate of v.
        epsilon: added to sqrt(v) for numerical stability.
        momentum_decay: the momentum of a step is beta1 * (1 - 0.96**(step * momentum_decay) / 2).

    Returns:
        The parameter, m, v and total after the step.

    Raises:
        ShapeError: if the shapes differ.

    >>> parameter, m, v, total = pb.ops.nadam_update(
    ...     [1.0], [2.0], [0.0], [0.0], 0.0, 0.5, 1,
    ...     beta1=0.9, beta2=0.999, epsilon=1e-8, momentum_decay=0.004,
    ... )
    >>> print(f"{m.item():.4f} {v.item():.4f} {total.item():.4f}")
    0.2000 0.0040 0.5499
    """
    p, g = widened(parameter), widened(gradient)
    first, second = moments(g, m, v, beta1, beta2)
    # The momentum of this step and of the next one.
    mu, mu_next = (
        (1 - exp(t * (momentum_decay * math.log(0.96))) * 0.5) * beta1 for t in (step, step + 1)
    )
    # 1 - product of momenta, as the mean of ones with these momenta: its digits do not cancel.
    summed = total * mu + (1 - mu)
    corrected = first * (mu_next / (summed * mu_next + (1 - mu_next))) + g * ((1 - mu) / summed)
    change = corrected / (sqrt(second / bias_correction(beta2, step)) + epsilon)
    return rounded((p - change * learning_rate, first, second, summed), (parameter, m, v, total))


@update("m", "u")
def adamax_update(
    parameter: Tensor,
    gradient: Tensor,
    m: Tensor,
    u: Tensor,
    learning_rate: Tensor,
    step: Tensor,
    *,
    beta1: float,
    beta2: float,
    epsilon: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """A step of AdaMax (Kingma and Ba, 2015, section 7.1): Adam by the largest recent gradient.

    Args:
        parameter: the parameter before the step.
        gradient: the gradient of the loss, in the parameter's shape.
        m: the decaying mean of gradients; zeros before the first step.
        u: the decaying maximum of their sizes; zeros before the first step.
        learning_rate: the size of the step.
        step: the number of the step, from 1.
        beta1: the decay rate of m.
        beta2: the decay rate of u.
        epsilon: added to u for numerical stability.

    Returns:
        The parameter, m and u after the step.

    Raises:
        ShapeError: if the shapes differ.

    >>> parameter, m, u = pb.ops.adamax_update(
    ...     [1.0], [2.0], [0.0], [0.0], 0.5, 1, beta1=0.9, beta2=0.999, epsilon=1e-8
    ... )
    >>> print(f"{parameter.item():.4f} {u.item():.4f}")
    0.5000 2.0000
    """
    p, g, first = widened(parameter), widened(gradient), widened(m)
    first = first + (g - first) * (1 - beta1)
    largest = maximum(widened(u) * beta2, abs(g))
    change = first / ((largest + epsilon) * bias_correction(beta1, step))
    return rounded((p - change * learning_rate, first, largest), (parameter, m, u))


@update("m")
def lion_update(
    parameter: Tensor,
    gradient: Tensor,
    m: Tensor,
    learning_rate: Tensor,
    *,
    beta1: float,
    beta2: float,
    weight_decay: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """A step of Lion (Chen et al., 2023): as large in every element as the learning rate.

    Args:
        parameter: the parameter before the step.
        gradient: the gradient of the loss, in the parameter's shape.
        m: the decaying mean of gradients; zeros before the first step.
        learning_rate: the size of the step.
        beta1: the weight of m in the direction.
        beta2: the decay rate of m.
        weight_decay: as for `adam_update`.

    Returns:
        The parameter and m after the step.

    Raises:
        ShapeError: if the shapes differ.

    >>> parameter, m = pb.ops.lion_update(
    ...     [1.0], [2.0], [0.0], 0.5, beta1=0.9, beta2=0.99
    ... )
    >>> parameter.tolist()
    [0.5]
    """
    p, g, old = widened(parameter), widened(gradient), widened(m)
    change = sign(old * beta1 + g * (1 - beta1))
    if weight_decay:
        change = change + p * weight_decay
    new = old + (g - old) * (1 - beta2)
    return rounded((p - change * learning_rate, new), (parameter, m))
