"""Update steps of optimizers that scale with the size of a whole parameter."""

from __future__ import annotations

from pullback import errors
from pullback._dispatch import op
from pullback.ops.arithmetic import maximum, minimum
from pullback.ops.exponential import sqrt
from pullback.ops.manipulation import expand_dims
from pullback.ops.optim.optimizer_updates import bias_correction, moments, rounded, stored, update
from pullback.ops.precision import widened
from pullback.ops.reductions import mean, sum
from pullback.ops.selection import where
from pullback.shapes import Shape, checked
from pullback.spec import ACCUMULATED
from pullback.tensor import Tensor

__all__: list[str] = []


@update("m", "v")
def lamb_update(
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
    """A step of LAMB (You et al., 2020, algorithm 2): Adam, scaled to the norm of the parameter.

    Args:
        parameter: the parameter before the step.
        gradient: the gradient of the loss, in the parameter's shape.
        m: the decaying mean of gradients; zeros before the first step.
        v: the decaying mean of squared gradients; zeros before the first step.
        learning_rate: the length of the step, as a fraction of the parameter's norm.
        step: the number of the step, from 1.
        beta1: the decay rate of m.
        beta2: the decay rate of v.
        epsilon: added to sqrt(v) for numerical stability.
        weight_decay: the weight of the parameter in the direction.

    Returns:
        The parameter, m and v after the step. A parameter or a direction of norm 0 is not scaled.

    Raises:
        ShapeError: if the shapes differ.

    >>> parameter, m, v = pb.ops.lamb_update(
    ...     [4.0], [2.0], [0.0], [0.0], 0.5, 1, beta1=0.9, beta2=0.999, epsilon=1e-6
    ... )
    >>> print(f"{parameter.item():.4f} {m.item():.4f} {v.item():.4f}")
    2.0000 0.2000 0.0040
    """
    p, g = widened(parameter), widened(gradient)
    first, second = moments(g, m, v, beta1, beta2)
    root = sqrt(second / bias_correction(beta2, step)) + epsilon
    change = first / bias_correction(beta1, step) / root
    if weight_decay:
        change = change + p * weight_decay
    size, length = sqrt(sum(p * p)), sqrt(sum(change * change))
    whole = (size > 0) & (length > 0)
    ratio = where(whole, size / where(whole, length, 1), 1)
    return rounded((p - change * (ratio * learning_rate), first, second), (parameter, m, v))


def _factored_shapes(
    parameter: Shape,
    gradient: Shape,
    rows: Shape,
    columns: Shape,
    learning_rate: Shape,
    step: Shape,
    **_: object,
) -> list[Shape]:
    """The parameter's shape, and those of the means over its last and its last but one axis."""
    if len(parameter) < 2:
        raise errors.ShapeError(
            f"a factored parameter must have two axes or more, got shape {parameter}; "
            f"use adafactor_vector_update"
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
    update=True,
    public=False,
)
def adafactor_update(
    parameter: Tensor,
    gradient: Tensor,
    rows: Tensor,
    columns: Tensor,
    learning_rate: Tensor,
    step: Tensor,
    *,
    decay: float,
    epsilon: float,
    least: float,
    threshold: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """A step of Adafactor (Shazeer and Stern, 2018, algorithm 4): squares kept by row and column.

    The rate is min(learning_rate, 1 / sqrt(step)) times the parameter's root mean square.

    Args:
        parameter: the parameter before the step, (..., n, m).
        gradient: the gradient of the loss, in the parameter's shape.
        rows: the decaying mean of squared gradients over the columns, (..., n); zeros before
            the first step.
        columns: the same over the rows, (..., m); zeros before the first step.
        learning_rate: the largest relative size of the step.
        step: the number of the step, from 1.
        decay: rows and columns keep 1 - step**-decay each step.
        epsilon: added to squared gradients.
        least: a lower bound on the root mean square of the parameter.
        threshold: an upper bound on the root mean square of the step, before scaling.

    Returns:
        The parameter, rows and columns after the step.

    Raises:
        ShapeError: if the shapes do not fit.

    >>> settings = {"decay": 0.8, "epsilon": 1e-30, "least": 1e-3, "threshold": 1.0}
    >>> new = pb.ops.adafactor_update(
    ...     [[1.0, 1.0]], [[2.0, 2.0]], [0.0], [0.0, 0.0], 0.5, 1, **settings
    ... )
    >>> [tensor.tolist() for tensor in new]
    [[[0.5, 0.5]], [4.0], [4.0, 4.0]]
    """
    if not parameter.size:
        return parameter, rows, columns  # an empty parameter has no mean
    p, g = widened(parameter), widened(gradient)
    square, weight = g * g + epsilon, step ** (-decay)
    old_rows, old_columns = widened(rows), widened(columns)
    r = old_rows + (mean(square, axis=-1) - old_rows) * weight
    c = old_columns + (mean(square, axis=-2) - old_columns) * weight
    # sqrt(r c / mean(r)), with a root for each factor: the product of two small means would be 0.
    r_mean = mean(r, axis=-1, keepdims=True)
    root = expand_dims(sqrt(r / r_mean), axis=-1) * expand_dims(sqrt(c), axis=-2)
    new = _scaled_step(p, g / root, learning_rate, step, least, threshold)
    return rounded((new, r, c), (parameter, rows, columns))


@update("mean_square")
def adafactor_vector_update(
    parameter: Tensor,
    gradient: Tensor,
    mean_square: Tensor,
    learning_rate: Tensor,
    step: Tensor,
    *,
    decay: float,
    epsilon: float,
    least: float,
    threshold: float,
) -> tuple[Tensor, Tensor]:
    """A step of Adafactor without factors (Shazeer and Stern, 2018, algorithm 5).

    Args:
        parameter: the parameter before the step.
        gradient: the gradient of the loss, in the parameter's shape.
        mean_square: the decaying mean of squared gradients; zeros before the first step.
        learning_rate: as for `adafactor_update`.
        step: the number of the step, from 1.
        decay: as for `adafactor_update`.
        epsilon: as for `adafactor_update`.
        least: as for `adafactor_update`.
        threshold: as for `adafactor_update`.

    Returns:
        The parameter and mean_square after the step.

    Raises:
        ShapeError: if the shapes differ.

    >>> settings = {"decay": 0.8, "epsilon": 1e-30, "least": 1e-3, "threshold": 1.0}
    >>> new = pb.ops.adafactor_vector_update(
    ...     [1.0, 1.0], [2.0, 2.0], [0.0, 0.0], 0.5, 1, **settings
    ... )
    >>> [tensor.tolist() for tensor in new]
    [[0.5, 0.5], [4.0, 4.0]]
    """
    if not parameter.size:
        return parameter, mean_square
    p, g, old = widened(parameter), widened(gradient), widened(mean_square)
    square = old + (g * g + epsilon - old) * step ** (-decay)
    new = _scaled_step(p, g / sqrt(square), learning_rate, step, least, threshold)
    return rounded((new, square), (parameter, mean_square))


def _scaled_step(
    p: Tensor, change: Tensor, learning_rate: Tensor, step: Tensor, least: float, threshold: float
) -> Tensor:
    """The parameter after a change that is clipped to `threshold` and scaled with the parameter."""
    clipping = maximum(sqrt(mean(change * change)) / threshold, 1)
    rate = minimum(learning_rate, 1 / sqrt(step)) * maximum(sqrt(mean(p * p)), least)
    return p - change * (rate / clipping)
