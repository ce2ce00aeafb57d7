"""Update steps of optimizers that divide by the size of past gradients."""

from __future__ import annotations

from pullback.ops.arithmetic import abs, maximum, sign
from pullback.ops.exponential import sqrt
from pullback.ops.optim.optimizer_updates import decayed, rounded, update
from pullback.ops.precision import widened
from pullback.ops.selection import where
from pullback.tensor import Tensor

__all__: list[str] = []


@update("mean_square")
def rmsprop_update(
    parameter: Tensor,
    gradient: Tensor,
    mean_square: Tensor,
    learning_rate: Tensor,
    *,
    rho: float,
    epsilon: float,
    weight_decay: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """A step of RMSprop (Hinton, 2012, lecture 6e).

    Args:
        parameter: the parameter before the step.
        gradient: the gradient of the loss, in the parameter's shape.
        mean_square: the decaying mean of squared gradients; zeros before the first step.
        learning_rate: the size of the step.
        rho: the decay rate of mean_square.
        epsilon: added to its root for numerical stability.
        weight_decay: the coefficient of L2 regularization: this times the parameter is added
            to the gradient.

    Returns:
        The parameter and mean_square after the step.

    Raises:
        ShapeError: if the shapes differ.

    >>> parameter, square = pb.ops.rmsprop_update([1.0], [2.0], [4.0], 0.5, rho=0.9, epsilon=0.0)
    >>> parameter.tolist(), square.tolist()
    ([0.5], [4.0])
    """
    p, g, old = widened(parameter), decayed(parameter, gradient, weight_decay), widened(mean_square)
    square = old + (g * g - old) * (1 - rho)
    change = g / (sqrt(square) + epsilon)
    return rounded((p - change * learning_rate, square), (parameter, mean_square))


@update("mean_square", "mean", "velocity")
def rmsprop_momentum_update(
    parameter: Tensor,
    gradient: Tensor,
    mean_square: Tensor,
    mean: Tensor,
    velocity: Tensor,
    learning_rate: Tensor,
    *,
    rho: float,
    epsilon: float,
    momentum: float,
    centered: bool = False,
    weight_decay: float = 0.0,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """A step of RMSprop with momentum, or by the variance of gradients (Graves, 2013, section 4.2).

    Args:
        parameter: the parameter before the step.
        gradient: the gradient of the loss, in the parameter's shape.
        mean_square: the decaying mean of squared gradients; zeros before the first step.
        mean: the decaying mean of gradients; zeros before the first step.
        velocity: the decaying sum of changes; zeros before the first step.
        learning_rate: the size of the step.
        rho: the decay rate of both means.
        epsilon: added to the root for numerical stability.
        momentum: the decay rate of the velocity.
        centered: True to divide by the standard deviation of gradients, not by their size.
        weight_decay: the coefficient of L2 regularization: this times the parameter is added
            to the gradient.

    Returns:
        The parameter, mean_square, mean and velocity after the step.

    Raises:
        ShapeError: if the shapes differ.

    >>> new = pb.ops.rmsprop_momentum_update(
    ...     [1.0], [2.0], [4.0], [0.0], [1.0], 0.5, rho=0.9, epsilon=0.0, momentum=0.9
    ... )
    >>> print(f"{new[0].item():.2f} {new[3].item():.2f}")
    0.05 1.90
    """
    p, g = widened(parameter), decayed(parameter, gradient, weight_decay)
    square, center = widened(mean_square), widened(mean)
    square = square + (g * g - square) * (1 - rho)
    center = center + (g - center) * (1 - rho)
    size = sqrt(maximum(square - center * center, 0)) if centered else sqrt(square)
    speed = widened(velocity) * momentum + g / (size + epsilon)
    return rounded(
        (p - speed * learning_rate, square, center, speed), (parameter, mean_square, mean, velocity)
    )


@update("accumulator")
def adagrad_update(
    parameter: Tensor,
    gradient: Tensor,
    accumulator: Tensor,
    learning_rate: Tensor,
    *,
    epsilon: float,
    weight_decay: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """A step of AdaGrad (Duchi et al., 2011).

    Args:
        parameter: the parameter before the step.
        gradient: the gradient of the loss, in the parameter's shape.
        accumulator: the sum of squared gradients; zeros, or small numbers, before the first step.
        learning_rate: the size of the step.
        epsilon: added to its root for numerical stability.
        weight_decay: the coefficient of L2 regularization: this times the parameter is added
            to the gradient.

    Returns:
        The parameter and the accumulator after the step.

    Raises:
        ShapeError: if the shapes differ.

    >>> parameter, total = pb.ops.adagrad_update([1.0], [2.0], [0.0], 0.5, epsilon=0.0)
    >>> parameter.tolist(), total.tolist()
    ([0.5], [4.0])
    """
    p, g = widened(parameter), decayed(parameter, gradient, weight_decay)
    total = widened(accumulator) + g * g
    change = g / (sqrt(total) + epsilon)
    return rounded((p - change * learning_rate, total), (parameter, accumulator))


@update("mean_square", "mean_change")
def adadelta_update(
    parameter: Tensor,
    gradient: Tensor,
    mean_square: Tensor,
    mean_change: Tensor,
    learning_rate: Tensor,
    *,
    rho: float,
    epsilon: float,
    weight_decay: float = 0.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """A step of Adadelta (Zeiler, 2012).

    Args:
        parameter: the parameter before the step.
        gradient: the gradient of the loss, in the parameter's shape.
        mean_square: the decaying mean of squared gradients; zeros before the first step.
        mean_change: the decaying mean of squared changes; zeros before the first step.
        learning_rate: a factor on the change; 1 in the paper.
        rho: the decay rate of both means.
        epsilon: added to both for numerical stability.
        weight_decay: the coefficient of L2 regularization: this times the parameter is added
            to the gradient.

    Returns:
        The parameter, mean_square and mean_change after the step.

    Raises:
        ShapeError: if the shapes differ.

    >>> new = pb.ops.adadelta_update(
    ...     [1.0], [2.0], [4.0], [4.0], 1.0, rho=0.95, epsilon=0.0
    ... )
    >>> new[0].tolist()
    [-1.0]
    """
    p, g = widened(parameter), decayed(parameter, gradient, weight_decay)
    old, past = widened(mean_square), widened(mean_change)
    square = old + (g * g - old) * (1 - rho)
    change = g * (sqrt(past + epsilon) / sqrt(square + epsilon))
    return rounded(
        (p - change * learning_rate, square, past + (change * change - past) * (1 - rho)),
        (parameter, mean_square, mean_change),
    )


@update("accumulator", "linear")
def ftrl_update(
    parameter: Tensor,
    gradient: Tensor,
    accumulator: Tensor,
    linear: Tensor,
    learning_rate: Tensor,
    *,
    power: float,
    l1: float = 0.0,
    l2: float = 0.0,
    beta: float = 0.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """A step of FTRL-Proximal (McMahan et al., 2013, algorithm 1).

    Args:
        parameter: the parameter before the step.
        gradient: the gradient of the loss, in the parameter's shape.
        accumulator: the sum of squared gradients; about 0.1 before the first step.
        linear: the adjusted sum of gradients; zeros before the first step.
        learning_rate: alpha of the paper.
        power: the exponent of the accumulator in the learning rate.
        l1: the coefficient of the sum of |parameter|, which makes small elements 0.
        l2: the coefficient of half the sum of parameter**2.
        beta: added to the root of the accumulator.

    Returns:
        The parameter, the accumulator and linear after the step.

    Raises:
        ShapeError: if the shapes differ.

    >>> new = pb.ops.ftrl_update([0.0], [2.0], [0.0], [0.0], 0.5, power=-0.5)
    >>> new[0].tolist(), new[2].tolist()
    ([-0.5], [2.0])
    """
    p, g, n_old = widened(parameter), widened(gradient), widened(accumulator)
    n = n_old + g * g
    # n ** power, of which an accumulator of 0 would make infinity, as its reciprocal.
    root, root_old = n ** (-power), n_old ** (-power)
    z = widened(linear) + g - (root - root_old) / learning_rate * p
    curvature = (root + beta) / learning_rate + 2 * l2
    minimum = (sign(z) * l1 - z) / where(curvature == 0, 1, curvature)
    new = where(abs(z) > l1, minimum, 0)
    return rounded((new, n, z), (parameter, accumulator, linear))
