"""One step of each optimizer that divides by the size of past gradients (see optimizer_updates)."""

from __future__ import annotations

from typing import Any

from pullback import errors
from pullback.dispatch import op
from pullback.ops.arithmetic import abs, maximum, minimum, sign
from pullback.ops.exponential import sqrt
from pullback.ops.manipulation import expand_dims
from pullback.ops.optimizer_updates import decayed, moments, share, stored, update
from pullback.ops.precision import narrowed, widened
from pullback.ops.reductions import mean, sum
from pullback.ops.selection import where
from pullback.shapes import Shape, checked
from pullback.spec import ACCUMULATED
from pullback.tensor import Tensor, TensorLike

__all__ = [
    "adadelta_update",
    "adafactor_update",
    "adafactor_vector_update",
    "adagrad_update",
    "ftrl_update",
    "lamb_update",
    "rmsprop_update",
]


@update("mean_square")
def rmsprop_update(
    parameter: TensorLike,
    gradient: TensorLike,
    mean_square: TensorLike,
    learning_rate: TensorLike,
    *,
    rho: float = 0.9,
    epsilon: float = 1e-7,
    weight_decay: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """A step of RMSprop (Hinton, 2012, lecture 6e).

    Args:
        parameter: what is learned.
        gradient: of the loss, in the parameter's shape.
        mean_square: the decaying mean of squared gradients; zeros at first.
        learning_rate: the size of the step.
        rho: what is left of mean_square each step.
        epsilon: what is added to its root.
        weight_decay: how much of the parameter the gradient gains (L2 regularization).

    Returns:
        The parameter and mean_square after the step.

    Raises:
        ShapeError: when the shapes differ.

    >>> parameter, square = pb.rmsprop_update([1.0], [2.0], [4.0], 0.5, epsilon=0.0)
    >>> parameter.tolist(), square.tolist()
    ([0.5], [4.0])
    """
    p, g, old = widened(parameter), decayed(parameter, gradient, weight_decay), widened(mean_square)
    square = old + (g * g - old) * (1 - rho)
    change = g / (sqrt(square) + epsilon)
    return narrowed(p - change * learning_rate, parameter), narrowed(square, mean_square)


@update("accumulator")
def adagrad_update(
    parameter: TensorLike,
    gradient: TensorLike,
    accumulator: TensorLike,
    learning_rate: TensorLike,
    *,
    epsilon: float = 1e-7,
    weight_decay: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """A step of AdaGrad (Duchi et al., 2011).

    Args:
        parameter: what is learned.
        gradient: of the loss, in the parameter's shape.
        accumulator: the sum of squared gradients; zeros, or a little more, at first.
        learning_rate: the size of the step.
        epsilon: what is added to its root.
        weight_decay: how much of the parameter the gradient gains (L2 regularization).

    Returns:
        The parameter and the accumulator after the step.

    Raises:
        ShapeError: when the shapes differ.

    >>> parameter, total = pb.adagrad_update([1.0], [2.0], [0.0], 0.5, epsilon=0.0)
    >>> parameter.tolist(), total.tolist()
    ([0.5], [4.0])
    """
    p, g = widened(parameter), decayed(parameter, gradient, weight_decay)
    total = widened(accumulator) + g * g
    change = g / (sqrt(total) + epsilon)
    return narrowed(p - change * learning_rate, parameter), narrowed(total, accumulator)


@update("mean_square", "mean_change")
def adadelta_update(
    parameter: TensorLike,
    gradient: TensorLike,
    mean_square: TensorLike,
    mean_change: TensorLike,
    learning_rate: TensorLike,
    *,
    rho: float = 0.95,
    epsilon: float = 1e-7,
    weight_decay: float = 0.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """A step of Adadelta (Zeiler, 2012).

    Args:
        parameter: what is learned.
        gradient: of the loss, in the parameter's shape.
        mean_square: the decaying mean of squared gradients; zeros at first.
        mean_change: the decaying mean of squared changes; zeros at first.
        learning_rate: a factor on the change; 1 in the paper.
        rho: what is left of both means each step.
        epsilon: what is added to both.
        weight_decay: how much of the parameter the gradient gains (L2 regularization).

    Returns:
        The parameter, mean_square and mean_change after the step.

    Raises:
        ShapeError: when the shapes differ.

    >>> new = pb.adadelta_update([1.0], [2.0], [4.0], [4.0], 1.0, epsilon=0.0)
    >>> new[0].tolist()
    [-1.0]
    """
    p, g = widened(parameter), decayed(parameter, gradient, weight_decay)
    old, past = widened(mean_square), widened(mean_change)
    square = old + (g * g - old) * (1 - rho)
    change = g * (sqrt(past + epsilon) / sqrt(square + epsilon))
    return (
        narrowed(p - change * learning_rate, parameter),
        narrowed(square, mean_square),
        narrowed(past + (change * change - past) * (1 - rho), mean_change),
    )


@update("accumulator", "linear")
def ftrl_update(
    parameter: TensorLike,
    gradient: TensorLike,
    accumulator: TensorLike,
    linear: TensorLike,
    learning_rate: TensorLike,
    *,
    power: float = -0.5,
    l1: float = 0.0,
    l2: float = 0.0,
    beta: float = 0.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """A step of FTRL-Proximal (McMahan et al., 2013, algorithm 1).

    Args:
        parameter: what is learned.
        gradient: of the loss, in the parameter's shape.
        accumulator: the sum of squared gradients; 0.1, or so, at first.
        linear: the adjusted sum of gradients; zeros at first.
        learning_rate: alpha of the paper.
        power: how the learning rate falls with the accumulator.
        l1: the weight of the sum of |parameter|: what is smaller becomes 0.
        l2: the weight of half the sum of parameter**2.
        beta: what is added to the root of the accumulator.

    Returns:
        The parameter, the accumulator and linear after the step.

    Raises:
        ShapeError: when the shapes differ.

    >>> new = pb.ftrl_update([0.0], [2.0], [0.0], [0.0], 0.5)
    >>> new[0].tolist(), new[2].tolist()
    ([-0.5], [2.0])
    """
    p, g, old = widened(parameter), widened(gradient), widened(accumulator)
    total = old + g * g
    # An accumulator of 0 to a negative power would be infinite, upside down it is 0.
    rate, before = total ** (-power), old ** (-power)
    direction = widened(linear) + g - (rate - before) / learning_rate * p
    pull = sign(direction) * l1 - direction
    slope = (rate + beta) / learning_rate + 2 * l2
    moved = where(abs(direction) > l1, pull / where(slope == 0, 1, slope), 0)
    return narrowed(moved, parameter), narrowed(total, accumulator), narrowed(direction, linear)


# By the size of a whole parameter -------------------------------------------------------------


@update("m", "v")
def lamb_update(
    parameter: TensorLike,
    gradient: TensorLike,
    m: TensorLike,
    v: TensorLike,
    learning_rate: TensorLike,
    step: TensorLike,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-6,
    weight_decay: float = 0.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """A step of LAMB (You et al., 2020, algorithm 2): Adam, as long as the parameter is large.

    Args:
        parameter: what is learned.
        gradient: of the loss, in the parameter's shape.
        m: the decaying mean of gradients; zeros at first.
        v: the decaying mean of squared gradients; zeros at first.
        learning_rate: the length of the step, as a share of the parameter's norm.
        step: which step this is, from 1.
        beta1: what is left of m each step.
        beta2: what is left of v each step.
        epsilon: what the root of v has at least, nearly.
        weight_decay: the share of the parameter in the direction.

    Returns:
        The parameter, m and v after the step. A parameter or a direction of norm 0 is not scaled.

    Raises:
        ShapeError: when the shapes differ.

    >>> parameter, m, v = pb.lamb_update([4.0], [2.0], [0.0], [0.0], 0.5, 1)
    >>> print(f"{parameter.item():.4f} {m.item():.4f} {v.item():.4f}")
    2.0000 0.2000 0.0040
    """
    p, g = widened(parameter), widened(gradient)
    first, second = moments(g, m, v, beta1, beta2)
    root = sqrt(second / share(beta2, step)) + epsilon
    change = first / share(beta1, step) / root
    if weight_decay:
        change = change + p * weight_decay
    size, length = sqrt(sum(p * p)), sqrt(sum(change * change))
    whole = (size > 0) & (length > 0)
    ratio = where(whole, size / where(whole, length, 1), 1)
    return (
        narrowed(p - change * (ratio * learning_rate), parameter),
        narrowed(first, m),
        narrowed(second, v),
    )


def _factored_shapes(
    parameter: Shape,
    gradient: Shape,
    rows: Shape,
    columns: Shape,
    learning_rate: Shape,
    step: Shape,
    **_: Any,
) -> list[Shape]:
    """The parameter's shape, and those of the means over its last and its last but one axis."""
    if len(parameter) < 2:
        raise errors.ShapeError(
            f"factors need a parameter of two axes or more, got {parameter}; "
            f"adafactor_vector_update takes others"
        )
    expected = {
        "gradient": (gradient, parameter),
        "rows": (rows, parameter[:-1]),
        "columns": (columns, (*parameter[:-2], parameter[-1])),
        "learning_rate": (learning_rate, ()),
        "step": (step, ()),
    }
    for name, (shape, wanted) in expected.items():
        if shape != wanted:
            raise errors.ShapeError(f"{name} must have shape {wanted}, got {shape}")
    return [parameter, rows, columns]


@op(
    shape=_factored_shapes,
    dtype=stored(2),
    accuracy=ACCUMULATED,
    differentiable=False,
    outputs=("new_parameter", "new_rows", "new_columns"),
    normalize=checked(_factored_shapes),
)
def adafactor_update(
    parameter: TensorLike,
    gradient: TensorLike,
    rows: TensorLike,
    columns: TensorLike,
    learning_rate: TensorLike,
    step: TensorLike,
    *,
    decay: float = 0.8,
    epsilon: float = 1e-30,
    least: float = 1e-3,
    threshold: float = 1.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """A step of Adafactor (Shazeer and Stern, 2018, algorithm 4): squares kept by row and column.

    The rate is min(learning_rate, 1 / sqrt(step)) times the parameter's root mean square.

    Args:
        parameter: what is learned, (..., n, m).
        gradient: of the loss, in the parameter's shape.
        rows: the decaying mean of squared gradients over the columns, (..., n); zeros at first.
        columns: the same over the rows, (..., m); zeros at first.
        learning_rate: the largest relative size of the step.
        step: which step this is, from 1.
        decay: rows and columns keep 1 - step**-decay each step.
        epsilon: added to squared gradients.
        least: what the root mean square of the parameter has at least.
        threshold: what the root mean square of the step has at most, before it is scaled.

    Returns:
        The parameter, rows and columns after the step.

    Raises:
        ShapeError: when the shapes do not fit.

    >>> new = pb.adafactor_update([[1.0, 1.0]], [[2.0, 2.0]], [0.0], [0.0, 0.0], 0.5, 1)
    >>> [one.tolist() for one in new]
    [[[0.5, 0.5]], [4.0], [4.0, 4.0]]
    """
    if not parameter.size:
        return parameter, rows, columns  # of nothing there is no mean
    p, g = widened(parameter), widened(gradient)
    square, weight = g * g + epsilon, step ** (-decay)
    old_rows, old_columns = widened(rows), widened(columns)
    by_row = old_rows + (mean(square, axis=-1) - old_rows) * weight
    by_column = old_columns + (mean(square, axis=-2) - old_columns) * weight
    # The square roots apart: the product of two small means would be 0.
    level = mean(by_row, axis=-1, keepdims=True)
    root = expand_dims(sqrt(by_row / level), axis=-1) * expand_dims(sqrt(by_column), axis=-2)
    moved = _scaled(p, g / root, learning_rate, step, least, threshold)
    return narrowed(moved, parameter), narrowed(by_row, rows), narrowed(by_column, columns)


@update("mean_square")
def adafactor_vector_update(
    parameter: TensorLike,
    gradient: TensorLike,
    mean_square: TensorLike,
    learning_rate: TensorLike,
    step: TensorLike,
    *,
    decay: float = 0.8,
    epsilon: float = 1e-30,
    least: float = 1e-3,
    threshold: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """A step of Adafactor for what has no rows (Shazeer and Stern, 2018, algorithm 5).

    Args:
        parameter: what is learned.
        gradient: of the loss, in the parameter's shape.
        mean_square: the decaying mean of squared gradients; zeros at first.
        learning_rate: as of `adafactor_update`.
        step: which step this is, from 1.
        decay: as of `adafactor_update`.
        epsilon: as of `adafactor_update`.
        least: as of `adafactor_update`.
        threshold: as of `adafactor_update`.

    Returns:
        The parameter and mean_square after the step.

    Raises:
        ShapeError: when the shapes differ.

    >>> new = pb.adafactor_vector_update([1.0, 1.0], [2.0, 2.0], [0.0, 0.0], 0.5, 1)
    >>> [one.tolist() for one in new]
    [[0.5, 0.5], [4.0, 4.0]]
    """
    if not parameter.size:
        return parameter, mean_square
    p, g, old = widened(parameter), widened(gradient), widened(mean_square)
    square = old + (g * g + epsilon - old) * step ** (-decay)
    moved = _scaled(p, g / sqrt(square), learning_rate, step, least, threshold)
    return narrowed(moved, parameter), narrowed(square, mean_square)


def _scaled(
    p: Tensor, change: Tensor, learning_rate: Any, step: Any, least: float, threshold: float
) -> Tensor:
    """The parameter after a change, cut to `threshold` and as large as the parameter is."""
    length = maximum(sqrt(mean(change * change)) / threshold, 1)
    rate = minimum(learning_rate, 1 / sqrt(step)) * maximum(sqrt(mean(p * p)), least)
    return p - change * (rate / length)
